# `make demo` and `make test` set up .venv by themselves; all they need is Python 3.11 (or 3.12), git and make.

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3,$(if $(shell $(p) --version 2>/dev/null),$(p))))
VENV   := .venv
BIN    := $(VENV)/bin
LOG    ?= corpus/failures/h200-1
# Groups of failures that the demo studies: the bound on its time.
STUDIES ?= 8
INPUTS := pyproject.toml constraints.txt

# One constraints file pins what is installed and what builds it.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(PIP_CONSTRAINT)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test lint types contracts pytest format docs numbers clean

help: ## say what each target does
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/.demo ## set up, then distil the committed failure log into proposal branches (no GPU, no torch)
	@$(BIN)/cake distill run $(LOG) --max-studies $(STUDIES)

test: lint types contracts pytest ## set up, then everything that guards main

lint: $(VENV)/.test ## style and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.test ## strict types on cake/core and distill
	@$(BIN)/mypy

contracts: $(VENV)/.test ## which package may import which
	@$(BIN)/lint-imports

pytest: $(VENV)/.test ## the test suite, on two workers
	@$(BIN)/pytest -q -n 2 --dist loadgroup --timeout 300 $(ARGS)

format: $(VENV)/.test ## rewrite files in the house format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(VENV)/.test ## regenerate docs/reference from the registry
	@$(BIN)/python -m cake.cli.reference

numbers: $(VENV)/.test ## measure and write docs/numbers.md (two minutes)
	@$(BIN)/python -m cake.cli.numbers

clean: ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python found: install Python 3.11, or name one with make PYTHON=/path/to/python3.11"; exit 3; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11: install Python 3.11, or name one with make PYTHON=/path/to/python3.11"; exit 3; }
	@$(PYTHON) -m venv $(VENV)

# A stamp for each set of packages: a second run finds it newer than its inputs and installs nothing.
$(VENV)/.demo: $(INPUTS) | $(BIN)/python
	@echo "setting up $(VENV) (once)"
	@$(BIN)/python -m pip install -q -e .
	@touch $@

$(VENV)/.test: $(INPUTS) | $(BIN)/python
	@echo "setting up $(VENV) for the tests (once)"
	@$(BIN)/python -m pip install -q -e '.[dev,oracle,cuda]'
	@touch $@ $(VENV)/.demo
