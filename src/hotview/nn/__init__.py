"""Networks: what encodes one view, and what holds the encoders of all."""
