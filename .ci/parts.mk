# Parts of .ci/run, as targets of make, which runs --jobs of them at a time: the cheapest check first, downloads and Debians for tests
# beside compilation, tests that mostly wait beside those that compute. Each is a command that people run by hand, too.
#
# Nothing is left out because of the time that it takes. What is not worth its minutes in each run is in `make nightly`, with the reason.

export CARGO_INCREMENTAL := 0
TARGET := $(or $(CARGO_TARGET_DIR),target)
ONNXRUNTIME = $$(ls -d .cache/onnxruntime/libonnxruntime.so.* | tail -n 1)
package = $$(ls -t $(TARGET)/debian/$(1)_*_amd64.deb | head -n 1)
part = @.ci/part $@
optional = @.ci/part $@ --optional
after = @.ci/part $@ --after $<

# In the order in which they start: compilation and its preparations, then the long ones.
PARTS := lint prepare-sysroot prepare-containers prepare-tensorrt test prepare-homeassistant prepare-browser prepare-fleet \
    prepare-metrics prepare-quantizer prepare-audit prepare-nsys demo package update-test tensorrt-test faults appliance \
    homeassistant-test v4l2 fleet-ansible-test bundle-test web-test quantize-test fleet-test metrics-test audit

.PHONY: all setup nsys-test $(PARTS)
all: nsys-test

setup:
	$(part) .ci/setup build run onnxruntime test

# Formatting, which takes a second, before compilation.
lint: setup
	$(part) make lint
test: lint
	$(part) make test TIMINGS=--timings
demo: test
	$(part) make demo DURATION=6s

# What tests need besides: what is optional here may be missing on a machine (root, a registry).
prepare-sysroot: setup
	$(part) cross/sysroot amd64
prepare-containers: setup
	$(optional) sh -c 'tests/appliance/run possible && tests/fleet/install container'
prepare-tensorrt: setup
	$(part) .ci/setup tensorrt doubles
prepare-homeassistant: setup
	$(optional) timeout 600 tests/homeassistant/install newest
prepare-browser: setup
	$(optional) tests/web/install
prepare-fleet: setup
	$(optional) sh -c 'tests/fleet/install engines && tests/fleet/install python'
prepare-metrics: setup
	$(optional) .ci/setup metrics
prepare-quantizer: setup
	$(part) make quantizer
# It is compiled for minutes, so not beside the tests.
prepare-audit: test
	$(part) .ci/setup audit
prepare-nsys: setup
	$(optional) .ci/setup run nsys

# A package with less optimization for the machines that are booted.
package: prepare-sysroot test
	$(part) env QUICK=1 make deb
appliance: prepare-containers package
	$(after) sh -c "exec tests/appliance/run amd64 $(call package,jetwatch) $(call package,jetwatch-onnxruntime)"
v4l2: package
	$(part) sh -c "exec tests/v4l2/run $(TARGET)/cross/amd64/x86_64-unknown-linux-gnu/quick/jetwatch $(ONNXRUNTIME)"

update-test fleet-ansible-test: prepare-containers demo
	$(after) make $@
homeassistant-test: prepare-homeassistant demo
	$(after) make $@
web-test: prepare-browser demo
	$(after) make $@
fleet-test: prepare-fleet demo
	$(after) make $@ MINUTES=1
fleet-ansible-test: prepare-fleet
metrics-test: prepare-metrics demo
	$(after) make $@
tensorrt-test: prepare-tensorrt demo
	$(part) make $@
quantize-test: prepare-quantizer demo
	$(part) make $@
faults bundle-test: demo
	$(part) make $@
audit: prepare-audit
	$(part) make audit

# Last and alone: it finds the slowest stage of real runs.
nsys-test: prepare-nsys $(filter-out prepare-nsys,$(PARTS))
	$(after) make $@
