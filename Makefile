# Targets for developers. All except build and clean require root.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

export PATH := $(PATH):/usr/local/go/bin
BINARY ?= bin/podrun
NODE_BINARY ?= bin/podrun-node
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# hack/sbom writes what version --sbom prints.
# Without gRPC's trace pages (golang.org/x/net/trace), which podrun does not show.
.PHONY: build
build: ## bin/podrun, one static binary (GOARCH=arm64 BINARY=… for another machine)
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)} GOARCH= \
		go run ./hack/sbom -embed -version '$(VERSION)' -arch "$${GOARCH:-$$(go env GOARCH)}" -tags '$(TAGS)'
	CGO_ENABLED=0 go build -tags grpcnotrace,podrun_sbom$(TAGS:%=,%) -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o $(BINARY) .

.PHONY: build-node
build-node: ## bin/podrun-node, the node of a cluster (GOARCH=arm64 NODE_BINARY=… for another machine)
	CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o $(NODE_BINARY) ./cmd/podrun-node

.PHONY: bundle
bundle: ## bin/podrun-bundle-linux-<arch>, with a container runtime inside (GOARCH=arm64)
	arch=$${GOARCH:-$$(go env GOARCH)}; hack/make-bundle "$$arch" && echo "building podrun-bundle for $$arch" >&2 && \
		$(MAKE) -s build GOARCH="$$arch" TAGS=podrun_bundle BINARY="bin/podrun-bundle-linux-$$arch"
	@ls -l bin/podrun-bundle-linux-*

.PHONY: bundle-check
bundle-check: ## podrun-bundle built twice, in different directories and with a cold cache: the same bytes
	hack/bundle-check $${GOARCH:-$$(go env GOARCH)}

.PHONY: lines
lines: ## the lines of each feature, and the changes since docs/design/packages.md; WRITE=1 writes them there
	PODRUN_WRITE=$(WRITE) go test -count=1 -run '^TestFeatures$$' -v ./test/arch | grep -vE '^(=== |--- |PASS|ok )'

.PHONY: man
man: ## man pages, in bin/man
	go run ./hack/manual -man bin/man

.PHONY: release-snapshot
release-snapshot: ## archives, deb, rpm, bills of materials, provenance and checksums of this commit, in bin/release; SIGNING_KEY=… signs them
	SIGNING_KEY='$(SIGNING_KEY)' hack/release bin/release

.PHONY: demo
demo: ## a pod from start to end on the embedded runtime, which it builds first; RUNTIME=host: on a private instance of this host's containerd
	@case '$(RUNTIME)' in \
	'') $(MAKE) -s bundle >/dev/null && hack/demo "bin/podrun-bundle-linux-$$(go env GOARCH)" ;; \
	host) $(MAKE) -s build && hack/with-runtime hack/demo ;; \
	*) echo 'RUNTIME=$(RUNTIME) is not supported: use RUNTIME=host, or omit it for the embedded runtime' >&2 && exit 1 ;; \
	esac

# The podrun-bundle with which the tests run the embedded runtime: the output of make bundle.
export PODRUN_TEST_BUNDLE ?= $(abspath $(wildcard bin/podrun-bundle-linux-$(shell PATH=$(PATH) go env GOARCH)))

.PHONY: test
test: ## ring 1: every check and test that cannot fail by chance, some of them on containerd and on the runtime of make bundle
	hack/lint
	hack/test 1

.PHONY: test-all
test-all: shells ## ring 2: make test, and samples of the long tests, on all runtimes, for arm64 and in one guest
	hack/lint
	hack/test 2
	$(MAKE) test-arm64 test-guest CELLS='$(or $(CELLS),trixie/v2/systemd)' CHECKS='$(or $(CHECKS),smoke service)'

.PHONY: test-embedded
test-embedded: ## the runtime of make bundle: from nothing to nothing, and the smoke set of the scripts on it; as root and as an ordinary user
	[[ -n $$PODRUN_TEST_BUNDLE ]] || { echo "run make bundle first" >&2 && exit 1; }
	PODRUN_TEST_RING=2 go test -count=1 -timeout 40m ./test/embedded ./test/rootless
	PODRUN_TEST_RING=2 hack/with-runtime go test -count=1 -timeout 40m -run 'TestScriptsOnEmbedded|TestScriptsAsUser' ./test/script

