import os
import stat
import pytest
from hotview._files import check_output_path, whole_file
import subprocess
import sys
from threading import Event, Thread
from hotview._files import lock_folder


@pytest.mark.parametrize("name", ("a.png", "a.PNG"))
def test_a_good_path_comes_back(tmp_path, name):
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
def test_a_bad_path_is_refused(tmp_path, name, error, message):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(error, match=message):
        check_output_path(tmp_path / name, (".pdf", ".png"))


def test_what_fails_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with whole_file(path) as draft:
            draft.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with whole_file(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_the_file_has_the_rights_of_an_ordinary_one(tmp_path):
    (tmp_path / "ordinary").write_text("")
    with whole_file(tmp_path / "whole") as draft:
        draft.write_text("")
    rights = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "whole")]
    assert rights[0] == rights[1]


HOLD = """
import sys
from pathlib import Path
from hotview._files import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("in", flush=True)
    sys.stdin.read()
"""


def comes_in(folder):
    """Who tries to get in; set once it is."""
    inside = Event()

    def try_it():
        with lock_folder(folder):
            inside.set()

    Thread(target=try_it, daemon=True).start()
    return inside


def test_threads_wait_for_each_other(tmp_path):
    with lock_folder(tmp_path):
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
    with lock_folder(tmp_path / "none"):
        assert os.listdir(tmp_path) == []
