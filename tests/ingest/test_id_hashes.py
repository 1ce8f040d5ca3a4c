import base64
import hashlib

from hotview.ingest.id_hashes import find_ids, hash_ids


def test_who_was_hashed_is_found_and_nobody_else():
    everybody = [f"p{i}" for i in range(2000)]
    found = find_ids(everybody, hash_ids(everybody[::2]))
    assert found.tolist() == [True, False] * 1000


def test_neither_order_nor_repetition_matters():
    assert hash_ids(["a", "b", "a"]) == hash_ids(["b", "a"])


def test_nobody_is_in_nothing():
    assert find_ids(["a"], hash_ids([])).tolist() == [False]
    assert len(find_ids([], hash_ids(["a"]))) == 0


def test_hashes_are_sha256():
    expected = hashlib.sha256(b"hotview id anna").digest()[:8]
    assert base64.b64decode(hash_ids(["anna"])) == expected
