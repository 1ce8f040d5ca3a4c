"""Mutants chosen by hand: module, function, text, and what replaces it.

Errors that a person could make and that no exchange of an operator makes, those that once passed
all tests among them.
"""

from __future__ import annotations

__all__ = ["CHOSEN"]

CHOSEN: tuple[tuple[str, str, str, str], ...] = (
    (
        "semisupervised/label_transfer.py",
        "transfer_scores",
        "        profile_agreement(P, Q, linked),\n",
        "        1.0,\n",
    ),
    (
        "semisupervised/label_transfer.py",
        "transfer_scores",
        "        len(linked) / (len(linked) + _HALF_TRUST),\n",
        "        1.0,\n",
    ),
    (
        "semisupervised/label_transfer.py",
        "profile_agreement",
        "max(0.0, float(r)) ** 2",
        "max(0.0, float(r))",
    ),
    (
        "semisupervised/label_transfer.py",
        "source_weights",
        "* agreement * np.exp(-cost / max(cost.mean(), _TINY))",
        "* agreement",
    ),
    (
        "semisupervised/label_transfer.py",
        "_refine",
        "        scores[rows] = linked_scores\n",
        "",
    ),
    (
        "semisupervised/super_learner.py",
        "_minimize",
        "np.exp(x[:-1]), float(x[-1])",
        "np.exp(x[:-1]), power",
    ),
    (
        "semisupervised/super_learner.py",
        "SuperLearner.weigh_views",
        "number**-self.power",
        "number**-0.5",
    ),
    (
        "semisupervised/super_learner.py",
        "fit_super_learner",
        "w[s] = 0.0",
        "w[s] = w[s]",
    ),
    (
        "semisupervised/label_transfer.py",
        "_receive_labels",
        "agreement * (1 - shift)",
        "agreement",
    ),
    (
        "semisupervised/label_transfer.py",
        "transfer_labels",
        "    trust *= min(1.0, 2 * _HALF_LINKS / (_HALF_LINKS + len(rows)))\n",
        "",
    ),
    (
        "semisupervised/label_transfer.py",
        "transfer_labels",
        "moved, trust = _receive_labels(graphs, linked, logits, log_priors, t, random)",
        "moved, trust = _receive_labels(graphs, linked, logits, log_priors, t, random)[0], 1.0",
    ),
    (
        "semisupervised/soft_labels.py",
        "label_nodes",
        "np.where(left_out[:, None], -1, fold.links)",
        "fold.links",
    ),
    (
        "semisupervised/ridge.py",
        "score_view",
        "weight_of = certainty(q)",
        "weight_of = np.ones(len(q))",
    ),
    (
        "semisupervised/class_prior.py",
        "shift_prior",
        "_move_shares(posterior.sum(axis=0), population)",
        "posterior.mean(axis=0)",
    ),
    (
        "semisupervised/propagation.py",
        "propagate",
        "Q = P - damping * multiply(P)",
        "Q = P - multiply(P)",
    ),
    (
        "losses/hierarchical.py",
        "_Hierarchical.weights",
        "self.plan = self.planner.solve(mean,",
        "self.plan = self.planner.solve(C,",
    ),
    (
        "losses/coupling.py",
        "Planner.solve",
        "C, mask=mask, reg=self.reg",
        "C, reg=self.reg",
    ),
    (
        "losses/sliced.py",
        "SlicedCoupling.forward",
        "fixed = C.detach()",
        "fixed = C",
    ),
    (
        "losses/coupling.py",
        "orthogonality",
        "(M - eye).square()",
        "M.square()",
    ),
)
