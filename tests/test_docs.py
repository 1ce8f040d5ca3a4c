"""The pages keep their word: their code runs, and their counts are scikit-learn's."""

import re
from pathlib import Path

import pytest
import sklearn
from sklearn.utils.estimator_checks import estimator_checks_generator

from hotview import MultiViewClassifier, MultiViewEncoder, StackedViews

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")
def test_python_examples_run(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile("\n".join(blocks), page.name, "exec"), {})


@pytest.mark.skipif(not sklearn.__version__.startswith("1.9."), reason="counted with 1.9")
@pytest.mark.parametrize("wrapped", (MultiViewClassifier, MultiViewEncoder))
def test_the_numbers_of_checks_are_scikit_learns(wrapped):
    page = (DOCS / "scikit-learn.md").read_text()
    (stated,) = re.findall(rf"^\| `{wrapped.__name__}` \| (\d+) \|", page, re.MULTILINE)
    model = StackedViews(wrapped(), {"a": slice(0, 1), "b": slice(1, None)})
    assert int(stated) == len(list(estimator_checks_generator(model)))
