"""Claims about the accuracy lost when a view is removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paper.cells import SETTINGS_NAMES, Cell
from paper.markdown import number
from paper.report.claims.contrasts import mean_by_trial
from paper.report.claims.robustness import ROBUST, spread_of
from paper.report.claims.verdicts import ADDS, Claim, Finding, is_the_papers
from paper.report.parts import SETTINGS_WORDS, written_difference
from paper.report.results import Entry, Outcome, Results, compare
from paper.report.view_removal import METHOD, PLAIN
from paper.rows import shared_rows

__all__ = ["LOSSES", "Loss", "equal_loss_claim", "loss_claim"]


@dataclass(frozen=True)
class Loss:
    """Views whose removal is claimed to hurt more than that of others.

    Parameters
    ----------
    dataset : str
        Where.
    title, quote : str
        The claim, and the paper's statement.
    missed, spared : tuple of str
        Views whose removal is claimed to hurt, and the others.

    Examples
    --------
    >>> from paper.report.claims.losses import LOSSES
    >>> [loss.missed for loss in LOSSES]
    [('mor',), ('HOG', 'LBP')]
    """

    dataset: str
    title: str
    quote: str
    missed: tuple[str, ...]
    spared: tuple[str, ...]


#: The paper's statements about table 4.
LOSSES = (
    Loss(
        "handwritten",
        "mor is missed more than the other views",
        "“MOR is a unique view belonging to the cluster 1, so removing it leads to serious "
        "degradation on the performance.”",
        ("mor",),
        ("pix", "fou", "fac", "zer", "kar"),
    ),
    Loss(
        "caltech7",
        "HOG and LBP are missed more than the other views",
        "Removing Gabor or CENTRIST (WM or GIST) “just degrades the classification accuracy "
        "slightly, while removing HOG or LBP does harm to the accuracy severely”.",
        ("HOG", "LBP"),
        ("Gabor", "CENTRIST", "WM", "GIST"),
    ),
)
_ALIKE = ("pix", "fac", "kar")
_METHODS = (*((METHOD, settings) for settings in SETTINGS_NAMES), (PLAIN, "-"))


def loss_claim(results: Results, loss: Loss) -> Claim:
    """Compare the loss without two kinds of views, also of a method without transport.

    Parameters
    ----------
    results : Results
        All results.
    loss : Loss
        What to compare.

    Returns
    -------
    Claim
        A finding per method and settings.

    Examples
    --------
    >>> from paper.report.claims.losses import LOSSES, loss_claim
    >>> from paper.report.results import Results
    >>> loss_claim(Results({}), LOSSES[0]).needs
    'table4 --dataset handwritten'
    """
    outcome = results.outcomes.get("table4")
    return Claim(
        loss.title,
        loss.quote,
        f"accuracy without one of {', '.join(loss.spared)} (mean) − accuracy without "
        f"{' or '.join(loss.missed)} (mean), percentage points; {PLAIN} beside it tells whether "
        "that is a property of the views or of the transport",
        ADDS.words,
        tuple(_lost(outcome, loss)) if outcome else (),
        f"table4 --dataset {loss.dataset}",
    )


def equal_loss_claim(results: Results) -> Claim:
    """Ask whether pix, fac and kar are missed alike.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Claim
        A finding per method and settings.

    Examples
    --------
    >>> from paper.report.claims.losses import equal_loss_claim
    >>> from paper.report.results import Results
    >>> equal_loss_claim(Results({})).title
    'pix, fac and kar are missed alike'
    """
    outcome = results.outcomes.get("table4")
    return Claim(
        "pix, fac and kar are missed alike",
        "“Removing one of them from the training views leads to similar classification accuracy.”",
        "largest − smallest of the three mean accuracies, beside the std over splits",
        "holds when the three means lie no further apart than one standard deviation over the "
        "splits (without pix); does not hold otherwise",
        tuple(_alike(outcome)) if outcome else (),
        "table4",
    )


def _lost(outcome: Outcome, loss: Loss) -> Iterator[Finding]:
    for method, settings in _METHODS:
        spared = _without(outcome, loss.dataset, method, settings, loss.spared)
        missed = _without(outcome, loss.dataset, method, settings, loss.missed)
        if spared and missed:
            more = compare(
                mean_by_trial(spared),
                mean_by_trial(missed),
                test_to_train=shared_rows(loss.dataset),
            )
            text, holds = written_difference(more), ADDS.decide(more)
            yield _finding(outcome, loss.dataset, method, settings, text, holds)


def _alike(outcome: Outcome) -> Iterator[Finding]:
    for method, settings in _METHODS:
        entries = _without(outcome, "handwritten", method, settings, _ALIKE)
        if entries:
            scores = [entry.score() for entry in entries]
            spread = spread_of(scores, scores[0])
            text = f"{number(spread.width)}; std {number(spread.std)}"
            holds = ROBUST.decide(spread)
            yield _finding(outcome, "handwritten", method, settings, text, holds)


def _without(
    outcome: Outcome, dataset: str, method: str, settings: str, views: Sequence[str]
) -> list[Entry]:
    """The entries without each of some views; none unless all are there."""
    cells = (Cell(dataset, "unsupervised", method, settings, without=view) for view in views)
    found = [entry for cell in cells if (entry := outcome.find(cell))]
    return found if len(found) == len(views) else []


def _finding(
    outcome: Outcome, dataset: str, method: str, settings: str, text: str, holds: bool | None
) -> Finding:
    how = method if settings == "-" else f"{method}, {SETTINGS_WORDS[settings]}"
    own = is_the_papers(dataset, outcome.datasets[dataset])
    return Finding(outcome.label(dataset), how, text, holds, own)
