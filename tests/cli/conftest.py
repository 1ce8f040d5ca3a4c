import csv
import io
import re
import shlex
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from hotview.cli import main
from hotview.cli.runner import write_table
from hotview.datasets import make_views

QUICK = ("--max-epochs", "2", "--n-estimators", "2", "--set", "hidden=8,", "--device", "cpu")


@pytest.fixture
def hotview(monkeypatch, capsys):
    """Run a command in this process, as the shell would; it ends with this code (None: any)."""

    def run(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["hotview", *map(str, arguments)])
        monkeypatch.setattr("hotview.cli.runner._debug", False)
        found = 0
        warnings.simplefilter("default", UserWarning)  # printed, until the end of the test
        try:
            main()
        except SystemExit as end:
            found = end.code or 0
        out, err = capsys.readouterr()
        assert code in (None, found), err
        return SimpleNamespace(code=found, out=out, err=err)

    return run


def run_quietly(*arguments):
    """Run a command for a fixture of many tests."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        patch.setattr(sys, "argv", ["hotview", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
    assert end.value.code in (0, None)


def write_views(folder, ids, rows, words):
    """Tables of two views and a matrix, with a column of text in the first."""
    folder.mkdir()
    for name in ("blood", "scan"):
        X = rows[name]
        columns = {"id": ids[name], **{f"{name}_{j}": X[:, j] for j in range(X.shape[1])}}
        if name == "blood":
            columns["sex"] = [words[i % 2] for i in range(len(X))]
        write_table(columns, folder / f"{name}.csv")


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """Files of two views: 40 people linked and labeled, 30 others in each; and 20 new people."""
    folder = tmp_path_factory.mktemp("study")
    data = make_views(90, n_views=2, n_groups=1, labeled=1.0, random_state=0)
    X = dict(zip(("blood", "scan"), data.linked.values(), strict=True))
    y = np.array(["ill", "well", "odd"])[np.asarray(data.linked_target) % 3]
    known = [f"p{i}" for i in range(40)]
    ids = {name: [*known, *(f"{name}{i}" for i in range(30))] for name in X}
    new = {name: [f"n{i}" for i in range(20)] for name in X}
    write_views(folder / "views", ids, {n: A[:70] for n, A in X.items()}, ("F", "M"))
    write_views(folder / "new", new, {n: A[70:] for n, A in X.items()}, ("F", "X"))
    write_table({"id": known, "state": y[:40]}, folder / "labels.csv")
    write_table({"id": new["blood"], "state": y[70:]}, folder / "new-labels.csv")
    return folder


@pytest.fixture(scope="session")
def files(study):
    """What `hotview fit` takes."""
    views = [study / "views" / name for name in ("blood.csv", "scan.csv")]
    labels = ("--labels", study / "labels.csv", "--label-column", "state", "--id-column", "id")
    return [*views, *labels]


@pytest.fixture(scope="session")
def new_files(study):
    return [study / "new" / "blood.csv", study / "new" / "scan.csv"]


@pytest.fixture(scope="session")
def model(study, files):
    """A model of these files."""
    run_quietly("fit", *files, "-o", study / "model.hotview", *QUICK)
    return study / "model.hotview"


def paste(message, flag, which=0):
    """Return an option of a message as a shell splits it, without the end of its sentence."""
    word = rf"{flag} ((?:'[^']*'|\"[^\"]*\"|[^\s'\"])+?)(?=[.;:]?(?:\s+[A-Z]|\s*$)|;?\s|, or )"
    return shlex.split(f"{flag} {re.findall(word, message)[which]}")


@pytest.fixture
def write_csv(tmp_path, monkeypatch):
    """Write a table of text into the folder of the command, with quotes where cells need them."""
    monkeypatch.chdir(tmp_path)

    def write(name, columns, delimiter=",", encoding="utf-8"):
        stream = io.StringIO()
        rows = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))
        (tmp_path / name).write_bytes(stream.getvalue().encode(encoding))

    return write


def numbers(n, seed=0):
    """Cells of random numbers with two decimals."""
    return [f"{x:.2f}" for x in np.random.default_rng(seed).normal(size=n)]


@pytest.fixture(scope="session")
def messy_model(tmp_path_factory):
    """A model of two tables as people write them: ids with zeros, thousands, units and dates."""
    folder = tmp_path_factory.mktemp("messy")
    rng, states = np.random.default_rng(0), np.arange(40) % 2
    lines = ["id\tprice\tdose\tseen\ty"]
    for i, price in enumerate(rng.integers(1, 9999, 40)):
        seen = f"{1 + i % 12:02}/{1 + i % 28:02}/2024"
        lines.append(f"{i:03}\t{price:,}\t{4 * states[i] + i % 7} mg\t{seen}\t{'uv'[states[i]]}")
    (folder / "lab.tsv").write_text("\n".join(lines) + "\n")
    scans = [f"{i}.0\t{x + 3 * states[i]:.3f}\t{x:.3f}" for i, x in enumerate(rng.normal(size=40))]
    (folder / "scan.tsv").write_text("\n".join(["id\tx\ty2", *scans]) + "\n")
    files = (folder / "lab.tsv", folder / "scan.tsv", "-o", folder / "m.hotview", *QUICK)
    run_quietly("fit", *files, "--id-column", "id", "--label-column", "y", "--match-ids", "zeros")
    return folder / "m.hotview"
