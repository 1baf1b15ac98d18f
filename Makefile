# make help lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help test race lint torture torture-singly mutants cluster model matrix poolers soak fuzz vulnerabilities controls peers bench judge db api ci

# The version that CI uses. The linter is no dependency of the module.
GOLANGCI_LINT ?= go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 17

test: ## run all tests; needs a DSN in DATABASE_URL, PostgreSQL's programs or Docker
	go test ./...

race: ## run all tests with the race detector
	go test -race ./...

lint: ## gofmt, go vet and golangci-lint
	@test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }
	go vet ./...
	$(GOLANGCI_LINT) run ./...
	cd bench && go vet ./... && $(GOLANGCI_LINT) run ./...

torture: ## client processes and faults for five minutes (LEASEHOLD_TORTURE), judged by the history; prints its seed
	LEASEHOLD_TORTURE=$${LEASEHOLD_TORTURE:-5m} go test -count=1 -v -timeout 0 ./internal/torture -run TestTorture_RandomOperationsWithFaults

torture-singly: ## each fault alone, for ten seconds (LEASEHOLD_TORTURE_SINGLY)
	LEASEHOLD_TORTURE_SINGLY=$${LEASEHOLD_TORTURE_SINGLY:-10s} go test -count=1 -v -timeout 0 ./internal/torture -run TestTorture_OneFaultAtATime

mutants: ## build the library with each planted fault and find it (LEASEHOLD_MUTANTS="name,name" for some)
	LEASEHOLD_MUTANTS=$${LEASEHOLD_MUTANTS:-all} go test -count=1 -v -timeout 3h -run AreFound ./internal/mutants

cluster: ## 20 rounds (LEASEHOLD_CLUSTER) of failures of a Patroni cluster's leader in each mode of replication
	LEASEHOLD_CLUSTER=$${LEASEHOLD_CLUSTER:-20} go test -count=1 -v -timeout 0 ./internal/cluster

model: ## the model of the protocol with larger bounds, and the story of each planted mistake; needs spin and gcc
	LEASEHOLD_MODEL=full go test -count=1 -v -timeout 5h ./internal/model

matrix: ## the suite on each supported major version of PostgreSQL, 13 to 18
	bash .ci/matrix

poolers: ## the tests behind a newer PgBouncer, fetched beside the machine's own
	PATH="$$(internal/poolers/newer.sh /var/tmp/pgbouncer-trixie):$$PATH" go test -count=1 ./internal/poolers

soak: ## load for five minutes (LEASEHOLD_SOAK), judged by what grows
	LEASEHOLD_SOAK=$${LEASEHOLD_SOAK:-5m} go test -count=1 -v -timeout 0 ./internal/soak -run TestSoak_NothingGrows

fuzz: ## run each fuzz target for a minute; what is found stays under testdata/fuzz
	bash .ci/fuzz 60s

vulnerabilities: ## look for known vulnerabilities in what users build in
	bash .ci/vulnerabilities

controls: ## one workload with the fence, without it and under Redlock, side by side
	cd bench && go run ./controls

peers: ## a grant and a release beside those of other libraries, in one interleaved run
	cd bench && go run ./peers

judge: ## judge a history: make judge HISTORY="FILE..." writes history.html, too
	go run ./internal/history/judge -html history.html $(HISTORY)

bench: ## run the benchmarks of pglock and fencing
	go test -run '^$$' -bench . -benchmem ./pglock ./fencing

db: ## start a PostgreSQL server with the tables installed, print its DSN, stop it on Ctrl-C
	go run ./internal/repo/db

api: ## write api/*.txt anew from what the packages export
	go test ./internal/repo -run TestAPI -update

ci: ## run all that a change must pass, as on a fresh machine (root; Debian)
	bash .ci/run
