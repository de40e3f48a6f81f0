# Each target sets up what it needs in .venv, in a fresh clone too: `make demo` is enough.
# Options go through ARGS:  make demo ARGS='--backend trio'   make test ARGS='-k interrupt'

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

# Tests wait for disks and for other processes: one worker more than there are cores.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

# A stamp is newer than pyproject.toml when its extra is installed.
DEMO := $(VENV)/.demo
DEV := $(VENV)/.dev
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test docs-test lint format format-check types bench differential faults promises clean
.DELETE_ON_ERROR:
.DEFAULT_GOAL := test

demo: $(DEMO)
	$(BIN)/python examples/audit_packages.py $(ARGS)

test: $(DEV)
	$(BIN)/python -m pytest tests --ignore=tests/docs -n $(WORKERS) --dist worksteal $(ARGS)

docs-test: $(DEV)
	$(BIN)/python -m pytest tests/docs -n $(WORKERS) $(ARGS)

lint: $(DEV)
	$(BIN)/ruff check .

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only .

format-check: $(DEV)
	$(BIN)/ruff format --check --diff .

types: $(DEV)
	$(BIN)/basedpyright --pythonpath $(BIN)/python

bench: $(DEV)
	$(BIN)/python -m tests.bench $(ARGS)

differential: $(DEV)
	$(BIN)/python -m tests.differential $(ARGS)

faults: $(DEV)
	$(BIN)/python -m pytest tests/faults $(ARGS)

promises: $(DEV)
	$(BIN)/python -m tests.promises
	$(BIN)/python -m tests.migration

clean:
	rm -rf $(VENV) .hypothesis .pytest_cache .ruff_cache

# `--clear` because an interrupted first try can leave half an environment behind.
$(BIN)/pip:
	$(PYTHON) -m venv --clear $(VENV)

$(DEMO): $(BIN)/pip pyproject.toml
	$(PIP) -e '.[demo]'
	@touch $@

# `dev` includes `demo`, so its stamp renews both.
$(DEV): $(BIN)/pip pyproject.toml
	$(PIP) -e '.[dev]'
	@touch $(DEMO) $@
