# Each target sets up what it needs in .venv, in a fresh clone too: `make demo` is enough.
# Options go through ARGS:  make demo ARGS='--backend trio'   make test ARGS='-k interrupt'

PYTHON ?= python3
PYTHON_NAMED := $(filter-out file,$(origin PYTHON))
VERSION_OF = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)

# pyenv's `python3.12` starts only where that version is chosen: else the newest that pyenv has.
PYTHON_VERSION := $(call VERSION_OF,$(PYTHON))
ifeq ($(PYTHON_VERSION),)
PYENV_ROOT ?= $(HOME)/.pyenv
PYENV_PYTHON := $(lastword $(shell ls -d $(PYENV_ROOT)/versions/*/bin/$(notdir $(PYTHON)) 2>/dev/null | sort -V))
override PYTHON := $(or $(PYENV_PYTHON),$(PYTHON))
PYTHON_VERSION := $(call VERSION_OF,$(PYTHON))
endif
ifneq ($(and $(PYTHON_NAMED),$(if $(PYTHON_VERSION),,none)),)
$(error PYTHON=$(PYTHON) does not start; `make test-all` says which are found)
endif

# `make test PYTHON=python3.12` beside a `.venv` of another version: that of `make test-all`.
VENV := .venv
ifneq ($(and $(PYTHON_NAMED),$(PYTHON_VERSION),$(wildcard .venv/bin/pip)),)
VENV := $(if $(wildcard .venv/lib/python$(PYTHON_VERSION)),.venv,.venv-$(PYTHON_VERSION))
endif
BIN := $(VENV)/bin
ARGS ?=

# Tests wait for disks and for other processes: one worker more than there are cores.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

# Byte code is kept, whatever the environment says: each test process, and each process that a
# test starts, would otherwise compile the package and the tests again.
export PYTHONDONTWRITEBYTECODE :=

# What tests store is in memory where there are two gigabytes for it: they wait for fsync half of
# the time. A `kill -9` loses no more on a disk, whose pages the kernel keeps; full disks and
# failing writes are made by limits and by injected errors; power cuts by what is recorded of writes
# and syncs. On the disk: `make faults IN_MEMORY=`.
IN_MEMORY := $(shell df --output=avail -k /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 2000000')
test test-all test-newest clients behaviour coverage coverage-core mutants faults: export TMPDIR := $(if $(IN_MEMORY),/dev/shm,$(TMPDIR))

# A stamp is newer than pyproject.toml when its extra is installed.
DEMO := $(VENV)/.demo
CHAT := $(VENV)/.chat
DEV := $(VENV)/.dev
MUTANTS := $(VENV)/.mutants
DOCS := $(VENV)/.docs

# The packages that import `langgraph`, in exact versions: an environment of their own.
ECOSYSTEM := .venv-ecosystem
ECOSYSTEM_DONE := $(ECOSYSTEM)/.done
ECOSYSTEM_PIP := $(ECOSYSTEM)/bin/python -m pip install --quiet --disable-pip-version-check

# Savers of other packages, in another one: they need other versions of the same packages. Two
# were made for an older LangGraph, and are installed without what they require.
SAVERS := .venv-savers
SAVERS_DONE := $(SAVERS)/.done
SAVERS_PIP := $(SAVERS)/bin/python -m pip install --quiet --disable-pip-version-check

NODE := tests/web/node
NODE_DONE := $(NODE)/node_modules/.done

# Tracing lines costs more than half of the time again: `coverage-core` measures the pure packages
# by their own tests, `coverage` everything, on one event loop and without the slower stores,
# because the same lines run again there. COVERED= measures all tests.
CORE := channels codec plan superstep rules
COVERED ?= -k 'not trio and (not (postgres or jsonl) or test_postgres or test_jsonl)'
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

DATABASE ?= audit.db

.PHONY: demo chat chat-test machines studio studio-test clients test coverage coverage-core mutants test-all test-newest test-extras docs docs-test lint format format-check types typing bench goals figures charts counts differential ecosystem behaviour faults faults-report promises picture screenshots house clean
.DELETE_ON_ERROR:
.DEFAULT_GOAL := test

demo: $(DEMO)
	$(BIN)/python examples/audit_packages.py $(ARGS)

chat: $(CHAT)
	PYTHONPATH=examples $(BIN)/python -m chat $(ARGS)

machines: $(DEV)
	cd examples && ../$(BIN)/python -m many_machines $(ARGS)

test: $(DEV)
	$(BIN)/python -m pytest tests --ignore=tests/docs -n $(WORKERS) --dist worksteal $(ARGS)

# JavaScript packages of the tests under Node, from npm's registry; nginx and Chromium if apt has them.
clients: $(DEV) $(NODE_DONE)
	@command -v nginx >/dev/null || apt-get install -y -qq nginx >/dev/null 2>&1 || true
	@command -v chromium >/dev/null || apt-get install -y -qq chromium >/dev/null 2>&1 || true
	$(BIN)/python -m pytest tests/web/test_node_clients.py tests/web/test_sdk.py tests/web/test_sdk_runs.py \
		tests/web/test_sdk_thread_streams.py tests/web/test_wire_sockets.py tests/compat/test_remote.py \
		tests/clients tests/clients/browser $(ARGS)

coverage: $(DEV)
	$(BIN)/python -m pytest tests --ignore=tests/docs -n $(WORKERS) --dist worksteal $(COVERED) \
		--cov=actorgraph --cov-report=json:.coverage.json $(ARGS)
	$(BIN)/python -m tests.covered .coverage.json

coverage-core: $(DEV)
	$(BIN)/python -m pytest $(CORE:%=tests/%) -n $(WORKERS) --dist worksteal -q \
		$(CORE:%=--cov=actorgraph.%) --cov-report=json:.coverage.json $(ARGS)
	$(BIN)/python -m tests.covered .coverage.json

mutants: $(MUTANTS)
	$(BIN)/python -m tests.mutation $(ARGS)

# The tests on every Python 3.11 to 3.14 that is found, each in an environment of its own.
test-all:
	$(PYTHON) -m tests.support.every_python $(ARGS)

# What depends on the interpreter, on the newest of them besides $(PYTHON).
test-newest:
	$(PYTHON) -m tests.support.every_python --newest $(ARGS)

# An environment per extra, from the wheel.
test-extras: $(DEV)
	$(BIN)/python -m pytest tests/packaging --long $(ARGS)

# Pages, examples and the site. In CI its browser is installed if apt has one.
docs-test: $(DEV) $(DOCS)
	$(if $(CI),@command -v chromium >/dev/null || apt-get install -y -qq chromium >/dev/null 2>&1 || true)
	$(BIN)/python -m pytest tests/docs -n $(WORKERS) $(ARGS)

# A static folder, `site/`, which opens without a server and without a network.
docs: $(DOCS)
	$(BIN)/python -m tests.support.site.build $(ARGS)

lint: $(DEV)
	$(BIN)/ruff check .

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only .

format-check: $(DEV)
	$(BIN)/ruff format --check --diff .

types: $(DEV)
	$(BIN)/basedpyright --pythonpath $(BIN)/python

# Users' programs under both checkers: those of tests/typing/, the examples, the README.
typing: $(DEV)
	$(BIN)/python -m pytest tests/typing $(ARGS)
	$(BIN)/python -m pytest tests/typing --long $(ARGS)

bench: $(DEV)
	$(BIN)/python -m tests.bench $(ARGS)

goals: $(DEV)
	$(BIN)/python -m tests.bench.goals $(ARGS)

figures: $(DEV)
	$(BIN)/python -m tests.bench.pages $(ARGS)

charts: $(DEV)
	$(BIN)/python -m tests.bench.pages --charts $(ARGS)

counts: $(DEV)
	$(BIN)/python -m tests.support.call_counts --renew
	$(BIN)/python -m tests.support.house --calls

differential: $(DEV)
	$(BIN)/python -m tests.differential $(ARGS)

# MariaDB and Redis are installed if apt has them; without them MySQL is left out, and Redis is a
# server in Python.
ecosystem: $(DEV) $(ECOSYSTEM_DONE) $(SAVERS_DONE)
	@command -v mariadbd >/dev/null && command -v redis-server >/dev/null || \
		apt-get install -y -qq mariadb-server redis-server >/dev/null 2>&1 || true
	$(BIN)/python -m tests.ecosystem --python $(ECOSYSTEM)/bin/python \
		--savers $(SAVERS)/bin/python $(ARGS)

behaviour: $(DEV)
	$(BIN)/python -m pytest -p tests.support.blocking_plugin tests/api tests/runtime \
		-n $(WORKERS) --dist worksteal $(ARGS)

studio: $(DEV)
	@test -f $(DATABASE) || $(BIN)/python examples/audit_packages.py --db $(DATABASE) json email xml
	$(BIN)/python -m actorgraph.studio $(DATABASE) $(ARGS)

studio-test: $(DEV)
	@command -v chromium >/dev/null || apt-get install -y -qq chromium >/dev/null 2>&1 || true
	$(BIN)/python -m pytest tests/studio/browser $(ARGS)

chat-test: $(DEV)
	@command -v chromium >/dev/null || apt-get install -y -qq chromium >/dev/null 2>&1 || true
	$(BIN)/python -m pytest tests/examples/browser $(ARGS)

# And the cases that `make test` leaves out; with ARGS some of tests/faults alone. What has passed
# on this tree isn't run again: PART=1/4, then 2/4 and so on, in as many sessions.
faults: $(DEV)
	$(BIN)/python -m tests.support.fault_book run --workers $(WORKERS) $(if $(PART),--part $(PART)) $(ARGS)

faults-report: $(DEV)
	$(BIN)/python -m tests.support.fault_book report

promises: $(DEV)
	$(BIN)/python -m tests.support.promises
	$(BIN)/python -m tests.support.langgraph_page
	$(BIN)/python -m tests.support.names_page
	$(BIN)/python -m tests.support.compat_page

picture: $(DEV)
	$(BIN)/python -m tests.support.layers_picture
	$(BIN)/python -m tests.support.site.pictures

screenshots: $(DEV)
	$(BIN)/python -m tests.support.site.screenshots

house: $(DEV)
	$(BIN)/python -m tests.support.house

clean:
	rm -rf .venv .venv-3.* $(ECOSYSTEM) $(SAVERS) $(NODE)/node_modules .hypothesis .pytest_cache .ruff_cache .coverage*

# `--clear` because an interrupted first try can leave half an environment behind.
$(BIN)/pip:
	$(PYTHON) -m venv --clear $(VENV)

$(DEMO): $(BIN)/pip pyproject.toml
	$(PIP) -e '.[demo]'
	@touch $@

$(CHAT): $(BIN)/pip pyproject.toml
	$(PIP) -e '.[web]' 'fastapi>=0.115' 'uvicorn>=0.34'
	@touch $@

# `dev` includes `demo`, so its stamp renews both.
$(DEV): $(BIN)/pip pyproject.toml
	$(PIP) -e '.[dev]'
	@touch $(DEMO) $@

# The generator and every extra: the reference shows what they export.
$(DOCS): $(BIN)/pip pyproject.toml
	$(PIP) -e '.[docs]'
	@touch $@

$(MUTANTS): $(DEV) pyproject.toml
	$(PIP) -e '.[mutants]'
	@touch $@

$(NODE_DONE): $(NODE)/package.json $(NODE)/package-lock.json
	npm ci --prefix $(NODE) --no-audit --no-fund
	@touch $@

# Our own package is not installed: its dependencies are, and programs import it from this tree.
$(ECOSYSTEM_DONE): pyproject.toml tests/ecosystem/requirements.txt
	$(PYTHON) -m venv --clear $(ECOSYSTEM)
	$(ECOSYSTEM_PIP) '.[trio,postgres,langchain]' -r tests/ecosystem/requirements.txt
	$(ECOSYSTEM)/bin/python -m pip uninstall --quiet --yes actorgraph
	@touch $@

$(SAVERS_DONE): pyproject.toml tests/ecosystem/savers/requirements.txt tests/ecosystem/savers/alone.txt
	$(PYTHON) -m venv --clear $(SAVERS)
	$(SAVERS_PIP) '.[trio,postgres,langchain]' -r tests/ecosystem/savers/requirements.txt
	$(SAVERS_PIP) --no-deps -r tests/ecosystem/savers/alone.txt
	$(SAVERS)/bin/python -m pip uninstall --quiet --yes actorgraph
	@touch $@
