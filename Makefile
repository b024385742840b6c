# Two commands from nothing: `make repro` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
LAWS ?= two-modes, ring6, ring8, mog2, mog6, ring2d
ITERATIONS ?= 36 # of the chains of `make classes`
DIMENSIONS ?= [1, 2, 5, 10, 30, 100] # columns, rows and seeds of `make tabular`
SIZES ?= [100, 300, 1000, 3000, 10000]
SEEDS ?= [0, 1, 2, 3, 4]
WALLPAPERS := lomiri-wallpapers-16.04 lomiri-wallpapers-20.04 mate-backgrounds plasma-workspace-wallpapers
SECONDS ?= 600 # of `make fuzz`
SEED ?= 0 # of the moments at which `make faults` kills
ENSEMBLE ?= [] # folders of further models, of `make photos`
PORT := 5000 # of `make ui`
# Where torch is taken from in place of pip's index: https://download.pytorch.org/whl/cpu has the CPU build.
TORCH_INDEX ?=
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 2
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help install repro smoke test test-in-turn test-everywhere test-slow test-cluster faults faults-quick fuzz test-all check wheel lint types structure table1 figure1 denoisers mixing classes tabular photos inverse diffusion diffusion-digits inverse-digits photo-models dimension causal second-opinions bench large-data scale device-check ui docs doctor audit clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Installed once for each state of the pins: what the experiment needs, and on top of it what tests and
# documents need. Packages are compiled on all cores afterwards, where pip takes one; files for other
# Pythons, which some packages carry, do not compile, and nobody needs them.
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

$(VENV)/.experiment: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed, $(PYTHON) is older; try make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(if $(TORCH_INDEX),$(PIP_INSTALL) --no-deps --index-url $(TORCH_INDEX) torch torchvision)
	$(PIP_INSTALL) -e ".[pipeline,images]"
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@

$(VENV)/.installed: $(VENV)/.experiment
	$(PIP_INSTALL) -e ".[pipeline,images,dev]"
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@

install: $(VENV)/.installed ## create .venv with the pinned dependencies, 3 to 5 minutes; TORCH_INDEX=https://download.pytorch.org/whl/cpu: torch without CUDA

repro: $(VENV)/.experiment ## run the whole experiment; the result is reports/index.html
	python -m hosm.experiment.repro

smoke: install ## the same with the smoke profile, in a copy, to see that everything works
	sh tests/smoke.sh

test: install ## the default tests, six to eight minutes on 2 cores
	sh tests/configurations.sh usual

test-in-turn: install ## the same under the one whose turn it is at this commit, of those of test-everywhere
	sh tests/configurations.sh turn

test-everywhere: install ## the same under other vector instructions, threads and orders (an hour)
	sh tests/configurations.sh all

test-cluster: install ## tests that start Ray, MLflow and DVC
	pytest -m cluster --timeout 900

test-slow: install ## tests that train for minutes
	pytest -m "slow and not cluster" --timeout 1800

faults: install ## kill, fill and damage everything, 35 minutes on 2 cores; ends with a table
	FAULTS_SEED=$(SEED) OMP_NUM_THREADS=1 pytest tests/faults -m faults -n 2 --dist worksteal --timeout 1800

faults-quick: install ## the shorter part of that
	FAULTS_SEED=$(SEED) OMP_NUM_THREADS=1 pytest tests/faults -m "faults and not long" -n 2 --dist worksteal --timeout 1800

fuzz: install ## look for files that a reader does not take well, ten minutes, goes on where it stopped
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'atheris>=3'
	OMP_NUM_THREADS=1 python -m tests.fuzz $(SECONDS)

test-all: test test-cluster test-slow ## every test

wheel: install ## build the wheel and use it in a clean environment without extras (3 minutes)
	pytest -m slow tests/project/test_wheel.py --timeout 1800

lint: install ## ruff, check only
	ruff check . && ruff format --check .

types: install ## mypy
	mypy

structure: install ## imports and stages against the architecture
	pytest tests/project/test_layers.py tests/project/test_pipeline.py

check: lint types structure ## what changed since the last commit: style, types, structure, the tests of its folders
	OMP_NUM_THREADS=1 sh tests/changed.sh