.PHONY: test-crio
test-crio: ## all scripts and the runtime suite on CRI-O; skipped if PODRUN_CRIO is not set
	if [[ -z $${PODRUN_CRIO:-} ]]; then echo 'test-crio: skipped: PODRUN_CRIO and PODRUN_PINNS are not set (see hack/crio)'; else \
		PODRUN_TEST_RING=3 PODRUN_TEST_RUNTIME=crio hack/with-runtime go test -count=1 -timeout 40m -run 'TestScriptsOnRuntime|TestSuiteOnRuntime' ./test/script ./cri/critest; fi

.PHONY: test-scripts
test-scripts: shells ## all scripts on the fake runtime with both profiles, on containerd and on the runtime of make bundle
	PODRUN_TEST_RING=3 hack/with-runtime go test -count=1 -timeout 40m -run TestScripts ./test/script

.PHONY: shells
shells: # installs the shells and programs that tests of completion, terminals and releases need; fish is large, and tested only where it is installed
	command -v tmux >/dev/null && command -v zsh >/dev/null && command -v jq >/dev/null && command -v ssh-keygen >/dev/null || hack/install tmux zsh jq openssh-client

.PHONY: torture
torture: ## ring 3: all interleavings of two commands, simulated days of serve, the fault matrix, faults of containerd, hostile input, the crash sweep, random kills: about four hours
	PODRUN_TEST_RING=3 go test -count=1 -timeout 120m -v -run 'Pairs|TestSimulatedDay' ./test/engine/...
	PODRUN_TEST_RING=3 go test -count=1 -timeout 60m ./test/flags
	PODRUN_TEST_RING=3 go test -count=1 -timeout 120m -v ./test/fault
	PODRUN_TEST_RING=3 go test -count=1 -timeout 30m -v ./test/hostile
	PODRUN_TEST_RING=3 hack/with-runtime go test -count=1 -timeout 90m -v -run 'TestRuntimeFaults|TestNetworkOfACutStop' ./test/crash
	$(MAKE) crash-sweep crash-sweep-rootless crash-random job-kills

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME=10s, two at a time
	FUZZTIME=$(or $(FUZZTIME),10s) nice -n 15 hack/fuzz

.PHONY: test-arm64
test-arm64: ## podrun for arm64, under emulation: the same plans
	hack/arm64

.PHONY: test-guest
test-guest: ## podrun in emulated Debians with other cgroups and containerds: CELLS=trixie/v2/systemd…
	test/guest/cells $(CELLS)

.PHONY: conformance
conformance: build-node ## Kubernetes' own e2e specs for nodes against podrun-node and a control plane, which it builds first (10 to 30 minutes): FOCUS=… RUNS=3
	FOCUS='$(FOCUS)' RUNS='$(RUNS)' hack/with-runtime test/conformance/run

# A bench writes the file of its run into this directory. bench-docs reads the last three runs there.
# RUN=REGEXP selects sections, such as RUN=idle of bench-serve.
RESULTS := test/bench/results

.PHONY: bench
bench: build ## podrun against a bare CRI client, the rows of README.md; OLD=PATH: against another podrun, too
	hack/with-runtime go run ./test/bench -results $(RESULTS) $(if $(RUN),-run '$(RUN)') $(if $(OLD),-old '$(OLD)')

.PHONY: bench-all
bench-all: build ## the same, all rows of docs/speed.md; OLD=PATH
	hack/with-runtime go run ./test/bench -all -results $(RESULTS) $(if $(RUN),-run '$(RUN)') $(if $(OLD),-old '$(OLD)')

.PHONY: bench-docs
bench-docs: ## writes the figures of the last three runs into README.md and docs/speed.md
	go test ./test/bench/result -count=1 -run TestDocs -update

.PHONY: bench-bundle
bench-bundle: bundle ## podrun-bundle: its network against the standard CNI plugins, and a pod against podman and Debian's containerd
	hack/with-runtime go run ./test/bench -results $(RESULTS) $(if $(RUN),-run '$(RUN)') -bundle -podrun "bin/podrun-bundle-linux-$$(go env GOARCH)"

