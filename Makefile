# make demo   set up, train the default model, score it, translate examples, write the report and the page
# make test   set up, lint, types, tests
# make docs   set up, write the reference pages, build the documentation into site/
# make slow   the tests that `make test` leaves out: 25 times as many malformed inputs, more kills, more full disks
# make llama  compile llama.cpp (ten minutes), then let it verify the GGUF exports
# make soak   ten minutes of random traffic against a served model (after `make demo`)
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test docs slow llama soak lint clean
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
	@$(BIN)/heedful page runs/dates runs/dates/page.html > /dev/null
	@echo 'Open runs/dates/page.html in a browser: the model itself is inside, to use and to look into.'
	@echo 'Open runs/dates/report.html for its scores and how it learned.'
	@echo 'Serve it to others: $(BIN)/heedful serve runs/dates'

lint: .venv/dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo > .venv/imports.log || { cat .venv/imports.log; exit 1; }
	@$(MAKE) --no-print-directory node_modules/.bin/eslint
	@if test -x node_modules/.bin/eslint; then npm run --silent lint; fi

# ESLint and TypeScript check the page's JavaScript. Only development has a use for them, and it does without where there is no npm.
node_modules/.bin/eslint: package.json package-lock.json
	@if command -v npm > /dev/null && npm ci --silent --no-audit --no-fund; then touch $@; \
	else echo 'npm cannot install ESLint: the JavaScript of the page is not checked'; fi

test: lint
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m 'not slow'

docs: .venv/dev
	@$(BIN)/python docs/reference.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'Open site/index.html in a browser; its search needs a server: python3 -m http.server -d site'

slow: .venv/dev
	@HEEDFUL_FUZZ=25 $(BIN)/python -m pytest -n 0 tests/fuzz
	@HEEDFUL_FUZZ=50 $(BIN)/python -m pytest -n 0 -s tests/serving/test_schema.py
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m slow

llama: .venv/dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt llama-cpp-python
	@HEEDFUL_LLAMA=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 0 tests/interop/test_gguf.py

soak: .venv/dev
	@$(BIN)/python benchmarks/soak.py runs/dates --minutes 10

clean:
	rm -rf .venv build dist site src/*.egg-info
