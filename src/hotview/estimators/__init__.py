"""Estimators for scikit-learn users: views in, features, plans and classes out."""

from hotview.estimators.classifier import MultiViewClassifier
from hotview.estimators.encoder import MultiViewEncoder
from hotview.estimators.stacked_views import StackedViews

__all__ = ["MultiViewClassifier", "MultiViewEncoder", "StackedViews"]
