# Every development task by name. `make` alone lists them.
#
# Needs Python >= 3.11 and make, and a package index for the first `make install`; git only for
# `make breaking`, Docker only for compose. All of its output is in this folder, except the
# embedded database (HITHERTO_DATA_DIR).

SHELL := /bin/sh
.DEFAULT_GOAL := help

# Sets PYTHON (make PYTHON=python3.13 selects another interpreter), VENV and INSTALLED.
include proto.mk
include docs.mk

BIN := $(VENV)/bin
# Running needs a third of what development does; where that is installed already, nothing is added.
RUNTIME := $(VENV)/hitherto-runtime
TO_RUN := $(if $(wildcard $(INSTALLED)),$(INSTALLED),$(RUNTIME))

# Two workers per core, six at most (tests/conftest.py); idle workers take tests from others.
PYTEST_ARGS ?= -n auto --dist worksteal
# The tests of `make test`; those that start processes belong to `make faults`.
MARKED ?= not faults and not chaos
# What reads; `make faults` has it answered from snapshots as well. One counts its reads.
READING := $(wildcard tests/e2e/test_search*.py tests/e2e/test_context*.py) tests/e2e/test_any_script.py tests/e2e/test_behaviour.py \
	tests/e2e/test_clear_memories.py tests/e2e/test_delete_conversation.py tests/e2e/test_documents.py \
	tests/e2e/test_late_words.py tests/e2e/test_late_vectors.py tests/e2e/test_lists.py tests/e2e/test_names.py \
	tests/e2e/test_reembedding.py tests/e2e/test_rollback.py tests/e2e/test_selection.py \
	tests/e2e/test_time_travel.py tests/e2e/test_upkeep.py \
	--deselect tests/e2e/test_context.py::test_what_is_told_is_counted_and_nothing_else_is_written
TRANSCRIPTS ?=
MUTANTS ?=
BENCH_ARGS ?=
# Another version to write, and what `make release` is told.
VERSION :=
RELEASE_ARGS ?=
# How long the random faults and the soak last, and the seed of an earlier run of faults.
FAULTS_MINUTES ?= 2
FAULTS_SEED ?=
export FAULTS_MINUTES FAULTS_SEED

