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
    (
        "ot/projection.py:draw_directions: Q *= R.diagonal(dim1=-2, "
        "dim2=-1).sign().unsqueeze(-2) → Q /= R.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)"
    ): ("signs are 1 or −1: a product with one is a quotient"),
    (
        "semisupervised/out_of_fold.py:score_left_out: if len(rows) > _MAX_LEFT_OUT: → "
        "if len(rows) >= _MAX_LEFT_OUT:"
    ): ("of exactly so many rows all are chosen, and sorted"),
    (
        "semisupervised/nearest.py:Scorer.prepare: roundoff = _ROUNDOFF.get(precision, "
        "2.0**-24) → roundoff = _ROUNDOFF.get(precision, (2.0))"
    ): ("more candidates are compared in float64: it takes longer"),
    (
        'semisupervised/nearest.py:: _ROUNDOFF = {"tf32": 2.0**-11, "bf16": 2.0**-9, "high": '
        '2.0**-11, "medium": 2.0**-9} → _ROUNDOFF = {"tf32": 2.0**-11, "bf16": 2.0**-9, "high": '
        '(2.0), "medium": 2.0**-9}'
    ): ("more candidates are compared in float64: it takes longer"),
    (
        "semisupervised/calibration.py:group_rows: group = np.where((number == n_views) & "
        "(number > 1), n_views + 1, group) → group = np.where((number == n_views), n_views + 1, "
        "group)"
    ): ("models have two views and more"),
    (
        "losses/view_regularizers.py:NoRegularizerSpec.__init__: self.weight = 0.0 → self.weight "
        "= 1.0"
    ): ("there is no term that it would weigh"),
    (
        "semisupervised/learner.py:_join_by_class: random, n = np.random.default_rng(0), "
        "min(map(len, samples.values())) → random, n = np.random.default_rng(1), min(map(len, "
        "samples.values()))"
    ): ("another order of rows is as random"),
}
