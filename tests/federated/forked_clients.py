"""Flower's ``flwr-clientapp``, forked by a process that has imported what takes seconds.

Every message of a SuperNode starts a process, and most of its time is imports. This process is
started once for a SuperNode, with a folder of the node's PATH in which it writes a command of that
name; the command hands over its arguments and files and ends.
"""

import json
import os
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path

COMMAND = """#!{python} -IS
import json, os, socket, sys
told = json.dumps([sys.argv, os.getcwd(), dict(os.environ)])
os.chdir({folder!r})
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect("socket")
    socket.send_fds(connection, [told.encode()], [0, 1, 2])
"""


def serve(folder: Path) -> None:
    """Fork a client for every call of the command in a folder, until killed."""
    from flwr.supernode.cli import flwr_clientapp

    for name in ("client", "configuration", "flower"):  # what a message needs
        import_module(f"hotview.federated.{name}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    folder.mkdir()
    os.chdir(folder)  # as addresses of sockets are short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        listener.listen(64)
        command = Path("draft")
        command.write_text(COMMAND.format(python=sys.executable, folder=str(folder)))
        command.chmod(0o700)
        command.rename("flwr-clientapp")
        while True:
            connection, _ = listener.accept()
            told, files, *_ = socket.recv_fds(connection, 2**20, 3)
            while more := connection.recv(2**20):
                told += more
            connection.close()
            if os.fork() == 0:
                break
            for file in files:
                os.close(file)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.argv, here, environment = json.loads(told)
    os.chdir(here)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    flwr_clientapp()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
