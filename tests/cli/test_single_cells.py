import json

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hotview import MultiViewClassifier, load, omics

from .conftest import QUICK, run_quietly

KINDS = np.array(["B", "T", "NK"])
pytestmark = pytest.mark.filterwarnings("ignore:Columns alone tell the class:UserWarning")


def make_cells(names, seed=1):
    """Cells of two modalities with counts in X, and coordinates with donors' offsets in obsm."""
    found = {}
    numbers = {view: [int(name[1:]) for name in own] for view, own in names.items()}
    for view, width in (("rna", 300), ("atac", 280)):
        kind, donor = np.array(numbers[view]) % 3, np.array(numbers[view]) % 2
        fixed, rng = np.random.default_rng(len(view)), np.random.default_rng(seed)
        X = rng.poisson(2 * fixed.gamma(0.5, size=(3, width))[kind]).astype(np.float32)
        shift = 4 * fixed.normal(size=9)
        Z = 3 * fixed.normal(size=(3, 9))[kind] + donor[:, None] * shift
        Z = Z + rng.normal(size=(len(kind), 9))
        obs = pd.DataFrame({"donor": np.array(["d1", "d2"])[donor]}, index=names[view])
        found[view] = anndata.AnnData(sparse.csr_matrix(X), obs=obs)
        found[view].var_names = [f"{view}{j}" for j in range(width)]
        found[view].obsm["X_pca"] = Z.astype(np.float32)
        found[view].layers["lognorm"] = np.log1p(X)
    kind = KINDS[np.array(numbers["rna"]) % 3]
    found["rna"].obs["cell_type"] = pd.Categorical(kind, categories=["T", "NK", "B"])
    found["rna"].uns["cell_type_colors"] = np.array(["#110000", "#220000", "#330000"])
    return found


@pytest.fixture(scope="session")
def cells(tmp_path_factory):
    """Files of 90 cells in each modality, 30 of them in both, and of new ones."""
    folder = tmp_path_factory.mktemp("cells")
    names = {"rna": [f"c{i}" for i in range(90)], "atac": [f"c{i}" for i in range(60, 150)]}
    new = {view: [f"n{i}" for i in range(200, 230)] for view in names}
    (folder / "new").mkdir()
    for part, own in (("", names), ("new", new)):
        found = make_cells(own, seed=len(part))
        for view, adata in found.items():
            adata.write_h5ad(folder / part / f"{view}.h5ad")
        with mudata.set_options(pull_on_update=False):
            mudata.MuData(found).write(folder / part / "both.h5mu")
    return folder


def run_fit(hotview, cells, out, *options, files=("rna.h5ad", "atac.h5ad"), code=0):
    paths = [cells / name for name in files]
    labels = ("--label-column", "cell_type")
    return hotview("fit", *paths, *labels, *options, "-o", out, *QUICK, code=code)


@pytest.fixture(scope="module")
def model(cells, tmp_path_factory):
    """A model of coordinates, without batches."""
    out = tmp_path_factory.mktemp("model") / "m.hotview"
    options = ("--label-column", "cell_type", "--obsm", "X_pca", "--batch-column", "donor")
    run_quietly("fit", cells / "rna.h5ad", cells / "atac.h5ad", *options, "-o", out, *QUICK)
    return out


def test_labels_of_obs_views_of_obsm_and_links_by_names(hotview, cells, tmp_path):
    choice = ("--obsm", "rna=X_pca", "--layer", "atac=lognorm", "--json")
    done = run_fit(hotview, cells, tmp_path / "m.hotview", *choice, files=("both.h5mu",))
    facts = json.loads(done.out)
    assert [view["columns"] for view in facts["views"]] == [9, 280]
    assert facts["linked_rows"] == 30
    assert facts["labels"] == [["B", 30], ["NK", 30], ["T", 30]]
    table = tmp_path / "p.csv"
    done = hotview("predict", tmp_path / "m.hotview", cells / "new" / "both.h5mu", "-o", table)
    assert len(pd.read_csv(table)) == 30  # by the same choice, which the model has


@pytest.mark.parametrize(
    ("options", "message"),
    (
        (("--obsm", "rnaa=X_pca"), "No file is called 'rnaa'. Did you mean 'rna'? Correct --obsm."),
        (("--layer", "lognrom"), "Did you mean 'lognorm'? Correct --layer."),
        (("--obsm", "X_pca", "--layer", "lognorm"), "Pass --obsm or --layer."),
        (("--batch-column", "doner"), "Did you mean 'donor'? Correct --batch-column."),
    ),
)
def test_typos_are_errors(options, message, hotview, cells, tmp_path):
    done = run_fit(hotview, cells, tmp_path / "m.hotview", *options, code=1)
    assert message in done.err


def test_labels_of_the_whole_file_and_persons_are_found(hotview, cells, tmp_path):
    with mudata.set_options(pull_on_update=False):
        data = mudata.read_h5mu(cells / "both.h5mu")
        del data["rna"].obs["cell_type"]
        data.obs["stage"] = np.where(np.arange(data.n_obs) % 2, "late", "early")
        data.write(tmp_path / "both.h5mu")
    options = ("--label-column", "stage", "--group-column", "donor", "--dry-run", "--json")
    done = hotview("fit", tmp_path / "both.h5mu", *options)
    facts = json.loads(done.out)
    assert facts["labels"] == [["early", 75], ["late", 75]]
    assert facts["labeled_groups"] == 2


