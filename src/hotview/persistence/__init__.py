"""Models in one file, which outlasts the program that wrote it."""

from hotview.persistence.models import check_model_path, load_model, save_model

__all__ = ["check_model_path", "load_model", "save_model"]
