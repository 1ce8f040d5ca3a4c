import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotview as hv
from hotview.datasets import make_views

LABS = pd.DataFrame({"iron": [1.0, 2.0, 3.0], "fast": [True, False, True]}, index=["a", "b", "c"])
SCAN = pd.DataFrame({"size": [7, 8], "site": ["x", "y"]}, index=["c", "d"])
IDS = st.lists(st.integers(0, 12), unique=True, min_size=1, max_size=10)


def test_persons_in_two_frames_or_with_a_label_are_linked_and_all_others_are_kept():
    linked, y, unaligned = hv.from_frames({"labs": LABS, "scan": SCAN}, pd.Series({"c": "ill"}))
    assert list(y.items()) == [("c", "ill")]
    assert linked["labs"].loc["c", "iron"] == 3.0
    assert linked["scan"].loc["c", "site"] == "x"
    assert unaligned["labs"].index.tolist() == ["a", "b"]
    assert unaligned["scan"].index.tolist() == ["d"]
    linked, y, unaligned = hv.from_frames({"labs": LABS, "scan": SCAN}, {"a": 0, "c": 1})
    assert list(y.items()) == [("a", 0), ("c", 1)]
    assert linked["scan"].loc["a"].isna().all()  # where this person is absent
    assert linked["labs"]["fast"].tolist() == [True, True]
    assert linked["scan"].index.equals(linked["labs"].index)
    assert unaligned["labs"].index.tolist() == ["b"]
    before = LABS.copy()
    with pytest.raises(ValueError, match=r"at least 2 frames, or labels, but got 'labs' alone"):
        hv.from_frames({"labs": LABS})
    assert hv.from_frames({"labs": LABS}, {"a": 0}).y.to_dict() == {"a": 0}
    pd.testing.assert_frame_equal(LABS, before)


@pytest.mark.filterwarnings("ignore:.*persons in no frame", "ignore:No person of")
@given(
    st.lists(IDS, min_size=2, max_size=4), st.dictionaries(st.integers(0, 12), st.integers(0, 1))
)
@settings(deadline=None)
def test_nobody_is_lost_and_nobody_counts_twice(columns, labels):
    frames = {
        f"view_{s}": pd.DataFrame({"x": np.array(column, dtype=float)}, index=column)
        for s, column in enumerate(columns)
    }
    persons = [key for column in columns for key in column]
    is_linked = len(persons) > len(set(persons))
    if not is_linked and not all(set(column) & set(labels) for column in columns):
        with pytest.raises(ValueError, match=r"in common|no id matches"):
            hv.from_frames(frames, labels)
        return
    if labels and not set(persons) & set(labels):
        with pytest.raises(ValueError, match="no id matches"):
            hv.from_frames(frames, labels)
        return
    linked, y, unaligned = hv.from_frames(frames, labels)
    for name, frame in frames.items():
        present = linked[name]["x"].dropna()
        rest = unaligned[name]["x"] if name in unaligned else present.iloc[:0]
        assert sorted([*present.index, *rest.index]) == sorted(frame.index)
        assert all(part.tolist() == part.index.tolist() for part in (present, rest))
    for person, label in y.items():
        assert label == labels.get(person)


def test_what_is_not_linked_or_labeled_is_said():
    third = pd.DataFrame({"age": [50.0]}, index=["zoe"])
    with pytest.warns(UserWarning, match=r"^No person of 'third' is in another frame"):
        linked, _, unaligned = hv.from_frames({"labs": LABS, "scan": SCAN, "third": third})
    assert (len(linked["third"]), unaligned["third"].index.tolist()) == (1, ["zoe"])
    labels = {"a": 0, "c": 1, "zoe": 1, "yan": None}
    with pytest.warns(UserWarning, match="1 of 3 labels are of persons in no frame: 'zoe'$"):
        _, y, _ = hv.from_frames({"labs": LABS, "scan": SCAN}, labels)
    assert list(y.items()) == [("a", 0), ("c", 1)]


@pytest.mark.parametrize("number", (7, np.int64(7), 7.0))
@pytest.mark.parametrize("text", ("7", "007", "7.0"))
def test_numbers_and_texts_that_are_the_same_stop(number, text):
    scan, third = SCAN.set_axis(["c", text]), pd.DataFrame({"age": [5.0]}, index=[number])
    with pytest.raises(ValueError, match=r"is a number, and .* is text.*astype\(str\)"):
        hv.from_frames({"labs": LABS, "scan": scan, "third": third})
    with pytest.raises(ValueError, match=r"7(\.0)? in labels is a number"):
        hv.from_frames({"labs": LABS, "scan": scan}, {"c": 0, number: 1}, match_ids=["zeros"])


