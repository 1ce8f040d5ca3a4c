# Two commands matter: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
PYTHON_LOWEST ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SETUP := pyproject.toml constraints.txt src/hotview/__init__.py

.PHONY: demo test test-all test-lowest test-federated test-distributed golden golden-update fuzz mutants lint format bench bench-gpu bench-check bench-tables paper docs docs-serve wheel clean

demo: $(VENV)/.demo-ready
	$(BIN)/hotview demo --force

# Lint, types and the fast tests, in as many processes as cores: five minutes on two.
test: $(VENV)/.test-ready
	$(BIN)/python -m tests $(ARGS)

# Also what takes long: real processes, browsers, notebooks, a federation, the golden record, fuzz.
test-all: $(VENV)/.test-ready
	$(BIN)/python -m tests --all $(ARGS)

# The lowest version of every dependency that pyproject.toml allows, on the lowest Python.
test-lowest: .venv-lowest/.ready
	PATH="$(CURDIR)/.venv-lowest/bin:$$PATH" OMP_NUM_THREADS=1 \
	    .venv-lowest/bin/python -m pytest --numprocesses auto --dist worksteal

# Flower itself: a SuperLink and three SuperNodes on loopback, with TLS and keys; some ten minutes.
test-federated: $(VENV)/.test-ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/federated -m slow

# Processes of torchrun, one of them killed in the middle and all started again: two minutes.
test-distributed: $(VENV)/.test-ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/cli/test_fit.py tests/training/test_distributed.py \
	    tests/model_selection -m slow

# Eighty small fits, stage by stage, beside the record of what they computed: two minutes.
golden: $(VENV)/.test-ready
	$(BIN)/python -m tests.golden $(ARGS)

# Writes that record: make golden-update REASON="why the numbers moved", which the commit says too.
golden-update: $(VENV)/.test-ready
	$(BIN)/python -m tests.golden --update "$(REASON)"

# Damaged and hostile files, messages and inputs: a minute, or as long as ARGS="--minutes 600" says.
fuzz: $(VENV)/.test-ready
	OMP_NUM_THREADS=1 $(BIN)/python -m fuzz $(ARGS)

# Errors put into copies of the source, one at a time, which the tests must notice: ten minutes.
mutants: $(VENV)/.test-ready
	OMP_NUM_THREADS=1 $(BIN)/python -m fuzz.mutation_run $(ARGS)

lint: $(VENV)/.test-ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/.test-ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# How fast, on this machine's CPU: two and a half hours, and 20 GB of disk for tables larger than memory.
BENCHMARKS := start_up ot_core paper_training against_cca_zoo against_gromov_wasserstein \
    predict_rows model_files precision growth larger_than_memory distributed sizes
bench: $(VENV)/.bench-ready
	set -e; for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py; done

# The same on an NVIDIA GPU, from the source tree: PYTHON has torch, POT and nothing of ours.
BENCHMARKS_ON_GPU := ot_core paper_training predict_rows precision growth sizes
bench-gpu:
	set -e; for name in $(BENCHMARKS_ON_GPU); do \
	    PYTHONPATH=src:.:$$PYTHONPATH $(PYTHON) benchmarks/$$name.py --device cuda; done

# What has become slower: quick runs beside the committed records.
bench-check: $(VENV)/.bench-ready
	$(BIN)/python benchmarks/check.py

# Tables of the README and the docs, and the page on the paper, from the result files.
bench-tables: $(VENV)/.demo-ready
	$(BIN)/python -m paper report --force
	$(BIN)/python benchmarks/readme_tables.py

# The paper's evaluation: everything, or a part by ARGS="table2 --dataset handwritten".
paper: $(VENV)/.test-ready
	$(BIN)/python -m paper run $(ARGS)

# The site, whole: a broken link or a docstring that cannot be read fails.
docs: $(VENV)/.test-ready
	$(BIN)/python -m mkdocs build --strict

docs-serve: $(VENV)/.test-ready
	$(BIN)/python -m mkdocs serve

# Builds the wheel, then proves it: an empty environment installs it and runs the demo.
wheel: $(VENV)/.demo-ready
	rm -rf dist .venv-wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt dist/hotview-*.whl
	cd dist && ../.venv-wheel/bin/hotview demo --figure wheel-demo.png
	rm -rf .venv-wheel

clean:
	rm -rf $(VENV) .venv-lowest .venv-wheel dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-ready: $(SETUP) | $(BIN)/python
	$(PIP) --editable .
	touch $@

$(VENV)/.test-ready: $(VENV)/.demo-ready
	$(PIP) --editable ".[dev]"
	touch $@

$(VENV)/.bench-ready: $(VENV)/.demo-ready
	$(PIP) --editable ".[bench]"
	touch $@

.venv-lowest/.ready: pyproject.toml constraints-lowest.txt
	$(PYTHON_LOWEST) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check \
	    --constraint constraints-lowest.txt --editable ".[test]"
	touch $@
