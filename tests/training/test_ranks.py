import numpy as np
import pytest
import torch

from hotview.training.interrupt import Interrupt
from hotview.training.ranks import RankLostError, Ranks


def test_one_process_asks_nobody():
    ranks, x = Ranks(), torch.arange(3.0)
    assert ranks.is_first
    assert not ranks.is_shared
    assert ranks.first(lambda: [1, "a"]) == [1, "a"]
    assert ranks.share({"x": x})["x"] is x
    assert ranks.gather(x, [3])[0] is x
    assert ranks.average(x) is x
    (collected,) = ranks.collect(np.arange(2))
    np.testing.assert_array_equal(collected, [0, 1])
    assert type(ranks.listen()) is Interrupt


def test_errors_go_through():
    with pytest.raises(ZeroDivisionError), Ranks().telling():
        Ranks().first(lambda: 1 / 0)


def test_whoever_lost_the_others_may_be_the_one_to_tell():
    assert RankLostError("gone").speaks
    assert not RankLostError("gone", speaks=False).speaks
