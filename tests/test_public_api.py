"""What prose promises a machine checks: names, types, docstrings, defaults."""

import ast
import doctest
import importlib
import inspect
import json
import re
import runpy
import subprocess
import sys
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path

import pytest

import hotview
from hotview.datasets import make_views

HOTVIEW = """
ot similarity datasets losses semisupervised estimators evaluation model_selection model
federated omics report.tables report.figures
"""
PUBLIC_MODULES = (*(f"hotview.{name}" for name in HOTVIEW.split()), "paper.models")


def public_objects():
    for module in map(importlib.import_module, PUBLIC_MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{module.__name__}.{name}", thing


OBJECTS = dict(public_objects())
CLASSES = {name: c for name, c in OBJECTS.items() if inspect.isclass(c)}
FUNCTIONS = {name: f for name, f in OBJECTS.items() if inspect.isfunction(f)}
METHODS = {
    f"{name}.{attribute}": f
    for name, c in CLASSES.items()
    for attribute, f in vars(c).items()
    if inspect.isfunction(f) and not attribute.startswith("_")
}
CALLABLES = {**FUNCTIONS, **METHODS}


def test_top_level_names_exist():
    for name in hotview.__all__:
        assert getattr(hotview, name) is not None
    assert set(hotview.__all__) <= set(dir(hotview))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hotview.nothing


def test_every_name_is_exported_once():
    names = [name.rsplit(".", 1)[1] for name in OBJECTS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", OBJECTS)
def test_documented_with_an_example(name):
    doc = inspect.getdoc(OBJECTS[name])
    assert doc, f"{name} has no docstring"
    assert doctest.DocTestParser().get_examples(doc), f"{name} has no doctest"


@pytest.mark.parametrize("name", CALLABLES)
def test_typed(name):
    f = CALLABLES[name]
    signature = inspect.signature(f)
    assert signature.return_annotation is not inspect.Signature.empty, f"{name}: no return type"
    for p in signature.parameters.values():
        assert p.name == "self" or p.annotation is not inspect.Parameter.empty, f"{name}: {p.name}"


def documented_parameters(f):
    """Name → what stands after the colon, from a numpydoc Parameters section."""
    doc = inspect.getdoc(f) or ""
    match = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", doc, re.M | re.S)
    lines = match[1].splitlines() if match else []
    return dict(line.split(" : ", 1) for line in lines if re.match(r"\w[\w, ]* : ", line))


def overridden(name):
    """The method that a method of a public class overrides, which documents it, if any."""
    owner, _, attribute = name.rpartition(".")
    bases = CLASSES[owner].__mro__[1:] if owner in CLASSES else ()
    return next((vars(base)[attribute] for base in bases if attribute in vars(base)), None)


WITH_PARAMETERS = {**CALLABLES, **{n: c for n, c in CLASSES.items() if documented_parameters(c)}}


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_documented_defaults_are_those_of_the_signature(name):
    f = WITH_PARAMETERS[name]
    documented = documented_parameters(f)
    if not documented and inspect.isfunction(overridden(name)):
        documented = documented_parameters(overridden(name))
    parameters = {k: p for k, p in inspect.signature(f).parameters.items() if k != "self"}
    assert list(documented) == list(parameters), f"{name} documents other parameters than it takes"
    for key, p in parameters.items():
        found = re.search(r"default=(.+)$", documented[key])
        if p.default is inspect.Parameter.empty:
            assert not found, f"{name}: {key} has no default, but one is documented"
        else:
            assert found, f"{name}: the default of {key} is not documented"
            made = {x.name: x.default_factory for x in fields(f)} if is_dataclass(f) else {}
            is_made = made.get(key, MISSING) is not MISSING
            default = made[key]() if is_made else p.default
            assert ast.literal_eval(found[1]) == default, f"{name}: {key}"


def in_fresh_interpreter(code):
    command = [sys.executable, "-c", code]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_import_changes_no_global_state_and_loads_nothing_but_ourselves():
    code = """
import json, logging, random, sys, warnings
import numpy, sklearn, torch
def state():
    return [torch.get_num_threads(), torch.initial_seed(), torch.get_default_dtype().__repr__(),
            random.getstate()[1][:3], numpy.random.get_state()[1][:3].tolist(),
            [str(f) for f in warnings.filters], len(logging.getLogger().handlers),
            logging.getLogger().level, str(numpy.geterr())]
before, loaded = state(), set(sys.modules)
import hotview, hotview.ot, hotview.datasets
new = {m.split(".")[0] for m in set(sys.modules) - loaded} - sys.stdlib_module_names
print(json.dumps([before, state(), sorted(new)]))
"""
    before, after, new = in_fresh_interpreter(code)
    assert before == after
    assert new == ["hotview"]


def test_what_takes_long_to_import_is_imported_by_what_needs_it():
    code = """
import json, sys
import hotview.cli
heavy = ("torch", "sklearn", "matplotlib", "pyarrow", "h5py")
print(json.dumps([m for m in heavy if m in sys.modules]))
"""
    assert in_fresh_interpreter(code) == []


def test_a_saved_model_predicts_without_what_only_fits_need(tmp_path):
    data = make_views(60, n_views=2, n_groups=1, labeled=1.0, random_state=0)
    model = hotview.MultiViewClassifier(max_epochs=1, n_estimators=2, random_state=0)
    model.fit(data.linked, data.linked_target)
    path = str(model.save(tmp_path / "model.hotview"))
    code = f"""
import json, sys
import safetensors.torch, sklearn, torch
if torch.__version__ < "2.5":
    import sympy  # which this torch imports for layers without memory
before = set(sys.modules)
import hotview
from hotview.datasets import make_views
model = hotview.load({path!r})
for method in (model.predict_proba, model.transform):
    method({{"view_0": torch.zeros(1, model.n_features_per_view_["view_0"])}})
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    new = set(in_fresh_interpreter(code))
    assert {m.split(".")[0] for m in new} - sys.stdlib_module_names <= {"hotview", "sklearn"}
    heavy = {"sklearn.decomposition", "sklearn.metrics", "sklearn.model_selection"}
    assert not (heavy | {"hotview.estimators.fit"}) & new


def test_the_package_says_that_it_is_typed_and_can_be_run(monkeypatch, capsys):
    assert (Path(hotview.__file__).parent / "py.typed").exists()
    monkeypatch.setattr(sys, "argv", ["hotview", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("hotview", run_name="__main__")
    assert not end.value.code
    assert capsys.readouterr().out == f"hotview {hotview.__version__}\n"
