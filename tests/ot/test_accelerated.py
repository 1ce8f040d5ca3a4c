import pytest
import torch

from hotview.ot.accelerated import kernels_for


def test_nothing_on_the_cpu():
    assert kernels_for(torch.zeros(3)) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_has_kernels_for_float32_alone():
    pytest.importorskip("triton")
    assert kernels_for(torch.zeros(3, device="cuda")) is not None
    assert kernels_for(torch.zeros(3, device="cuda", dtype=torch.float64)) is None