.PHONY: bench-rootless
bench-rootless: bundle ## podrun-bundle as an ordinary user against root: apply, get, delete, network; and against rootless podman, if podman, slirp4netns and catatonit are installed
	CGO_ENABLED=0 hack/with-runtime go run ./test/bench -results $(RESULTS) $(if $(RUN),-run '$(RUN)') -rootless -podrun "bin/podrun-bundle-linux-$$(go env GOARCH)"

.PHONY: kubelet
kubelet: # bin/kubelet, for the bench
	cd test/bench/kubelet && CGO_ENABLED=0 go build -trimpath -o ../../../bin/kubelet k8s.io/kubernetes/cmd/kubelet

.PHONY: bench-kubelet
bench-kubelet: bundle kubelet ## 50 pods at boot: podrun serve against a standalone kubelet, which it builds first, on the embedded runtime
	hack/with-runtime go run ./test/bench -results $(RESULTS) $(if $(RUN),-run '$(RUN)') -bundle -kubelet bin/kubelet -podrun "bin/podrun-bundle-linux-$$(go env GOARCH)"

.PHONY: bench-density
bench-density: bundle $(if $(KUBELET),kubelet) ## podrun serve with 110, 250 and 500 pods with probes on the embedded runtime; RUN=500; KUBELET=1: with a kubelet beside the 110, which it builds first
	hack/with-runtime go run ./test/bench -results $(RESULTS) $(if $(RUN),-run '$(RUN)') -density $(if $(KUBELET),-kubelet bin/kubelet) -podrun "bin/podrun-bundle-linux-$$(go env GOARCH)"

.PHONY: bench-serve
bench-serve: build ## podrun serve: memory, CPU time, reactions
	hack/with-runtime go run ./test/bench -results $(RESULTS) $(if $(RUN),-run '$(RUN)') -serve

.PHONY: soak
soak: build ## podrun serve while it and containerd are killed: SOAK_PODS=30 SOAK_MINUTES=20
	hack/with-runtime go run ./test/soak -pods $(or $(SOAK_PODS),30) -for $(or $(SOAK_MINUTES),20)m

.PHONY: crash-sweep
crash-sweep: ## podrun killed at each of its steps, on real containerd; EVERY=10 for one in ten, OFFSET=1 for another tenth
	PODRUN_TEST_RING=3 PODRUN_CRASH_EVERY=$(or $(EVERY),1) PODRUN_CRASH_OFFSET=$(OFFSET) PODRUN_CRASH_SEED=$(or $(SEED),$$RANDOM) hack/with-runtime go test ./test/crash -run TestCrashSweep -count=1 -v -timeout 3h

.PHONY: job-kills
job-kills: ## podrun serve killed at each step of a CronJob's run, and at random times while Jobs run, on real containerd: KILLS=20
	PODRUN_TEST_RING=3 PODRUN_JOB_KILLS=$(or $(KILLS),20) PODRUN_CRASH_SEED=$(or $(SEED),$$RANDOM) hack/with-runtime go test ./test/crash -run 'TestJobKills|TestJobsUnderKills' -count=1 -v -timeout 1h

.PHONY: crash-sweep-rootless
crash-sweep-rootless: bundle ## podrun of an ordinary user, podrun-rootless, containerd and shims killed at each step: EVERY=10 for one in ten
	PODRUN_TEST_RING=3 PODRUN_CRASH_EVERY=$(or $(EVERY),1) PODRUN_CRASH_SEED=$(or $(SEED),$$RANDOM) go test ./test/rootless -run TestCrashSweep -count=1 -v -timeout 6h

.PHONY: crash-random
crash-random: ## podrun killed at random times, on real containerd: KILLS=500
	PODRUN_TEST_RING=3 PODRUN_CRASH_KILLS=$(or $(KILLS),500) PODRUN_CRASH_SEED=$(or $(SEED),$$RANDOM) hack/with-runtime go test ./test/crash -run TestRandomKills -count=1 -v -timeout 2h

.PHONY: trial
trial: ## the commands that users typed without reading help, on containerd, counted by class; 30 minutes
	PODRUN_TEST_RING=3 PODRUN_TRIAL=1 hack/with-runtime go test ./test/trial -run TestTrial -count=1 -v -timeout 2h

.PHONY: lint
lint: ## formatting, vet, shell scripts, the Kubernetes pins
	hack/lint

.PHONY: clean
clean: ## remove what make made, the test runtime too
	hack/runtime down
	rm -rf bin internal/sbom/*.spdx.json
