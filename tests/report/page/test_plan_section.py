from dataclasses import replace

import numpy as np

from hotview.report.page.markup import join
from hotview.report.page.plan_section import plan_section


def text(record):
    return join(plan_section(record))


def test_rows_of_the_table_add_up_to_one(record):
    found = text(record)
    for view, row in zip(record.views, record.plan.W, strict=True):
        cells = "".join(f'<td class="number">{4 * w:.3f} ± {4 * w / 10:.3f}</td>' for w in row)
        assert f'<th scope="row">{view}</th>{cells}' in found
    np.testing.assert_allclose(np.sum(record.plan.W, axis=1) * 4, 1)


def test_spread_is_told_or_said_to_be_unknown(record, make_one):
    assert "over 3 trainings" in text(record)
    assert "how far the plan varies is not known" in text(make_one(replicas=1))


def test_without_a_plan_it_says_why(record):
    assert "with coupling=&quot;none&quot; none is solved" in text(
        replace(record, plan=None, coupling="none")
    )


def test_pairwise_plans_leave_the_diagonal_blank(make_one):
    record = make_one()
    W = (np.ones((4, 4)) - np.eye(4)) / 12
    plan = replace(record.plan, W=W.tolist(), C=W.tolist(), spread=None, pairwise=True,
                   columns=record.views)  # fmt: skip
    found = text(replace(record, plan=plan))
    assert found.count('class="heat"') == 12
    assert "share of one view's mass" in found.replace("&#x27;", "'")


def test_the_null_needs_four_views(make_one):
    assert "The views beside noise" in text(make_one())
    assert "The views beside noise" not in text(make_one(views=("a", "b", "c")))


def test_the_costliest_view_is_named(record):
    assert "The view that costs most, <em>zer</em>, is the first to suspect." in text(record)


def test_a_solver_that_did_not_converge_is_told(record):
    assert "had not converged" not in text(record)
    assert "had not converged" in text(replace(record, plan=replace(record.plan, converged=False)))
