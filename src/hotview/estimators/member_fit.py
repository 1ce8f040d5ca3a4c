"""The fit of one ensemble member: the network, and the stages that turn labels into predictors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from torch import Tensor

from hotview._types import Array
from hotview.estimators.inference import (
    EnsembleMember,
    FusionRule,
    HeadPredictors,
    predict_ensemble,
    predict_out_of_fold,
)
from hotview.estimators.inputs import FitInputs, SharedInputs, Validation, make_view_labels
from hotview.estimators.labels import hide, hold_out
from hotview.estimators.network_fit import NetworkFit
from hotview.estimators.randomness import Randomness
from hotview.nn.multiview import MultiViewNetwork
from hotview.semisupervised.fusion import OutOfFold
from hotview.semisupervised.graph import refine_graph
from hotview.semisupervised.predictors import fit_predictors
from hotview.semisupervised.pseudo_labels import ViewLabels, make_soft_labels, propagate_labels
from hotview.training.batches import TrainingRows
from hotview.training.process_group import Interrupt
from hotview.training.rows import ViewRows
from hotview.training.trainer import Training
from hotview.training.view_plan import ViewPlan

__all__ = ["MemberFit"]


class HeadStage:
    """Labels train the heads of the network, which predict new rows, as in the paper."""

    trains_joint_head = True

    def __init__(self, fit: MemberFit, shared: SharedInputs) -> None:
        self.fit, self.graphs = fit, shared.graphs

    def soft_labels(self, labels: ViewLabels) -> list[Tensor]:
        """Soft labels to train the views' heads on: none, where labels themselves are used."""
        return []

    def fit_member(self, network: MultiViewNetwork, rows: TrainingRows) -> EnsembleMember:
        """A classifier of the trained network."""
        return EnsembleMember.of_heads(network, self.fit.fusion_rule(rows))

    def refit_member(self, member: EnsembleMember, rows: TrainingRows) -> EnsembleMember:
        """The classifier after out-of-fold predictions: heads cannot be refit without training."""
        return member


class PropagationStage(HeadStage):
    """Labels are propagated on neighbor graphs; neighbors and a ridge regression predict."""

    trains_joint_head = False

    def soft_labels(self, labels: ViewLabels) -> list[Tensor]:
        """Soft labels of all rows of every view, by propagation of the labels."""
        probabilities = propagate_labels(self.graphs, labels, self.fit.random.numpy)
        return list(map(make_soft_labels, self.graphs, probabilities, labels.codes))

    def fit_member(self, network: MultiViewNetwork, rows: TrainingRows) -> EnsembleMember:
        """Refine the graphs by the network's features, and fit predictors on them."""
        self.graphs = list(map(refine_graph, self.graphs, network.encoders))
        return self._fit_predictors(network, rows)

    def refit_member(self, member: EnsembleMember, rows: TrainingRows) -> EnsembleMember:
        """Out-of-fold scores are computed; refit on all labels."""
        return self._fit_predictors(member.network, rows)

    def _fit_predictors(self, network: MultiViewNetwork, rows: TrainingRows) -> EnsembleMember:
        labels = make_view_labels(rows, self.fit.class_weight)
        predictors = fit_predictors(self.graphs, labels, self.fit.random.numpy)
        return EnsembleMember(network, self.fit.fusion_rule(rows), predictors)


