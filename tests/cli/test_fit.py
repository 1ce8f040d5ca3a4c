import json
import re

import numpy as np
import pytest
from typer.main import get_command

import hotview as hv
from hotview.cli.fit import parse_settings
from hotview.cli.main import app
from hotview.cli.runner import UsageError

from .conftest import QUICK


@pytest.mark.parametrize(
    ("spec", "expected"),
    (
        ("hidden=64,32", (64, 32)),
        ("hidden=8,", (8,)),
        ("hidden=()", ()),
        ("learning_rate=1e-3", 0.001),
        ("max_features=None", None),
        ("pseudo_labels=False", False),
        ("pseudo_labels=false", False),
        ("fusion=average", "average"),
        ("coupling__reg=0.5", 0.5),
        ("a=b=c", "b=c"),
    ),
)
def test_settings_are_literals_or_text(spec, expected):
    assert list(parse_settings([spec]).values()) == [expected]


@pytest.mark.parametrize("spec", ("hidden", "=3", "hidden="))
def test_incomplete_settings_raise(spec):
    with pytest.raises(UsageError, match="Expected --set as NAME=VALUE"):
        parse_settings([spec])


def test_a_dry_run_prints_the_input_data_and_stops(hotview, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = hotview("fit", *files, "--dry-run")
    assert result.code == 0, result.err
    assert "Linked rows: 40, of which 40 have a label." in result.out
    assert re.search(r"Labels: ill: \d+, odd: \d+, well: \d+\.", result.out)
    assert "Columns left out: blood: id; scan: id." in result.out
    assert "Categorical columns: blood: sex (2: F, M)." in result.out
    assert "a column of 0 and 1 per value" in result.out  # the rule of encoding
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_prints_json(hotview, files):
    result = hotview("fit", *files, "--dry-run", "--json")
    facts = json.loads(result.out)
    blood, scan = facts["views"]
    assert (blood["rows"], blood["unaligned_rows"], facts["linked_rows"]) == (70, 30, 40)
    assert blood["columns"] == scan["columns"] + 2  # a column each for F and M
    assert sum(n for _, n in facts["labels"]) == 40


def test_without_labels_an_encoder_is_trained(hotview, files, tmp_path):
    path = tmp_path / "m.hotview"
    result = hotview("fit", *files[:2], "--id-column", "id", "-o", path, *QUICK)
    assert result.code == 0, result.err
    assert "No labels: a MultiViewEncoder is trained" in result.out
    encoder = hv.load(path)
    assert isinstance(encoder, hv.MultiViewEncoder)
    refused = hotview("predict", path, files[0], "-o", tmp_path / "p.csv")
    assert refused.code == 1
    assert "trained without labels" in refused.err


def test_views_with_labels_of_their_own_need_no_ids(hotview, study, tmp_path):
    labels = (study / "labels.csv").read_text().splitlines()[1:]
    for name in ("blood", "scan"):
        rows = (study / "views" / f"{name}.csv").read_text().splitlines()[:41]
        known = [f"{row},{y.split(',')[1]}" for row, y in zip(rows[1:], labels, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f'{rows[0]},"state"', *known]) + "\n")
    views = [tmp_path / "blood.csv", tmp_path / "scan.csv"]
    more = ("--label-column", "state", "--drop", "id", *QUICK)
    done = hotview("fit", *views, "-o", tmp_path / "m.hotview", *more)
    assert done.code == 0, done.err
    assert "Linked rows: 0" in done.out
    assert hv.load(tmp_path / "m.hotview").trained_on_["unaligned_labeled"] == {
        "blood": 40,
        "scan": 40,
    }


def test_settings_of_the_coupling_are_set(hotview, files, tmp_path):
    path = tmp_path / "m.hotview"
    more = ("--set", "coupling__reg=0.5", "--set", "class_weight=balanced")
    result = hotview("fit", *files, "-o", path, *QUICK, *more)
    assert result.code == 0, result.err
    model = hv.load(path)
    assert isinstance(model.coupling, hv.HOTReferenceSpec)
    assert model.coupling.reg == 0.5
    assert model.class_weight == "balanced"
    refused = hotview("fit", *files, "-o", path, *QUICK, "--force", "--set", "hidden__size=3")
    assert refused.code == 2
    assert "hidden has no settings of its own" in refused.err


def test_couplings_that_compare_individuals_take_linked_rows_only(hotview, files, tmp_path):
    path = tmp_path / "m.hotview"
    refused = hotview("fit", *files, "-o", path, *QUICK, "--coupling", "dgcca")
    assert refused.code == 2
    assert "--linked-only" in refused.err
    done = hotview("fit", *files, "-o", path, *QUICK, "--coupling", "dgcca", "--linked-only")
    assert done.code == 0, done.err
    assert hv.load(path).trained_on_["unaligned"] == {}


