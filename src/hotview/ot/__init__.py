"""Optimal transport between clouds of points, and between views, on tensors.

`draw_directions` draws the directions to project on, `sliced_cost` computes the matrix of sliced
Wasserstein costs between clouds, and `sinkhorn` the transport `Plan` over such a matrix. The plan's
`ViewGroups` are groups of views by the mass that it transports.
"""

from hotview.ot.plan import Plan, ViewGroups
from hotview.ot.projection import draw_directions
from hotview.ot.sinkhorn import sinkhorn
from hotview.ot.sliced import sliced_cost

__all__ = ["Plan", "ViewGroups", "draw_directions", "sinkhorn", "sliced_cost"]
