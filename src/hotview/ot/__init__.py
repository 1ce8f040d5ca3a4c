"""Optimal transport between clouds, and between views: tensors in, tensors out.

`draw_directions` gives the directions to project on, `sliced_cost` the matrix of sliced Wasserstein
costs between clouds, and `sinkhorn` the transport `Plan` over such a matrix, whose `ViewGroups` say
which views belong together.
"""

from hotview.ot.directions import draw_directions
from hotview.ot.plan import Plan, ViewGroups
from hotview.ot.sinkhorn import sinkhorn
from hotview.ot.sliced import sliced_cost

__all__ = ["Plan", "ViewGroups", "draw_directions", "sinkhorn", "sliced_cost"]
