"""Every kind of picture: its values in its number type, or one line that says why not."""

import io
import warnings

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from hosm.io import FileNote, PictureFolder, read_pages, write
from hosm.io.pictures import _header
from tests.io.made_by_hand import png, tags, tiff

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 255, (6, 9)).astype(np.uint8)
COLOURS = RNG.integers(0, 255, (6, 9, 3)).astype(np.uint8)
DEEP = RNG.integers(0, 2**16, (6, 9, 4)).astype(np.uint16)
STACK = RNG.integers(0, 255, (5, 6, 9)).astype(np.uint8)
HYPER = RNG.integers(0, 2**16, (2, 3, 4, 6, 9)).astype(np.uint16)
TYPES = "u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 >u2 >i4 >f4 >f8".split()
ALPHA, CLEAR = "the alpha channel, opaque", "some pixels are transparent"
CHANNELS, TURNED = "channels are no colours", "turned upright, as its orientation of"
UPRIGHT = {  # orientation: how the pixels of a file become the picture, by the TIFF standard
    1: lambda x: x,
    2: lambda x: x[:, ::-1],
    3: lambda x: x[::-1, ::-1],
    4: lambda x: x[::-1],
    5: lambda x: x.swapaxes(0, 1),
    6: lambda x: x[::-1].swapaxes(0, 1),
    7: lambda x: x[::-1, ::-1].swapaxes(0, 1),
    8: lambda x: x[:, ::-1].swapaxes(0, 1),
}


def opaque(values):
    """Colours or grey with a last sample that is opaque."""
    full = np.iinfo(values.dtype).max if values.dtype.kind == "u" else 1
    return np.concatenate([values, np.full_like(values[..., :1], full)], -1)


def tif(values, **options):
    """The bytes that tifffile writes."""
    stream = io.BytesIO()
    tifffile.imwrite(stream, values, **{"photometric": "minisblack"} | options)
    return stream.getvalue()


def pil(image, kind, **options):
    """The bytes that Pillow writes."""
    stream = io.BytesIO()
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    image.save(stream, format=kind, **options)
    return stream.getvalue()


def several(*pages, **options):
    """A .tif file of pages that tifffile writes one by one."""
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream) as writer:
        for number, page in enumerate(pages):
            own = {name: value for name, (value, first) in options.items() if number >= first}
            writer.write(page, metadata=None, contiguous=False, **own)
    return stream.getvalue()


def pyramid():
    """A .tif file of a picture and a smaller copy below it."""
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream) as writer:
        writer.write(HYPER[0, 0, 0], subifds=1)
        writer.write(HYPER[0, 0, 0, ::2, ::2], subfiletype=1)
    return stream.getvalue()


def exif(orientation):
    """The chunk of Pillow that holds an orientation."""
    found = Image.Exif()
    found[274] = orientation
    return found


def of_type(kind):
    """A picture of a number type."""
    return RNG.integers(0, 100, (6, 9)).astype(kind)


