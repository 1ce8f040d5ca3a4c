import anndata
import mudata
import numpy as np
import pandas as pd
import pytest

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.data.linking import align_rows
from hotview.datasets import make_views
from hotview.model_selection import GridSearch
from hotview.omics import annotate, fit

pytestmark = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")
COLUMNS = ["hotview_class", "hotview_confidence"]


def probabilities_by_hand(model, cells):
    """All cells in one table per modality, with NaN where a modality lacks them."""
    ids, rows = align_rows({name: adata.obs_names.to_list() for name, adata in cells.items()})
    views = {}
    for name, adata in cells.items():
        views[name] = np.full((len(ids), adata.n_vars), np.nan)
        here = rows[name] >= 0
        views[name][here] = adata.to_df().to_numpy()[rows[name][here]]
    return pd.DataFrame(model.predict_proba(views), index=ids, columns=model.classes_)


def test_a_cell_is_judged_once_by_all_modalities_that_have_it(model, cells, mdata, tmp_path):
    annotate(model, mdata)
    expected = probabilities_by_hand(model, cells)
    for part in (mdata, *cells.values()):
        mine = expected.loc[part.obs_names]
        np.testing.assert_allclose(part.obsm["hotview_probabilities"], mine, atol=1e-6)
        assert part.obs["hotview_class"].tolist() == mine.idxmax(axis=1).tolist()
        np.testing.assert_allclose(part.obs["hotview_confidence"], mine.max(axis=1), atol=1e-6)
    assert mdata.n_obs == 50
    mdata.write(tmp_path / "cells.h5mu")
    found = mudata.read_h5mu(tmp_path / "cells.h5mu")
    pd.testing.assert_frame_equal(found.obs[COLUMNS], mdata.obs[COLUMNS])
    assert set(found.uns["hotview"]) == {"views", "plan", "costs", "similarity", "classes"}
    for key, value in mdata.uns["hotview"].items():
        np.testing.assert_array_equal(found.uns["hotview"][key], value)
    for name in cells:
        ours, theirs = (whole[name].obsm for whole in (mdata, found))
        np.testing.assert_array_equal(theirs["X_hotview"], ours["X_hotview"])
        pd.testing.assert_frame_equal(
            theirs["hotview_probabilities"], ours["hotview_probabilities"]
        )


def test_features_and_the_plan(small, cells):
    model = fit(MultiViewEncoder(**small), cells)
    annotate(model, cells)
    for name, adata in cells.items():
        Z = model.transform_view(adata, name)
        np.testing.assert_array_equal(adata.obsm["X_hotview"], Z)
        found = adata.uns["hotview"]
        assert found["views"].tolist() == ["rna", "atac", "prot"]
        np.testing.assert_array_equal(found["plan"], model.plan_.W)
        np.testing.assert_array_equal(found["costs"], model.plan_.C)
        assert found["similarity"].tolist() == model.view_similarity_.value.tolist()
        assert "classes" not in found
        assert not set(COLUMNS) & set(adata.obs)
    annotate(model, cells, space="common", key="again")
    assert cells["rna"].obsm["X_again"].shape == (40, 3)
    assert {"hotview", "again"} <= set(cells["rna"].uns)
    annotate(fit(MultiViewEncoder(**small, coupling="none"), cells), cells, key="alone")
    assert set(cells["rna"].uns["alone"]) == {"views", "similarity"}


def test_classes_may_be_numbers(small, cells, tmp_path):
    cells["rna"].obs["batch"] = np.arange(40) % 3
    model, atac = fit(MultiViewClassifier(**small), cells, "batch"), cells["atac"]
    annotate(model, cells)
    assert atac.obs["hotview_class"].cat.categories.tolist() == [0, 1, 2]
    assert atac.obsm["hotview_probabilities"].columns.tolist() == ["0", "1", "2"]
    atac.write_h5ad(tmp_path / "atac.h5ad")
    annotate(model, cells, unassigned_below=0.9)  # which is text
    assert atac.obs["hotview_class"].cat.categories.tolist() == ["0", "1", "2", "Unassigned"]
    atac.write_h5ad(tmp_path / "atac.h5ad")


def test_some_modalities_new_cells_and_a_search(small, cells, mdata):
    settings = {**small, "max_epochs": 1}
    search = GridSearch(MultiViewClassifier(**settings), {"encoder_dim": [2]}, cv=2, random_state=0)
    assert fit(search, mdata, "kind").best_estimator_.view_names_ == ["rna", "atac", "prot"]
    new = {"atac": cells["atac"][:7].copy()}
    annotate(search, new)
    assert new["atac"].obsm["X_hotview"].shape == (7, 2)
    expected = search.predict_proba({"atac": new["atac"].to_df()})
    np.testing.assert_allclose(new["atac"].obsm["hotview_probabilities"], expected, atol=1e-6)
    assert "X_hotview" not in cells["atac"].obsm


def test_cells_of_the_whole_that_no_modality_has_are_left_open(model, cells, mdata):
    mdata.mod["atac"] = cells["atac"][:5].copy()  # of which the whole does not know yet
    mdata.mod["prot"] = cells["prot"][:5].copy()
    annotate(model, mdata)
    gone = ~mdata.obs_names.isin([name for adata in mdata.mod.values() for name in adata.obs_names])
    assert gone.sum() > 0
    assert mdata.obs["hotview_class"].isna().tolist() == gone.tolist()
    assert mdata.obs["hotview_confidence"].isna().tolist() == gone.tolist()


