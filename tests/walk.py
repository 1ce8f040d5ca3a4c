"""``python -m tests.walk``: what a fit and a prediction of the default pass through.

Modules and functions of the package, calls from file to file, and the deepest stack.
"""

import sys
import warnings
from pathlib import Path

import hotview as hv
from hotview.datasets import make_views

ROOT = str(Path(hv.__file__).parent)


def walk(call):
    """Follow a call: numbers of modules, functions and calls between files, and the depth."""
    functions, edges, stack, deepest = set(), set(), [], 0

    def look(frame, event, argument):
        nonlocal deepest
        code = frame.f_code
        if not code.co_filename.startswith(ROOT):
            return
        if event == "call":
            here = code.co_filename, code.co_qualname
            functions.add(here)
            if stack and stack[-1][0] != here[0]:
                edges.add((stack[-1], here))
            stack.append(here)
            deepest = max(deepest, len(stack))
        elif event == "return" and stack:
            stack.pop()

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
    return len({file for file, _ in functions}), len(functions), len(edges), deepest


def walks():
    """Those of a fit and of `predict_proba`, each after one that imports and caches."""
    data = make_views(200, n_views=3, n_groups=1, labeled=0.2, random_state=0)

    def fit():
        model = hv.MultiViewClassifier(max_epochs=2, random_state=0, device="cpu")
        return model.fit(data.linked, data.linked_target, unaligned=data.views)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit()
        model.predict_proba(data.linked)
        return {"fit": walk(fit), "predict_proba": walk(lambda: model.predict_proba(data.linked))}


if __name__ == "__main__":
    for name, (modules, n_functions, n_edges, depth) in walks().items():
        print(
            f"{name:14s} {modules:3d} modules, {n_functions:3d} functions, "
            f"{n_edges:3d} calls between files, {depth:2d} deep"
        )
    print(f"loaded {sum(name.partition('.')[0] == 'hotview' for name in sys.modules)} modules")
