# Every target does all of its own set-up and is safe to repeat. Needed: Python 3.11+, make, access to the package
# index. Another Python: make test PYTHON=python3.12
PYTHON ?= python3
IN_ENVIRONMENT = @$(PYTHON) .ci/environment.py

.PHONY: help demo wheels test check fmt lint types api docs matrix release-check bench nightly clean

help:
	@echo "make demo      run the main job on a small prompt file (ARGS=\"...\" are options of hermes-batch run)"
	@echo "make wheels    the six wheels, in dist/, for pip install --find-links dist"
	@echo "make test      every check and test"
	@echo "make check     the checks without the tests; make fmt, lint, types are parts of it"
	@echo "make api       write the snapshots of the public surfaces, after a change of a public name"
	@echo "make release-check  build wheels, sdists and SBOMs into dist/ and check all that a release must be"
	@echo "make unit-X    the tests of package X alone, in an environment of its own: make unit-hermes-loop"
	@echo "make docs      the documentation as a site, in .cache/site; a warning is an error"
	@echo "make matrix    subsets of the wheels, earlier releases beside this tree, sizes and import times: tables"
	@echo "make bench     the benchmarks (ARGS=--quick: without peers and Ray); make nightly: the tests with their full counts"
	@echo "make clean     remove what the other targets made, apart from data/"

demo:
	@$(PYTHON) .ci/demo.py $(ARGS)

wheels:
	@uv="$$($(PYTHON) .ci/get-uv.py)" && UV_PYTHON_DOWNLOADS=never "$$uv" build --quiet --all-packages --wheel \
		--python "$$(command -v $(PYTHON))"
	@ls dist/*.whl

test:
	$(IN_ENVIRONMENT) python .ci/all_checks.py

check:
	$(IN_ENVIRONMENT) python .ci/all_checks.py format lint types layers audit

fmt:
	$(IN_ENVIRONMENT) sh -c 'ruff check --quiet --fix . ; ruff format --quiet .'

lint:
	$(IN_ENVIRONMENT) python .ci/all_checks.py format lint layers audit

types:
	$(IN_ENVIRONMENT) python .ci/all_checks.py types

docs:
	$(IN_ENVIRONMENT) python .ci/all_checks.py docs

api:
	$(IN_ENVIRONMENT) python .ci/checks/api_contract.py --write

release-check:
	$(IN_ENVIRONMENT) python .ci/release_check.py $(ARGS)

unit-%:
	$(IN_ENVIRONMENT) python .ci/all_checks.py "unit $*"

matrix:
	$(IN_ENVIRONMENT) python tests-integration/matrix/run_matrix.py $(ARGS)

bench:
	$(IN_ENVIRONMENT) python benchmarks/run_all.py $(ARGS)

nightly: export HERMES_TEST_PROFILE = nightly
nightly:
	$(IN_ENVIRONMENT) python .ci/all_checks.py

clean:
	@rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	@find packages tests-integration .ci -name __pycache__ -type d -prune -exec rm -rf {} +
