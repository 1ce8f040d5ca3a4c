"""Fitted models: what they are made of, their files, and ONNX for programs without hotview."""

from hotview.model.files import check_model_path, load_model, save_model
from hotview.model.model import Model, ModelView
from hotview.model.onnx import to_onnx

__all__ = ["Model", "ModelView", "check_model_path", "load_model", "save_model", "to_onnx"]
