"""Sentences about the paper, run again, from ``results/paper``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import product
from statistics import mean

import numpy as np
from evidence import (
    LABELS,
    RESULTS,
    SIMPLE,
    VERDICT,
    Evidence,
    control,
    count,
    count_sides,
    intervals,
    listed,
    sentence,
    side,
    signed,
    trend,
    written,
)

from paper.plans import row_entropy
from paper.published import PUBLISHED, REMOVED
from paper.report.claims.listing import list_claims
from paper.report.claims.verdicts import VERDICTS, Claim
from paper.report.load_results import read_results
from paper.report.synthetic import share_in_group
from paper.statistics import Difference

REAL = ("handwritten", "caltech7", "caltech20")
SEMI, UNSUPERVISED = "semi-supervised", "unsupervised"
TABLES = {SEMI: "table2", UNSUPERVISED: "table3"}
SETTINGS = {"paper": "the paper's settings", "robust": "our settings"}
#: weights of Handwritten, with 60 labeled rows, that a mean of L amounts to
AVERAGED = {"coupling__weight": 6.0, "view_regularizer__weight": 0.6}
PAIRS = ("LSCCA", "AECCA", "SW (8)", "HOT (10)", "SW (8) + AE", "HOT (10) + AE")
REFERENCES = ("SW (9)", "HOT (11)", "SW (9) + AE", "HOT (11) + AE")
HOT_AND_SW = {
    f"HOT ({h}){ae}": f"SW ({s}){ae}" for h, s in ((10, 8), (11, 9)) for ae in ("", " + AE")
}


def _distance(evidence: Evidence, method: str, task: str, kind: str) -> tuple[float, float]:
    """Our mean less the paper's on Handwritten, and the paper's standard deviation."""
    ours = evidence.scores(TABLES[task], "handwritten", method, "paper", task, kind)
    figure = PUBLISHED[task]["handwritten"][method]
    evidence.note(f"the paper, {task}, {method}", f"{figure.mean:.2f} ± {figure.std:.2f}")
    return mean(ours) - figure.mean, figure.std


def _near(evidence: Evidence, task: str, kind: str = "test") -> dict[str, list[str]]:
    """Rows within, above and below one standard deviation of the paper's mean."""
    found: dict[str, list[str]] = {"within": [], "above": [], "below": []}
    for method in PUBLISHED[task]["handwritten"]:
        gap, std = _distance(evidence, method, task, kind)
        found["within" if abs(gap) <= std else "above" if gap > 0 else "below"].append(method)
    return found


def _near_words(found: dict[str, list[str]], *, names: bool = True) -> str:
    n = sum(map(len, found.values()))
    rest = [
        f"{len(found[s])} further {s}" + f" ({listed(found[s])})" * names
        for s in ("above", "below")
        if found[s]
    ]
    return (
        listed([f"{count(len(found['within']), n)}", *rest])
        if rest
        else (count(len(found["within"]), n))
    )


@sentence
def paper_matched(evidence: Evidence) -> str:
    """The README's sentence on the paper's rows."""
    semi, un = _near(evidence, SEMI), _near(evidence, UNSUPERVISED)
    ours = evidence.scores("table3", "handwritten", "HOT (11)", "paper", UNSUPERVISED)
    theirs = PUBLISHED[UNSUPERVISED]["handwritten"]["HOT (11)"]
    gap = mean(ours) - theirs.mean
    verdict = "within" if abs(gap) <= theirs.std else "more than"
    return (
        "Of the paper's rows on Handwritten, within one standard deviation of its mean are "
        f"{_near_words(semi, names=False)} semi-supervised ones and, of the unsupervised ones, "
        f"{_near_words(un, names=False)}; unsupervised HOT (11) gets {mean(ours):.1f} where "
        f"the paper "
        f"reports {theirs.mean:.1f} ± {theirs.std:.1f}, {verdict} one standard deviation away."
    )


