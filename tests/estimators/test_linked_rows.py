"""Linked rows are aligned in the common space, and it is measured whether that helped."""

import json
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import hotview as hv
from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.cli.inspect import describe_model, result_lines
from hotview.datasets import make_views
from hotview.evaluation.record import describe_views
from hotview.losses.specifications import as_coupling
from hotview.similarity import CommonSpace, measure_common_space
from tests.estimators import small_fits
from tests.estimators.small_fits import BOTH, may_collapse, prepared

SMALL = {**small_fits.SMALL, "hidden": (16,), "encoder_dim": 8, "n_components": 4}
SMALL |= {"max_epochs": 15, "batch_size": 100, "learning_rate": 0.003}
N, N_LINKED = 250, 50
DATA = make_views(N, n_views=3, n_groups=1, n_columns=10, labeled=1.0, noise=0.1, random_state=0)
#: 50 linked rows; others of everybody's own, in any order; and rows that nothing is trained on
LINKED = {name: X[:N_LINKED] for name, X in DATA.linked.items()}
OWN = {name: X[:200] for name, X in DATA.views.items()}
FRESH = {name: X[100:] for name, X in DATA.linked.items()}
WARNING = "Rows of different views may not be comparable in the common space"


def fit(kind=MultiViewEncoder, linked=LINKED, **parameters):
    model = kind(**{**SMALL, **parameters})
    if kind is MultiViewEncoder:
        return model.fit(OWN, linked=linked)
    return model.fit(linked, DATA.linked_target[:N_LINKED], unaligned=OWN)


def latents(model):
    return list(model._transform(FRESH, "common").values())


def foscttm(model):
    """Of rows that the model has not seen, all of which are linked."""
    Zs = latents(model)
    return measure_common_space(Zs, Zs).mean_foscttm


