"""Small fits that together take every path of numbers once."""

import math
import tempfile
import time
import warnings
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

import hotview as hv
from hotview.datasets import make_views
from hotview.estimators.base import fit_batched
from hotview.evaluation.record import describe_settings, describe_views, make_record
from hotview.federated import (
    Client,
    ClientData,
    InProcessChannel,
    Server,
    Settings,
    join_partial_models,
)
from hotview.model import to_onnx
from hotview.report.view_data import effective_ranks, learning_curves
from hotview.semisupervised.sentences import describe_contributions
from paper.estimators import constructor_parameters
from paper.models import SETTINGS
from tests.golden.record import summarize
from tests.golden.stages import record_stages

__all__ = ["CASES", "run_case"]

_WIDTHS = {"encoder_dim": 6, "n_components": 4, "hidden": (8,), "batch_size": 40}
_SMALL = {**_WIDTHS, "max_epochs": 2, "device": "cpu", "verbose": False, "random_state": 0}
#: the literal objective of the paper, for both estimators
_PAPER = {**_SMALL, "initialization": "random", "preprocessing": "standardize"}
_PAPER |= {"alignment_weight": 0.0, "learning_rate": 0.001}
_HEADS = {"pseudo_labels": False, "fusion": "average", "n_estimators": 1, "head_weight": 0.0}
_COUPLINGS = ("none", "lscca", "dgcca", "sw-pairwise", "sw-reference", "hot-pairwise")
_COUPLINGS = (*_COUPLINGS, "hot-reference")
_REGULARIZERS = ("none", "autoencoder", "manifold", "diffusion")
_TIMES = ("seconds", "trained_on", "learning")  # hold seconds and versions


def _data(n=60, labeled=0.5, **more):
    more = {"n_views": 3, "n_columns": [6, 8, 5], "n_classes": 3, "noise": 0.3, **more}
    return make_views(n, labeled=labeled, random_state=1, **more)


DATA = _data()
TEST = _data(labeled=1.0).linked
FEW = DATA.linked_target.copy()  # half of the linked rows have no label
FEW[1::2] = -1


def _classifier(**parameters):
    return hv.MultiViewClassifier(**{**_SMALL, "n_estimators": 2, **parameters})


def _encoder(**parameters):
    return hv.MultiViewEncoder(**{**_SMALL, **parameters})


def _paper_parameters(coupling, regularizer):
    """The constructor's parameters of the paper's settings."""
    nested = {name: value for name, value in SETTINGS.items() if "__" in name}
    given = {"coupling": coupling, "view_regularizer": regularizer, **nested}
    return {**_PAPER, **constructor_parameters(given)}


def _faces(model, test=TEST, **views):
    """What users see of a fitted model."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(model, "predict_proba"):
            some = dict(list(test.items())[:1])
            found["probabilities"] = [model.predict_proba(test), model.predict_proba(some)]
            disagreement = model.predict_disagreement(test, percentile=True)
            found["sets"] = [model.predict_set(test, alpha=0.2), disagreement]
        features = model.transform(test)
        common = model.transform(test, space="common")
    found["latents"] = [
        [np.asarray(X) for X in (each.values() if isinstance(each, dict) else each)]
        for each in (features, common)
    ]
    plan = model.plan_
    found["other"] = [] if plan is None else [plan.W, plan.C, plan.std, model.references_]
    return found | views


def _run(model, *arguments, test=TEST, **more):
    """The stages of one fit, and what users see of its model."""
    with warnings.catch_warnings(), record_stages() as fits:
        warnings.simplefilter("ignore")
        model.fit(*arguments, **more)
    return fits[-1] | _faces(model, test)


def _linked(**parameters):
    more = {name: parameters.pop(name) for name in ("y", "groups") if name in parameters}
    y = more.pop("y", DATA.linked_target)
    return _run(_classifier(**parameters), DATA.linked, y, unaligned=DATA.views, **more)


def _paper(coupling, regularizer):
    """The paper's classifier, and its encoder for the odd ones."""
    p = _paper_parameters(coupling, regularizer)
    aligned = coupling in ("lscca", "dgcca")
    number = _COUPLINGS.index(coupling) + _REGULARIZERS.index(regularizer)
    if number % 2:
        views = DATA.linked if aligned else DATA.views
        return _run(hv.MultiViewEncoder(**p), views, paired=aligned)
    model = hv.MultiViewClassifier(**p, **_HEADS)
    unaligned = None if aligned else DATA.views
    return _run(model, DATA.linked, DATA.linked_target, unaligned=unaligned)


