# Everything runs from here: `make train` and `make test` on a machine that has nothing but Python and apt.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export MOLECULE_GLOB := molecule/*/molecule.yml
export ANSIBLE_FORCE_COLOR ?= $(if $(CI),false,true)
VENV := .venv
BIN := $(VENV)/bin
NODES ?= 2
# inventory/ describes two nodes; the role writes the inventory of any other number.
INVENTORY := $(if $(filter 2,$(NODES)),inventory,.cache/local_cluster/inventory)

# The targets share .venv, the cluster and the cores, also under `make -j`.
.NOTPARALLEL:
.PHONY: help setup dev docker cluster train test lint unit sanity integration molecule e2e newest clean

help: ## Say what there is
	@grep -hE '^[a-z][a-z0-9-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## Make .venv with what the playbooks need (1 to 2 minutes)
	@scripts/bootstrap.sh $(VENV) requirements.txt

dev: ## Make .venv with the test tools too (2 to 3 minutes)
	@scripts/bootstrap.sh $(VENV) requirements-dev.txt

docker: ## See to a Docker Engine on this machine (1 to 2 minutes where there is none)
	@scripts/docker.sh start

cluster: setup docker ## Bring up the local cluster of NODES nodes (about 10 minutes the first time)
	$(BIN)/ansible-playbook local_cluster.yml -e local_cluster_nodes=$(NODES)

train: cluster ## Train a small model on the local cluster, from nothing to the last step
	$(BIN)/ansible-playbook train.yml -i $(INVENTORY) -e train_wait=true

test: lint unit sanity integration newest molecule e2e ## All of it, as CI runs it

lint: dev ## ruff, mypy, yamllint, ansible-lint (production), changelog, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/yamllint --strict .
	$(BIN)/ansible-lint --offline
	$(BIN)/antsibull-changelog lint
	PATH=$(CURDIR)/$(BIN):$$PATH ANSIBLE_COLLECTIONS_PATH=collections $(BIN)/antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .

# What talks to processes, containers and the kernel is measured by `make integration`.
BORDER := plugins/module_utils/_control.py,plugins/module_utils/_jobs_dir.py,plugins/module_utils/_probe.py,plugins/module_utils/_procfs.py,plugins/module_utils/_report.py,plugins/module_utils/_runtime.py,plugins/module_utils/_supervisor.py

unit: dev ## Unit tests, with the branch coverage that pure code must hold
	$(BIN)/pytest tests/unit --cov --cov-report= --durations=5
	$(BIN)/coverage report --skip-covered --fail-under=95 \
	  --include='plugins/module_utils/*,plugins/plugin_utils/*,plugins/filter/*' --omit='$(BORDER)'

sanity: dev ## ansible-test sanity and ansible-doc on the built and installed collection
	@scripts/sanity.sh $(VENV)

integration: unit cluster ## Real supervisors, real containers, real ansible-playbook runs on this machine
	$(BIN)/pytest tests/integration --ignore=tests/integration/playbooks --cov --cov-append --cov-report= --durations=5
	$(BIN)/coverage report --skip-covered --fail-under=90
	$(BIN)/pytest tests/integration/playbooks -n 2 --durations=5

newest: dev ## The unit tests again on the newest Python and ansible-core
	@scripts/newest.sh

molecule: dev cluster ## The roles on the nodes of the local cluster: converge, again, verify
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/molecule test --all

e2e: newest docker ## Real training on the local cluster, and what happens when things go wrong
	$(BIN)/ansible-playbook local_cluster.yml -e local_cluster_nodes=$(NODES) -e local_cluster_host_venv=true
	$(BIN)/ansible-playbook provision.yml -i inventory
	$(BIN)/pytest tests/e2e -x --durations=20

clean: ## Remove every trace of the local cluster, caches and environments
	@scripts/docker.sh resume
	@[ ! -x $(BIN)/ansible-playbook ] || $(BIN)/ansible-playbook local_cluster.yml -e local_cluster_state=absent
	@scripts/docker.sh stop
	rm -rf .cache .runner .ansible $(VENV) .venv-* logs reports collections/ansible_collections/community .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis *.tar.gz