def warnings_of_spaces(model):
    """Warnings of `transform`, which the features never cause."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.transform(FRESH, space="features")
        assert not caught
        model.transform(FRESH, space="common")
    return [str(warning.message) for warning in caught]


def lacking(absent):
    """Linked rows that lack views: of every view, those where its column of `absent` is True."""
    views = zip(LINKED.items(), np.transpose(absent), strict=True)
    return {name: np.where(rows[:, None], np.nan, X) for (name, X), rows in views}


#: Every row lacks one of three views: links are in pairs only.
IN_PAIRS = lacking(np.eye(3, dtype=bool)[np.random.default_rng(0).integers(3, size=N_LINKED)])


@BOTH
def test_fresh_rows_are_near_their_matches_and_the_model_says_so(kind):
    model = fit(kind, n_estimators=2)
    assert foscttm(model) < 0.1
    found = model.common_space_
    assert isinstance(found, CommonSpace)
    assert found.n_rows[0, 1] == 10  # a fifth of 50
    assert found.is_comparable
    assert found.mean_foscttm == pytest.approx(foscttm(model), abs=0.1)
    assert warnings_of_spaces(model) == []
    text = "In the common space, rows of different views can be compared: of 10 linked rows"
    assert describe_views(model)[-1].startswith(text)
    # Every epoch is measured.
    for history in model.histories_:
        assert len(history["foscttm"]) == len(history["neighbor_agreement"]) == 15
        assert 0 <= min(history["foscttm"]) <= max(history["foscttm"]) <= 1
        assert {"alignment", "extension", "transport"} < set(history.names)
        assert "orthogonality" not in history.names
    last = np.mean([history["foscttm"][-1] for history in model.histories_])
    assert found.mean_foscttm == pytest.approx(last, abs=0.05)


@may_collapse
def test_without_weight_they_are_at_chance_and_it_warns():
    model = fit(alignment_weight=0.0, initialization="random", max_epochs=2)
    assert 0.3 < foscttm(model) < 0.7
    assert model.common_space_.n_rows[0, 1] == N_LINKED  # measured on all
    assert not model.common_space_.is_comparable
    (text,) = warnings_of_spaces(model)
    assert text.startswith(f"{WARNING}: held-out linked rows are as far apart as others (FOSCTTM")
    assert "let alignment_weight be above 0" in text
    assert any("cannot be compared" in text for text in describe_views(model))
    assert not {"alignment", "extension"} & set(model.history_.names)


def test_without_links_it_warns_that_every_rotation_matches(tmp_path):
    model = fit(linked=None, max_epochs=1)
    assert model.common_space_ is None
    (text,) = warnings_of_spaces(model)
    assert text.startswith(f"{WARNING}: fewer than 20 rows were linked")
    with pytest.warns(UserWarning, match=WARNING):
        model.transform_view(FRESH["view_0"], "view_0", "common")
    assert not any("common space" in text for text in describe_views(model))
    loaded = hv.load(model.save(tmp_path / "m.hotview"), device="cpu")
    assert loaded.common_space_ is None
    assert describe_model(loaded)["common_space"] is None


def test_couplings_that_align_rows_themselves_hold_none_out_and_do_not_warn():
    views = {name: X[:100] for name, X in DATA.linked.items()}
    model = MultiViewEncoder("dgcca", **{**SMALL, "max_epochs": 2}).fit(views, paired=True)
    assert model.common_space_ is None
    assert not {"alignment", "extension", "foscttm"} & set(model.history_.names)
    assert warnings_of_spaces(model) == []
    # For other couplings, rows of paired views are linked.
    model = MultiViewEncoder(**{**SMALL, "max_epochs": 2}).fit(views, paired=True)
    assert foscttm(model) < 0.1
    assert model.common_space_.n_rows[0, 1] == 20  # at most


def test_files_inspect_and_reports_keep_it(tmp_path):
    model = fit(max_epochs=2, linked=IN_PAIRS)
    loaded = hv.load(model.save(tmp_path / "m.hotview"), device="cpu")
    for name, value in vars(model.common_space_).items():
        np.testing.assert_array_equal(getattr(loaded.common_space_, name), value)
    assert warnings_of_spaces(loaded) == warnings_of_spaces(model)
    facts = describe_model(loaded)["common_space"]
    assert facts["foscttm"][0][1] == model.common_space_.foscttm[0, 1]
    assert facts["foscttm"][0][0] is None  # JSON has no NaN
    json.dumps(facts, allow_nan=False)
    (line,) = [text for text in result_lines(loaded) if "In the common space" in text]
    assert f"FOSCTTM {model.common_space_.mean_foscttm:.2f}" in line


def test_links_in_pairs_of_three_views_suffice_and_need_no_coupling():
    encoder = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Dropout(0.1))
    settings = {"coupling": "none", "view_regularizer": "none"}
    heads = fit(MultiViewClassifier, max_epochs=2, pseudo_labels=False, **settings)
    assert {"alignment", "extension"} < set(heads.history_.names)  # rows are drawn for them
    model = fit(linked=IN_PAIRS, encoders={"view_1": encoder}, **settings)
    assert foscttm(model) < 0.2
    n_rows = model.common_space_.n_rows
    assert n_rows[np.triu_indices(3, 1)].sum() == 10  # every row is in one pair


def test_networks_that_begin_at_random_are_aligned_by_the_terms_alone():
    settings = {"coupling": "none", "view_regularizer": "none", "initialization": "random"}
    model = fit(max_epochs=60, learning_rate=0.01, **settings)
    assert foscttm(model) < 0.2
    assert model.history_["alignment"][-1] < model.history_["alignment"][0]


def graphs_of(linked):
    """What is computed from the rows, for all members of a fit."""
    return prepared(MultiViewEncoder(**SMALL), OWN, linked=linked).graphs


@may_collapse
@pytest.mark.parametrize(("n", "n_aligned", "n_held_out"), ((2, 0, 0), (19, 19, 0), (20, 16, 4)))
def test_few_linked_rows_are_not_held_out_and_fewer_not_aligned(n, n_aligned, n_held_out):
    linked = {name: X[:n] for name, X in LINKED.items()}
    graphs = graphs_of(linked)
    assert (len(graphs.links), len(graphs.held_out_links)) == (n_aligned, n_held_out)
    assert bool(graphs.link_targets) == (n_aligned > 0)
    numbers = [*map(tuple, graphs.links), *map(tuple, graphs.held_out_links)]
    assert len(set(numbers)) == len(numbers)
    model = fit(linked=linked, max_epochs=1)
    assert (model.common_space_ is None) == (n_held_out == 0)
    assert ("alignment" in model.history_.names) == (n_aligned > 0)
    assert all(np.isfinite(Z).all() for Z in latents(model))


def test_targets_of_three_links_span_a_plane_at_most_and_more_links_are_the_remedy():
    linked = {name: X[:3] for name, X in LINKED.items()}
    with pytest.warns(UserWarning, match=r"collapsed.* To prevent it, link more rows, or lower"):
        fit(linked=linked, max_epochs=1)


def test_rows_in_one_view_only_link_nothing():
    model = fit(linked=lacking(~np.eye(3, dtype=bool)[np.arange(N_LINKED) % 3]), max_epochs=1)
    assert model.common_space_ is None
    assert "alignment" not in model.history_.names


def test_sums_over_rows_are_aligned_with_the_size_that_they_have():
    total = fit(coupling=as_coupling("hot-reference").set_params(reduction="sum"), max_epochs=5)
    assert foscttm(total) < 0.15
    assert np.isfinite(total.history_["loss"]).all()
    # Costs are sums over a batch, latents as much smaller: the terms stay of the same order.
    mean = fit(coupling="hot-reference", max_epochs=1)
    assert 0.3 < total.history_["alignment"][0] / mean.history_["alignment"][0] < 3


@may_collapse
@pytest.mark.parametrize("hidden", ((3,), ()))
def test_encoders_narrower_than_the_common_space_are_aligned_as_well(hidden):
    model = fit(hidden=hidden, n_components=10, encoder_dim=20, max_epochs=2)
    assert foscttm(model) < 0.3  # 0.5 is chance, and one hidden pair carries one component
    assert max(p.abs().max() for p in model.network_.parameters()) < 10


def test_a_row_that_is_held_out_influences_nothing():
    """Its match in another view may be anybody: the targets and the first step are the same."""
    found = []
    for swapped in (False, True):
        linked = {name: X.copy() for name, X in LINKED.items()}
        if swapped:
            at = found[0].held_out_links[:, 0]
            linked["view_0"][at] = linked["view_0"][np.roll(at, 1)]
        found.append(graphs_of(linked))
    first, second = found
    np.testing.assert_array_equal(first.links, second.links)
    for s, (a, b) in enumerate(zip(first.link_targets, second.link_targets, strict=True)):
        others = np.setdiff1d(np.arange(len(a)), first.held_out_links[:, s])
        torch.testing.assert_close(a[others], b[others], rtol=1e-3, atol=1e-3)
