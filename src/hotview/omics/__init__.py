"""Single-cell data: the modalities of a MuData, or a dict of AnnData, are views.

Names of cells are ids. Cells that all modalities have are linked rows, with or without a label; all
others are unaligned, and keep their label if they have one.
"""

from hotview.omics.annotation import annotate
from hotview.omics.cells import Cells, read_cells
from hotview.omics.fit import fit

__all__ = ["Cells", "annotate", "fit", "read_cells"]
