# The front door. Each target is a line or two; the work is in scripts/, cmake/ and tests/.
BUILD ?= build/release
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
PYTHON ?= /usr/bin/python3
KILLS ?= 200
FAULTS ?= 20
PODS ?= 0
NODES ?= 1000
ROUNDS ?= 3

.DEFAULT_GOAL := help
.PHONY: help demo capture dashboard setup setup-test build test test-unit test-kind soak equal-machines bench bench-recovery bench-coordinator bench-placement bench-peers bench-control-plane bench-trainer cuda-kernels cuda-plans cuda-roofline site doxygen lint cluster cluster-check cluster-down install clean

##@ Try it

help: ## this list
	@awk -F ':.*## ' '/^##@ /{printf "%s%s\n", sep, substr($$0, 5); sep = "\n"} /^[a-z-]+:.*## /{printf "  make %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## train a small language model on 4 workers, kill one on the way
	@scripts/demo.sh $(BUILD)

cluster: setup-test cluster-check build ## a real 3-node cluster with the operator installed: eval "$(make cluster)"
	@scripts/cluster.sh up

cluster-check: # before what takes a quarter of an hour
	@tests/cluster/cluster check --nodes $${NODES:-3}

cluster-down: ## remove that cluster and all of it
	@scripts/cluster.sh down

##@ Build

setup: ## install what the build needs (Debian packages; sudo when not root)
	@scripts/setup.sh build >&2

setup-test:
	@scripts/setup.sh test >&2

build: setup ## build the programs into build/release/bin
	@scripts/build.sh release $(BUILD) $(JOBS) programs >&2

install: build ## install to $(DESTDIR)$(PREFIX)
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)

clean: ## remove the build folders
	rm -rf build

##@ Test

test: setup-test ## every suite: structure, unit tests and sanitizers, CUDA kernels, lockstep run, the chart, real clusters, kind (root)
	@$(PYTHON) scripts/run_tests.py all

test-unit: setup-test ## the unit tests alone (under a minute after the build)
	@$(PYTHON) scripts/run_tests.py unit

test-kind: setup-test ## the chart and jobs with mock GPUs on kind (podman, root)
	@$(PYTHON) scripts/run_tests.py kind

soak: setup-test ## the long forms of the tests, and the long commands of the pages as printed (hours; LOCKSTEP_SOAK_ROUNDS makes it longer)
	@$(PYTHON) scripts/run_tests.py soak

EVENTS ?= 10000000
equal-machines: ## the state machines of COMMIT and of the working tree: equal over EVENTS random events
	@tests/operator/rendezvous/equal_machines/compare.sh $(COMMIT) $(EVENTS)

lint: setup-test ## clang-format, clang-tidy, helm lint, shellcheck
	@scripts/lint.sh

##@ Measure

bench: setup-test ## benchmarks: ratios against a bound or a peer of the same run
	@$(PYTHON) scripts/run_tests.py bench

BENCHED = lockstep lockstep-agent lockstep-trainer all_reduce_bench
bench-recovery: setup-test ## ranks of a training job killed KILLS=200 times: how long the others stand still, against a bound
	@scripts/build.sh release $(BUILD) $(JOBS) $(BENCHED)
	@LOCKSTEP_BUILD=$(abspath $(BUILD)) $(PYTHON) tests/bench/recovery/bench_recovery.py --kills $(KILLS)

MEMBERS ?= 100 4096
SIZES ?= 100/100/64 1000/1000/512 10000/10000/64 10000/10000/4096
bench-coordinator: setup-test ## scripted agents over TLS, MEMBERS="100 4096": a gang forms, loses one, finds a new coordinator; the operator's memory, SIZES="NODES/PODS/AGENTS ..."
	@scripts/build.sh release $(BUILD) $(JOBS) coordinator_bench operator_size_bench
	@$(BUILD)/tests/bin/coordinator_bench --members $(MEMBERS) --most-mib 200
	@$(BUILD)/tests/bin/operator_size_bench --operator $(BUILD)/bin/lockstep-operator --limit-of charts/lockstep/values.yaml --margin 1.5 --storms 0
	@$(BUILD)/tests/bin/operator_size_bench --operator $(BUILD)/bin/lockstep-operator --sizes $(SIZES) --rest

