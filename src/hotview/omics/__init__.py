"""Single-cell data: the modalities of a MuData, or a dict of AnnData, are views.

Cells are identified by their names. Cells of all modalities are linked rows, with or without a
label; the other cells are unaligned rows, which keep their label if they have one.
"""

from hotview.omics.annotation import annotate
from hotview.omics.cells import Cells, read_cells
from hotview.omics.fit import fit

__all__ = ["Cells", "annotate", "fit", "read_cells"]
