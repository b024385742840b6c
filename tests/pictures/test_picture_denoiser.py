"""The front door for pictures: learned from pictures, right for pictures of any size."""

import warnings

import numpy as np
import pytest
import torch

import hosm
from hosm.pictures import PictureDenoiser, picture_denoiser
from hosm.pictures.crops import Crops
from hosm.pictures.noise_level import stabilised, unstabilised
from hosm.pictures.tiles import Tile, part, tiles
from tests.tolerances import monte_carlo

# Two evaluations of a network in float32 that differ in rounding alone, on values up to 255: the
# layers add up a thousand products each, and the largest difference seen was a tenth of these.
ROUNDED = {"rtol": 1e-3, "atol": 1e-2}
SMALL = {"widths": (16, 24), "blocks": 1, "rank": 2, "crop": 32, "batch_size": 4}


def picture(seed, height=96, width=80, colour=False):
    """Smooth shades with edges, 0 to 255."""
    rng = np.random.default_rng(seed)
    down, across = np.mgrid[:height, :width] / 16
    planes = [
        np.sin(down * a + b) + np.sin(across * c + d) + 2 * (down + across * a > 4)
        for a, b, c, d in rng.random((3 if colour else 1, 4))
    ]
    planes = [255 * (p - p.min()) / np.ptp(p) for p in planes]
    return np.stack(planes, 2) if colour else planes[0]


@pytest.fixture(scope="module", params=[False, True], ids=["grey", "colour"])
def fitted(request):
    """A denoiser after few steps, a clean and a noisy picture that it has not seen."""
    pictures = [picture(seed, colour=request.param) for seed in range(6)]
    made = PictureDenoiser(max_steps=200, learning_rate=2e-3, **SMALL).fit(pictures)
    clean = picture(9, 101, 67, request.param)
    return made, clean, clean + 25 * np.random.default_rng(0).standard_normal(clean.shape)


def test_it_denoises_and_knows_its_error(fitted):
    made, clean, noisy = fitted
    found = made.denoise(noisy, 25)
    error = np.square(found.mean - clean)
    assert found.mean.shape == clean.shape and found.mean.dtype == np.float32
    assert error.mean() < (0.35 if clean.ndim == 2 else 0.75) * 625
    assert 0.25 < error.mean() / found.variance.mean() < 2
    low, high = found.interval(0.9)
    assert 0.75 < ((low < clean) & (clean < high)).mean() < 0.99


def test_units_do_not_matter(fitted):
    made, _, noisy = fitted
    one, other = made.denoise(noisy, 25), made.denoise(noisy / 255, 25 / 255)
    assert np.allclose(one.mean, 255 * other.mean, **ROUNDED)
    assert np.allclose(one.variance, 255**2 * other.variance, **ROUNDED)


def test_tiles_leave_no_seam(fitted, monkeypatch):
    made, _, noisy = fitted
    whole = made.denoise(noisy, 25)
    monkeypatch.setattr(picture_denoiser, "TILE", 24)
    tiled = made.denoise(noisy, 25)
    assert np.allclose(whole.mean, tiled.mean, **ROUNDED)
    assert np.allclose(whole.variance, tiled.variance, **ROUNDED)
    window = (40, 20, 32, 32)
    assert np.allclose(
        whole.covariance(window).diagonal().numpy(),
        tiled.variance[40:72, 20:52].ravel(),
        **ROUNDED,
    )


def test_directions_and_draws_of_a_window_are_of_its_covariance(fitted):
    found = fitted[0].denoise(fitted[2], 25)
    window = (10, 20, 12, 9)
    matrix = found.covariance(window).to_dense().double().numpy()
    values, directions = found.directions(window, 3)
    flat = directions.reshape(3, -1)
    assert np.allclose(values, np.linalg.eigvalsh(matrix)[::-1][:3], **ROUNDED)
    assert np.allclose(flat @ flat.T, np.eye(3), **ROUNDED)
    assert np.allclose(np.einsum("ki,ij,kj->k", flat, matrix, flat), values, **ROUNDED)
    draws = found.sample(4000, window, random_state=0)
    mean = found.mean[10:22, 20:29]
    assert draws.shape == (4000, *mean.shape)
    variance = np.square(draws - mean).mean(0)
    # a hundred variances: six standard errors
    assert np.allclose(variance, found.variance[10:22, 20:29], rtol=1.5 * monte_carlo(2000))
    assert np.array_equal(draws[:2], found.sample(2, window, random_state=0))
    assert found.sample(1).shape == (1, *found.mean.shape)


