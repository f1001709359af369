# What a person or CI does with a checkout. `make` alone lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The interpreter to build on: the one the environment has, else the newest that capplan supports; one that can make
# environments by itself goes before one that cannot.
find_python = for need in ensurepip sys; do \
	for python in .venv/bin/python python3.14 python3.13 python3.12 python3.11 python3; do \
		$$python -c "import sys, $$need; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && { echo $$python; exit; }; \
	done; done; echo python3
PYTHON ?= $(shell $(find_python))

BIN := .venv/bin
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile

.PHONY: setup
setup: ## Make .venv with the locked requirements and capplan itself; repeated only when they change.
	@$(PYTHON) requirements/install.py

.PHONY: demo
demo: setup ## Start a server, ask it the demonstration's questions, show the answers, stop it.
	@$(BIN)/capplan demo

.PHONY: serve
serve: setup ## Run the gRPC server in the foreground.
	@$(BIN)/capplan serve

.PHONY: test
test: setup ## Run the tests; choose some by ARGS, e.g. make test ARGS=tests/modeling.
	$(BIN)/pytest -n auto --dist loadfile $(ARGS)

.PHONY: lint
lint: setup ## Check style, types, import directions, the contract and its generated code.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python proto/check.py
	$(BIN)/python proto/generate.py --check

.PHONY: format
format: setup ## Put the sources into the standard format and mend what can be mended.
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .
	$(BIN)/python proto/check.py --format

.PHONY: proto
proto: setup ## Generate the Python code of the contract.
	$(BIN)/python proto/generate.py

.PHONY: proto-publish
proto-publish: setup ## Make the contract as it is the one that must not be broken.
	$(BIN)/python proto/check.py --record

.PHONY: bench
bench: setup ## Run the benchmarks, each of which prints what it measured.
	@for script in tests/benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

.PHONY: plots
plots: setup ## Draw how far the shipped calibration is from the shipped measurements, into docs/.
	env -u CAPPLAN_DATABASE_URL $(BIN)/capplan evaluate throughput --plots docs > /dev/null

.PHONY: accuracy
accuracy: setup ## Measure the estimator on what it has not seen, and without its parts, into docs/accuracy.md; a quarter of an hour.
	env -u CAPPLAN_DATABASE_URL OPENBLAS_NUM_THREADS=1 $(BIN)/capplan evaluate left-out --ablation --markdown docs/accuracy.md > /dev/null

.PHONY: lock
lock: setup ## Lock the requirements again; UPGRADE=--upgrade takes the newest versions.
	$(LOCK) $(UPGRADE) pyproject.toml --output-file requirements/runtime.txt
	$(LOCK) $(UPGRADE) pyproject.toml --extra plots --group dev --constraint requirements/runtime.txt --output-file requirements/dev.txt

.PHONY: clean
clean: ## Remove the environment and everything that tools cached.
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find service tests migrations proto requirements -name __pycache__ -prune -exec rm -rf {} +
