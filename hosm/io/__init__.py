"""Files: tables and pictures read as arrays, and every file written whole or not at all."""

from hosm.io.atomic_write import write_whole
from hosm.io.files import (
    Rows,
    check_place,
    is_pictures,
    read_pages,
    read_rows,
    write,
)
from hosm.io.patches import (
    cut,
    drawn,
    mapped,
    places,
)

__all__ = [
    "Rows",
    "check_place",
    "cut",
    "drawn",
    "is_pictures",
    "mapped",
    "places",
    "read_pages",
    "read_rows",
    "write",
    "write_whole",
]
