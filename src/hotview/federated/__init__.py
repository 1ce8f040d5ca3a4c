"""Views that may not leave the organizations that own them.

Each organization trains its own encoder at home. What crosses the wire are directions, references,
quantiles of projections, scores of linked individuals, gradients of these, and plans; never a row.
"""

from hotview.federated.messages import Carrier, Failure, InProcess
from hotview.federated.client_data import Holdings, hold
from hotview.federated.server import Coordinator
from hotview.federated.server_state import Joint
from hotview.federated.messages import Message
from hotview.federated.client import Organization
from hotview.federated.partial_models import join_parts
from hotview.federated.privacy import Privacy
from hotview.federated.settings import Settings

__all__ = [
    "Carrier",
    "Coordinator",
    "Failure",
    "Holdings",
    "InProcess",
    "Joint",
    "Message",
    "Organization",
    "Privacy",
    "Settings",
    "hold",
    "join_parts",
]
