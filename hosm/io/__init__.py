"""Files: tables and pictures read as arrays, and every file written whole or not at all.

`tables` reads rows of numbers, of which `text_tables` knows how programs write them, and
`missing_cells` what becomes of rows that lack some; `pictures` reads pages and folders of them, by
`tiff` and `raster`, and `page_values` holds what all pixels have in common; `unpacking` refuses
what claims to hold far too much. `results` writes either by the suffix of the path, pictures by
`picture_files`; `patches` cuts pictures into overlapping patches; `archives` holds models;
`atomic_write` is how every file of the library is written; `formats` has what the kinds of files
share.
"""

from hosm.io.archives import of_a_saved_model, read_archive, write_archive
from hosm.io.atomic_write import write_whole
from hosm.io.formats import Array, FileNote
from hosm.io.missing_cells import check_no_gap
from hosm.io.patches import cut_patches, patch_corners, random_patches
from hosm.io.picture_files import check_png, thumbnail
from hosm.io.pictures import PictureFolder, is_pictures, open_pages, page_shapes, read_pages
from hosm.io.results import check_output, write
from hosm.io.tables import LABELLED, TABLE_SUFFIXES, Index, Table, read_rows

__all__ = [
    "Array",
    "FileNote",
    "Index",
    "LABELLED",
    "PictureFolder",
    "TABLE_SUFFIXES",
    "Table",
    "check_no_gap",
    "check_png",
    "check_output",
    "cut_patches",
    "is_pictures",
    "of_a_saved_model",
    "open_pages",
    "page_shapes",
    "patch_corners",
    "random_patches",
    "read_archive",
    "read_pages",
    "read_rows",
    "thumbnail",
    "write",
    "write_archive",
    "write_whole",
]
