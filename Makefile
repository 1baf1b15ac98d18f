# make help lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help test race lint torture bench db api ci

# The version that CI uses. The linter is no dependency of the module.
GOLANGCI_LINT ?= go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 10

test: ## run all tests; needs a DSN in DATABASE_URL, PostgreSQL's programs or Docker
	go test ./...

race: ## run all tests with the race detector
	go test -race ./...

lint: ## gofmt, go vet and golangci-lint
	@test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }
	go vet ./...
	$(GOLANGCI_LINT) run ./...

torture: ## random operations with faults for five minutes, judged by the history; prints its seed
	LEASEHOLD_TORTURE=5m go test -count=1 -v ./internal/torture -run TestTorture_RandomOperationsWithFaults

bench: ## run the benchmarks of pglock and fencing
	go test -run '^$$' -bench . -benchmem ./pglock ./fencing

db: ## start a PostgreSQL server with the tables installed, print its DSN, stop it on Ctrl-C
	go run ./internal/repo/db

api: ## write api/*.txt anew from what the packages export
	go test ./internal/repo -run TestAPI -update

ci: ## run all that a change must pass, as on a fresh machine (root; Debian)
	bash .ci/run
