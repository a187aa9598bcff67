# Two commands do it all: `make up` runs the service, `make test` proves it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
DATA ?= data

.PHONY: help install install-cluster install-pipeline install-dev install-test install-clients install-programs up test test-all test-ring test-clients test-containers test-pythons release-check check fast format lock site wheel deb sbom image release audit seeds bench compare faults servers-up servers-down clean

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: set PYTHON=" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "a system package is missing: install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.lock

$(VENV)/core.done: $(UV) requirements/core.lock pyproject.toml
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/core.lock
	@$(UV) pip uninstall --quiet --python $(BIN)/python cns 2>/dev/null  # the name that the distribution had
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q cns_common cqs cns cns_backend workers/cns_workers cns_server cns_receiver cns_pipeline cns_cli cns_pytest
	@touch $@

# pyspark comes as source: built with the locked setuptools, nothing else is fetched for it
$(VENV)/cluster.done $(VENV)/pipeline.done $(VENV)/dev.done: $(VENV)/%.done: requirements/%.lock $(VENV)/core.done
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --no-build-isolation --require-hashes -r requirements/$*.lock
	@touch $@

# these lock files name only what they add to `dev`
$(VENV)/test.done $(VENV)/clients.done: $(VENV)/%.done: requirements/%.lock $(VENV)/dev.done
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --no-deps --require-hashes -r requirements/$*.lock
	$(UV) pip check --quiet --python $(BIN)/python
	@touch $@

install: $(VENV)/core.done ## install what running the service takes

install-cluster: $(VENV)/cluster.done ## install what Cassandra, Redis and Celery take as well

install-pipeline: $(VENV)/pipeline.done ## install what the Spark jobs take as well

install-dev: $(VENV)/dev.done ## install what `make check` takes as well; the stages of `make test` install the rest

install-test install-clients: install-%: $(VENV)/%.done

install-programs: install-clients ## install and build the clients in JavaScript, Java and Go that tests drive the service with
	$(BIN)/python -m tests.clients

build/pythons/%.done: requirements/dev.lock requirements/test.lock requirements/clients.lock pyproject.toml
	$(BIN)/python -m lab.harness.pythons $*
	@! [ -d build/pythons/$* ] || touch $@

.PRECIOUS: build/pythons/%.done
install-python%: $(VENV)/dev.done build/pythons/%.done ;

up: install ## install and run the service on this machine
	$(BIN)/cns up --data $(DATA) $(ARGS)

fast: install-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker-compose.yml docker-compose.scaled.yml docker-compose.pipeline.yml
	$(BIN)/python -m pytest -q --ignore=tests/unit/spark tests/unit tests/protocol

check: fast ## format, lint, types, layers, the compose file, fast tests

test: install-dev ## what CI runs: the embedded form whole, a thin slice of everything else
	$(BIN)/python -m tests.run_stages

test-all: install-dev ## every test on this machine: the cluster, fault rounds, a quick bench
	$(BIN)/python -m tests.run_stages --all

test-ring: install-dev ## rings of three and eight Cassandra nodes that are killed and paused
	$(BIN)/python -m tests.run_stages --all ring

test-clients: install-dev install-programs ## clients in JavaScript, Java, Go and PHP, Terraform, validators of signatures, the rule engine
	$(BIN)/python -m tests.run_stages --all languages

test-containers: install-dev ## the composed cluster, brought up by podman-compose on images made here, and driven
	$(BIN)/python -m tests.run_stages --all containers

test-pythons: install-dev ## the embedded form on each version of Python that it is for
	$(BIN)/python -m tests.run_stages python3.11 python3.12 python3.13

release-check: test-all test-ring test-clients test-containers test-pythons faults ## all that a release takes

seeds: install-dev ## what the seeds state, shown by its commands: make seeds SEED=000
	$(BIN)/python -m tests.seeds $(SEED)

bench: install-dev ## measure against the bare floor; writes docs/performance.md
	$(BIN)/python -m lab.bench.run $(ARGS)

compare: install-dev ## measure ours beside other programs, of which PEERS= chooses; writes docs/performance.md
	$(BIN)/python -m lab.bench.run --only compare --runs 3 $(ARGS)

faults: install-dev ## kill -9 and power loss, all rounds; writes docs/reliability.md
	$(BIN)/python -m lab.faults.run $(ARGS)

format: install-dev ## format; generate the synchronous client
	$(BIN)/python -m deploy.sync_client
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# tools with dependencies of their own: they would change the versions that tests run with
$(VENV)/tools/%.done: requirements/%.lock $(UV)
	$(UV) venv --quiet --allow-existing --python $(BIN)/python $(VENV)/tools/$*
	$(UV) pip install --quiet --python $(VENV)/tools/$*/bin/python --require-hashes -r $<
	@touch $@

site: install $(VENV)/tools/site.done ## the documentation as a site, in build/site
	$(BIN)/python -m deploy.site
	NO_MKDOCS_2_WARNING=1 $(VENV)/tools/site/bin/mkdocs build --quiet --strict

wheel: install ## the wheel, in build/dist: the same bytes for the same commit
	rm -rf build/lib build/bdist.* build/dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/pip wheel --quiet --no-build-isolation --no-deps --no-index --wheel-dir build/dist .

deb: wheel ## the Debian package, in build/debian: the program with its own environment, units, user
	$(BIN)/python -m deploy.debian --date $$(git log -1 --format=%ct) --maintainer "$$(git log -1 --format='%an <%ae>')"

sbom: $(VENV)/tools/sbom.done ## what each lock file installs, as CycloneDX in build/sbom
	@mkdir -p build/sbom
	for lock in core cluster pipeline otel; do \
	  PYTHONWARNINGS=ignore::UserWarning $(VENV)/tools/sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	    --output-file build/sbom/$$lock.cdx.json requirements/$$lock.lock || exit 1; \
	done

image: ## the image localhost/cns, by podman from Debian's packages, as root: no image registry is needed
	$(PYTHON) -m deploy.images cns

release: install $(VENV)/tools/sbom.done ## the files of a release, in build/release; to try it: make release ARGS=--unreleased
	$(BIN)/python -m deploy.release $(ARGS)

audit: install $(VENV)/tools/audit.done ## known vulnerabilities of what the lock files install, where a service of them is reached
	$(BIN)/python -m deploy.audit $(VENV)/tools/audit/bin/pip-audit

lock: $(UV) ## resolve versions anew
	deploy/lock.sh $(UV)

servers-up: ## start Cassandra and Redis for tests, or to try the cluster, without Docker
	@$(PYTHON) -m deploy.servers up

servers-down: ## stop them; what Cassandra stored stays
	@$(PYTHON) -m deploy.servers down

clean: servers-down
	rm -rf $(VENV) build *.egg-info
