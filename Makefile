# Everything a person does with this project. `make run` shows it at work, `make test` is the gate.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
# rustup's programs are found in a shell that was open before it was installed, too.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release/superfluid
QUICK := $(TARGET)/quick/superfluid

.PHONY: help run guests check check-aarch64 test-aarch64 test peers bench tinyx compare build profile package nightly setup lint fuzz fuzz-smoke loom clean

help:            ## Say what there is
	@grep -E '^[a-z0-9-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

run:             ## Run examples/edge.yaml between two hosts, with real traffic
	@scripts/setup run
	@testbed/edge.sh --check
	@scripts/page
	@scripts/build quick
	@testbed/edge.sh $(QUICK)
	@[[ -n "$${EDGE_JSON:-}" ]] || printf '%s\n' "" "A host in a browser: in one shell" \
	    "  $(QUICK) daemon --socket /tmp/superfluid.sock --state /tmp/superfluid --page 127.0.0.1:8800" \
	    "and in another, which prints the address to open" \
	    "  export SUPERFLUID_SOCKET=/tmp/superfluid.sock; $(QUICK) apply -f examples/nat.yaml; $(QUICK) page"

guests:          ## Run examples/guests.yaml: sandboxed, native, containerized and virtual functions in one chain
	@scripts/setup run test peers
	@testbed/guests.sh --check
	@scripts/page
	@cargo build --profile quick --locked --workspace --bin superfluid --bin superfluid-bench --example relay
	@testbed/guests.sh $(QUICK)

build:           ## Build the program as it is released, and `superfluid bench`
	@scripts/setup build
	@scripts/page
	@scripts/build release

profile:         ## Measure which code of a daemon runs, for `make build` to optimize by; before a release, and for another compiler
	@scripts/setup build profile
	@scripts/page
	@scripts/profile

check:           ## Formatting, lints and unit tests: quick, without root, installs nothing
	@scripts/commits
	@cargo fmt --all --check
	@cargo clippy --profile quick --workspace --all-targets --locked --quiet -- --deny warnings
	@cargo test --profile quick --workspace --locked --quiet --lib --bins

check-aarch64:   ## Type-check everything for aarch64, without compiling C
	@scripts/setup build aarch64
	@scripts/check-aarch64

test-aarch64:    ## Build for aarch64, and run the tests there that need no root, under qemu-user
	@scripts/setup test-aarch64
	@scripts/test-aarch64

test:            ## Everything that must hold: formatting, lints, unit, property and end-to-end tests
	@scripts/setup test
	@scripts/commits
	@scripts/page
	@scripts/page check
	@scripts/page views
	@cargo fmt --all --check
	@cargo fetch --locked --quiet
	@cargo deny --offline --log-level error check licenses sources bans
	@cargo clippy --profile quick --workspace --all-targets --locked --quiet -- --deny warnings
	@cargo test --profile quick --workspace --locked --no-fail-fast

peers:           ## Open vSwitch's tunnels, nginx and wrk, a DHCP server, radvd, a multicast router, coturn, unbound, bird, scapy and tshark, virtual machines of QEMU at the other end
	@scripts/setup test peers
	@cargo test --profile quick --workspace --locked --test real_peers --test programs -- --ignored --test-threads=1

bench:           ## Measure everything that SPECIFICATION.md promises
	@scripts/setup build bench vm
	@scripts/page
	@scripts/build release
	@scripts/bench $(RELEASE)

tinyx:           ## Find out which options of a tiny kernel busybox's web server does without; goes on where it was ended
	@scripts/setup vm
	@scripts/build quick
	@$(QUICK) vm build /bin/busybox --output $(TARGET)/tinyx --kernel tiny --command 'exec busybox httpd -f -p 80 -h /www' \
	    --copy examples/vm/www=/www --leave-out examples/vm/options --port 80 --test 'curl --fail http://$$HOST:$$PORT_80/'

compare:         ## Compare alerts, flows and verdicts with Suricata, tshark and nft; CAPTURES=DIR and RULES=DIR name one's own
	@scripts/setup build compare
	@scripts/build release
	@$(RELEASE) bench compare $(if $(CAPTURES),--captures "$(CAPTURES)") $(if $(RULES),--rules "$(RULES)")

package: build   ## Make a Debian package and an OCI image of it, in target/package
	@scripts/package $(RELEASE) $(TARGET)/package

nightly:         ## Known faults of dependencies; the daemon's interface with schemathesis and a generated client
	@scripts/setup test nightly
	@cargo deny --log-level error check advisories
	@cargo build --profile quick --locked --workspace --example fake_daemon
	@scripts/nightly $(TARGET)/quick/examples/fake_daemon $(TARGET)/nightly

loom:            ## Every interleaving of what workers and their peers meet by: relays, bells, slots, switch tables, rings (`make test` has them too)
	@cargo test --profile quick --workspace --locked --quiet --lib -- interleavings

fuzz-smoke:      ## Replay the seeds of every fuzz target, and mutate them for 100 seconds
	@scripts/setup build
	@cargo build --profile quick --workspace --locked --quiet --example fuzz_smoke
	@$(TARGET)/quick/examples/fuzz_smoke 100

fuzz:            ## Fuzz every parser for a minute each
	@scripts/setup fuzz
	@scripts/fuzz 60

setup:           ## Install what building and testing need
	@scripts/setup build test run

clean:           ## Remove what was built
	@cargo clean