@sentence
def matched_semi(evidence: Evidence) -> str:
    """Rows near the paper's, semi-supervised."""
    near = _near(evidence, SEMI)
    told = []
    for method in ("HOT (11) + AE", "HOT (10)"):
        ours = mean(evidence.scores("table2", "handwritten", method, "paper", SEMI))
        figure = PUBLISHED[SEMI]["handwritten"][method]
        told.append(f"{method} has {ours:.1f} (paper: {figure.mean:.2f} ± {figure.std:.2f})")
    return (
        "Within one standard deviation of the paper's mean, on either side, are "
        f"{_near_words(near)}. {listed(told)}."
    )


@sentence
def matched_unsupervised(evidence: Evidence) -> str:
    """Rows near the paper's, unsupervised, by the classifier on top."""
    kinds = {
        "test": "on features as they come",
        "standardized": "on standardized features",
        "unpenalized": "on these with next to no penalty on the weights",
    }
    counts = [f"{_near_words(_near(evidence, UNSUPERVISED, k))} {w}" for k, w in kinds.items()]
    all_near = [
        w for k, w in kinds.items() if len(_near(evidence, UNSUPERVISED, k)["within"]) == 11
    ]
    end = (
        f"All rows are there {listed(all_near)}." if all_near else "No classifier brings all there."
    )
    return (
        "Within one standard deviation of the paper's mean, on either side, are "
        f"{'; '.join(counts)}. {end}"
    )


@sentence
def unsupervised_classifiers(evidence: Evidence) -> str:
    """HOT (11) and SW (9) by classifier, beside the paper's."""
    told = []
    for method in ("HOT (11)", "SW (9)"):
        means = [
            mean(evidence.scores("table3", "handwritten", method, "paper", UNSUPERVISED, kind))
            for kind in ("test", "standardized", "unpenalized", "labels_20")
        ]
        figure = PUBLISHED[UNSUPERVISED]["handwritten"][method]
        plain, even, free, more = (f"{x:.1f}" for x in means)
        told.append(
            f"{method}, for which the paper reports {figure.mean:.2f} ± {figure.std:.2f}, has "
            f"{plain} "
            f"with logistic regression on features as they come, {even} on standardized features, "
            f"{free} with next to no penalty, as of a softmax layer, and {more} with four times as "
            "many labels"
        )
    return f"{'; '.join(told)}."


@sentence
def dgcca_difference(evidence: Evidence) -> str:
    """DGCCA far above the paper's."""
    gap, std = _distance(evidence, "DGCCA", UNSUPERVISED, "test")
    figure = PUBLISHED[UNSUPERVISED]["handwritten"]["DGCCA"]
    ours = figure.mean + gap
    if abs(gap) <= std:
        return f"DGCCA has {ours:.1f} where the paper reports {figure.mean:.1f} ± {std:.1f}."
    return (
        f"DGCCA has {ours:.1f} where the paper reports {figure.mean:.1f} ± {std:.1f}: "
        f"{abs(gap) / std:.1f} standard deviations, not a match but a difference that remains "
        f"to be "
        "explained."
    )


def _references_over_pairs(evidence: Evidence, kind: str) -> Difference:
    where = ("table3", "handwritten")
    sums = [
        np.mean([evidence.scores(*where, m, "paper", UNSUPERVISED, kind) for m in methods], axis=0)
        for methods in (("SW (9)", "HOT (11)"), ("SW (8)", "HOT (10)"))
    ]
    return evidence.compare(f"references − pairs, {kind}", *(list(map(float, x)) for x in sums))


@sentence
def references_over_pairs(evidence: Evidence) -> str:
    """The paper's gap between references and pairs."""
    of = PUBLISHED[UNSUPERVISED]["handwritten"]
    theirs = (of["SW (9)"].mean + of["HOT (11)"].mean - of["SW (8)"].mean - of["HOT (10)"].mean) / 2
    evidence.note("the paper, references − pairs", f"{theirs:.2f}")
    kinds = {
        "test": "as they come",
        "standardized": "standardized",
        "unpenalized": "without penalty",
    }
    found = {words: _references_over_pairs(evidence, kind) for kind, words in kinds.items()}
    told = [f"{written(d)} {words}" for words, d in found.items()]
    missing = all(d.high < theirs / 2 for d in found.values())
    verdict = "in none of ours is there half of it" if missing else "ours are"
    return (
        f"The paper's rows with references are {theirs:.0f} points above those with pairs, "
        f"unsupervised and without autoencoders; {verdict}: {listed(told)}."
    )


