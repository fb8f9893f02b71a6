# Commands for developers and first-time users. A fresh machine needs Python 3.11 or newer, make
# and git; `make demo` and `make test` install the rest themselves.

VENV ?= .venv
# Parallel test processes: three for each processor, as many tests wait for other programs.
WORKERS ?= $(shell expr 3 \* $$(nproc))
# Number of lifecycles in `make life`, of up to 40 events each.
LIVES ?= 500
# Number of requests in `make repeats`.
REPEATS ?= 10000
# Number of imports that `make way-back` changes and exports.
IMPORTS ?= 30
# Number of requests that `make fuzz` sends to each route.
REQUESTS ?= 300
# Further folders of recorded machines for `make recorded`, separated by colons.
RECORDINGS ?=
# Busy loops of `make busy-test`, seconds of each stop in `make stall-test`, and their command.
BUSY ?= 8
STALL ?= 4
RUN ?= $(MAKE) test
# Minutes in which `make move-in` observes.
MINUTES ?= 5
# Machines of `make site`, the file or name of its scenario, and its database.
NODES ?=
SCENARIO ?= default
DATABASE ?= sqlite
# Libraries of packaging/locks; empty for the newest ones that setup.cfg allows.
LOCK ?= yes
# Interpreters of `make pythons`, on PATH or named by their paths.
PYTHONS ?= python3.12 python3.13
# Of `make release` and `make verify`: private key, public key, folder, and "none" to go without an audit.
SIGN_KEY ?=
KEY ?=
DIR ?=
AUDIT ?=
# Further arguments of pytest, of the demo or of the benchmarks.
ARGS ?=

# Without cached bytecode, each program that a test starts would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

STAMP := $(VENV)/.installed
EXTRAS := test,lint,postgresql,mysql

.DEFAULT_GOAL := help
.PHONY: help venv test proofs quick vm-test life repeats recorded fuzz compare move-in way-back lock audit lowest pythons release verify tempest chaos attack outage partition busy-test stall-test static lint without services evidence-wheel bench bench-smoke site bench-ironic bench-ironic-start demo shots tasks sample window docs format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): setup.cfg pyproject.toml cli/setup.cfg scripts/venv.sh packaging/locks/build.txt packaging/locks/test.txt
	PYTHON="$(PYTHON)" LOCK="$(LOCK)" scripts/venv.sh $(VENV) $(EXTRAS)
	@touch $@

venv: $(STAMP) ## create the virtual environment in .venv

demo: $(STAMP) ## take demo nodes through their whole lifecycle; ARGS=--keep leaves the service running
	@$(VENV)/bin/python -m demo $(ARGS)

shots: $(STAMP) ## take pictures of the window's pages, beside make demo ARGS=--keep: build/shots/*.png, docs/window-*.png
	$(VENV)/bin/python scripts/shots.py http://127.0.0.1:6385 build/shots docs

test: PART := tests
proofs: PART := proofs
test: ## run the test suite without the long proofs; as root on Debian, install ipmitool and ipmi_sim first
proofs: ## run the long proofs: deaths at every moment, all of the window, several machines, attacks
test proofs: $(STAMP)
	@scripts/programs.sh
	@scripts/agent.sh $(VENV)-agent || echo "the tests with a real ramdisk agent are skipped" >&2
	$(VENV)/bin/pytest -n $(WORKERS) --dist loadgroup --part $(PART) $(ARGS)

quick: $(STAMP) ## run the tests that start no server: unit, spec, API, compat and lint, on SQLite
	$(VENV)/bin/pytest -q -n $(WORKERS) -k "not mysql and not postgresql" \
		--ignore tests/api/test_openapi.py --ignore tests/api/test_rights.py $(ARGS) \
		tests/unit tests/spec tests/api tests/compat tests/lint

evidence-wheel: $(STAMP) ## build the hardware manager that reports erasures, for ramdisks: dist/evidence/*.whl
	rm -rf build/evidence
	mkdir -p build
	cp -r scripts/ramdisk/evidence build/evidence
	$(VENV)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps \
		--wheel-dir dist/evidence build/evidence
	@ls dist/evidence

vm-test: $(STAMP) ## deploy and rescue a virtual machine (root, QEMU, 20 minutes)
	@scripts/vm.sh $(VENV) $(ARGS)

