# Each target works as the first command in a fresh clone: it makes the virtual environment it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed
DEMO   ?=
SEED   ?= $(shell date +%s)
TESTS  ?= tests
# A worker starts a Postgres of its own: two fill two cores, and more than four would only fill memory.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$n -gt 4 ] && n=4; echo $$n)

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

GENERATE = $(CURDIR)/$(BIN)/python -m grpc_tools.protoc -I . \
  --plugin=protoc-gen-mypy=$(CURDIR)/$(BIN)/protoc-gen-mypy \
  --plugin=protoc-gen-mypy_grpc=$(CURDIR)/$(BIN)/protoc-gen-mypy_grpc
OUTPUTS = --python_out=$(1) --grpc_python_out=$(1) --mypy_out=quiet:$(1) --mypy_grpc_out=quiet:$(1)

.PHONY: help demo test lint format bench bench-ledger bench-audit bench-registry bench-kinds bench-crowd bench-handles bench-memory bench-llm bench-turn bench-a2a bench-channels bench-web bench-desk bench-tenant-desk simulate proto proto-check proto-baseline wheel-check clean
.DELETE_ON_ERROR:

help:            ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	  echo "indai needs Python 3.11 or newer, and there is no '$(PYTHON)' here."; \
	  echo "Install it, or name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "indai needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pinned dependencies into $(VENV) (the first time takes about a minute)" >&2
	@# The build backend comes first and pinned too: an isolated build would fetch the newest one.
	@$(PIP) hatchling
	@$(PIP) --no-build-isolation -e '.[dev]'
	@touch $@

demo: $(READY)   ## two nodes settle meetings, an auditor proves it (arguments: make demo DEMO="--json")
	@$(BIN)/indai demo $(DEMO)

test: $(READY)   ## the whole suite (a part of it: make test TESTS=tests/unit)
	@$(BIN)/python -m tests -rs -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS)

lint: $(READY) proto-check   ## ruff, mypy --strict, import-linter, buf, generated code up to date
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY) ## rewrite the code in the project's style
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

proto: $(READY)  ## regenerate the code beside each .proto
	@cd proto && $(GENERATE) $(call OUTPUTS,.) indai/v1/*.proto

proto-check: $(READY)  ## the contract: style, nothing broken since the baseline, generated code up to date
	@$(BIN)/buf lint proto
	@$(BIN)/buf breaking proto --against proto/baseline.binpb || { \
	  echo "This breaks programs that speak the released contract: see docs/checklists.md."; exit 1; }
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && cd proto && \
	  $(GENERATE) $(call OUTPUTS,$$fresh) indai/v1/*.proto && \
	  diff -rq -x '*.proto' -x __init__.py -x py.typed -x __pycache__ "$$fresh/indai/v1" indai/v1 || { \
	  echo "The generated code does not match the .proto files: run make proto and commit."; exit 1; }

proto-baseline: $(READY)  ## at a release: the contract as it is now becomes what nothing may break
	@$(BIN)/buf build proto --exclude-source-info -o proto/baseline.binpb

wheel-check: $(READY)  ## the built wheel, installed alone, has everything that it needs
	@$(BIN)/python tests/wheel_check.py

bench: $(READY)  ## ratios measured in one run; see docs/benchmarks.md
	@$(BIN)/python -m bench

bench-kinds: $(READY)  ## every kind of intent, and meetings of five
	@$(BIN)/python -m bench.kinds

bench-crowd: $(READY)  ## deals beside a flood of invalid signatures
	@$(BIN)/python -m bench.crowd

bench-handles: $(READY)  ## a deal on a node of 100 handles and on one of 100,000 (some ten minutes)
	@$(BIN)/python -m bench.handles

bench-registry: $(READY)  ## the same for the registry alone, with 200,000 handles
	@$(BIN)/python -m bench.registry

bench-ledger: $(READY)  ## the ledger and its auditor alone (longer: make bench-ledger LEDGER="--sustained 600")
	@$(BIN)/python -m bench.commitments $(LEDGER)

bench-audit: $(READY)  ## the offline audit of very large exports (make bench-audit AUDIT="--leaves 1000000")
	@$(BIN)/python -m bench.audits $(AUDIT)

bench-memory: $(READY)  ## the memory service: writing and recall at 100,000 chunks in 1,000 scopes
	@$(BIN)/python -m bench.memory_load

bench-a2a: $(READY)  ## SendMessage on A2A's three bindings beside the published SDK's own server
	@$(BIN)/python -m bench.a2a

bench-channels: $(READY)  ## webhooks accepted durably, beside a bare handler that only stores
	@$(BIN)/python -m bench.channels

bench-web: $(READY)  ## the public page: its first streamed word, and 1,000 open answers
	@$(BIN)/python -m bench.web $(WEB)

bench-desk: $(READY)  ## the owner's desk with 100,000 threads and 500 open desks
	@$(BIN)/python -m bench.desk

bench-tenant-desk: $(READY)  ## an organisation's desk: its roll-ups, its pages, 500 of its desks open
	@$(BIN)/python -m bench.tenant_desk

bench-llm: $(READY)  ## what the gateway to language models adds to a call
	@$(BIN)/python -m bench.llm

bench-turn: $(READY)  ## what a turn costs its node, stage by stage
	@$(BIN)/python -m bench.turn

simulate: $(READY)  ## two million steps of negotiation on bad days (other seeds: make simulate SEED=7)
	@$(BIN)/python -m tests.simulate --jobs 0 --seeds 32000 --seed $(SEED)
	@$(BIN)/python -m tests.simulate --jobs 0 --seeds 400 --seed $(SEED) --nodes

clean:           ## remove everything the targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
