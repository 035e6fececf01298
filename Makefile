# make demo   set up, train the default model, score it, translate examples, write the report
# make test   set up, lint, types, tests
# make docs   set up, write the reference pages, build the documentation into site/
# make slow   the tests that `make test` leaves out: ten times as many malformed inputs, more kills, more full disks
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test docs slow lint clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# //p' Makefile

.venv/base: EXTRA = all
.venv/dev: EXTRA = dev
.venv/base .venv/dev: pyproject.toml constraints.txt
	@echo "setting up .venv (once; a few minutes with a slow network)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRA)]'
	@touch .venv/base $@

demo: .venv/base
	@$(BIN)/heedful train dates
	@echo
	@echo '$$ $(BIN)/heedful translate runs/dates/best …   (dates it has never seen; yours work too)'
	@$(BIN)/heedful translate runs/dates/best --input docs/dates.txt > runs/dates/examples.txt
	@paste -d '\t' docs/dates.txt runs/dates/examples.txt
	@echo
	@echo 'Open runs/dates/report.html in a browser.'

lint: .venv/dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo > .venv/imports.log || { cat .venv/imports.log; exit 1; }

test: lint
	@$(BIN)/python -m pytest -n 2 --ignore=tests/system
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow' tests/system

docs: .venv/dev
	@$(BIN)/python docs/reference.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'Open site/index.html in a browser; its search needs a server: python3 -m http.server -d site'

slow: .venv/dev
	@HEEDFUL_FUZZ=10 $(BIN)/python -m pytest -n 0 tests/fuzz
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m slow tests/system

clean:
	rm -rf .venv build dist site src/*.egg-info
