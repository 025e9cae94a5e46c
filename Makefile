# Needs make and Python 3.11 or later; everything else is installed into .venv, at the versions that
# constraints.txt pins, the first time a target wants it.

VENV      := .venv
BIN       := $(VENV)/bin
COMPILED  := PYTHONPATH=$(CURDIR)/build/compiled
INSTALLED := $(VENV)/.installed
LIVE      := $(VENV)/.live
RIVALS    := $(VENV)/.rivals

ARGS   ?=
SEEDS  ?= 2000
# What .venv is made with; empty: python3.11, or a quicker build of it (tools/quickest_python.py).
PYTHON ?=
# Not empty where .venv cannot stay: its Python is gone, or is another than PYTHON names.
STALE  := $(shell who() { "$$@" -Ic 'import sys; print(sys.base_prefix, sys.version)' 2>&1; }; \
    [ -x $(BIN)/python ] $(if $(PYTHON),&& [ "$$(who $(PYTHON))" = "$$(who $(BIN)/python)" ]) || echo stale)

# The environment's own packages, and nothing that the caller's shell happens to point at.
unexport PYTHONPATH
unexport PYTHONHOME
unexport VIRTUAL_ENV
# What is compiled is kept: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: $(STALE) help run reproduce story test check format fuzz mutants chaos bench compiled test-compiled docs screenshots install install-live clean

help: ## Show this list
	@echo 'make <target> [ARGS="…"]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(INSTALLED) ## The whole story: a live cluster, broken and healed, and the paper, on Spark, as a page
	@echo '1. A live cluster: TPC-C on three replicas, which are killed, started again and divided; a minute'
	@$(BIN)/creek live-run --out runs/live --force
	@echo
	@echo '2. That run beside some of the paper'"'"'s experiments: simulated, measured, verified, drawn; some minutes'
	@$(BIN)/creek pipeline run --grid quick --live runs/live --force $(ARGS)

reproduce: compiled ## All of the paper's experiments; goes on where it was interrupted
	@$(COMPILED) $(BIN)/creek pipeline run --grid paper $(ARGS)

story: $(INSTALLED) ## Tell the story of five replicas, a partition and its healing
	@$(BIN)/creek simulate --story $(ARGS)

test: check ## Check, then run the tests; ARGS go to pytest: make test ARGS="-k paxos"
	$(BIN)/python -m pytest -n auto --dist loadgroup $(ARGS)

check: $(INSTALLED) ## Check format, lint, types and the imports between rooms
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(INSTALLED) ## Format the code and repair what the linter can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

fuzz: $(INSTALLED) ## Look for a seed that breaks the protocol: make fuzz SEEDS=2000
	@$(BIN)/creek fuzz --seeds $(SEEDS) $(ARGS)

mutants: $(INSTALLED) ## Break the protocol on purpose and see that the fuzzer notices
	@$(BIN)/python tests/mutants/run.py $(ARGS)

chaos: $(INSTALLED) ## Kill, freeze, divide real processes: make chaos ARGS="--minutes 60 --seed 7"
	@$(BIN)/python -m tests.cluster.chaos $(ARGS)

bench: compiled $(RIVALS) ## Measure the costs that must hold
	@$(COMPILED) $(BIN)/python -m benchmarks $(ARGS)

compiled: $(INSTALLED) ## Compile Creek into build/compiled, where there is a C compiler
	@$(BIN)/python tools/compile.py

# Tests that look at all attributes of a replica, which compiled objects do not list, or put other
# numbers in the place of constants, which compiled modules do not look up.
OF_SOURCE := tests/unit/schemes/test_determinism.py tests/unit/schemes/test_rejected_messages.py \
    tests/unit/server/storage/test_journal.py tests/unit/server/observability/test_metrics.py
