"""The encoder: one network per view, and the plan over the views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import TransformerMixin

from hotview._types import Views
from hotview.data import Data, encoder_data
from hotview.estimators.base import MultiViewEstimator

__all__ = ["MultiViewEncoder"]


class MultiViewEncoder(TransformerMixin, MultiViewEstimator, auto_wrap_output_keys=None):  # type: ignore[misc, call-arg]
    r"""Encode views whose rows do not correspond.

    Minimizes :math:`γ (R_M + λ R_A) + τ \sum_s R_S`, which without linked rows is that of Luo, Xu
    and Carin (2020): `coupling` is :math:`R_M`, `view_regularizer` is :math:`R_S`, and :math:`R_A`
    is the distance between the latents of linked rows.

    Parameters
    ----------
    coupling : str or CouplingSpec, default="hot-reference"
        Loss that brings the views together, R_M: ``"none"`` (the control), ``"lscca"`` and
        ``"dgcca"`` (which need aligned rows), ``"sw-pairwise"``, ``"sw-reference"``,
        ``"hot-pairwise"`` or ``"hot-reference"``; equations (1), (2) and (8) to (11) of the paper.
        A specification, as ``HOTReferenceSpec(n_references=4)``, carries settings, its weight among
        them; a name stands for the specification with its defaults.
    view_regularizer : str or RegularizerSpec, default="autoencoder"
        Loss of every view by itself, R_S: ``"none"``, ``"autoencoder"`` (features can be decoded),
        ``"manifold"`` (neighbors have similar latents) or ``"diffusion"`` (features approximate
        diffusion coordinates); or a specification, as ``AutoencoderSpec(weight=0.1)``. Its default
        weight is 0.01.
    alignment_weight : float, default=1.0
        λ, the weight of linked rows (``fit(..., linked=)``) relative to R_M: the squared distance
        between latents of the same individual, and a tenth of that of all rows from their targets,
        by generalized CCA of the linked rows on components and neighbor graphs. These targets take
        the place of the coupling's constraint. A fifth of 20 linked rows and more, at most 20, is
        held out for `common_space_`. With 0, as in the paper, linked rows are not aligned; nor are
        they by ``"lscca"`` and ``"dgcca"``, which do it themselves.
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
        Number of neighbors of a row in the neighbor graph of its view, which ``"manifold"`` and
        ``"diffusion"`` use.
    max_epochs : int, default=100
        Maximum number of epochs; an epoch is one pass over the largest view.
    steps_per_epoch : int or None, default=None
        Number of steps of an epoch; None takes one pass over the largest view.
    batch_size : int, default=400
        Maximum number of rows of a view in a step. An epoch is divided into equal batches, views
        with fewer rows are repeated, and a smaller table gives a smaller batch, `batch_size_`.
    learning_rate : float, default=0.001
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
    n_estimators : int, default=1
        Number of networks, trained on the same rows from different seeds; `transform` concatenates
        their features, and `plan_` is solved once, for the mean of their costs. Encoders of the
        user's own begin with the same weights in all.
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
    model_ : Model
        Everything that was learned, as one object, which the other attributes are parts of.
    plan_ : Plan or None
        The plan W over the views and its costs C, computed from all rows after training; None for
        ``coupling="none"``.
    view_similarity_ : ViewSimilarity or None
        What views share, measured on linked rows: ``value``, ``low``, ``high`` and ``p_value`` of
        every pair; None without enough linked rows.
    common_space_ : CommonSpace or None
        Whether rows of different views can be compared in the common space: ``foscttm`` and
        ``neighbor_agreement`` of every pair on linked rows that were held out, ``low`` and ``high``
        ends of the interval, ``is_comparable``; None with fewer than 20 linked rows.
    view_labels_ : ndarray of int64 or None
        The group of every view, where linked rows show groups that hold; else None.
    references_ : ndarray of shape (K, points, n_components) or None
        The reference clouds, if the coupling has any, in the order of the columns of `plan_`; with
        several networks, those of each.
    history_ : History
        Per epoch: the loss and its weighted terms (``transport``, ``alignment``, ``extension``),
        ``foscttm`` and ``neighbor_agreement`` of held-out linked rows, the effective rank of every
        view's latents, the error of the plan's marginals, and seconds.
    network_ : nn.Module
        The trained network.
    networks_, histories_, plans_ : list
        The same of every ensemble member; `network_` and `history_` are those of the first. The
        costs of `plan_` are the mean over members, with references matched, and ``plan_.std`` is
        the standard deviation of their plans.
    view_names_, n_views_, n_features_per_view_ : list of str, int, dict of str to int
        Names and number of the views, and their numbers of columns, before text is encoded.
    columns_ : dict of str to ViewColumns
        The columns of every view: ``columns_["blood"].columns`` have a ``name`` and, where text is
        encoded, its ``categories``; None for a view whose columns have no names. ``n_columns`` is
        the number of encoded columns.
    preprocessing_ : dict of str to str
        What was done to the columns of every view, in words.
    batch_size_ : int
        Number of rows of the largest view in a step.
    trained_on_ : dict of str to object
        Provenance of the model: numbers of rows and labels, seconds, versions, how missing cells of
        every view were imputed, device, precision.
    fit_warnings_ : list of str
        Warnings of `fit`.
    metadata_ : dict of str to object
        The user's metadata, saved with the model; empty after `fit`. JSON must be able to hold it.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> views = make_views([90, 120, 100, 80], n_views=4, random_state=0).views
    >>> encoder = MultiViewEncoder(max_epochs=5, random_state=0).fit(views)
    >>> {name: Z.shape for name, Z in encoder.transform(views).items()}
    {'view_0': (90, 20), 'view_1': (120, 20), 'view_2': (100, 20), 'view_3': (80, 20)}
    >>> encoder.plan_.W.shape
    (4, 2)
    """

    _regularizer_weight = 0.01

    # TransformerMixin, which comes first, provides it only for output that it wraps.
    set_output = MultiViewEstimator.set_output

    def fit(
        self,
        Xs: Views,
        y: Any = None,
        *,
        linked: Views | None = None,
        paired: bool = False,
        resume: bool = False,
    ) -> MultiViewEncoder:
        """Fit an encoder for every view.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            At least two views, rows are individuals; their numbers may differ. Text columns of data
            frames are one-hot encoded, a column of 0 and 1 for every value in any row of the view.
        y : object, default=None
            Ignored; part of scikit-learn's interface.
        linked : dict, list or tuple of 2-D array-likes, or None, default=None
            Further rows, of individuals who are in several views: row i is the same individual in
            all of them, NaN throughout a view that it is absent from. Their latents are aligned
            (see `alignment_weight`), and `view_similarity_` is measured on them. `Xs` may then
            leave views out.
        paired : bool, default=False
            Whether row i of `Xs` is the same individual in every view, which ``"lscca"`` and
            ``"dgcca"`` need.
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
        self._fit(resume=resume, Xs=Xs, linked=linked, paired=paired)
        return self

    def _data(
        self, p: Mapping[str, Any], Xs: Views, *, linked: Views | None = None, paired: bool = False
    ) -> Data:
        return encoder_data(Xs, linked, paired=paired)
