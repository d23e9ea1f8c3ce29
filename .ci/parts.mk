# Parts of .ci/run, as targets of make, which runs --jobs of them at a time: the cheapest check first, downloads and Debians for tests
# beside compilation, tests that mostly wait beside those that compute. Each is a command that people run by hand, too.
#
# Nothing is left out because of the time that it takes. What is not worth its minutes in each run is in `make nightly`, with the reason.

export CARGO_INCREMENTAL := 0
part = @.ci/part $@
optional = @.ci/part $@ --optional
after = @.ci/part $@ --after $<

# In the order in which they start: compilation and its preparations, then the long ones.
PARTS := lint prepare-containers prepare-tensorrt build prepare-homeassistant prepare-browser prepare-fleet \
    prepare-metrics prepare-quantizer prepare-nsys test prepare-audit demo v4l2 update-test tensorrt-test faults \
    homeassistant-test fleet-ansible-test bundle-test web-test quantize-test fleet-test metrics-test audit

.PHONY: all setup nsys-test $(PARTS)
all: nsys-test

setup:
	$(part) .ci/setup build run onnxruntime test

# Formatting, which takes a second, before compilation.
lint: setup
	$(part) make lint
build: lint
	$(part) make test-programs
# Nothing is prepared beside them.
test: build prepare-containers prepare-tensorrt prepare-homeassistant prepare-browser prepare-fleet prepare-metrics prepare-quantizer prepare-nsys
	$(part) make test
demo: test
	$(part) make demo DURATION=6s

# What tests need besides: what is optional here may be missing on a machine (root, a registry).
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

v4l2: demo
	$(part) make $@
fleet-ansible-test: prepare-containers demo
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

# Last and alone. The updater kills installations that take longer than the test sets, and the other one finds the slowest stage of real runs.
update-test: prepare-containers $(filter-out prepare-% update-test,$(PARTS))
	$(after) make $@
nsys-test: prepare-nsys update-test
	$(after) make $@
