"""Random generators of a fit, all from one seed."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

__all__ = ["Generators", "Randomness", "entropy_of", "keep_random", "member_states", "seeded"]

_MEMBERS = 3  # the spawn key of the other members, which is that of no stage

_lock = threading.RLock()  # of torch's global generators, which all threads share
if hasattr(os, "register_at_fork"):  # the thread that holds it does not exist in a forked process
    os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Generators:
    """The generators of one stage, on the CPU, so that all devices get the same numbers."""

    numpy: np.random.Generator
    torch: torch.Generator


class Randomness:
    """Random generators of one member, all from one `random_state`.

    Every stage of a fit has generators of its own, named by the stage, so that what one stage
    draws changes no number of another.

    Parameters
    ----------
    random_state : int, numpy Generator, numpy RandomState or None
        A seed, a generator from which one number is drawn, or None for fresh entropy.

    Examples
    --------
    >>> from hotview.estimators.randomness import Randomness
    >>> Randomness(0).seed == Randomness(0).seed
    True
    >>> first, again, other = (
    ...     Randomness(0).stage(name).numpy.random() for name in ("plan", "plan", "graphs")
    ... )
    >>> bool(first == again), bool(first == other)
    (True, False)
    """

    def __init__(self, random_state: Any) -> None:
        self._entropy = np.random.SeedSequence(entropy_of(random_state)).entropy
        self.seed = _integer(self._sequence("modules"))

    def stage(self, name: str) -> Generators:
        """New generators of a stage, the same in every call.

        Parameters
        ----------
        name : str
            What they are for, as in ``"graphs"``.
        """
        for_numpy, for_torch = self._sequence(name).spawn(2)
        generator = torch.Generator().manual_seed(_integer(for_torch))
        return Generators(np.random.default_rng(for_numpy), generator)

    def numpy(self, name: str) -> np.random.Generator:
        """The numpy generator of a stage."""
        return self.stage(name).numpy

    def _sequence(self, name: str) -> np.random.SeedSequence:
        # Keyed by the name, not by a number: a new stage does not change the others.
        return np.random.SeedSequence(self._entropy, spawn_key=tuple(name.encode()))

    @contextmanager
    def in_modules(self, device: torch.device) -> Iterator[None]:
        """Seed torch's global generators, which dropout uses, and restore them afterwards.

        One thread at a time: others wait.
        """
        on_gpu = device.type == "cuda"
        with _lock, torch.random.fork_rng([device] if on_gpu else []):
            # Not torch.manual_seed, which would change the generators of all other devices too.
            torch.default_generator.manual_seed(self.seed)
            if on_gpu:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(self.seed)
            yield


@contextmanager
def keep_random() -> Iterator[None]:
    """Restore the state of Python's `random`, from which rich draws when it is imported.

    Examples
    --------
    >>> import random
    >>> from hotview.estimators.randomness import keep_random
    >>> before = random.getstate()
    >>> with keep_random():
    ...     _ = random.random()
    >>> random.getstate() == before
    True
    """
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


def member_states(parameters: Mapping[str, Any]) -> list[Any]:
    """Random states of the ensemble members, the first of which is that of a single one.

    Parameters
    ----------
    parameters : dict of str to object
        The estimator's parameters, with `random_state` and `n_estimators`.

    Returns
    -------
    list
        The seed of every member.

    Examples
    --------
    >>> from hotview.estimators.randomness import member_states
    >>> states = member_states({"random_state": 5, "n_estimators": 3})
    >>> states[0], len(set(states))
    (5, 3)
    """
    n = parameters["n_estimators"]
    root = np.random.SeedSequence(entropy_of(parameters["random_state"]))
    others = np.random.SeedSequence(root.entropy, spawn_key=(_MEMBERS,)).spawn(n - 1)
    return [root.entropy, *(_integer(sequence) for sequence in others)]


def seeded(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with a number as `random_state`, so that a generator is drawn from once."""
    entropy = np.random.SeedSequence(entropy_of(parameters["random_state"])).entropy
    return {**parameters, "random_state": entropy}


def entropy_of(random_state: Any) -> int | None:
    """The seed of a random state; None for fresh entropy."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    is_number = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if is_number and random_state >= 0:
        return int(random_state)
    raise ValueError(
        "Expected random_state to be None, a whole number of at least 0 or a numpy Generator, "
        f"but it is {random_state!r}. Pass an int, as in random_state=0."
    )


def _integer(sequence: np.random.SeedSequence) -> int:
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))
