"""What scores on left-out labels say, in sentences: which views help, and which do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hotview.semisupervised.out_of_fold import ALL_VIEWS, MIN_ROWS, is_no_better

__all__ = ["describe_contributions"]

_MARGIN = 0.02  # of what all views tell about the classes: a view that adds less could be left out


def describe_contributions(scores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say which views to keep, and which could be left out, by the loss without them.

    Parameters
    ----------
    scores : dict of str to dict
        From `score_out_of_fold`.

    Returns
    -------
    list of str
        Sentences. A view should be kept if the log loss rises without it: the 95 % interval is
        above 0. It could be left out if the interval is below 2 % of what all views tell about the
        classes, the difference between the log losses of the prior and of all views.
    """
    changes = {name: x["loss_without"] for name, x in scores.items() if x.get("loss_without")}
    if len(changes) < 2 or ALL_VIEWS not in scores:
        return []
    known = scores[ALL_VIEWS]["prior_log_loss"] - scores[ALL_VIEWS]["log_loss"]
    if known <= 0:  # a warning says so
        return []
    told = {name: x for name, x in changes.items() if x["n"] >= MIN_ROWS}
    keep = {name: x for name, x in told.items() if x["low"] > 0}
    spare = {name: x for name, x in told.items() if x["low"] <= 0 and x["high"] < _MARGIN * known}
    noise = {name: x for name, x in spare.items() if is_no_better(scores[name])}
    spare = {name: x for name, x in spare.items() if name not in noise}
    lines = [*_keep_lines(keep), *_spare_lines(spare, known), *map(_noise_line, noise.items())]
    n = max(x["n"] for x in changes.values())
    return lines or [f"{n} left-out labels are too few to say which views could be left out."]


def _keep_lines(changes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if changes:
        which = "it" if len(changes) == 1 else "one of them"
        yield (
            f"Keep {_names(changes, 'and')}: without {which}, the log loss on "
            f"{_n_labels(changes)} left-out labels rises{_changes(changes)}."
        )


def _spare_lines(changes: Mapping[str, Mapping[str, Any]], known: float) -> Iterator[str]:
    if changes:
        several = "" if len(changes) == 1 else ", one of them and not several"
        most = max(0.0, *(x["high"] for x in changes.values()))
        change = f"changes{_changes(changes)}, at most" if len(changes) == 1 else "rises by at most"
        yield (
            f"You could leave out {_names(changes, 'or')}{several}: without it, the log loss on "
            f"{_n_labels(changes)} left-out labels {change} {most:.3f} (upper end of the 95 % "
            f"interval), less than {100 * _MARGIN:.0f} % of what all views tell about the classes "
            f"({_MARGIN * known:.3f})."
        )


def _noise_line(change: tuple[str, Mapping[str, Any]]) -> str:
    name, x = change
    return (
        f"{name!r} looks like noise for these classes: alone it is not measurably better than the "
        f"shares of the classes, and without it the log loss on {x['n']} left-out labels "
        f"changes{_changes({name: x})}."
    )


def _names(changes: Mapping[str, object], word: str) -> str:
    """Names of views, those whose absence costs most first."""
    *most, last = map(repr, _ordered(changes))
    return f"{', '.join(most)} {word} {last}" if most else last


def _ordered(changes: Mapping[str, Any]) -> list[str]:
    return sorted(changes, key=lambda name: -changes[name]["increase"])


def _n_labels(changes: Mapping[str, Mapping[str, Any]]) -> str:
    """Numbers of rows that have a view and another."""
    low, *_, high = sorted([x["n"] for x in changes.values()] * 2)
    return f"{high}" if low == high else f"{low} to {high}"


def _changes(changes: Mapping[str, Mapping[str, Any]]) -> str:
    """Changes of the log loss with their intervals, the largest first."""
    texts: list[str] = []
    for name in _ordered(changes):
        x, of = changes[name], f" without {name!r}" if len(changes) > 1 else ""
        mean, low, high = (f"{x[key]:.3f}".replace("-", "−") for key in ("increase", "low", "high"))
        interval = "" if texts else "95 % interval "
        texts.append(f" by {mean}{of} ({interval}{low} to {high})")
    return ",".join(texts)
