# `make run` and `make test` set up everything on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STORE ?= noniid-store

.PHONY: run test test-slow lint docs docs-check sizes bench clean

# The main job on embedded data: four algorithms, three seeds, one comparison.
run: $(VENV)/installed
	$(BIN)/noniid run --data digits --split "dirichlet(0.5)" --algorithm fedavg --algorithm "fedprox(0.01)" \
	  --algorithm scaffold --algorithm fednova --rounds 30 --seeds 3 --store $(STORE)

test: $(VENV)/installed
	$(BIN)/python -m pytest -n auto

test-slow: $(VENV)/installed
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m tests.sizes

# README's and docs' generated parts, written anew or compared.
docs: $(VENV)/installed
	$(BIN)/python -m tests.generated_docs --write

docs-check: $(VENV)/installed
	$(BIN)/python -m tests.generated_docs

bench: $(VENV)/installed
	for file in startup split_speed training_speed dense_speed algorithm_overhead memory population other_splitters; do \
	  $(BIN)/python benchmarks/$$file.py || exit 1; done

$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist
