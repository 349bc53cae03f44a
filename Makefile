# `make run` and `make test` set up everything on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STORE ?= noniid-store

.PHONY: run test test-slow lint docs docs-check sizes bench rivals clean

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

# Every benchmark, saved in benchmarks/results; then benchmarks/README.md with the newest of each. It takes its time.
# `make rivals` first installs the frameworks that noniid is compared with; without it their rows say so.
BENCHMARKS := startup split_speed training_speed dense_speed algorithm_overhead memory population cross_device other_splitters \
  roofline ray_scaling rivals

bench: $(VENV)/installed
	for file in $(BENCHMARKS); do $(BIN)/python benchmarks/$$file.py --save || exit 1; done
	$(BIN)/python benchmarks/cost.py --save --figure benchmarks/results/cost.png
	$(BIN)/python -m tests.generated_docs --write

rivals: $(VENV)/installed
	$(BIN)/python benchmarks/rivals.py --install

$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist
