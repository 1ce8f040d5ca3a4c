"""The semi-supervised classifier of any subset of views."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor

from hotview._types import Array, Views
from hotview._validation import (
    check_aligned_tables,
    check_known_tables,
    check_share,
)
from hotview.estimators.base import MultiViewEstimator
from hotview.estimators.inference import EnsembleMember, check_some_view, predict_ensemble
from hotview.estimators.inputs import FitInputs, FitResult, Source, Validation, check_source
from hotview.estimators.labels import (
    Labels,
    check_all_known,
    deal_out,
    encode_labels,
    number_labels,
    read_labels,
)
from hotview.estimators.randomness import entropy_of
from hotview.losses.specifications import CouplingSpec, RegularizerSpec
from hotview.semisupervised.fusion import LogOpinionPool, fit_pool
from hotview.training.column_scaler import check_finite
from hotview.training.loop import Epoch

__all__ = ["MultiViewClassifier"]


class MultiViewClassifier(ClassifierMixin, MultiViewEstimator):  # type: ignore[misc]
    r"""Classify individuals seen in several views, few of them linked and labeled.

    Minimizes :math:`L + γ R_M + τ \sum_s R_S`, objective (3) of Luo, Xu and Carin (2020), where
    `coupling` is :math:`R_M` and `view_regularizer` is :math:`R_S`. With `pseudo_labels`, L is the
    cross entropy of a head per view on soft labels, propagated over the neighbor graph of the view,
    and new rows are predicted by their nearest neighbors and by a ridge regression. Without, L is
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
        many more as make 120 steps.
    steps_per_epoch : int or None, default=None
        Number of steps of an epoch; None takes one pass over the largest view.
    batch_size : int, default=200
        Maximum number of rows of a view in a step. An epoch is divided into equal batches, views
        with fewer rows are repeated, and a smaller table gives a smaller batch, `batch_size_`.
    learning_rate : float, default=0.003
        Learning rate of Adam.
    standardize : bool, default=True
        Whether columns are scaled to mean 0 and variance 1 over the training rows.
    impute : {None, "mean"}, default=None
        Treatment of NaN in a row that has other values in the view: None raises an error,
        ``"mean"`` fills in the column's training mean. A row that is NaN throughout a view is
        absent from it.
    pseudo_labels : bool, default=True
        Whether labels are propagated over the neighbor graph of every view to train its head, and
        once more over the learned features. New rows are then predicted by their nearest neighbors
        in every view and by a ridge regression on the columns of all views; otherwise by the heads
        of the network alone.
    fusion : {"weighted", "average"}, default="weighted"
        How the predictions of the views become one, by a log-opinion pool. ``"weighted"``: every
        ensemble member leaves out the labels of some linked rows, and weights are estimated from
        these out-of-fold predictions, shrunk toward equal weights where labels are few.
        ``"average"``: weights are equal, and no label is left out.
    head_weight : float, default=1.0
        Weight of the views' own heads in the objective, where predictions of all heads are
        averaged. With 0, as in the paper, these heads are trained on features that are held fixed,
        and rows that have all views are predicted by the joint head alone.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    unlabeled_marker : object, default=-1
        Value in y that marks a row without a label, besides NaN and None; None for no other value.
    validation_fraction : float or None, default=None
        Fraction of the labeled linked rows whose labels are held out to score every epoch; these
        rows are trained on as rows without a label.
    patience : int or None, default=None
        Number of epochs without a better validation score after which training stops and the best
        weights are restored; None trains to the end.
    n_estimators : int, default=5
        Number of networks, trained on the same rows from different seeds: a deep ensemble.
        Probabilities are their mean, `predict_disagreement` measures how they differ, and `plan_`
        is their mean plan. Encoders of the user's own begin with the same weights in all.
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

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    plan_, view_labels_, references_, history_, network_, networks_, histories_, plans_ : object
        As for :class:`MultiViewEncoder`; the history also has the validation score.
    view_names_, n_views_, n_features_per_view_, batch_size_, fit_warnings_, metadata_ : object
        As for :class:`MultiViewEncoder`.
    trained_on_ : dict of str to object
        As for :class:`MultiViewEncoder`, and the number of labels of every class.

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

    def __init__(
        self,
        coupling: str | CouplingSpec = "hot-reference",
        view_regularizer: str | RegularizerSpec = "none",
        *,
        n_components: int = 10,
        encoder_dim: int = 20,
        hidden: Any = (128,),
        encoders: Any = None,
        initialization: str = "pca",
        n_neighbors: int = 10,
        max_epochs: int | None = None,
        steps_per_epoch: int | None = None,
        batch_size: int = 200,
        learning_rate: float = 0.003,
        standardize: bool = True,
        impute: str | None = None,
        pseudo_labels: bool = True,
        fusion: str = "weighted",
        head_weight: float = 1.0,
        class_weight: Any = None,
        unlabeled_marker: Any = -1,
        validation_fraction: float | None = None,
        patience: int | None = None,
        n_estimators: int = 5,
        device: Any = "auto",
        devices: int | str | None = None,
        precision: str = "float32",
        random_state: Any = None,
        verbose: bool | str = "auto",
        callbacks: Sequence[Callable[[Epoch], Any]] | None = None,
        checkpoint: Any = None,
        checkpoint_every: int = 10,
    ) -> None:
        self.coupling = coupling
        self.view_regularizer = view_regularizer
        self.n_components = n_components
        self.encoder_dim = encoder_dim
        self.hidden = hidden
        self.encoders = encoders
        self.initialization = initialization
        self.n_neighbors = n_neighbors
        self.max_epochs = max_epochs
        self.steps_per_epoch = steps_per_epoch
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.standardize = standardize
        self.impute = impute
        self.pseudo_labels = pseudo_labels
        self.fusion = fusion
        self.head_weight = head_weight
        self.class_weight = class_weight
        self.unlabeled_marker = unlabeled_marker
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.n_estimators = n_estimators
        self.device = device
        self.devices = devices
        self.precision = precision
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(
        self,
        Xs: Views | None,
        y: npt.ArrayLike | None,
        *,
        unaligned: Views | None = None,
        unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
        validation: tuple[Views, npt.ArrayLike] | None = None,
        resume: bool = False,
    ) -> MultiViewClassifier:
        """Learn from linked rows, some or all labeled, and from rows without correspondence.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes, or None
            At least two views; row i is the same individual in all of them. A row that is NaN
            throughout a view is absent from it. None where no row is linked: then `unaligned` holds
            all views, and every view learns from its own labels in `unaligned_y`.
        y : 1-D array-like or None
            The class of every row of `Xs`: numbers or text; NaN, None or `unlabeled_marker` where
            it is not known. None if `Xs` is None.
        unaligned : dict, list or tuple of 2-D array-likes, or None, default=None
            More rows of some or all views, of any numbers, that correspond to nothing.
        unaligned_y : dict of str to 1-D array-like, or None, default=None
            Classes of some views' unaligned rows, with gaps as in `y`; they teach that view's
            head. With them `y` may hold no label at all.
        validation : tuple of views and labels, or None, default=None
            Aligned rows whose accuracy is recorded after every epoch.
        resume : bool, default=False
            Whether to go on from `checkpoint`, or from the beginning if there is no such file. The
            data and parameters must be those of then, but for `max_epochs`, which may be larger,
            `verbose` and `callbacks`; without a `random_state`, the seed of then is used. On the
            CPU the result has the same bits as that of a fit that was never stopped, unless
            callbacks or encoders of one's own keep something outside of their tensors.

        Returns
        -------
        MultiViewClassifier
            The estimator itself.
        """
        arguments = {"unaligned": unaligned, "unaligned_y": unaligned_y, "validation": validation}
        self._fit(resume=resume, Xs=Xs, y=y, **arguments)
        return self

    def _tasks(
        self,
        Xs: Views | None,
        y: npt.ArrayLike | None,
        *,
        unaligned: Views | None = None,
        unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
        validation: tuple[Views, npt.ArrayLike] | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> list[FitInputs]:
        """Check what `fit` got; return what to train, one task per replica."""
        parameters = parameters or self._parameters()
        source = check_source(Xs, y, unaligned)
        given = np.empty(0) if Xs is None else y
        labels = encode_labels(
            given, source.n_linked, unaligned_y, source.unaligned, self.unlabeled_marker
        )
        judge = self._check_validation(source, labels.classes, validation)
        task = FitInputs(source, labels, parameters, self._weigh_classes, judge)
        return self._leave_out(self._per_replica(task))

    def _leave_out(self, tasks: list[FitInputs]) -> list[FitInputs]:
        """Let every replica leave out the labels of other rows, so that these can judge it."""
        labels = tasks[0].labels
        if self.fusion != "weighted" or len(tasks) == 1 or labels is None:
            return tasks
        hands = deal_out(labels, len(tasks), _dealer(tasks))
        return [replace(task, held=held) for task, held in zip(tasks, hands, strict=True)]

    def _keep(self, tasks: Sequence[FitInputs], found: Sequence[FitResult], start: float) -> None:
        super()._keep(tasks, found, start)
        assert tasks[0].labels is not None
        self.classes_ = tasks[0].labels.classes
        self._fusions = [one.fusion for one in found if one.fusion is not None]
        self._judges = [one.judge for one in found]
        self._pool: LogOpinionPool | None = None
        if self.fusion == "weighted":
            held = [one.held for one in found if one.held is not None]
            # A Generator of the user's is moved on by what needs it alone.
            random = _dealer(tasks) if held else np.random.default_rng(0)
            self._pool = fit_pool(held, self.n_views_, random)

    def _check_validation(
        self,
        source: Source,
        classes: Array,
        validation: tuple[Views, npt.ArrayLike] | None,
    ) -> Validation | None:
        """The rows to score every epoch on, where the caller gave any."""
        if self.validation_fraction is not None:
            check_share("validation_fraction", self.validation_fraction)
        elif validation is None and self.patience is not None:
            raise ValueError(
                "Expected rows to validate on, because patience is set, but there are none. "
                "Pass validation=(Xs, y) to fit, or set validation_fraction."
            )
        if validation is None:
            return None
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise TypeError(
                "Expected validation to be views and their labels, but it is a "
                f"{type(validation).__name__}. Pass validation=(Xs, y)."
            )
        Xs, y = validation
        tables = check_known_tables(Xs, source.names, source.shapes)
        present = [check_finite(name, table, self.impute) for name, table in tables.items()]
        n_rows = check_aligned_tables(tables, y)
        nowhere = np.setdiff1d(np.arange(n_rows), np.concatenate(present))
        check_some_view(nowhere, source.names)
        labels, known = read_labels("validation's y", y, n_rows, self.unlabeled_marker)
        if not known.any():
            raise ValueError(
                "Expected validation's y to hold labels to score against, but no row has one. "
                "Label some rows, or leave validation out."
            )
        return Validation(tables, number_labels(labels, classes), np.flatnonzero(known))

    def _weigh_classes(self, labels: Labels) -> Array | None:
        if self.class_weight is None:
            return None
        codes = np.concatenate([labels.linked, *labels.unaligned.values()])
        known = codes[codes >= 0]
        weights: Array = np.ones(len(labels.classes))
        there = np.unique(known)  # others may be among the labels that are held out
        weights[there] = compute_class_weight(
            self.class_weight, classes=labels.classes[there], y=labels.classes[known]
        )
        if not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
            raise ValueError(
                "Expected class_weight to hold finite numbers of at least 0, not all 0, but the "
                f"weights of {labels.classes.tolist()} are {weights.tolist()}. Use 'balanced'."
            )
        return weights

    def predict_proba(self, Xs: Views) -> Array:
        """Probabilities of the classes, from whichever views are present.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Views as at `fit`; row i is the same individual in all that are present. A dict may
            leave views out or hold None for them, a list holds None for what is absent, and a row
            that is NaN throughout a view is absent from it.

        Returns
        -------
        ndarray of shape (rows, classes)
            Rows add up to 1; columns are in the order of `classes_`.
        """
        found = self.predict_log_proba(Xs)
        probabilities: Array = np.exp(found, out=found)
        return probabilities

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
        return self._conclude(Xs, _average)

    def predict_disagreement(self, Xs: Views) -> Array:
        r"""How much the replicas disagree about every row: the mutual information, in nats.

        .. math:: H\Big(\frac1R \sum_r p_r\Big) - \frac1R \sum_r H(p_r)

        It is 0 where all replicas say the same, however unsure each of them is, and at most log R.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As for `predict_proba`.

        Returns
        -------
        ndarray of shape (rows,)
            Zeros with one replica.
        """
        return self._conclude(Xs, _disagreement)

    def _predict_both(
        self, Xs: Views, tell: Callable[[int], object] = lambda n: None
    ) -> tuple[Array, Array]:
        """Probabilities and disagreement for the price of one; `tell` gets numbers of rows done."""
        found = self._conclude(
            Xs, lambda log_p: torch.hstack([_average(log_p), _disagreement(log_p)[:, None]]), tell
        )
        return np.exp(found[:, :-1]), found[:, -1]

    def _conclude(
        self,
        Xs: Views,
        conclude: Callable[[Tensor], Tensor],
        tell: Callable[[int], object] = lambda n: None,
    ) -> Array:
        """What follows from the probabilities of all replicas, as of `predict_ensemble`."""
        tables = self._check(Xs)
        n_rows = check_aligned_tables(tables)
        replicas = map(EnsembleMember, self.networks_, self._fusions, self._judges)
        found = predict_ensemble(list(replicas), self._rows(tables), self._pool, conclude, tell)
        nowhere = np.flatnonzero(np.isnan(found.reshape(n_rows, -1)[:, 0]))
        check_some_view(nowhere, self.view_names_)
        return found

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
        best = self.predict_log_proba(Xs).argmax(axis=1)
        classes: Array = self.classes_[best]
        return classes

    def score(
        self, Xs: Views, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        """Share of rows whose class is predicted correctly.

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
        check_aligned_tables(self._check(Xs), y)
        predicted = self.predict(Xs)
        truth = check_all_known(y, len(predicted), self.unlabeled_marker)
        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))


def _average(log_p: Tensor) -> Tensor:
    """Logarithm of the mean probabilities."""
    return log_p.logsumexp(0) - math.log(len(log_p))


def _disagreement(log_p: Tensor) -> Tensor:
    """Entropy of the mean less the mean entropy."""
    p = log_p.exp()
    each = torch.special.entr(p).sum(2).mean(0)
    between: Tensor = torch.special.entr(p.mean(0)).sum(1) - each
    return between.clamp_min(0.0)


def _dealer(tasks: Sequence[FitInputs]) -> np.random.Generator:
    """Source of which labels are left out, and which views, that is the same for the same fit."""
    return np.random.default_rng(entropy_of(tasks[0].parameters["random_state"]))
