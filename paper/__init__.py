"""Experiments as data: what the paper ran."""
