# jetwatch. `make demo` runs the whole pipeline, `make test` tests it; both install their dependencies on Debian 12 and Ubuntu 22.04 or newer.

SHELL := /bin/bash
export PATH := $(HOME)/.cargo/bin:$(PATH)

# `make demo SOURCE=video.mp4 MODEL=folder DURATION=60s` takes any source and model; an empty MODEL= runs the pipeline without a network.
# Without DURATION=, it runs until Ctrl-C in a terminal, and 20 s elsewhere.
# Without MODEL=, the drawn scene has street-nano, and a video or camera PicoDet, which is converted once.
SOURCE ?=
ifeq ($(origin MODEL),undefined)
MODEL := $(if $(filter-out synthetic:%,$(SOURCE)),,models/street-nano)
endif
DURATION ?=
# `make fuzz FUZZ_SECONDS=60` fuzzes each target for a minute.
FUZZ_SECONDS ?= 600
# Length of `make week`, `make storm` and `make fleet-test`.
MINUTES ?= 30
# Output folder of cargo and cross/build.
TARGET := $(or $(CARGO_TARGET_DIR),target)
BINARY := $(TARGET)/release/jetwatch
# The same program built for a short compile time, for the demo.
PROGRAM := $(TARGET)/debug/jetwatch
SIMULATOR := $(TARGET)/debug/jetwatch-simulate
# A first build is a tenth faster without incremental compilation. A folder that has been built in with it, by `cargo build` say, keeps it.
ifeq ($(wildcard $(TARGET)/debug/incremental/*),)
demo readme-test program simulator test test-programs tensorrt-test nsys-test metrics-test homeassistant-test homeassistant-test-2025 fleet-test fleet-test-nats web-test fleet-ansible-test update-test: export CARGO_INCREMENTAL ?= 0
endif
# Expanded by the shell when a line runs: make would expand it before the set-up in the line above has fetched it.
ONNXRUNTIME = $$(ls -d "$(CURDIR)"/.cache/onnxruntime/libonnxruntime.so.* 2>/dev/null | tail -n 1)
# Benchmarks have no tests, and need crates of their own.
tested = --workspace --exclude jetwatch-benches --locked
# The newest packages of an architecture: jetwatch, and ONNX Runtime for it.
packages = "$$(ls -t $(TARGET)/debian/jetwatch_*_$(1).deb | head -n1)" "$$(ls -t $(TARGET)/debian/jetwatch-onnxruntime_*_$(1).deb | head -n1)"

.PHONY: help demo readme-test picodet program simulator build test test-programs nightly quantizer quantize-test tensorrt-test sanitize gpu-test \
    nsys-test metrics-test homeassistant-test homeassistant-test-2025 fleet-test fleet-test-nats \
    fleet-bench fleet-sizing web-test web-pictures web-numbers v4l2 journald faults storm week userland test-arm64 deb deb-arm64 \
    appliance appliance-arm64 appliance-limits instructions sources media-numbers lint audit docs bench fuzz \
    clean fleet-ansible-test update-test

help: ## Say what there is.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Set up, build, and run the whole pipeline (SOURCE=, MODEL=, DURATION=).
	@.ci/setup program
	@{ .ci/setup run onnxruntime $(if $(filter-out synthetic:%,$(SOURCE)),$(if $(MODEL),,&& { .ci/setup picodet || true; })); } & rest=$$!; \
		$(MAKE) --no-print-directory program && wait $$rest
	@[ "$(TARGET)" = target ] || ln -sf $(ONNXRUNTIME) $(dir $(PROGRAM))
	@./jetwatch demo $(if $(DURATION),--duration $(DURATION)) $(if $(SOURCE),--source '$(SOURCE)') $(if $(MODEL),--model '$(MODEL)')

readme-test: ## Run the lines of README in order, with an empty home folder (minutes).
	@.ci/setup program run test
	@tests/readme/run

picodet: ## Convert PicoDet for real video into models/, out of a package of PyPI (67 MB, and 26 MB of packages for that).
	@.ci/setup picodet

program: ## Set up and build the program with little optimization, in about half the time.
	@.ci/setup program
	cargo build --locked --bin jetwatch
	@$(MAKE) --no-print-directory link

# The program where README names it, whatever CARGO_TARGET_DIR is.
.PHONY: link
link:
	@ln -sfn $(PROGRAM) jetwatch

simulator: ## The same, with the program that publishes as many devices would, for tests of brokers.
	@.ci/setup program
	cargo build --locked -p jetwatch -p jetwatch-simulate --bins

build: ## Set up and build the release binary.
	@.ci/setup build
	cargo build --release --locked

test: ## Set up and pass all tests.
	@.ci/setup program
	@.ci/setup run onnxruntime test & rest=$$!; cargo test $(tested) --no-run && wait $$rest
	@export ORT_DYLIB_PATH="$${ORT_DYLIB_PATH:-$(ONNXRUNTIME)}"; \
	if cargo nextest --version >/dev/null 2>&1; then \
		cargo nextest run $(tested) --config-file .ci/nextest.toml --no-fail-fast --test-threads $$((3 * $$(nproc))) && cargo test --doc $(tested) --quiet; \
	else cargo test $(tested); fi

# Not in .ci/run: what takes long (repetitions, emulated machines, sanitizers, the release build), needs more releases of Debian, or proves
# what changes seldom.
nightly: ## Run the tests that take too long for each change (needs root; hours).
	$(MAKE) faults FULL=1
	$(MAKE) storm MINUTES=20
	$(MAKE) update-test FULL=1
	$(MAKE) fleet-test MINUTES=30
	$(MAKE) fleet-test-nats MINUTES=5
	$(MAKE) homeassistant-test-2025
	$(MAKE) sanitize
	for suite in bullseye jammy noble; do $(MAKE) userland SUITE=$$suite || exit 1; done
	$(MAKE) v4l2
	$(MAKE) web-test BROWSERS=firefox
	$(MAKE) journald
	$(MAKE) test-arm64
	$(MAKE) appliance
	SUITE=jammy UPGRADE=noble SCENARIO=package $(MAKE) appliance
	$(MAKE) appliance-limits
	$(MAKE) appliance-arm64
	$(MAKE) week
	$(MAKE) fuzz FUZZ_SECONDS=60

test-programs: ## Set up and build what `make test` runs, with cargo's report of its times.
	@.ci/setup build
	cargo nextest run $(tested) --no-run --timings

v4l2: program ## Prove the V4L2 source with a kernel's virtual camera, in QEMU (Debian, x86-64; a few minutes).
	@.ci/setup run onnxruntime
	@tests/v4l2/run $(PROGRAM) $(ONNXRUNTIME)

quantizer: ## Make the Python environment of the tests of models/ in .cache (200 MB of packages).
	@cmp -s models/requirements-test.txt .cache/quantize/made || { python3 -m venv --clear .cache/quantize && \
		.cache/quantize/bin/pip install --quiet --disable-pip-version-check --require-hashes -r models/requirements-test.txt && \
		cp models/requirements-test.txt .cache/quantize/made; }

quantize-test: program quantizer ## Test the INT8 quantizer and the importers of models/ (one of their networks is in a wheel of 67 MB, kept in .cache).
	@JETWATCH="$(abspath $(PROGRAM))" .cache/quantize/bin/python -B models/quantize_test.py
	@JETWATCH="$(abspath $(PROGRAM))" XDG_CACHE_HOME="$(abspath .cache)" .cache/quantize/bin/python -B models/import_test.py

tensorrt-test: ## Prove the calls into TensorRT without a GPU: NVIDIA's real libraries, and doubles of its classes (x86-64; 230 MB of packages).
	@.ci/setup build onnxruntime tensorrt doubles
	@tests/nvidia_doubles/build --check
	@JETWATCH_TENSORRT="$(abspath .cache/tensorrt)" ORT_DYLIB_PATH="$${ORT_DYLIB_PATH:-$(ONNXRUNTIME)}" cargo test --locked --test detection \
		-- tensorrt_real:: nvidia_tensorrt:: engine:: detect_tensorrt::

sanitize: ## Run the tests on the doubles of NVIDIA's libraries with AddressSanitizer and ThreadSanitizer (x86-64; minutes).
	@.ci/setup build run doubles
	@tests/nvidia_doubles/build
	@tests/sanitize/run $(SANITIZER)

gpu-test: ## Prove and measure the GPU's part on this machine's NVIDIA GPU.
	@.ci/setup build doubles
	@tests/gpu/run

nsys-test: ## Prove `jetwatch profile` and `report` with Nsight Systems itself, over a real sshd (Debian's non-free package, 185 MB to download, and Chromium).
	@.ci/setup build run nsys
	@command -v nsys >/dev/null
	JETWATCH_TEST_NSYS=1 cargo test --locked --test tools -- nsys_report::
	JETWATCH_TEST_NSYS=1 cargo test --locked --test tools -- nsys_profile::
	@.ci/setup run onnxruntime
	ORT_DYLIB_PATH="$${ORT_DYLIB_PATH:-$(ONNXRUNTIME)}" JETWATCH_TEST_NSYS=1 cargo test --locked --test tools -- nsys_limits::

metrics-test: program ## Prove the metrics, the alert rules and the dashboard with a real Prometheus (Debian's packages, 30 MB to download; a minute).
	@.ci/setup run test metrics
	@tests/metrics/run $(PROGRAM) .cache/prometheus

homeassistant-test: program ## Prove what is announced with the real Home Assistant, in a Debian made for it (needs root; 1.5 GB in .cache; minutes).
	@.ci/setup run test
	@root=$$(tests/homeassistant/install newest) && tests/homeassistant/run $(PROGRAM) "$$root"

homeassistant-test-2025: program ## The same with Home Assistant 2025.12 (2 GB in .cache).
	@.ci/setup run test
	@root=$$(tests/homeassistant/install 2025) && tests/homeassistant/run $(PROGRAM) "$$root"

fleet-test: simulator ## Prove that no event of many boxes is lost while brokers, boxes and the consumer are killed for MINUTES= (needs root; 1 GB in .cache).
	@.ci/setup run
	@tests/fleet/run rabbitmq $(MINUTES) $(PROGRAM) $(SIMULATOR)

fleet-test-nats: simulator ## The same with NATS in place of RabbitMQ.
	@.ci/setup run
	@tests/fleet/run nats $(MINUTES) $(PROGRAM) $(SIMULATOR)

fleet-ansible-test: program ## Prove the Ansible role of examples/fleet on booted containers (needs root; 0.4 GB in .cache).
	@.ci/setup run
	@tests/fleet/ansible $(PROGRAM)

fleet-bench: simulator ## Measure how fast the consumer of a fleet writes into PostgreSQL (needs root).
	@.ci/setup run
	@tests/fleet/bench $(SIMULATOR)

fleet-sizing: simulator ## Measure what a connection and an event cost mosquitto and RabbitMQ, with 1000 simulated boxes (needs root; minutes).
	@.ci/setup run
	@tests/fleet/sizing $(SIMULATOR)

web-test: program ## Prove the page in Chromium and Firefox (of Debian, with nodejs, puppeteer-core in .cache; minutes; PICTURES= keeps pictures).
	@.ci/setup run test onnxruntime
	@ORT_DYLIB_PATH="$${ORT_DYLIB_PATH:-$(ONNXRUNTIME)}" tests/web/run $(PROGRAM) "$$(tests/web/install)" $(PICTURES)

web-pictures: ## Make the pictures of the page in the documents again, in Chromium (minutes).
	@$(MAKE) --no-print-directory web-test BROWSERS=chromium FLOWS='views of the guide|finds a camera' PICTURES=target/pictures
	@cp target/pictures/chromium/guide-*.webp docs/src/images/

web-numbers: build ## Print figures of the page of the release build in a real browser: age of pictures, the first of a stream, 100,000 objects (minutes).
	@.ci/setup run test onnxruntime
	@ORT_DYLIB_PATH="$${ORT_DYLIB_PATH:-$(ONNXRUNTIME)}" NUMBERS=1 tests/web/run $(BINARY) "$$(tests/web/install)"

journald: build ## Prove the log in a real journal, under systemd in a container (needs root; half a minute).
	@.ci/setup run onnxruntime
	@tests/journald/run $(BINARY) $(ONNXRUNTIME)

update-test: program ## Prove updates of the program and of models on a booted container: rollback, attacks, kills, power cuts (root; 0.9 GB in .cache; FULL=1, CASES=).
	@.ci/setup run onnxruntime
	@ORT_DYLIB_PATH="$${ORT_DYLIB_PATH:-$(ONNXRUNTIME)}" tests/update/run $(PROGRAM)

faults: program ## Prove that no event is lost: kills, outages, power cuts and full disks (root), clocks, cameras (FULL=1: as often as promised).
	@.ci/setup run onnxruntime
	@ORT_DYLIB_PATH="$${ORT_DYLIB_PATH:-$(ONNXRUNTIME)}" tests/faults/run $(PROGRAM) $(if $(FULL),--full)

storm: program ## Prove that no event is lost while broker, daemon, sources, disk, page, commands and clock are disturbed at once for MINUTES=30 (SEED=).
	@.ci/setup run test
	@tests/faults/run $(PROGRAM) --only storm --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

week: build ## Run one daemon under load for MINUTES=30: no event lost, no growth of memory, threads or file descriptors.
	@.ci/setup run onnxruntime
	@ORT_DYLIB_PATH="$${ORT_DYLIB_PATH:-$(ONNXRUNTIME)}" tests/faults/run $(BINARY) --only week --minutes $(MINUTES)

userland: ## Pass all tests on the userland of SUITE=focal (Ubuntu 20.04, JetPack 5), jammy (22.04, 6), noble (24.04, 7), bullseye (x86-64, root; TESTS= names some).
	@.ci/setup build
	@TESTS='$(TESTS)' tests/gstreamer/run $(or $(SUITE),focal)

test-arm64: ## Pass all tests for arm64, in qemu's user emulation (x86-64, Linux 6.7, root; 1 GB in .cache; many minutes; TESTS= names some).
	@TESTS='$(TESTS)' cross/test

deb: ## Build the Debian packages for amd64 into target/debian (Debian 12, Ubuntu 22.04 or newer; a sysroot of 200 MB in .cache).
	@cross/build amd64

deb-arm64: ## Build the Debian packages for arm64, for Jetson (SYSROOT= takes the libraries of your JetPack).
	@cross/build arm64

appliance: deb ## Prove the package on a Debian 11 that boots in a container (x86-64, needs root; SUITE=focal, jammy, noble: an Ubuntu).
	@tests/appliance/run amd64 $(call packages,amd64)

appliance-arm64: deb-arm64 ## The same for arm64, emulated (needs root; many minutes).
	@tests/appliance/run arm64 $(call packages,arm64)

appliance-limits: deb ## Boot the package with a kernel of its own, in QEMU, where its limits and its sandbox bite (x86-64, needs root).
	@SCENARIO=limits tests/appliance/run amd64 $(call packages,amd64)

lint: ## Check formatting and lints.
	cargo fmt --check
	@list() { cargo tree --prefix none --format '{p} {f}' "$$@" | sed 's/ (\*)$$//' | sort -u; }; \
	differ=$$(comm -23 <(list --locked --edges normal,build) <(list $(tested))); \
	[ -z "$$differ" ] || { echo "lint: make demo and make test compile with other features, so each compiles them again: $$differ" >&2; exit 1; }
	cargo clippy --workspace --locked --all-targets -- -D warnings

docs: ## Build the documentation as a book into target/docs (needs mdBook: cargo install mdbook).
	@command -v mdbook >/dev/null || { echo "docs: mdbook is not installed; run: cargo install mdbook" >&2; exit 1; }
	mdbook build --dest-dir "$(abspath $(TARGET))/docs" docs

bench: ## Run the micro-benchmarks (BENCH=resize: one of them, ARGS= its arguments).
	@.ci/setup build
	cargo bench -p jetwatch-benches --locked $(if $(BENCH),--bench $(BENCH)) $(if $(ARGS),-- $(ARGS))

instructions: build ## Count CPU instructions per frame outside of NVIDIA's code, on the virtual Jetson (x86-64; minutes).
	@benches/scripts/instructions/run $(BINARY)

sources: build ## Measure drops, processor time and memory of thirty sources against one (minutes).
	@benches/scripts/sources $(BINARY)

media-numbers: build ## Measure frames per second with page, viewers, metrics and clips against those without, and when clips are complete (minutes).
	@benches/scripts/media $(BINARY)

fuzz: ## Fuzz the decoders and the readers for FUZZ_SECONDS (600) each; installs cargo-fuzz.
	@.ci/setup build fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/run

audit: ## Check licences, sources, duplicates and advisories of all dependencies with cargo-deny (installs it; deny.toml has the rules).
	@.ci/setup build audit
	cargo deny --locked check licenses bans sources
	@.ci/advisories

clean: ## Remove what was built and downloaded.
	rm -rf --one-file-system target .cache tests/fuzz/target tests/sanitize/Cargo.lock
