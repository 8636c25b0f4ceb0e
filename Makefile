# `make demo` and `make test` are all that a newcomer needs. Each target builds .venv if it is missing or out of date.

PYTHON ?= python3
MINUTES ?= 5
VENV := .venv
LOWEST := .venv-lowest
BIN := $(VENV)/bin
CORE := $(VENV)/.core
READY := $(VENV)/.ready

.PHONY: demo test test-long test-lowest soak lint format docs results clean help

help:
	@echo "make demo         train on digits with 40 % wrong labels and write demo/report.html, in under a minute"
	@echo "make test         run the tests; lists what it skips and why"
	@echo "make test-long    run the long tests as well"
	@echo "make test-lowest  run the tests with the lowest versions that pyproject.toml allows; downloads gigabytes"
	@echo "make soak         attack the program for MINUTES=5: kills, full disks, damaged files; see docs/reliability.md"
	@echo "make lint         run ruff and mypy (strict)"
	@echo "make format       let ruff reformat the code"
	@echo "make docs         write the generated pages, step times, and README's excerpt and screenshot"
	@echo "make results      write docs/results.md and README's table from the records in results/"
	@echo "make clean        remove .venv and caches"

# The demo needs the package alone. Tests need all extras, which take longer to install.
$(CORE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "tnlpad needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(READY): $(CORE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(CORE)
	$(BIN)/tnlpad demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-long: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal --long -o faulthandler_timeout=3600

# In an environment of its own. uv chooses the versions: pip has no such option.
test-lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct -e '.[dev]'
	$(LOWEST)/bin/python -m pytest -n 2 --dist worksteal

soak: $(READY)
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	$(BIN)/python docs/performance.py
	$(BIN)/python docs/methods.py
	$(BIN)/python docs/own_data.py
	$(BIN)/python docs/suspects.py
	$(BIN)/python -m benchmarks.step_times
	$(BIN)/python docs/scaling.py
	$(BIN)/python docs/reliability.py
	$(BIN)/python docs/excerpt.py

results: $(READY)
	$(BIN)/python docs/results.py

clean:
	rm -rf $(VENV) $(LOWEST) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
