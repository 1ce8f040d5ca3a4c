import subprocess
import sys

import hotview


def test_the_package_can_be_run():
    command = [sys.executable, "-m", "hotview", "--version"]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    assert found.stdout == f"hotview {hotview.__version__}\n"
