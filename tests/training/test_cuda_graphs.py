import gc

import pytest
import torch

from hotview.losses import DGCCA, HOTReference, Planner, SWReference
from hotview.losses.coupling import Terms
from hotview.losses.objective import Batch, Evaluation
from hotview.training.cuda_graphs import GraphedStep, _without_collection

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
MAKERS = {
    "one recording": lambda: SWReference(3, n_points=16, generator=seeded(0)),
    "interrupted by a plan": lambda: HOTReference(3, 2, n_points=16, generator=seeded(0)),
    "with a plan in it": lambda: HOTReference(
        3, 2, planner=Planner(max_iter=20), n_points=16, generator=seeded(0)
    ),
    "interrupted by a shared G": lambda: DGCCA(),
}


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def make_batch(i):
    Xs = [torch.randn(2, 16, 3, generator=seeded(10 * i + s), device="cpu").cuda() for s in (0, 1)]
    theta = torch.nn.functional.normalize(torch.randn(2, 4, 3, generator=seeded(99 + i)), dim=-1)
    return Batch(Xs, {"rows": [16, 16]}, torch.empty(0).cuda(), directions=theta)


def make_step(make):
    coupling = make().cuda()
    if hasattr(coupling, "references"):  # those of two replicas
        clouds = torch.stack([coupling.references.detach(), 2 * coupling.references.detach()])
        coupling.references = torch.nn.Parameter(clouds)
    maps = torch.nn.Parameter(torch.eye(3).expand(2, 3, 3).contiguous().cuda())
    optimizer = torch.optim.Adam([maps, *coupling.parameters()], 0.01, capturable=True)

    def step(batch):
        Zs = [X @ maps for X in batch.Xs]
        directions = batch.directions.cuda()
        terms = Terms(dict(coupling(Zs, directions=directions).parts))
        optimizer.zero_grad(set_to_none=True)
        terms.total.sum().backward()
        optimizer.step()
        return Evaluation(terms, Zs)

    return step, coupling, maps


@needs_gpu
@pytest.mark.parametrize("name", MAKERS)
def test_a_recorded_step_does_what_the_step_does(name):
    step, _, expected = make_step(MAKERS[name])
    other, coupling, found = make_step(MAKERS[name])
    recorded = GraphedStep(other, coupling)
    for i in range(12):
        a, b = step(make_batch(i)), recorded(make_batch(i))
        torch.testing.assert_close(a.terms.total, b.terms.total, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert len(recorded.graphs) == (2 if name.startswith("interrupted") else 1)
    assert coupling.outside is None


def test_nothing_is_collected_while_a_step_is_recorded():
    assert gc.isenabled()
    with _without_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), _without_collection():
        raise ZeroDivisionError
    assert gc.isenabled()