def test_a_noise_scale_for_each_pixel(fitted):
    made, _, noisy = fitted
    scale = np.full(noisy.shape[:2], 25.0)
    assert np.allclose(made.denoise(noisy, scale).mean, made.denoise(noisy, 25).mean, **ROUNDED)
    scale[50:] = 10
    found = made.denoise(noisy, scale)
    assert found.std[60:].mean() < 0.7 * found.std[:40].mean()


def test_counts_of_light_are_denoised_through_the_transform_and_back(fitted):
    """Mean and variance are those of the stabilised picture, and covariances are tangents."""
    made, _, noisy = fitted
    seen, gain, sigma = np.abs(noisy), 3.0, 20.0
    found = made.denoise(seen, sigma, gain)
    inner = made.denoise(stabilised(seen, gain, sigma), 1.0)
    mean, variance = unstabilised(inner.mean, inner.variance, gain, sigma)
    assert (found.sigma, found.gain) == (sigma, gain)
    assert np.allclose(found.mean, mean, **ROUNDED)
    assert np.allclose(found.variance, variance, **ROUNDED)
    window = (10, 20, 12, 9)
    covariance = found.covariance(window)
    part = found.variance[10:22, 20:29]
    assert np.allclose(covariance.diagonal().numpy(), part.ravel(), **ROUNDED)
    slope = np.sqrt(part / inner.variance[10:22, 20:29]).ravel()
    whole = slope[:, None] * inner.covariance(window).to_dense().numpy() * slope
    assert np.allclose(covariance.to_dense().numpy(), whole, **ROUNDED)
    assert slope.max() > 1.05 * slope.min()  # not one factor for all pixels


