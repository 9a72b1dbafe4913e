# Cairn on one machine. `make` lists what there is to do; VARIABLE=value after a target sets one.

VENV ?= .venv
BIN := $(VENV)/bin
SUDO := $(if $(filter 0,$(shell id -u)),,sudo -n)
# The first Python from 3.11 on that can make a virtual environment.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
# A package index with CPU builds of torch; without it the default index is used.
TORCH_INDEX ?=
TORCH := torch==2.13.0
WORKERS ?= 2
ARGS ?=
# The containers: Compose v2, as a plugin or by its own name.
PROFILES ?=
COMPOSE ?= docker compose$(PROFILES:%= --profile %)
URL ?= http://127.0.0.1:8000
SEED ?= 1
QUESTION := How do I recover a PostgreSQL replica that has fallen behind on WAL?

PACKAGES := shared gateway ingest-consumer embedder retriever answerer
PROJECTS := pyproject.toml $(PACKAGES:%=%/pyproject.toml) deploy/local/pyproject.toml
INSTALLED := $(VENV)/.installed
SOURCES := $(PACKAGES) deploy tests

export CAIRN_HOME ?= $(CURDIR)/.cairn
# Settings of the stack (README, "Settings") may be given as make variables too.
export BROKER KAFKA_HOME CONSUMERS CAIRN_PORT LLM_BASE_URL LLM_API_KEY LLM_MODEL SEED

.DEFAULT_GOAL := help
.PHONY: help install run stop up down logs browser test test-fast test-compose test-kube charts check format fuzz bench lock chaos eval

help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create the environment; does nothing when nothing changed (TORCH_INDEX=URL for CPU builds of torch)

$(INSTALLED): $(PROJECTS) constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt 'setuptools>=77'
	@$(if $(TORCH_INDEX),$(BIN)/python -m pip install --quiet --constraint constraints.txt --index-url $(TORCH_INDEX) $(TORCH) || \
		echo "$(TORCH) is not to be had from TORCH_INDEX: taking it from the default index" >&2)
	@echo "Installing what Cairn needs; the first time this takes some minutes."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(TORCH)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --group dev \
		$(PACKAGES:%=--editable ./%) --editable './deploy/local[stores,testing]'
	@touch $@

run: install ## Start everything, load the demo runbooks and ask a first question; the stack stays in the background
	@# A demo runbook that seed rejects (3) is one that the user has taken over; the stack runs, whatever seed and ask say.
	@fresh=; $(BIN)/cairn-local status >/dev/null 2>&1 || fresh=1; \
	$(BIN)/cairn-local up --detach || exit 1; \
	code=0; \
	if test -n "$$fresh"; then \
		$(BIN)/cairn seed || code=$$?; \
		test $$code -ne 3 || code=0; \
		printf '\n$$ cairn ask "%s"\n' "$(QUESTION)"; \
		$(BIN)/cairn ask "$(QUESTION)" || code=$$?; \
	fi; \
	printf '\nAPI:    %s\n' "$$(sed -n 's/^CAIRN_URL=//p' "$(CAIRN_HOME)/env")"; \
	printf 'Ask:    %s/cairn ask "..."\nStatus: %s/cairn-local status\nStop:   make stop\n' $(BIN) $(BIN); \
	exit $$code

stop: ## Stop the stack; its data stays in .cairn
	@if test -x $(BIN)/cairn-local; then $(BIN)/cairn-local down; else echo "Cairn was not running."; fi

up: ## Build the images and start everything in containers (PROFILES="observability local-llm"); waits until all is ready
	@sh deploy/compose/env.sh
	$(COMPOSE) up --detach --build --wait
	@$(COMPOSE) exec gateway sh -c 'printf "\nAPI:   %s\nSeed:  $(COMPOSE) exec gateway cairn seed\n" "$$CAIRN_PUBLIC_URL"'

down: ## Stop the containers; their data stays in volumes
	$(COMPOSE) --profile '*' down

logs: ## Follow the containers' logs (ARGS=gateway)
	$(COMPOSE) logs --follow --tail 100 $(ARGS)

browser: ## Install a Chromium for the tests of the console, where there is none (Debian's, by apt)
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
		echo "no Chromium: the tests of the console are skipped" >&2

test: install browser ## Run the tests, beside a running stack (ARGS='-k name', WORKERS=0 for one process)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-fast: install ## The tests that need no server, in under a minute (ARGS='-k name')
	$(BIN)/python -m pytest --fast --numprocesses $(WORKERS) --dist worksteal $(ARGS)

test-compose: install ## End-to-end checks against a stack in containers (URL=http://127.0.0.1:8000, its .env in this folder)
	CAIRN_COMPOSE_URL=$(URL) $(BIN)/python -m pytest tests/compose -m compose --timeout 0 $(ARGS)

test-kube: install ## The charts on the cluster of KUBECONFIG, with KEDA, Helm and the images there: install, scale, upgrade, remove
	$(BIN)/python -m pytest tests/kube -m kube --timeout 0 -x -s --numprocesses 0 $(ARGS)

charts: install ## Render the manifests of deploy/kubernetes again (needs helm)
	$(BIN)/python deploy/charts.py --write

check: install ## Format, lint, types, import contracts, and whether constraints.txt is current
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	@# One by one: every package has test modules of the same names.
	@failed=0; for part in $(SOURCES); do echo "mypy $$part"; $(BIN)/mypy $$part || failed=1; done; exit $$failed
	$(BIN)/lint-imports
	$(BIN)/python deploy/lock.py --check
	$(BIN)/python deploy/settings_page.py --check
	$(BIN)/python deploy/charts.py

format: install ## Format the code and mend what can be mended
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/python deploy/settings_page.py

lock: ## Write constraints.txt from what is installed
	$(BIN)/python deploy/lock.py

fuzz: install ## Ten thousand made-up requests with each role (FUZZ=N times as many as in make test)
	FUZZ=$(or $(FUZZ),20) $(BIN)/python -m pytest gateway/tests/edge/test_fuzz.py --timeout 0 $(ARGS)

bench: install ## Timed runs (ARGS=...)
	$(BIN)/python -m pytest -m bench --timeout 0 -s $(ARGS)

chaos: install ## Fault injection, long (SEED=1, BROKER=apache KAFKA_HOME=...)
	$(BIN)/python -m pytest -m chaos --timeout 0 -s $(ARGS)

eval: install ## Quality of retrieval and answers, public runbooks included where they are (ARGS="--ablate --calibrate", --judge)
	$(BIN)/python tests/eval --check $(ARGS)
