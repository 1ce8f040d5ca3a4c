import hashlib

import numpy as np
import pandas as pd
import pytest

from hotview.federated.client_data import ClientData, hash_ids

X = np.random.default_rng(0).normal(size=(5, 3))
IDS = ["ann", "bob", "eve", "joe", "kim"]


def test_linked_rows_come_in_the_agreed_order_and_nobody_need_be_linked():
    x, ids = X.copy(), list(IDS)
    own = ClientData.from_table("a", x, ids=ids, linked_ids=["joe", "ann", "kim"])
    assert (x.tolist(), ids) == (X.tolist(), IDS)  # what is given stays
    assert own.linked.tolist() == [3, 0, 4]
    assert own.linked.dtype == np.int64
    alone = ClientData.from_table("a", X)
    assert (len(alone.linked), alone.classes) == (0, [])
    assert alone.codes([]).tolist() == [-1] * 5


def test_the_digest_tells_whether_ids_and_their_order_agree():
    ids = ["joe", "ann"]
    assert hash_ids(ids) == hashlib.sha256(b"joe\nann").hexdigest()
    own = ClientData.from_table("a", X, ids=IDS, linked_ids=ids)
    other = ClientData.from_table("b", X[:4], ids=IDS[:4])
    assert (own.digest, other.digest) == (hash_ids(ids), hash_ids([]))


def test_columns_are_standardized_by_the_own_table_alone():
    table = pd.DataFrame(X * [1, 10, 100] + 5, columns=["x", "y", "z"])
    own = ClientData.from_table("a", table)
    assert (own.table.n_rows, own.table.n_columns) == (5, 3)
    np.testing.assert_allclose(own.columns.mean, table.mean())
    np.testing.assert_allclose(own.columns.scale, table.std(ddof=0))


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    (
        (["b", None, "a", "b", "a"], ["a", "b"], [1, -1, 0, 1, 0]),
        ([2, 0, None, 0, 2], [0, 2], [1, 0, -1, 0, 1]),
        ([True, False, None, True, True], [False, True], [1, 0, -1, 1, 1]),
        (np.array([3, 1, 1, 3, 1]), [1, 3], [1, 0, 0, 1, 0]),
    ),
)
def test_classes_are_sorted_and_numbered(labels, classes, codes):
    own = ClientData.from_table("a", X, labels=labels)
    assert own.classes == classes
    assert own.codes(classes).tolist() == codes
    assert own.codes([*classes, "more"]).dtype == np.int64


@pytest.mark.parametrize(
    ("more", "why"),
    (
        ({"labels": [1, 2]}, "for each of the 5 rows of 'a', but 2 came"),
        ({"labels": [1, 2, np.nan, 1, 1]}, "None where there is none, but there is nan"),
        ({"labels": [1, "2", None, 1, 1]}, "all texts or all numbers"),
        ({"labels": [(1, 2), None, None, None, None]}, r"texts or numbers.*\(1, 2\)"),
        ({"linked_ids": ["ann"]}, "because some are linked, but 0 came.*id_column"),
        ({"linked_ids": ["ann"], "ids": ["ann", *IDS[:4]]}, "distinct ids for the rows of 'a'"),
        ({"linked_ids": ["ann", "ann"], "ids": IDS}, "distinct linked ids"),
        ({"linked_ids": ["ann", "max", "tom"], "ids": IDS}, "but 2 are not, the first .* 'max'"),
    ),
)
def test_what_does_not_fit_is_refused(more, why):
    with pytest.raises(ValueError, match=why):
        ClientData.from_table("a", X, **more)


def test_rows_without_values_and_missing_cells_are_refused():
    empty, gap = X.copy(), X.copy()
    empty[1], gap[2, 0] = np.nan, np.nan
    with pytest.raises(ValueError, match="every row of view 'a' to have values, but 1 have none"):
        ClientData.from_table("a", empty, impute="mean")
    with pytest.raises(ValueError, match="impute"):
        ClientData.from_table("a", gap)
    filled = [ClientData.from_table("a", gap, impute=method) for method in ("mean", "median")]
    assert [data.impute for data in filled] == ["mean", "median"]
    assert filled[0].fingerprint != filled[1].fingerprint
