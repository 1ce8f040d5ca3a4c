"""Embedded digits, the paper's protocol, synthetic views, and readers of the user's files."""

from hotview.data.linking import LinkedRows, link_rows
from hotview.datasets.frames import LinkedFrames, from_frames
from hotview.datasets.protocol import Split, load_handwritten, split_rows, unalign
from hotview.datasets.synthetic import make_views
from hotview.tables.files import read_views

__all__ = [
    "LinkedFrames",
    "LinkedRows",
    "Split",
    "from_frames",
    "link_rows",
    "load_handwritten",
    "make_views",
    "read_views",
    "split_rows",
    "unalign",
]
