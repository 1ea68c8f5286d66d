# `make demo` and `make test` do all set-up from a bare clone; the second time they start at once.
PYTHON ?= python3
VENV ?= .venv
TOOLS ?= .venv-tools
BROWSER ?= .venv-browser
SPARK ?= .venv-spark
DOCS ?= .venv-docs
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PYTHONS ?= python3.11 python3.12 python3.13
MATRIX ?= $(PYTHONS) python3.14
# Newer versions of pip read the second for the environment that builds the package, older ones the first.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
INSTALL := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench docs roundtrip browser fuzz fuzz-service postgres spark matrix pins clean

help:
	@echo "make demo    set up and run the demo: a film graph, four films that are new to it"
	@echo "make test    set up and run lint, format check, types and tests"
	@echo "make lint    the checks of make test without the tests"
	@echo "make docs    set up MkDocs and build the documentation as a site, into site/"
	@echo "make bench   set up and time the CPU paths against plain PyTorch (a few minutes)"
	@echo "make roundtrip  set up PyKEEN, PyG and TorchKGE and exchange models with them (a large download)"
	@echo "make browser  set up Playwright and Chromium and use the page as people do (Debian; root where Chromium is missing)"
	@echo "make postgres  set up, install PostgreSQL where it is missing (apt-get), and run the tests that need a server"
	@echo "make spark  set up PySpark, install a Java runtime where it is missing (apt-get), and run the tests on a cluster"
	@echo "make fuzz    set up and give the command line 20,000 damaged inputs (a quarter of an hour)"
	@echo "make fuzz-service  set up and give the server 10,000 malformed requests (some minutes)"
	@echo "make matrix  run the tests on each Python of MATRIX that is here, and say which are missing"
	@echo "make pins    ask pip whether it can resolve constraints.txt, on each Python of PYTHONS (installs nothing)"
	@echo "make format  rewrite the code in the project's format"
	@echo "make clean   remove the virtual environment and caches"

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -e '.[dev]'
	@touch $@

demo: $(INSTALLED)
	@$(BIN)/ookg demo

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest

bench: $(INSTALLED)
	$(BIN)/python benchmarks/cpu.py

# Warnings are errors. The API reference reads the sources: the package itself is not installed there.
$(DOCS)/.installed: Makefile
	$(PYTHON) -m venv $(DOCS)
	PIP_CONSTRAINT= $(DOCS)/bin/python $(INSTALL) mkdocs==1.6.1 mkdocs-material==9.8.1 'mkdocstrings[python]==1.0.8' \
	  mkdocstrings-python==2.0.10 mkdocs-jupyter==0.26.3
	@touch $@

docs: $(DOCS)/.installed
	$(DOCS)/bin/mkdocs build --strict --quiet
	@echo "site/index.html is the first page"

$(TOOLS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python $(INSTALL) -e . pytest pykeen==1.11.1 torchkge==0.17.7 torch_geometric==2.8.1
	@touch $@

roundtrip: $(TOOLS)/.installed
	$(TOOLS)/bin/python -m pytest tests/roundtrip

# axe-core looks for what keeps people out; where there is no npm, that test is skipped.
$(BROWSER)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(BROWSER)
	$(BROWSER)/bin/python $(INSTALL) -e '.[serve]' pytest playwright==1.65.0
	@if command -v npm > /dev/null; then npm install --silent --no-save --prefix $(BROWSER) axe-core@4.14.0; fi
	@touch $@

browser: $(BROWSER)/.installed
	@command -v chromium > /dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -q && \
	  apt-get install -y -q --no-install-recommends chromium fonts-roboto-unhinted; } || \
	  { echo "make browser needs Debian's chromium: as root, apt-get install chromium"; exit 2; }
	$(BROWSER)/bin/python -m pytest tests/browser

# The tests make and start a server of their own, in a temporary folder; unless it is required, they are skipped where
# none is installed.
postgres: $(INSTALLED)
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi; \
	  $$sudo apt-get update && $$sudo apt-get install --yes --no-install-recommends postgresql; \
	}
	OOKG_POSTGRES=required $(BIN)/python -m pytest -m postgres

# Each has an environment of its own, which is kept. One that fails does not keep the others from being tried.
matrix:
	@passed=; failed=; missing=; \
	for python in $(MATRIX); do \
	  if ! command -v $$python > /dev/null; then missing="$$missing $$python"; continue; fi; \
	  if $(MAKE) --no-print-directory PYTHON=$$python VENV=$(VENV)-$$python $(VENV)-$$python/.installed && \
	    $(VENV)-$$python/bin/python -m pytest $(TESTS); then passed="$$passed $$python"; else failed="$$failed $$python"; fi; \
	done; \
	echo "passed:$${passed:- none}; failed:$${failed:- none}; not installed here:$${missing:- none}"; \
	[ -z "$$failed" ] && [ -n "$$passed" ]

# The tests start a cluster of their own, two worker processes on this machine; unless it is required, they are skipped
# where PySpark or a Java runtime is not installed.
$(SPARK)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python $(INSTALL) -e '.[spark]' pytest
	@touch $@

spark: $(SPARK)/.installed
	@[ -n "$$JAVA_HOME" ] || command -v java >/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi; \
	  $$sudo apt-get update && $$sudo apt-get install --yes --no-install-recommends default-jre-headless; \
	}
	OOKG_SPARK=required $(SPARK)/bin/python -m pytest -m spark tests/spark

pins:
	@for python in $(PYTHONS); do \
	  $$python -m venv --clear $(VENV)-pins || exit; \
	  $(VENV)-pins/bin/python $(INSTALL) --upgrade pip || exit; \
	  $(VENV)-pins/bin/python $(INSTALL) --dry-run '.[dev]' || exit; \
	  echo "$$python resolves constraints.txt"; \
	done
	@rm -r $(VENV)-pins

fuzz: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/python -m fuzz

fuzz-service: $(INSTALLED)
	PYTHONPATH=tests $(BIN)/python -m fuzz.requests

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(VENV)-pins $(VENV)-python* $(TOOLS) $(BROWSER) $(SPARK) $(DOCS) site .cache .pytest_cache .mypy_cache \
	  .ruff_cache
