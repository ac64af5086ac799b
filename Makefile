# Everything is set up in .venv by the first command that needs it; nothing else on the machine is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## install everything into .venv

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Mainspring needs Python 3.11 or newer; say which with: make PYTHON=python3.12 …"; exit 1; }
	@echo "Setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[all]" --group dev
	@touch $@

up: $(READY) ## run the product on the embedded MongoDB and watch it work
	@$(BIN)/mainspring up

# Hundreds of processes are started; none of them needs to compile what another has compiled.
test: $(READY) check ## check the code and run all tests (about thirteen minutes on two cores)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist worksteal

check: $(READY) ## format, lint, types, import contracts, dependencies
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/deptry src

fix: $(READY) ## format and repair what can be repaired by itself
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY) ## measure against the raw MongoDB floor (about ten minutes; BENCH="--quick" for less)
	@$(BIN)/python -m bench $(BENCH)

chaos: $(READY) ## kill, pause and disturb workers and servers under load, and check the history (CHAOS="--seconds 600" for longer)
	@PYTHONPATH=tests $(BIN)/python -m cluster.chaos $(CHAOS)

clean: ## remove what make has made
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build

.PHONY: help setup up test check fix bench chaos clean
