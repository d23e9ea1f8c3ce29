# Parts of .ci/run, as targets of make, which runs --jobs of them at a time: the cheapest check first, downloads and Debians for tests
# beside compilation. Each is a command that people run by hand, too.
#
# No part is left out because of the time that it takes. What is not worth its minutes in each run is in `make nightly`, with the reason.

export CARGO_INCREMENTAL := 0
# A part is left out with its preparations, which stand among its prerequisites.
part = @.ci/part $@ $(addprefix --after ,$(filter prepare-%,$^))
optional = @.ci/part $@ --optional

# In the order in which they start: compilation and its preparations, then the long ones.
PARTS := lint prepare-containers prepare-tensorrt build prepare-homeassistant prepare-browser prepare-fleet \
    prepare-metrics prepare-quantizer prepare-nsys test tensorrt-test demo readme-test prepare-audit prepare-userland v4l2 update-test \
    userland faults storm homeassistant-test fleet-ansible-test web-test quantize-test fleet-test metrics-test audit

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
test: build | prepare-containers prepare-tensorrt prepare-homeassistant prepare-browser prepare-fleet prepare-metrics prepare-quantizer prepare-nsys
	$(part) make test
# Alone: it builds the program with the features of the tests in the place of the other parts' one.
tensorrt-test: test prepare-tensorrt
	$(part) make $@
demo: tensorrt-test
	$(part) make demo DURATION=6s
# Alone, too: it has the ports of the documents.
readme-test: demo
	$(part) make $@

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
prepare-audit: demo
	$(part) .ci/setup audit
prepare-userland: demo
	$(optional) tests/gstreamer/run focal --system
prepare-nsys: setup
	$(optional) .ci/setup run nsys

fleet-ansible-test: prepare-containers prepare-fleet
update-test: prepare-containers
homeassistant-test: prepare-homeassistant
web-test: prepare-browser
metrics-test: prepare-metrics
quantize-test: prepare-quantizer
audit: prepare-audit
userland: prepare-userland
# Firefox takes as long again: it is in `make nightly`.
web-test: demo
	$(part) make $@ BROWSERS=chromium
v4l2 update-test fleet-ansible-test homeassistant-test metrics-test quantize-test faults audit userland: demo
	$(part) make $@
storm: demo
	$(part) make $@ MINUTES=1
fleet-test: prepare-fleet demo
	$(part) make $@ MINUTES=1

# Last and alone: it finds the slowest stage of real runs.
nsys-test: prepare-nsys $(filter-out prepare-%,$(PARTS))
	$(part) make $@
