//! What is fuzzed, and with which claims: one function for each parser, or whatever else is fed by packets,
//! guests, files and clients. Each takes any bytes, and panics when a claim does not hold.
//!
//! 1. [`HARNESSES`] lists them by name. `fuzz/seeds/NAME` has inputs of each, which reach deep into it.
//! 2. `make fuzz-smoke` replays the seeds and then mutates them for a bounded time ([`smoke`]): on the stable
//!    toolchain, without coverage or sanitizers, as a part of what CI runs.
//! 3. `make fuzz` runs the same functions under libFuzzer, guided by coverage and with sanitizers
//!    (`fuzz/fuzz_targets`).
//! 4. An input that either finds is put into `fuzz/seeds/NAME` with the change that mends what it found.
//!
//! Limits: nothing here opens a socket or needs root.

mod af_packet_slot;
mod api_request;
mod backup;
mod bodies;
mod c_readers;
mod capture;
mod capture_filter;
mod capture_sides;
mod classifier;
mod config_text;
mod configuration;
mod connections;
mod container_layer;
mod dissect;
mod dpi;
mod dpi_rules;
mod encapsulation;
mod experiment_file;
mod expressions;
mod firewall;
mod flow_counts;
mod forwarder;
mod fragments;
mod guest_host_calls;
mod guest_module;
mod hellos;
mod http_messages;
mod image_load;
mod ips;
mod link_types;
mod load_balancer;
mod memif;
mod monitor;
mod mutate;
mod nat;
mod native;
mod neighbours;
mod path_mtu;
mod policer;
mod questions;
mod registry_documents;
mod rewrite;
mod router;
mod schema_value;
mod security_groups;
pub mod smoke;
mod snapshot;
mod snapshot_file;
mod streams;
mod stripe;
mod tunnels;
mod unfinished_checksum;
mod uris;
mod vhost_user;
mod virtio_header;
mod virtio_segments;
mod virtual_switch;
mod vxlan_gateway;

/// Guests and rooms for them, which the sandbox's own tests use too.
#[allow(dead_code)]
#[path = "../../../crates/sandbox/guest_wasm/tests/sandbox/support/mod.rs"]
mod support;

/// Something that is fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Harness {
    /// Of the target, and of the folder with its seeds.
    pub name: &'static str,
    /// Runs it on an input. Panics when a claim does not hold.
    pub run: fn(&[u8]),
}

/// All of them, by name.
pub const HARNESSES: &[Harness] = &[
    Harness { name: "af_packet_slot", run: af_packet_slot::run },
    Harness { name: "api_request", run: api_request::run },
    Harness { name: "backup", run: backup::run },
    Harness { name: "bodies", run: bodies::run },
    Harness { name: "c_readers", run: c_readers::run },
    Harness { name: "capture", run: capture::run },
    Harness { name: "capture_filter", run: capture_filter::run },
    Harness { name: "capture_sides", run: capture_sides::run },
    Harness { name: "classifier", run: classifier::run },
    Harness { name: "config_text", run: config_text::run },
    Harness { name: "connections", run: connections::run },
    Harness { name: "container_layer", run: container_layer::run },
    Harness { name: "dissect", run: dissect::run },
    Harness { name: "dpi", run: dpi::run },
    Harness { name: "dpi_rules", run: dpi_rules::run },
    Harness { name: "encapsulation", run: encapsulation::run },
    Harness { name: "experiment_file", run: experiment_file::run },
    Harness { name: "expressions", run: expressions::run },
    Harness { name: "firewall", run: firewall::run },
    Harness { name: "flow_counts", run: flow_counts::run },
    Harness { name: "forwarder", run: forwarder::run },
    Harness { name: "fragments", run: fragments::run },
    Harness { name: "guest_host_calls", run: guest_host_calls::run },
    Harness { name: "guest_module", run: guest_module::run },
    Harness { name: "hellos", run: hellos::run },
    Harness { name: "http_messages", run: http_messages::run },
    Harness { name: "image_load", run: image_load::run },
    Harness { name: "ips", run: ips::run },
    Harness { name: "link_types", run: link_types::run },
    Harness { name: "load_balancer", run: load_balancer::run },
    Harness { name: "memif", run: memif::run },
    Harness { name: "monitor", run: monitor::run },
    Harness { name: "nat", run: nat::run },
    Harness { name: "native", run: native::run },
    Harness { name: "neighbours", run: neighbours::run },
    Harness { name: "path_mtu", run: path_mtu::run },
    Harness { name: "policer", run: policer::run },
    Harness { name: "questions", run: questions::run },
    Harness { name: "registry_documents", run: registry_documents::run },
    Harness { name: "rewrite", run: rewrite::run },
    Harness { name: "router", run: router::run },
    Harness { name: "schema_value", run: schema_value::run },
    Harness { name: "security_groups", run: security_groups::run },
    Harness { name: "snapshot", run: snapshot::run },
    Harness { name: "snapshot_file", run: snapshot_file::run },
    Harness { name: "streams", run: streams::run },
    Harness { name: "stripe", run: stripe::run },
    Harness { name: "tunnels", run: tunnels::run },
    Harness { name: "unfinished_checksum", run: unfinished_checksum::run },
    Harness { name: "uris", run: uris::run },
    Harness { name: "vhost_user", run: vhost_user::run },
    Harness { name: "virtio_header", run: virtio_header::run },
    Harness { name: "virtio_segments", run: virtio_segments::run },
    Harness { name: "virtual_switch", run: virtual_switch::run },
    Harness { name: "vxlan_gateway", run: vxlan_gateway::run },
];

/// Runs the harness of this name.
///
/// # Panics
/// When a claim does not hold, or there is no such harness.
pub fn run(name: &str, data: &[u8]) {
    match HARNESSES.iter().find(|harness| harness.name == name) {
        Some(harness) => (harness.run)(data),
        None => panic!("there is no harness `{name}`"),
    }
}
