"""Choose parameters by cross-validation where most rows are unlinked.

Run ``python examples/search.py --folds 5``. Only linked rows with a label are split into folds;
unaligned rows are in every training set. Baselines are scored on the same folds for comparison.
"""

import argparse

from hotview import MultiViewClassifier
from hotview.datasets import load_handwritten, unalign
from hotview.evaluation import ConcatenatedLogisticRegression, PerViewLabelPropagation
from hotview.model_selection import GridSearch, cross_validate

GRID = {"pseudo_labels": [False, True], "coupling": ["none", "hot-reference"]}


def main() -> None:
    """Search, compare with baselines, and test the best model once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--max-epochs", type=int, default=None)
    parser.add_argument("--views", nargs="+", default=["pix", "fou", "mor"])
    options = parser.parse_args()
    digits = load_handwritten()
    views = {name: digits.views[name] for name in options.views}
    data = unalign(views, digits.target, random_state=0)
    rows = {"unaligned": data.unaligned}
    folds = {"cv": options.folds, "random_state": 0}
    for plain in (ConcatenatedLogisticRegression(), PerViewLabelPropagation()):
        scores = cross_validate(plain, data.linked, data.target, **rows, **folds).test_score
        print(f"{type(plain).__name__}: {scores.mean():.1%} ± {scores.std():.1%}")
    model = MultiViewClassifier(max_epochs=options.max_epochs, random_state=0)
    search = GridSearch(model, GRID, **folds).fit(data.linked, data.target, **rows)
    columns = ("params", "mean_test_score", "std_test_score")
    for params, mean, std in zip(*(search.cv_results_[c] for c in columns), strict=True):
        print(f"{params}: {mean:.1%} ± {std:.1%}")
    print(f"best on test rows: {search.score(data.test, data.test_target):.1%}")


if __name__ == "__main__":
    main()