# The folders with our own Python code; mypy would refuse an empty one.
TYPED := shared/hitherto shared/hitherto_shared shared/hitherto_client shared/hitherto_local \
	services/retrieval/hitherto_retrieval services/extraction/hitherto_extraction tools tests \
	$(patsubst %/,%,$(sort $(dir $(wildcard examples/*/*.py benchmarks/*.py))))

.PHONY: help install lock lock-images demo run test faults chaos mutants lint lines unasync format eval bench \
	bench-extraction bench-retrieval bench-peers migrate check-citus metrics-docs compose-env version release clean

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z-]*:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create .venv with this project and all development dependencies

# uv takes half the time of pip, on all cores; pip does it where uv does not know the package index that pip is set to.
$(INSTALLED): pyproject.toml requirements.lock
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed, for example: make PYTHON=python3.12 $(MAKECMDGOALS)"; \
		exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -c requirements.lock -e '.[dev]' || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev]'
	@touch $@

# Shows in one line what it installs. uv takes a fraction of the time of pip.
$(RUNTIME): pyproject.toml requirements.lock
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed, for example: make PYTHON=python3.12 $(MAKECMDGOALS)"; \
		exit 1; }
	@echo "Installing what Hitherto needs into $(VENV), once ..."
	@"$(PYTHON)" -m venv $(VENV)
	@if command -v uv > /dev/null; then \
		uv pip install --python $(BIN)/python -c requirements.lock -e '.[up]'; \
	else \
		{ $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off \
			-c requirements.lock -e '.[up]'; echo $$? > $@.code; } | \
			{ [ -t 1 ] && exec awk \
			'/^ *(Collecting|Downloading|Obtaining|Installing build|Preparing)/ { printf "\r\033[K  %s %.60s", $$1, $$2; fflush() } \
			/^Installing collected/ { printf "\r\033[K  Installing"; fflush() } \
			END { printf "\r\033[K" }' || cat > /dev/null; }; \
		read code < $@.code; rm $@.code; exit $$code; \
	fi
	@touch $@

COMPILE = $(BIN)/python -m uv pip compile --quiet --no-config --universal \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links
# What images install: the versions of the lock, with the hash of every file.
HASHED = $(COMPILE) --python-version 3.12 --generate-hashes --constraint requirements.lock
IN_IMAGES := --extra retrieval --extra extraction --extra cli --extra console --extra otel

# After COMPILE and INSTALLED, which it uses.
include frameworks.mk

lock: install ## Resolve requirements.lock again from pyproject.toml, and what images install from the lock
	$(COMPILE) --upgrade --python-version 3.11 \
		--extra retrieval --extra extraction --extra onnx --extra tokens --extra cli --extra mcp --extra console --extra http --extra otel --extra dev \
		--output-file requirements.lock pyproject.toml
	$(MAKE) --no-print-directory lock-images lock-frameworks

lock-images: install ## Write the hashes of what images install, of the versions in requirements.lock
	$(HASHED) $(IN_IMAGES) --output-file docker/requirements.txt pyproject.toml
	$(HASHED) $(IN_IMAGES) --extra onnx --extra tokens --output-file docker/requirements-onnx.txt pyproject.toml
	echo hatchling | $(HASHED) --output-file docker/requirements-build.txt -

demo: $(TO_RUN) ## Learn from sample conversations and show the result (TRANSCRIPTS=file.jsonl: from your own)
	@$(BIN)/hitherto demo $(if $(TRANSCRIPTS),--transcripts "$(TRANSCRIPTS)")

run: $(TO_RUN) ## Run the database, both services and the console in this terminal (hitherto up)
	@$(BIN)/hitherto up

test: install ## Run the tests that start no processes of their own (options in PYTEST_ARGS)
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "$(MARKED)"

faults: install ## Run the tests that start and kill processes: half an hour, the long runs last
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "faults and not chaos"
	$(BIN)/python -m pytest $(PYTEST_ARGS) --reads=held -m "not faults and not chaos" $(READING)
	$(BIN)/python -m pytest --hypothesis-profile=thorough tests/e2e/test_fuzz.py
	$(BIN)/python -m pytest -m chaos

chaos: install ## Only the random faults and the soak (FAULTS_MINUTES: of each; FAULTS_SEED repeats the faults)
	$(BIN)/python -m pytest tests/faults/test_soak.py tests/faults/test_random_faults.py

mutants: install ## Break the product on purpose; each break must fail a test (MUTANTS=names: only some)
	$(BIN)/python -m tests.mutants $(MUTANTS)

lint: install lint-proto check-proto breaking ## Check style, types, import rules and the contract
	$(BIN)/python -m tools.unasync check
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy $(TYPED) docker/make_env.py docker/prepare.py
	$(BIN)/lint-imports
	$(BIN)/python -m tools.tree

# Their tools come with the development install.
proto check-proto lint-proto breaking: install

unasync: install ## Generate the synchronous Python client from the asynchronous one
	$(BIN)/python -m tools.unasync write

format: install ## Format the code and fix what ruff can fix
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

# Of the product without generated stubs, and without what `unasync` writes.
lines: ## Count the lines of Python of the product, the tests and the benchmarks
	@count() { printf '%-11s %7d\n' "$$1" "$$(shift; git ls-files -z -- "$$@" | xargs -0 cat | wc -l)"; }; \
	count product 'shared/*.py' 'services/*.py' ':!shared/hitherto/' ':!shared/hitherto_client/_sync/'; \
	count tests 'tests/*.py'; count benchmarks 'benchmarks/*.py'

eval: install ## Measure the quality of retrieval (LoCoMo), of extraction, and of what is believed
	$(BIN)/python -m benchmarks.locomo
	$(BIN)/python -m benchmarks.extraction
	$(BIN)/python -m benchmarks.state

bench: install ## Measure the cost of writing and reading; takes eight minutes
	$(BIN)/python -m benchmarks.throughput
	$(BIN)/python -m benchmarks.retrieval

bench-extraction: install ## Measure the cost of an extraction (BENCH_ARGS=--help: how much, JSON)
	$(BIN)/python -m benchmarks.throughput $(BENCH_ARGS)

bench-retrieval: install ## Measure the cost of a search (BENCH_ARGS=--help: quick, full)
	$(BIN)/python -m benchmarks.retrieval $(BENCH_ARGS)

bench-peers: install ## Measure the same searches in other memory stores
	$(BIN)/python -m benchmarks.peers $(BENCH_ARGS)

migrate: install ## Migrate the database in DATABASE_URL
	$(BIN)/python -m hitherto_shared.database.migrate

check-citus: install ## Check that schema and statements suit Citus, on a migrated database (DATABASE_URL)
	@$(BIN)/python -m tools.citus

metrics-docs: install ## Generate the tables of docs/metrics.md from the code
	$(BIN)/python -m tools.metrics_docs

compose-env: ## Write .env with generated passwords, and hitherto.env for settings, for docker compose
	@"$(PYTHON)" docker/make_env.py .env hitherto.env

version: install ## Print the version of all packages, or write another one everywhere (VERSION=1.2.3)
	@$(BIN)/python -m tools.version $(VERSION)

release: install ## Build wheel, npm package, Java artifact, images, SBOM and checksums into dist/; uploads nothing (RELEASE_ARGS=--complete)
	$(BIN)/python -m tools.release $(RELEASE_ARGS)

clean: ## Remove everything that can be rebuilt, including the environments
	rm -rf $(VENV) $(PROTO_VENV) $(DOCS_VENV) $(FRAMEWORK_VENVS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache clients/typescript/dist clients/typescript/node_modules \
		clients/typescript/src/gen clients/java/target
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