def test_an_index_of_several_levels_matches_one_of_the_same():
    labs, scan = (
        frame.set_axis(pd.MultiIndex.from_product([frame.index, [1]])) for frame in (LABS, SCAN)
    )
    assert hv.from_frames({"labs": labs, "scan": scan}).y.index.tolist() == [("c", 1)]
    with pytest.raises(ValueError, match=r"no person is in two of.*df\.droplevel\(1\)"):
        hv.from_frames({"labs": labs, "scan": SCAN})
    with pytest.raises(ValueError, match=r"no id matches.*df\.droplevel\(1\)"):
        hv.from_frames({"labs": labs, "scan": scan}, {"c": "ill"})


def test_labels_may_be_a_column_which_is_then_no_feature():
    labs = LABS.assign(state=["ill", None, np.nan])
    scan = SCAN.assign(state=["well", None])
    linked, y, _ = hv.from_frames({"labs": labs, "scan": scan}, "state")
    assert list(y.items()) == [("a", "ill"), ("c", "well")]
    assert "state" not in linked["labs"].columns
    with pytest.raises(ValueError, match="'c' has 'ill' and 'well'"):
        hv.from_frames({"labs": labs.assign(state=["ill"] * 3), "scan": scan}, "state")
    with pytest.raises(ValueError, match=r"No frame has a column 'stat'. Did you mean 'state'"):
        hv.from_frames({"labs": labs, "scan": scan}, "stat")


def test_ids_in_another_spelling_stop_or_are_matched():
    scan = SCAN.set_axis(["C", "D"])
    with pytest.raises(ValueError, match=r"1 more ids would match if capital letters.*\['case'\]"):
        hv.from_frames({"labs": LABS, "scan": scan})
    linked, y, _ = hv.from_frames({"labs": LABS, "scan": scan}, {"C": 1}, match_ids=["case"])
    assert list(y.items()) == [("c", 1)]  # as the first frame writes it
    assert linked["scan"]["size"].tolist() == [7]


BOTH = {"labs": LABS, "scan": SCAN}
STATES = LABS.set_axis(["state", "state"], axis=1)
NUMBERED = {name: frame.reset_index() for name, frame in BOTH.items()}


@pytest.mark.parametrize(
    ("frames", "labels", "error", "message"),
    (
        (BOTH, pd.Series({"C": 1}), ValueError, "1 more ids would match if capital letters"),
        (BOTH, {7: 1}, ValueError, "no id matches.*labels: 7.*types do not match"),
        (BOTH, pd.DataFrame({"C": [1]}), TypeError, "Expected labels by person.*a DataFrame"),
        ([LABS, SCAN], None, TypeError, "Expected frames by the name of their view"),
        (BOTH | {"scan": np.zeros((2, 2))}, None, TypeError, "by person, but it is a ndarray"),
        (BOTH | {"scan": SCAN.set_axis([1, 2])}, None, ValueError,
         r"no person is in two.*labs: 'a', scan: 1.*astype\(str\)"),
        (BOTH | {"labs": LABS.set_axis(["a", "a", "c"])}, None, ValueError,
         "Expected every id once in view 'labs'"),
        (BOTH | {"labs": STATES}, "state", ValueError,
         "one column 'state' in a frame, but 'labs' has several"),
        (NUMBERED, None, ValueError, "all have pandas' default index"),
    ),
)  # fmt: skip
def test_what_links_nobody_is_refused(frames, labels, error, message):
    with pytest.raises(error, match=message):
        hv.from_frames(frames, labels)
    with pytest.raises(TypeError, match="match_ids to be a list"):
        hv.from_frames(BOTH, match_ids="zeros")


def test_a_classifier_takes_what_comes_out():
    data = make_views(90, n_views=2, n_groups=1, labeled=1.0, random_state=0)
    X, Y = (pd.DataFrame(view).add_prefix("x") for view in data.linked.values())
    frames = {"labs": X.iloc[:70], "scan": Y.iloc[20:]}
    labels = pd.Series(data.linked_target[10:60], index=range(10, 60))
    linked, y, unaligned = hv.from_frames(frames, labels)
    assert len(y) == 60  # 50 linked, and 10 labeled in the first frame alone
    model = hv.MultiViewClassifier(max_epochs=1, n_estimators=2, random_state=0)
    model.fit(linked, y, unaligned=unaligned)
    assert model.predict({"scan": Y.iloc[:5]}).shape == (5,)
