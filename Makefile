# The commands people type. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
# A virtual environment without byte code starts vLLM in twice the time.
unexport PYTHONDONTWRITEBYTECODE
export UV_LINK_MODE ?= hardlink
# Python packages: in uv's own cache where this machine has one, else below ours, so that clean-all removes them.
CACHES := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
export UV_CACHE_DIR ?= $(or $(wildcard $(CACHES)/uv),$(or $(SLIDINGSERVE_CACHE),$(CACHES)/slidingserve)/uv)
PY := .venv/bin/python
UV := .venv/bin/uv
PYTEST := .venv/bin/pytest

.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- environments ---------------------------------------------------------------------------------------------------
venv: .venv/.ready ## Make .venv: tools, operator, engine without vLLM
venv-engine: .venv-engine/.ready ## Make .venv-engine: the engine with vLLM's CPU build (3 GB)

.venv/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	.venv/bin/pip install -q -c constraints.txt uv

.venv/.ready: .venv/bin/uv constraints.txt pyproject.toml engine-image/pyproject.toml operator/pyproject.toml
	@echo "==> .venv: tools, operator, engine without vLLM"
	$(UV) pip install -q --python .venv -c constraints.txt --group dev -e './engine-image[report]' -e ./operator
	@touch $@

.venv-engine/.ready: .venv/.ready engine-image/pyproject.toml engine-image/constraints-cpu.txt engine-image/overrides-cpu.txt engine-image/slim/cuda_stubs.py engine-image/slim/vllm-metadata/pyproject.toml
	@echo "==> .venv-engine: vLLM's CPU build; the first time downloads about 1 GB"
	$(PY) -m tests.cluster.debian
	$(UV) venv -q --allow-existing --python .venv/bin/python .venv-engine
	$(UV) pip install -q --compile-bytecode --python .venv-engine -c engine-image/constraints-cpu.txt --override engine-image/overrides-cpu.txt \
	  -e './engine-image[cpu]' ./engine-image/slim/vllm-metadata pytest pytest-asyncio pytest-timeout hypothesis openai
	.venv-engine/bin/python engine-image/slim/cuda_stubs.py
	@touch $@

pins: .venv/bin/uv ## Solve and write the constraint files anew
	$(UV) pip compile -q --no-header --no-annotate --no-emit-index-url --no-emit-find-links --upgrade --python-version 3.11 \
	  pyproject.toml --group dev --extra report engine-image/pyproject.toml operator/pyproject.toml <(echo uv) -o constraints.txt

# --- checks ---------------------------------------------------------------------------------------------------------
lint: venv ## ruff, mypy --strict, layer contracts, generated files
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy engine-image/slidingserve operator/sloserve_operator dashboards tests benchmarks
	.venv/bin/lint-imports
	$(MAKE) check-generated

generate: venv ## Write what is generated: CRD, schemas, dashboards, reference docs
	$(PY) -m tests.generate

check-generated: venv
	$(PY) -m tests.generate --check

test-unit: venv ## Pure tests, minutes
	$(PYTEST) -q -m "not cluster and not engine and not soak" tests

test-engine: venv-engine ## Real vLLM on this machine's CPU
	.venv-engine/bin/python -m pytest -q -m "engine and not soak" tests/engine

test-cluster: venv ## Real Kubernetes: harness, API contract, chart
	$(PYTEST) -q -m "cluster and not soak" tests/cluster tests/contract tests/chart tests/dashboards tests/features tests/images

test-e2e: venv ## Operator, chart and real engines on a real cluster
	$(PYTEST) -v -m "cluster and not soak" --durations=0 --durations-min=1 tests/e2e

test: ## Everything, with what it needs installed first
	$(MAKE) lint
	$(MAKE) test-unit
	$(MAKE) bench-paper QUICK=1
	$(MAKE) test-engine
	$(MAKE) test-cluster
	$(MAKE) test-e2e

test-soak: venv venv-engine ## The slow ones, run before a release
	.venv-engine/bin/python -m pytest -q -m soak tests/engine
	$(PYTEST) -q -m soak tests/contract tests/e2e tests/features

# --- see it ---------------------------------------------------------------------------------------------------------
doctor: ## Whether make demo can work on this machine, what it installs, and how long it takes
	@$(PYTHON) -m tests.demo.doctor

demo: ## The whole path on this machine: cluster, chart, resource, requests, attainment table
	@$(MAKE) --no-print-directory doctor
	@$(MAKE) --no-print-directory venv
	$(PY) -m tests.demo

demo-down: venv ## Take the demo's cluster away; says what stays (caches, packages)
	$(PY) -m tests.demo down

bench-paper: venv ## The paper's figures and tables, simulated (QUICK=1: minutes; ONLY=figure4; resumable)
	$(PY) -m benchmarks.paper

bench-emulated: venv-engine ## Policies side by side on vLLM at a GPU's speed, in real time (RATES, REQUESTS, POLICIES; resumable)
	.venv-engine/bin/python -m benchmarks.emulated $(if $(RATES),--rates "$(RATES)") $(if $(REQUESTS),--requests $(REQUESTS)) $(if $(POLICIES),--policies "$(POLICIES)")
	.venv-engine/bin/python -m benchmarks.agreement

bench-cpu: venv-engine ## Policies side by side on a real model on CPUs, a sanity run (resumable)
	.venv-engine/bin/python -m benchmarks.cpu

bench-simulator: venv ## Engine iterations a second of the simulator on one core
	$(PY) -m benchmarks.simulator

golden: venv ## Record anew what every policy plans in a minute of every workload (REASON="why it changed")
	$(PY) -m tests.golden "$(REASON)"

bench-operator: venv ## 5,000 reconciles of the operator on a real API server: time, and that nothing grows
	$(PY) -m benchmarks.operator

bench-scale: venv ## 100, 300 and 600 resources on a real API server: time, calls, memory, idle writes, restarts (SIZES)
	$(PY) -m benchmarks.scale $(SIZES)

bench-planner: venv-engine ## What planning a step costs in vLLM's scheduler, beside its own schedule()
	.venv-engine/bin/python -m benchmarks.planner

clean: ## Remove the environments and outputs in this checkout
	rm -rf .venv .venv-engine build .mypy_cache .ruff_cache .pytest_cache
	find engine-image operator tests benchmarks dashboards -name __pycache__ -prune -exec rm -rf {} +

clean-all: ## demo-down, clean, and remove caches and Debian packages that this project put here; says how much
	$(PYTHON) -m tests.cluster.clean
	@$(MAKE) --no-print-directory clean

.PHONY: help doctor clean-all venv venv-engine pins lint generate check-generated test-unit test-engine test-cluster test-e2e test test-soak demo demo-down bench-paper bench-emulated bench-cpu bench-operator bench-scale bench-planner bench-simulator golden clean
