import errno
import os
import subprocess
import sys
import warnings

import pytest

from hotview._messages import Message, Parameter
from hotview._processes import ProcessLostError
from hotview.cli.runner import UsageError, explain, print_notes, run_command

COMMAND = (sys.executable, "-c", "from hotview.cli import main; main()")


@pytest.mark.parametrize(
    ("error", "code"),
    (
        (OSError("no disk"), 1),
        (ImportError("no onnx"), 1),
        (UsageError("bad flags"), 2),
        (KeyboardInterrupt(), 130),
        (SystemExit(130), 130),
        (KeyError("oops"), 1),
    ),
)
def test_every_error_has_its_exit_code_and_a_line(error, code, capsys, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def fail():
        raise error

    with pytest.raises(SystemExit) as end:
        run_command(fail)
    assert end.value.code == code
    printed = capsys.readouterr().err
    assert printed.startswith("hotview: ")
    assert isinstance(error, SystemExit) or str(error) in printed
    assert ("--debug" in printed) == isinstance(error, KeyError)  # which nobody expected


def test_warnings_are_one_line_and_debug_shows_the_traceback(
    hotview, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        message = Message("", "Pass {impute}.", impute="mean")
        run_command(lambda: warnings.warn(message, UserWarning, stacklevel=1))
    assert capsys.readouterr().err == "hotview: warning: Pass --impute mean.\n"
    with pytest.raises(FileNotFoundError, match="there is no model at"):
        hotview("inspect", tmp_path / "nope.hotview", "--debug")


@pytest.mark.parametrize(
    ("parameter", "expected"),
    (
        (Parameter("header", True), "--header"),
        (Parameter("header", False), "--no-header"),
        (Parameter("view_regularizer", "autoencoder"), "--view-regularizer autoencoder"),
        (Parameter("drop", ["a b", "c"]), "--drop 'a b' --drop c"),
        (Parameter("variables"), "--variable"),
        (Parameter("delimiter", {"my lab": "\t"}), r"--delimiter 'my lab=\t'"),
        (Parameter("missing", {"lab": ["a=b", "?"]}), "--missing lab=a=b --missing 'lab=?'"),
    ),
)
def test_parameters_become_flags(parameter, expected, capsys):
    message = Message("impute=x.csv: ", "pass {it}.", it=parameter)
    assert explain(ValueError(message)) == f"impute=x.csv: pass {expected}."
    print_notes([message, "plain"])
    assert capsys.readouterr().err == (
        f"hotview: note: impute=x.csv: pass {expected}.\nhotview: note: plain\n"
    )


def test_a_full_disk_and_memory_are_reported():
    full = errno.ENOSPC, os.strerror(errno.ENOSPC)
    assert "No space is left on the disk;" in explain(OSError(*full))
    assert "No space is left on the disk for a.hotview;" in explain(OSError(*full, "a.hotview"))
    assert explain(MemoryError()).endswith("fewer rows.")
    assert explain(MemoryError("a.npy does not fit")).endswith("fewer rows. (a.npy does not fit)")


def test_a_closed_pipe_ends_a_command_quietly(model):
    process = subprocess.Popen(
        [*COMMAND, "inspect", str(model), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    with process.stderr as stderr:
        printed = stderr.read().decode()
    process.wait(timeout=60)
    assert "Traceback" not in printed
    assert "Exception ignored" not in printed


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_full_disk_behind_the_output_is_an_error(model):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "inspect", str(model), "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "rank", "is_reporter"),
    (("fit", 0, False), ("fit", 1, False), ("fit", 1, True), ("predict", 1, True)),
)
def test_of_several_processes_one_prints(command, rank, is_reporter, monkeypatch, capfd):
    def fail():
        print("working")
        raise ProcessLostError("rank 0 is gone", is_reporter=is_reporter)

    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setattr(sys, "argv", ["hotview", command])
    for owner, name in ((sys, "stdout"), (sys, "stderr"), (warnings, "showwarning")):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # to be put back
    before = sys.stdout
    if command == "fit":
        with pytest.raises(SystemExit) as end:
            run_command(fail)
        assert end.value.code == 1
    else:
        run_command(fail)  # which the first process does alone
    if sys.stdout is not before:
        sys.stdout.close()
    out, err = capfd.readouterr()
    reports = command == "fit" and (rank == 0 or is_reporter)
    assert out == ("working\n" if rank == 0 else "")
    assert err == ("hotview: rank 0 is gone\n" if reports else "")
