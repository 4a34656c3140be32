# make demo | test | lint | docs | check | clean. The first use builds .venv; later uses need no network.

PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)
# Exact versions; constraints-lowest.txt has the lowest that are allowed, and /dev/null means the newest.
CONSTRAINTS ?= constraints.txt
BIN := .venv/bin
STAMP := .venv/.installed
SOURCES := pflbench algorithms benchmarks datasets examples tests

.PHONY: demo test lint docs check clean

demo: $(STAMP)
	$(BIN)/pflbench sweep experiments/quickstart.toml --out results/demo
	$(BIN)/pflbench report results/demo

# One thread per worker: two workers with all cores each would slow each other down.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -q --durations=10

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy $(SOURCES)

# Fails at a link that leads nowhere. For the search: .venv/bin/python -m http.server -d site
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

check: lint test

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site results/demo
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

# The build tools go in first, pinned, so that the editable install needs no isolated build environment.
$(STAMP): pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c $(CONSTRAINTS) hatchling editables
	$(BIN)/python -m pip install -q -c $(CONSTRAINTS) --no-build-isolation -e '.[dev,docs,privacy,ray,trackers,tune]'
	touch $@
