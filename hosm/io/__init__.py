"""Files: tables and pictures read as arrays, and every file written whole or not at all.

`tables` reads rows of numbers and `pictures` reads pages; `results` writes either by the suffix
of the path; `patches` cuts pictures into overlapping patches and puts them together again;
`archives` holds models;
`atomic_write` is how every file of the library is written; `formats` has what the kinds of files
share.
"""

from hosm.io.archives import read_archive, write_archive
from hosm.io.atomic_write import write_whole
from hosm.io.formats import Array
from hosm.io.patches import cut_patches, map_over_patches, patch_corners, random_patches
from hosm.io.pictures import is_pictures, read_pages
from hosm.io.results import check_output, write
from hosm.io.tables import Table, read_rows

__all__ = [
    "Array",
    "Table",
    "check_output",
    "cut_patches",
    "is_pictures",
    "map_over_patches",
    "patch_corners",
    "random_patches",
    "read_archive",
    "read_pages",
    "read_rows",
    "write",
    "write_archive",
    "write_whole",
]
