"""Federated training: the views stay with the organizations that own them.

Each organization runs a `Client`, which trains the encoder of its own view. A `Server` couples the
encoders. Messages hold quantiles of projections, scores of linked rows, gradients of these,
reference clouds and plans, but no rows.
"""

from hotview.federated.client import Client
from hotview.federated.client_data import ClientData
from hotview.federated.messages import Channel, Failure, InProcessChannel, Message
from hotview.federated.partial_models import join_partial_models
from hotview.federated.privacy import Privacy
from hotview.federated.server import Server
from hotview.federated.settings import Settings
from hotview.federated.state import FederatedResult

__all__ = [
    "Channel",
    "Client",
    "ClientData",
    "Failure",
    "FederatedResult",
    "InProcessChannel",
    "Message",
    "Privacy",
    "Server",
    "Settings",
    "join_partial_models",
]
