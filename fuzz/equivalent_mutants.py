"""Mutants that survive, and why no test can notice them."""

from __future__ import annotations

__all__ = ["EQUIVALENT"]

#: name of the mutant → the reason
EQUIVALENT: dict[str, str] = {
    ("ot/plan.py:groups_of_pairs: A = (W + W.T) / 2 → A = (W + W.T)"): (
        "ties are relative, eigenvalues are those of the normalized matrix and groups "
        "those of a dendrogram: a factor of 2 changes none of them"
    ),
    (
        "ot/projection.py:_radix_argsort: digits = [(key >> shift).astype(np.uint16) for "
        "shift in range(0, 8 * key.itemsize, 16)] → digits = [(key >> "
        "shift).astype(np.uint16) for shift in range(0, 9 * key.itemsize, 16)]"
    ): ("one pass more, over digits that hold the sign alone, leaves a sorted row as it is"),
    ("ot/projection.py:_sort_long_row_: key += 2**30 → key += (2)"): (
        "torch sorts negative integers as well, but without its radix sort: it takes longer"
    ),
    (
        "losses/specifications.py:CouplingSpec.check: values = "
        "self.get_params(deep=False) → values = self.get_params(deep=True)"
    ): ("names of nested settings hold `__`, and no check has such a name"),
    (
        "semisupervised/knn.py:KNNPredictor._nearest_others: distance = "
        "(self.points[nearest].double() - Y.unsqueeze(1)).square().sum(2) → distance = "
        "(self.points[nearest].double() - Y.unsqueeze(1)).square().mean(2)"
    ): ("the mean over coordinates orders points as their sum does"),
    (
        "semisupervised/super_learner.py:SuperLearner.weigh_views: number = "
        "present.sum(1, keepdim=True).clamp_min(1).double() → number = (present.sum(1, "
        "keepdim=True)).double()"
    ): ("rows without a view get the weight 1 in the next step, times 0"),
    (
        "semisupervised/soft_labels.py:label_fold: left_out = (data.target >= 0) & "
        "(fold.target < 0) → left_out = (data.target >= 0)"
    ): (
        "a linked row with a label carries nothing from view to view: it is labeled in every view "
        "that it is in, and is not among the rows that views teach each other over"
    ),
}
