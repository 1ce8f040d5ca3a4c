import json

import numpy as np
import pytest
from rich.console import Console

from hotview.cli.federated_output import (
    describe_clients,
    describe_outcome,
    print_clients,
    print_outcome,
)
from hotview.federated import Client, ClientData, FederatedResult, Privacy, Settings

NAMES = ["clinical", "genetic", "imaging"]
SIZES = {name: {"to": 1000, "from": 2000} for name in NAMES}
TOTAL = dict.fromkeys(NAMES, 12_345)


def printed(show, facts):
    console = Console(width=120, soft_wrap=True)
    with console.capture() as capture:
        show(facts, console)
    return capture.get()


def result(**more):
    W = np.array([[0.30, 0.03], [0.31, 0.02], [0.01, 0.32]], dtype=np.float32)
    rows = [{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0}]
    return FederatedResult(NAMES, rows, W, np.ones((3, 2), np.float32), NAMES, **more)


def outcome(found, settings=None, **more):
    settings = settings or Settings(rounds=2, local_steps=7)
    facts = describe_outcome(found, settings, SIZES, TOTAL)
    facts |= {"settings": settings.to_json(), "seconds": 3.0, "interrupted": False, "resume": "so"}
    return {**facts, "parts": {name: f"{name}/part.hotview" for name in found.finished}, **more}


@pytest.fixture
def clients(tmp_path):
    rng = np.random.default_rng(0)
    labels = [0, 1, None, None, 1]
    clinical = ClientData.from_table("clinical", rng.normal(size=(5, 2)), labels=labels)
    genetic = ClientData.from_table(
        "genetic", rng.normal(size=(6, 3)), ids=list("abcdef"), linked_ids=["b", "a"]
    )
    return {
        "clinical": Client(clinical, tmp_path, device="cpu"),
        "genetic": Client(genetic, tmp_path, privacy=Privacy(3.0), device="cpu"),
    }


def test_the_plan_is_shown_and_no_groups_are_drawn_from_it():
    plan = outcome(result())["plan"]
    assert "groups" not in plan
    assert plan["W"][2] == pytest.approx([0.01, 0.32])
    text = printed(print_outcome, outcome(result()))
    assert "Groups of views" not in text
    assert "0.960" in text  # 3 · 0.32, of a row that adds up to 1 nearly
    W = np.array([[0, 0.3, 0.03], [0.3, 0, 0.03], [0.16, 0.17, 0]])
    pairs = outcome(FederatedResult(NAMES, [], W, W, NAMES), Settings(coupling="hot-pairwise"))
    heading = printed(print_outcome, pairs).splitlines()[2]
    assert all(name in heading for name in NAMES)
    facts = outcome(FederatedResult(NAMES, [], finished=NAMES), Settings(coupling="none"))
    assert facts["plan"] is None
    assert "Plan" not in printed(print_outcome, facts)


def test_privacy_bytes_and_who_was_left_out_are_told(clients):
    facts = describe_clients(clients, Settings(label_holder="clinical"))
    clinical, genetic = facts["organizations"]
    sizes = {"rows": 5, "columns": 2, "linked": 0, "labeled": 3}
    assert clinical == {"name": "clinical", **sizes, "epsilon": None}
    assert (genetic["linked"], genetic["labeled"], genetic["epsilon"]) == (2, 0, 3.0)
    assert "Labels are those of clinical" in printed(print_clients, facts)
    del clients["genetic"]  # which alone asked for privacy
    text = printed(print_clients, describe_clients(clients, Settings()))
    assert "epsilon" not in text
    assert "nothing is predicted" in text
    late = [{"round": r, "name": "imaging", "reason": "late"} for r in (1, 2)]
    private = {"genetic": {"epsilon": 2.999, "delta": 1e-5}}
    facts = outcome(result(privacy=private, dropped=late, finished=NAMES[:2]))
    assert json.loads(json.dumps(facts)) == facts
    assert facts["bytes"]["imaging"] == {"to": 1000, "from": 2000, "total": 12_345}
    text = printed(print_outcome, facts)
    for part in (
        "2 of 2 rounds, 7 local steps in each, 3 s.",
        "12,345",
        "genetic: its projections are (3, 1e-05)-differentially private.",
        "imaging was left out of round 1, 2: late",
        "Part saved to genetic/part.hotview",
        "Next: hotview federated join clinical/part.hotview genetic/part.hotview",
    ):
        assert part in text
    assert "No organization" not in text
    assert "imaging/part.hotview" not in text