def _partial_rows(**parameters):
    linked = {name: X.copy() for name, X in DATA.linked.items()}
    for s, X in enumerate(linked.values()):
        X[s::3] = np.nan
    test = {name: X.copy() for name, X in TEST.items()}
    test["view_1"][::2] = np.nan
    return _run(_classifier(**parameters), linked, FEW, unaligned=DATA.views, test=test)


def _labels_in_one_view(**parameters):
    linked = {name: X[:24] for name, X in DATA.linked.items()}
    return _run(
        _classifier(**parameters),
        linked,
        np.full(24, -1),
        unaligned=DATA.views,
        unaligned_y={"view_0": DATA.target["view_0"]},
    )


def _two_tables(**parameters):
    """One table has labels and another mix of classes."""
    shares = [[0.6, 0.25, 0.15], [0.15, 0.25, 0.6]]
    data = _data(80, n_views=2, n_columns=[6, 8], class_weights=shares)
    return _run(
        _classifier(**parameters),
        data.linked,
        np.full(len(data.linked_target), -1),
        unaligned=data.views,
        unaligned_y={"view_0": data.target["view_0"]},
        test=data.linked,
    )


def _no_links(**parameters):
    own = {name: np.where(np.arange(60) < 30, y, -1) for name, y in DATA.target.items()}
    model = _classifier(**parameters)
    return _run(model, None, None, unaligned=DATA.views, unaligned_y=own)


