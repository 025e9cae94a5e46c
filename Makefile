# Requires make and Python 3.11 or later. Everything else is installed into .venv on demand, at the versions
# pinned in constraints.txt.

VENV      := .venv
BIN       := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LIVE      := $(VENV)/.live
DOCS      := $(VENV)/.docs
RELEASE   := $(VENV)/.release
# The complete environment if it exists, or a smaller one.
LIVE_OR_ALL := $(or $(wildcard $(INSTALLED)),$(LIVE))
DOCS_OR_ALL := $(or $(wildcard $(INSTALLED)),$(DOCS))
RIVALS    := $(VENV)/.rivals

ARGS   ?=
SEEDS  ?= 2000
# Processes of pytest: one more than cores, since tests of live clusters mostly wait.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Interpreter of .venv. Empty: python3.11, or the fastest build of it (tools/fastest_python.py).
PYTHON ?=
# Not empty if .venv must be replaced: its Python is missing or differs from PYTHON.
STALE  := $(shell version() { "$$@" -Ic 'import sys; print(sys.base_prefix, sys.version)' 2>&1; }; \
    [ -x $(BIN)/python ] $(if $(PYTHON),&& [ "$$(version $(PYTHON))" = "$$(version $(BIN)/python)" ]) || echo stale)

# Use only the packages of the environment, whatever the caller's shell sets.
unexport PYTHONPATH
unexport PYTHONHOME
unexport VIRTUAL_ENV
# Keep bytecode files: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: $(STALE) help run reproduce beyond story test check format fuzz fuzz-all explore fuzz-decoders mutants chaos chaos-spark bench compiled compare-compiled test-compiled docs release screenshots install install-live clean

help: ## Show this list
	@echo 'make <target> [ARGS="…"]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(INSTALLED) ## Run a live cluster under faults and the paper's experiments on Spark; ends with a report page
	@echo '1. Live cluster: TPC-C on three replicas with crashes, restarts and a partition (about half a minute)'
	@echo '2. Pipeline: the live run and some experiments of the paper, simulated, measured, verified and drawn (some minutes)'
	@$(BIN)/creek pipeline run --grid quick --record-live runs/live --force $(ARGS)

reproduce: compiled ## Run all experiments of the paper; continues after an interruption
	@$(BIN)/creek pipeline run --grid paper $(ARGS)

beyond: compiled ## Run the experiments on Creek's extensions beyond the paper; continues after an interruption
	@$(BIN)/creek pipeline run --grid beyond $(ARGS)

story: $(LIVE_OR_ALL) ## Show a walkthrough of five replicas, a partition and its healing
	@$(BIN)/creek simulate --story $(ARGS)

test: check ## Run all checks and tests; ARGS go to pytest: make test ARGS="-k paxos"
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

check: $(INSTALLED) ## Check format, lint, types, import contracts and prose
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/prose.py

format: $(INSTALLED) ## Format the code and apply the linter's fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

fuzz: $(INSTALLED) ## Search for a seed that breaks the protocol: make fuzz SEEDS=2000
	@$(BIN)/creek fuzz --seeds $(SEEDS) $(ARGS)

