import pytest
import torch

from hotview.nn.streams import apply_each


def test_every_function_gets_its_own_input():
    found = apply_each([torch.neg, torch.exp], [torch.ones(2), torch.zeros(3)])
    assert [x.tolist() for x in found] == [[-1, -1], [1, 1, 1]]
    assert apply_each([], []) == []


def test_a_function_without_input_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        apply_each([torch.neg, torch.exp], [torch.ones(2)])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recording_computes_the_same_values_and_gradients():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(5, 4, device="cuda") for _ in range(6)]
    Xs = [torch.randn(300, 5, device="cuda") for _ in range(6)]
    parameters = [p for layer in layers for p in layer.parameters()]

    def step():
        Ys = apply_each(layers, Xs)
        Zs = apply_each([torch.relu] * 6, Ys)
        return torch.autograd.grad(torch.stack(Zs).square().sum(), parameters)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    for X in Xs:
        X.copy_(torch.randn(300, 5))
    for _ in range(3):
        graph.replay()
    for one, other in zip(found, step(), strict=True):
        torch.testing.assert_close(one, other)
