# Two commands on a fresh machine with Python 3.10 or newer: `make demo` and `make test`.
# Both keep their environment in .venv and reuse it. PYTHON=python3.12 chooses another.
PYTHON ?= python3
PY := .venv/bin/python
# OpenMP threads fight over small models' small matrices; see docs/training.md.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM := false

.PHONY: demo test lint clean

demo: .venv/train.stamp
	$(PY) recipes/demo.py

test: .venv/dev.stamp lint
	$(PY) -m pytest -n auto --maxprocesses 4 --dist worksteal

lint: .venv/dev.stamp
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

# torch is named first and exactly: left to itself, pip takes the newest with its CUDA packages.
.venv/train.stamp: pyproject.toml
	$(PYTHON) -m venv .venv
	@echo "Installing into .venv (about 2 GB, one to three minutes) ..."
	$(PY) -m pip install --quiet --disable-pip-version-check torch==2.13.0 -e '.[train,study]'
	touch $@

.venv/dev.stamp: .venv/train.stamp
	$(PY) -m pip install --quiet --disable-pip-version-check torch==2.13.0 -e '.[train,study,dev]'
	touch $@

clean:
	rm -rf .venv demo
