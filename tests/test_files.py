import errno
import os
import stat
import subprocess
import sys
import time
from threading import Event, Thread

import pytest
import torch

from hotview._archive import FileFormat, write_archive
from hotview._files import atomic_write, check_output_path, file_lock, output_lock
from hotview.cli.output_files import write_table

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
def test_a_new_file_has_the_permissions_of_an_ordinary_or_of_a_private_one(tmp_path):
    (tmp_path / "ordinary").write_text("")
    assert mode_of(write(tmp_path / "new")) == mode_of(tmp_path / "ordinary")
    assert mode_of(write(tmp_path / "private", private=True)) == 0o600


@posix
@pytest.mark.parametrize("private", (False, True))
@pytest.mark.parametrize("mode", (0o400, 0o640, 0o666, 0o4755))
def test_a_file_keeps_the_permissions_of_the_one_that_it_replaces(tmp_path, mode, private):
    path = tmp_path / "a"
    path.touch()
    path.chmod(mode)
    with atomic_write(path, private=private) as draft:
        assert mode_of(draft) == 0o600
        draft.write_text("new")
    assert (mode_of(path), path.read_text()) == (mode & 0o777, "new")  # no special bits


@posix
def test_a_write_that_exceeds_a_limit_names_the_file(tmp_path):
    def write_tensors():
        tensors = {"x": torch.ones(10**5)}
        write_archive(tmp_path / "a.st", FileFormat("a", 1, "a", ""), tensors, {})

    writes = {
        "a.txt": lambda: write(tmp_path / "a.txt", "x" * 10**6),
        "a.st": write_tensors,
        "a.csv": lambda: write_table({"x": range(10**5)}, tmp_path / "a.csv"),
    }
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        for name, write_much in writes.items():
            with pytest.raises(OSError, match="so that nothing was written") as caught:
                write_much()
            assert (caught.value.errno, caught.value.filename) == (
                errno.EFBIG,
                str(tmp_path / name),
            )
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


def start(function, path):
    """Start a process that holds a file until it ends; return it and its draft."""
    command = [sys.executable, "-c", HOLD, function, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def make_old(path):
    os.utime(path, (time.time() - 10**5,) * 2)


@posix
def test_the_draft_of_a_killed_process_is_deleted_and_that_of_a_living_one_is_not(tmp_path):
    path = tmp_path / "a.txt"
    process, draft = start("atomic_write", path)
    with process:
        try:
            make_old(draft)
            write(path, "new")
            assert os.path.exists(draft)
        finally:
            process.kill()
    write(path, "new")
    assert sorted(os.listdir(tmp_path)) == ["a.txt"]


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
    process, _ = start("output_lock", path)
    with process:
        try:
            message = r"a\.hotview .*but another one is working on it"
            with pytest.raises(BlockingIOError, match=message), output_lock(path):
                pass
            with output_lock(tmp_path / "b.hotview"):
                pass
        finally:
            process.kill()
    assert os.listdir(tmp_path) == [".a.hotview.lock"]
    with output_lock(path):
        pass
    assert os.listdir(tmp_path) == []


@posix
def test_an_output_is_reserved_for_one_thread_at_a_time(tmp_path):
    held, refused = [], []

    def reserve():
        for _ in range(200):
            try:
                with output_lock(tmp_path / "a"):
                    held.append(1)
                    assert len(held) == 1
                    time.sleep(0)
                    held.pop()
            except BlockingIOError as error:
                refused.append(error)

    failures = []
    threads = [Thread(target=run_and_keep_error, args=(reserve, failures)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failures, os.listdir(tmp_path)) == ([], [])


def run_and_keep_error(function, errors):
    try:
        function()
    except BaseException as error:
        errors.append(error)


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
    with file_lock(tmp_path / ".lock"):
        acquired = acquire_in_thread(tmp_path / ".lock")
        assert not acquired.wait(0.2)
    assert acquired.wait(60)
    process, _ = start("file_lock", tmp_path / ".lock")
    with process:
        try:
            acquired = acquire_in_thread(tmp_path / ".lock")
            assert not acquired.wait(0.2)
        finally:
            process.kill()
    assert acquired.wait(60)


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("kept")
    (tmp_path / ".a.hotview.lock").symlink_to(tmp_path / "victim")
    problem = r"lock .* delete it.*\.a\.hotview\.lock"
    with pytest.raises(OSError, match=problem), output_lock(tmp_path / "a.hotview"):
        pass
    assert (tmp_path / "victim").read_text() == "kept"
