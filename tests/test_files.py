import os
import stat
import subprocess
import sys
from threading import Event, Thread

import pytest

from hotview._files import atomic_write, check_output_path, file_lock


@pytest.mark.parametrize("name", ("a.png", "a.PNG"))
def test_a_valid_path_is_returned(tmp_path, name):
    assert check_output_path(str(tmp_path / name), (".png",)) == tmp_path / name


@pytest.mark.parametrize(
    ("name", "error", "message"),
    (
        ("a.txt", ValueError, r"must end in \.pdf or \.png, got '\.txt'"),
        ("a", ValueError, "got 'nothing'"),
        ("no/a.png", FileNotFoundError, "does not exist; make it first"),
        ("folder.png", IsADirectoryError, "is a folder"),
    ),
)
def test_an_invalid_path_is_refused(tmp_path, name, error, message):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(error, match=message):
        check_output_path(tmp_path / name, (".pdf", ".png"))


def test_an_error_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with atomic_write(path) as draft:
            draft.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_the_file_has_the_permissions_of_an_ordinary_one(tmp_path):
    (tmp_path / "ordinary").write_text("")
    with atomic_write(tmp_path / "atomic") as draft:
        draft.write_text("")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "atomic")]
    assert modes[0] == modes[1]


HOLD_LOCK = """
import sys
from pathlib import Path
from hotview._files import file_lock
with file_lock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def acquire_in_thread(path):
    """Return an event that is set once another thread has the lock."""
    acquired = Event()

    def acquire():
        with file_lock(path):
            acquired.set()

    Thread(target=acquire, daemon=True).start()
    return acquired


def test_threads_wait_for_the_lock(tmp_path):
    with file_lock(tmp_path / ".lock"):
        acquired = acquire_in_thread(tmp_path / ".lock")
        assert not acquired.wait(0.2)
    assert acquired.wait(60)


def test_processes_wait_for_the_lock_and_a_killed_one_releases_it(tmp_path):
    command = [sys.executable, "-c", HOLD_LOCK, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline().strip() == b"locked"
            acquired = acquire_in_thread(tmp_path / ".lock")
            assert not acquired.wait(0.2)
        finally:
            holder.kill()
    assert acquired.wait(60)


def test_without_a_folder_nothing_is_locked(tmp_path):
    with file_lock(tmp_path / "none" / ".lock"):
        assert os.listdir(tmp_path) == []