life: $(STAMP) ## run LIVES=500 random node lifecycles, and crash at each moment of agent work and recovery
	ANY_LIFE_EXAMPLES=$(LIVES) $(VENV)/bin/pytest -s --stuck-after 0 \
		tests/flows/test_any_life.py tests/flows/test_agents_die.py tests/flows/test_dies_again.py \
		tests/flows/test_bmc_steps_die.py $(ARGS)

repeats: $(STAMP) ## send REPEATS=10000 requests with keys to an API that is killed all the time
	IDEMPOTENT_REQUESTS=$(REPEATS) $(VENV)/bin/pytest -s -n0 --stuck-after 0 \
		tests/acceptance/test_idempotency.py $(ARGS)

recorded: $(STAMP) ## drive all recorded machines, also those in RECORDINGS=folder, and write their results
	RECORDED_ALL=1 RECORDINGS=$(RECORDINGS) $(VENV)/bin/pytest -n $(WORKERS) --dist loadgroup \
		--write-results tests/recorded/results.json tests/recorded $(ARGS)

fuzz: $(STAMP) ## send REQUESTS=300 random requests to each route, and check the answers
	FUZZ_EXAMPLES=$(REQUESTS) $(VENV)/bin/pytest --stuck-after 0 tests/api/test_openapi.py $(ARGS)

chaos: $(STAMP) ## inject faults around the service under load, and check it; see ARGS=--help
	$(VENV)/bin/python -m tests.chaos $(ARGS)

attack: $(STAMP) ## attack the service from outside under load, and check it; see ARGS=--help
	$(VENV)/bin/python -m tests.attack $(ARGS)

compare: $(STAMP) ## send the same requests to Ironic in the virtual environment IRONIC=path, and compare
	$(VENV)/bin/python -W ignore -m tests.compare $(if $(IRONIC),--ironic $(IRONIC)) $(ARGS)

way-back: $(STAMP) ## import Ironic IMPORTS=30 times, send random requests, export, import again, compare
	EXPORT_EXAMPLES=$(IMPORTS) $(VENV)/bin/pytest --stuck-after 0 tests/db/test_export_ironic.py -k random $(ARGS)

move-in: $(STAMP) ## move from Ironic of several releases and back; MINUTES=30 observes longer, ARGS=--record renews dumps
	$(VENV)/bin/python -W ignore -m tests.move_in --minutes $(MINUTES) $(ARGS)

$(VENV)-tempest/.installed: $(STAMP)
	$(VENV)/bin/python -m venv $(VENV)-tempest
	$(VENV)-tempest/bin/pip install --quiet --disable-pip-version-check "ironic-tempest-plugin >= 3.2"
	@touch $@

tempest: $(VENV)-tempest/.installed ## run the API tests of ironic-tempest-plugin in .venv-tempest; ARGS names modules
	$(VENV)/bin/python -W ignore -m tests.tempest $(VENV)-tempest $(ARGS)

$(VENV)-lock/.installed: $(STAMP)
	$(VENV)/bin/python -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet --disable-pip-version-check "uv >= 0.9, < 1" "pip-audit >= 2.9, < 3"
	@touch $@

lock: $(VENV)-lock/.installed ## pin the newest libraries that setup.cfg allows, a week old at least, then make quick
	$(VENV)/bin/python scripts/locks.py write $(VENV)-lock/bin/uv
	$(MAKE) quick

audit: $(VENV)-lock/.installed ## ask an advisory service about packaging/locks/runtime.txt; exit 3 without an answer
	@$(VENV)/bin/python scripts/locks.py audit $(VENV)-lock/bin/pip-audit
	@$(VENV)/bin/python packaging/release.py passed audit

lowest: $(VENV)-lock/.installed ## test the oldest libraries that setup.cfg allows, in .venv-lowest (8 minutes)
	$(VENV)/bin/python -m venv --clear $(VENV)-lowest
	$(VENV)/bin/python scripts/locks.py lowest $(VENV)-lock/bin/uv $(VENV)-lowest/bin/python
	$(VENV)-lowest/bin/pytest -q -n $(WORKERS) -k "not mysql and not postgresql" \
		--ignore tests/api/test_openapi.py --ignore tests/api/test_rights.py $(ARGS) \
		tests/unit tests/spec tests/api tests/db tests/acceptance/test_processes.py
	@$(VENV)/bin/python packaging/release.py passed lowest

pythons: ## run the quick tests, the wheel and the programs with each of PYTHONS="python3.12 python3.13"
	WORKERS=$(WORKERS) scripts/pythons.sh $(PYTHONS)
	@$(MAKE) --no-print-directory $(STAMP)
	@$(VENV)/bin/python packaging/release.py passed pythons

