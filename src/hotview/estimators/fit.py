"""The fit of one or more estimators: from validated inputs to trained ensembles."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse.csgraph import connected_components
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from hotview._messages import ParameterError
from hotview._processes import is_distributed, rank
from hotview._types import Array, IntArray
from hotview.estimators.calibration import (
    MIN_ROWS,
    ScoresByViews,
    calibrate_pool,
    calibrate_super_learner,
    measure_disagreement,
)
from hotview.estimators.diagnostics import (
    FitWarnings,
    collapse_warning,
    input_warnings,
    interrupt_warning,
    plan_warning,
)
from hotview.estimators.inference import HeadEnsemble, PredictorEnsemble
from hotview.estimators.inputs import FitInputs, SharedInputs, compute_graphs, scan_views
from hotview.estimators.labels import replace_prior
from hotview.estimators.member_fit import LeftOut, MemberFit, Trained, take_rows
from hotview.estimators.out_of_fold import (
    fit_other_folds,
    increase_losses,
    score_out_of_fold,
    score_warnings,
    shift_warnings,
)
from hotview.estimators.parameters import hidden_of, impute_of, preprocessing_of
from hotview.semisupervised.fusion import OutOfFold, fit_pool
from hotview.semisupervised.graph import ViewGraph, refine_graph
from hotview.semisupervised.label_folds import (
    LabelFold,
    PseudoLabels,
    label_fold,
    propagate_labels,
)
from hotview.semisupervised.predictors import fit_predictors
from hotview.semisupervised.pseudo_labels import NodeLabels, ViewLabels
from hotview.semisupervised.ridge import thin_rows
from hotview.semisupervised.super_learner import (
    ScoresOutOfFold,
    SuperLearner,
    fit_super_learner,
)
from hotview.similarity import CommonSpace, ViewSimilarity
from hotview.similarity.common_space import average_common_spaces
from hotview.similarity.view_similarity import N_COMPONENTS, measure_linked_rows
from hotview.training.batched import BatchedTrainer
from hotview.training.batches import TrainingRows
from hotview.training.checkpoint import Checkpoint
from hotview.training.ddp import DDPTrainer
from hotview.training.loop import Schedule, train
from hotview.training.pca import principal_components
from hotview.training.progress import wants_progress
from hotview.training.rows import ViewRows
from hotview.training.threads import catch_interrupt, suited_threads
from hotview.training.trainer import SingleTrainer, Trainer
from hotview.training.view_plan import ViewPlan, solve_mean_plan

__all__ = ["EnsembleFit", "fit_views"]

_N_COMPARED = 500  # training rows of each kind whose disagreement new rows are compared with


class EnsembleFit:
    """The fit of one estimator: its ensemble members, and what they share.

    Parameters
    ----------
    inputs : FitInputs
        The validated inputs.

    Attributes
    ----------
    members : list of MemberFit
        The fits of the members.
    trained : list of Trained
        What was computed with the network of every member.
    left_out : list of LeftOut
        Predictions of rows whose labels members left out.
    pseudo : PseudoLabels or None
        What labels say about the rows of every fold; None without pseudo-labels.
    nodes : sequence of NodeLabels
        What all labels say about the nodes of every view, for the predictors of new rows.
    warnings : FitWarnings
        The warnings of the fit.
    ensemble : HeadEnsemble or PredictorEnsemble or None
        What predicts new rows; None without labels.
    scores : dict of str to dict
        From `score_out_of_fold`; empty where no label is left out.
    similarity : ViewSimilarity or None
        Similarity of the views by linked rows; None without enough of them.
    common_space : CommonSpace or None
        Nearness of held-out linked rows in the common space; None without any.
    set_scores : ScoresByViews or None
        Scores of left-out rows for prediction sets; None where no label is left out.
    disagreement : ScoresByViews or None
        Disagreement of the members about training rows; None without labels, or with one member.
    """

    shared: SharedInputs
    pseudo: PseudoLabels | None = None
    nodes: Sequence[NodeLabels] = ()
    ensemble: HeadEnsemble | PredictorEnsemble | None = None
    similarity: ViewSimilarity | None = None
    common_space: CommonSpace | None = None
    set_scores: ScoresByViews | None = None
    disagreement: ScoresByViews | None = None

    def __init__(self, inputs: FitInputs) -> None:
        self.inputs = inputs
        self.members = [MemberFit(inputs, r) for r in range(len(inputs.random_states))]
        self.trained: list[Trained] = []
        self.left_out: list[LeftOut] = []
        self.scores: dict[str, dict[str, Any]] = {}
        self.warnings = FitWarnings(shown=rank() == 0)

    def scan(self, *, load: bool = True) -> tuple[SharedInputs, ViewLabels]:
        """Read the tables, raise an error for what cannot be trained on, and warn of the rest.

        Parameters
        ----------
        load : bool, default=True
            Whether rows are loaded for training; False only checks them.

        Returns
        -------
        SharedInputs
            The rows.
        ViewLabels
            Their labels.
        """
        first, parameters = self.members[0], self.inputs.parameters
        hidden_of(parameters["hidden"], first.names)
        scanned = scan_views(
            self.inputs.tables,
            preprocessing=preprocessing_of(parameters, first.encoders, first.names),
            impute=impute_of(parameters["impute"], first.names),
            device=first.device,
            load=load,
        )
        if wants_progress(parameters["verbose"]):
            for name, scan in scanned.scans.items():
                if scan.scaler.kind != "standardize" or scan.scaler.components is not None:
                    print(f"{name}: {scan.scaler.description}", file=sys.stderr)
        rows = scanned.training_rows(first.labels)
        _check_alignment(self.inputs, rows)
        _check_links(self.inputs, scanned, rows)
        given = scanned.view_labels(self.inputs.labels)
        for text in input_warnings(self.inputs, scanned.scans, rows, given):
            self.warnings.add(text)
        return replace(scanned, log_prior=given.log_prior), given

    def prepare(self) -> None:
        """Scan the tables, compute what members share, and prepare their trainings."""
        first, parameters = self.members[0], self.inputs.parameters
        scanned, given = self.scan()
        self.shared = compute_graphs(scanned, parameters, given, first.random)
        if first.propagates and self.inputs.labels is not None:
            folds = [member.label_fold(self.shared) for member in self.members]
            randoms = [member.random.stage("soft labels").numpy for member in self.members]
            self.pseudo = propagate_labels(self.shared.graphs, given, folds, randoms)
            known = [n > 0 for n in given.n_classes]
            prior = given.log_prior, self.pseudo.shifted
            for text in shift_warnings(first.names, known, *prior, self.inputs.labels.classes):
                self.warnings.add(text)
            self.shared = replace(self.shared, log_prior=self.pseudo.log_prior)
        nodes = [[] for _ in self.members] if self.pseudo is None else self.pseudo.nodes
        for member, own in zip(self.members, nodes, strict=True):
            member.prepare(self.shared, own)

    def finish(self, *, view_tests: bool) -> None:
        """Compute plans, predictors and the similarity of views, and warn about the result."""
        first = self.members[0]
        for member in self.members:
            batch_size = member.training.sampler.batch_size
            with suited_threads(member.training.network, batch_size, member.device):
                self.trained.append(member.finish(null=view_tests and member is first))
        with catch_interrupt() as interrupt:  # Ctrl-C must not lose the trained networks
            if self.inputs.labels is not None:
                pairs = zip(self.members, self.trained, strict=True)
                found = [member.score_left_out(trained.features) for member, trained in pairs]
                self.left_out = [scores for scores in found if scores is not None]
                self.ensemble = self._fit_predictors() if first.propagates else self._fit_heads()
                self.disagreement = self._measure_disagreement(self.ensemble)
            if view_tests:
                self.similarity = self._measure_similarity()
            if len(self.shared.held_out_links) > 0:
                spaces = [m.measure_common_space() for m in self.members]
                self.common_space = average_common_spaces([x for x in spaces if x is not None])
        for member in self.members:
            member.interrupted = member.interrupted or interrupt.requested
        self._warn()

    @property
    def plans(self) -> list[ViewPlan]:
        """The plans of all members; none without a coupling."""
        plans = [trained.plan for trained in self.trained if trained.plan is not None]
        # The null depends on the tables alone: the first member's serves for all.
        return [replace(plan, null=plans[0].null) for plan in plans]

    def _fit_heads(self) -> HeadEnsemble:
        """Networks whose heads predict, weighed by labels that members left out."""
        members, pool = [member.fit_heads() for member in self.members], None
        n_views = len(self.inputs.tables.names)
        if self.inputs.parameters["fusion"] == "weighted":
            folds = [x.scores for x in self.left_out if isinstance(x.scores, OutOfFold)]
            pool = fit_pool(folds, n_views, random := self._for_weights())
            if len(folds) > 1:
                others = [[x for x in folds if x is not fold] for fold in folds]
                pools = [fit_pool(some, n_views, random) for some in others]
                self.set_scores = calibrate_pool(folds, pools, n_views)
        return HeadEnsemble(members, pool)

    def _fit_predictors(self) -> PredictorEnsemble:
        """Predictors of new rows, fitted to all labels, and shared by all networks."""
        first = self.members[0]
        assert self.pseudo is not None
        labels = self.shared.view_labels(self.inputs.labels)
        random = first.random.stage("refined labels").numpy
        everything = LabelFold(labels), self.pseudo.weights, random
        nodes = self.nodes = label_fold(self._refine_graphs(), labels, *everything)
        learner = self._fit_super_learner()
        features = [trained.features for trained in self.trained]
        predictors = fit_predictors(self.shared.graphs, nodes, labels, features)
        predictors = predictors.condense(first.random.stage("condensing").numpy)
        networks = [member.training.network for member in self.members]
        rule = first.fusion_rule(self.inputs.labels, nodes)
        return PredictorEnsemble(networks, rule, predictors, learner)

    def _for_weights(self) -> np.random.Generator:
        """Random numbers that weights of predictors and heads are fitted with."""
        return self.members[0].random.stage("weights").numpy

    def _fit_super_learner(self) -> SuperLearner:
        """Weigh the predictors by labels that members left out, and score them by these."""
        assert self.inputs.labels is not None
        classes, names = self.inputs.labels.classes, self.inputs.tables.names
        labels = self.shared.view_labels(self.inputs.labels)
        known = [n > 0 for n in labels.n_classes]
        folds = [x.scores for x in self.left_out if isinstance(x.scores, ScoresOutOfFold)]
        random = self._for_weights()
        learner = fit_super_learner(folds, labels.log_prior, known, random)
        labeled = ScoresOutOfFold.concatenate(folds) if folds else None
        without = [x.without for x in self.left_out if x.without is not None]
        increase = None
        p = self.inputs.parameters
        log_prior = replace_prior(labels.log_prior, p["class_prior"], p["class_weight"], classes)
        prior = tuple(map(tuple, log_prior.tolist()))  # by which rows are predicted
        if len(folds) > 1:
            fit = partial(fit_super_learner, log_prior=labels.log_prior, has_labels=known)
            learners = fit_other_folds(folds, lambda rows: fit([rows], random=random))
            increase = increase_losses(folds, without, learners)
            learners = [replace(one, log_prior=prior) for one in learners]
            subsets = [x.subsets for x in self.left_out if x.subsets is not None]
            self.set_scores = calibrate_super_learner(folds, subsets, learners, len(names))
        linked = [x.linked for x in self.left_out if x.linked is not None]
        self.scores = score_out_of_fold(
            learner,
            labeled,
            ScoresOutOfFold.concatenate(linked) if linked else None,
            names,
            known,
            increase,
        )
        for text in score_warnings(self.scores):
            self.warnings.add(text)
        return replace(learner, log_prior=prior)

    def _measure_similarity(self) -> ViewSimilarity | None:
        """Similarity of the views by linked rows."""
        shared, labels = self.shared, self.inputs.labels
        links = shared.linked_numbers()
        if len(links) == 0:
            return None
        random = np.random.default_rng(0)  # the answer is about the rows, not about a seed
        classes = None if labels is None else labels.linked
        if labels is not None and labels.linked_groups is not None:
            # Several rows of one person would look like dependence.
            order = random.permutation(len(links))
            one = order[np.unique(labels.linked_groups[order], return_index=True)[1]]
            links, classes = links[one], labels.linked[one]
        components = shared.components
        if not components or max(len(pca.components_) for pca in components) < N_COMPONENTS:
            components = principal_components(shared.views, N_COMPONENTS, random)
        views = list(map(_Rows, shared.views))
        return measure_linked_rows(views, components, links, classes, random=random)

    def _measure_disagreement(
        self, ensemble: HeadEnsemble | PredictorEnsemble
    ) -> ScoresByViews | None:
        """Disagreement about training rows, without labels where there are enough of these."""
        if len(self.members) == 1:
            return None
        labels, views = self.shared.view_labels(self.inputs.labels), self.shared.views
        samples = {}
        for s, (view, codes) in enumerate(zip(views, labels.codes, strict=True)):
            free = np.flatnonzero(codes < 0)
            rows = free if len(free) >= MIN_ROWS else np.arange(len(codes))
            samples[s] = view.take_on_all_ranks(thin_rows(rows, _N_COMPARED))
        free, linked = np.flatnonzero(labels.target < 0), None
        if len(free) >= MIN_ROWS:
            linked = take_rows(views, labels.links[thin_rows(free, _N_COMPARED)])
        with torch.inference_mode():
            return measure_disagreement(ensemble, samples, linked)

    def _refine_graphs(self) -> list[ViewGraph]:
        """The graph of every view on components and the mean features of all members."""
        graphs = []
        for s, graph in enumerate(self.shared.graphs):
            features = [trained.features[s][0] for trained in self.trained]
            graphs.append(refine_graph(graph, np.mean(features, axis=0)))
        return graphs

    def _warn(self) -> None:
        """Warn about the training, the latents of the first member, and the plan of all."""
        trainings = [m.training for m in self.members if m.interrupted]
        if trainings:
            self.warnings.add(interrupt_warning(len(trainings[0].history)))
        first, parameters = self.members[0], self.inputs.parameters
        if not self.plans:  # without a coupling nothing shapes the common space
            return
        n_columns = [view.n_columns for view in self.shared.views]
        expected = math.sqrt(parameters["n_components"] * first.latent_variance)
        remedies = ["lower the coupling's weight"]
        if len(self.shared.link_targets) > 0:  # these replace the constraint
            remedies.insert(0, "link more rows")
        elif not first.training.objective.coupling.exact:
            remedies.insert(0, "raise the coupling's orthogonality_weight")
        if not parameters["view_regularizer"].needs_decoders:
            remedies.insert(0, "use view_regularizer='autoencoder'")
        self.warnings.add(
            collapse_warning(first.names, self.trained[0].latents, n_columns, expected, remedies)
        )
        plan = solve_mean_plan(self.plans, parameters["coupling"].planner)
        self.warnings.add(plan_warning(plan), ConvergenceWarning)


class _Rows:
    """Rows of a view as arrays, the same on all ranks."""

    def __init__(self, view: ViewRows) -> None:
        self.view, self.n_rows = view, view.n_rows

    def take(self, rows: IntArray) -> Array:
        """Rows by number."""
        X: Array = self.view.take_on_all_ranks(rows).cpu().numpy()
        return X


def fit_views(
    inputs: Sequence[FitInputs],
    *,
    view_tests: bool = True,
    training: AbstractContextManager[None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> list[EnsembleFit]:
    """Fit estimators to validated inputs.

    Parameters
    ----------
    inputs : sequence of FitInputs
        The inputs of every estimator. Networks of the same shape are trained together.
    view_tests : bool, default=True
        Whether the permutation null of the plan and the similarity of the views are computed.
    training : context manager or None, default=None
        Entered while networks are trained.
    checkpoint : Checkpoint or None, default=None
        Where to resume from, and what to write while networks are trained.

    Returns
    -------
    list of EnsembleFit
        The finished fit of every estimator, with networks in evaluation mode.
    """
    ensembles = [EnsembleFit(each) for each in inputs]
    first = ensembles[0].members[0]
    is_global = any(ensemble.members[0].uses_global_generators for ensemble in ensembles)
    # Inside, scikit-learn returns arrays, whatever output the user has configured.
    with (
        config_context(transform_output="default"),
        torch.inference_mode(False),  # the caller may be in inference mode
        torch.enable_grad(),
        first.random.in_modules(first.device) if is_global else nullcontext(),
    ):
        for ensemble in ensembles:
            ensemble.prepare()
        members = [member for ensemble in ensembles for member in ensemble.members]
        _train(members, training or nullcontext(), checkpoint)
        for ensemble in ensembles:
            ensemble.finish(view_tests=view_tests)
    return ensembles


def _train(
    members: Sequence[MemberFit],
    training: AbstractContextManager[None],
    checkpoint: Checkpoint | None,
) -> None:
    """Train all networks, those of one shape and with equal parameters together."""
    groups: dict[Hashable, list[MemberFit]] = {}
    for i, member in enumerate(members):
        # Distributed over processes, networks are trained one after the other.
        key = i if is_distributed() else (member.group, member.training.shape)
        groups.setdefault(key, []).append(member)
    schedules = [group[0].schedule() for group in groups.values()]
    trainers = [
        make_trainer(group, schedule)
        for group, schedule in zip(groups.values(), schedules, strict=True)
    ]
    with training:
        for i, (trainer, schedule) in enumerate(zip(trainers, schedules, strict=True)):
            sampler, saved = trainer.trainings[0].sampler, checkpoint
            if any(member.training.interrupted for member in members):
                # An interrupt ends all trainings; a resumed fit continues as if there were none.
                schedule, saved = replace(schedule, max_epochs=1), None
            with suited_threads(trainer.network, sampler.batch_size, sampler.data.views[0].device):
                train(trainer, schedule, saved, i)


def make_trainer(members: Sequence[MemberFit], schedule: Schedule) -> Trainer:
    """The trainer of networks that are trained together, by their device and processes."""
    first, trainings = members[0], [member.training for member in members]
    options = (first.parameters["learning_rate"], first.parameters["precision"])
    if is_distributed():
        return DDPTrainer(trainings[0], *options)
    on_gpu = first.device.type == "cuda"
    if len(trainings) == 1 and (first.has_own_modules or not on_gpu):
        return SingleTrainer(trainings[0], *options)
    trainer = BatchedTrainer(trainings, *options)
    if on_gpu and schedule.is_fixed:
        n_steps = schedule.steps_per_epoch or trainings[0].sampler.n_steps
        trainer.draw_in_advance(schedule.max_epochs * n_steps)
    return trainer


def _check_alignment(inputs: FitInputs, rows: TrainingRows) -> None:
    """Raise an error for unaligned rows where the coupling compares individuals."""
    coupling, unaligned = inputs.parameters["coupling"], inputs.tables.unaligned
    if coupling.needs_alignment and (unaligned or len(rows.aligned) < 2):
        raise ValueError(
            f"Expected aligned rows for coupling={coupling.label!r}, which compares the same "
            "individuals in all views, but "
            + (
                f"views {list(unaligned)} have unaligned ones. "
                if unaligned
                else f"{len(rows.aligned)} have all views. "
            )
            + "Pass paired=True to MultiViewEncoder if row i is the same individual in every "
            "view, leave unaligned rows out, or use coupling='hot-reference'."
        )


def _check_links(inputs: FitInputs, shared: SharedInputs, rows: TrainingRows) -> None:
    """Raise an error for views without labels that no linked row connects to a view with labels."""
    if inputs.labels is None or len(rows.aligned) > 0:
        return
    present = (shared.linked_numbers() >= 0).astype(np.int64)
    _, parts = connected_components(present.T @ present)
    known = shared.training_rows(inputs.labels).classes_known
    reached = {part for part, classes in zip(parts, known, strict=True) if classes}
    lost = [
        name for name, part in zip(inputs.tables.names, parts, strict=True) if part not in reached
    ]
    if lost:
        listed = " and ".join(map(repr, lost))
        raise ParameterError(
            "Expected every view to have labels, or linked rows that connect it to a view with "
            f"labels, because classes cannot be identified without, but {listed} "
            f"{'has' if len(lost) == 1 else 'have'} neither. ",
            "Link a few rows ({Xs}), or label some ({unaligned_y}).",
        )