def _added(
    evidence: Evidence,
    task: str,
    settings: str,
    methods: Iterable[str],
    datasets: Iterable[str] = REAL,
) -> dict[tuple[str, str], Difference]:
    return {
        (dataset, method): evidence.gap(
            TABLES[task], dataset, method, control(method), settings, task
        )
        for dataset, method in product(datasets, methods)
    }


def _on_real(found: dict[tuple[str, str], Difference], method: str) -> str:
    return listed(f"{written(found[d, method])} on {LABELS[d]}" for d in REAL)


@sentence
def coupling_semi_paper(evidence: Evidence) -> str:
    """What couplings add semi-supervised with the paper's settings."""
    pairs, references = (
        _added(evidence, SEMI, "paper", methods) for methods in (PAIRS, REFERENCES)
    )
    sides = [count_sides(x.values()) for x in (pairs, references)]
    return (
        f"Coupling of pairs {trend(sides[0])}: "
        f"HOT (10) {_on_real(pairs, 'HOT (10)')}. Coupling to references "
        f"{trend(sides[1])}: HOT (11) "
        f"{_on_real(references, 'HOT (11)')}."
    )


@sentence
def coupling_semi_robust(evidence: Evidence) -> str:
    """The same with our settings."""
    found = _added(evidence, SEMI, "robust", ("DGCCA", *PAIRS, *REFERENCES))
    sides = count_sides(found.values())
    return f"Coupling {trend(sides)}: HOT (11) {_on_real(found, 'HOT (11)')}."


@sentence
def coupling_unsupervised(evidence: Evidence) -> str:
    """What couplings add unsupervised."""
    parts = []
    for settings, words in SETTINGS.items():
        found = _added(evidence, UNSUPERVISED, settings, (*PAIRS, *REFERENCES))
        sides = count_sides(found.values())
        parts.append(
            f"With {words}, coupling by any row but DGCCA {trend(sides)}: HOT (11) "
            f"{written(found['handwritten', 'HOT (11)'])} on Handwritten."
        )
    dgcca = _added(evidence, UNSUPERVISED, "paper", ("DGCCA",))
    return (
        f"{' '.join(parts)} DGCCA, which sees aligned rows, adds "
        f"{_on_real(dgcca, 'DGCCA')} with the paper's settings."
    )


@sentence
def handwritten_summary(evidence: Evidence) -> str:
    """Under the table of Handwritten."""
    near = _near(evidence, SEMI)
    parts = []
    for settings, words in SETTINGS.items():
        rows = PUBLISHED[SEMI]["handwritten"]
        found = count_sides(_added(evidence, SEMI, settings, rows, ("handwritten",)).values())
        parts.append(f"with {words}, {intervals(found)}")
    return (
        "Within one standard deviation of the paper's mean are, with the paper's settings, "
        f"{_near_words(near)}. What the coupling adds to the control without it: "
        f"{'; '.join(parts)}."
    )


@sentence
def hot_over_sw(evidence: Evidence) -> str:
    """What the plan adds to the distances."""
    found: dict[tuple[str, ...], Difference] = {}
    for task, settings in product(TABLES, SETTINGS):
        for dataset in (*REAL, "msrc", "synthetic"):
            table = "synthetic" if dataset == "synthetic" else TABLES[task]
            for hot, sw in HOT_AND_SW.items():
                found[task, settings, dataset, hot] = evidence.gap(
                    table, dataset, hot, sw, settings, task
                )
    sides = count_sides(found.values())
    lead = (
        "more often takes than adds accuracy"
        if sides["below"] > sides["above"]
        else "more often adds than takes accuracy"
        if sides["above"] > sides["below"]
        else "adds as often as it takes"
    )
    low, high = (pick(found, key=lambda key: found[key].mean) for pick in (min, max))
    unsupervised = [
        f"{signed(found[UNSUPERVISED, 'paper', d, 'HOT (11)'].mean)} on {LABELS[d]}"
        for d in (*REAL, "msrc", "synthetic")
    ]
    signs = count_sides(
        found[UNSUPERVISED, "paper", d, "HOT (11)"] for d in (*REAL, "msrc", "synthetic")
    )
    return (
        f"The plan {lead}: over two tasks, two settings, five datasets and four pairs of rows, "
        f"HOT − SW goes from {_named(low, found)} to {_named(high, found)}; {intervals(sides)}. "
        f"Unsupervised with the paper's settings, HOT (11) − SW (9) is {listed(unsupervised)} "
        f"({signs['below']} of 5 intervals below 0)."
    )


