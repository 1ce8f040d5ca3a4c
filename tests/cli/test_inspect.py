import json


def test_people_see_what_a_model_is(hotview, model):
    result = hotview("inspect", model)
    assert result.code == 0, result.err
    for part in (
        "MultiViewClassifier",
        "blood",
        "Linked rows: 40",
        "Plan W",
        "Made by: hotview fit",
    ):
        assert part in result.out


def test_scripts_get_everything(hotview, model):
    facts = json.loads(hotview("inspect", model, "--json").out)
    assert facts["classes"] == ["ill", "odd", "well"]
    assert facts["trained_on"]["linked"] == 40
    assert facts["changed_parameters"]["max_epochs"] == "2"
    assert len(facts["plan"]["W"]) == 2


def test_what_is_no_model_is_told(hotview, study):
    result = hotview("inspect", study / "labels.csv")
    assert result.code == 1
    assert "labels.csv" in result.err
    assert "Traceback" not in result.err
