"""Callbacks that log every epoch to TensorBoard or MLflow."""

from __future__ import annotations

import os
import re
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol, Self

from hotview.training.loop import Epoch

__all__ = ["MLflowLogger", "TensorBoardLogger"]


class _Run(Protocol):
    """The log of one ensemble member of one fit."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of an epoch."""

    def end(self) -> None:
        """Close the run."""


class _Logger(ABC):
    """Assign epochs to runs, one per fit and ensemble member; subclasses write the runs."""

    def __init__(self) -> None:
        self._start()

    def __call__(self, epoch: Epoch) -> None:
        """Log an epoch.

        Parameters
        ----------
        epoch : Epoch
            The argument of callbacks.
        """
        if epoch.number <= self._last.get(epoch.member, 0):  # of another fit
            self.close()
        if epoch.member not in self._runs:
            self._runs[epoch.member] = self._begin(epoch.member, is_first=not self._runs)
        self._last[epoch.member] = epoch.number
        values = {name: value for name, value in epoch.row.items() if name != "epoch"}
        self._runs[epoch.member].write(epoch.number, values)

    def close(self) -> None:
        """End the open runs. The next epoch begins new ones."""
        self._last.clear()
        _end_all(self._runs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __sklearn_clone__(self) -> Self:
        return self  # all fits of a search share one logger

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._start()  # open runs cannot be copied

    def _start(self) -> None:
        self._runs: dict[int, _Run] = {}
        self._last: dict[int, int] = {}
        weakref.finalize(self, _end_all, self._runs)  # at the latest when Python ends

    @abstractmethod
    def _begin(self, member: int, *, is_first: bool) -> _Run:
        """Begin a run of one ensemble member, the first of a fit or another one."""


def _end_all(runs: dict[int, _Run]) -> None:
    while runs:
        runs.popitem()[1].end()


class TensorBoardLogger(_Logger):
    """Write every epoch to event files, for ``tensorboard --logdir folder``.

    Every fit gets a folder, ``run_1``, ``run_2``, …, and in it every member its own,
    ``member_0``, …; no run is written to twice. Values have the same names as in `history_`. In a
    ``with`` statement, the files are closed at its end; each epoch can be read as soon as it is
    over. Needs ``hotview[tracking]``.

    Parameters
    ----------
    folder : str or Path
        Folder of the runs; it is created if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.tracking import TensorBoardLogger
    >>> views = make_views(100, n_views=3, random_state=0).views
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with TensorBoardLogger(folder) as logger:
    ...         encoder = MultiViewEncoder(max_epochs=2, callbacks=[logger]).fit(views)
    ...     [path.parent.name for path in Path(folder).glob("run_1/*/events.out.*")]
    ['member_0']
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.folder = folder

    def _begin(self, member: int, *, is_first: bool) -> _Run:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise _missing("TensorBoardLogger", "TensorBoard") from error
        if is_first:
            folders = (Path(self.folder) / f"run_{number}" for number in count(1))
            self._run_folder = next(folder for folder in folders if _is_made(folder))
        return _TensorBoardRun(SummaryWriter(str(self._run_folder / f"member_{member}")))


@dataclass(frozen=True)
class _TensorBoardRun:
    """A folder with an event file."""

    writer: Any

    def write(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def end(self) -> None:
        self.writer.close()


class MLflowLogger(_Logger):
    """Write every epoch to MLflow.

    Every ensemble member of every fit is a run; the tag ``hotview.member`` has its number, and
    runs of one fit have the same ``hotview.fit``. Values have the same names as in `history_`;
    characters that MLflow does not allow become underscores. In a ``with`` statement, the runs are
    finished at its end. Needs ``hotview[tracking]``.

    MLflow's telemetry is switched off unless the environment variable
    ``MLFLOW_DISABLE_TELEMETRY`` is set otherwise.

    Parameters
    ----------
    experiment : str, default="hotview"
        Experiment of the runs; it is created if it does not exist.
    tracking_uri : str or None, default=None
        Store of the runs, such as ``"sqlite:///runs.db"`` (which needs ``sqlalchemy`` and
        ``alembic``) or the address of a server; None takes MLflow's own settings.
    run_name : str or None, default=None
        Name of the runs; None takes names generated by MLflow.
    tags : dict of str to str, or None, default=None
        More tags of every run.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.tracking import MLflowLogger
    >>> logger = MLflowLogger("digits", tracking_uri="sqlite:///runs.db")
    >>> encoder = MultiViewEncoder(callbacks=[logger])
    """

    def __init__(
        self,
        experiment: str = "hotview",
        *,
        tracking_uri: str | None = None,
        run_name: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.experiment = experiment
        self.tracking_uri = tracking_uri
        self.run_name = run_name
        self.tags = tags

    def _begin(self, member: int, *, is_first: bool) -> _Run:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when it is imported
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise _missing("MLflowLogger", "MLflow") from error
        client = MlflowClient(tracking_uri=self.tracking_uri)
        if is_first:
            self._fit = f"{time.time_ns():x}"
        tags = {**(self.tags or {}), "hotview.fit": self._fit, "hotview.member": str(member)}
        known = client.get_experiment_by_name(self.experiment)
        experiment_id = known.experiment_id if known else client.create_experiment(self.experiment)
        run = client.create_run(experiment_id, run_name=self.run_name, tags=tags)
        return _MLflowRun(client, run.info.run_id)


@dataclass(frozen=True)
class _MLflowRun:
    """A run in MLflow's store."""

    client: Any
    run_id: str

    def write(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = time.time_ns() // 10**6
        keys = {
            # Characters that MLflow does not allow in a name become their code.
            name: re.sub(r"[^\w.\- :/]", lambda c: f"_{ord(c[0]):x}_", name, flags=re.ASCII)
            for name in values
        }
        metrics = [Metric(keys[name], value, now, step) for name, value in values.items()]
        self.client.log_batch(self.run_id, metrics=metrics)

    def end(self) -> None:
        self.client.set_terminated(self.run_id)


def _is_made(folder: Path) -> bool:
    """Create a folder; return False if it exists."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def _missing(logger: str, package: str) -> ImportError:
    return ImportError(f'{logger} needs {package}: pip install "hotview[tracking]"')
