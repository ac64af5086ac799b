# Everything is set up in .venv by the first command that needs it; nothing else on the machine is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## install everything into .venv

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Mainspring needs Python 3.11 or newer; say which with: make PYTHON=python3.12 …"; exit 1; }
	@echo "Setting up $(VENV) (about two minutes) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes --requirement constraints.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

# What the container image has of the extras; the embedded MongoDB stays out.
IMAGE_EXTRAS := cli api encryption calendars fast mcp

# What the dashboard is built from; a change of it builds it again.
DASHBOARD := src/mainspring/api/static/dashboard/index.html
PAGES := $(shell find dashboard -path dashboard/node_modules -prune -o -type f -not -name schema.d.ts -print 2>/dev/null)
PACKAGES := dashboard/node_modules/.package-lock.json

$(PACKAGES): $(READY) dashboard/package-lock.json
	@echo "Installing the dashboard's packages …"
	@$(BIN)/python hatch_build.py ci --no-audit --no-fund --prefer-offline
	@touch $@

$(DASHBOARD): $(PACKAGES) $(PAGES)
	@echo "Building the dashboard …"
	@$(BIN)/python hatch_build.py run build --silent -- --logLevel warn
	@touch $@

dashboard: $(DASHBOARD) ## build the dashboard into the package

up: $(READY) $(DASHBOARD) ## run the product on the embedded MongoDB and watch it work
	@$(BIN)/mainspring up

# Hundreds of processes are started; none of them needs to compile what another has compiled. So the tests are collected
# once before the processes of pytest do it, beside the checks.
test: $(READY) $(DASHBOARD) ## check the code, and test it on a real MongoDB (about ten minutes on two cores)
	@$(MAKE) --no-print-directory --jobs 2 check-python check-dashboard compile-tests
	@$(MAKE) --no-print-directory test-code

test-code: $(READY) $(DASHBOARD)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 3 --dist worksteal -m "not system"

test-python: ## test the code with another Python, in an environment of its own: make test-python PYTHON=python3.14
	@$(MAKE) --no-print-directory VENV=.venv-$(notdir $(PYTHON)) test-code

test-system: $(READY) $(DASHBOARD) ## test the whole product: kills, failovers, browsers, attacks, model checking, and the slow tests (about half an hour)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 4 --dist worksteal -m system

test-all: test test-system ## all tests

retest: $(READY) ## run the tests that failed last once more, one after another
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --last-failed --last-failed-no-failures=none

compile-tests: $(READY)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --collect-only -q > /dev/null || true

check: check-python check-dashboard ## format, lint, types, import contracts, dependencies, and the same for the dashboard

check-python: $(READY)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/deptry src

check-dashboard: $(PACKAGES)
	@$(BIN)/python hatch_build.py run check --silent
	@$(BIN)/python hatch_build.py run test --silent

fix: $(READY) $(PACKAGES) ## format and repair what can be repaired by itself
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(BIN)/python hatch_build.py run fix --silent

docs: generated site ## write what is generated, and build the site

generated: $(READY) ## write what is generated: the modules, the references of Python and HTTP, the diagram of packages, sync.pyi
	@PYTHONPATH=tests $(BIN)/python -m harness.sync_stub
	@$(BIN)/python -m supply.modules
	@$(BIN)/python -m supply.python_reference
	@$(BIN)/python -m mainspring.api.generate_reference docs/reference/api.md dashboard/openapi.json
	@$(BIN)/python -m mainspring.cli.generate_reference docs/reference/cli.md

site: $(READY) ## build the documentation as a site with a search into build/site/html, and check its links
	@$(BIN)/python -m supply.site

screenshots: $(READY) $(DASHBOARD) ## take the pictures of the documentation from the demonstration
	@PYTHONPATH=tests $(BIN)/python -m dashboard.screenshots

bench: $(READY) ## measure against the raw MongoDB floor (about ten minutes; BENCH="--quick" for less)
	@PYTHONPATH=tests $(BIN)/python -m bench $(BENCH)

chaos: $(READY) ## kill, pause, cut off and disturb workers and servers under load, and check the history (CHAOS="--seconds 600" for longer)
	@PYTHONPATH=tests $(BIN)/python -m cluster.chaos $(CHAOS)

attack: $(READY) ## attack the running product area by area, and print what held (ATTACK="--only calls --seed 3" for a part)
	@PYTHONPATH=tests $(BIN)/python -m attack $(ATTACK)

specs: $(READY) ## check the TLA+ specifications with larger constants (about ten minutes; SPECS="Graph" for a part)
	@PYTHONPATH=tests $(BIN)/python -m specs $(SPECS)

dist: $(READY) ## build the packages and their bill of materials into dist/
	@$(BIN)/hatchling build
	@$(MAKE) --no-print-directory sbom

sbom: $(READY) ## write the bill of materials (CycloneDX) to dist/sbom.cdx.json
	@$(BIN)/python -m supply dist/sbom.cdx.json

lock: $(READY) ## pin the dependencies anew, with hashes (LOCK="--upgrade" for the latest versions)
	@head -3 constraints.txt > constraints.head
	@$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --native-tls --quiet --output-file constraints.txt $(LOCK)
	@cat constraints.head constraints.txt > constraints.new && mv constraints.new constraints.txt && rm constraints.head
	@$(MAKE) --no-print-directory lock-image

# The image has the same versions as the tests, without the tools.
lock-image: $(READY)
	@$(BIN)/uv pip compile pyproject.toml $(IMAGE_EXTRAS:%=--extra %) --constraint constraints.txt --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --native-tls --quiet --output-file deploy/requirements.txt

clean: ## remove what make has made
	@rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build dashboard/node_modules $(dir $(DASHBOARD))

.PHONY: help setup dashboard up test test-system test-all retest compile-tests test-code test-python check check-python check-dashboard fix docs generated site screenshots bench chaos attack specs dist sbom lock lock-image clean
