# Every target builds the environment it needs from nothing, in .venv, and reuses it until
# pyproject.toml or constraints.txt changes. PYTHON chooses the interpreter it is built with.

PYTHON ?= python3
# Test workers.
JOBS ?= 2
FUZZ_SECONDS ?= 1200

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check
# What `make test` runs with, and what the rest of the tests needs: every engine is the real one.
LIGHT := dev,tool,plot,review,dask
HEAVY := $(LIGHT),docs,ray,spark
# One BLAS thread per worker: the workers already fill the cores. Worksteal, because the estimator
# checks are one long module that a split by module would leave to a single worker.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest
IN_PARALLEL := -n $(JOBS) --dist worksteal
NEEDS_HEAVY := tests/test_ray.py tests/test_spark.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-rest test-all lint format docs fuzz torture bench wheel clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.tool ## Run the demonstration
	@$(BIN)/python -m easyfirst.demo

# Clusters come last and alone: their tests bring their own processes, and kill them.
test: lint ## Lint, tests, docstring examples and a Dask cluster: within ten minutes
	$(PYTEST) $(IN_PARALLEL) -m 'not slow and not cluster and not browser' \
		$(addprefix --ignore=,$(NEEDS_HEAVY))
	$(PYTEST) -m 'cluster and not slow' tests $(addprefix --ignore=,$(NEEDS_HEAVY))

test-rest: $(VENV)/.heavy ## What `make test` leaves out: slow tests, Chromium, Ray, Spark
	$(PYTEST) $(IN_PARALLEL) -m '(slow or browser) and not cluster'
	$(PYTEST) -m 'cluster and slow' tests $(addprefix --ignore=,$(NEEDS_HEAVY))
	$(PYTEST) -m cluster $(NEEDS_HEAVY)

test-all: test test-rest ## Every test

lint: $(VENV)/.dev ## Check style, types, import layers and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell

format: $(VENV)/.dev ## Fix what can be fixed, and format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# From nothing, because a build on top of an older one overlooks warnings; -W makes them errors.
docs: $(VENV)/.docs ## Build the documentation into docs/_build/html
	@rm -rf docs/_build docs/gallery
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

fuzz: $(VENV)/.fuzz ## Feed the loader of model files hostile files for FUZZ_SECONDS
	$(BIN)/python fuzz/fuzz_model_files.py -max_total_time=$(FUZZ_SECONDS) -max_len=16384 \
		-timeout=10 -rss_limit_mb=1024 -artifact_prefix=fuzz/ -print_final_stats=1

torture: $(VENV)/.heavy ## Kill workers and fits, break the disk, damage files: one table
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/torture.py

# Twenty minutes on two quiet cores; `make bench BENCH=--quick` takes a look.
bench: $(VENV)/.bench ## Measure time and memory beside other methods, and write docs/benchmarks.md
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/speed.py --out docs/benchmarks.md $(BENCH)

wheel: $(VENV)/.dev ## Build the wheel and the source archive into dist/
	@rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

clean: ## Remove the environment and everything built or cached
	rm -rf $(VENV) dist build docs/_build docs/gallery .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The build backend goes into the environment, and builds run without isolation, because an
# isolated build would fetch whatever backend is newest instead of the pinned one. (setuptools is
# what Spark, which comes as source, builds with.)
$(VENV)/.base: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || \
		{ echo "PYTHON=$(PYTHON) was not found; name a Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "easyfirst needs Python 3.11 or newer, and $(PYTHON) is" \
			"$$($(PYTHON) -c 'import platform; print(platform.python_version())');" \
			"choose another with: make PYTHON=python3.11"; exit 1; }
	@echo "Building $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --constraint constraints.txt hatchling editables setuptools
	@touch $@

$(VENV)/.tool: $(VENV)/.base
	@echo "Installing easyfirst[tool]"
	@$(PIP) install --no-build-isolation --constraint constraints.txt --editable '.[tool]'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "Installing easyfirst[$(LIGHT)]"
	@$(PIP) install --no-build-isolation --constraint constraints.txt --editable '.[$(LIGHT)]'
	@touch $@ $(VENV)/.tool

$(VENV)/.heavy: $(VENV)/.base
	@echo "Installing easyfirst[$(HEAVY)] (Spark alone is 450 MB)"
	@$(PIP) install --no-build-isolation --constraint constraints.txt --editable '.[$(HEAVY)]'
	@touch $@ $(VENV)/.tool $(VENV)/.dev $(VENV)/.docs

$(VENV)/.docs: $(VENV)/.base
	@echo "Installing easyfirst[docs]"
	@$(PIP) install --no-build-isolation --constraint constraints.txt --editable '.[docs]'
	@touch $@

$(VENV)/.fuzz: $(VENV)/.base
	@echo "Installing easyfirst[fuzz]"
	@$(PIP) install --no-build-isolation --constraint constraints.txt --editable '.[fuzz]'
	@touch $@

$(VENV)/.bench: $(VENV)/.base
	@echo "Installing easyfirst[bench]"
	@$(PIP) install --no-build-isolation --constraint constraints.txt --editable '.[bench]'
	@touch $@