class MemberFit:
    """The fit of one ensemble member.

    Parameters
    ----------
    inputs : FitInputs
        The inputs of the estimator's fit.
    number : int
        Number of the member.

    Attributes
    ----------
    network_fit : NetworkFit
        Its network.
    plan : ViewPlan or None
        The plan over the views; None without a coupling.
    latents : list of Tensor
        Latents of a sample of every view's rows.
    interrupted : bool
        Whether training was interrupted.
    member : EnsembleMember or None
        The fitted classifier; None without labels.
    out_of_fold : OutOfFold or None
        Its predictions of rows whose labels it was not trained on, if there are any.
    """

    shared: SharedInputs
    stage: HeadStage
    plan: ViewPlan | None
    latents: list[Tensor]
    interrupted: bool
    member: EnsembleMember | None = None
    out_of_fold: OutOfFold | None = None

    def __init__(self, inputs: FitInputs, number: int) -> None:
        self.inputs, self.number = inputs, number
        self.random = Randomness(inputs.random_states[number])
        self.labels, self.validation = inputs.labels, inputs.validation
        self.n_classes = 0 if inputs.labels is None else len(inputs.labels.classes)
        self.held_out = inputs.held_out[number] if inputs.held_out else np.empty(0, np.int64)
        self.given_weight: Array | None = None
        if self.labels is not None:
            self.labels = hide(self.labels, self.held_out)
            fraction = inputs.parameters["validation_fraction"]
            if fraction is not None and self.validation is None:
                self.labels, rows, target = hold_out(self.labels, fraction, self.random.numpy)
                self.validation = Validation(inputs.tables.linked, target, rows)
            self.given_weight = inputs.weigh_classes(self.labels)
        #: weights of the classes; equal ones where none are given
        self.class_weight: Array = (
            np.ones(self.n_classes) if self.given_weight is None else self.given_weight
        )
        self.network_fit = NetworkFit(
            inputs.parameters, inputs.tables, self.n_classes, self.random, number
        )

    def prepare(self, shared: SharedInputs) -> Training:
        """Compute soft labels, and make everything that training needs."""
        self.shared = shared
        rows = shared.training_rows(self.labels)
        if self.labels is not None:
            propagates = self.inputs.parameters["pseudo_labels"]
            self.stage = (PropagationStage if propagates else HeadStage)(self, shared)
            soft_labels = self.stage.soft_labels(make_view_labels(rows, self.class_weight))
            rows = replace(rows, soft_labels=soft_labels)
        training = self.network_fit.prepare(rows, shared.components, self.given_weight)
        if self.labels is not None and self.validation is not None:
            training.score = self._validation_score(training.network, rows, self.validation)
        return training

    def finish(self, *, null: bool) -> None:
        """Compute the plan, fit the predictors, and predict rows whose labels were held out."""
        training = self.network_fit.training
        with Interrupt() as interrupt:  # the trained network must not be lost in the last pass
            self.plan = self.network_fit.plan(null=null)
            self.latents = self.network_fit.sample_latents()
            if self.labels is not None:
                rows = self.shared.training_rows(self.labels)
                self.member = self.stage.fit_member(training.network, rows)
                self._predict_out_of_fold(self.member)
        self.interrupted = training.interrupted or interrupt.requested

    def _predict_out_of_fold(self, member: EnsembleMember) -> None:
        labels, rows = self.labels, self.held_out
        if len(rows) == 0 or labels is None or self.inputs.labels is None:
            return
        target = self.inputs.labels.linked[rows]
        views = self._rows_of(Validation(self.inputs.tables.linked, target, rows))
        self.out_of_fold = OutOfFold(*predict_out_of_fold(member, views), target)
        linked = labels.linked.copy()
        linked[rows] = target
        all_rows = self.shared.training_rows(replace(labels, linked=linked))
        self.member = self.stage.refit_member(member, all_rows)

    def fusion_rule(self, rows: TrainingRows) -> FusionRule:
        """Which predictors count, by the labels that they are trained on."""
        labeled = rows.target[rows.target >= 0]
        n_known = [len(classes) for classes in rows.classes_known]
        if len(rows.transfer_rows) > 0:  # then labels are transferred to every view
            n_known = [max(n_known)] * len(n_known)
        targets = np.concatenate([labeled, *rows.view_targets])
        counts = np.bincount(targets, minlength=self.n_classes) + 1
        return FusionRule(
            len(np.unique(labeled)) == self.n_classes,
            self.inputs.parameters["head_weight"] == 0 and self.stage.trains_joint_head,
            tuple(n_known),
            tuple(np.log(counts / counts.sum()).tolist()),
        )

    def _validation_score(
        self, network: MultiViewNetwork, rows: TrainingRows, validation: Validation
    ) -> Callable[[], float]:
        """Accuracy of the heads of the network on the validation rows."""
        rule = self.fusion_rule(rows)
        joint = rule.joint and self.stage.trains_joint_head
        member = EnsembleMember(network, rule, HeadPredictors(network, joint))
        views = self._rows_of(validation)

        def accuracy() -> float:
            network.eval()
            log_probs = predict_ensemble([member], views, None, lambda log_p: log_p[0])
            return float(np.mean(log_probs.argmax(axis=1) == validation.target))

        return accuracy

    def _rows_of(self, validation: Validation) -> dict[int, ViewRows]:
        chosen = None if validation.rows is None else [validation.rows]
        tables, device = validation.tables, self.network_fit.device
        return {
            s: ViewRows([tables[name]], scan.scaler, device, chosen)
            for s, (name, scan) in enumerate(self.shared.scans.items())
            if name in tables
        }
