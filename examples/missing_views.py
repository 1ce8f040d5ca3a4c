"""Contribution of each view: accuracy with all views, with each alone, and without each.

Run ``python examples/missing_views.py``. Digits, of which 60 rows are linked and labeled as in the
paper; the same fitted model predicts test rows from all views or from some of them.
"""

import argparse

from sklearn.utils import Bunch

from hotview import MultiViewClassifier
from hotview.datasets import load_handwritten, unalign
from hotview.evaluation import expected_calibration_error


def measure(model: MultiViewClassifier, data: Bunch, names: list[str]) -> tuple[float, float]:
    """Return accuracy and calibration error on test rows that have only the named views."""
    proba = model.predict_proba({name: data.test[name] for name in names})
    accuracy = float((model.classes_[proba.argmax(1)] == data.test_target).mean())
    return accuracy, expected_calibration_error(proba, data.test_target, model.classes_)


def main() -> None:
    """Fit once, and print a line for every subset of views."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--max-epochs", type=int, default=None)
    options = parser.parse_args()
    digits = load_handwritten()
    data = unalign(digits.views, digits.target, random_state=options.random_state)
    model = MultiViewClassifier(max_epochs=options.max_epochs, random_state=options.random_state)
    model.fit(data.linked, data.target, unaligned=data.unaligned)
    names = list(data.test)
    choices = {"all views": names}
    choices |= {f"{name} alone": [name] for name in names}
    choices |= {f"without {name}": [other for other in names if other != name] for name in names}
    for title, chosen in choices.items():
        accuracy, gap = measure(model, data, chosen)
        print(f"{title:12}  accuracy {accuracy:.1%}  calibration error {100 * gap:.1f} points")


if __name__ == "__main__":
    main()
