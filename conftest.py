"""Modules that pytest leaves alone, because what they import is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/hotview/ot/kernels.py"]
