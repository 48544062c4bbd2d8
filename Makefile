# make run: set up everything and serve on port 8080.   make test: set up everything and test it.
# make slow: the tests that take their time (endurance), which make test leaves out.
PYTHON ?= python3
BIN := .venv/bin
RUN := .venv/.run-ready
DEV := .venv/.dev-ready
PACKAGES := modelhotel providers failover proxy requestlogs
# Browsers, processes and stalls depend on what else the machine does: what fails is tried again, twice at most, and named.
PYTEST := $(BIN)/python -m pytest -q --reruns 2 -rR
# A file at a time, in the order of tests/conftest.py.
FILES := --dist loadfile --no-loadscope-reorder

.PHONY: run demo test slow lint types format bench bench-peers bench-smoke clean

run: $(RUN)
	@exec $(BIN)/python manage.py serve

demo: $(RUN)
	@exec $(BIN)/python manage.py demo

test: $(DEV)
	$(PYTEST) tests --ignore=tests/bench -m "not slow" -n 3 $(FILES)
	@if $(BIN)/python -m tests.services postgres; then set -x; \
	  MH_TEST_DATABASE=postgres $(PYTEST) tests --ignore=tests/bench -m "database and not slow" -n 3 $(FILES); \
	elif [ "$$MH_REQUIRE_ALL" = 1 ]; then exit 1; fi
	@if $(BIN)/python -m tests.services compiler; then set -x; \
	  $(PYTEST) tests/bench -m "not slow"; \
	elif [ "$$MH_REQUIRE_ALL" = 1 ]; then exit 1; fi

slow: $(DEV)
	$(PYTEST) tests --ignore=tests/bench -m slow -n 3 $(FILES)
	@if $(BIN)/python -m tests.services compiler; then set -x; \
	  $(PYTEST) tests/bench -m slow; \
	elif [ "$$MH_REQUIRE_ALL" = 1 ]; then exit 1; fi

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/deptry .

types: $(DEV)
	$(BIN)/mypy $(PACKAGES)

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# BENCH=--quick for one short round, BENCH=--write to put the tables into docs/performance.md as well
bench: $(DEV)
	$(BIN)/python -m tests.bench.full $(BENCH)

# Other gateways to compare with, into $$BENCH_DIR (~/.cache/model-hotel-bench); what is missing is left out of the bench
bench-peers: $(DEV)
	$(BIN)/python -m tests.bench.peers

bench-smoke: $(DEV)
	$(BIN)/python -m tests.bench.smoke

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .bench

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Model Hotel needs Python 3.11 or newer: make PYTHON=python3.11 run")'
	$(PYTHON) -m venv .venv

$(RUN): requirements.txt | .venv/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.txt
	@touch $@

$(DEV): requirements-dev.txt requirements.txt | .venv/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-dev.txt
	@touch $@ $(RUN)
