"""The client of an app whose organizations fail in rounds that a file beside them names."""

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from hotview.federated import Message
from hotview.federated.configuration import open_client
from hotview.federated.flower import make_client_app


class Garbage(Message):
    """A message that none can read."""

    def to_bytes(self) -> bytes:
        return b"\x80\x04garbage"


class Faulty:
    """An organization that does as it should, and then something is wrong with its answer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults = json.loads((path.parent / "faults.json").read_text())

    def handle(self, message: Message) -> Message:
        kept = self.path.with_suffix(".last")
        answer = open_client(self.path).handle(message)
        last = kept.read_bytes() if kept.is_file() else b""
        kept.write_bytes(answer.to_bytes())
        fault = self.faults.get(f"{self.path.stem} {message.metadata.get('round')}")
        if fault == "older":
            return Message.from_bytes(last)
        return getattr(self, fault)(answer) if fault else answer

    def nan(self, answer: Message) -> Message:
        return replace(answer, arrays={k: x * np.nan for k, x in answer.arrays.items()})

    def shape(self, answer: Message) -> Message:
        return replace(answer, arrays={k: x[:-1] for k, x in answer.arrays.items()})

    def garbage(self, answer: Message) -> Message:
        return Garbage("round")

    def error(self, answer: Message) -> Message:
        raise ValueError("Ann Smith is not a number")

    def killed(self, answer: Message) -> Message:
        os.kill(os.getpid(), signal.SIGKILL)
        return answer

    def late(self, answer: Message) -> Message:
        time.sleep(self.faults["seconds"])
        return answer


app = make_client_app(Faulty)