# A clone at the last commit with the paper's sizes and all laws in the plane: what a stop or a kill left in it is gone on with.
# `$(call at_length,FOLDER,STAGES)` shows stage, progress and time left; delete the folder to begin anew.
define at_length
	test -d build/$(1) || git clone -q . build/$(1)
	cd build/$(1) && git fetch -q origin HEAD && git reset -q --hard FETCH_HEAD && \
	  sed -i 's/^profile: .*/profile: paper/; s/^laws: .*/laws: [$(LAWS)]/' params.yaml && \
	  PYTHONPATH=$(CURDIR)/build/$(1) OMP_NUM_THREADS=1 python -m hosm.experiment.repro $(2)
endef

table1: install ## the whole of table 1 at the paper's sizes, four hours on 2 cores, goes on after a stop -> reports/whole
	$(call at_length,table1,accuracy)
	mkdir -p reports/whole && cp build/table1/data/results/accuracy/* reports/whole/

figure1: install ## figure 1 at the paper's sizes, goes on after a stop -> reports/whole/reduction
	$(call at_length,figure1,reduction)
	mkdir -p reports/whole/reduction && cp build/figure1/data/results/reduction/* reports/whole/reduction/

denoisers: install ## the denoiser trained at length, an hour and more on 2 cores, goes on after a stop -> reports/whole/denoisers
	$(call at_length,denoisers,uncertainty)
	for each in build/denoisers/data/results/uncertainty/*; do \
	  kept=reports/whole/denoisers/$$(basename $$each); mkdir -p $$kept; cp $$each/*.csv $$each/card.json $$kept; done

mixing: install ## the study of the samplers at length, an hour and more on 2 cores, goes on after a stop -> reports/whole/sampling
	$(call at_length,mixing,mixing peers)
	for each in mixing peers; do \
	  mkdir -p reports/whole/sampling/$$each; cp build/mixing/data/results/$$each/*.csv reports/whole/sampling/$$each; done
	cp build/mixing/data/results/mixing/card.json reports/whole/sampling/

classes: install ## figures 7 and 8 at length, goes on after a stop, two hours and more on 2 cores -> reports/whole/diversity
	test -d build/classes || git clone -q . build/classes
	cd build/classes && git fetch -q origin HEAD && git reset -q --hard FETCH_HEAD && \
	  PYTHONPATH=$(CURDIR)/build/classes dvc exp run \
	  -S classifier.width=32 -S classifier.steps=6000 -S classifier.batch_size=128 \
	  -S diversity.noise_iterations=1000 -S diversity.chains=1000 -S diversity.iterations=$(ITERATIONS) \
	  -S diversity.records=20 diversity
	for each in build/classes/data/results/diversity/*; do \
	  kept=reports/whole/diversity/$$(basename $$each); mkdir -p $$kept; \
	  cp $$each/*.csv $$each/card.json $$each/pictures.npz $$kept; done

tabular: install ## tables of few rows at length, many hours on 2 cores, goes on after a stop -> reports/whole/tabular
	test -d build/tabular || git clone -q . build/tabular
	cd build/tabular && git fetch -q origin HEAD && git reset -q --hard FETCH_HEAD && \
	  PYTHONPATH=$(CURDIR)/build/tabular OMP_NUM_THREADS=1 dvc exp run -S profile=paper \
	  -S tabular.dimensions='$(DIMENSIONS)' -S tabular.sizes='$(SIZES)' -S tabular.seeds='$(SEEDS)' \
	  -S tabular.splits='[0, 1, 2]' --single-item tabular
	mkdir -p reports/whole/tabular && cp build/tabular/data/results/tabular/* reports/whole/tabular/

photos: install ## the denoiser of photographs on whole pictures, an hour and more on 2 cores, goes on after a stop -> reports/whole/photos
	test -d build/photos || git clone -q . build/photos
	cd build/photos && git fetch -q origin HEAD && git reset -q --hard FETCH_HEAD && \
	  PYTHONPATH=$(CURDIR)/build/photos dvc exp run \
	  -S photos.pictures=100 -S photos.side=2000 -S photos.passes=16 -S photos.tuning_side=128 \
	  -S photos.ensemble='$(ENSEMBLE)' --single-item photos
	mkdir -p reports/whole/photos && cp build/photos/data/results/photos/* reports/whole/photos/

diffusion: install ## diffusion in few steps at length, about an hour on 2 cores -> reports/whole/diffusion
	$(call at_length,diffusion,--single-item diffusion)
	mkdir -p reports/whole/diffusion && cp build/diffusion/data/results/diffusion/* reports/whole/diffusion/

diffusion-digits: install ## bounds and draws of digits by steps and covariance, two hours of one core, goes on after a stop -> reports/whole/diffusion-digits
	mkdir -p build/digits reports/whole/diffusion-digits
	python -m hosm.experiment.digits.study.bounds build/digits/model reports/whole/diffusion-digits
	python -m hosm.experiment.digits.study.draws build/digits/model reports/whole/diffusion-digits

inverse-digits: install ## inverse problems of digits, two hours of one core, goes on after a stop -> reports/whole/inverse-digits
	mkdir -p build/digits reports/whole/inverse-digits
	python -m hosm.experiment.digits.study.problems build/digits/model reports/whole/inverse-digits

inverse: install ## linear inverse problems at length, an hour and more on 2 cores -> reports/whole/inverse
	$(call at_length,inverse,--single-item inverse)
	mkdir -p reports/whole/inverse && cp build/inverse/data/results/inverse/* reports/whole/inverse/

photo-models: install ## train the denoisers of photographs that come with the package, an hour each on 2 cores; needs apt of Debian
	mkdir -p build/wallpapers
	cd build/wallpapers && for each in $(WALLPAPERS); do \
	  test -d $$each || { apt-get download -q $$each && dpkg-deb -x $${each}_*.deb $$each && rm $${each}_*.deb; } || exit 1; done
	for kind in grey colour; do python -m hosm.experiment.photos.training \
	  build/wallpapers $$kind hosm/pictures/photos-$$kind.hosm || exit 1; done

dimension: install ## local dimension on 38 surfaces beside scikit-dimension, ten minutes of one core, goes on after a stop -> reports/whole/dimension
	python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dimension]"
	OMP_NUM_THREADS=1 python -m hosm.experiment.dimension.study.study reports/whole/dimension

causal: install ## causal graphs of 10 to 50 variables beside SCORE and NoGAM, three hours of one core, goes on after a stop -> reports/whole/causal
	python -m pip download --quiet --disable-pip-version-check --no-deps -d build/cdt cdt==0.6.0
	OMP_NUM_THREADS=1 python -m hosm.experiment.causal.study.study reports/whole/causal --sachs build/cdt/cdt-0.6.0-py3-none-any.whl

second-opinions: install ## each claim of the paper at one other point, after `make repro` -> reports/whole
	python -m hosm.experiment.report.second_opinions

bench: install ## time it all anew on this machine, then render the report (and what it lacks)
	dvc repro --single-item --force speed scaling
	dvc repro report

large-data: install ## train from 20 GB of made images with 4 GB of memory a worker, needs 21 GB of disk, goes on after a stop -> reports/whole/large
	OMP_NUM_THREADS=1 python -m hosm.experiment.cost.study.large_data build/large reports/whole/large 20 2 4
	rm -rf build/large
	python -m hosm.experiment.cost.scaling_page reports/whole docs/scaling.md

scale: install ## the plan for up to 64 GPUs from times of this machine, ten minutes on 2 cores, best with nothing beside -> reports/whole/scale
	OMP_NUM_THREADS=1 python -m hosm.experiment.cost.study.scale_measured reports/whole/scale
	python -m hosm.experiment.cost.scaling_page reports/whole docs/scaling.md

device-check: install ## does the GPU here train as the CPU does? six minutes -> reports/device; without one a rehearsal -> build/device
	python -m hosm.experiment.cost.study.device reports/device

ui: install ## MLflow's pages on http://127.0.0.1:5000; on another port by make ui PORT=5123
	MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false mlflow ui --host 127.0.0.1 --port $(PORT) --workers 1 \
	  --backend-store-uri sqlite:///$(CURDIR)/runs/mlflow.db

docs: install ## the site: README, claims, examples, reference -> build/site/index.html
	sphinx-build -q -W --keep-going -b html docs build/site

doctor: install ## is this machine ready? what to fix
	python -m hosm.experiment.doctor

audit: install ## known vulnerabilities of the pinned packages; skipped without a network
	sh .ci/audit

clean: ## remove what runs have written, keep the environment and reports/
	rm -rf data runs
