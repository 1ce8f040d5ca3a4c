"""The encoder: one network per view, and the plan over the views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin

from hotview._types import Views
from hotview._validation import check_tables
from hotview.estimators.base import MultiViewEstimator
from hotview.estimators.inputs import FitInputs, ViewTables
from hotview.estimators.randomness import member_states
from hotview.training.loop import Epoch

__all__ = ["MultiViewEncoder"]


class MultiViewEncoder(TransformerMixin, MultiViewEstimator, auto_wrap_output_keys=None):  # type: ignore[misc, call-arg]
    r"""Encode views whose rows do not correspond, and find which views belong together.

    Minimizes :math:`γ R_M + τ \sum_s R_S` of Luo, Xu and Carin (2020): `coupling` is
    :math:`R_M`, `view_regularizer` is :math:`R_S`.

    Parameters
    ----------
    coupling : str, default="hot-reference"
        What brings the views together: ``"none"`` (the control), ``"lscca"`` and ``"dgcca"``
        (which need aligned rows), ``"sw-pairwise"``, ``"sw-reference"``, ``"hot-pairwise"`` or
        ``"hot-reference"``; equations (1), (2) and (8) to (11) of the paper.
    view_regularizer : str, default="autoencoder"
        What keeps each view itself: ``"none"``, ``"autoencoder"`` (its features can be decoded) or
        ``"manifold"`` (its neighbors stay neighbors).
    n_components : int, default=10
        Dimension of the common space.
    encoder_dim : int, default=20
        Features of every view.
    hidden : tuple of int or dict of str to tuple, default=(128,)
        Widths of the hidden layers of all encoders, or by view; ``()`` makes them linear.
    encoders : list or dict of nn.Module, or None, default=None
        Encoders of one's own, by view; they are copied, and views without one get the usual.
    initialization : {"pca", "random"}, default="pca"
        Where encoders begin: at the principal components of their view, with references at groups
        of similar views, or, as in the paper, at random.
    n_references : int, default=3
        K: reference clouds of ``"hot-reference"``, and groups of views in `view_labels_`.
    n_projections : int, default=50
        Directions drawn in every step; multiples of `n_components` are best.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn.
    coupling_weight : float, default=0.1
        γ, the weight of the coupling.
    regularizer_weight : float, default=0.01
        τ, the weight of the view regularizer.
    orthogonality_weight : float, default=0.01
        α, the weight of the constraint inside the coupling; ``inf`` meets it exactly, by a linear
        map of the latents or references of every batch.
    reg : float, default=0.1
        β, the entropic regularization of the plan: relative to the mean
        cost, or, with ``reduction="sum"``, as it
        stands.
    cost_decay : float, default=0.9
        Costs are averaged over steps with this decay before the plan is solved for; 0 takes each
        step alone.
    sinkhorn_max_iter : int, default=1000
        Most iterations for the plan; up to 100 they are Sinkhorn's and nothing else.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs and constraints are means or, as in the paper, sums over rows.
    n_neighbors : int, default=10
        Neighbors of every row, for ``view_regularizer="manifold"``.
    max_epochs : int, default=100
        Most epochs; an epoch is one pass over the largest view.
    steps_per_epoch : int or None, default=None
        Steps that make an epoch instead.
    batch_size : int, default=400
        Most rows of a view in a step. An epoch is cut evenly, views with fewer rows are repeated,
        and with fewer rows in all the batch shrinks to them; `batch_size_` tells.
    learning_rate : float, default=0.001
        Of Adam.
    standardize : bool, default=True
        Whether columns get mean 0 and variance 1 over the training rows.
    impute : {None, "mean"}, default=None
        What to do with NaN in a row that has other values in the view: refuse it, or fill in the
        column's training mean. A row that is NaN throughout a view is absent from it.
    n_estimators : int, default=1
        Networks to train, on the same rows from different seeds; `transform` puts their features
        side by side, and `plan_` is their mean plan. Encoders of one's own begin alike in all, and
        what is random in them is not the same as alone.
    device : str or torch.device, default="auto"
        Where to train; ``"auto"`` takes CUDA where there is any.
    strategy : {"ddp"} or None, default=None
        ``"ddp"`` shares the rows of every step out among several processes, which give the same
        result as one, to rounding. `fit` starts them by running the script again, so its own lines
        belong under ``if __name__ == "__main__":``, and all of them run in every process; under
        torchrun it takes those that are there. It needs ``hotview[distributed]``.
    devices : int or "auto", default=1
        How many processes, each on a device of its own; ``"auto"`` takes one per GPU. Under
        torchrun its numbers hold.
    precision : {"float32", "tf32", "bfloat16"}, default="float32"
        How encoders and decoders round while they are trained; the rest of the training, and
        everything after it, is float32 or better. ``"tf32"`` needs a CUDA device and changes
        nothing elsewhere. Both pay with wide layers and large batches, and change the result a
        little; `trained_on_` tells what was used.
    random_state : int, numpy Generator or None, default=None
        Seed of everything random; on the CPU the same seed gives the same bits.
    verbose : bool or "auto", default="auto"
        Whether to show progress; ``"auto"`` does in notebooks and at the prompt, not in scripts.
    callbacks : list of callables or None, default=None
        Called after every epoch with an `Epoch` (number, row, network); setting its ``stop`` ends
        the training.
    checkpoint : str, path or None, default=None
        File that training is written down in, ending in ``.checkpoint``, for ``fit(...,
        resume=True)`` to go on from; None writes none. `fit` overwrites it, and leaves it behind:
        delete it when the model is saved. It is not part of saved models.
    checkpoint_every : int, default=10
        Epochs from one such writing to the next; there is also one at the end, and at Ctrl-C.

    Attributes
    ----------
    plan_ : Plan or None
        The plan W over the views and its costs C, from a last pass over all rows; None for
        ``coupling="none"``.
    view_labels_ : ndarray of int64 or None
        The group of every view.
    references_ : ndarray of shape (K, points, n_components) or None
        The reference clouds, where the coupling has any; with several replicas, those of each, in
        the order of the columns of `plan_`.
    history_ : History
        What was recorded in every epoch: the loss and its terms, the effective rank of every
        view's latents, the error of the plan's marginals, seconds.
    network_ : nn.Module
        The trained network.
    networks_, histories_, plans_ : list
        The same of every replica, the first being the one above (but `plan_` is their mean).
    view_names_, n_views_, n_features_per_view_ : list of str, int, dict of str to int
        The views of `fit`, and their numbers of columns.
    batch_size_ : int
        Rows of the largest view in a step.
    trained_on_ : dict of str to object
        What the model was trained on: numbers of rows and labels, seconds, versions, the device,
        the precision.
    fit_warnings_ : list of str
        The warnings of the fit.
    metadata_ : dict of str to object
        Empty after `fit`; what is put in is saved with the model, if JSON can hold it.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> views = make_views([90, 120, 100, 80], n_views=4, random_state=0).views
    >>> encoder = MultiViewEncoder(max_epochs=5, random_state=0).fit(views)
    >>> {name: Z.shape for name, Z in encoder.transform(views).items()}
    {'view_0': (90, 20), 'view_1': (120, 20), 'view_2': (100, 20), 'view_3': (80, 20)}
    >>> encoder.plan_.W.shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        coupling: str = "hot-reference",
        view_regularizer: str = "autoencoder",
        *,
        n_components: int = 10,
        encoder_dim: int = 20,
        hidden: Any = (128,),
        encoders: Any = None,
        initialization: str = "pca",
        n_references: int = 3,
        n_projections: int = 50,
        projections: str = "orthogonal",
        coupling_weight: float = 0.1,
        regularizer_weight: float = 0.01,
        orthogonality_weight: float = 0.01,
        reg: float = 0.1,
        cost_decay: float = 0.9,
        sinkhorn_max_iter: int = 1000,
        reduction: str = "mean",
        n_neighbors: int = 10,
        max_epochs: int = 100,
        steps_per_epoch: int | None = None,
        batch_size: int = 400,
        learning_rate: float = 0.001,
        standardize: bool = True,
        impute: str | None = None,
        n_estimators: int = 1,
        device: Any = "auto",
        strategy: str | None = None,
        devices: int | str = 1,
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
        self.n_references = n_references
        self.n_projections = n_projections
        self.projections = projections
        self.coupling_weight = coupling_weight
        self.regularizer_weight = regularizer_weight
        self.orthogonality_weight = orthogonality_weight
        self.reg = reg
        self.cost_decay = cost_decay
        self.sinkhorn_max_iter = sinkhorn_max_iter
        self.reduction = reduction
        self.n_neighbors = n_neighbors
        self.max_epochs = max_epochs
        self.steps_per_epoch = steps_per_epoch
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.standardize = standardize
        self.impute = impute
        self.n_estimators = n_estimators
        self.device = device
        self.strategy = strategy
        self.devices = devices
        self.precision = precision
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    # TransformerMixin, which comes first, provides it only for output that it wraps.
    set_output = MultiViewEstimator.set_output

    def fit(
        self, Xs: Views, y: Any = None, *, paired: bool = False, resume: bool = False
    ) -> MultiViewEncoder:
        """Fit an encoder for every view.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            At least two views, rows are individuals; their numbers may differ.
        y : object, default=None
            Ignored; part of scikit-learn's interface.
        paired : bool, default=False
            Whether row i is the same individual in every view, which ``"lscca"`` and ``"dgcca"``
            need.
        resume : bool, default=False
            Whether to resume from `checkpoint`, or start from the beginning if there is no such
            file. Data and parameters must be the same, except `max_epochs`, which may be larger,
            `verbose` and `callbacks`; without a `random_state`, the seed of the checkpoint is used.
            On the CPU the result has the same bits as that of an uninterrupted fit, unless
            callbacks or the user's own encoders have state outside of their tensors.

        Returns
        -------
        MultiViewEncoder
            The estimator itself.
        """
        self._fit(resume=resume, Xs=Xs, paired=paired)
        return self

    def _inputs(
        self,
        Xs: Views,
        y: Any = None,
        *,
        paired: bool = False,
        parameters: dict[str, Any] | None = None,
    ) -> FitInputs:
        parameters = parameters or self._parameters()
        if not isinstance(paired, bool | np.bool_):
            raise TypeError(
                f"Expected paired to be True or False, but it is {paired!r}. Pass paired=True only "
                "if row i is the same individual in every view."
            )
        views = check_tables(Xs, aligned=paired, at_least=2)
        linked, unaligned = (views, {}) if paired else ({}, views)
        tables = ViewTables(list(views), linked, unaligned)
        return FitInputs(tables, None, parameters, member_states(parameters))
