"""Whatever looks like an array, as one."""

from typing import Any

import numpy as np

from hotview._types import Array


def as_array(what: str, values: Any) -> Array:
    """Convert to numpy, without a copy where numpy can look at the same memory."""
    if np.ma.isMaskedArray(values):  # np.asarray would drop the mask without a word
        raise TypeError(
            f"Expected {what} to be a plain array, but it is a masked array. "
            "Write missing values as NaN: X.filled(np.nan)."
        )
    if hasattr(values, "detach"):  # a torch tensor that carries a gradient or lives on a device
        values = values.detach().cpu()
    elif hasattr(values, "toarray"):  # a scipy sparse matrix, which np.asarray would wrap
        values = values.toarray()
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected {what} to be a rectangular array of one kind, but numpy cannot read it "
            f"({error}). "
            + (
                "Convert the tensor first, by .float() or .to_dense()."
                if hasattr(values, "to_dense")
                else "Give every row the same number of entries."
            )
        ) from error
