import pytest
import torch

from hotview.ot import sinkhorn
from hotview.ot.sinkhorn_cuda import sinkhorn_cuda, supports_sinkhorn_cuda

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_the_cpu_is_watched():
    assert not supports_sinkhorn_cuda(torch.zeros(6, 3), 20)


@on_gpu
def test_many_iterations_and_large_plans_are_watched():
    pytest.importorskip("triton")
    C = torch.zeros(6, 3, device="cuda")
    assert supports_sinkhorn_cuda(C, 100)
    assert not supports_sinkhorn_cuda(C, 101)
    assert not supports_sinkhorn_cuda(torch.zeros(65, 64, device="cuda"), 20)
    assert not supports_sinkhorn_cuda(C.double(), 20)


@on_gpu
@pytest.mark.parametrize("pairwise", (False, True))
def test_a_plan_on_the_gpu_is_that_of_sinkhorn(pairwise):
    pytest.importorskip("triton")
    C = torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(0))
    if pairwise:
        C = (C + C.mT) * (1 - torch.eye(5))
    mask = torch.eye(5, dtype=torch.bool) if pairwise else None
    plan = sinkhorn_cuda(C.cuda(), reg=0.1, relative=True, max_iter=20, pairwise=pairwise)
    expected = sinkhorn(C, reg=0.1, relative=True, max_iter=20, mask=mask)
    torch.testing.assert_close(plan.W.cpu(), expected.W, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(plan.cost.cpu(), expected.cost)
    torch.testing.assert_close(plan.value.cpu(), expected.value)
    assert plan.pairwise == expected.pairwise


@on_gpu
def test_a_recording_solves_again_for_new_costs():
    pytest.importorskip("triton")
    C = torch.rand(6, 3, device="cuda")
    settings = {"reg": 0.1, "relative": True, "max_iter": 20, "pairwise": False}
    sinkhorn_cuda(C, **settings)  # which compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan = sinkhorn_cuda(C, **settings)
    C.copy_(torch.rand(6, 3, device="cuda"))
    graph.replay()
    expected = sinkhorn(C.cpu(), reg=0.1, relative=True, max_iter=20)
    torch.testing.assert_close(plan.W.cpu(), expected.W, atol=1e-6, rtol=1e-5)
