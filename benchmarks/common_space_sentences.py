"""Sentences about the common space, from ``results/default/common_space.jsonl``."""

from __future__ import annotations

from common_space_tables import (
    DATASETS,
    OURS,
    RECORD,
    RIVALS,
    difference,
    mean,
    over_datasets,
    read,
    values,
)
from evidence import Evidence, listed, sentence


@sentence
def common_space_means(evidence: Evidence) -> str:
    """Whether hotview is ahead of every rival, in means over datasets."""
    lines, told = read(evidence.read(RECORD)), []
    for links in (10, 20, 50, 200):
        ours = over_datasets(lines, OURS, links, "foscttm")
        theirs = {m: over_datasets(lines, m, links, "foscttm") for m in RIVALS}
        best = min(theirs, key=lambda m: theirs[m] or 1.0)
        found = difference(lines, links, OURS, best, "foscttm")
        text = f"{found[0]:+.3f} [{found[1]:+.3f}, {found[2]:+.3f}]".replace("-", "−")
        evidence.note(f"{links} links, {OURS} and {best}", f"{ours:.3f}, {theirs[best]:.3f}")
        told.append(f"{text} with {links} links (beside {best})")
    return (
        "In mean FOSCTTM over datasets, hotview less the best of these four has "
        f"{listed(told)}; lower is better."
    )


@sentence
def common_space_datasets(evidence: Evidence) -> str:
    """On which datasets hotview is nearer, and on which a rival."""
    lines, told = read(evidence.read(RECORD)), []
    for links in (20, 50):
        nearer, farther = [], []
        for name in DATASETS:
            ours = mean(values(lines, OURS, links, name, "foscttm"))
            theirs = min(mean(values(lines, m, links, name, "foscttm")) for m in RIVALS)
            evidence.note(f"{name}, {links} links", f"{ours:.3f}, {theirs:.3f}")
            (nearer if ours < theirs else farther).append(name)
        told.append(
            f"with {links} links hotview has the lower mean on {listed(nearer)}, one of the four "
            f"on {listed(farther)}"
        )
    return f"{'; '.join(told)}"


@sentence
def common_space_transport(evidence: Evidence) -> str:
    """In how many rows transport adds something."""
    lines, told = read(evidence.read(RECORD)), []
    for method, name in ((OURS, "hot-reference"), ("hotview, pairwise", "sw-pairwise")):
        below = around = 0
        for links in (10, 20, 50, 200):
            found = difference(lines, links, method, "hotview, no transport", "foscttm")
            evidence.note(
                f"{name}, {links} links", f"{found[0]:+.4f} [{found[1]:+.4f}, {found[2]:+.4f}]"
            )
            below += found[2] < 0
            around += found[1] <= 0 <= found[2]
        told.append(f"`{name}`: of 4 intervals, {below} lie below 0 and {around} hold 0")
    return f"For FOSCTTM, {'; '.join(told)}."
