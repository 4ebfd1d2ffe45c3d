# `make app` starts the page, `make test` runs the checks, and `make unit` runs the tests that need
# no browser. `make test FULL=1` also runs tests that resemble others, as `.ci/run` does. Each command
# first installs the packages that it needs with uv, which is also installed if there is none.
# Requires python3 (3.10 or newer) with venv, or uv. `make app` downloads CIFAR-10 in the background.
# Pass arguments like this: make app ARGS="--no-download --port 8080"

VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
ifneq ($(UV),)
PYTHON ?= >=3.10
CREATE_VENV := uv venv -q --seed --python "$(PYTHON)" $(VENV)
UV_INSTALL := uv pip install -q --python $(BIN)/python
else
PYTHON ?= python3
CREATE_VENV := $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
  echo "python3 cannot create virtual environments. On Debian: apt install python3-venv"; exit 1; }
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -q
UV_INSTALL := $(PIP_INSTALL) uv && $(BIN)/python -m uv pip install -q --python $(BIN)/python
endif
PIP_INSTALL ?= $(UV_INSTALL)
# Installs the build of torch for this machine's GPU or CPU, from PyTorch's own server if possible.
INSTALL = { $(UV_INSTALL) --torch-backend=auto $(1); } || \
  { echo "Installing torch from PyPI, because its own server is not available."; $(PIP_INSTALL) $(1); }
# Keeping the order of collection runs the browser tests first, because they take longest.
TWO := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: app lint test unit format clean

app: $(VENV)/.app
	$(BIN)/python app.py --download $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/deno lint && $(BIN)/deno fmt --check

test: lint
	$(BIN)/python -m pytest $(TWO) $(if $(FULL),--full) $(ARGS)

# Runs the tests that need no browser.
unit: $(VENV)/.dev
	$(BIN)/python -m pytest $(TWO) --ignore tests/browser $(ARGS)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/deno fmt

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache

$(VENV)/bin/python:
	$(CREATE_VENV)

$(VENV)/.app: requirements.txt | $(VENV)/bin/python
	$(call INSTALL,-r requirements.txt)
	touch $@

$(VENV)/.dev: requirements.txt requirements-dev.txt | $(VENV)/bin/python
	$(call INSTALL,-r requirements.txt -r requirements-dev.txt)
	touch $@ $(VENV)/.app
