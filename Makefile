# kubejournal: needs Go, GNU make and a POSIX shell; `make test` also a C compiler, for the race detector, and
# `make test-deploy` what its rule names. Everything else is built from Go modules: the linter and its like from tools/,
# the control plane that the tests and the demo run against from test/controlplane/.

FUZZTIME        ?= 10s
HISTORIES       ?= 500
TAKEOVERS       ?= 1000
TORTURE_TIME    ?= 30m
PROXY           ?= all
KILLS           ?= 1000
ROUNDS          ?= 3
IMAGE           ?= kubejournal
# Which benchmarks, and how often those are run that are not run once only.
BENCH           ?= .
BENCHCOUNT      ?= 6
BENCHTIME       ?= 0.3s
BENCH_PACKAGES  ?= ./internal/format/rawjson ./internal/format/object ./internal/record/previous ./internal/record/listdiff ./internal/format/journal ./internal/kube/client ./internal/watcher ./internal/record/takeover
# These take a million objects and minutes; what is left out only tells how the checkpoint's layout was chosen.
BENCH_ONCE      ?= ./internal/checkpoint
BENCH_SKIP      ?= ^Benchmark(Layout|Forget)

# Empty where there is no git or no repository: the binary then says what the Go tool recorded in it.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS := -s -w $(if $(VERSION),-X main.version=$(VERSION)) $(if $(COMMIT),-X main.commit=$(COMMIT))

# The two longest packages go first, so that neither ends alone. Those under test/ wait for servers half of the time, hence
# more packages at a time than there are cores. test/crash is a part of model.
UNIT  = kubejournal/internal/watcher $$(go list ./... | grep -Ev '^kubejournal/(test/|internal/watcher$$)')
SUITE = kubejournal/test/scenario kubejournal/internal/watcher $$(go list ./... | grep -Ev '/(test/crash|test/scenario|internal/watcher)$$')
# The longest goes first. Of test/ what needs no server.
QUICK = ./internal/watcher ./cmd/... ./deploy/... ./internal/... ./test/bench/table ./test/incident ./test/invariant ./test/program ./test/proxy ./test/replicas ./test/workload
# What tests write goes to memory where there is room for it, since most of a sync of a real disk is waiting and no test
# cuts the power of the machine; what the go tool builds does not. Collecting garbage took a quarter of a raced test's time.
SCRATCH     = $$(test "$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$6 == "/dev/shm" { print $$4 }')" -gt 4000000 2>/dev/null && echo /dev/shm || echo "$${TMPDIR:-/tmp}")
FAST        = GOTMPDIR="$${TMPDIR:-/tmp}" TMPDIR=$(SCRATCH) GOGC=400
RACE        = $(FAST) CGO_ENABLED=1 bin/gotestsum --format standard-quiet -- -race

TEST_STEPS = vet lint controlplane suite

# A failed step leaves no half file behind, and steps never share the machine's few cores.
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help build image sbom vuln limits controlplane test $(TEST_STEPS) quick unit model subjects cc crash torture kill takeovers trouble test-skew test-person test-deploy test-sql test-compare fuzz bench compare demo incident clean
.DEFAULT_GOAL := help

help: ## show this
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target what; do \
		printf '  make %-13s %s\n' "$$target" "$$what"; done

build: ## build bin/kubejournal
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/kubejournal ./cmd/kubejournal

# Without Docker, or any other daemon. The Dockerfile makes the same image. IMAGE is the name under which the layout is
# loaded, and not a part of the image.
image: ## write an OCI image of the program for amd64 and arm64 as bin/image, and print its digest
	@for arch in amd64 arm64; do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/$$arch/kubejournal ./cmd/kubejournal || exit; \
	done
	@go run ./deploy/image -output bin/image -name '$(IMAGE):$(or $(VERSION),latest)' -arg VERSION='$(VERSION)' -arg COMMIT='$(COMMIT)' \
		linux/amd64=bin/amd64/kubejournal linux/arm64=bin/arm64/kubejournal

# The time of the listing and a random number are left out of it, so that the same program has the same list.
sbom: build bin/cyclonedx-gomod ## build bin/kubejournal and list each module in it, as CycloneDX in bin/kubejournal.sbom.json
	bin/cyclonedx-gomod bin -json -std -noserial $(if $(VERSION),-version '$(VERSION)') -output bin/sbom.tmp bin/kubejournal
	sed '/^ *"timestamp":/d' bin/sbom.tmp >bin/kubejournal.sbom.json && rm bin/sbom.tmp

