# Everything a person does with this project. `make run` shows it at work, `make test` is the gate.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
BINARY := $(or $(CARGO_TARGET_DIR),target)/release/superfluid

.PHONY: help run test bench build setup lint fuzz clean

help:            ## Say what there is
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

run: build       ## Run examples/edge.yaml between two hosts, with real traffic
	@scripts/setup run
	@testbed/edge.sh $(BINARY)

build:           ## Build the program
	@scripts/setup build
	@cargo build --release --locked --package superfluid

test:            ## Everything that must hold: formatting, lints, unit, property and end-to-end tests
	@scripts/setup test
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --locked --quiet -- --deny warnings
	@cargo test --workspace --locked

bench: build     ## Measure everything that SPECIFICATION.md promises
	@scripts/setup bench
	@scripts/bench $(BINARY)

fuzz:            ## Fuzz every parser for a minute each
	@scripts/setup fuzz
	@scripts/fuzz 60

setup:           ## Install what building and testing need
	@scripts/setup build test run

clean:           ## Remove what was built
	@cargo clean
