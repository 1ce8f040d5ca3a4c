import pytest
import torch

from hotview.ot._backend import empty, kernels_for


def test_nothing_on_the_cpu():
    assert kernels_for(torch.zeros(3)) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_has_kernels_for_float32_alone():
    pytest.importorskip("triton")
    assert kernels_for(torch.zeros(3, device="cuda")) is not None
    assert kernels_for(torch.zeros(3, device="cuda", dtype=torch.float64)) is None


@pytest.mark.parametrize("shape", ((3, 4), (0, 2), (2, 2**20)))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.int64, torch.int16))
def test_empty_has_the_requested_shape_and_dtype(shape, dtype):
    x = empty(*shape, dtype=dtype, device=torch.device("cpu"))
    assert x.shape == shape
    assert x.dtype == dtype
    x.fill_(3)
    assert (x == 3).all()


def test_other_devices_are_left_to_torch():
    assert empty(2, 2**20, dtype=torch.float32, device=torch.device("meta")).device.type == "meta"