# The database is Go's own. VULN_DB names a copy: https://... or file:///...
vuln: bin/govulncheck ## look up known weaknesses of the modules that the program uses (asks vuln.go.dev)
	@status=0; bin/govulncheck $(if $(VULN_DB),-db '$(VULN_DB)') ./cmd/kubejournal || status=$$?; \
	case $$status in \
	0) ;; \
	3) echo 'make vuln: FOUND' >&2 ;; \
	*) echo 'make vuln: NOT CHECKED: the database cannot be read from here; run it where it can, or name a copy in VULN_DB' >&2 ;; \
	esac; exit $$status

controlplane: ## build kube-apiserver and etcd for tests and demo (about 4 minutes the first time)
	go run ./test/cluster/build

test: cc ## vet, lint, control plane, all tests with the race detector; .ci/run adds model, test-deploy and incident
	@summary=''; failed=''; began=$$(date +%s); \
	for step in $(TEST_STEPS); do \
		printf '\n== %s\n' "$$step"; start=$$(date +%s); \
		if $(MAKE) --no-print-directory "$$step"; then result=ok; else result=FAILED; failed="$$failed $$step"; fi; \
		summary="$$summary$$(printf '  %-13s %-7s %5ss' "$$step" "$$result" $$(($$(date +%s) - start)))|"; \
	done; \
	printf '\n== summary\n'; printf '%s' "$$summary" | tr '|' '\n'; \
	printf '  %-13s         %5ss\n' total $$(($$(date +%s) - began)); \
	if [ -n "$$failed" ]; then echo "make test: FAILED:$$failed" >&2; exit 1; fi; \
	echo 'make test: ok'

vet: ## go vet, and that the modules are those of go.sum
	go mod verify
	go vet ./...

lint: bin/golangci-lint subjects ## golangci-lint, built from tools/, and the subjects of commits
	bin/golangci-lint run ./...

# Of the last 50 commits, as far as they are here; git words those of merges and reverts. Nothing outside a repository, or
# where the repository is another one that this folder is a part of.
subjects:
	@test -n "$$(git rev-parse --show-cdup 2>/dev/null)" || git log -50 --no-merges --format=%s 2>/dev/null | awk ' \
		/^(Merge |Revert ")/ { next } \
		length > 60 || !/^[a-z0-9][a-z0-9 ,\/._-]*: [^ ]/ { print "make subjects: not \"package: imperative\" in 60 characters: " $$0; bad = 1 } \
		END { exit bad }' >&2

suite: cc bin/gotestsum bin/kubectl bin/kube-controller-manager ## all tests but those of model, with the race detector
	$(RACE) -timeout 40m -p 3 $(SUITE)

quick: ## unit tests without the longest ones and the race detector (1 minute); what has passed and not changed is not run again
	$(FAST) go test -short -p 4 -timeout 5m $(QUICK)

unit: cc bin/gotestsum ## of suite, the tests of cmd and internal that need no control plane
	$(RACE) -timeout 20m $(UNIT)

# LIMITS="-connections 1000" and the like; as root, or where a control group can be made, the kernel holds the limit.
limits: build ## what strangers can do to the daemon under the chart's limit of memory (1 minute)
	go run ./test/limits -program bin/kubejournal $(LIMITS)

# Without the race detector: suite has run a share of each with it. What test/crash traces is built without it anyway, and
# make crash has the tracer watched. test/crash runs beside the others: half of its time is waiting.
model: bin/gotestsum ## HISTORIES (500) random histories with a simulated clock, a third as many of several replicas, each damaged byte, a fault at file operations
	@mkdir -p bin && go test -c -o bin/watcher.test ./internal/watcher && go test -c -o bin/checkpoint.test ./internal/checkpoint
	@status=0; \
	$(FAST) bin/gotestsum --format standard-quiet -- -timeout 25m ./test/crash & crash=$$!; \
	(cd internal/watcher && $(FAST) ../../bin/watcher.test -test.run '^Test(Model|KilledAnywhere|TroubleOfManyStreams)$$' \
		-test.timeout 20m -model.histories=$(HISTORIES)) || status=1; \
	(cd internal/watcher && $(FAST) ../../bin/watcher.test -test.run '^TestReplicas$$' \
		-test.timeout 20m -model.histories=$$(($(HISTORIES) / 3))) || status=1; \
	(cd internal/checkpoint && $(FAST) ../../bin/checkpoint.test -test.run '^TestOpenAnyByte$$') || status=1; \
	wait $$crash || status=1; exit $$status

crash: cc ## every fault at every file operation of the real process (about 10 minutes)
	CGO_ENABLED=1 go test -race -count=1 -timeout 60m -v ./test/crash -run '^TestCrash$$' -complete

# PROXY=none leaves the proxy's faults out; go run ./test/torture -h lists them.
torture: cc ## kill daemon, API server and etcd at random under churn, behind a proxy with faults, for TORTURE_TIME (30m)
	go run ./test/torture -for $(TORTURE_TIME) -proxy $(PROXY)

