from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.persistence.names import NOT_SAVED, prefixes


def test_every_replica_has_its_own_prefix():
    assert prefixes({}) == [""]
    assert prefixes({"more_histories": [[], []]}) == ["", "replica.1.", "replica.2."]


def test_what_is_not_saved_is_a_parameter():
    for estimator in (MultiViewClassifier(), MultiViewEncoder()):
        assert set(NOT_SAVED) <= set(estimator.get_params())
