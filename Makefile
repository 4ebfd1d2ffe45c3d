# `make app` starts the page, `make test` runs all checks, and `make unit` runs the tests that need
# no browser. Each command first installs the packages that it needs.
# Requires python3 (3.10 or newer) with venv. Pass arguments like this: make app ARGS="--port 8080"

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Keeping the order of collection runs the browser tests first, because they take longest.
TWO := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: app test unit format clean

app: $(VENV)/.app
	$(BIN)/python app.py $(ARGS)

test: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest $(TWO) $(ARGS)

# Runs the tests that need no browser.
unit: $(VENV)/.dev
	$(BIN)/python -m pytest $(TWO) --ignore tests/browser $(ARGS)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "python3 cannot create virtual environments. On Debian: apt install python3-venv"; exit 1; }

$(VENV)/.app: requirements.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements.txt
	touch $@

$(VENV)/.dev: requirements.txt requirements-dev.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements-dev.txt
	touch $@ $(VENV)/.app
