import os
import subprocess
import sys
from threading import Event, Thread

from hotview.federated.alone import alone_in

HOLD = """
import sys
from pathlib import Path
from hotview.federated.alone import alone_in
with alone_in(Path(sys.argv[1])):
    print("in", flush=True)
    sys.stdin.read()
"""


def comes_in(folder):
    """Who tries to get in; set once it is."""
    inside = Event()

    def try_it():
        with alone_in(folder):
            inside.set()

    Thread(target=try_it, daemon=True).start()
    return inside


def test_threads_wait_for_each_other(tmp_path):
    with alone_in(tmp_path):
        other = comes_in(tmp_path)
        assert not other.wait(0.2)
    assert other.wait(60)


def test_processes_wait_for_each_other_and_who_is_killed_lets_go(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline().strip() == b"in"
            other = comes_in(tmp_path)
            assert not other.wait(0.2)
        finally:
            holder.kill()
    assert other.wait(60)


def test_where_there_is_no_folder_there_is_nothing_to_wait_for(tmp_path):
    with alone_in(tmp_path / "none"):
        assert os.listdir(tmp_path) == []
