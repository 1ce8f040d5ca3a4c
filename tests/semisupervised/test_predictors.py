"""Who judges new rows where labels were spread."""

import numpy as np
import pytest
import torch

from hotview import MultiViewClassifier
from hotview.datasets import make_views
from hotview.semisupervised.predictors import RidgePredictor


def test_scores_are_linear_in_the_columns_of_all_views():
    random = torch.Generator().manual_seed(0)
    Xs = [torch.randn(5, n, generator=random) for n in (3, 2)]
    weights = [torch.randn(n, 4, generator=random, dtype=torch.float64) for n in (3, 2)]
    scores = RidgePredictor(weights, torch.arange(4.0, dtype=torch.float64))
    expected = torch.hstack(Xs).double() @ torch.vstack(weights) + torch.arange(4.0)
    torch.testing.assert_close(scores(Xs), expected)


@pytest.mark.filterwarnings("ignore:1 of the 3 classes:UserWarning")
def test_there_is_no_joint_judgment_of_classes_without_a_linked_label():
    data = make_views(120, n_views=2, n_classes=3, labeled=0.3, random_state=0)
    y = np.where(data.linked_target == 2, -1, data.linked_target)
    own = np.concatenate([[2] * 3, np.full(len(data.views["view_0"]) - 3, -1)])
    model = MultiViewClassifier(coupling="none", n_estimators=1, max_epochs=1, random_state=0)
    judges = []
    for labels in (data.linked_target, y):
        model.fit(data.linked, labels, unaligned=data.views, unaligned_y={"view_0": own})
        judges.append(model._judges[0])
    assert judges[0].ridge is not None
    assert judges[1].ridge is None
    assert len(judges[1].voters) == 2