def _groups():
    return _linked(groups=np.arange(len(DATA.linked_target)) // 2)


def _validated(**parameters):
    """Early stop by rows that are given."""
    model = _classifier(max_epochs=6, patience=1, **parameters)
    more = {"unaligned": DATA.views, "validation": (TEST, _data(labeled=1.0).linked_target)}
    return _run(model, DATA.linked, DATA.linked_target, **more)


def _unequal(**parameters):
    data = _data(120, class_weights=[0.75, 0.2, 0.05])
    model = _classifier(**parameters)
    return _run(model, data.linked, data.linked_target, unaligned=data.views, test=data.linked)


def _sparse():
    random = np.random.default_rng(0)
    data = _data(60, n_columns=[6, 300, 300])

    def change(views):
        counts = random.poisson(np.exp(np.clip(views["view_2"], -3, 2)))
        thin = np.maximum(views["view_1"], 0)  # few zeros: rounding moves no neighbor
        return {
            "view_0": views["view_0"],
            "view_1": sparse.csr_matrix(thin),
            "view_2": sparse.csr_matrix(counts.astype(np.float64)),
        }

    linked, unaligned, test = change(data.linked), change(data.views), change(data.linked)
    return _run(_classifier(), linked, data.linked_target, unaligned=unaligned, test=test)


def _mapped():
    """Tables on disk, which are read as they are needed."""
    with tempfile.TemporaryDirectory() as folder:
        views = {}
        for name, X in DATA.views.items():
            path = Path(folder) / f"{name}.npy"
            np.save(path, X)
            views[name] = np.load(path, mmap_mode="r")
        return _run(_classifier(), DATA.linked, DATA.linked_target, unaligned=views)


def _missing_cells(**parameters):
    random = np.random.default_rng(0)

    def spoil(views):
        views = {name: X.copy() for name, X in views.items()}
        for X in views.values():
            X[random.random(X.shape) < 0.05] = np.nan
        return views

    linked, test = spoil(DATA.linked), spoil(TEST)
    model = _classifier(**parameters)
    return _run(model, linked, DATA.linked_target, unaligned=spoil(DATA.views), test=test)


def _frames():
    """Data frames with text columns, and classes that are text."""
    import pandas as pd

    def frame(X):
        table = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
        return table.assign(color=np.where(X[:, 0] > 0, "red", "blue"))

    linked, unaligned, test = (
        {name: frame(X) for name, X in views.items()} for views in (DATA.linked, DATA.views, TEST)
    )
    y = np.array(["healthy", "ill", "unsure"])[DATA.linked_target]
    return _run(_classifier(), linked, y, unaligned=unaligned, test=test)


def _resumed(make, *arguments, **more):
    """Stopped after two epochs, and resumed up to the fourth."""

    def stop(epoch):
        epoch.stop = epoch.number == 2

    with tempfile.TemporaryDirectory() as folder:
        p = {"checkpoint": Path(folder) / "fit.checkpoint", "max_epochs": 4}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make(**{**p, "max_epochs": 2}).fit(*arguments, **more)
        return _run(make(**p), *arguments, resume=True, **more)


def _loaded(model, *arguments, **more):
    """Saved and loaded."""
    with tempfile.TemporaryDirectory() as folder:
        found = _run(model, *arguments, **more)
        model.save(path := Path(folder) / "model.hotview")
        loaded = _faces(hv.load(path, device="cpu"))
    return found | {name: [part, loaded[name]] for name, part in _faces(model).items()}


def _exported():
    """ONNX, run by another library."""
    import onnxruntime

    model = _classifier()
    found = _run(model, DATA.linked, DATA.linked_target, unaligned=DATA.views)
    with tempfile.TemporaryDirectory() as folder:
        path = to_onnx(model, Path(folder) / "model.onnx")
        session = onnxruntime.InferenceSession(
            path.read_bytes(), providers=["CPUExecutionProvider"]
        )
        views = {name: X.astype(np.float64) for name, X in TEST.items()}
        (P,) = session.run(None, views)
    return found | {"probabilities": [*found["probabilities"], P]}


def _record(model, *arguments, y=None, **more):
    """The record that reports are made of."""
    found = _run(model, *arguments, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = make_record(model, TEST, y, umap=False, importance=y is not None, verbose=False)
    sentences = describe_views(model), describe_contributions(getattr(model, "out_of_fold_", {}))
    facts = [*sentences, learning_curves(model), effective_ranks(model), describe_settings(model)]
    parts = {name: part for name, part in vars(record).items() if name != "model"}
    return found | {"record": _plain([facts, model.trained_on_, model.fit_warnings_, parts])}


def _plain(value):
    """Dicts and lists, without what holds times; NaN and infinities are text."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if k not in _TIMES}
    if isinstance(value, np.ndarray):
        value = (value if value.dtype.kind == "i" else value.astype(np.float64)).tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _federated(**more):
    """Rounds between three organizations in one process, whose partial models are joined."""
    names, classes = ("clinical", "genetic", "imaging"), np.array(["healthy", "ill", "unsure"])
    data = _data(40, labeled=1.0, n_columns=[5, 6, 4])
    settings = {
        **{"rounds": 2, "local_steps": 2, "quantiles": 8, "n_components": 3, "encoder_dim": 4},
        **{"hidden": (6,), "n_references": 2, "n_projections": 4, "batch_size": 16},
        **{"label_holder": "genetic", "linked_batch": 10, "random_state": 0, **more},
    }
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clients = {}
        for s, (name, X) in enumerate(zip(names, data.linked.values(), strict=True)):
            order = np.random.default_rng(s).permutation(40)
            labels = list(classes[data.linked_target[order]]) if name == "genetic" else None
            own = ClientData.from_table(
                name,
                X[order],
                ids=[f"patient-{i}" for i in order],
                linked_ids=[f"patient-{i}" for i in range(20)],
                labels=labels,
            )
            options = {"device": "cpu", "shares": ("features", "labels")}
            clients[name] = Client(own, Path(folder) / name, **options)
        result = Server(InProcessChannel(clients), Settings(**settings)).run()
        paths = [client.model_path for client in clients.values()]
        model = hv.load(join_partial_models(paths, Path(folder) / "joined.hotview"), device="cpu")
        P = model.predict_proba(dict(zip(names, data.linked.values(), strict=True)))
        networks = model.networks_
    return {"networks": networks, "plan": [result.plan], "probabilities": [P]}


class _Mean(torch.nn.Module):
    """An encoder of the user's own."""

    def __init__(self, width):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(width, 6)
        self.drop = torch.nn.Dropout(0.1)

    def forward(self, X):
        return self.drop(self.linear(X))


def _own_encoder():
    return _linked(encoders={"view_1": _Mean(8)}, n_estimators=1)


def _batched():
    """Several estimators, whose networks are trained together."""
    models = [_classifier(coupling=hv.HOTReferenceSpec(weight=w)) for w in (0.1, 1.0)]
    with warnings.catch_warnings(), record_stages() as fits:
        warnings.simplefilter("ignore")
        arguments = {"Xs": DATA.linked, "y": DATA.linked_target, "unaligned": DATA.views}
        fit_batched([(model, arguments) for model in models])
    found = fits[-1] | _faces(models[-1])
    return found | {"other": [fits[0]["networks"], _faces(models[0])["probabilities"]]}


def _encoder_on(views, **parameters):
    return _run(_encoder(**parameters), views, test=views)


def _aligned_encoder(**parameters):
    return _run(_encoder(**parameters), DATA.views, linked=DATA.linked)


_SIX = _data(n_views=6, n_columns=6, n_groups=2).views
_Y_TEST = _data(labeled=1.0).linked_target
_TRAINING = (DATA.linked, DATA.linked_target)
_MORE = {"unaligned": DATA.views}

CASES = {
    f"paper, {coupling}, {regularizer}": partial(_paper, coupling, regularizer)
    for coupling in _COUPLINGS
    for regularizer in _REGULARIZERS
}
CASES |= {
    "default": partial(_linked, n_estimators=5, max_epochs=None),
    "default, another seed": partial(_linked, random_state=7),
    "default, all widths": partial(_linked, encoder_dim=20, n_components=10, hidden=(16, 12)),
    "default, labels missing": partial(_linked, y=FEW),
    "default, bfloat16": partial(_linked, precision="bfloat16"),
    "one member": partial(_linked, n_estimators=1),
    "three members": partial(_linked, n_estimators=3),
    "average": partial(_linked, fusion="average"),
    "no heads": partial(_linked, head_weight=0.0),
    "no coupling": partial(_linked, coupling="none"),
    "no coupling, autoencoder": partial(_linked, coupling="none", view_regularizer="autoencoder"),
    "no alignment": partial(_linked, alignment_weight=0.0),
    "manifold": partial(_linked, view_regularizer="manifold"),
    "diffusion": partial(_linked, view_regularizer="diffusion"),
    "sliced pairs": partial(_linked, coupling="sw-pairwise"),
    "hierarchical pairs": partial(_linked, coupling=hv.HOTPairwiseSpec(n_projections=8)),
    "exact orthogonality": partial(
        _linked, coupling=hv.HOTReferenceSpec(orthogonality_weight=float("inf"))
    ),
    "heads": partial(_linked, pseudo_labels=False),
    "heads, average": partial(_linked, pseudo_labels=False, fusion="average"),
    "heads, class weights": partial(_linked, pseudo_labels=False, class_weight="balanced"),
    "partial rows": _partial_rows,
    "partial rows, heads": partial(_partial_rows, pseudo_labels=False),
    "labels in one view": _labels_in_one_view,
    "two tables": _two_tables,
    "no links": _no_links,
    "no links, heads": partial(_no_links, pseudo_labels=False),
    "groups": _groups,
    "early stop": _validated,
    "early stop, heads": partial(_validated, pseudo_labels=False),
    "rows for validation": partial(_linked, validation_fraction=0.2, max_epochs=3),
    "balanced classes": partial(_unequal, class_weight="balanced"),
    "unequal classes": _unequal,
    "uniform prior": partial(_unequal, class_prior="uniform"),
    "sparse and wide": _sparse,
    "memory-mapped": _mapped,
    "missing cells": partial(_missing_cells, impute="median"),
    "data frames": _frames,
    "steps": partial(_linked, steps_per_epoch=2),
    "random start": partial(_linked, initialization="random"),
    "own encoder": _own_encoder,
    "trained together": _batched,
    "resumed classifier": partial(_resumed, _classifier, *_TRAINING, **_MORE),
    "resumed encoder": partial(_resumed, _encoder, DATA.views),
    "loaded classifier": partial(_loaded, _classifier(), *_TRAINING, **_MORE),
    "loaded encoder": partial(_loaded, _encoder(), DATA.views, linked=DATA.linked),
    "exported": _exported,
    "record of a classifier": partial(_record, _classifier(), *_TRAINING, y=_Y_TEST, **_MORE),
    "record of an encoder": partial(_record, _encoder(), DATA.views),
    "federated": _federated,
    "federated, pairs": partial(_federated, coupling="hot-pairwise"),
    "encoder": partial(_encoder_on, DATA.views),
    "encoder, six views": partial(_encoder_on, _SIX),
    "encoder, linked": _aligned_encoder,
    "encoder, not aligned": partial(_aligned_encoder, alignment_weight=0.0),
    "encoder, three members": partial(_aligned_encoder, n_estimators=3),
}


def run_case(name):
    """The name, what the record holds, and the seconds of a case."""
    torch.set_num_threads(1)  # bits depend on it
    began = time.perf_counter()
    try:
        found = summarize(CASES[name]())
    except Exception as error:
        raise RuntimeError(f"the golden case '{name}' failed: {error}") from error
    return name, found, time.perf_counter() - began