def _named(key: tuple[str, ...], found: dict[tuple[str, ...], Difference]) -> str:
    task, settings, dataset, hot = key
    return f"{written(found[key])} ({hot}, {LABELS[dataset]}, {task}, {SETTINGS[settings]})"


@sentence
def plain_methods(evidence: Evidence) -> str:
    """Simple methods beside all rows of the paper, semi-supervised."""
    parts = []
    for dataset in ("handwritten", "caltech20"):
        plain = {m: mean(evidence.scores("table2", dataset, m, "-", SEMI)) for m in SIMPLE}
        rows = {
            (m, s): mean(evidence.scores("table2", dataset, m, s, SEMI))
            for m, s in product(PUBLISHED[SEMI][dataset], SETTINGS)
        }
        default = mean(evidence.scores("table2", dataset, "hotview default", "robust", SEMI))
        best, (row, settings) = max(plain, key=plain.__getitem__), max(rows, key=rows.__getitem__)
        scores = [
            evidence.scores("table2", dataset, best, "-", SEMI),
            evidence.scores("table2", dataset, row, settings, SEMI),
        ]
        gap = evidence.compare(f"{dataset}: {best} − {row}", *scores)
        parts.append(
            f"on {LABELS[dataset]} {best} ({plain[best]:.1f}) is {VERDICT[side(gap)]} the best of "
            f"these rows, {row} with {SETTINGS[settings]} ({rows[row, settings]:.1f}), and our "
            f"default before its super learner has {default:.1f}"
        )
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


@sentence
def constraint_met_exactly(evidence: Evidence) -> str:
    """What the constraint, met exactly, adds to the penalty."""
    told = []
    for task, method in ((SEMI, "HOT (10)"), (UNSUPERVISED, "HOT (10)"), (SEMI, "HOT (11)")):
        where = ("claims", "handwritten", method, "paper", task)
        exact = {"coupling__orthogonality_weight": "inf"}
        pair = (evidence.scores(*where, overrides=exact), evidence.scores(*where))
        gap = evidence.compare(f"exact − penalty, {method}, {task}", *pair)
        told.append(f"{written(gap)} for {method} {task}")
    return (
        "Met exactly, by a linear map in every batch, the constraint adds, in points and with the "
        f"paper's settings, {listed(told)}"
    )


def _loop(evidence: Evidence, name: str) -> list[float]:
    found = json.loads(evidence.read("bench/sliced_against_exact.json"))
    scores = found["training"]["models"][name]["accuracy"]["by_split"]
    return [100 * score for score in scores]


@sentence
def penalty_alone(evidence: Evidence) -> str:
    """A loop with the penalty and no transport."""
    names = ("constraint alone", "no coupling", "sliced, 3 iid")
    alone, nothing, sliced = (_loop(evidence, name) for name in names)
    cost = evidence.compare("constraint alone − no coupling", alone, nothing)
    rest = evidence.compare("sliced − constraint alone", sliced, alone)
    end = (
        "what pairs lose, they lose to the penalty"
        if side(cost) == "below" and side(rest) == "around"
        else "which leaves open whether pairs lose to the penalty or to the transport"
    )
    return (
        f"A loop of our own with the penalty and no transport at all has {mean(alone):.1f}, with "
        f"neither {mean(nothing):.1f} ({written(cost)}), and transport beside the penalty adds "
        f"{written(rest)}, over five splits: {end}"
    )