def test_raw_counts_are_reduced_and_other_values_are_warned_of(hotview, cells, tmp_path):
    out = tmp_path / "m.hotview"
    done = run_fit(hotview, cells, out, "--batch-column", "donor", "--hold-out", "0.2")
    printed = " ".join(done.out.split())
    assert "rna: raw counts, 300 columns reduced to 64 components" in printed
    assert "--obsm rna=X_pca" in printed
    assert (
        "raw counts" not in run_fit(hotview, cells, tmp_path / "Z.hotview", "--obsm", "X_pca").out
    )
    done = hotview(
        "predict", out, cells / "rna.h5ad", "-o", tmp_path / "p.csv", "--layer", "lognorm"
    )
    assert "Expected 'rna' to hold raw counts, as at fit, but" in done.err
    assert load(out).model_.batch_offsets["rna"].scaler is not None
    hotview("evaluate", out, cells / "rna.h5ad", cells / "atac.h5ad")


def test_predictions_are_written_into_a_copy_of_the_file(hotview, cells, model, tmp_path):
    out = tmp_path / "rna.h5ad"
    hotview("predict", model, cells / "new" / "rna.h5ad", "-o", out)
    found, given = anndata.read_h5ad(out), anndata.read_h5ad(cells / "new" / "rna.h5ad")
    np.testing.assert_array_equal(found.X.toarray(), given.X.toarray())
    assert found.obs["hotview_class"].cat.categories.tolist() == ["T", "NK", "B"]
    assert list(found.uns["hotview_class_colors"]) == ["#110000", "#220000", "#330000"]
    assert (found.obs["hotview_class"].astype(str) == given.obs["cell_type"].astype(str)).all()
    P = found.obsm["hotview_probabilities"]
    np.testing.assert_allclose(found.obs["hotview_confidence"], P.max(axis=1), atol=1e-6)
    assert {"hotview_disagreement", "hotview_n_views"} <= set(found.obs)
    hotview("predict", model, cells / "new" / "rna.h5ad", "-o", out, code=1)
    below = ("--abstain-below", "1", "--force")
    hotview("predict", model, cells / "new" / "rna.h5ad", "-o", out, *below)
    assert (anndata.read_h5ad(out).obs["hotview_class"] == "Unassigned").any()
    hotview("predict", model, cells / "both.h5mu", "-o", out, "--force")
    found = anndata.read_h5ad(out)  # cells of several views in one file
    assert found.shape == (150, 0)
    numbers = np.array([int(name[1:]) for name in found.obs_names])
    assert (found.obs["hotview_class"].astype(str) == KINDS[numbers % 3]).mean() > 0.9


def test_batches_are_removed_by_saved_offsets(hotview, cells, model, tmp_path):
    out = tmp_path / "p.csv"
    new = [cells / "new" / f"{view}.h5ad" for view in ("rna", "atac")]
    hotview("predict", model, *new, "-o", out)
    expected = pd.read_csv(out, index_col=0)["probability"]
    data = {path.stem: anndata.read_h5ad(path) for path in new}
    omics.annotate(load(model), data)  # a model of the command line, in Python
    np.testing.assert_allclose(data["rna"].obs["hotview_confidence"], expected, atol=1e-5)
    hotview("evaluate", model, new[0], "--no-baselines")
    hotview("transform", model, new[0], "-o", tmp_path / "features")
    hotview("report", model, new[0], "-o", tmp_path / "r.html", "--no-umap")
    other = anndata.read_h5ad(new[0])
    other.obs["donor"] = "d9"
    other.write_h5ad(tmp_path / "rna.h5ad")
    done = hotview("predict", model, tmp_path / "rna.h5ad", "-o", out, "--force")
    assert "'d9' are new: they are not corrected" in done.err
    del other.obs["donor"]
    other.write_h5ad(tmp_path / "rna.h5ad")
    done = hotview("predict", model, tmp_path / "rna.h5ad", "-o", out, "--force", code=1)
    assert "to have the batches of its rows in 'donor'" in done.err


def test_batches_of_tables(hotview, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["x", "y", "z"])
        table["plate"] = np.array(["p1", "p2"])[np.arange(60) % 2]
        table.loc[table["plate"] == "p2", ["x", "y", "z"]] += 5
        table.to_csv(tmp_path / f"{name}.csv", index_label="id")
    tables = [tmp_path / "a.csv", tmp_path / "b.csv"]
    ids = ("--id-column", "id", "--batch-column", "plate")
    hotview("fit", *tables, *ids, "-o", tmp_path / "t.hotview", *QUICK)
    found = load(tmp_path / "t.hotview").model_.batch_offsets["a"]
    np.testing.assert_allclose(found.offsets[1] - found.offsets[0], 5, atol=1)
    hotview("transform", tmp_path / "t.hotview", *tables, "-o", tmp_path / "f")


def test_a_model_from_python_takes_files(hotview, cells, tmp_path):
    data = {view: anndata.read_h5ad(cells / f"{view}.h5ad") for view in ("rna", "atac")}
    small = {"hidden": (8,), "max_epochs": 2, "n_estimators": 1, "device": "cpu"}
    model = MultiViewClassifier(**small, random_state=0)
    omics.fit(model, data, "cell_type", obsm="X_pca", batch_key="donor").save(
        tmp_path / "m.hotview"
    )
    out = tmp_path / "p.csv"
    hotview("predict", tmp_path / "m.hotview", cells / "new" / "both.h5mu", "-o", out)
    assert pd.read_csv(out)["obs_names"].tolist() == [f"n{i}" for i in range(200, 230)]
