from dataclasses import replace

from hotview.evaluation.record.schema import Setting
from hotview.report.page.markup import join
from hotview.report.page.model_section import learning_section, origin_section


def test_curves_and_ranks(record):
    found = join(learning_section(record))
    assert found.count("<figure>") == 2
    assert "Mean of 3 networks" in found
    assert "effective rank, of 10 dimensions" in found


def test_one_network_and_thinned_epochs(make_one):
    record = make_one(replicas=1)
    found = join(learning_section(replace(record, learning=replace(record.learning, n_epochs=900))))
    assert "One network." in found
    assert "3 of 900 epochs are drawn." in found


def test_no_history(record):
    found = join(learning_section(replace(record, learning=None, ranks=[])))
    assert "No history of the training was recorded." in found


def test_warnings_are_told_told_missing_or_not_recorded(record):
    def said(remarks):
        return join(origin_section(replace(record, remarks=remarks)))

    assert "<li>few rows</li>" in said(["few rows"])
    assert "There were none." in said([])
    assert "Warnings were not recorded." in said(None)


def test_the_command_can_be_copied(record):
    found = join(origin_section(record))
    assert "<code>hotview fit a.csv</code>" in found
    assert 'class="copy"' in found
    bare = join(origin_section(replace(record, notes={}, trained_on={})))
    assert "The command that trained this model was not recorded." in bare
    assert "copy" not in bare


def test_changed_settings_come_with_their_default(record):
    found = join(origin_section(record))
    assert "differ from the defaults: 1 of 2." in found
    assert "<td>(64,)</td><td>(128,)</td>" in found
    usual = [Setting("a", "1", "1", False)]
    assert "defaults: 0 of 1." in join(origin_section(replace(record, settings=usual)))


def test_files_and_versions(record):
    files = {"pix": {"path": "a.csv", "sha256": "ab12"}, "mor": "b.csv"}
    found = join(origin_section(replace(record, notes={"files": files})))
    assert "a.csv, sha256 ab12" in found
    assert "b.csv" in found
    assert '<th scope="row">version of hotview</th><td>1.0</td>' in found
