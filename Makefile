# The two commands a newcomer needs are `make demo` and `make test`; both set everything up by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test test-all lint format docs bench clean
.DEFAULT_GOAL := demo

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tidelore needs Python 3.11 or newer (set PYTHON=python3.12, for example)."; exit 1; }
	@echo "Setting up $(VENV) (once)..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

demo: $(READY)  ## mirror a simulated world, change it, mirror again, compare with the truth
	@$(BIN)/lore demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint  ## every gate of a change: lint, types, architecture, docs, tests
	$(BIN)/pytest -n 2 -m "not deep"

test-all: lint  ## the above and the long runs: deep properties, full crash matrix, mutants
	$(BIN)/pytest -n 2 -m "not deep"
	TIDELORE_DEEP=1 $(BIN)/pytest -n 2 -m deep
	TIDELORE_DEEP=1 $(BIN)/pytest -n 2 -m "not deep" tests/properties

docs: $(READY)  ## regenerate docs/reference/commands.md
	$(BIN)/python -m tests.architecture.command_reference

bench: $(READY)  ## speed, memory and request counts as ratios measured in one run
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
