//! The operator's file: from YAML to a wiring that can be carried out, or to every fault in it.
//!
//! The life of a configuration:
//! 1. [`check`] parses the text; its keys and values are checked, each with its place in the file.
//! 2. Ports are checked against their driver's schema and functions against their image's, which the
//!    [`Catalog`] knows.
//! 3. Workers, and what each tenant and function may have of a core, are checked against the processors that
//!    there are.
//! 4. Chains are resolved to wires; wires, observers and services to endpoints, by name.
//! 5. Whether weights and caps give what is reserved is asked of the scheduler: [`Wiring::broken_promises`].
//! 6. When there is no fault, a [`Configuration`] comes out. When there is one, all faults come out and
//!    nothing else.
//!
//! ```yaml
//! superfluid: 1                       # version of this format
//! workers: {count: 2, processors: [0, 1]}   # optional; without it there is one worker, on any processor
//! tenants:                            # optional; what names no tenant is of the tenant `default`
//!   default: {pool: {buffers: 1024, buffer_size: 64KiB, headroom: 128, pages: auto}, cpu: {cap: 80%}}
//! ports:
//!   lan: {type: af_packet, interface: sf-lan}
//!   wan: {type: af_packet, interface: sf-wan, io: thread}
//! switches:
//!   hall: {age: 300s, entries: 4096}  # stands wherever a port may stand
//! groups:                             # what may reach the openers of devices that name them
//!   web: {rules: [{direction: in, protocol: tcp, ports: "443"}]}
//! devices:                            # what functions open instead of ports
//!   pair: {mode: bridge, over: [left, right], share: duplicate}
//! functions:
//!   edge_firewall: {image: firewall, config: {default_action: accept}, cpu: {weight: 300, reserve: 20%}, worker: 1}
//!   flows: {image: monitor, preemptible: true}
//!   # ids: {guest: container, image: ./suricata, memory: 1GiB, interfaces: {in: {}, out: {}}}   # an ordinary program
//! chains:                             # lan - edge_firewall:0, edge_firewall:1 - wan
//!   edge: [lan, edge_firewall, wan]
//! wires: []                           # single edges: [[a:1, b:0]]
//! observers:
//!   flows: {at: [edge_firewall]}      # or one interface, edge_firewall:inside
//! services:
//!   10: edge_firewall:0               # where packets go that functions of its tenant send to service 10
//!   # 11: {to: edge_firewall:0, for: [red]}   # and functions of the tenant `red`
//! ```
//! A function may say its own wires: `attach: {inside: lan, outside: {to: pair, order: 3}}`, each as one of
//! `wires`. An
//! interface is given by name or by number. In a chain a function is entered by interface 0 and left by
//! interface 1.
//!
//! Limits: those of [`yaml_document`]; pools of 1 GiB; service IDs from 1 to 65535.

#![forbid(unsafe_code)]

mod connect;
mod container;
mod cpu;
mod device;
mod format;
mod groups;
mod guards;
mod guest_station;
mod leftover;
mod links;
mod loops;
mod memory;
mod observers;
mod read;
mod reference;
mod services;
mod station;
mod stripe;
mod switch;
#[cfg(test)]
mod tests;
mod tunnels;
mod virtual_machine;
mod workers;

use manifest::Manifest;
use schema::{Schema, Value};
use std::sync::Arc;
use wiring::{Claimant, Wiring};
use yaml_document::{Document, Fault, Location};

pub use format::{
    attachment_schema, container_interface_schema, container_schema, cpu_schema, device_schema,
    function_schema, grant_schema, group_rule_schema, layer_schemas, memory_schema, observer_schema,
    policy_schema, pool_schema, service_schema, switch_schema, workers_schema,
};

/// Version of the file's format.
pub const FORMAT_VERSION: u32 = 1;

/// What a configuration is checked against: the images and drivers that there are.
pub trait Catalog {
    /// The manifest of an image, by a stock image's name or by path.
    ///
    /// # Errors
    /// Why the image cannot be used, in words for the operator.
    fn image(&self, reference: &str) -> Result<Arc<Manifest>, String>;

