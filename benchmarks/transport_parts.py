"""What transport and refinement add to the default in a view without labels.

    python benchmarks/transport_parts.py --data PATH [--jobs 2] [--trials 12]

The cases and splits of ``unlabeled_view.py``. `default` transports class scores between anchor
profiles and refines them on the target's graph; `no transport` puts equal scores in the place of
the transported ones, which are refined as before; `no refinement` takes the transported ones as
they are; `neither` takes what linked rows alone say, propagated and by ridge regression. All else,
networks and super learner included, is the same. Every line of
``results/default/transport_parts.jsonl`` is one split.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from joblib import Parallel, delayed
from unlabeled_view import CASES, draw  # sets the number of threads, before numpy

from hotview import MultiViewClassifier
from hotview._files import atomic_write
from hotview.semisupervised import label_transfer, pseudo_labels

OUT = Path(__file__).parent.parent / "results" / "default" / "transport_parts.jsonl"


def _equal_scores(P: Any, scores: Any, Q: Any, random: np.random.Generator) -> Any:
    return np.full((len(Q), scores.shape[1]), 1 / scores.shape[1])


def _unrefined(target: Any, moved: Any, *others: Any) -> Any:
    return moved


#: what is replaced, by variant
VARIANTS: dict[str, tuple[Any, str, Any] | None] = {
    "default": None,
    "no transport": (label_transfer, "_transport", _equal_scores),
    "no refinement": (label_transfer, "_refine", _unrefined),
    "neither": (pseudo_labels, "_TRANSPORT", (0.0, 0.0)),
}


@contextmanager
def variant(name: str) -> Iterator[None]:
    """The default without one of its parts."""
    change = VARIANTS[name]
    if change is None:
        yield
        return
    with patch.object(*change):
        yield


def run(name: str, having: tuple[str, ...], B: str, n: int, trial: int, data: Any) -> dict:
    """All variants on one split."""
    warnings.simplefilter("ignore")
    case = draw(name, having, B, n, trial, data)
    found = {"dataset": name, "from": "+".join(having), "to": B, "linked": n, "trial": trial}
    for method in VARIANTS:
        with variant(method):
            model = MultiViewClassifier(random_state=trial, device="cpu", verbose=False).fit(
                **case.arguments()
            )
        found[method] = round(float((model.predict(case.test) == case.truth).mean()), 6)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    cases = [case for case in CASES if given.data or case[0] == "handwritten"]
    todo = [(*case[:3], n, t) for t in range(given.trials) for case in cases for n in case[3]]
    work: Callable[..., Any] = delayed(run)
    lines = Parallel(given.jobs, verbose=1)(work(*job, given.data) for job in todo)
    lines.sort(key=lambda line: [str(line[key]) for key in ("dataset", "from", "to")])
    with atomic_write(given.out) as draft:
        draft.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for method in VARIANTS:
        print(f"{method}: {100 * np.mean([line[method] for line in lines]):.1f}")


if __name__ == "__main__":
    main()
