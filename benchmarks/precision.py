"""Steps in TF32 and bfloat16, with and without torch.compile, and what rounding does to accuracy.

    python benchmarks/precision.py [--device cuda] [--quick] [--no-compile] [--out FILE]

Steps are timed at two sizes, all contestants in turns, the best turn counts: the paper's
(Handwritten, 6 views of 6 to 240 columns, batches of 400, one hidden layer of 128) and a large one
(6 views of 512 columns, batches of 4,096, one hidden layer of 512). What a contestant needs before
its steps are fast, compilation or the recording of a CUDA graph, is told apart, as the seconds of
its first five steps. Compiled are the two passes that are rounded, encoders and decoders; it is
tried here only, the library does not offer it.

The floor: encoders and decoders have 3.3 million weights in the large size, every one of which
takes a product and a sum per row forward, and two of each backward (one in the first layers, whose
rows need no gradient): 68 · 10⁹ operations a step, against 0.4 · 10⁹ at the paper's size. With the
67 · 10¹² operations a second that an H200 does in float32 this takes 1.0 ms, and 0.006 ms at the
paper's size, where a step is bound by the number of its kernels, and rounding can gain nothing. In
TF32 and bfloat16 (495 and 990 · 10¹²) it takes 0.14 and 0.07 ms: what can be gained is 0.9 ms of a
step, and the rest, the transport above all, stays as it is. A CPU core of today does 0.1 to 0.2 ·
10¹² in float32, at least 0.35 s for the large step, and half of that in bfloat16 where it has
instructions for it (AVX-512 BF16, AMX).

Accuracy is that of test rows of Handwritten on ten splits of the paper's protocol, of the default
classifier and of the paper's training (HOT (11) with autoencoders), each beside float32 on the same
splits. Beside it stands float32 from other seeds: what chance alone changes.

A CPU knows no TF32, so that it is left out there. 10 minutes on two cores, most of it compilation;
3 minutes on a GPU; --quick takes half a minute: no compilation, no accuracy.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import RESULTS, best_times, wait_for, write_part
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview._threads import suited_threads
from hotview.datasets import load_handwritten, unalign
from hotview.estimators.base import fit_batched
from hotview.estimators.fit import Prepared, prepare
from hotview.estimators.networks import _schedule, make_trainer
from hotview.estimators.randomness import member_states, seeded
from hotview.model.parameters import pick_device
from hotview.nn.multiview import in_precision
from paper.estimators import constructor_parameters
from paper.models import PLAIN, SETTINGS
from paper.statistics import paired_difference

PAPER, LARGE = "paper size", "large"
#: rounds and steps of a round, by device
TURNS = {"cpu": {PAPER: (8, 20), LARGE: (4, 1)}, "cuda": {PAPER: (5, 40), LARGE: (5, 30)}}
FIRST = 5  # steps after which a graph is recorded
EPOCHS = 150  # at most, so that all batches can be drawn ahead
N_SPLITS = 10
BASE, OTHER_SEED = "float32", "float32, other seeds"
TRAININGS: dict[str, dict[str, Any]] = {
    "paper": {
        **constructor_parameters(
            {
                "coupling": "hot-reference",
                "view_regularizer": "autoencoder",
                **PLAIN,
                **SETTINGS,
            }
        ),
        "head_weight": 0.0,
    },
    "default": {},
}

Progressing = Callable[[str], None]


def precisions(device: str) -> tuple[str, ...]:
    return ("float32", "bfloat16") if device == "cpu" else ("float32", "tf32", "bfloat16")


def prepared(model: Any, *views: Any, **more: Any) -> Prepared:
    """A fit before its networks are trained."""
    p = seeded(model._parameters())
    return prepare(model._data(p, *views, **more), p, member_states(p), 0.0)


def paper_size(device: str, precision: str) -> Prepared:
    digits = load_handwritten()
    data = unalign(digits.views, digits.target, random_state=0)
    parameters = {**TRAININGS["paper"], "max_epochs": EPOCHS, "precision": precision}
    model = MultiViewClassifier(**parameters, random_state=0, device=device)
    return prepared(model, data.linked, data.target, unaligned=data.unaligned)


def large_size(device: str, precision: str) -> Prepared:
    random = np.random.default_rng(0)
    views = [random.standard_normal((8192, 512), dtype=np.float32) for _ in range(6)]
    model = MultiViewEncoder(
        hidden=(512,),
        batch_size=4096,
        initialization="random",
        max_epochs=EPOCHS,
        precision=precision,
        random_state=0,
        device=device,
    )
    return prepared(model, views)


SIZES = {PAPER: paper_size, LARGE: large_size}


class Contestant:
    """A training that takes steps as a fit would, its passes compiled or not."""

    def __init__(self, size: str, device: str, precision: str, compiled: bool) -> None:
        fit = SIZES[size](device, precision)
        training, p = fit.members[0].training, fit.p
        schedule = _schedule(training.sampler, fit.data.names, p)
        self.trainer = make_trainer([training], p, schedule)
        self.device, self.batch_size = pick_device(p["device"]), training.sampler.batch_size
        self.legacy = compiled and precision == "tf32"
        network: Any = self.trainer.network
        network.train()
        if compiled:
            network.encode = compile_pass(network.encoders)
            network.reconstruct = compile_pass(network.decoders)
            self.trainer.rounded_network = in_precision(network, precision)

    def step(self, n: int = 1) -> None:
        """Take some steps."""
        with suited_threads(self.trainer.network, self.batch_size, self.device), known(self.legacy):
            for _ in range(n):
                self.trainer.step()

    def n_operations(self) -> int:
        """Products and sums of encoders and decoders in a step."""
        network = self.trainer.network
        once = [2 * p.numel() for m in (network.encoders, network.decoders) for p in m.parameters()]
        first = [2 * next(iter(encoder.parameters())).numel() for encoder in network.encoders]
        return self.batch_size * (3 * sum(once) - sum(first))


def compile_pass(modules: Any) -> Any:
    """A pass over all views as one function, without what the library does about streams."""

    def run(Xs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [module(X) for module, X in zip(modules, Xs, strict=True)]

    return torch.compile(run, dynamic=False)


@contextmanager
def known(legacy: bool) -> Iterator[None]:
    """Let torch's compiler find TF32 allowed for the program: it looks at the old setting only."""
    if legacy:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        if legacy:
            torch.set_float32_matmul_precision("highest")