@pytest.mark.parametrize(
    ("more", "code", "message"),
    (
        (("--coupling", "hott"), 2, "Expected coupling to be one of"),
        (("--set", "hidden=a"), 1, "Expected hidden to be a tuple"),
        (("--set", "hiden=3"), 2, "Did you mean 'hidden'"),
        (("--set", "coupling=none"), 2, "Use --coupling instead of --set coupling"),
        (("--set", "unlabeled_marker=-1"), 2, "Use --unlabeled-marker"),
        (("--hold-out", "1.5"), 2, "Expected --hold-out between 0 and 1"),
        (("--resume",), 2, "--resume needs --checkpoint"),
        (("--ids", "scan"), 2, "Expected --ids as VIEW=FILE"),
        (("--drop", "sexx"), 1, "Did you mean 'sex'"),
        (("--delimiter", "ab"), 1, "one character"),
        (("-o", "nowhere/m.hotview"), 1, "the folder nowhere does not exist"),
        (("-o", "m.pkl"), 1, "must end in .hotview"),
    ),
)
def test_errors_are_printed_in_a_line(hotview, files, tmp_path, monkeypatch, more, code, message):
    monkeypatch.chdir(tmp_path)
    result = hotview("fit", *files, "-o", "m.hotview", *QUICK, *more)
    assert result.code == code
    assert message in result.err
    assert result.err.startswith("hotview: ")
    assert len(result.err.strip().splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_to_save_to_is_required(hotview, files):
    result = hotview("fit", *files)
    assert result.code == 2
    assert "-o model.hotview" in result.err


def test_a_model_is_replaced_only_by_force(hotview, files, tmp_path):
    path = tmp_path / "m.hotview"
    path.write_text("mine")
    result = hotview("fit", *files, "-o", path, *QUICK)
    assert result.code == 1
    assert "--force" in result.err
    assert path.read_text() == "mine"
    assert hotview("fit", *files, "-o", path, *QUICK, "--force").code == 0
    assert hv.load(path).n_views_ == 2


@pytest.fixture
def with_holes(files, study, tmp_path):
    """The files, a cell of two rows of the first view missing."""
    rows = (study / "views" / "blood.csv").read_text().splitlines()
    for i in (3, 5):
        cells = rows[i].split(",")
        rows[i] = ",".join([cells[0], "", *cells[2:]])
    (tmp_path / "blood.csv").write_text("\n".join(rows) + "\n")
    return [tmp_path / "blood.csv", *files[1:]]


@pytest.fixture
def strangers(study, tmp_path):
    """Tables of people of whom those of blood and urine are the same, and all of scan others."""
    for name in ("blood", "scan"):
        lines = (study / "views" / f"{name}.csv").read_text().splitlines()
        rows = lines[1:41] if name == "blood" else lines[41:]
        (tmp_path / f"{name}.csv").write_text("\n".join([lines[0], *rows]) + "\n")
    (tmp_path / "urine.csv").write_text((tmp_path / "blood.csv").read_text())
    return [tmp_path / f"{name}.csv" for name in ("blood", "urine", "scan")]


def test_missing_cells_raise_with_the_flag_that_imputes_them(hotview, with_holes, tmp_path):
    fit = ("fit", *with_holes, "-o", tmp_path / "m.hotview", *QUICK)
    result = hotview(*fit)
    assert result.code == 1
    assert "--impute blood=median" in result.err
    assert hotview(*fit, "--impute", "scan=mean").err == result.err
    assert hotview(*fit, "--impute", "mean").code == 0
    assert hv.load(tmp_path / "m.hotview").impute == "mean"


def test_methods_of_imputation_by_view(hotview, with_holes, new_files, tmp_path):
    path = tmp_path / "m.hotview"
    more = ("--impute", "mean", "--impute", "blood=median+indicator")
    done = hotview("fit", *with_holes, "-o", path, *QUICK, *more)
    assert done.code == 0, done.err
    told = "missing cells replaced by the median and marked in 1 more columns"
    assert f"View 'blood': standardized; {told}." in done.out
    assert hv.load(path).impute == {"blood": "median+indicator", "scan": "mean"}
    facts = json.loads(hotview("inspect", path, "--json").out)
    assert facts["trained_on"]["impute"] == {"blood": "median+indicator", "scan": "mean"}
    assert facts["preprocessing"]["blood"] == f"standardized; {told}"
    found = hotview("predict", path, with_holes[0], new_files[1], "-o", tmp_path / "p.csv")
    assert found.code == 0, found.err
    alone = ("--impute", "blood=median", "--force")
    assert hotview("fit", *with_holes, "-o", path, *QUICK, *alone).code == 0
    assert hv.load(path).impute == {"blood": "median"}


def test_a_class_may_be_called_none(hotview, files, study, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text((study / "labels.csv").read_text().replace("well", "None"))
    mine = [labels if str(x).endswith("labels.csv") else x for x in files]
    done = hotview("fit", *mine, "-o", tmp_path / "m.hotview", *QUICK)
    assert done.code == 0, done.err
    assert "stand for missing values" not in done.err
    assert hv.load(tmp_path / "m.hotview").classes_.tolist() == ["None", "ill", "odd"]


# what fit refuses


NOT_FITTED = {
    "missing cells": ("with_holes", (), 1, "--impute blood=median"),
    "a view without labels": ("strangers", (), 1, "but 'scan' has neither. Link a few rows"),
    "one class": ("files", ("--unlabeled-marker", "odd"), 1, "all are of one class, 'ill'"),
    "too few rows": ("files", ("--set", "validation_fraction=0.001"), 1, "0.001 of 40"),
    "hidden": ("files", ("--set", "hidden=a"), 1, "Expected hidden to be a tuple"),
    "a class": ("files", ("--set", "class_weight={'il': 2}"), 1, "il"),
    "a method": ("files", ("--impute", "medain"), 2, "Did you mean 'median'"),
    "a view": ("files", ("--impute", "blod=mean"), 2, "Did you mean 'blood'"),
}


@pytest.mark.parametrize(("given", "more", "code", "message"), NOT_FITTED.values(), ids=NOT_FITTED)
def test_a_dry_run_ends_with_the_error_of_the_fit(
    hotview, request, files, study, tmp_path, given, more, code, message
):
    views = request.getfixturevalue(given)
    views = [*views, *files[2:]] if given == "strangers" else views
    if "all are" in message:  # of "well", no label is left
        labels = tmp_path / "labels.csv"
        text = (study / "labels.csv").read_text()
        labels.write_text(text.replace("well", "odd"))
        views = [labels if str(x).endswith("labels.csv") else x for x in views]
    out = tmp_path / "m.hotview"
    fitted = hotview("fit", *views, "-o", out, *QUICK, *more)
    dry = hotview("fit", *views, "--dry-run", *QUICK, *more)
    as_json = hotview("fit", *views, "--dry-run", "--json", *QUICK, *more)
    assert fitted.code == dry.code == as_json.code == code
    last = [result.err.splitlines()[-1] for result in (fitted, dry, as_json)]
    assert message in last[0]
    assert last[0] == last[1] == last[2]
    assert not out.exists()
    if code == 1:  # wrong usage is known before the files are read
        assert "Linked rows: " in dry.out
        assert json.loads(as_json.out)["views"][0]["name"] == "blood"


def test_a_dry_run_trains_nothing(hotview, files, monkeypatch):
    monkeypatch.setattr("hotview.estimators.fit.compute_graphs", None)
    monkeypatch.setattr("hotview.estimators.fit.train", None)
    assert hotview("fit", *files, "--dry-run").code == 0
    assert hotview("fit", *files[:2], "--id-column", "id", "--dry-run", "--json").code == 0


def test_views_that_no_label_reaches_are_refused_with_flags(hotview, files, strangers, tmp_path):
    out = tmp_path / "m.hotview"
    result = hotview("fit", *strangers, *files[2:], "-o", out, *QUICK)
    assert result.code == 1
    assert "but 'scan' has neither. Link a few rows (--id-column), or label some" in result.err
    assert "(--label-column)" in result.err
    assert not out.exists()


def test_views_may_be_some_arrays_of_a_file(hotview, study, tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"a": rng.normal(size=(30, 3)), "b": rng.normal(size=(30, 2)), "note": np.arange(3)}
    np.savez(tmp_path / "all.npz", **arrays)
    refused = hotview("fit", tmp_path / "all.npz", "--dry-run")
    assert refused.code == 1
    assert "--variable" in refused.err
    chosen = ("--variable", "a", "--variable", "b")
    assert hotview("fit", tmp_path / "all.npz", *chosen, "--dry-run").code == 0


def test_flags_have_the_names_of_parameters():
    parameters = get_command(app).commands["fit"].params
    flags = {option.name for option in parameters}
    known = set(hv.MultiViewClassifier().get_params())
    named = {name for name in flags if name in known}
    assert {"coupling", "view_regularizer", "max_epochs", "random_state", "impute"} <= named
    own = {"views", "out", "labels", "label_column", "id_column", "ids", "drop", "categorical"}
    own |= {"hold_out", "linked_only", "dry_run", "header", "delimiter", "decimal", "resume"}
    own |= {"variable", "settings", "force", "json", "debug", "group_column", "thousands"}
    own |= {"encoding", "missing", "dates", "sheet", "query", "match_ids", "config", "write_config"}
    assert flags - named == own


def test_help_shows_at_most_40_options(hotview, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    shown = set(re.findall(r"^│ (--[a-z-]+)", hotview("fit", "--help").out, re.MULTILINE))
    assert {"--coupling", "--set", "--help"} <= shown
    assert len(shown) <= 40