fuzz-all: $(INSTALLED) ## Spread seeds over all schemes: make fuzz-all SEEDS=20000
	@set -- $$($(BIN)/python -c 'from creekdb.schemes.registry import BUILT_IN; print(*BUILT_IN)'); \
	for scheme in "$$@"; do \
	    echo "$$scheme:"; \
	    $(BIN)/creek fuzz --scheme "$$scheme" --seeds $$(( ($(SEEDS) + $$# - 1) / $$# )) $(ARGS) || exit 1; \
	done

explore: $(INSTALLED) ## Compare docs/explore.md with explorations: make explore ARGS="smallest crash"
	@$(BIN)/python -m tests.docs.exploration $(ARGS)

fuzz-decoders: $(INSTALLED) ## Decode damaged messages and files: make fuzz-decoders ARGS="--minutes 10"
	@$(BIN)/python -m tests.fuzzing $(ARGS)

mutants: $(INSTALLED) ## Check that the fuzzer or a test catches every planted fault
	@$(BIN)/python tests/mutants/run.py $(ARGS)

chaos: $(INSTALLED) ## Inject faults into real processes: make chaos ARGS="--minutes 60 --seed 7"
	@$(BIN)/creek torture --spark $(ARGS)

chaos-spark: $(INSTALLED) ## Kill Spark drivers, executors and replicas while Spark streams read and write
	@$(BIN)/python -m tests.pipeline.sink_kills --times 20
	@$(BIN)/python -m tests.pipeline.live_source

bench: compiled $(RIVALS) ## Measure the costs that must hold
	@$(BIN)/python -m benchmarks $(ARGS)

compiled: $(INSTALLED) ## Compile the hot modules, if there is a C compiler; from then on all commands use them
	@$(BIN)/python tools/compile.py

compare-compiled: compiled ## Compare trace hashes and error texts of the compiled modules with those of the source: ARGS is the number of seeds
	@$(BIN)/python tools/compare_compiled.py $(ARGS)

test-compiled: compiled ## Test the compiled modules and compare their trace hashes with the source
	CREEK_COMPILED=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup \
	    tests/cluster tests/http tests/paper tests/simulation tests/sql tests/sql_clients \
	    tests/unit/dbapi tests/unit/sql tests/unit/driver tests/unit/server tests/unit/wire tests/unit/datatypes tests/unit/execution tests/unit/protocol \
	    tests/unit/schemes tests/unit/simulation $(ARGS)
	$(BIN)/python tools/compare_compiled.py

docs: $(DOCS_OR_ALL) ## Build the documentation into build/site
	@echo 'Building the documentation ...'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict $(ARGS)
	@echo 'The documentation is build/site/index.html. Search needs a server:'
	@echo '  $(BIN)/python -m http.server 8000 --directory build/site    # at http://localhost:8000'

release: $(INSTALLED) $(RELEASE) ## Build the source distribution, wheels and documentation of a release, and check them
	@$(BIN)/python -m tools.release

screenshots: $(INSTALLED) ## Take the pictures of the README with Chromium; the report needs make reproduce first
	CREEK_SCREENSHOTS=docs/images CREEK_REPORT=$(wildcard runs/paper/report.html) \
		$(BIN)/python -m pytest -q tests/http/test_page_browser.py tests/pipeline/test_report_browser.py $(ARGS)

install: $(INSTALLED) ## Set up .venv; all other targets do this on demand
	@echo 'Ready: $(BIN)/creek --help'

install-live: $(LIVE) ## Set up .venv for live clusters only, without Spark and test dependencies
	@echo 'Ready: $(BIN)/creek up'

# -qq shows only the errors of pip.
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-input --disable-pip-version-check \
    --constraint constraints.txt --editable

# A working environment is updated. A broken one, an outdated one, or one of another Python is replaced.
define MAKE_VENV
	@usable() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }; \
	if [ -n '$(STALE)' ] || ! usable $(BIN)/python || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    for python in $(or $(PYTHON),python3.11 python3) ''; do usable "$$python" && break; done; \
	    if [ -z "$$python" ]; then \
	        echo 'Python 3.11 or later not found: tried $(or $(PYTHON),python3.11 and python3); install it or set PYTHON.' >&2; \
	        exit 1; \
	    fi; \
	    $(if $(PYTHON),,python=$$("$$python" tools/fastest_python.py) || exit 1;) \
	    echo "Creating $(VENV) with $$("$$python" --version) ($$python) ..."; \
	    "$$python" -m venv --clear $(VENV); \
	fi
endef

$(INSTALLED): pyproject.toml constraints.txt $(STALE)
	$(MAKE_VENV)
	@echo 'Installing creekdb and its pinned dependencies into $(VENV); this takes some minutes ...'
	@$(PIP_INSTALL) '.[dev]'
	@touch $@

$(LIVE): pyproject.toml constraints.txt $(STALE)
	$(MAKE_VENV)
	@echo 'Installing creekdb for live clusters into $(VENV) ...'
	@$(PIP_INSTALL) '.[certs,sql]'
	@touch $@

$(DOCS): pyproject.toml constraints.txt $(STALE)
	$(MAKE_VENV)
	@echo 'Installing creekdb and the tools of its documentation into $(VENV) ...'
	@$(PIP_INSTALL) '.[docs]'
	@touch $@

# Linter of the container file, and auditwheel. `make release` names them if they are missing.
$(RELEASE): $(INSTALLED)
	@if $(PIP_INSTALL) '.[release]'; then touch $@; \
	    else echo 'hadolint or auditwheel could not be installed; make release omits their steps.' >&2; fi

# Systems that the benchmarks compare Creek with. The table names those that are missing.
$(RIVALS): $(INSTALLED)
	@if $(PIP_INSTALL) '.[bench]'; then touch $@; \
	    else echo 'PySyncObj could not be installed; the benchmarks skip it.' >&2; fi

clean: ## Remove everything that make created, including .venv; keeps runs/
	rm -rf $(VENV) build dist src/*.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find benchmarks src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