release: $(STAMP) ## build the files of this commit's release twice, into dist/VERSION; ARGS=--trial tries it
	@$(VENV)/bin/python packaging/release.py make $(if $(SIGN_KEY),--key $(SIGN_KEY)) \
		$(if $(AUDIT),--audit $(AUDIT)) $(ARGS)

verify: $(STAMP) ## check sums and signature (KEY=public) of a release in DIR=folder, build it again, and compare
	@$(VENV)/bin/python packaging/release.py verify $(DIR) $(if $(KEY),--key $(KEY))

outage: $(STAMP) ## kill PostgreSQL and MariaDB during runs, for longer than leases last
	$(VENV)/bin/pytest tests/chaos/killed_database.py $(ARGS)

partition: $(STAMP) ## cut one of two machines off for 95 s behind the shipped haproxy.cfg (root, haproxy, RabbitMQ)
	PARTITION_SECONDS=95 $(VENV)/bin/pytest -s -n0 --stuck-after 0 tests/acceptance/test_partition.py $(ARGS)

without: $(STAMP) ## take FEATURES="webhooks doctor" out of a copy; lint, start and test the rest
	scripts/without.sh $(FEATURES)

busy-test: $(STAMP) ## run a command beside BUSY=8 busy loops: the whole suite, or RUN="pytest tests/x"
	scripts/busy.sh $(BUSY) $(RUN)

stall-test: $(STAMP) ## run a command whose processes stop for STALL=4 s about every 8 s: the whole suite, or RUN="..."
	$(VENV)/bin/python scripts/stalls.py $(STALL) 8 $(RUN)

static: $(STAMP) ## run ruff, mypy --strict, import-linter; TypeScript, Prettier and unit tests of the window
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python -m scripts.window lint

lint: static ## run `make static`, types for Python 3.13, and the checks in tests/lint, which are part of `make test`
	$(VENV)/bin/mypy --python-version 3.13
	$(VENV)/bin/pytest -q -p no:cacheprovider tests/lint

services: ## install and start PostgreSQL, MariaDB and RabbitMQ, install ipmitool and ipmi_sim (Debian)
	scripts/services.sh

bench: $(STAMP) ## run the benchmarks and compare with the budgets
	$(VENV)/bin/python -m benchmarks $(ARGS)

bench-smoke: $(STAMP) ## run every benchmark with small sizes, only to see that it works
	@scripts/agent.sh $(VENV)-agent || echo "benchmarks with a real ramdisk agent are skipped" >&2
	IRONIC_LITE_BENCH_SMOKE=1 $(VENV)/bin/python -W ignore -m benchmarks $(ARGS)

site: $(STAMP) ## bring NODES=13500 simulated machines from POST to available; SCENARIO=file DATABASE=postgresql
	$(VENV)/bin/python -W ignore -m benchmarks.site $(if $(NODES),--nodes $(NODES)) \
		--scenario $(SCENARIO) --database $(DATABASE) $(ARGS)

$(VENV)-ironic/.installed: $(STAMP)
	$(VENV)/bin/python -m venv $(VENV)-ironic
	$(VENV)-ironic/bin/pip install --quiet --disable-pip-version-check "ironic == 39.*" pymysql
	@touch $@

bench-ironic: $(VENV)-ironic/.installed ## compare the CPU of requests with Ironic in .venv-ironic; ARGS="--scaled mysql"
	$(VENV)/bin/python -W ignore -m benchmarks.against_ironic $(VENV)-ironic $(ARGS)

bench-ironic-start: $(VENV)-ironic/.installed ## compare the time of a start with Ironic in .venv-ironic
	$(VENV)/bin/python -W ignore -m benchmarks.cold_start $(VENV)-ironic $(ARGS)

tasks: $(STAMP) ## do fourteen tasks of an operator in the window, and count clicks and keys: build/tasks.txt
	$(VENV)/bin/pytest -q -s -n0 tests/window/test_tasks.py $(ARGS)

sample: $(STAMP) ## generate ironic-lite.conf.sample from the options
	$(VENV)/bin/oslo-config-generator --config-file etc/config-generator.conf

window: $(STAMP) ## generate types of the window from the API, and build its files (npm)
	$(VENV)/bin/python -m scripts.window build

docs: $(STAMP) ## generate the tables of docs/ from the state machine and the tests
	$(VENV)/bin/python docs/generate.py

format: $(STAMP) ## format the code
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

clean: ## remove all generated files, including the virtual environment
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .tox
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
