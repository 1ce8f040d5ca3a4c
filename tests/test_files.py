import errno
import os
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest
import torch

from hotview._archive import FileFormat, write_archive
from hotview._files import atomic_write, check_output_path, file_lock, output_lock
from hotview.cli.runner import write_table

posix = pytest.mark.skipif(os.name != "posix", reason="permissions, locks and limits of POSIX")


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
    for valid in ("a.png", "a.PNG"):
        assert check_output_path(str(tmp_path / valid), (".png",)) == tmp_path / valid
    with pytest.raises(error, match=message):
        check_output_path(tmp_path / name, (".pdf", ".png"))


def test_an_error_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with atomic_write(path) as draft:
            draft.write_text("half")
            assert path.read_text() == "old"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]
    assert write(path, "new").read_text() == "new"


def write(path, text="", **options):
    with atomic_write(path, **options) as draft:
        draft.write_text(text)
    return path


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@posix
@pytest.mark.parametrize("private", (False, True))
@pytest.mark.parametrize("mode", (None, 0o400, 0o640, 0o666, 0o4755))
def test_a_file_keeps_permissions_or_has_those_of_an_ordinary_or_a_private_one(
    tmp_path, mode, private
):
    path, ordinary = tmp_path / "a", tmp_path / "ordinary"
    ordinary.touch()
    expected = 0o600 if private else mode_of(ordinary)
    if mode is not None:
        path.touch()
        path.chmod(mode)
        expected = mode & 0o777  # no special bits
    with atomic_write(path, private=private) as draft:
        assert mode_of(draft) == (expected if mode is None else 0o600)
        draft.write_text("new")
    assert (mode_of(path), path.read_text()) == (expected, "new")


@posix
def test_a_write_that_exceeds_a_limit_names_the_file(tmp_path):
    tensors, form = {"x": torch.ones(10**5)}, FileFormat("a", 1, "a", "")
    writes = {
        "a.txt": lambda path: write(path, "x" * 10**6),
        "a.st": lambda path: write_archive(path, form, tensors, {}),
        "a.csv": lambda path: write_table({"x": range(10**5)}, path),
    }
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        for name, write_much in writes.items():
            with pytest.raises(OSError, match="so that nothing was written") as caught:
                write_much(tmp_path / name)
            found = (caught.value.errno, caught.value.filename)
            assert found == (errno.EFBIG, str(tmp_path / name))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []


def test_errors_about_other_files_stay_as_they_are(tmp_path):
    other = tmp_path / "other"
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "a"):
        other.read_text()
    assert caught.value.filename == str(other)
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="nothing was written") as caught:
        write(tmp_path / "a")
    assert caught.value.filename == str(tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"]


HOLD = """
import sys
from pathlib import Path
from hotview import _files
with getattr(_files, sys.argv[1])(Path(sys.argv[2])) as draft:
    if draft is not None:
        draft.write_text("half")
    print(draft, flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(function, path):
    """Another process that holds a file until it is killed at the end, and its draft."""
    command = [sys.executable, "-c", HOLD, function, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def make_old(path):
    os.utime(path, (time.time() - 10**5,) * 2)


@posix
def test_the_draft_of_a_killed_process_is_deleted_once_it_is_old(tmp_path):
    path = tmp_path / "a.txt"
    with held("atomic_write", path) as draft:
        write(path, "new")
        assert os.path.exists(draft)
    make_old(draft)
    write(path, "new")
    assert os.listdir(tmp_path) == ["a.txt"]


def test_recent_drafts_and_other_hidden_files_are_left_alone(tmp_path):
    path, draft = tmp_path / "a.txt", tmp_path / ".a-01234567.draft.txt"
    others = [tmp_path / f".{name}.txt" for name in ("a-01234567", "b-01234567.draft", "a-0.draft")]
    for file in (draft, *others):
        file.touch()
    for file in others:
        make_old(file)
    write(path)
    assert all(file.exists() for file in (draft, *others))
    make_old(draft)
    write(path)
    assert not draft.exists()
    assert all(file.exists() for file in others)


@posix
def test_an_output_is_reserved_for_one_process_until_it_ends(tmp_path):
    path = tmp_path / "a.hotview"
    with held("output_lock", path):
        message = r"a\.hotview .*but another one is working on it"
        with pytest.raises(BlockingIOError, match=message), output_lock(path):
            pass
        with output_lock(tmp_path / "b.hotview"):
            pass
    assert os.listdir(tmp_path) == [".a.hotview.lock"]
    with output_lock(path):
        pass
    assert os.listdir(tmp_path) == []


@posix
def test_file_systems_without_locks_lock_nothing(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def fail(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with output_lock(tmp_path / "a"), output_lock(tmp_path / "a"):
        pass


@posix
def test_an_output_is_reserved_for_one_thread_at_a_time(tmp_path):
    held = []

    def reserve(_):
        for _ in range(200):
            with suppress(BlockingIOError), output_lock(tmp_path / "a"):
                held.append(1)
                assert len(held) == 1
                time.sleep(0)
                held.pop()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(reserve, range(4)))
    assert os.listdir(tmp_path) == []


def test_without_a_folder_nothing_is_locked(tmp_path):
    for lock in (output_lock, file_lock):
        with lock(tmp_path / "none" / "a"):
            assert os.listdir(tmp_path) == []


def acquire_in_thread(path):
    """Return an event that is set once another thread has the lock."""
    acquired = Event()

    def acquire():
        with file_lock(path):
            acquired.set()

    Thread(target=acquire, daemon=True).start()
    return acquired


def test_threads_and_processes_wait_for_the_lock_and_a_killed_one_releases_it(tmp_path):
    path = tmp_path / ".lock"
    for holder in (file_lock(path), held("file_lock", path)):
        with holder:
            acquired = acquire_in_thread(path)
            assert not acquired.wait(0.2)
        assert acquired.wait(60)


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("kept")
    (tmp_path / ".a.hotview.lock").symlink_to(tmp_path / "victim")
    problem = r"lock .* delete it.*\.a\.hotview\.lock"
    with pytest.raises(OSError, match=problem), output_lock(tmp_path / "a.hotview"):
        pass
    assert (tmp_path / "victim").read_text() == "kept"