def test_noise_beyond_what_was_trained_is_told_where_the_type_tells_the_units(fitted):
    made, _, noisy = fitted
    seen = np.clip(noisy, 0, 255).astype(np.uint8)
    with pytest.warns(UserWarning) as told:
        made.denoise(seen, 90)
    assert any("trained at noise of 2 to 60" in str(each.message) for each in told)
    assert any("got 90" in str(each.message) for each in told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is clipped, too
        warnings.filterwarnings("error", message="the denoiser was trained")
        made.denoise(seen, 50)
        made.denoise(noisy / 255, 0.9)


def test_a_scaled_posterior_scales_all_its_answers(fitted):
    found = fitted[0].denoise(fitted[2], 25)
    window, wide = (0, 0, 8, 8), found.scaled(4.0)
    assert np.allclose(wide.std, 2 * found.std, **ROUNDED)
    assert np.allclose(wide.directions(window, 2)[0], 4 * found.directions(window, 2)[0])
    one, other = (each.sample(1, window, 0) - each.mean[:8, :8] for each in (found, wide))
    assert np.allclose(2 * one, other, **ROUNDED)


def test_a_saved_model_answers_alike(fitted, tmp_path):
    made, _, noisy = fitted
    made.save(tmp_path / "m.hosm")
    again = PictureDenoiser.load(tmp_path / "m.hosm")
    assert np.array_equal(made.denoise(noisy, 25).mean, again.denoise(noisy, 25).mean)
    assert again.sigma_ == made.sigma_ and again.history_ == made.history_


def test_half_precision_halves_the_file_and_keeps_three_digits(fitted, tmp_path):
    made, _, noisy = fitted
    for name, half in (("whole", False), ("half", True)):
        made.save(tmp_path / name, half=half)
    sizes = [(tmp_path / name).stat().st_size for name in ("half", "whole")]
    assert sizes[0] < 0.7 * sizes[1]
    found = PictureDenoiser.load(tmp_path / "half").denoise(noisy, 25).mean
    assert np.abs(found - made.denoise(noisy, 25).mean).mean() < 0.5


def test_the_same_seed_gives_the_same_model():
    pictures = [picture(seed) for seed in range(2)]
    means = [
        PictureDenoiser(max_steps=5, **SMALL).fit(pictures).denoise(pictures[0], 20).mean
        for _ in range(2)
    ]
    assert np.array_equal(*means)
    assert hosm.PictureDenoiser is PictureDenoiser


def test_a_training_goes_on_from_another_model(fitted, tmp_path):
    made, clean, noisy = fitted
    pictures = [picture(seed, colour=clean.ndim == 3) for seed in (20, 21)]
    options = {**SMALL, "max_steps": 1, "learning_rate": 1e-6}
    before = made.denoise(noisy, 25).mean
    near = PictureDenoiser(**options).fit(pictures, start=made).denoise(noisy, 25).mean
    anew = PictureDenoiser(**options).fit(pictures).denoise(noisy, 25).mean
    # after one step of a millionth the networks still give almost the same
    assert np.abs(near - before).max() < 0.01 * np.abs(anew - before).max()
    assert np.array_equal(made.denoise(noisy, 25).mean, before)
    with pytest.raises(ValueError, match=r"start must be a network of rank 3, .*, got rank 2"):
        PictureDenoiser(**{**options, "rank": 3}).fit(pictures, start=made)
    with pytest.raises(ValueError, match=r"start must be a network of .*, got .* channels"):
        PictureDenoiser(**options).fit([picture(0, colour=clean.ndim == 2)], start=made)
    with pytest.raises(FileNotFoundError, match="faces"):
        PictureDenoiser(**options).fit(pictures, start="faces")
    made.save(tmp_path / "m.hosm")
    again = PictureDenoiser(**options).fit(pictures, start=tmp_path / "m.hosm")
    assert np.array_equal(again.denoise(noisy, 25).mean, near)


def test_a_training_goes_on_from_the_shipped_model():
    seen = picture(0)
    made = PictureDenoiser(crop=32, batch_size=2, max_steps=1, learning_rate=1e-6)
    noisy = seen + 25 * np.random.default_rng(0).standard_normal(seen.shape)
    shipped = PictureDenoiser.pretrained(1).denoise(noisy / 255, 25 / 255).mean * 255
    found = made.fit([seen.astype(np.uint8)], start="photos").denoise(noisy, 25).mean
    assert np.abs(found - shipped).max() < 0.1  # of 255, after one step of a millionth


@pytest.mark.parametrize("turn", range(8))
def test_flips_and_turns_have_their_way_back(turn):
    pixels = np.arange(24.0).reshape(3, 4, 2)
    turned = picture_denoiser._turned(pixels, turn)
    assert np.array_equal(picture_denoiser._back(turned, turn), pixels)
    others = [picture_denoiser._turned(pixels, k) for k in range(8) if k != turn]
    assert not any(np.array_equal(turned, each) for each in others)


def test_the_mean_over_symmetries_commutes_with_them(fitted):
    made, clean, noisy = fitted
    scale = np.linspace(10, 40, noisy[..., 0].size if clean.ndim == 3 else noisy.size)
    scale = scale.reshape(noisy.shape[:2])
    one = made.denoise(noisy, scale, symmetries=8)
    turned = made.denoise(np.rot90(noisy).copy(), np.rot90(scale).copy(), symmetries=8)
    assert np.allclose(np.rot90(one.mean), turned.mean, **ROUNDED)
    plain = made.denoise(noisy, scale)
    assert np.array_equal(one.variance, plain.variance)
    assert not np.allclose(one.mean, plain.mean, **ROUNDED)
    counts = made.denoise(np.abs(noisy), 5.0, gain=2.0, symmetries=2).mean
    assert not np.allclose(counts, made.denoise(np.abs(noisy), 5.0, gain=2.0).mean, **ROUNDED)
    with pytest.raises(ValueError, match="symmetries must be a whole number from 1 to 8, got 9"):
        made.denoise(noisy, 25, symmetries=9)


def test_an_interrupted_training_goes_on_where_it_stopped(tmp_path, monkeypatch):
    pictures, options = [picture(seed) for seed in range(2)], {**SMALL, "max_steps": 6}
    monkeypatch.setattr(picture_denoiser, "VALIDATE_EVERY", 2)
    straight = PictureDenoiser(**options).fit(pictures)

    def stop(progress):
        if progress["step"] == 4:
            raise KeyboardInterrupt

    place = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        PictureDenoiser(**options, callback=stop).fit(pictures, place)
    steps = []
    resumed = PictureDenoiser(**options, callback=lambda p: steps.append(p["step"]))
    with pytest.raises(ValueError, match="must be of this run"):
        resumed.fit(pictures[:1], place)
    resumed.fit(pictures, place)
    assert steps == [6] and not place.exists()
    assert np.array_equal(*(each.denoise(pictures[0], 20).mean for each in (straight, resumed)))


def test_a_folder_of_pictures_of_any_sizes_is_read_as_it_is_needed(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for seed in range(6):
        page = picture(seed, 40 + 8 * seed, 50).astype(np.uint8)
        image.fromarray(page).save(tmp_path / f"{seed}.png")
    made = PictureDenoiser(max_steps=2, **SMALL).fit(tmp_path)
    assert made.unit_ == 255 and made.sigma_ == pytest.approx((2, 60))


@pytest.mark.parametrize(
    "pictures, text",
    [
        ([], "one picture or more"),
        ([picture(0)[:20]], "no smaller than a crop of 32"),
        ([picture(0), picture(1, colour=True)], "all be grey or all be colour"),
        ([np.full((64, 64), 7.0)], "numbers that differ"),
        ([np.full((64, 64), np.nan)], "finite numbers"),
        ([np.zeros((64, 64, 4))], "got \\(64, 64, 4\\)"),
    ],
)
def test_pictures_that_cannot_be_learned_from(pictures, text):
    with pytest.raises(ValueError, match=text):
        PictureDenoiser(max_steps=1, **SMALL).fit(pictures)


@pytest.mark.parametrize(
    "sigma, text",
    [
        (0, "sigma must be a finite number above 0, got 0"),
        (np.nan, "sigma must be"),
        (np.ones((3, 3)), "shape"),
    ],
)
def test_noise_that_cannot_be(fitted, sigma, text):
    with pytest.raises(ValueError, match=text):
        fitted[0].denoise(fitted[2], sigma)


def test_what_cannot_be_denoised_or_asked(fitted):
    made, clean, noisy = fitted
    with pytest.raises(ValueError, match="picture must have shape"):
        made.denoise(noisy[..., None], 25)
    with pytest.raises(ValueError, match="finite"):
        made.denoise(np.full_like(noisy, np.inf), 25)
    found = made.denoise(noisy, 25)
    with pytest.raises(ValueError, match="window must lie within"):
        found.sample(1, (90, 0, 32, 32))
    with pytest.raises(ValueError, match="window must lie within"):
        found.covariance((0, 0, 0, 1))
    tall = made.denoise(np.resize(noisy, (150, 80, *noisy.shape[2:])), 25)
    with pytest.raises(ValueError, match="at most 9216 pixels, got 150 x 80"):
        tall.directions((0, 0, 150, 80), 1)


# Crops and tiles ------------------------------------------------------------------------------


def test_crops_are_parts_of_the_pictures_in_all_eight_positions():
    page = np.arange(40 * 50, dtype=float).reshape(40, 50)
    crops = Crops([page], 16, 200, 2.0, 0)
    points = 2 * crops(3).view(200, 16, 16)
    assert torch.equal(points, 2 * crops(3).view(200, 16, 16))
    assert not torch.equal(points, 2 * crops(4).view(200, 16, 16))
    steps = {(int(p[0, 1] - p[0, 0]), int(p[1, 0] - p[0, 0])) for p in points}
    assert steps == {(a, b) for u in (1, -1) for v in (50, -50) for a, b in ((u, v), (v, u))}
    assert (points.amax((1, 2)) - points.amin((1, 2)) == 15 * 51).all()


@pytest.mark.parametrize("height, width, side", [(1, 1, 8), (20, 33, 8), (16, 16, 16)])
def test_tiles_cover_each_pixel_once(height, width, side):
    count = np.zeros((height, width))
    for tile in tiles(height, width, side):
        count[tile.top : tile.top + tile.height, tile.left : tile.left + tile.width] += 1
    assert (count == 1).all()


@pytest.mark.parametrize("tile", [Tile(0, 0, 5, 7), Tile(9, 3, 4, 4), Tile(3, 0, 1, 1)])
def test_a_part_is_cut_from_what_the_network_returns(tile):
    page = np.arange(13.0 * 7).reshape(13, 7)
    shapes = []

    def network(maps):
        shapes.append(maps[0].shape)
        return [maps[0], np.stack([maps[0], maps[1]], 2)]

    one, two = part((page, -page), tile, 8, 4, network)
    wanted = page[tile.top : tile.top + tile.height, tile.left : tile.left + tile.width]
    assert np.array_equal(one, wanted) and np.array_equal(two, np.stack([wanted, -wanted], 2))
    assert all(side % 4 == 0 for side in shapes[0])