    /// Whether the text of a container's `image` can be one.
    ///
    /// # Errors
    /// Why not, in words for the operator.
    fn container_image(&self, _text: &str) -> Result<(), String> {
        Ok(())
    }

    /// What is in a file that a function's configuration names, at most `most` bytes.
    ///
    /// # Errors
    /// Why it cannot be had, in words for the operator.
    fn file(&self, path: &str, most: u64) -> Result<Vec<u8>, String>;

    /// Names of the stock images.
    fn image_names(&self) -> Vec<&str>;

    /// The schema of a port driver's settings.
    fn driver(&self, name: &str) -> Option<&Schema>;

    /// What a schema cannot say of a port's settings, and of the faults that it is given. Nothing is opened.
    ///
    /// # Errors
    /// What is wrong, in words for the operator, behind `KEY: ` if it is about one.
    fn check_port(&self, _driver: &str, _settings: &Value, _fault: Option<&Value>) -> Result<(), String> {
        Ok(())
    }

    /// The schema of faults that any port may be given.
    fn faults(&self) -> &Schema;

    /// Names of the port drivers.
    fn driver_names(&self) -> Vec<&str>;

    /// Bytes of memory that may be promised to all together; `None`: there is no bound.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// Bytes that a tenant has of that memory beside its pools and functions.
    fn beside(&self, _tenant: &str) -> u64 {
        0
    }

    /// Whether a tenant or a function is there already and asks for nothing new: it comes before the others.
    fn is_there(&self, _: &Claimant) -> bool {
        false
    }

    /// Numbers of the processors that the program may run on.
    fn processors(&self) -> Vec<usize>;
}

/// A checked file.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Valid: [`Wiring::validate`] has no fault to tell.
    pub wiring: Wiring,
    /// What is allowed but probably not meant, in the order of the file.
    pub warnings: Vec<Fault>,
}

/// Checks a file's text; `file` is what faults call it.
///
/// # Errors
/// All faults, in the order of the file. A file of another version of the format has that one fault.
pub fn check(file: &str, text: &str, catalog: &dyn Catalog) -> Result<Configuration, Vec<Fault>> {
    let document = Document::parse(file, text).map_err(|fault| vec![fault])?;
    check_document(file, &document, catalog)
}

/// The same for a document that has been parsed, or was never text.
///
/// # Errors
/// All that is wrong with it.
pub fn check_document(
    file: &str,
    document: &Document,
    catalog: &dyn Catalog,
) -> Result<Configuration, Vec<Fault>> {
    read(file, document, catalog, true)
}

/// The same for a part of one: nothing is told of what has no wire in it.
///
/// # Errors
/// All that is wrong with it.
pub fn check_part(
    file: &str,
    document: &Document,
    catalog: &dyn Catalog,
) -> Result<Configuration, Vec<Fault>> {
    read(file, document, catalog, false)
}

fn read(
    file: &str,
    document: &Document,
    catalog: &dyn Catalog,
    whole: bool,
) -> Result<Configuration, Vec<Fault>> {
    let root = document.root();
    let place = Location::new(file, "", root.position);
    format::same_version(&place, root).map_err(|fault| vec![fault])?;
    let mut reader = read::Reader::new(catalog, whole);
    reader.read(&place, root);
    let read::Reader { wiring, mut faults, mut warnings, guarded, .. } = reader;
    // It has looked for loops in the same way, before guards came between devices and their openers.
    let loops = || if guarded.is_empty() { Vec::new() } else { wiring.loops() };
    // A fault that only the wiring as a whole shows would be one that the reader has missed.
    if faults.is_empty()
        && let Err(missed) = wiring.validate_with_loops(loops())
    {
        faults.extend(missed.iter().map(|fault| place.fault(fault.to_string())));
    }
    if faults.is_empty() {
        warnings.sort_by_key(|fault| fault.position);
        Ok(Configuration { wiring, warnings })
    } else {
        faults.sort_by_key(|fault| fault.position);
        Err(faults)
    }
}
