# The two commands of the README are `make demo` and `make test`; both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One process a core; numerical threads inside the workers would only fight each other.
WORKERS ?= 2
SINGLE_THREADED := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
# Tests start many processes, which need not compile the library again each.
KEEPING_BYTECODE := PYTHONDONTWRITEBYTECODE=

.PHONY: help venv demo test test-slow check lint types contracts format bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP)  ## create .venv with everything the tests need

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: venv  ## show the main thing in under a minute
	@$(BIN)/deltaai demo

test: venv  ## run the tests (minutes)
	$(KEEPING_BYTECODE) $(SINGLE_THREADED) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow"

test-slow: venv  ## run the long tests too, and check the shapes of all calls
	DELTAAI_CHECK_ALL=1 $(KEEPING_BYTECODE) $(SINGLE_THREADED) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

check: lint types contracts test  ## everything a change must pass

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

contracts: venv
	$(BIN)/lint-imports --no-cache

format: venv  ## rewrite the code in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: venv  ## install what the benchmarks compare with
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
