"""Classes from few labels, with or without networks: graphs, label propagation, predictors.

`build_graph` takes the rows of a view, `propagate_labels` graphs and labels of all views, and
`SemiSupervised.fit` both; it predicts new rows, from whichever views they have.
"""

from hotview.semisupervised.learner import SemiSupervised

__all__ = ["SemiSupervised"]
