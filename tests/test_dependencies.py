"""The lower bounds of pyproject.toml are the versions that `make test-lowest` installs."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def declared(texts):
    """Requirements, with those of the project's own extras among them."""
    for requirement in map(Requirement, texts):
        if requirement.name == PROJECT["name"]:
            for extra in requirement.extras:
                yield from declared(PROJECT["optional-dependencies"][extra])
        else:
            yield requirement


def pinned(name):
    lines = (ROOT / name).read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(package): Version(version) for package, version in pairs}


def test_the_lowest_pins_are_the_lower_bounds():
    pins = pinned("constraints-lowest.txt")
    requirements = list(declared([*PROJECT["dependencies"], "hotview[test]"]))
    assert len(requirements) > 30
    for requirement in requirements:
        (bound,) = requirement.specifier  # a lower one alone
        assert bound.operator == ">="
        assert Version(bound.version) == pins[canonicalize_name(requirement.name)], requirement


def test_the_newest_pins_are_allowed():
    pins = pinned("constraints.txt")
    for requirement in declared([*PROJECT["dependencies"], "hotview[bench,dev]"]):
        assert pins[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_all_extras_of_users_are_in_the_tests():
    (extras,) = re.findall(r"hotview\[(.*?)\]", " ".join(PROJECT["optional-dependencies"]["test"]))
    assert {*extras.split(","), "bench", "docs", "test", "dev"} == set(
        PROJECT["optional-dependencies"]
    )
