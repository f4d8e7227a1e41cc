# Each target works as the first command in a fresh clone: it makes the virtual environment it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO   ?=

.PHONY: help demo test lint format bench proto proto-check clean
help:            ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "indai needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pinned dependencies into $(VENV) (first time: about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)   ## two nodes settle meetings, an auditor proves it (arguments: make demo DEMO="--json")
	@$(BIN)/indai demo $(DEMO)

test: $(STAMP)   ## the whole suite
	@$(BIN)/python -m pytest

lint: $(STAMP) proto-check   ## ruff, mypy --strict, import-linter, buf
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/buf lint proto

format: $(STAMP) ## rewrite the code in the project's style
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

proto: $(STAMP)  ## regenerate the code beside each .proto
	@cd proto && ../$(BIN)/python -m grpc_tools.protoc -I . --plugin=protoc-gen-mypy=../$(BIN)/protoc-gen-mypy \
	  --plugin=protoc-gen-mypy_grpc=../$(BIN)/protoc-gen-mypy_grpc \
	  --python_out=. --grpc_python_out=. --mypy_out=quiet:. --mypy_grpc_out=quiet:. indai/v1/*.proto

bench: $(STAMP)  ## ratios measured in one run; see docs/benchmarks.md
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@$(BIN)/python -m bench

clean:           ## remove everything the targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
