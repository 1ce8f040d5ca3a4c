import math
from dataclasses import replace

import numpy as np

from hotview.evaluation.record.schema import MAJORITY, BaselineScore, Setting
from hotview.report.page.sections import (
    error_section,
    learning_section,
    plan_section,
    provenance_section,
    view_section,
)


def test_rows_of_the_plan_sum_to_one(record):
    text = plan_section(record)
    for view, row in zip(record.views, record.plan.W, strict=True):
        cells = "".join(f'<td class="number">{4 * w:.3f} ± {4 * w / 10:.3f}</td>' for w in row)
        assert f'<th scope="row">{view}</th>{cells}' in text
    np.testing.assert_allclose(np.sum(record.plan.W, axis=1) * 4, 1)


def test_the_variation_of_the_plan_is_stated_or_unknown(record, make_one):
    assert "mean costs of 3 trainings" in plan_section(record)
    assert "the variation of the plan is not known" in plan_section(make_one(replicas=1))


def test_without_a_plan_the_reason_is_given(record):
    text = plan_section(replace(record, plan=None, coupling="none"))
    assert 'The model has no plan: coupling="none" solves for none.' in text


def test_pairwise_plans_leave_the_diagonal_blank(make_one):
    record = make_one()
    W = (np.ones((4, 4)) - np.eye(4)) / 12
    plan = replace(record.plan, W=W.tolist(), C=W.tolist(), std=None, pairwise=True,
                   columns=record.views)  # fmt: skip
    text = plan_section(replace(record, plan=plan))
    assert text.count('class="heat"') == 12
    assert "share of one view&#39;s mass" in text


def test_the_null_needs_four_views(make_one):
    assert "Permutation null" in plan_section(make_one())
    assert "Permutation null" not in plan_section(make_one(views=("a", "b", "c")))


def test_the_costliest_view_is_named(record):
    assert "The view with the largest cost, <em>zer</em>, is" in plan_section(record)


def test_a_solver_that_did_not_converge_is_reported(record):
    assert "did not converge" not in plan_section(record)
    failed = replace(record, plan=replace(record.plan, converged=False))
    assert "did not converge" in plan_section(failed)


def test_accuracies_by_view_and_by_number_of_views(record):
    text = view_section(record, record.scores)
    assert text.count("<figure>") == 3
    assert "nothing is retrained" in text
    assert "2 of 5" in text
    assert "Not all subsets were scored" in text


def test_a_view_without_rows_is_left_out(record):
    bare = [replace(v, without=None, drop=None, alone=None) for v in record.scores.views]
    scores = replace(record.scores, views=bare, subsets=[])
    assert view_section(replace(record, scores=scores), scores).count("<figure>") == 1


def test_errors_and_calibration(record):
    text = error_section(record, record.scores)
    assert "6 of 36 rows are misclassified." in text
    assert "Expected calibration error: 5.0 points" in text
    assert "mostly too high" in text


def test_many_classes_have_a_table_of_errors(make_one):
    record = make_one(classes=[f"class {k}" for k in range(50)])
    text = error_section(record, record.scores)
    assert "A matrix of 50 classes is too large to draw" in text
    assert 'class="heat"' not in text
    assert text.count('<tr><th scope="row">class 0</th><td>class ') == 30


def test_classes_that_were_not_in_training_have_a_row(record):
    scores = replace(record.scores, true_classes=[*record.scores.true_classes, "any other class"],
                     confusion=[*record.scores.confusion, [1, 0, 0]])  # fmt: skip
    text = error_section(replace(record, scores=scores), scores)
    assert "7 of 37 rows are misclassified." in text
    assert "any other class" in text


def test_missing_numbers_leave_no_trace(record):
    assert "nan" not in error_section(record, replace(record.scores, calibration_error=math.nan))


def test_baselines_with_their_differences(record):
    text = error_section(record, record.scores)
    assert "+10.0 points" in text
    assert "+6.0 to +14.0 points" in text
    assert "the model is better" in text
    assert "not compared: it cannot do with gaps" in text


def test_large_tables_are_sampled_for_baselines(record):
    note = "(of larger tables, on 50,000 rows)"
    assert note not in error_section(record, record.scores)
    large = replace(record, trained_on={**record.trained_on, "linked": 50_001})
    assert note in error_section(large, record.scores)


def test_no_baseline_could_be_fitted(record):
    failed = replace(record, baselines=[BaselineScore("x", None, None, "no rows")])
    text = error_section(failed, record.scores).split("Comparison with baselines")[1]
    assert "<svg" not in text
    assert "not compared: no rows" in text


def test_the_majority_class_alone_or_nothing(record):
    words = "Simple methods were not fitted: that needs the training rows."
    assert words in error_section(replace(record, baselines=None), record.scores)
    majority = replace(record.baselines[0], name=MAJORITY)
    text = error_section(replace(record, baselines=[majority]), record.scores)
    table = text.split("Comparison with baselines")[1]
    assert words in table
    assert "<svg" not in table
    assert '<th scope="row">majority class</th><td>the model is better</td>' in table
    assert words not in error_section(record, record.scores)


def test_the_majority_class_is_not_drawn(record):
    majority = replace(record.baselines[0], name=MAJORITY)
    text = error_section(replace(record, baselines=[majority, *record.baselines]), record.scores)
    drawing = text.split("Comparison with baselines")[1].split("</svg>")[0]
    assert "label propagation" in drawing
    assert MAJORITY not in drawing


def test_curves_and_ranks(record):
    text = learning_section(record)
    assert text.count("<figure>") == 2
    assert "of 3 networks" in text
    assert "effective rank, of 10 dimensions" in text


def test_one_network_and_thinned_epochs(make_one):
    record = make_one(replicas=1)
    text = learning_section(replace(record, learning=replace(record.learning, n_epochs=900)))
    assert "One network." in text
    assert "3 of 900 epochs are drawn." in text


def test_no_history(record):
    text = learning_section(replace(record, learning=None, ranks=[]))
    assert "No learning curves were recorded." in text


def test_warnings_are_listed_absent_or_not_recorded(record):
    def section(warnings):
        return provenance_section(replace(record, fit_warnings=warnings))

    assert "<li>few rows</li>" in section(["few rows"])
    assert "There were none." in section([])
    assert "Warnings were not recorded." in section(None)


def test_the_command_can_be_copied(record):
    text = provenance_section(record)
    assert "<code>hotview fit a.csv</code>" in text
    assert 'class="copy"' in text
    bare = provenance_section(replace(record, metadata={}, trained_on={}))
    assert "The command that trained this model was not recorded." in bare
    assert "copy" not in bare


def test_changed_settings_have_their_default(record):
    text = provenance_section(record)
    assert "differ from the defaults: 1 of 2." in text
    assert "<td>(64,)</td><td>(128,)</td>" in text
    default = [Setting("a", "1", "1", False)]
    assert "defaults: 0 of 1." in provenance_section(replace(record, settings=default))


def test_files_and_versions(record):
    files = {"pix": {"path": "a.csv", "sha256": "ab12"}, "mor": "b.csv"}
    text = provenance_section(replace(record, metadata={"files": files}))
    assert "a.csv, sha256 ab12" in text
    assert "b.csv" in text
    assert '<th scope="row">version of hotview</th><td>1.0</td>' in text
