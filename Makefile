# `make app` serves the page, `make test` runs the checks, `make unit` those that need no browser;
# each installs what it needs first.
# Needs python3 (3.10 or newer) with venv. Arguments: make app ARGS="--port 8080"

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The browser tests come first, as they are collected: a page is the longest to wait for
TWO := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: app test unit format clean

app: $(VENV)/.app
	$(BIN)/python app.py $(ARGS)

test: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest $(TWO) $(ARGS)

# What needs no browser
unit: $(VENV)/.dev
	$(BIN)/python -m pytest $(TWO) --ignore tests/browser $(ARGS)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "python3 cannot make virtual environments: on Debian, apt install python3-venv"; exit 1; }

$(VENV)/.app: requirements.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements.txt
	touch $@

$(VENV)/.dev: requirements.txt requirements-dev.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements-dev.txt
	touch $@ $(VENV)/.app
