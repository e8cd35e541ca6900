# Each target sets up what it needs in a fresh clone: a virtual environment in .venv, installed from pyproject.toml.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: setup demo test check bench faults docs figures screenshots browser smoke shapes searches states clean

setup: $(VENV)/.dev

$(VENV)/.venv:
	$(PYTHON) -m venv $(VENV)
	touch $@

# torch comes first and alone: with the pinned build in place nothing after it asks for another one.
$(VENV)/.run: $(VENV)/.venv pyproject.toml constraints.txt
	$(PIP) torch
	$(PIP) --editable .
	touch $@

# The physics engine of RobotPush: a wheel where there is one; elsewhere built from source, with swig from PyPI and
# without fused multiply-add, so that its rewards are those of the wheel to the last digit. C++ is compiled with CFLAGS by
# older releases of setuptools and with CXXFLAGS by newer ones. A wheel in pip's cache, or an engine that is installed
# already, may have been built without either: the first is never used, the second is replaced unless it rounds rightly.
CHECK_ENGINE = $(BIN)/python -c 'import sys; from kappasharp.problems import robot_push as r; sys.exit(r.engine_complaint())'
NO_FMA = CFLAGS=-ffp-contract=off CXXFLAGS=-ffp-contract=off
BUILD_ENGINE = $(PIP) swig setuptools wheel && PATH="$(CURDIR)/$(BIN):$$PATH" $(NO_FMA) $(PIP) --force-reinstall --no-deps \
	--no-cache-dir --no-build-isolation --no-binary box2d-py box2d-py

$(VENV)/.box2d: $(VENV)/.run
	@$(CHECK_ENGINE) 2>/dev/null || $(PIP) --only-binary :all: 'Box2D>=2.3.10' 2>/dev/null || { \
	  echo "Box2D has no wheel for this machine: it is built from source, in about a minute."; $(BUILD_ENGINE); }
	@$(CHECK_ENGINE)
	touch $@

$(VENV)/.dev: $(VENV)/.box2d
	$(PIP) --editable '.[dev,botorch,ax,optuna,peers]'
	touch $@

# What the tests need beside Python: TypeScript and axe-core from the npm registry, a browser, a C++ compiler.
$(VENV)/.node: tests/web/package.json tests/web/package-lock.json | $(VENV)/.dev browser
	cd tests/web && npm ci --no-audit --no-fund --loglevel=error
	touch $@

CHROMIUM = $(or $(KAPPASHARP_CHROMIUM),$(shell command -v chromium || command -v chromium-browser || command -v google-chrome))
ROOT = $(shell [ "$$(id -u)" = 0 ] || echo sudo)

APT = $(ROOT) apt-get install -y --no-install-recommends \
	$$([ -n "$(CHROMIUM)" ] || echo chromium) $$(command -v npm >/dev/null || echo npm) $$(command -v g++ >/dev/null || echo g++)

browser:
	@if [ -n "$(CHROMIUM)" ] && command -v npm >/dev/null && command -v g++ >/dev/null; then :; \
	elif command -v apt-get >/dev/null; then \
	  $(APT) || { $(ROOT) apt-get update && $(APT); } || { echo "Chromium, npm and g++ could not be installed."; exit 1; }; \
	else echo "The tests need Chromium, npm and g++. Install them, or name a Chromium in KAPPASHARP_CHROMIUM."; exit 1; fi

demo: $(VENV)/.run
	$(BIN)/kappasharp demo

# A file's tests stay in one process, so that a server, a browser or a database is started once.
# Some two hundred processes are started: what Python compiled of the package is kept for the next one, whatever the shell says.
TEST = OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

test: check $(VENV)/.node
	$(TEST)

# What needs no test of behaviour: format, lint, who may import whom, types, and the rules that no tool knows.
check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	@$(BIN)/mypy >$(VENV)/types.txt 2>&1 & types=$$!; $(BIN)/python -m pytest tests/house; tests=$$?; wait $$types; types=$$?; \
	cat $(VENV)/types.txt; [ $$tests = 0 ] && [ $$types = 0 ]

bench: $(VENV)/.dev browser
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.run

# What breaks: kills, turned bits, answers sent again, sixteen voters, requests that nobody means (ten minutes).
faults: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.faults

# The recorded states that the benches use: eighteen BoTorch runs, about twenty minutes.
states: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.record_states benchmarks/states.npz

# A minute's worth of the paper's grid, and its report.
smoke: $(VENV)/.dev
	$(BIN)/kappasharp run experiments/smoke.toml --out results/smoke
	$(BIN)/kappasharp report results/smoke

# The shape check of the simulated problems, and the search behind its best known design (ten minutes).
shapes: $(VENV)/.dev
	$(BIN)/python -m benchmarks.shapes plasma-16d

searches: $(VENV)/.dev
	$(BIN)/python -m benchmarks.shapes plasma-16d --search --generations 800

figures: $(VENV)/.dev
	$(BIN)/python docs/figures.py

# The pictures of the page in the README and in docs/page.md, by a real browser.
screenshots: $(VENV)/.dev browser
	OMP_NUM_THREADS=1 $(BIN)/python docs/screenshots.py

docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) tests/web/node_modules site .mypy_cache .pytest_cache .ruff_cache .hypothesis
