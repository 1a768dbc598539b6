# Two commands on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
# Both keep their environment in .venv and reuse it. PYTHON=python3.12 chooses another Python.
# Without a GPU, PIP_EXTRA_INDEX_URL=<pytorch.org's index of CPU builds> saves 2.5 GB.
PYTHON ?= python3
PY := .venv/bin/python
CHECK_PYTHON = $(PYTHON) --version >/dev/null 2>&1 || { echo "$(PYTHON) does not run: install Python \
3.11 or newer, or name one, as in PYTHON=python3.12 make demo" >&2; exit 1; }; $(PYTHON) tools/check_python.py
# One more than there are cores: tests of servers and children also wait.
WORKERS ?= $(shell expr 1 + $$(getconf _NPROCESSORS_ONLN))
# OpenMP threads fight over small models' small matrices.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM := false
# Without bytecode, each test worker and each command that a test starts would compile all modules.
unexport PYTHONDONTWRITEBYTECODE
# The demo reports its whole time, the installation included.
export DEMO_BEGUN := $(shell date +%s)

.PHONY: demo test test-slow test-oldest lint docs clean

demo: .venv/train.stamp
	@$(PY) recipes/demo/demo.py

# Under three minutes of tests on two cores; test-slow runs those that take longer.
test: .venv/dev.stamp lint
	$(PY) -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal

test-slow: .venv/dev.stamp
	$(PY) -m pytest -n auto --maxprocesses 2 --dist worksteal --run-slow -m slow --durations 10

# The same tests with the oldest versions that pyproject.toml allows: 5 GB in .venv-oldest.
test-oldest: .venv-oldest/dev.stamp
	.venv-oldest/bin/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal

lint: .venv/dev.stamp
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

# build/site/index.html, with an API reference. A broken anchor or a missing docstring is an error
# (not with --quiet, which hides warnings from `strict`, too).
docs: .venv/docs.stamp
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build

.venv/train.stamp: pyproject.toml
	@$(CHECK_PYTHON)
	@$(PYTHON) tools/install.py .venv train,study
	@touch $@

.venv/dev.stamp: .venv/train.stamp
	@$(PYTHON) tools/install.py .venv train,study,dev
	@touch $@

.venv/docs.stamp: .venv/dev.stamp
	@$(PYTHON) tools/install.py .venv train,study,dev,docs
	@touch $@

.venv-oldest/dev.stamp: pyproject.toml
	@$(CHECK_PYTHON)
	@$(PYTHON) tools/install.py .venv-oldest train,study,server,dev --oldest
	@touch $@

clean:
	rm -rf .venv .venv-oldest demo build
