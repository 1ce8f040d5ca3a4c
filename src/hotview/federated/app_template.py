"""A Flower app for given organizations, ready to run."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
import hotview
from hotview.federated.configuration import told_run_config
from hotview.federated.settings import Settings
import json
from collections.abc import Mapping, Sequence
from string import Template

__all__ = ["CLIENT", "SERVER", "organization_text", "project_text", "readme_text", "write_app"]

def write_app(folder: str | Path, names: Sequence[str], settings: Settings | None = None) -> Path:
    """Write a Flower app, all of it or nothing.

    Parameters
    ----------
    folder : str or Path
        Where to; there must be nothing in it.
    names : sequence of str
        The organizations, which are the views.
    settings : Settings or None, default=None
        What they agree on; None takes the defaults.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview.federated.app_template import write_app
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     app = write_app(Path(folder) / "study", ["clinical", "genetic"])
    ...     sorted(path.name for path in app.iterdir())
    ['README.md', 'federation', 'organizations', 'pyproject.toml']
    """
    folder, settings = Path(folder), settings or Settings()
    _check_names(names, settings)
    _check_folder(folder)
    config = told_run_config(names, settings)
    files = {
        "pyproject.toml": project_text(names, config, hotview.__version__),
        "README.md": readme_text(names),
        "federation/__init__.py": "",
        "federation/client_app.py": CLIENT,
        "federation/server_app.py": SERVER,
        **{f"organizations/{name}.toml": organization_text(name) for name in names},
    }
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        for path, text in files.items():
            (draft / path).parent.mkdir(exist_ok=True)
            (draft / path).write_text(text, encoding="utf-8")
        umask = os.umask(0)
        os.umask(umask)
        draft.chmod(0o777 & ~umask)  # what an ordinary mkdir would have given it
        if folder.exists():
            folder.rmdir()
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return folder


def _check_names(names: Sequence[str], settings: Settings) -> None:
    if len(names) < 2:
        raise ValueError(f"Expected two organizations or more, but there is {list(names)}.")
    for name in names:
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise ValueError(
                "Expected names of letters, digits, '_', '.' and '-', because files are called "
                f"after them, but there is {name!r}."
            )
    if len({name.lower() for name in names}) < len(names):
        raise ValueError(f"Expected names that tell organizations apart, but got {list(names)}.")
    holder = settings.label_holder
    if holder is not None and holder not in names:
        raise ValueError(f"Expected label_holder among {list(names)}, but it is {holder!r}.")


def _check_folder(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty; choose another folder, or empty it.")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"the folder {folder.parent} does not exist; make it first.")


CLIENT = '''"""The side of an organization."""

from hotview.federated.flower import make_client_app

app = make_client_app()
'''
SERVER = '''"""The side of whoever brings the organizations together."""

from hotview.federated.flower import make_server_app

app = make_server_app()
'''
_PROJECT = Template("""\
[project]
name = "hotview-federation"
version = "1.0.0"
description = "Views of $listed, trained together; no row leaves its organization"
license = "LicenseRef-Private"
requires-python = ">=3.11"
dependencies = ["hotview[federated]>=$version"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
packages = ["federation"]

[tool.flwr.app]
publisher = "hotview"
# Nothing else in this folder is sent to anybody.
fab-include = ["federation/*.py"]

[tool.flwr.app.components]
serverapp = "federation.server_app:app"
clientapp = "federation.client_app:app"

# What all agree on; `flwr run --run-config 'rounds=3'` changes it for once.
[tool.flwr.app.config]
$config
""")
_ORGANIZATION = Template("""\
# What $name has, and how it takes part. This file stays with $name, and so does all that it names.
# Paths are relative to this file.
name = "$name"
file = "$name.csv"  # one row per individual: .csv, .parquet, .npy and what else `hotview fit` reads
folder = "$name"  # where its state is kept and, in the end, its part of the model: part.hotview
# id_column = "id"  # the column that tells who a row is
# linked = "linked.txt"  # ids that all agreed on, one a line, in the same order everywhere
# label_column = "label"  # for the label holder
# drop = ["postcode"]  # columns to leave out
# categorical = ["ward"]  # columns of numbers that are categories
# impute = "mean"  # missing cells
# device = "auto"
# share = ["features"]  # what of linked people it is willing to send: "features", "labels"

# Noise on what is sent, such that all rounds together are (epsilon, delta)-differentially private:
# [privacy]
# epsilon = 8.0
# delta = 1e-5
""")
_README = Template("""\
# A federation of $listed

Each organization trains its own encoder on its own machine; a coordinator, which sees no row,
brings them together through [Flower](https://flower.ai). All need the same release of hotview:
`pip install "hotview[federated]"`. Commands are run in this folder. All sides have it, but of
`organizations/` each has only its own file. To try it all on one machine, use `HOST=localhost`.

```bash
# everybody, in every terminal
export HOST=coordinator.example.org PORT=9092
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
```

## Once

The coordinator makes an authority and a certificate, and gives `keys/ca.crt` to all organizations;
the other files are for itself.

```bash
# coordinator, once
mkdir -p keys
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:secp384r1 -noenc -days 365 \\
  -subj "/CN=hotview federation" -addext "keyUsage=critical,keyCertSign,cRLSign" \\
  -keyout keys/ca.key -out keys/ca.crt
openssl req -newkey ec -pkeyopt ec_paramgen_curve:secp384r1 -noenc -subj "/CN=$$HOST" \\
  -addext "subjectAltName=DNS:$$HOST,DNS:localhost,IP:127.0.0.1" \\
  -keyout keys/server.key -out keys/server.csr
openssl x509 -req -in keys/server.csr -CA keys/ca.crt -CAkey keys/ca.key -days 365 \\
  -copy_extensions copy -out keys/server.pem
```

Every organization makes a pair of keys, and gives the public one to the coordinator.

```bash
# organizations, once, each its own
mkdir -p keys
$keygen
```

Every organization says in `organizations/NAME.toml` which table it has. Who is known to all
(`linked`) is agreed on beforehand, outside this system, best by private set intersection, which
tells nobody anything about those who are not in common.

## Every time

```bash
# coordinator, in a terminal of its own
FLWR_HOME="$$PWD/.flwr/superlink" flower-superlink --host 0.0.0.0 --port $$PORT \\
  --ssl-ca-certfile keys/ca.crt --ssl-certfile keys/server.pem --ssl-keyfile keys/server.key \\
  --enable-supernode-auth --disable-runtime-dependency-installation
```

```bash
# coordinator: where it is, and whose keys are whose
export FLWR_HOME="$$PWD/.flwr/coordinator"
mkdir -p "$$FLWR_HOME"
printf '[superlink.ours]\\naddress = "%s:%s"\\nroot-certificates = "%s"\\n' \\
  "$$HOST" "$$PORT" "$$PWD/keys/ca.crt" > "$$FLWR_HOME/config.toml"
$register
```

```bash
# organizations, each its own, in a terminal of its own
$supernodes
```

```bash
# coordinator, to begin or to go on
export FLWR_HOME="$$PWD/.flwr/coordinator"
flwr run . ours --stream
```

The coordinator is told who is missing, and who was left out of a round and why. A run that was
stopped or killed goes on from `coordinator/checkpoint.federated` when it is started again; delete
the file to begin anew. What the coordinator knows in the end is in `coordinator/outcome.json`, and
each organization finds its part of the model in `organizations/NAME/part.hotview`: a model of its
own view, for `hotview predict` or `hotview transform`. Those who give their parts to one another
put them together with `hotview federated join`.

Whoever has all tables, to try it, needs none of this: `hotview federated simulate .` is the same
training in one process.

## What to know

- A SuperNode runs the app that the coordinator sends it, with the rights of the user who started
  it. Give this user no more rights than it needs; `--trusted-entities` limits whose apps are run.
- Whoever reaches the SuperLink's port may register keys and start apps, unless Flower's accounts
  are set up. Let only the organizations and the coordinator reach it.
- Of an error at an organization only its kind is sent; the rest is in the log of its SuperNode.
- A SuperNode that was killed is let in again once the SuperLink has missed it, after about a
  minute; until then it ends at once. Let a supervisor start it again.
- Every message begins a process, which takes seconds. `local-steps` in `pyproject.toml` says how
  many steps of training it is for.
""")


def project_text(names: Sequence[str], config: Mapping[str, object], version: str) -> str:
    """The ``pyproject.toml``.

    Parameters
    ----------
    names : sequence of str
        The organizations.
    config : dict of str to (bool, int, float or str)
        What the coordinator goes by.
    version : str
        Of hotview.

    Returns
    -------
    str
        TOML.

    Examples
    --------
    >>> from hotview.federated.app_template import project_text
    >>> project_text(["a", "b"], {"rounds": 3}, "1.0").splitlines()[-1]
    'rounds = 3'
    """
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in config.items())
    return _PROJECT.substitute(listed=_listed(names), config=lines, version=version)


def organization_text(name: str) -> str:
    """The configuration of an organization.

    Parameters
    ----------
    name : str
        Of its view.

    Returns
    -------
    str
        TOML.

    Examples
    --------
    >>> from hotview.federated.app_template import organization_text
    >>> 'name = "clinical"' in organization_text("clinical")
    True
    """
    return _ORGANIZATION.substitute(name=name)


def readme_text(names: Sequence[str]) -> str:
    """What each side has to do.

    Parameters
    ----------
    names : sequence of str
        The organizations.

    Returns
    -------
    str
        Markdown.

    Examples
    --------
    >>> from hotview.federated.app_template import readme_text
    >>> readme_text(["clinical", "genetic"]).splitlines()[0]
    '# A federation of clinical and genetic'
    """
    keygen = [f'ssh-keygen -q -t ecdsa -b 384 -N "" -C {name} -f keys/{name}' for name in names]
    register = [f"flwr supernode register keys/{name}.pub ours --name {name}" for name in names]
    # Ports of their own, so that all nodes can be on one machine.
    nodes = [
        f'FLWR_HOME="$PWD/.flwr/{name}" flower-supernode --superlink $HOST:$PORT \\\n'
        f"  --root-certificates keys/ca.crt --auth-supernode-private-key keys/{name} \\\n"
        f"  --port {9100 + i} --node-config 'config=\"organizations/{name}.toml\"'"
        for i, name in enumerate(names, 1)
    ]
    return _README.substitute(
        listed=_listed(names),
        keygen="\n".join(keygen),
        register="\n".join(register),
        supernodes="\n".join(nodes),
    )


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}"
