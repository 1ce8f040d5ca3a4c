import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hotview.omics import read_cells


def labels_by_hand(cells):
    """Label of every cell, as joined by pandas."""
    joined = pd.concat([cells["rna"].obs["kind"].astype(object), cells["atac"].obs["kind"]])
    return joined.dropna()


@pytest.mark.parametrize("of", ("dict", "MuData"))
def test_cells_are_linked_by_name_and_keep_their_labels(of, cells, mdata):
    found = read_cells(cells if of == "dict" else mdata, "kind")
    expected = [f"cell{i}" for i in range(5, 45)]  # which two modalities have, or all three
    shared, known = set(expected), labels_by_hand(cells)
    assert found.complete.sum() == 30
    for view, adata in cells.items():
        assert found.views[view].obs_names.equals(adata.obs_names)
        assert sorted(found.linked[view].obs_names) == sorted(expected)
        others = [name for name in adata.obs_names if name not in shared]
        assert (view in found.unaligned) == bool(others)
        if not others:
            continue
        assert found.unaligned[view].obs_names.tolist() == others
        labels = pd.Series(found.unaligned_target[view], index=others)
        pd.testing.assert_series_equal(
            labels.dropna(),
            known[known.index.isin(others)][labels.dropna().index],
            check_names=False,
        )
    target = pd.Series(found.target, index=expected)
    pd.testing.assert_series_equal(
        target.dropna(), known[known.index.isin(expected)], check_names=False
    )
    assert target.isna().sum() == 40 - known.index.isin(expected).sum()
    assert target["cell5"] == known["cell5"]  # which rna labels, and prot has too


def test_rows_are_those_of_the_cells_and_nan_where_a_modality_lacks_them(cells):
    found = read_cells(cells)
    linked = found.linked["atac"]
    whole = pd.DataFrame(cells["atac"].X.toarray(), index=cells["atac"].obs_names)
    assert sparse.issparse(linked.X)
    np.testing.assert_array_equal(linked.X.toarray(), whole.reindex(linked.obs_names))
    rna = pd.DataFrame(cells["rna"].X, index=cells["rna"].obs_names)
    np.testing.assert_array_equal(found.linked["rna"].X, rna.reindex(linked.obs_names))
    alone = read_cells({"rna": cells["rna"]})  # which is not copied without need
    assert alone.linked["rna"] is cells["rna"]
    assert alone.unaligned == {}
    paired = found.paired
    assert len(paired.target) == len(paired.linked["prot"]) == 30
    assert not np.isnan(paired.linked["atac"].X.toarray()).any()


def test_absent_cells_that_take_too_much_memory_are_not_linked(cells, monkeypatch):
    monkeypatch.setattr("hotview.omics.cells._MAX_ABSENT", 10)
    with pytest.warns(UserWarning, match="Only cells of all modalities are linked: 10 are in some"):
        assert len(read_cells(cells).target) == 30


def test_labels_of_the_whole(mdata):
    mdata.obs["stage"] = np.where(mdata.obs_names == "cell12", "late", None)
    found = read_cells(mdata, "stage")
    assert found.target[found.linked["rna"].obs_names.get_loc("cell12")] == "late"
    assert pd.Series(found.target).notna().sum() == 1


def test_layers_and_entries_of_obsm(cells):
    before = {name: adata.copy() for name, adata in cells.items()}
    found = read_cells(cells, layer={"rna": "counts"}, obsm={"atac": "X_pca"})
    for name, adata in cells.items():  # nothing is changed
        pd.testing.assert_frame_equal(adata.obs, before[name].obs)
        assert set(adata.obsm) == set(before[name].obsm)
        assert not adata.is_view
    np.testing.assert_array_equal(found.views["rna"].X, 2 * cells["rna"].X)
    assert found.views["rna"].var_names.equals(cells["rna"].var_names)
    np.testing.assert_array_equal(found.views["atac"].X, cells["atac"].obsm["X_pca"])
    assert found.views["prot"] is cells["prot"]
    frame = pd.DataFrame(np.eye(40, 2), index=cells["rna"].obs_names, columns=["one", "two"])
    cells["rna"].obsm["frame"] = frame
    named = read_cells({"rna": cells["rna"]}, obsm="frame").views["rna"]
    assert named.var_names.tolist() == ["one", "two"]
    np.testing.assert_array_equal(named.X, frame)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    (
        ({"label": "kin"}, ValueError, "column 'kin' in obs.*Did you mean 'kind'"),
        ({"layer": "count"}, ValueError, "'rna' to have layers 'count'.*Did you mean 'counts'"),
        ({"obsm": "X_umap"}, ValueError, r"'rna' to have obsm 'X_umap', but it has \['X_pca'\]"),
        ({"layer": "counts", "obsm": {"rna": "X_pca"}}, ValueError, "but got both"),
        ({"layer": 3}, TypeError, "layer to be a name"),
        ({"obsm": {"RNAs": "X_pca"}}, ValueError, "there is no 'RNAs'. Did you mean 'rna'"),
        ({"layer": {"atacs": "counts"}}, ValueError, "layer to name modalities.*'atac'"),
    ),
)
def test_what_is_not_there_is_named(arguments, error, message, cells):
    with pytest.raises(error, match=message):
        read_cells(cells, **arguments)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    (
        (lambda cells: cells["rna"], TypeError, "a MuData, or a dict of AnnData.*got AnnData"),
        (lambda cells: {}, TypeError, "a MuData, or a dict of AnnData"),
        (lambda cells: {"rna": cells["rna"].X}, TypeError, "'rna' to be an AnnData.*ndarray"),
    ),
)
def test_what_are_no_cells_is_refused(change, error, message, cells):
    with pytest.raises(error, match=message):
        read_cells(change(cells), "kind")


def test_cells_of_two_labels_or_one_name_are_refused(cells):
    cells["prot"].obs["kind"] = "B"
    with pytest.raises(ValueError, match=r"cell to have one 'kind'.*'cell\d+' is 'T' and 'B'"):
        read_cells(cells, "kind")
    cells["rna"].obs_names = ["same", "same", *cells["rna"].obs_names[2:]]
    with pytest.raises(ValueError, match="every id once in view 'rna'"):
        read_cells(cells, "kind")
