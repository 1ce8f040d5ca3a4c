"""Models in one file, without code, to be saved and loaded."""

from hotview.persistence.models import check_model_path, load_model, save_model

__all__ = ["check_model_path", "load_model", "save_model"]