# Tests that put something of their own in the place of what is compiled.
REPLACING := \
    tests/unit/server/storage/test_direct_io.py::test_a_file_never_becomes_longer \
    tests/unit/server/storage/test_direct_io.py::test_a_file_system_that_cannot_after_all_is_not_asked_again \
    tests/unit/server/storage/test_direct_io.py::test_other_errors_and_short_writes_are_told \
    tests/unit/server/storage/test_direct_io.py::test_nothing_stays_open \
    tests/unit/server/storage/test_direct_io.py::test_where_a_file_cannot_be_opened_so_others_write \
    tests/unit/server/storage/test_journal_async_writes.py::test_it_is_given_up_when_it_fails_for_a_reason_of_its_own \
    tests/cluster/test_backup.py::test_a_copy_that_is_never_begun_holds_on_to_nothing \
    tests/cluster/test_backup.py::test_who_asks_for_more_than_it_reads_is_left_alone \
    tests/cluster/test_bad_input.py::test_calls_that_wait_for_others_are_bounded_in_number \
    tests/cluster/test_client_failover.py::test_a_call_is_done_once_however_late_its_first_replica_is_back \
    tests/cluster/test_client_failover.py::test_a_call_is_done_once_however_many_follow_before_its_first_replica_is_back \
    tests/cluster/test_client_failover.py::test_no_call_takes_the_place_of_one_that_was_asked_for_again \
    tests/cluster/test_execution.py::test_a_long_operation_does_not_hold_up_the_replica \
    tests/cluster/test_faults_clocks.py::test_a_clock_that_is_ahead_is_reported_and_nobody_waits_for_it \
    tests/cluster/test_sessions.py::test_a_connection_keeps_nothing_of_a_session_that_is_over \
    tests/cluster/test_tasks.py::test_a_replica_stops_when_one_of_its_tasks_breaks \
    tests/http/test_metrics.py::test_an_answer_that_changed_is_an_apology \
    tests/unit/simulation/kernel/test_shared_executions.py::test_what_is_remembered_is_bounded

test-compiled: compiled ## Run the tests near what is compiled on it, and compare it with the source
	$(COMPILED) $(BIN)/python -m pytest -n auto --dist loadgroup \
	    tests/cluster tests/http tests/paper tests/simulation \
	    tests/unit/cluster tests/unit/datatypes tests/unit/execution tests/unit/protocol \
	    tests/unit/schemes tests/unit/simulation $(OF_SOURCE:%=--ignore=%) $(REPLACING:%=--deselect=%) $(ARGS)
	$(BIN)/python tools/compare_compiled.py

docs: $(INSTALLED) ## Build the documentation into build/site
	@echo 'Building the documentation ...'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict $(ARGS)
	@echo 'The documentation is build/site/index.html. To search in it, too, serve it:'
	@echo '  $(BIN)/python -m http.server 8000 --directory build/site    # at http://localhost:8000'

screenshots: $(INSTALLED) ## Take the pictures that the README shows, with Chromium; of the report, after make reproduce
	CREEK_SCREENSHOTS=docs/images CREEK_REPORT=$(wildcard runs/paper/report.html) \
		$(BIN)/python -m pytest -q tests/http/test_page_browser.py tests/pipeline/test_report_browser.py $(ARGS)

install: $(INSTALLED) ## Set up .venv; the other targets do so by themselves
	@echo 'Ready: $(BIN)/creek --help'

install-live: $(LIVE) ## Set up .venv for live clusters alone, without Spark and what tests need
	@echo 'Ready: $(BIN)/creek up'

# -qq leaves pip its errors and takes its chatter.
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-input --disable-pip-version-check \
    --constraint constraints.txt --editable

# An environment that works is kept and brought up to date; one that is broken, outdated or of another
# Python than the one asked for is replaced.
define MAKE_VENV
	@usable() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }; \
	if [ -n '$(STALE)' ] || ! usable $(BIN)/python || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    for python in $(or $(PYTHON),python3.11 python3) ''; do usable "$$python" && break; done; \
	    if [ -z "$$python" ]; then \
	        echo 'Creek needs Python 3.11 or later; looked for as $(or $(PYTHON),python3.11 and python3).' >&2; \
	        exit 1; \
	    fi; \
	    $(if $(PYTHON),,python=$$("$$python" tools/quickest_python.py) || exit 1;) \
	    echo "Creating $(VENV) with $$("$$python" --version) ($$python) ..."; \
	    "$$python" -m venv --clear $(VENV); \
	fi
endef

$(INSTALLED): pyproject.toml constraints.txt $(STALE)
	$(MAKE_VENV)
	@echo 'Installing creekdb and the packages that constraints.txt pins into $(VENV); it takes minutes ...'
	@$(PIP_INSTALL) '.[dev]'
	@touch $@

$(LIVE): pyproject.toml constraints.txt $(STALE)
	$(MAKE_VENV)
	@echo 'Installing creekdb for live clusters into $(VENV) ...'
	@$(PIP_INSTALL) '.[certs]'
	@touch $@

# What Creek is compared with. Where it cannot be had, the table says so.
$(RIVALS): $(INSTALLED)
	@if $(PIP_INSTALL) '.[bench]'; then touch $@; \
	    else echo 'PySyncObj cannot be installed, and is left out.' >&2; fi

clean: ## Remove everything that make created, .venv included; runs/ is kept
	rm -rf $(VENV) build dist src/*.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find benchmarks src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
