"""Three small organizations, and everything that crosses between them and the center."""

from functools import cache
from pathlib import Path

import numpy as np

from hotview.datasets import make_views
from hotview.federated import Client, ClientData, InProcessChannel, Message, Server, Settings
from hotview.federated.coupling import shared_directions
from hotview.federated.schema import Session

NAMES = ("clinical", "genetic", "imaging")
HOLDER = "genetic"
CLASSES = ["healthy", "ill", "unsure"]
N_ROWS, N_LINKED = 40, 20
BOTH = ("features", "labels")  # that may be shared, if the settings say so


def settings(**more):
    usual = {"rounds": 3, "local_steps": 2, "quantiles": 8, "n_components": 3, "encoder_dim": 4}
    usual |= {"hidden": (6,), "n_references": 2, "n_projections": 4, "batch_size": 16}
    return Settings(**{**usual, "label_holder": HOLDER, "linked_batch": 10, **more})


def session_of(given=None, classes=(), n_linked=N_LINKED, id="id"):
    return Session(id, given or settings(), list(NAMES), list(classes), n_linked)


def directions(seed, round, step, n, d, kind="orthogonal"):
    """Shared directions, by the settings that they depend on."""
    given = Settings(random_state=seed, n_projections=n, n_components=d, projections=kind)
    return shared_directions(given, round, step)


@cache
def _views():
    return make_views(
        N_ROWS, n_views=3, n_columns=[5, 6, 4], n_classes=3, labeled=1.0, random_state=1
    )


def client_data():
    """Views whose rows come in another order everywhere; one organization has labels."""
    data, found = _views(), {}
    for s, (name, X) in enumerate(zip(NAMES, data.linked.values(), strict=True)):
        order = np.random.default_rng(s).permutation(N_ROWS)
        labels = [CLASSES[k] for k in data.linked_target[order]] if name == HOLDER else None
        found[name] = ClientData.from_table(
            name,
            X[order],
            ids=[f"patient-{i}" for i in order],
            linked_ids=[f"patient-{i}" for i in range(N_LINKED)],
            labels=labels,
        )
    return found


def organizations(folder, own=None, **more):
    own = client_data() if own is None else own
    return {
        name: Client(
            own[name], Path(folder) / name, device="cpu", **{"shares": BOTH, **more.get(name, {})}
        )
        for name in own
    }


class Recorder(InProcessChannel):
    """Keeps the bytes of all messages and answers, in the order in which they crossed."""

    def __init__(self, clients):
        super().__init__(clients)
        self.crossed = []  # (organization, message, answer), as bytes

    def exchange(self, messages, timeout):
        answers = super().exchange(messages, timeout)
        for name, message in messages.items():
            assert isinstance(answers[name], Message), answers[name]
            self.crossed.append((name, message.to_bytes(), answers[name].to_bytes()))
        return answers

    def to(self, name):
        """What an organization was told, and what it answered."""
        return [
            (Message.from_bytes(message), answer)
            for to, message, answer in self.crossed
            if to == name
        ]


def train(clients, given):
    channel = Recorder(clients)
    return Server(channel, given).run(), channel