def measure_steps(size: str, device: str, *, quick: bool, compiles: bool, tell: Progressing) -> Any:
    torch.compiler.reset()  # torch compiles a function for a few shapes, and then no more
    contestants: dict[str, Contestant] = {}
    found: dict[str, dict[str, Any]] = {}
    for compiled in (False, True) if compiles else (False,):
        for precision in precisions(device):
            name = f"{precision}, compiled" if compiled else precision
            tell(f"{size}: {name}")
            start = time.perf_counter()
            try:
                one = Contestant(size, device, precision, compiled)
                start = time.perf_counter()
                one.step(FIRST)
                wait_for(device)
            except Exception as error:  # no compiler, or one that fails
                found[name] = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
                continue
            contestants[name] = one
            found[name] = {"first_seconds": time.perf_counter() - start}
    tell(f"{size}: steps in turns")
    rounds, burst = TURNS[device][size]
    work = {name: partial(one.step, burst) for name, one in contestants.items()}
    best = best_times(work, max(2, rounds // 2) if quick else rounds, device=device)
    for name, one in contestants.items():
        seconds = best[name] / burst
        found[name] |= {
            "step_seconds": seconds,
            "tera_operations_per_second": one.n_operations() / seconds / 1e12,
        }
    return found


def predict(training: str, device: str, precision: str, first_seed: int) -> tuple[Any, Any]:
    """Test accuracy and predictions on every split."""
    digits = load_handwritten()
    splits = [unalign(digits.views, digits.target, random_state=t) for t in range(N_SPLITS)]
    parameters = {**TRAININGS[training], "precision": precision, "device": device}
    models = [
        MultiViewClassifier(**parameters, random_state=first_seed + t) for t in range(N_SPLITS)
    ]
    fit_batched(
        [
            (model, {"Xs": data.linked, "y": data.target, "unaligned": data.unaligned})
            for model, data in zip(models, splits, strict=True)
        ],
        view_tests=False,
    )
    predicted = [model.predict(data.test) for model, data in zip(models, splits, strict=True)]
    right = [float(np.mean(y == d.test_target)) for y, d in zip(predicted, splits, strict=True)]
    return right, np.stack(predicted)


def measure_accuracy(training: str, device: str, tell: Progressing) -> Any:
    runs = {name: (name, 0) for name in precisions(device)} | {OTHER_SEED: (BASE, 1000)}
    scores, predicted = {}, {}
    for name, (precision, seed) in runs.items():
        tell(f"{training} training, {N_SPLITS} splits: {name}")
        scores[name], predicted[name] = predict(training, device, precision, seed)
    return {
        name: {
            "accuracy": float(np.mean(scores[name])),
            "difference": asdict(paired_difference(scores[name], scores[BASE])),
            "same_predictions": float(np.mean(predicted[name] == predicted[BASE])),
            "accuracy_by_split": scores[name],
        }
        for name in runs
    }


def steps_table(size: str, found: dict[str, Any]) -> Table:
    table = Table(title=f"A step, {size}")
    for column in ("", "milliseconds", "times faster", "10¹² operations/s", "first 5 steps, s"):
        table.add_column(column, justify="left" if not column else "right")
    for name, told in found.items():
        if "failed" in told:
            table.add_row(name, told["failed"][:60])
            continue
        table.add_row(
            name,
            f"{1e3 * told['step_seconds']:.3f}",
            f"{found[BASE]['step_seconds'] / told['step_seconds']:.2f}",
            f"{told['tera_operations_per_second']:.3f}",
            f"{told['first_seconds']:.2f}",
        )
    return table


def accuracy_table(training: str, found: dict[str, Any]) -> Table:
    table = Table(title=f"Test accuracy on Handwritten, {training} training, {N_SPLITS} splits")
    for column in ("", "accuracy", "minus float32, 95 % interval", "same predictions"):
        table.add_column(column, justify="left" if not column else "right")
    for name, told in found.items():
        gap = told["difference"]
        table.add_row(
            name,
            f"{told['accuracy']:.4f}",
            f"{gap['mean']:+.4f} ({gap['low']:+.4f}, {gap['high']:+.4f})",
            f"{told['same_predictions']:.4f}",
        )
    return table


def ratios_of(steps: dict[str, Any]) -> dict[str, float]:
    return {
        f"{size}: {name}": found[BASE]["step_seconds"] / told["step_seconds"]
        for size, found in steps.items()
        for name, told in found.items()
        if name != BASE and "failed" not in told
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "precision.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the plan does not converge in the paper's 20 iterations
    device, quick = options.device, options.quick
    compiles = not (quick or options.no_compile)
    with Progress(transient=True) as progress:
        bar = progress.add_task("", total=None)

        def tell(what: str) -> None:
            progress.update(bar, description=what)

        if device == "cuda":
            Contestant(PAPER, device, BASE, False).step(FIRST)  # CUDA takes seconds to begin
        steps = {
            size: measure_steps(size, device, quick=quick, compiles=compiles, tell=tell)
            for size in SIZES
        }
        accuracy: dict[str, Any] = {}
        write(options.out, device, steps, accuracy)
        for name in () if quick else TRAININGS:  # what is known is written, should the next fail
            accuracy[name] = measure_accuracy(name, device, tell)
            write(options.out, device, steps, accuracy)
    for size, found in steps.items():
        Console().print(steps_table(size, found))
    for training, found in accuracy.items():
        Console().print(accuracy_table(training, found))


def write(out: Path, device: str, steps: dict[str, Any], accuracy: dict[str, Any]) -> None:
    write_part(
        out,
        device,
        ratios=ratios_of(steps),
        targets={f"{LARGE}: {name}": 1.0 for name in precisions(device)[1:]},
        what="seconds of a step in float32 over those of the contestant",
        steps=steps,
        accuracy=accuracy,
        splits=N_SPLITS,
    )


if __name__ == "__main__":
    main()
