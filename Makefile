# Everything a developer or a first-time user runs. A fresh machine needs Python 3.11 or newer, make
# and git; `make demo` and `make test` get the rest themselves.

VENV ?= .venv
# Parallel test processes: one more than there are processors, as many tests wait for other programs.
WORKERS ?= $(shell expr $$(nproc) + 1)
# How many lives `make life` leads, of up to 40 happenings each.
LIVES ?= 500
# How many requests `make fuzz` makes of each route's description.
REQUESTS ?= 300
# Further arguments of pytest, of the demo or of the benchmarks.
ARGS ?=

# Where Python keeps no bytecode, each program that a test starts compiles all of ours anew.
unexport PYTHONDONTWRITEBYTECODE

STAMP := $(VENV)/.installed
EXTRAS := test,lint,postgresql,mysql

.DEFAULT_GOAL := help
.PHONY: help venv test vm-test life fuzz chaos outage lint services bench demo sample docs format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): setup.cfg pyproject.toml scripts/venv.sh
	PYTHON="$(PYTHON)" scripts/venv.sh $(VENV) $(EXTRAS)
	@touch $@

venv: $(STAMP) ## make the virtual environment in .venv

demo: $(STAMP) ## take real nodes through their whole life on this machine; ARGS=--keep leaves it running
	@$(VENV)/bin/python -m ironic_lite.demo $(ARGS)

test: $(STAMP) ## run the whole test suite; as root on Debian, install ipmitool and ipmi_sim first
	@scripts/programs.sh
	@scripts/agent.sh $(VENV)-agent || echo "the tests with a real ramdisk agent are skipped" >&2
	$(VENV)/bin/pytest -n $(WORKERS) --dist loadgroup $(ARGS)

vm-test: $(STAMP) ## take a virtual machine from power-off to a running image and a rescue (root, QEMU, 20 minutes)
	@scripts/vm.sh $(VENV) $(ARGS)

life: $(STAMP) ## lead LIVES=500 random lives, others each time; die at each moment of the work of agents and of recoveries
	ANY_LIFE_EXAMPLES=$(LIVES) $(VENV)/bin/pytest -s -o faulthandler_timeout=0 \
		tests/flows/test_any_life.py tests/flows/test_agents_die.py tests/flows/test_dies_again.py \
		tests/flows/test_bmc_steps_die.py $(ARGS)

fuzz: $(STAMP) ## send REQUESTS=300 requests of all sorts to each route, others each time, and judge the answers
	FUZZ_EXAMPLES=$(REQUESTS) $(VENV)/bin/pytest -o faulthandler_timeout=0 tests/api/test_openapi.py $(ARGS)

chaos: $(STAMP) ## break everything around the service under load, and judge; ARGS=--help tells more
	$(VENV)/bin/python -m tests.chaos $(ARGS)

outage: $(STAMP) ## kill a PostgreSQL and a MariaDB in mid-run, for longer than leases last
	$(VENV)/bin/pytest tests/chaos/killed_database.py $(ARGS)

lint: $(STAMP) ## ruff, mypy --strict, import-linter, size bounds
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pytest -q -p no:cacheprovider tests/lint

services: ## install and start PostgreSQL, MariaDB and RabbitMQ, install ipmitool and ipmi_sim (Debian)
	scripts/services.sh

bench: $(STAMP) ## measure against the budgets
	$(VENV)/bin/python -m benchmarks $(ARGS)

sample: $(STAMP) ## generate etc/ironic-lite/ironic-lite.conf.sample
	$(VENV)/bin/oslo-config-generator --config-file etc/config-generator.conf

docs: $(STAMP) ## generate the tables of docs/ from the state machine and the tests
	$(VENV)/bin/python docs/generate.py

format: $(STAMP) ## format the code
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

clean: ## remove all that is generated, the virtual environment too
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .tox
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