@sentence
def sliced_for_exact(evidence: Evidence) -> str:
    """Exact assignment in every step."""
    names = ("sliced, 3 iid", "exact", "constraint alone")
    sliced, exact, alone = (_loop(evidence, name) for name in names)
    gap = evidence.compare("sliced − exact", sliced, exact)
    matter = evidence.compare("exact − constraint alone", exact, alone)
    lead = {"above": "a gain", "around": "no measurable loss", "below": "a loss"}[side(gap)]
    tail = f" (but nothing to lose: exact matching adds {written(matter)} to the penalty alone)"
    return (
        f"{lead}{tail if side(matter) == 'around' else ''}. With exact assignments in every "
        f"step that "
        f"loop reaches {mean(exact):.1f}, with three sliced directions {mean(sliced):.1f} "
        f"({written(gap)})"
    )


def _sweep(evidence: Evidence, name: str, settings: str) -> dict[int, list[float]]:
    """Accuracies over the grid of figure 3, by value."""
    usual = {
        "coupling__n_projections": 3 if settings == "paper" else 50,
        "coupling__n_references": 3,
        "batch_size": 400,
    }
    where = ("figure3", "handwritten", "HOT (11)", settings)
    found = {usual[name]: evidence.scores(*where)}
    cells = json.loads(evidence.read("paper/figure3.json"))["cells"]
    for cell in (entry["cell"] for entry in cells):
        if cell["settings"] == settings and name in cell.get("overrides", {}):
            changed = cell["overrides"]
            found[changed[name]] = evidence.scores(*where, overrides=changed)
    return dict(sorted(found.items()))


@sentence
def directions(evidence: Evidence) -> str:
    """More directions, unsupervised."""
    told = []
    for settings, words in SETTINGS.items():
        grid = _sweep(evidence, "coupling__n_projections", settings)
        gap = evidence.compare(f"M = 50 − M = 3, {settings}", grid[50], grid[3])
        told.append(f"{written(gap)} points with {words}")
    return f"fifty directions instead of three change the unsupervised accuracy by {listed(told)}"


@sentence
def references_and_batch(evidence: Evidence) -> str:
    """The best K, and the batch size."""
    told = []
    for settings, words in SETTINGS.items():
        grid = _sweep(evidence, "coupling__n_references", settings)
        best = max(grid, key=lambda k: mean(grid[k]))
        gap = evidence.compare(f"K = {best} − K = 3, {settings}", grid[best], grid[3])
        told.append(f"K = {best} with {words}" + f" ({written(gap)} over K = 3)" * (best != 3))
    batch = _sweep(evidence, "batch_size", "paper")
    gap = evidence.compare("batches of 50 − 400", batch[50], batch[400])
    return (
        f"The highest unsupervised mean is that of {listed(told)}. Batches of 50 instead of "
        f"400, which "
        f"mean more steps, change it by {written(gap)} with the paper's settings."
    )


@sentence
def views_removed(evidence: Evidence) -> str:
    """Which view is missed most."""
    told = []
    for dataset in ("handwritten", "caltech7"):
        for method, settings, words in (
            ("HOT (11)", "paper", "HOT (11)"),
            ("PCA + logistic regression", "-", "PCA with logistic regression"),
        ):
            where = ("table4", dataset, method, settings)
            whole = evidence.scores(*where)
            losses = {
                view: evidence.compare(
                    f"{dataset}, {method}, without {view}",
                    evidence.scores(*where, without=view),
                    whole,
                )
                for view in REMOVED[dataset]
            }
            most = min(losses, key=lambda view: losses[view].mean)
            told.append(f"{words} {most} ({written(losses[most])})")
    return (
        f"The view missed most, on Handwritten: by {told[0]}, by {told[1]}; on re-extracted "
        f"Caltech7: by {told[2]}, by {told[3]}."
    )


@cache
def _claims() -> dict[str, Claim]:
    return {claim.title: claim for claim in list_claims(read_results(RESULTS / "paper"))}


