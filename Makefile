# `make` lists the targets. Everything is installed into .venv; a second run re-uses it.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install -q -c constraints.txt
# The demo needs far less than development does, so it has a stamp of its own; a full set-up counts for both.
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo

SEED := 0
CASES := 2000
SECONDS := 600

# The Pythons of the three sets of versions. numpy of the oldest set does not exist for 3.13: so old versions meet the oldest Python,
# and new ones the newest. Each is looked for on the PATH and among the Pythons of pyenv.
find_python = $(shell for found in python$(1) "$$(pyenv prefix "$$(pyenv latest $(1))")/bin/python"; do \
  "$$found" -c "" && echo "$$found" && exit; done 2>/dev/null; echo python$(1))
OLDEST_PYTHON ?= $(call find_python,3.11)
MIDDLE_PYTHON ?= $(call find_python,3.12)
NEWEST_PYTHON ?= $(call find_python,3.13)

# The name of a variable above: fail before anything is installed if its Python does not run.
define need_python
	@$($(1)) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "$(1)=$($(1)) is missing or older than Python 3.11. Install it, or name another one:"; \
	  echo "make $@ $(1)=/path/to/python"; exit 1; }
endef

# An environment, the variable of its Python, and what pip is told besides: install the package with its tests there, and run them.
# The environment is made anew, because venv would keep the Python and the packages of an earlier one.
define test_in
	$(call need_python,$(2))
	$($(2)) -m venv --clear $(1)
	$(1)/bin/python -m pip install -q $(3) -e ".[test]"
	$(1)/bin/python -m pytest -q -n 2 --dist loadfile -m "not shared"
endef

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-quick test-docs test-versions test-oldest test-middle test-newest test-shared fuzz lint format
.PHONY: bench torch extras release-check clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## Install the package and the development tools into .venv

demo: $(DEMO_STAMP)  ## Train on a small example and show the result
	$(PY) examples/demo.py

test: setup  ## Run the tests that need no data files
	$(PY) -m pytest -n 2 --dist loadfile -m "not shared"

test-quick: setup  ## Run the tests that take moments, in less than a minute
	$(PY) -m pytest -q -n 2 -m "not shared and not slow" tests/test_layers.py tests/test_sizes.py tests/test_losses.py \
	  tests/test_activations.py tests/test_starts.py tests/kernels/test_numba_bridge.py tests/tables/test_scaling.py \
	  tests/path/test_rules.py tests/path/test_calibration.py tests/estimators/test_panel.py src/skinnytrees/penalties.py

test-docs: setup  ## Run the examples of the README, the docs and the docstrings
	$(PY) -m pytest -q tests/pages src

test-versions:  ## Run test-oldest, test-middle and test-newest, each with a Python of its own (OLDEST_PYTHON=, ...)
	$(call need_python,OLDEST_PYTHON)
	$(call need_python,MIDDLE_PYTHON)
	$(call need_python,NEWEST_PYTHON)
	@failed=; for set in oldest middle newest; do $(MAKE) test-$$set || failed="$$failed $$set"; done; \
	test -z "$$failed" || { echo "Tests failed with these sets of versions:$$failed"; exit 1; }

test-oldest:  ## Run the tests with the oldest versions that pyproject.toml allows, in an environment of its own
	$(call test_in,.venv-oldest,OLDEST_PYTHON,-c constraints-oldest.txt)

test-middle:  ## Run the tests with versions half way between these and the newest, in an environment of its own
	$(call test_in,.venv-middle,MIDDLE_PYTHON,-c constraints-middle.txt)

test-newest:  ## Run the tests with the newest released versions, in an environment of its own
	$(call test_in,.venv-newest,NEWEST_PYTHON,--upgrade)

fuzz: setup  ## Draw thousands of hostile tables and damaged files, by a seed and with a time limit (SEED=, CASES=, SECONDS=)
	$(PY) -m tests.robustness.fuzz_files --cases $(CASES) --seed $(SEED) --time-limit $(SECONDS)
	$(PY) -m tests.robustness.kill_fits --kills 50 --kind path
	$(PY) -m tests.robustness.kill_fits --kills 50 --kind penalty
	$(PY) -m tests.robustness.damage_cache --damages 50 --kills 20 --seed $(SEED)
	$(PY) -m tests.robustness.fuzz_tables --cases $(CASES) --seed $(SEED) --time-limit $(SECONDS)

test-shared: setup  ## Run the tests on real data sets (set SKINNYTREES_DATA to their folder)
	@test -n "$(SKINNYTREES_DATA)" || { \
	  echo "SKINNYTREES_DATA is not set. Use: make test-shared SKINNYTREES_DATA=/folder/with/the/npz/files"; exit 1; }
	@test -d "$(SKINNYTREES_DATA)" || { \
	  echo "SKINNYTREES_DATA=$(SKINNYTREES_DATA) is not a folder. Set it to the folder with the .npz files."; exit 1; }
	SKINNYTREES_DATA="$(SKINNYTREES_DATA)" $(PY) -m pytest -m shared

lint: setup  ## Check style (ruff), types (mypy) and workflows
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

format: setup  ## Fix what ruff can fix, and format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: setup  ## Measure speed, side by side in one run
	$(PY) -m benchmarks.speed

torch: setup  ## Add PyTorch, for the code that uses it
	$(INSTALL) torch

# torch first: what depends on it would otherwise choose a build of its own.
extras: torch  ## Add everything that tests of extras need: peers, PyTorch, ONNX, databases, Dask
	$(INSTALL) -e ".[all,dev,test-extras]"

release-check: setup  ## Build sdist and wheel, install each in an empty environment and fit a model there
	$(INSTALL) build twine
	rm -rf dist
	$(PY) -m build --outdir dist .
	$(PY) -m twine check --strict dist/*
	for file in dist/*; do \
	  rm -rf .venv-release && $(PYTHON) -m venv .venv-release && .venv-release/bin/python -m pip install -q $$file \
	  && (cd / && $(CURDIR)/.venv-release/bin/python $(CURDIR)/examples/after_installation.py) || exit 1; \
	done
	rm -rf .venv-release

clean:  ## Remove .venv, caches and build output
	rm -rf $(VENV) .venv-oldest .venv-middle .venv-newest .venv-release build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# A failed attempt leaves half an environment behind, which the next run would take for a whole one: hence rm.
$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is missing or older than Python 3.11. Name another one: make PYTHON=/path/to/python3.11"; exit 1; }
	@{ $(PYTHON) -m venv $(VENV) && $(PY) -m pip --version >/dev/null; } || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment with pip. Install its venv and ensurepip modules"; \
	  echo "(on Debian and Ubuntu the package python3-venv), or name another one: make PYTHON=/path/to/python3"; exit 1; }

$(STAMP): pyproject.toml constraints.txt | $(PY)
	$(INSTALL) -e ".[dev]"
	@touch $(DEMO_STAMP) $@

$(DEMO_STAMP): pyproject.toml constraints.txt | $(PY)
	$(INSTALL) -e ".[plots]"
	@touch $@