NARROW = {bits: RNG.integers(0, 2**bits, (6, 9)).astype(np.uint8) for bits in (1, 2, 4)}
PALETTE = RNG.integers(0, 255, (16, 3)).astype(np.uint8)
WIDE = RNG.integers(0, 2**16, (3, 256)).astype(np.uint16)
RGB = {"photometric": "rgb"}
BESIDE = {"planarconfig": "contig"}
HALF = opaque(COLOURS)
HALF[2, 3, 3] = 7
APART = np.moveaxis(COLOURS, 2, 0)
BIG = (RNG.random((6, 9)) * 4e9).astype(np.uint32)
DIMMED = COLOURS * [[[0, 1, 1]]]
KEY = (b"tRNS", b"\0\1")
FROM_BLACK = (BYTES // 2 * 2).astype(np.uint8)

KINDS = {  # name: contents, pictures, and what must be told
    **{f"{kind}.tif": (tif(of), [of], None) for kind in TYPES for of in [of_type(kind)]},
    "uint32 to 4e9.tif": (tif(BIG), [BIG], None),
    "bits.tif": (tif(BYTES > 99), [(BYTES > 99).astype(np.uint8)], None),
    "bits, white.tif": (
        tif(BYTES > 99, photometric="miniswhite"),
        [(BYTES <= 99).astype(np.uint8)],
        "shows 0 as white",
    ),
    "white.tif": (tif(BYTES, photometric="miniswhite"), [255 - BYTES], "shows 0 as white"),
    "white 16.tif": (
        tif(DEEP[..., 0], photometric="miniswhite"),
        [65535 - DEEP[..., 0]],
        "shows 0 as white",
    ),
    **{
        f"RGB {kind}.tif": (tif(of, **RGB), [of], None)
        for kind in ("u1", "u2", ">u2", "f4", "f8")
        for of in [(COLOURS * 200.0).astype(kind)]
    },
    "RGB in planes.tif": (tif(APART, planarconfig="separate", **RGB), [COLOURS], None),
    "RGB 16 in planes.tif": (
        tif(np.moveaxis(DEEP[..., :3], 2, 0), planarconfig="separate", **RGB),
        [DEEP[..., :3]],
        None,
    ),
    "RGB by channels.tif": (tif(APART, metadata={"axes": "CYX"}, **RGB), [COLOURS], None),
    "RGBA opaque.tif": (
        tif(opaque(COLOURS), extrasamples=["unassalpha"], **RGB),
        [COLOURS],
        ALPHA,
    ),
    "RGBA clear.tif": (tif(HALF, extrasamples=["unassalpha"], **RGB), [COLOURS], CLEAR),
    "RGBA multiplied.tif": (tif(HALF, extrasamples=["assocalpha"], **RGB), [COLOURS], CLEAR),
    "RGBA 16.tif": (tif(DEEP, extrasamples=["unassalpha"], **RGB), [DEEP[..., :3]], CLEAR),
    "RGBA float.tif": (
        tif(opaque(COLOURS / np.float32(255)), extrasamples=["unassalpha"], **RGB),
        [COLOURS / np.float32(255)],
        ALPHA,
    ),
    "grey and alpha.tif": (
        tif(opaque(BYTES[..., None]), extrasamples=["unassalpha"], **BESIDE),
        [BYTES],
        ALPHA,
    ),
    "three samples.tif": (tif(COLOURS, **BESIDE), [COLOURS], None),
    "five samples.tif": (tif(np.moveaxis(STACK, 0, 2), **BESIDE), [*STACK], CHANNELS),
    "pages.tif": (tif(STACK), [*STACK], None),
    "pages without a word.tif": (tif(STACK, metadata=None), [*STACK], None),
    "pages of colours.tif": (tif(np.stack([COLOURS] * 4), **RGB), [COLOURS] * 4, None),
    "three pages.tif": (tif(STACK[:3]), [*STACK[:3]], None),
    "pages of sizes.tif": (
        several(BYTES, BYTES[:4], BYTES // 2),
        [BYTES, BYTES[:4], BYTES // 2],
        None,
    ),
    "grey and colours.tif": (
        several(BYTES, COLOURS, photometric=("rgb", 1)),
        [BYTES, COLOURS],
        None,
    ),
    "preview.tif": (
        several(BYTES, BYTES[::2, ::2], subfiletype=(1, 1)),
        [BYTES],
        "smaller copies",
    ),
    "pyramid.tif": (pyramid(), [HYPER[0, 0, 0]], "smaller copies"),
    "ImageJ ZYX.tif": (tif(STACK, imagej=True, metadata={"axes": "ZYX"}), [*STACK], None),
    "ImageJ CYX.tif": (tif(STACK, imagej=True, metadata={"axes": "CYX"}), [*STACK], CHANNELS),
    "ImageJ TZCYX.tif": (
        tif(HYPER, imagej=True, metadata={"axes": "TZCYX"}),
        [*HYPER.reshape(-1, 6, 9)],
        CHANNELS,
    ),
    "ImageJ TYXS.tif": (
        tif(np.stack([COLOURS] * 4), imagej=True, metadata={"axes": "TYXS"}, **RGB),
        [COLOURS] * 4,
        None,
    ),
    "OME ZYX.tif": (tif(STACK, ome=True, metadata={"axes": "ZYX"}), [*STACK], None),
    "OME TCZYX.tif": (
        tif(HYPER, ome=True, metadata={"axes": "TCZYX"}),
        [*HYPER.reshape(-1, 6, 9)],
        CHANNELS,
    ),
    "OME YXS.tif": (tif(COLOURS, ome=True, metadata={"axes": "YXS"}, **RGB), [COLOURS], None),
    "OME CYX of 3.tif": (tif(APART, ome=True, metadata={"axes": "CYX"}), [*APART], CHANNELS),
    "XY.tif": (tif(BYTES, metadata={"axes": "XY"}), [BYTES.T], None),
    "YXT.tif": (
        tif(np.ascontiguousarray(np.moveaxis(STACK, 0, 2)), metadata={"axes": "YXT"}),
        [*STACK],
        None,
    ),
    "palette 16.tif": (tif(BYTES, photometric="palette", colormap=WIDE), [WIDE.T[BYTES]], None),
    "palette 8.tif": (
        tif(BYTES, photometric="palette", colormap=WIDE // 257 * 257),
        [(WIDE // 257).astype(np.uint8).T[BYTES]],
        None,
    ),
    "deflate.tif": (tif(STACK, compression="zlib", predictor=True), [*STACK], None),
    "lzma.tif": (tif(DEEP[..., 0], compression="lzma"), [DEEP[..., 0]], None),
    "lzw.tif": (pil(BYTES, "TIFF", compression="tiff_lzw"), [BYTES], None),
    "lzw colours.tif": (pil(COLOURS, "TIFF", compression="tiff_lzw"), [COLOURS], None),
    "fax.tif": (
        pil(BYTES > 9, "TIFF", compression="group4"),
        [(BYTES > 9).astype(np.uint8)],
        None,
    ),
    "jpeg.tif": (pil(COLOURS, "TIFF", compression="jpeg"), None, None),
    "packbits.tif": (
        tiff(b"".join(bytes([8, *row]) for row in BYTES), tags(9, 6, 8, 1, 32773)),
        [BYTES],
        None,
    ),
    "big.tif": (tif(STACK, bigtiff=True), [*STACK], None),
    "big, other order.tif": (tif(HYPER[0, 0], bigtiff=True, byteorder=">"), [*HYPER[0, 0]], None),
    "tiles.tif": (tif(HYPER[0, 0], tile=(16, 16)), [*HYPER[0, 0]], None),
    "strips.tif": (tif(BYTES, rowsperstrip=2), [BYTES], None),
    "one line.tif": (tif(BYTES[:1]), [BYTES[:1]], None),
    "one pixel.tif": (tif(BYTES[:1, :1]), [BYTES[:1, :1]], None),
    "by hand.tif": (
        tiff(DEEP[..., 0].astype(">u2").tobytes(), tags(9, 6, 16, 1), ">"),
        [DEEP[..., 0]],
        None,
    ),
    "by Pillow.tif": (pil(BYTES, "TIFF"), [BYTES], None),
    "by Pillow, palette.tif": (pil(Image.fromarray(COLOURS).quantize(8), "TIFF"), None, None),
    **{
        f"turned {k}.tif": (
            tiff(BYTES.tobytes(), tags(9, 6, 8, 1, orientation=k)),
            [turn(BYTES)],
            TURNED if k > 1 else None,
        )
        for k, turn in UPRIGHT.items()
    },
    **{
        f"turned {k}.png": (
            pil(COLOURS, "PNG", exif=exif(k)),
            [turn(COLOURS)],
            TURNED if k > 1 else None,
        )
        for k, turn in UPRIGHT.items()
    },
    "turned grey.webp": (
        pil(COLOURS, "WEBP", lossless=True, exif=exif(6)),
        [UPRIGHT[6](COLOURS)],
        TURNED,
    ),
    "turned behind.png": (
        png(BYTES, 8, 0, late=[(b"eXIf", exif(6).tobytes()[6:])]),
        [BYTES],
        "stands behind the pixels",
    ),
    **{f"grey of {k}.png": (png(of, k, 0), [of], None) for k, of in NARROW.items()},
    "grey.png": (pil(BYTES, "PNG"), [BYTES], None),
    "grey 16.png": (png(DEEP[..., 0], 16, 0), [DEEP[..., 0]], None),
    "RGB.png": (pil(COLOURS, "PNG"), [COLOURS], None),
    "RGB 16.png": (png(DEEP[..., :3], 16, 2), [DEEP[..., :3]], None),
    "RGBA opaque.png": (pil(opaque(COLOURS), "PNG"), [COLOURS], ALPHA),
    "RGBA clear.png": (pil(HALF, "PNG"), [COLOURS], CLEAR),
    "RGBA 16 clear.png": (png(DEEP, 16, 6), [DEEP[..., :3]], CLEAR),
    "RGBA 16 opaque.png": (png(opaque(DEEP[..., :3]), 16, 6), [DEEP[..., :3]], ALPHA),
    "grey and alpha.png": (png(opaque(BYTES[..., None]), 8, 4), [BYTES], ALPHA),
    "grey and alpha 16.png": (png(DEEP[..., :2], 16, 4), [DEEP[..., 0]], CLEAR),
    "palette.png": (
        png(NARROW[4], 4, 3, [(b"PLTE", PALETTE.tobytes())]),
        [PALETTE[NARROW[4]]],
        None,
    ),
    "palette of bits.png": (
        png(NARROW[1], 1, 3, [(b"PLTE", PALETTE[:2].tobytes())]),
        [PALETTE[NARROW[1]]],
        None,
    ),
    "palette with alpha.png": (
        png(NARROW[4], 4, 3, [(b"PLTE", PALETTE.tobytes()), (b"tRNS", bytes(range(16)))]),
        [PALETTE[NARROW[4]]],
        CLEAR,
    ),
    "key.png": (png(BYTES, 8, 0, [KEY]), [BYTES], "transparent colour is read as any other"),
    "key 16.png": (
        png(DEEP[..., :3], 16, 2, [(b"tRNS", bytes(6))]),
        [DEEP[..., :3]],
        "transparent colour is read as any other",
    ),
    "moving.png": (
        pil(COLOURS, "PNG", save_all=True, append_images=[Image.fromarray(COLOURS // 2)]),
        [COLOURS, COLOURS // 2],
        None,
    ),
    "grey.bmp": (pil(BYTES, "BMP"), [BYTES], None),
    "RGB.bmp": (pil(COLOURS, "BMP"), [COLOURS], None),
    "RGB.webp": (pil(COLOURS, "WEBP", lossless=True), [COLOURS], None),
    "grey.jpg": (
        pil(np.full((8, 8), 77, np.uint8), "JPEG"),
        [np.full((8, 8), 77, np.uint8)],
        None,
    ),
    "RGB.jpg": (
        pil(np.full((8, 8, 3), 77, np.uint8), "JPEG"),
        [np.full((8, 8, 3), 77, np.uint8)],
        None,
    ),
    "several.jpg": (
        pil(
            np.full((8, 8), 77, np.uint8),
            "MPO",
            save_all=True,
            append_images=[Image.new("L", (4, 4))],
        ),
        [np.full((8, 8), 77, np.uint8)],
        "further pictures in it",
    ),
}
CONVERT = "it must be grey, RGB or of a palette, got {}; convert it first"
HOLED = BYTES.astype(np.float32)
HOLED[2, 3] = np.nan
REFUSED = {  # name: contents and what is said
    "uint64.tif": (
        tif(np.full((6, 9), 2**53 + 1, np.uint64)),
        "numbers that float64 has, got uint64",
    ),
    "int64.tif": (tif(np.full((6, 9), -(2**53) - 1)), "numbers that float64 has, got int64"),
    "complex.tif": (tif(np.ones((6, 9), np.complex64)), "real numbers, got complex64"),
    "gap.tif": (tif(HOLED), "finite numbers, got others in row 2, column 3"),
    "white float.tif": (tif(HOLED, photometric="miniswhite"), "of whole numbers, got float32"),
    "CMYK.tif": (tif(opaque(COLOURS), photometric="separated"), CONVERT.format("SEPARATED")),
    "LAB.tif": (tif(COLOURS, photometric="cielab"), CONVERT.format("CIELAB")),
    "YCbCr.tif": (tif(COLOURS, photometric="ycbcr"), CONVERT.format("YCBCR")),
    "mosaic.tif": (tif(BYTES, photometric="cfa"), CONVERT.format("CFA")),
    "four of RGB.tif": (tif(opaque(COLOURS), extrasamples=[0], **RGB), "or alpha too, got 4"),
    "cut.tif": (tif(STACK)[:-40], "cannot be read"),
    "cut deflate.tif": (tif(STACK, compression="zlib")[:-20], "cannot be read"),
    "header.tif": (tif(STACK)[:8], "cannot be read"),
    "CMYK.jpg": (pil(Image.new("CMYK", (9, 6)), "JPEG"), CONVERT.format("CMYK")),
    "cut.jpg": (pil(COLOURS, "JPEG")[:-40], "cannot be read"),
    "cut.png": (png(DEEP[..., :3], 16, 2)[:-60], "cannot be read"),
    "no PNG.png": (pil(COLOURS, "GIF"), "cannot be read"),
}


def told(reader, path):
    """What a reader returns, and the notes that it gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = reader(path)
    return result, [each.message for each in caught if isinstance(each.message, FileNote)]


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_read_as_it_is_and_what_is_left_out_is_told(tmp_path, name):
    content, expected, text = KINDS[name]
    (tmp_path / name).write_bytes(content)
    found, notes = told(read_pages, tmp_path / name)
    if expected is None:  # a palette or a compression that Pillow chose
        expected = [np.asarray(Image.open(tmp_path / name).convert("RGB"))]
    assert len(found) == len(expected)
    for page, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(page, right, strict=False)
        assert page.shape == right.shape and page.dtype == right.dtype.newbyteorder("=")
    assert {(text or "nothing") in note.text for note in notes} == ({True} if text else set())
    assert all(note.path.endswith(name) for note in notes)


@pytest.mark.filterwarnings("ignore::hosm.io.FileNote")
@pytest.mark.parametrize("name", KINDS)
def test_the_header_tells_the_shapes_of_what_is_read(tmp_path, name):
    (tmp_path / name).write_bytes(KINDS[name][0])
    folder = PictureFolder(tmp_path)
    assert [page.shape for page in folder] == [folder.shape(k) for k in range(len(folder))]


def test_a_compression_that_needs_a_package_names_it(tmp_path, monkeypatch):
    """As `tifffile` says it where `imagecodecs` is not installed."""
    (tmp_path / "x.tif").write_bytes(pil(BYTES, "TIFF", compression="tiff_lzw"))

    def missing(*given, **options):
        raise ValueError("<COMPRESSION.LZW: 5> requires the 'imagecodecs' package")

    monkeypatch.setattr(tifffile.TiffPage, "asarray", missing)
    monkeypatch.setattr(tifffile.TiffPageSeries, "asarray", missing)
    with pytest.raises(ImportError, match="by LZW, which needs the package imagecodecs: pip"):
        read_pages(tmp_path / "x.tif")


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_array_holds_is_refused_in_a_line(tmp_path, name):
    content, message = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises((ValueError, ImportError)) as caught:
        read_pages(tmp_path / name)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_a_part_of_an_ome_series_that_lies_elsewhere_is_missed(tmp_path):
    whole = tif(STACK, ome=True, metadata={"axes": "ZYX"})
    (tmp_path / "x.tif").write_bytes(whole.replace(b'SizeZ="5"', b'SizeZ="7"'))
    with pytest.raises(ValueError, match=r"lacks (parts|some)"):
        read_pages(tmp_path / "x.tif")


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        (COLOURS, [(6, 9, 3)]),
        (np.stack([COLOURS] * 2), [(6, 9, 3)] * 2),
        (STACK, [(6, 9)] * 5),
        (BYTES, [(6, 9)]),
    ],
)
def test_arrays_are_pictures_too(tmp_path, values, shape):
    np.save(tmp_path / "x.npy", values.astype(">f4"))
    found = read_pages(tmp_path / "x.npy")
    assert [page.shape for page in found] == shape and found[0].dtype == np.dtype("=f4")
    np.testing.assert_array_equal(np.stack(found).reshape(values.shape), values)


NUMBERS = st.sampled_from([np.dtype(kind) for kind in TYPES])
SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 9))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_tiff_that_tifffile_writes_comes_back(tmp_path_factory, data):
    shape = data.draw(SHAPES)
    kind = data.draw(NUMBERS)
    whole = {"min_value": -1000 if kind.kind == "i" else 0, "max_value": 100}
    numbers = st.floats(-1000, 1000, width=16) if kind.kind == "f" else st.integers(**whole)
    if kind.kind == "i":
        numbers = st.integers(-100, 100)
    values = data.draw(arrays.arrays(kind, shape, elements=numbers))
    path = tmp_path_factory.mktemp("any") / "x.tif"
    options = {"compression": data.draw(st.sampled_from([None, "zlib"]))}
    path.write_bytes(tif(values, bigtiff=data.draw(st.booleans()), **options))
    (page,) = read_pages(path)
    np.testing.assert_array_equal(page, values)
    assert page.dtype == kind.newbyteorder("=") and _header(path) == [shape]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["pages.tif", "deflate.tif", "RGB 16.png", "RGB.jpg"]), st.data())
def test_a_damaged_file_is_read_or_refused_and_nothing_else(tmp_path_factory, name, data):
    content = bytearray(KINDS[name][0])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, min(400, len(content)) - 1))] = data.draw(
            st.integers(0, 255)
        )
    path = tmp_path_factory.mktemp("bad") / name.replace(" ", "")
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pages = read_pages(path)
        except (ValueError, ImportError, MemoryError) as error:
            assert "\n" not in str(error)
        else:
            assert all(page.ndim in (2, 3) for page in pages)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_a_png_file_has_the_units_of_its_pictures_and_clips_with_a_word(tmp_path, kind):
    values, largest = np.array([[1.4, 262.0], [-3.0, 70000.0]]), int(np.iinfo(kind).max)
    beyond = 3 if kind == np.uint8 else 2
    text = f"{beyond} of 4 values, beyond 0 to {largest}, were clipped"
    with pytest.warns(FileNote, match=text):
        write(tmp_path / "x.png", {"map": values}, pixels=kind)
    (back,) = read_pages(tmp_path / "x.png")
    np.testing.assert_array_equal(back, np.clip(np.round(values), 0, largest))
    assert back.dtype == kind


def test_a_png_file_of_fractions_or_of_deep_colours_is_refused(tmp_path):
    for values, message in (
        (BYTES / 2, "uint8 or uint16, got float64; use .tif or .npy"),
        (DEEP[..., :3], "of colours must have 8 bits, got 16"),
        (STACK, "must hold one page, got 5; use a .tif file"),
    ):
        with pytest.raises(ValueError, match=message):
            write(tmp_path / "x.png", {"map": values})
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "values",
    [BYTES / 7, STACK / 7, COLOURS / 7, np.stack([COLOURS] * 2) / 7, STACK[:3, :3, :4] / 7],
)
def test_tiff_files_are_written_in_float32_and_come_back(tmp_path, values):
    write(tmp_path / "x.tif", {"map": values})
    found = read_pages(tmp_path / "x.tif")
    assert all(page.dtype == np.float32 for page in found)
    assert tifffile.imread(tmp_path / "x.tif").shape == values.shape  # one is no stack of one
    np.testing.assert_array_equal(np.stack(found).reshape(values.shape), values.astype(np.float32))


def test_what_float32_has_not_is_refused(tmp_path):
    with pytest.raises(ValueError, match="numbers that float32 has"):
        write(tmp_path / "x.tif", {"map": np.full((2, 2), 1e300)})


@pytest.mark.parametrize("name", ["x.npy", "x.csv", "x.tif"])
def test_masked_values_are_not_written(tmp_path, name):
    masked = np.ma.masked_equal(np.array([[1.0, -999.0], [2.0, 3.0]]), -999)
    with pytest.raises(ValueError, match="values must hold numbers, got masked values"):
        write(tmp_path / name, {"values": masked})
