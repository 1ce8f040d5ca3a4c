"""The pages keep their word: they build, their code runs, and they name everything public."""

import importlib
import os
import re
import shlex
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import sklearn
import typer
from sklearn.utils.estimator_checks import estimator_checks_generator
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

import hotview
from hotview import MultiViewClassifier, MultiViewEncoder, StackedViews
from hotview.cli import app, main
from tests.test_public_api import PUBLIC_MODULES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md"))}
REFERENCE = {
    name: page
    for page in sorted((DOCS / "reference").glob("*.md"))
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)
}


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


#: Its code is that of README.md, which has a test of its own.
SAME_AS_README = "index.md"
#: Its code is run by a test of its own, which reads what was logged.
LOGGING = "guides/logging.md"


#: pages whose code takes ten seconds or more
EXPENSIVE = {"scikit-learn.md", "guides/predictions.md", "guides/models-that-last.md"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in EXPENSIVE else [])
        for name, page in PAGES.items()
        if name not in (SAME_AS_README, LOGGING) and python_blocks(page)
    ],
)
@pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")
def test_python_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = compile("\n".join(python_blocks(PAGES[name])), name, "exec")
    try:
        exec(code, {"__name__": "__main__"})
    except ImportError as error:
        if "needs a newer torch" not in str(error):
            raise
        pytest.skip(str(error))


def test_trackers_have_every_value_of_the_history(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tmp_path.as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setitem(sys.modules, "git", None)  # MLflow asks it for the commit, in processes
    page: dict = {"__name__": "__main__"}
    exec("\n".join(python_blocks(PAGES[LOGGING])), page)
    mlflow, history = page["mlflow"], page["encoder"].history_
    (run,) = mlflow.search_runs(output_format="list")
    events = EventAccumulator("runs/first").Reload()
    for name in history[0]:
        tag, expected = f"member_0/{name}", {row["epoch"]: row[name] for row in history}
        metrics = mlflow.MlflowClient().get_metric_history(run.info.run_id, tag)
        assert {metric.step: metric.value for metric in metrics} == expected
        if name != "seconds":  # of another fit
            found = {event.step: event.value for event in events.Scalars(tag)}
            assert found == pytest.approx(expected, rel=1e-5)  # they are float32
    assert run.info.status == "FINISHED"


def test_the_first_page_shows_code_that_runs():
    readme = (ROOT / "README.md").read_text()
    for code in python_blocks(PAGES[SAME_AS_README]):
        assert code in readme, "what docs/index.md shows is not what README.md shows, and runs"


@pytest.mark.skipif(not sklearn.__version__.startswith("1.9."), reason="counted with 1.9")
@pytest.mark.parametrize("wrapped", (MultiViewClassifier, MultiViewEncoder))
def test_the_numbers_of_checks_are_scikit_learns(wrapped):
    page = PAGES["scikit-learn.md"].read_text()
    (stated,) = re.findall(rf"^\| `{wrapped.__name__}` \| (\d+) \|", page, re.MULTILINE)
    model = StackedViews(wrapped(), {"a": slice(0, 1), "b": slice(1, None)})
    assert int(stated) == len(list(estimator_checks_generator(model)))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built strictly: a link to nowhere or an unreadable docstring fails."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_pages_load_nothing_from_elsewhere_and_leave_no_role_as_it_was_typed(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        for pattern in (
            r'<(?:script|img|iframe)[^>]* src="?(https?://[^">]+)',
            r'<link[^>]* rel="?(?:stylesheet|preconnect)"?[^>]*(https?://\S+)',
        ):
            assert not re.findall(pattern, text), page.name
        if page.parent.name == "reference":
            found = re.findall(r"\.\. math::|:math:|:class:|wzxhzdk", text)
            assert not found, f"{page.name}: {found}"
    assert 'class="formula"' in (site / "reference" / "losses.html").read_text()


def test_every_public_name_is_on_its_page(site):
    *_, packed = (site / "objects.inv").read_bytes().split(b"\n", 4)  # for links of other sites
    there = {line.split(" ", 1)[0] for line in zlib.decompress(packed).decode().splitlines()}
    for module in REFERENCE:
        names = importlib.import_module(module).__all__
        assert {f"{module}.{name}" for name in names} <= there, module


@pytest.mark.parametrize("module", REFERENCE)
def test_documented_defaults_of_every_page_are_compared(module):
    assert module in PUBLIC_MODULES, f"add {module} to PUBLIC_MODULES"


def test_every_name_at_the_top_is_in_the_table():
    table = PAGES["reference/index.md"].read_text()
    for name in hotview.__all__:
        assert f"`hv.{name}`" in table, name
        if f"hotview.{name}" in sys.modules:
            assert f"hotview.{name}" in REFERENCE, f"hotview.{name} has no page"


#: What makes the guide's commands quick, and nothing else different.
QUICK = {
    "fit": ("--max-epochs", "1", "--n-estimators", "2"),
    "report": ("--no-umap", "--no-baselines"),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")
def test_commands_of_the_first_guide_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = PAGES["guides/three-files.md"].read_text()
    blocks = re.findall(r"```console\n\$ hotview (.*?)```", page, re.DOTALL)
    printed = ""
    for arguments in (shlex.split(block.replace("\\\n", " ")) for block in blocks):
        result = CliRunner().invoke(app, [*arguments, *QUICK.get(arguments[0], ())])
        assert result.exit_code == 0, (arguments, result.output, result.exception)
        printed += result.output
    used = {block.split()[0] for block in blocks}
    assert used >= {"demo", "fit", "predict", "evaluate", "report"}
    (quoted,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert quoted in printed
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"digits", "digits.hotview", "predictions.csv", "from-mor.csv", "report.html"}


@pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")
def test_the_guide_to_messy_tables_gets_the_messages_it_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = PAGES["guides/messy-tables.md"].read_text()
    exec(python_blocks(PAGES["guides/messy-tables.md"])[0], {})
    capsys.readouterr()
    said, codes = "", []
    for kind, block in re.findall(r"```(console|text)\n(.*?)```", page, re.DOTALL):
        if kind == "text":
            for line in block.splitlines():
                assert line in said.splitlines(), line
            continue
        program, *arguments = shlex.split(block.removeprefix("$ "))
        arguments += QUICK.get(arguments[0], ())
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        codes.append(end.value.code or 0)
        said = "".join(capsys.readouterr())
    assert codes == [1, 1, 1, 1, 1, 0, 0, 0]
    assert (tmp_path / "predictions.csv").read_text().count("\n") == 401


def test_every_command_is_on_the_page():
    table = PAGES["command-line.md"].read_text()
    shown = re.findall(r"^\| `(\w+)` \|.* \| `hotview (\w+) .*`", table, re.MULTILINE)
    assert {name for name, _ in shown} == set(typer.main.get_command(app).commands)
    assert all(name == used for name, used in shown)


def test_options_on_the_page_exist():
    commands = typer.main.get_command(app).commands.values()
    known = {option for c in commands for p in c.params for option in (*p.opts, *p.secondary_opts)}
    known |= {"--help", "--install-completion", "--show-completion"}
    assert set(re.findall(r"(--[a-z][\w-]+)", PAGES["command-line.md"].read_text())) <= known


def test_commands_that_are_shown_exist():
    shown = re.findall(r"^\$ make ([\w-]+)", "\n".join(p.read_text() for p in PAGES.values()), re.M)
    makefile = (ROOT / "Makefile").read_text()
    for target in (*shown, "docs", "docs-serve"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
