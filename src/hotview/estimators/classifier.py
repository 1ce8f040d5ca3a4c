"""The classifier: classes from any subset of views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hotview._types import Array, IntArray, Views
from hotview.data import Data, hold_out, labeled_data, validation_data
from hotview.data.labels import check_all_known
from hotview.estimators.base import MultiViewEstimator
from hotview.estimators.randomness import Randomness, keep_random
from hotview.losses.specifications import RegularizerSpec
from hotview.semisupervised.calibration import check_alpha, disagreement, log_mean
from hotview.semisupervised.class_prior import replace_prior, weigh_classes

__all__ = ["MultiViewClassifier"]


@dataclass(eq=False, repr=False)
class MultiViewClassifier(ClassifierMixin, MultiViewEstimator):  # type: ignore[misc]
    r"""Classify individuals seen in several views, few of them linked and labeled.

    Minimizes :math:`L + γ R_M + τ \sum_s R_S`, objective (3) of Luo, Xu and Carin (2020), where
    `coupling` is :math:`R_M` and `view_regularizer` is :math:`R_S`. With `pseudo_labels`, L is the
    cross entropy of a head per view on soft labels, propagated over the neighbor graph of the view,
    and new rows are predicted by neighbors, ridge regressions and heads together. Without, L is
    that of a softmax layer on the features of all views, as in the paper, and every view has a head
    of its own for rows that lack views.

    Parameters
    ----------
    coupling : str or CouplingSpec, default="hot-reference"
        Loss that brings the views together, R_M: ``"none"`` (the control), ``"lscca"`` and
        ``"dgcca"`` (which need aligned rows), ``"sw-pairwise"``, ``"sw-reference"``,
        ``"hot-pairwise"`` or ``"hot-reference"``; equations (1), (2) and (8) to (11) of the paper.
        A specification, as ``HOTReferenceSpec(n_references=4)``, carries settings, its weight among
        them; a name stands for the specification with its defaults.
    view_regularizer : str or RegularizerSpec, default="none"
        Loss of every view by itself, R_S: ``"none"``, ``"autoencoder"`` (features can be decoded),
        ``"manifold"`` (neighbors have similar latents) or ``"diffusion"`` (features approximate
        diffusion coordinates); or a specification, as ``AutoencoderSpec(weight=0.1)``. Its default
        weight is 1.0.
    alignment_weight : float, default=1.0
        Weight of linked rows relative to R_M, as for :class:`MultiViewEncoder`. With 0, as in the
        paper, linked rows act through their labels alone.
    n_components : int, default=10
        Dimension of the common space.
    encoder_dim : int, default=20
        Number of features of every view: the width of its encoder's output.
    hidden : tuple of int or dict of str to tuple, default=(128,)
        Widths of the hidden layers of all encoders, or by view; ``()`` gives linear encoders.
    encoders : list or dict of nn.Module, or None, default=None
        Encoders of the user's own, by view. They are copied; other views get a perceptron.
    initialization : {"pca", "random"}, default="pca"
        Initial weights: encoders compute the principal components of their view, and references are
        samples of groups of similar views; or, as in the paper, all weights are random.
    n_neighbors : int, default=10
        Number of neighbors of a row in the neighbor graph of its view, which `pseudo_labels`,
        ``"manifold"`` and ``"diffusion"`` use.
    max_epochs : int or None, default=None
        Maximum number of epochs; an epoch is one pass over the largest view. None takes 10, or as
        many more as make 80 steps; in long tables, epochs are then cut to 60 steps.
    steps_per_epoch : int or None, default=None
        Number of steps of an epoch; None takes one pass over the largest view.
    batch_size : int, default=200
        Maximum number of rows of a view in a step. An epoch is divided into equal batches, views
        with fewer rows are repeated, and a smaller table gives a smaller batch, `batch_size_`.
    learning_rate : float, default=0.003
        Learning rate of Adam.
    preprocessing : str or dict of str by view, default="auto"
        What is done to the columns of a view before all else. ``"standardize"`` scales them to mean
        0 and variance 1 over the training rows, ``"none"`` leaves them as they are. ``"pca"`` also
        reduces a view of more than 256 columns to 64 principal components. ``"counts"`` does, too,
        after the square root of the share of every entry in its row (Hellinger): how much was
        counted in a row is lost. ``"components"`` is for views that are principal components
        already, in which standardized noise would count as much as all else: small variances
        are raised in part. ``"auto"`` recognizes counts in wide views, and components; else it is
        ``"pca"``. `preprocessing_` says what was done. A view with an encoder of the user's own is
        not reduced.
    impute : str, dict of str by view, or None, default=None
        Treatment of NaN in a row that has other values in the view: None raises an error,
        ``"mean"`` and ``"median"`` fill in the mean or median of the column's training values (of
        tables that are not in memory: the median of up to 10,000 rows, evenly spaced).
        ``"mean+indicator"`` and ``"median+indicator"`` also add, for every column with NaN in
        training rows, a column that is 1 where it is NaN and 0 elsewhere, for values whose absence
        is informative; encoders of the user's own get these columns, too. In a dict, views that
        are not named have None. A row that is NaN throughout a view is absent from it.
    n_estimators : int, default=5
        Number of networks, trained on the same rows from different seeds: a deep ensemble.
        Probabilities are their mean, `predict_disagreement` measures how they differ, and `plan_`
        is solved once, for the mean of their costs. Encoders of the user's own begin with the same
        weights in all.
    device : str or torch.device, default="auto"
        Device to train on; ``"auto"`` takes CUDA if it is available.
    devices : int, "auto" or None, default=None
        Number of processes that share the rows of every step, each on a device of its own
        (PyTorch DDP); ``"auto"`` takes one per GPU, None trains in this process. The result is that
        of one process, to rounding. `fit` starts the processes by running the script again, so
        call it under ``if __name__ == "__main__":``; under torchrun it uses the processes of
        torchrun, whatever the number. It needs ``hotview[distributed]``.
    precision : {"float32", "tf32", "bfloat16"}, default="float32"
        Precision of encoders and decoders in training; everything else is float32 or better.
        ``"tf32"`` needs a CUDA device and has no effect elsewhere. Both are faster with wide layers
        and large batches, and change the result a little; `trained_on_` has the precision used.
    random_state : int, numpy Generator or None, default=None
        Seed of all random numbers; on the CPU the same seed gives the same bits.
    verbose : bool or "auto", default="auto"
        Whether to show progress; ``"auto"`` does in notebooks and at the prompt, not in scripts.
    callbacks : list of callables or None, default=None
        Called after every epoch with an `Epoch` (number, row, network); setting its ``stop`` ends
        the training.
    checkpoint : str, path or None, default=None
        File, ending in ``.checkpoint``, to which the state of the training is written, so that
        ``fit(..., resume=True)`` continues from it; None writes none. `fit` overwrites the file
        and does not delete it. It is not part of saved models.
    checkpoint_every : int, default=10
        Number of epochs between checkpoints; one is also written at the end, and at Ctrl-C.
    pseudo_labels : bool, default=True
        Whether labels are propagated over the neighbor graph of every view to train its head, and
        once more over the learned features. New rows are then predicted by a super learner: nearest
        neighbors, a ridge regression and the head of every view, and a ridge regression on
        whichever views a row has; otherwise by the heads of the network alone.
    fusion : {"weighted", "average"}, default="weighted"
        How the predictors become one. ``"weighted"``: every ensemble member leaves out some labels,
        of linked rows or of others, and weights are estimated from its out-of-fold predictions of
        these, shrunk toward prior weights where labels are few. ``"average"``: the prior weights,
        and no label is left out; equal weights without `pseudo_labels`.
    head_weight : float, default=1.0
        Weight of the views' own heads in the objective, where predictions of all heads are
        averaged. With 0, as in the paper, these heads are trained on features that are held fixed,
        and rows that have all views are predicted by the joint head alone.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn. With `pseudo_labels`, they multiply the prior
        probabilities; ``"balanced"`` makes these equal, for the best balanced accuracy.
    class_prior : dict, "uniform" or None, default=None
        Prior probabilities of the classes among rows to predict: a dict of all classes, or equal
        ones. None takes the shares of the labels, those of a view that has labels of its own,
        shrunk to equal shares where labels are few. It needs `pseudo_labels`.
    unlabeled_marker : object, default=-1
        Value in y that marks a row without a label, besides NaN, None and texts that stand for
        them (``""``, ``"nan"``, ``"None"``, ``"NA"``, ``"n/a"``, ``"null"``, …), of which `fit`
        warns; None for NaN and None alone.
    validation_fraction : float or None, default=None
        Fraction of the labeled linked rows whose labels are held out to score every epoch; these
        rows are trained on as rows without a label.
    patience : int or None, default=None
        Number of epochs without a better validation score after which training stops and the best
        weights are restored; None trains to the end.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    view_similarity_ : ViewSimilarity or None
        What views share, measured on linked rows, in total and ``within_classes``: ``value``,
        ``low``, ``high`` and ``p_value`` of every pair; None without enough linked rows.
    view_labels_ : ndarray of int64 or None
        The group of every view, where linked rows show groups that hold; else None.
    common_space_ : CommonSpace or None
        As for :class:`MultiViewEncoder`, the mean over ensemble members.
    plan_, references_, history_, network_, networks_, histories_, plans_ : object
        As for :class:`MultiViewEncoder`; the history also has the validation score.
    model_, view_names_, n_views_, n_features_per_view_, columns_, preprocessing_ : object
        As for :class:`MultiViewEncoder`.
    batch_size_, fit_warnings_, metadata_ : object
        As for :class:`MultiViewEncoder`.
    trained_on_ : dict of str to object
        As for :class:`MultiViewEncoder`, and the number of labels of every class.
    out_of_fold_ : dict of str to dict
        Scores on labels that ensemble members left out, by view and for ``"all views"``: number of
        rows ``n``, ``accuracy``, ``log_loss``, that of the prior alone (``prior_log_loss``), the
        ``standard_error`` of their difference, and whether classes are ``expected`` by other views
        instead of known. ``loss_without`` is how much the log loss of all views rises where this
        one is left out: ``n`` rows, the mean ``increase``, its 95 % interval from ``low`` to
        ``high``; or None. Empty where no label is left out.

    Examples
    --------
    >>> from hotview import MultiViewClassifier
    >>> from hotview.datasets import make_views
    >>> data = make_views(200, n_views=3, n_groups=1, labeled=0.2, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=60, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target, unaligned=data.views)
    >>> model.score(data.linked, data.linked_target) > 0.9
    True
    >>> model.predict({"view_1": data.linked["view_1"][:2]}).shape  # any subset of views
    (2,)
    """

    _regularizer_weight = 1.0

    view_regularizer: str | RegularizerSpec = "none"
    _: KW_ONLY
    max_epochs: int | None = None
    batch_size: int = 200
    learning_rate: float = 0.003
    pseudo_labels: bool = True
    fusion: str = "weighted"
    head_weight: float = 1.0
    class_weight: Any = None
    class_prior: Any = None
    unlabeled_marker: Any = -1
    validation_fraction: float | None = None
    patience: int | None = None
    n_estimators: int = 5

    def fit(
        self,
        Xs: Views | None,
        y: npt.ArrayLike | None,
        *,
        unaligned: Views | None = None,
        unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
        groups: npt.ArrayLike | None = None,
        unaligned_groups: Mapping[str, npt.ArrayLike] | None = None,
        validation: tuple[Views, npt.ArrayLike] | None = None,
        resume: bool = False,
    ) -> MultiViewClassifier:
        """Fit the ensemble to linked rows, some or all labeled, and to unlinked rows.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes, or None
            At least two views; row i is the same individual in all of them. A row that is NaN
            throughout a view is absent from it. None where no row is linked: then `unaligned` has
            all views, and `unaligned_y` the labels of every view. Text columns of data frames are
            one-hot encoded, a column of 0 and 1 for every value in any row of the view.
        y : 1-D array-like or None
            The class of every row of `Xs`: numbers or text; NaN, None or `unlabeled_marker` marks
            a row without a label. None if `Xs` is None.
        unaligned : dict, list or tuple of 2-D array-likes, or None, default=None
            Unlinked rows of some or all views, of any number.
        unaligned_y : dict of str to 1-D array-like, or None, default=None
            Classes of some views' unaligned rows, with gaps as in `y`, to train that view's
            predictor. With them `y` may hold no label at all.
        groups : 1-D array-like or None, default=None
            The group of every row of `Xs`, number or text, as one person seen several times: labels
            that `fit` leaves out, for `fusion` or `validation_fraction`, are those of whole groups.
            NaN or None marks a row of its own; None for all rows.
        unaligned_groups : dict of str to 1-D array-like, or None, default=None
            Groups of some views' unaligned rows, by the names of `groups`.
        validation : tuple of views and labels, or None, default=None
            Aligned rows whose accuracy is recorded after every epoch.
        resume : bool, default=False
            Whether to resume from `checkpoint`, or start from the beginning if there is no such
            file. Data and parameters must be the same, except `max_epochs`, which may be larger,
            `verbose` and `callbacks`; without a `random_state`, the seed of the checkpoint is used.
            On the CPU the result has the same bits as that of an uninterrupted fit, unless
            callbacks or the user's own encoders have state outside of their tensors.

        Returns
        -------
        MultiViewClassifier
            The estimator itself.
        """
        more: dict[str, Any] = {"unaligned": unaligned, "unaligned_y": unaligned_y}
        more |= {"groups": groups, "unaligned_groups": unaligned_groups, "validation": validation}
        self._fit(resume=resume, Xs=Xs, y=y, **more)
        return self

    def _data(
        self,
        p: Mapping[str, Any],
        Xs: Views | None,
        y: npt.ArrayLike | None,
        *,
        validation: tuple[Views, npt.ArrayLike] | None = None,
        **more: Any,
    ) -> Data:
        data = labeled_data(Xs, y, **more, marker=p["unlabeled_marker"])
        classes = data.known.classes
        _check_prior(p, classes)
        weigh_classes(p["class_weight"], data.known.of(data.labeled()), classes)
        if validation is not None:
            return replace(
                data, validation=validation_data(validation, data, p["unlabeled_marker"])
            )
        if (fraction := p["validation_fraction"]) is not None:
            random = Randomness(p["random_state"]).stage("validation").numpy
            return hold_out(data, fraction, random)
        if p["patience"] is not None:
            raise ValueError(
                "Expected rows to validate on, because patience is set, but there are none. "
                "Pass validation=(Xs, y) to fit, or set validation_fraction."
            )
        return data

    @property
    def classes_(self) -> Array:
        """The classes, sorted."""
        check_is_fitted(self)
        assert self.model_.classes is not None
        return self.model_.classes

    @property
    def out_of_fold_(self) -> dict[str, dict[str, Any]]:
        """Scores on labels that were left out, by view and for all views; empty without any."""
        check_is_fitted(self)
        return self.model_.out_of_fold

    def predict_proba(self, Xs: Views) -> Array:
        """Probabilities of the classes, from whichever views are present.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Views as at `fit`; row i is the same individual in all that are present. A dict may
            leave views out or hold None for them, a list holds None for what is absent, and a row
            that is NaN throughout a view is absent from it. Columns of data frames are matched by
            name.

        Returns
        -------
        ndarray of shape (rows, classes)
            Rows add up to 1; columns are in the order of `classes_`.
        """
        tables = self._check(Xs, aligned=True)
        return self.model_.predict(tables, lambda log_p: log_mean(log_p).exp())

    def predict_log_proba(self, Xs: Views) -> Array:
        """Logarithms of the probabilities of the classes.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As for `predict_proba`.

        Returns
        -------
        ndarray of shape (rows, classes)
            Columns are in the order of `classes_`.
        """
        tables = self._check(Xs, aligned=True)
        return self.model_.predict(tables, log_mean)

    def predict_set(self, Xs: Views, alpha: float = 0.1) -> Array:
        r"""Sets of classes that hold the true one in a share of 1 − α of rows like those labeled.

        Conformal prediction (Vovk, Gammerman and Shafer, 2005) by labels that ensemble members left
        out: a class is in the set if its probability is at least that which the true class had in
        the :math:`\lceil (n + 1)(1 - α) \rceil`-th best of n left-out rows. These are rows that
        were predicted from one view, from several or from all, as the row is; where there are fewer
        than 20 of a kind, those of all kinds.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As for `predict_proba`.
        alpha : float, default=0.1
            The share of rows, between 0 and 1, whose set may miss the true class.

        Returns
        -------
        ndarray of bool, shape (rows, classes)
            Whether a class is in the set; columns are in the order of `classes_`. The most
            probable class always is. All are, with a warning, where fewer than 1/α − 1 labels were
            left out.

        Notes
        -----
        It holds on average over rows and training sets, not for every class or kind of row, and
        not for rows of another population than the labeled ones. Left-out rows are predicted by
        one ensemble member, new ones by all, which is mostly better: sets tend to be too large
        rather than too small.
        """
        alpha, tables = check_alpha(alpha), self._check(Xs, aligned=True)
        P = self.model_.predict(tables, lambda log_p: log_mean(log_p).exp())
        return self.model_.predict_sets(P, self.model_.group_rows(tables), alpha)

    def predict_disagreement(self, Xs: Views, *, percentile: bool = False) -> Array:
        r"""Disagreement of the ensemble members about every row: the mutual information, in nats.

        .. math:: H\Big(\frac1R \sum_r p_r\Big) - \frac1R \sum_r H(p_r)

        It is 0 where all members predict the same probabilities, and at most log R.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As for `predict_proba`.
        percentile : bool, default=False
            Whether to return, from 0 to 100, the per cent of training rows about which members
            disagree less, among rows with the same view, with several or with all, as the row
            has.

        Returns
        -------
        ndarray of shape (rows,)
            Zeros with one member.
        """
        tables = self._check(Xs, aligned=True)
        found = self.model_.predict(tables, disagreement)
        if not percentile:
            return found
        return self.model_.percentiles(found, self.model_.group_rows(tables))

    def _predict_both(
        self, Xs: Views, progress: Callable[[int], object] | None = None
    ) -> tuple[Array, Array, IntArray]:
        """Probabilities, disagreement and groups; `progress` gets numbers of rows done."""
        tables = self._check(Xs, aligned=True)
        both = self.model_.predict(
            tables,
            lambda log_p: torch.hstack([log_mean(log_p).exp(), disagreement(log_p)[:, None]]),
            progress,
        )
        return both[:, :-1], both[:, -1], self.model_.group_rows(tables)

    def predict(self, Xs: Views) -> Array:
        """The most probable class of every row, from whichever views are present.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As for `predict_proba`.

        Returns
        -------
        ndarray of shape (rows,)
            Classes.
        """
        log_probs = self.predict_log_proba(Xs)
        classes: Array = self.classes_[log_probs.argmax(axis=1)]
        return classes

    def score(
        self, Xs: Views, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        """Accuracy: the share of rows whose class is predicted correctly.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As for `predict_proba`.
        y : 1-D array-like
            The true classes, none missing.
        sample_weight : 1-D array-like or None, default=None
            Weights of the rows.

        Returns
        -------
        float
            The accuracy.
        """
        with keep_random():
            from sklearn.metrics import accuracy_score

        tables = self._check(Xs, y, aligned=True)
        log_probs = self.model_.predict(tables, log_mean)
        predicted = self.classes_[log_probs.argmax(axis=1)]
        truth = check_all_known(y, len(predicted), self.unlabeled_marker)
        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))


def _check_prior(parameters: Mapping[str, Any], classes: Array) -> None:
    """Raise an error for prior probabilities that cannot be used."""
    class_prior = parameters["class_prior"]
    if class_prior is not None and not parameters["pseudo_labels"]:
        raise ValueError(
            "Expected pseudo_labels=True beside class_prior, because the heads of a network alone "
            "have no prior, but it is False. Leave class_prior out, or weigh the classes by "
            "class_weight."
        )
    replace_prior(np.zeros((1, len(classes))), class_prior, None, classes)
