"""Files that no package here writes, put together from their bytes."""

import struct
import zlib

import numpy as np

SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of a pixel, by the colour type of a .png file


def chunk(name, content):
    """A chunk of a .png file."""
    check = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)


def png(values, bits, kind, chunks=(), late=()):
    """A .png file of samples (height, width) or (height, width, samples), as the standard says.

    Each line is filtered by its difference from the pixel to the left, so that the bytes of a
    pixel must be known to read it; chunks stand before the pixels, late ones after.
    """
    height, width = values.shape[:2]
    if bits == 16:
        lines = values.astype(">u2").reshape(height, -1).view(np.uint8)
    elif bits == 8:
        lines = values.astype(np.uint8).reshape(height, -1)
    else:
        ones = np.unpackbits(values.astype(np.uint8)[..., None], axis=-1)[..., 8 - bits :]
        lines = np.packbits(ones.reshape(height, -1), axis=1)
    step = max(1, bits * SAMPLES[kind] // 8)
    left = np.pad(lines, ((0, 0), (step, 0)))[:, : lines.shape[1]]
    rows = np.hstack([np.ones((height, 1), np.uint8), lines - left])
    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    body = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(rows.tobytes())), *late]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in [*body, (b"IEND", b"")])


def tiff(data, tags, order="<"):
    """A .tif file of one strip; tags are numbers of 16 bits by their codes, or lists of them."""
    entries, extra = [], b""
    start = 8 + len(data)
    extra_at = start + 2 + 12 * (len(tags) + 2) + 4
    for code, value in sorted((tags | {273: 8, 279: len(data)}).items()):
        values = value if isinstance(value, list) else [value]
        packed = struct.pack(f"{order}{len(values)}H", *values)
        if len(packed) > 4:
            place = struct.pack(f"{order}I", extra_at + len(extra))
            extra += packed
            packed = place
        entries.append(struct.pack(f"{order}HHI", code, 3, len(values)) + packed.ljust(4, b"\0"))
    mark = b"II*\0" if order == "<" else b"MM\0*"
    table = struct.pack(f"{order}H", len(entries)) + b"".join(entries) + bytes(4)
    return mark + struct.pack(f"{order}I", start) + data + table + extra


def tags(width, height, bits, kind, compression=1, **more):
    """Tags of a .tif file of one strip; kind is the photometric interpretation."""
    count = len(bits) if isinstance(bits, list) else 1
    names = {"planes": 284, "extra": 338, "format": 339, "orientation": 274, "colours": 320}
    own = {
        256: width,
        257: height,
        258: bits,
        259: compression,
        262: kind,
        277: count,
        278: height,
    }
    return own | {names[name]: value for name, value in more.items()}