kill: ## kill -9 the daemon KILLS (1000) times, with rotation on, and 200 times on stdout
	go run ./test/torture -kills $(KILLS)
	go run ./test/torture -kills 200 -output stdout -interval 1s

takeovers: ## end the turn of one of two replicas TAKEOVERS (1000) times (about 15 minutes)
	go run ./test/torture -takeovers $(TAKEOVERS)

trouble: ## how often a server in trouble is asked, as a table
	go test -count=1 ./internal/watcher -run '^TestTrouble$$' -v -trouble.for=10m

test-skew: cc ## conformance and main scenarios on older servers, and without streamed lists (about 15 minutes)
	@go run ./test/cluster/skew

test-person: ## who is named for 10,000 writes of five users, on three servers at three levels of the audit log (about 10 minutes)
	go run ./test/person

# Needs root, and the programs of Debian's packages chromium, prometheus and rsyslog, whose services may stay off: what
# is not there fails the test that runs it. -update writes what is generated: the overlays' rights, the chart's copies.
test-deploy: bin/golangci-lint bin/kubectl bin/kube-controller-manager bin/helm controlplane ## deploy/ and quickstart with the programs that read them (root; chromium, prometheus, rsyslog)
	cd test/deploy && ../../bin/golangci-lint run ./... && go test -count=1 -timeout 15m ./... $(DEPLOY_FLAGS)

# Needs node and npm. -update writes what the queries print into the page.
test-sql: bin/duckdb ## the queries of docs/sql.md with DuckDB (node, npm)
	go test -count=1 ./test/sql -duckdb ../../bin/duckdb $(SQL_FLAGS)

test-compare: bin/golangci-lint ## what make compare judges by; the peers are compiled (about 5 minutes the first time)
	cd test/compare && ../../bin/golangci-lint run ./... && go test -count=1 -timeout 10m ./...

# Without this the race detector's own complaint names neither the reason nor the remedy.
cc:
	@cc=$$(go env CC); command -v "$${cc%% *}" >/dev/null 2>&1 || { \
		echo "make: the race detector needs a C compiler and '$$cc' is not on PATH; install gcc" >&2; exit 1; }

# Each tool is built anew when a version changes.
bin/golangci-lint bin/benchstat bin/gotestsum: tools/go.mod tools/go.sum
	cd tools && go build -o ../$@ "$$(go list -f '{{.ImportPath}}' tool | grep '/$(@F)$$')"

# It names its own hash in the list, hence -trimpath; and it runs here, whatever the program was built for.
bin/cyclonedx-gomod: tools/sbom/go.mod tools/sbom/go.sum
	cd tools/sbom && GOOS= GOARCH= CGO_ENABLED=0 go build -trimpath -o ../../$@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

bin/govulncheck: tools/vuln/go.mod tools/vuln/go.sum
	cd tools/vuln && go build -o ../../$@ golang.org/x/vuln/cmd/govulncheck

# Of the version of the test's API server, and from the packages that it was built from. Without a version they take
# themselves for v0.0.0.
bin/kubectl bin/kube-controller-manager bin/kube-scheduler: test/controlplane/go.mod test/controlplane/go.sum
	$(KUBERNETES_PROGRAM)

bin/v1.32/%: test/controlplane/v1.32/go.mod test/controlplane/v1.32/go.sum
	$(KUBERNETES_PROGRAM)

bin/v1.34/%: test/controlplane/v1.34/go.mod test/controlplane/v1.34/go.sum
	$(KUBERNETES_PROGRAM)

define KUBERNETES_PROGRAM
@mkdir -p $(@D)
cd $(<D) && version=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes) && CGO_ENABLED=0 go build -trimpath -ldflags \
	"-s -w -X k8s.io/component-base/version.gitVersion=$$version -X k8s.io/client-go/pkg/version.gitVersion=$$version" \
	-o $(CURDIR)/$@ k8s.io/kubernetes/cmd/$(@F)
endef

bin/duckdb: test/sql/package.json test/sql/package-lock.json test/sql/run.mjs
	@rm -rf $@.tmp && mkdir -p $@.tmp && cp $^ $@.tmp
	cd $@.tmp && npm install --no-audit --no-fund --loglevel=error
	rm -rf $@ && mv $@.tmp $@

bin/helm: test/deploy/go.mod test/deploy/go.sum
	cd test/deploy && go build -ldflags '-s -w' -o ../../$@ helm.sh/helm/v4/cmd/helm

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@list=$$(go test -list '^Fuzz' $(UNIT)) || { printf '%s\n' "$$list"; exit 1; }; \
	printf '%s\n' "$$list" | { \
		count=0; names=''; \
		while read -r first package _; do \
			case $$first in \
			Fuzz*) names="$$names $$first" ;; \
			ok) for name in $$names; do \
					count=$$((count + 1)); echo "== $$name, $$package"; \
					go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" </dev/null || exit 1; \
				done; names='' ;; \
			esac; \
		done; \
		echo "make fuzz: $$count targets, $(FUZZTIME) each: ok"; test "$$count" -gt 0; }

