"""All figures are written: small, the same again, and with titles that can be read."""

import os
import signal
from itertools import combinations

import matplotlib as mpl
import pytest
from PIL import Image

from hosm.experiment.presenting import style
from hosm.experiment.report import figures
from hosm.experiment.report.texts import captions
from hosm.experiment.training_losses.figures import training_figure


@pytest.fixture(scope="module")
def pages(results, tmp_path_factory):
    """All figures, drawn once: the files by name, and the places of the titles by name."""
    before, places = dict(mpl.rcParams), {}

    def kept(figure, path):
        style.save_figure(figure, path)
        places[path.name] = _titles(figure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "save_figure", kept)
        paths = figures.write_all(results, tmp_path_factory.mktemp("written") / "figures")
    assert dict(mpl.rcParams) == before
    return paths, places


@pytest.fixture(scope="module")
def written(pages):
    return pages[0]


def test_every_figure_is_a_small_png_of_page_width(written):
    names = "accuracy joint whole reduction speed losses growth faster tuning curves equal-steps"
    names += " step-bias two-modes snapshots single-chains plane tabular tabular-digits"
    names += (
        " tabular-rows-whole photos photos-reliability photos-psnr diffusion inverse dimension"
    )
    names += " training calibration explained variance directions traversals"
    kept = ["calibration-mnist5k-whole", "explained-mnist5k-whole"]  # which have no pictures
    chains = "classes steps noise chains".split()
    also = [
        "tabular-whole",
        "diffusion-whole",
        "inverse-whole",
        *(f"photos{end}-whole" for end in ("", "-reliability", "-psnr")),
    ]
    own = [name.removesuffix("-mnist5k") for name in written if name not in also]
    longer = [f"{name}-mnist5k-whole" for name in chains]
    assert own == [*names.split(), *kept, *chains, *longer]
    assert set(captions()) == {*names.split(), *chains}  # each has a caption
    for name, path in written.items():
        with Image.open(path) as image:
            assert (image.format, image.width) == ("PNG", 902), name
            assert image.height > 180, name
            assert "Software" not in image.info, name
        assert path.stat().st_size < 250_000, name


def test_a_figure_has_the_same_bytes_when_drawn_again(results, written, tmp_path):
    style.save_figure(training_figure(results.training), tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == written["training"].read_bytes()


def _some(monkeypatch, drawn):
    monkeypatch.setattr(figures, "drawings", lambda results: drawn)


def test_two_processes_draw_what_one_does(results, written, tmp_path, monkeypatch):
    drawn = figures.drawings(results)
    _some(monkeypatch, {name: drawn[name] for name in ("inverse", "dimension", "training")})
    paths = figures.write_all(results, tmp_path, processes=2)
    assert [*paths] == ["inverse", "dimension", "training"]
    for name, path in paths.items():
        assert path.read_bytes() == written[name].read_bytes(), name


def test_a_figure_that_cannot_be_drawn_in_another_process_ends_the_report(monkeypatch, tmp_path):
    def fails():
        raise ValueError("no law is left")

    _some(monkeypatch, {"broken": fails})
    with pytest.raises(ValueError, match="no law is left"):
        figures.write_all(None, tmp_path, processes=2)


def test_a_process_that_is_killed_while_it_draws_is_named(monkeypatch, tmp_path):
    _some(monkeypatch, {"killed": lambda: os.kill(os.getpid(), signal.SIGKILL)})
    with pytest.raises(ChildProcessError, match="a process that draws figures was killed"):
        figures.write_all(None, tmp_path, processes=2)


def _titles(figure):
    """Return a drawn figure's width and the places of its titles, in pixels, by their words."""
    titles = [text for ax in figure.axes for text in (ax.title, ax._left_title) if text.get_text()]
    found = {text.get_text(): text.get_window_extent().padded(-3) for text in titles}
    return figure.bbox.width, found


def test_no_title_leaves_the_figure_or_covers_another(results, pages):
    frame = next(iter(results.training.values()))
    seven = training_figure({f"model-{i}": frame for i in range(7)})
    seven.canvas.draw()
    for name, (width, places) in {**pages[1], "seven models": _titles(seven)}.items():
        for words, place in places.items():
            assert place.x0 >= 0 and place.x1 <= width, (name, words)
        for (one, place), (other, beside) in combinations(places.items(), 2):
            assert not place.overlaps(beside), (name, one, other)