def _verdicts(evidence: Evidence, title: str) -> Counter[str]:
    evidence.files["paper/*.json"] = evidence.files["bench/*.json"] = None
    found = Counter(finding.verdict for finding in _claims()[title].findings)
    for finding in _claims()[title].findings:
        evidence.note(f"{finding.data}, {finding.how}", f"{finding.number}: {finding.verdict}")
    return found


def _verdict_words(found: Counter[str]) -> str:
    words = ("hold", "do not hold", "do not on data that are not the paper's", "cannot be told")
    told = [f"{found[v]} {w}" for v, w in zip(VERDICTS, words, strict=True) if found[v]]
    return f"of {found.total()} measurements {listed(told)}"


@sentence
def claim_constraint(evidence: Evidence) -> str:
    """Verdicts on the relaxed constraint."""
    return _verdict_words(_verdicts(evidence, "Relaxing the constraint does no harm"))


@sentence
def claim_groups(evidence: Evidence) -> str:
    """Which of the paper's groups are in our plans."""
    title = "W shows the groups that the paper names"
    found = _verdicts(evidence, title)
    holds = [f"{f.data}: {f.how}" for f in _claims()[title].findings if f.holds]
    return f"{_verdict_words(found)}" + (f" (those that hold: {'; '.join(holds)})" if holds else "")


@sentence
def claim_robust(evidence: Evidence) -> str:
    """Verdicts on robustness to the parameters."""
    title = "The method is robust to its parameters"
    found = _verdicts(evidence, title)
    fails = [f.how for f in _claims()[title].findings if not f.holds]
    return _verdict_words(found) + (f" (not: {listed(fails)})" if fails else "")


@sentence
def claim_dense(evidence: Evidence) -> str:
    """Verdicts on dense plans on Caltech20."""
    title = "W is sparse on small problems and dense on Caltech20"
    return _verdict_words(_verdicts(evidence, title))


@sentence
def claim_hog(evidence: Evidence) -> str:
    """Verdicts on HOG and LBP."""
    return _verdict_words(_verdicts(evidence, "HOG and LBP are missed more than the other views"))


@sentence
def plan_sharpness(evidence: Evidence) -> str:
    """How flat plans are, by method and settings."""
    cells = json.loads(evidence.read("paper/figure5.json"))["cells"]
    told = []
    for settings, words in SETTINGS.items():
        parts = []
        for method in ("HOT (10)", "HOT (11)"):
            means = [
                float(np.mean([row_entropy(np.array(W), pairwise="10" in method) for W in x["Ws"]]))
                for x in cells
                if (x["cell"]["method"], x["cell"]["settings"]) == (method, settings)
                and x["cell"]["dataset"] in REAL
            ]
            evidence.note(f"entropy, {method}, {settings}", ", ".join(f"{x:.3f}" for x in means))
            parts.append(f"{min(means):.2f} to {max(means):.2f} for {method}")
        told.append(f"{listed(parts)} with {words}")
    return (
        "the entropy of the rows of W, where 1 is all alike and 0 is one place, is "
        f"{', and '.join(told)} (means by dataset)"
    )


@sentence
def planted_groups(evidence: Evidence) -> str:
    """How often the planted groups are found."""
    record = json.loads(evidence.read("paper/synthetic.json"))
    groups = record["datasets"]["synthetic"]["groups"]
    best: dict[str, list[str]] = {s: [] for s in SETTINGS}
    for entry in record["cells"]:
        cell = entry["cell"]
        if cell["task"] == UNSUPERVISED and cell["method"] in ("HOT (10)", "HOT (11)"):
            pairwise = cell["method"] == "HOT (10)"
            shares = [share_in_group(W, groups, pairwise=pairwise) for W in entry["Ws"]]
            n, changed = sum(x == 1 for x in shares), "overrides" in cell
            evidence.note(f"{cell['method']}, {cell['settings']}, changed: {changed}", str(n))
            if changed:
                best[cell["settings"]].append(f"{n} of {len(shares)} trials by {cell['method']}")
    told = [f"{listed(found)} with {SETTINGS[s]}" for s, found in best.items() if found]
    return (
        "Planted groups of synthetic views, whose columns are in one unit and whose common "
        "space has "
        f"their number of factors, are found in {', and in '.join(told)}"
    )