# In rounds, so that what is compared was run side by side: a slow minute of the machine is in all of a round. The questions
# to a journal need 12 GB in bin/archive, jq and, for DuckDB beside them, node and npm.
bench: bin/benchstat build controlplane $(if $(shell command -v npm),bin/duckdb) ## the benchmarks, BENCHCOUNT (6) times, as one table with baselines and goals (about 35 minutes)
	@mkdir -p bin/bench && : >bin/bench.txt
	@for program in daemon scale table ask rotate; do go build -o bin/bench/$$program ./test/bench/$$program || exit 1; done
	@for package in $(BENCH_PACKAGES) $(BENCH_ONCE); do go test -c -o bin/bench/$$(basename $$package).test $$package || exit 1; done
	@failed=''; \
	round() { \
		for package in "$$@"; do \
			test=$$PWD/bin/bench/$$(basename $$package).test; \
			(cd $$package && $$test -test.run '^$$' -test.bench '$(BENCH)' -test.skip '$(BENCH_SKIP)' -test.benchtime $(BENCHTIME) \
				-test.benchmem -test.timeout 20m) >>bin/bench.txt || { tail -20 bin/bench.txt; failed="$$failed $$package"; }; \
		done; }; \
	n=1; while [ $$n -le $(BENCHCOUNT) ]; do echo "round $$n of $(BENCHCOUNT): $(BENCH_PACKAGES)"; round $(BENCH_PACKAGES); n=$$((n + 1)); done; \
	echo 'once: $(BENCH_ONCE)'; round $(BENCH_ONCE); \
	bin/bench/daemon -program bin/kubejournal -bench '$(BENCH)' -count $(BENCHCOUNT) >>bin/bench.txt || failed="$$failed daemon"; \
	if echo BenchmarkScale | grep -Eq '$(BENCH)'; then bin/bench/scale -program bin/kubejournal >>bin/bench.txt || failed="$$failed scale"; fi; \
	if echo BenchmarkAsk | grep -Eq '$(BENCH)'; then \
		$(MAKE) --no-print-directory bin/archive && \
		bin/bench/ask -program bin/kubejournal -count $(BENCHCOUNT) -duckdb "$$(ls -d bin/duckdb 2>/dev/null)" bin/archive/journal.jsonl >>bin/bench.txt && \
		bin/bench/rotate -rounds $(BENCHCOUNT) bin/archive/journal.jsonl >>bin/bench.txt || failed="$$failed ask"; fi; \
	bin/benchstat bin/bench.txt; bin/bench/table bin/bench.txt | tee bin/bench.md; \
	if [ -n "$$failed" ]; then echo "make bench: FAILED:$$failed" >&2; exit 1; fi

# A journal such as a large cluster leaves after a day: 10 GB of lines in 100 files.
bin/archive: $(wildcard test/archive/*.go test/archive/generate/*.go internal/format/index/*.go internal/format/journal/*.go internal/format/segment/*.go)
	rm -rf $@ $@.tmp
	go run ./test/archive $@.tmp/journal.jsonl
	mv $@.tmp $@ && touch $@

# WRITE=-write puts the tables on docs/comparison.md.
compare: build controlplane ## kubejournal and its peers side by side, ROUNDS (3) times, as tables (about 12 minutes)
	cd test/compare && CGO_ENABLED=0 go build -trimpath -o ../../bin/compare/ ./...
	bin/compare/compare -program bin/kubejournal -rounds $(ROUNDS) $(WRITE)

demo: ## see it work, on a control plane of its own
	@mkdir -p bin && go build -o bin/demo ./test/demo && exec bin/demo

# INCIDENT=-strict fails where the journal names the wrong manager, subresource or time; with -load 10000 it goes on until
# there are so many lines (about 5 minutes more); -moments 20 compares serve with the API server at 20 moments, not 3.
# KUBEJOURNAL_TEST_CONTROLPLANE=v1.32, or v1.34, has it on that Kubernetes.
CONTROLLERS = bin/$(KUBEJOURNAL_TEST_CONTROLPLANE:%=%/)kube-controller-manager bin/$(KUBEJOURNAL_TEST_CONTROLPLANE:%=%/)kube-scheduler
incident: bin/kubectl $(CONTROLLERS) controlplane ## a bad day with controllers and two outages: its journal against the API server's audit log (4 minutes); leaves bin/incident
	@mkdir -p bin/test && go build -o bin/test/incident ./test/incident && exec bin/test/incident $(INCIDENT)

clean: ## remove everything that was built, the control plane too
	rm -rf bin test/controlplane/.bin test/controlplane/v*/.bin
