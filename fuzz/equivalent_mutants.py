"""Mutants that survive, and why no test can notice them."""

from __future__ import annotations

__all__ = ["EQUIVALENT"]

#: name of the mutant → the reason
EQUIVALENT: dict[str, str] = {
    (
        "ot/projection.py:_radix_argsort: digits = [(key >> shift).astype(np.uint16) for "
        "shift in range(0, 8 * key.itemsize, 16)] → digits = [(key >> "
        "shift).astype(np.uint16) for shift in range(0, 9 * key.itemsize, 16)]"
    ): ("one pass more, over digits that hold the sign alone, leaves a sorted row as it is"),
    (
        "losses/specifications.py:CouplingSpec.check: values = "
        "self.get_params(deep=False) → values = self.get_params(deep=True)"
    ): ("names of nested settings hold `__`, and no check has such a name"),
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