def test_nothing_is_written_where_something_is_wrong(model, cells):
    cells["prot"].X[3, 1] = np.inf
    for wrong, message in (
        (cells, "'prot' to hold finite numbers"),
        ({"rna": cells["rna"], "other": cells["atac"]}, r"among \['rna', 'atac', 'prot'\]"),
        ({"rna": cells["rna"][:10]}, r"modality 'rna' to hold its own data.*\.copy\(\)"),
    ):
        with pytest.raises(ValueError, match=message):
            annotate(model, wrong)
    for adata in cells.values():
        assert "X_hotview" not in adata.obsm
        assert "hotview" not in adata.uns
        assert not set(COLUMNS) & set(adata.obs)


def test_cells_below_a_threshold_are_unassigned(model, mdata):
    annotate(model, mdata)
    best, confidence = mdata.obs["hotview_class"].tolist(), mdata.obs["hotview_confidence"]
    level = float(confidence.median())
    annotate(model, mdata, unassigned_below=level)
    found = mdata.obs["hotview_class"]
    assert found.cat.categories.tolist() == ["B", "T", "Unassigned"]
    sure = zip(best, confidence >= level, strict=True)
    assert found.tolist() == [kind if is_sure else "Unassigned" for kind, is_sure in sure]
    np.testing.assert_array_equal(mdata.obs["hotview_confidence"], confidence)
    with pytest.raises(ValueError, match="unassigned_below"):
        annotate(model, mdata, unassigned_below=2)


def test_disagreement_is_told_and_order_and_colors_of_the_label_are_kept(small, cells):
    kinds = cells["rna"].obs["kind"].cat.reorder_categories(["T", "B"])
    cells["rna"].obs["kind"] = kinds
    cells["rna"].uns["kind_colors"] = ["#ff0000", "#0000ff"]
    model = fit(MultiViewClassifier(**{**small, "n_estimators": 2}), cells, "kind")
    rows = {"rna": cells["rna"].X}
    probabilities = model.predict_proba(rows)
    annotate(model, {"rna": cells["rna"]})
    disagreement = cells["rna"].obs["hotview_disagreement"]
    np.testing.assert_allclose(disagreement, model.predict_disagreement(rows), atol=1e-6)
    found = cells["rna"].obs["hotview_class"]
    assert found.cat.categories.tolist() == ["T", "B"]
    assert found.tolist() == model.classes_[probabilities.argmax(axis=1)].tolist()
    assert list(cells["rna"].uns["hotview_class_colors"]) == ["#ff0000", "#0000ff"]
    annotate(model, {"atac": cells["atac"]}, unassigned_below=0.5)
    colors = list(cells["atac"].uns["hotview_class_colors"])
    assert colors == ["#ff0000", "#0000ff", "#d3d3d3"]


def linked_modalities():
    """RNA and ATAC of cells of which 60 are in both."""
    data = make_views(80, n_views=2, n_groups=1, labeled=0.75, random_state=0)
    parts = {}
    for name, view in (("rna", "view_0"), ("atac", "view_1")):
        both = [f"both-{i}" for i in range(len(data.linked[view]))]
        names = [*both, *(f"{name}-{i}" for i in range(len(data.views[view])))]
        X = np.vstack([data.linked[view], data.views[view]])
        parts[name] = anndata.AnnData(X, obs=pd.DataFrame(index=names))
        parts[name].var_names = [f"{name}-{j}" for j in range(X.shape[1])]
    return parts


def test_where_modalities_can_be_compared_and_only_there_is_one_joint_embedding(small):
    parts = linked_modalities()
    with mudata.set_options(pull_on_update=False):
        mdata = mudata.MuData(parts)
    model = fit(MultiViewEncoder(random_state=0, device="cpu"), mdata)
    assert model.common_space_.is_comparable
    annotate(model, mdata)
    joint = pd.DataFrame(mdata.obsm["X_hotview_common"], index=mdata.obs_names)
    own = {
        name: pd.DataFrame(part.obsm["X_hotview_common"], index=part.obs_names)
        for name, part in mdata.mod.items()
    }
    np.testing.assert_allclose(joint.loc["rna-3"], own["rna"].loc["rna-3"], rtol=1e-5)
    mean = (own["rna"].loc["both-3"] + own["atac"].loc["both-3"]) / 2
    np.testing.assert_allclose(joint.loc["both-3"], mean, rtol=1e-5)
    assert np.isfinite(joint.to_numpy()).all()
    Z = model.transform(parts, space="common")
    np.testing.assert_array_equal(own["atac"], Z["atac"])
    parts = linked_modalities()
    parts["atac"].obs_names = "other-" + parts["atac"].obs_names  # no cell is in both
    model = fit(MultiViewEncoder(**small), parts)
    annotate(model, parts)
    assert "X_hotview_common" not in parts["rna"].obsm
    with pytest.warns(UserWarning, match="may not be comparable"):
        annotate(model, parts, space="common")
