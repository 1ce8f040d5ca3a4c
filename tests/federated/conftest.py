import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # loopback.py and what else tests share


@pytest.fixture
def tables(tmp_path):
    """A folder with the tables and configurations of three organizations."""
    from sample_tables import write_tables

    write_tables(tmp_path)
    return tmp_path


@pytest.fixture
def in_a_run(monkeypatch):
    """Flower's messages can be made only by a process that belongs to a run."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
