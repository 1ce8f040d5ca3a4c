"""Encoders and decoders of single views, and the multi-view network."""
