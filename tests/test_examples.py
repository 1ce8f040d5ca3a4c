"""Every example runs, here with a tiny setting."""

import json
import math
import runpy
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.datasets import make_views

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs an example like a command, in this process, and returns what it printed."""
    n_threads = torch.get_num_threads()

    def run_example(name, *options):
        monkeypatch.setattr(sys, "argv", [name, *map(str, options)])
        with torch.random.fork_rng():
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    yield run_example
    torch.set_num_threads(n_threads)


def test_missing_views(run):
    lines = run("missing_views.py", "--max-epochs", 1).splitlines()
    names = [line.split("accuracy")[0].strip() for line in lines[:3]]
    assert names == ["all views", "pix alone", "fou alone"]
    assert len(lines) == 1 + 6 + 6


@pytest.mark.parametrize("coupling", ("HOTPairwise", "HOTReference", "SWPairwise"))
def test_own_training_loop(run, coupling):
    printed = run("own_training_loop.py", "--steps", 3, "--coupling", coupling)
    assert "'transport'" in printed
    assert ("groups as planted" in printed) == coupling.startswith("HOT")


SEARCH = ("--folds", 2, "--max-epochs", 1, "--views", "fou", "mor")


@pytest.mark.slow
def test_search(run):
    printed = run("search.py", *SEARCH)
    assert printed.count("pseudo_labels") == 4
    assert "best on test rows" in printed


@pytest.mark.slow
def test_many_machines(run):
    printed = run("many_machines.py", *SEARCH)
    assert printed.splitlines()[-1] == "the same to the last bit"


def test_single_cell(run):
    printed = run("single_cell.py", "--cells", 60, "--max-epochs", 2)
    assert "atac: mean confidence" in printed
    assert printed.count("of the types are right") == 2


@pytest.fixture
def serve(run, monkeypatch):
    """Runs the example, with its application on a free port of this machine, and is its client."""
    pytest.importorskip("fastapi", reason="the example serves with FastAPI")
    uvicorn = pytest.importorskip("uvicorn", reason="the example serves with uvicorn")
    httpx = pytest.importorskip("httpx", reason="the test asks with httpx")

    @contextmanager
    def client_of(*options):
        given = []
        monkeypatch.setattr(uvicorn, "run", lambda app, **settings: given.append((app, settings)))
        run("serve_model.py", *options)
        ((app, settings),) = given
        assert settings["host"] == "127.0.0.1"
        settings |= {"port": 0, "log_config": None, "timeout_keep_alive": 60}
        server = uvicorn.Server(uvicorn.Config(app, **settings))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            for _ in range(600):
                if server.started or not thread.is_alive():
                    break
                thread.join(0.1)
            assert server.started
            port = server.servers[0].sockets[0].getsockname()[1]
            address = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(60)
        assert not thread.is_alive()

    return client_of


@pytest.fixture
def served_model(tmp_path):
    """A small classifier, the path of its file, and rows."""
    data = make_views(60, n_views=2, n_groups=1, n_columns=4, labeled=0.4, random_state=0)
    names = np.array(["a", "b", "c", "d"])[data.linked_target]
    model = MultiViewClassifier(max_epochs=1, n_estimators=2, random_state=0, device="cpu")
    model.fit(data.linked, names, unaligned=data.views)
    rows = {name: X.astype(np.float64) for name, X in data.linked.items()}
    return model, model.save(tmp_path / "model.hotview"), rows


def test_serve_model(serve, served_model):
    model, path, rows = served_model

    def ask(i):
        """Predict two rows, by all views, by one, or by some views of every row."""
        views = {name: X[[i % len(X), 0]] for name, X in rows.items()}
        if i % 3 == 1:
            views["view_1"] = None
        if i % 3 == 2:
            views["view_0"][0] = math.nan
        sent = {name: X if X is None else _nulls(X) for name, X in views.items()}
        return views, client.post("/predict", json={"views": sent})

    with serve(path) as client:
        described = client.get("/model").raise_for_status().json()
        with ThreadPoolExecutor(8) as threads:
            asked = list(threads.map(ask, range(32)))
    assert described == {"views": {"view_0": 4, "view_1": 4}, "classes": ["a", "b", "c", "d"]}
    for views, response in asked:
        assert response.status_code == 200, response.text
        answer = response.json()
        np.testing.assert_array_equal(answer["probabilities"], model.predict_proba(views))
        np.testing.assert_array_equal(answer["disagreement"], model.predict_disagreement(views))
        assert answer["predicted"] == model.predict(views).tolist()
        assert answer["classes"] == described["classes"]


def _nulls(X):
    """The rows in JSON, which has no NaN."""
    return [[None if math.isnan(x) else x for x in row] for row in X.tolist()]


def test_serve_model_refuses_bad_requests(serve, served_model):
    model, path, _ = served_model
    row = [0.0] * 4
    with serve(path) as client:
        for views in (
            {"view_0": [row[:3]]},
            {"view_0": [row, row[:3]]},
            {"view_0": [[math.nan, *row[:3]]]},
            {"view_0": [[math.inf, *row[:3]]]},
            {"view_0": None},
        ):
            with pytest.raises(ValueError, match="Expected") as error:
                model.predict_proba(views)
            body = json.dumps({"views": views})  # with NaN and Infinity, which httpx does not write
            how = {"content": body, "headers": {"Content-Type": "application/json"}}
            response = client.post("/predict", **how)
            assert (response.status_code, response.json()) == (422, {"detail": str(error.value)})
        for views, problem in (
            ({"view_0": [row] * 1001}, "body.views.view_0: List should have at most 1000 items"),
            ({"view_0": [["1", *row]]}, "body.views.view_0.0.0: Input should be a valid number"),
        ):
            response = client.post("/predict", json={"views": views})
            assert response.status_code == 422
            assert response.json()["detail"].startswith(problem)


def test_serve_model_demo(serve):
    with serve("--demo") as client:
        views = client.get("/model").raise_for_status().json()["views"]
        sent = {name: [[0.0] * n_columns] for name, n_columns in views.items()}
        answer = client.post("/predict", json={"views": sent}).raise_for_status().json()
    assert sum(answer["probabilities"][0]) == pytest.approx(1)


def test_serve_model_needs_a_classifier(serve, tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(20, 3))
    encoder = MultiViewEncoder(max_epochs=1, random_state=0).fit({"a": X, "b": X})
    path = encoder.save(tmp_path / "encoder.hotview")
    for options, problem in (
        ((path,), "predicts no classes"),
        ((tmp_path / "nowhere.hotview",), "there is no model"),
        ((), "required"),
    ):
        with pytest.raises(SystemExit), serve(*options):
            pass
        assert problem in capsys.readouterr().err


def test_every_example_is_here_and_on_the_page():
    page = (EXAMPLES.parent / "docs" / "guides" / "examples.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"def test_{path.stem}(" in Path(__file__).read_text(), f"{path.name} is not run"
        assert f'--8<-- "examples/{path.name}"' in page, f"{path.name} is not shown"