@sentence
def loss_summed_or_averaged(evidence: Evidence) -> str:
    """What averaging L instead of summing it changes."""
    told, lost = [], []
    averaged = {"overrides": AVERAGED}
    control = [
        evidence.scores("averaged", "handwritten", "no coupling", "paper", SEMI, **own)
        for own in ({}, averaged)
    ]
    for method in ("HOT (10)", "HOT (11)", "SW (8)", "SW (9)"):
        pair = [
            evidence.scores("averaged", "handwritten", method, "paper", SEMI, **own)
            for own in ({}, averaged)
        ]
        gap = evidence.compare(f"summed − averaged, {method}", *pair)
        told.append(f"{written(gap)} for {method}")
        if method == "HOT (10)":
            lost = [
                evidence.compare(f"{method} − no coupling, {name}", *both)
                for name, *both in zip(("summed", "averaged"), pair, control, strict=True)
            ]
    return (
        f"Summed less averaged, on Handwritten: {listed(told)}. What HOT (10) adds to no "
        f"coupling is "
        f"{written(lost[0])} with the sum and {written(lost[1])} with the mean."
    )


@sentence
def paper_and_robust(evidence: Evidence) -> str:
    """What all robust settings together change."""
    told = []
    for task in TABLES:
        for method in ("no coupling", "HOT (11)"):
            pair = [
                evidence.scores(TABLES[task], "handwritten", method, settings, task)
                for settings in ("robust", "paper")
            ]
            gap = evidence.compare(f"robust − paper, {method}, {task}", *pair)
            told.append(f"{written(gap)} for {method} {task}")
    return f"All robust settings together less the paper's, on Handwritten: {listed(told)}."


@sentence
def sinkhorn_order(evidence: Evidence) -> str:
    """How far plans of 20 iterations depend on their order: computed here, on random costs."""
    import torch  # only here: the other sentences do without

    from hotview.ot import sinkhorn

    random = np.random.default_rng(0)
    told = []
    for top in (0.1, 1.0, 3.0):
        moved = []
        for _ in range(300):
            C = random.uniform(0, top, (6, 3))
            ours = sinkhorn(torch.from_numpy(C), reg=0.1, max_iter=20).W.numpy()
            moved.append(50 * 6 * np.abs(ours - _columns_first(C, 0.1, 20)).sum(1).max())
        evidence.note(
            f"costs up to {top:g}", f"median {np.median(moved):.3f}, max {max(moved):.3f}"
        )
        told.append(
            f"{np.median(moved):.0f} % of a row (at most {max(moved):.0f} %) "
            f"for costs up to {top:g}"
        )
    return (
        "for random costs of six views and three references, β = 0.1, after exactly 20 "
        f"iterations, plans differ in the median by {listed(told)}"
    )


def _columns_first(C: np.ndarray, beta: float, n_iter: int) -> np.ndarray:
    """The supplement's algorithm as it stands there: columns, then rows."""
    S, K = C.shape
    kernel, a = np.exp(-C / beta), np.full(S, 1 / S)
    for _ in range(n_iter):
        b = 1 / K / (kernel.T @ a)
        a = 1 / S / (kernel @ b)
    plan: np.ndarray = a[:, None] * kernel * b
    return plan


@sentence
def trained_costs(evidence: Evidence) -> str:
    """How large costs between views are after training."""
    cells = json.loads(evidence.read("paper/figure5.json"))["cells"]
    largest = {
        settings: max(
            float(np.nanmax(np.array(x["C"], dtype=float)))
            for x in cells
            if "C" in x and x["cell"]["settings"] == settings
        )
        for settings in SETTINGS
    }
    for settings, cost in largest.items():
        evidence.note(f"largest mean cost, {settings}", f"{cost:.3f}")
    told = listed(f"{cost:.2f} with {SETTINGS[s]}" for s, cost in largest.items())
    return f"the largest costs between trained views, means over trials, are {told}"