bench-placement: setup-test ## where a gang's pods go: decisions and events against bounds; packing against other schedulers' rules; from a job to 256 bound pods on NODES=1000
	@scripts/build.sh release $(BUILD) $(JOBS) placement_bench packing_bench lockstep-operator
	@$(BUILD)/tests/bin/placement_bench
	@mkdir -p out/bench
	@$(BUILD)/tests/bin/packing_bench --json out/bench/packing.json
	@$(PYTHON) tests/bench/placement/plot.py out/bench/packing.json out/bench/packing.svg
	@LOCKSTEP_BUILD=$(abspath $(BUILD)) $(PYTHON) tests/bench/placement/end_to_end.py --nodes $(NODES) --rounds $(ROUNDS)

bench-peers: setup-test ## a fault every 30 s, FAULTS=20 times each, under Lockstep, torchrun and torchft (downloads PyTorch once)
	@scripts/build.sh release $(BUILD) $(JOBS) $(BENCHED)
	@LOCKSTEP_BUILD=$(abspath $(BUILD)) $(PYTHON) tests/bench/recovery/bench_peers.py --faults $(FAULTS)

bench-control-plane: setup-test ## the time to a job's last pod, against a raw client and JobSet (an hour; PODS=300 ROUNDS=1 for a look)
	@scripts/build.sh release $(BUILD) $(JOBS) lockstep lockstep-agent lockstep-operator
	@LOCKSTEP_BUILD=$(abspath $(BUILD)) $(PYTHON) tests/bench/control_plane/bench_control_plane.py --pods $(PODS) --rounds $(ROUNDS)
	@LOCKSTEP_BUILD=$(abspath $(BUILD)) $(PYTHON) tests/bench/control_plane/sleepers.py

bench-trainer: setup-test ## decoding against libjpeg-turbo's benchmark; training steps of six networks against their convolutions or matrix products alone, and against PyTorch (downloads both once)
	@scripts/build.sh release $(BUILD) $(JOBS) training_step_bench decode_bench lockstep lockstep-data
	@$(BUILD)/tests/bin/training_step_bench
	@LOCKSTEP_BUILD=$(abspath $(BUILD)) $(PYTHON) tests/bench/trainer/bench_decode.py
	@LOCKSTEP_BUILD=$(abspath $(BUILD)) $(PYTHON) tests/bench/trainer/bench_pytorch.py

##@ Look at the CUDA backend without a GPU

cuda-kernels: setup-test ## compile the CUDA kernels and list what each takes of a GPU (downloads nvcc once; needs no GPU)
	@scripts/cuda-toolkit.sh >/dev/null
	@scripts/build.sh cuda build/cuda $(JOBS) cuda_kernels

cuda-plans: setup-test ## print what cuDNN chooses for the models' convolutions on A100, H100 and H200 (downloads it once; needs no GPU)
	@scripts/cuda-toolkit.sh --cudnn >/dev/null
	@scripts/build.sh release $(BUILD) $(JOBS) cuda_plans >&2
	@$(BUILD)/tests/bin/cuda_plans $$(scripts/cuda-toolkit.sh --cudnn --where)/lib

cuda-roofline: setup-test ## print what the models' training steps can reach at most on A100, H100 and H200 (arithmetic; needs no GPU)
	@scripts/build.sh release $(BUILD) $(JOBS) cuda_roofline >&2
	@$(BUILD)/tests/bin/cuda_roofline

##@ Make the pages

site: setup-test ## the documentation as a site, in out/site/html
	@scripts/site.py

doxygen: setup-test ## the public headers as pages, in out/doxygen/html
	@mkdir -p out
	@doxygen Doxyfile
	@echo out/doxygen/html/index.html

capture: build ## record `make demo` as docs/demo.svg, the picture of the README
	@scripts/capture.py docs/demo.svg --prompt 'make demo' -- scripts/demo.sh $(BUILD)

dashboard: setup-test build ## draw docs/dashboard.svg, the picture of the Grafana dashboard, from a run with faults (root, 10 minutes)
	@scripts/dashboard_run.sh docs/dashboard.svg
