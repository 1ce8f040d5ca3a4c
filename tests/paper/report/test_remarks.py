from paper.report.remarks import remarks_part


def test_no_warnings_no_section(results):
    assert remarks_part(results).text == ""


def test_warnings_are_counted_per_training(summaries, read):
    for entry in summaries["table3"]["cells"]:
        cell = entry["cell"]
        if cell["settings"] == "paper" and cell["method"] in ("HOT (10)", "HOT (11)"):
            entry["warnings"] = {"UserWarning: The plan W has not converged": 10.0}
    text = remarks_part(read(summaries)).text
    assert text.splitlines()[-1] == (
        "| UserWarning: The plan W has not converged… | unsupervised | the paper's settings "
        "| HOT (10) and HOT (11) | 2.0 |"
    )


def test_mixed_parameters_are_told(summaries, read):
    summaries["table2"]["cells"][0]["mixed_parameters"] = True
    text = remarks_part(read(summaries)).text
    assert "trials of handwritten_semi-supervised_lscca_paper were run with different" in text
