from hotview.training.schedule import Outcome, Schedule


def test_an_epoch_is_one_pass_unless_told():
    assert Schedule(3).steps(7) == 7
    assert Schedule(3, steps_per_epoch=2).steps(7) == 2


def test_only_trainings_that_nobody_looks_at_are_fixed():
    assert Schedule(3).is_fixed
    assert not Schedule(3, patience=2).is_fixed
    assert not Schedule(3, callbacks=(print,)).is_fixed
    assert not Schedule(3, checkpoint_every=2).is_fixed


def test_checkpoints_are_due_every_few_epochs():
    assert [
        epoch for epoch in range(1, 9) if Schedule(9, checkpoint_every=3).saves_after(epoch)
    ] == [
        3,
        6,
    ]
    assert not Schedule(9).saves_after(3)


def test_outcomes_share_nothing():
    assert Outcome().history is not Outcome().history
