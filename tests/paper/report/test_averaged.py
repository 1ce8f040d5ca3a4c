from paper.catalog import EXPERIMENTS
from paper.cells import Cell
from paper.models import SETTINGS, TRAINED
from paper.report.averaged import averaged_part
from paper.report.results import Entry, Outcome, Results


def outcome():
    cells = EXPERIMENTS["averaged"].cells(["caltech7"])
    scores = {False: (90.0, 92.0), True: (89.0, 92.0)}
    entries = {cell: Entry(cell, {"test": scores[bool(cell.overrides)]}) for cell in cells}
    return Outcome("averaged", "", 2, {"caltech7": {"label": "Caltech7"}}, entries)


def test_every_row_is_run_with_both_readings():
    cells = EXPERIMENTS["averaged"].cells(["caltech7"])
    assert [cell.method for cell in cells if not cell.overrides] == list(TRAINED)
    changed = [dict(cell.overrides) for cell in cells if cell.overrides]
    assert len(changed) == len(TRAINED)
    n = 44  # 5 % of 884 training rows
    assert changed[0]["coupling__weight"] == n * SETTINGS["coupling__weight"]
    assert changed[0]["view_regularizer__weight"] == n * SETTINGS["view_regularizer__weight"]


def test_the_part_has_both_means_and_their_difference():
    text = averaged_part(Results({"averaged": outcome()})).text
    (line,) = [line for line in text.splitlines() if line.startswith("| HOT (11) |")]
    assert [cell.strip() for cell in line.split("|")][3:5] == ["91.0 ± 1.4", "90.5 ± 2.1"]
    assert "−0.50" in line


def test_rows_that_lack_a_reading_are_left_out():
    found = outcome()
    gone = Cell("caltech7", "semi-supervised", "DGCCA", "paper")
    entries = {cell: entry for cell, entry in found.entries.items() if cell != gone}
    part = averaged_part(Results({"averaged": Outcome("averaged", "", 2, found.datasets, entries)}))
    assert "| DGCCA |" not in part.text
    assert "| LSCCA |" in part.text
