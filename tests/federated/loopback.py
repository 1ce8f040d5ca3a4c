"""A real federation on this machine: a SuperLink and SuperNodes, with TLS and authentication on."""

import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

sys.path.append(str(Path(__file__).parent))  # for those who import this file by its path
from credentials import write_certificates, write_node_key

BIN = Path(sys.executable).parent
PATIENCE = 120.0  # seconds until something that should happen has failed to


@dataclass
class Loopback:
    """Processes of a federation, and what they said."""

    folder: Path
    port: int = 0
    forks: bool = False  # whether nodes fork their clients, see `forked_clients`
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)

    def start_superlink(self) -> None:
        """Start it, and wait until it answers."""
        keys = self.folder / "keys"
        keys.mkdir()
        write_certificates(keys)
        self.port = free_port()
        (self.folder / "cli").mkdir()
        (self.folder / "cli" / "config.toml").write_text(
            f'[superlink.here]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{keys / "ca.crt"}"\n'
        )
        self._start(
            "superlink",
            "flower-superlink",
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--ssl-ca-certfile", str(keys / "ca.crt")),
            *("--ssl-certfile", str(keys / "server.pem")),
            *("--ssl-keyfile", str(keys / "server.key")),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        )
        self.wait_for("superlink", "Uvicorn running|Application startup complete")

    def register(self, *names: str) -> None:
        """Give nodes keys, and tell the SuperLink of them."""
        for name in names:
            write_node_key(self.folder / "keys", name)
        told = [
            self._start(
                f"register-{name}",
                "flwr",
                *("supernode", "register", str(self.folder / "keys" / f"{name}.pub"), "here"),
                *("--name", name),
                home="cli",
            )
            for name in names
        ]
        for name, process in zip(names, told, strict=True):
            if process.wait(PATIENCE) != 0:
                raise RuntimeError(f"{name} was not registered: {self.log(f'register-{name}')}")

    def start_node(
        self,
        name: str,
        *,
        key: str | None = "",
        authority: Path | None = None,
        patience: float | None = None,
        **config: object,
    ) -> None:
        """Start a SuperNode, with the key of its name, of another name, or none."""
        if self.forks and config:
            self._start_forks(name)
        keys = self.folder / "keys"
        told = " ".join(f"{word}={json.dumps(str(value))}" for word, value in config.items())
        more = () if key is None else ("--auth-supernode-private-key", str(keys / (key or name)))
        more += ("--node-config", told) if told else ()
        more += () if patience is None else ("--max-wait-time", str(patience))
        self._start(
            name,
            "flower-supernode",
            *("--superlink", f"127.0.0.1:{self.port}"),
            *("--root-certificates", str(authority or keys / "ca.crt")),
            *("--host", "127.0.0.1", "--port", str(free_port())),
            *more,
        )

    def _start_forks(self, name: str) -> None:
        """Start what forks the clients of a node; until it can, the node starts them itself."""
        folder, name = self.forks_of(name), f"{name}-clients"
        if name in self.processes and self.processes[name].poll() is None:
            return
        shutil.rmtree(folder, ignore_errors=True)
        file = Path(__file__).with_name("forked_clients.py")
        self._start(name, "python", str(file), str(folder))

    def forks_of(self, name: str) -> Path:
        """The folder of the command by which a node forks its clients."""
        return self.folder / f"{name}-forks"

    def restart_node(self, name: str, **config: object) -> None:
        """Start a killed SuperNode again and again: it is let in once its heartbeat is missed."""
        before = self.log(name).count("SuperNode ID")

        def is_back() -> bool:
            if self.processes[name].poll() is not None:
                self.start_node(name, **config)
            return self.log(name).count("SuperNode ID") > before

        wait_until(is_back, 2 * PATIENCE)

    def run(self, app: Path, run_config: Mapping[str, object] | None = None) -> subprocess.Popen:
        """Start ``flwr run --stream``, which ends with the run; its log is the ServerApp's."""
        told = " ".join(f"{key}={json.dumps(value)}" for key, value in (run_config or {}).items())
        more = ("--run-config", told) if told else ()
        return self._start("run", "flwr", "run", str(app), "here", "--stream", *more, home="cli")

    def kill_server_app(self) -> None:
        """Kill the process that coordinates; the SuperLink stays."""
        kin = psutil.Process(self.processes["superlink"].pid).children(recursive=True)
        for process in kin:
            with suppress(psutil.NoSuchProcess):
                if any("flwr-serverapp" in word for word in process.cmdline()):
                    process.kill()

    def status(self) -> dict:
        """What the SuperLink says of the latest run."""
        said = subprocess.run(
            [BIN / "flwr", "list", "here", "--format", "json"],
            env=self._environment("cli"),
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        ).stdout
        return json.loads(said)["runs"][0]

    def log(self, name: str) -> str:
        """What a process said, both times if it was started twice."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def last_run(self) -> str:
        """What the last run said; its log holds earlier ones, too."""
        return self.log("run").rpartition("Successfully started run")[2]

    def wait_for(self, name: str, pattern: str, patience: float = PATIENCE) -> None:
        """Wait until a process has said something."""
        process = self.processes[name]

        def has_happened() -> bool:
            if found := re.search(pattern, self.log(name)):
                return bool(found)
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended without {pattern!r}: {self.log(name)}")
            return False

        wait_until(has_happened, patience)

    def kill(self, name: str) -> None:
        """Kill a process and all that it started, as a machine that loses its power does."""
        for process in (name, f"{name}-clients"):
            if process in self.processes:
                kill_all(self.processes[process])

    def _start(
        self, name: str, command: str, *arguments: str, home: str | None = None
    ) -> subprocess.Popen:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [BIN / command, *arguments],
                env=self._environment(home or name),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        return self.processes[name]

    def _environment(self, home: str) -> dict[str, str]:
        found = quiet()
        path = f"{self.forks_of(home)}{os.pathsep}{found['PATH']}"
        return {**found, "PATH": path, "FLWR_HOME": str(self.folder / home)}


@contextmanager
def loopback(folder: Path, *names: str, forks: bool = False) -> Iterator[Loopback]:
    """A SuperLink that knows the keys of some nodes; all processes end with the block."""
    federation = Loopback(folder, forks=forks)
    try:
        federation.start_superlink()
        federation.register(*names)
        yield federation
    finally:
        for process in federation.processes.values():
            kill_all(process)
        kill_all_of(folder)


def quiet() -> dict[str, str]:
    """An environment in which Flower is found, tells nobody, and looks more often than it does."""
    return {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
        "OMP_NUM_THREADS": "1",
    }


def wait_until(has_happened: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Look until something has happened."""
    end = time.monotonic() + patience
    while not has_happened():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing within {patience:g} seconds")
        time.sleep(0.1)


def die_with_parent() -> None:
    """Ask Linux to kill this process with the one that starts it, which may itself be killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def kill_all(process: subprocess.Popen) -> None:
    """Kill a process and its children's children: some have sessions of their own."""
    try:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(True)]
    except psutil.NoSuchProcess:
        family = []
    for client in family:
        with suppress(psutil.NoSuchProcess):
            client.kill()
    process.wait(PATIENCE)


def exchanges(log: str) -> list[dict]:
    """What a coordinator's log tells of its exchanges: of what kind, how many, how long."""
    lines = re.findall(r" (\w+)(?: (\d+))?: (\d+) of (\d+) answered in ([\d.]+) s", log)
    return [
        {
            "kind": kind,
            "round": int(number) if number else None,
            "asked": int(asked),
            "answered": int(answered),
            "seconds": float(seconds),
        }
        for kind, number, answered, asked, seconds in lines
    ]


def kill_all_of(folder: Path) -> None:
    """Kill what is left: a process that ended by itself leaves its children behind."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("FLWR_HOME", "").startswith(f"{folder}{os.sep}"):
                process.kill()


def free_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
