import pytest

from hotview.datasets.readers.errors import did_you_mean, listed, reading, within_memory


def test_the_nearest_name_is_proposed_or_the_known_ones_are_listed():
    assert did_you_mean("Patient_ID", ["age", "patient_id"]) == " Did you mean 'patient_id'?"
    assert did_you_mean("zzz", ["age", "iron"]) == " There are: 'age', 'iron'."
    assert did_you_mean("zzz", []) == ""
    assert listed(str(i) for i in range(10)).endswith("'9'")
    assert listed(str(i) for i in range(11)).endswith("'9', …")


def test_what_a_reader_raises_becomes_a_value_error_with_the_file_and_the_cause():
    cause = KeyError("data")
    with (
        pytest.raises(ValueError, match=r"a\.mat .*KeyError.*data") as caught,
        reading("a.mat", ""),
    ):
        raise cause
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("error", (MemoryError, PermissionError))
def test_what_is_not_the_files_fault_is_passed_on(error):
    with pytest.raises(error), reading("a.mat", "a MAT-file"):
        raise error


def test_an_error_about_memory_names_the_file_once():
    with pytest.raises(MemoryError) as caught, within_memory("a.mat"), reading("a.mat", ""):
        raise MemoryError
    assert str(caught.value).count("a.mat") == 1
    assert "(MemoryError)" in str(caught.value)
