"""What most fits of these tests have in common."""

import pytest

from hotview import MultiViewClassifier, MultiViewEncoder

#: A network that is trained in a moment
SMALL = {
    "hidden": (8,),
    "encoder_dim": 4,
    "n_components": 3,
    "max_epochs": 2,
    "n_estimators": 1,
    "device": "cpu",
    "random_state": 0,
}
UNCOUPLED = {**SMALL, "coupling": "none"}
KINDS = (MultiViewEncoder, MultiViewClassifier)
BOTH = pytest.mark.parametrize("kind", KINDS)
# Networks this small do collapse; test_diagnostics.py tests the warnings about it.
may_collapse = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")
not_comparable = pytest.mark.filterwarnings("ignore:Rows of different views may not:UserWarning")
