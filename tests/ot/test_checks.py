import math

import numpy as np
import pytest
import torch

from hotview.ot import sliced_cost


def bad_inputs():
    Z, theta = torch.randn(5, 3), torch.eye(3)
    nan = Z.clone()
    nan[3, 1] = math.nan
    inf = Z.clone()
    inf[0, 0] = math.inf
    two = [None, None]
    return {
        "no clouds": ([], None, theta, None, ValueError, "at least one cloud"),
        "no references": ([Z], [], theta, None, ValueError, "at least one cloud"),
        "numpy": ([np.zeros((5, 3))], None, theta, None, TypeError, r"Zs\[0\].*torch.as_tensor"),
        "empty": ([Z, Z[:0]], None, theta, None, ValueError, r"Zs\[1\].*\(0, 3\)"),
        "1-D": ([Z, Z[0]], None, theta, None, ValueError, r"Zs\[1\]"),
        "half": ([Z.half()], None, theta.half(), None, TypeError, "float32 or float64"),
        "dimension": ([Z, Z[:, :2]], None, theta, None, ValueError, r"Zs\[1\] has dimension 2"),
        "dtype": ([Z], [Z.double()], theta, None, ValueError, r"Gs\[0\] has dtype"),
        "device": ([Z.to("meta")], None, theta, None, ValueError, r"Zs\[0\] has device meta"),
        "NaN": ([Z, nan], None, theta, None, ValueError, r"Zs\[1\] holds NaN.*1 of 5.*row 3"),
        "NaN once": ([nan], [Z], theta, None, ValueError, r"Zs\[0\] holds NaN"),
        "NaN alone": ([nan], None, theta, None, ValueError, r"Zs\[0\] holds NaN"),
        "NaN unweighted": (
            [nan, Z],
            None,
            theta,
            [torch.tensor([1, 1, 1, 0, 1.0]), None],
            ValueError,
            "holds NaN",
        ),
        "infinity": ([Z], [inf], theta, None, ValueError, r"Gs\[0\] holds NaN or inf"),
        "direction": ([Z, Z], None, theta * math.nan, None, ValueError, "directions holds NaN"),
        "flat": ([Z], None, theta[0], None, ValueError, "draw_directions"),
        "overflow": ([1e30 * Z, Z], None, theta, None, OverflowError, "rescale"),
        "few weights": ([Z, Z], None, theta, [None], ValueError, "one entry .* 2 of them, got 1"),
        "weight shape": ([Z, Z], None, theta, [torch.ones(4), None], ValueError, r"\(5,\)"),
        "negative": ([Z, Z], None, theta, [-torch.ones(5), None], ValueError, "non-negative"),
        "zero": ([Z, Z], None, theta, [torch.zeros(5), None], ValueError, "not all zero"),
        "grad": ([Z], [Z], theta, [torch.ones(5, requires_grad=True), None], ValueError, "detach"),
        "fine": ([Z], [Z], theta, two, None, ""),
    }


@pytest.mark.parametrize("case", bad_inputs())
def test_bad_inputs_say_what_to_do(case):
    Zs, Gs, theta, weights, error, message = bad_inputs()[case]
    if error is None:
        sliced_cost(Zs, Gs, directions=theta, weights=weights)
        return
    with pytest.raises(error, match=message):
        sliced_cost(Zs, Gs, directions=theta, weights=weights)
