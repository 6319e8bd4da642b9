use crate::*;
use packet_memory::{PageKind, PoolConfig};
use proptest::prelude::*;
use wiring::{Endpoint, FailMode, InstancePool, PoolOwner, Service};

mod containers;
mod cpu;
mod devices;
mod groups;
mod guest_devices;
mod memory;
mod observers;
mod ports_and_functions;
mod services;
mod switches;
mod tenants;
mod tunnels;
mod workers;

/// Three images and two drivers.
struct Shelf {
    af_packet: Schema,
    null: Schema,
    tap: Schema,
    /// As they are.
    af_xdp: Schema,
    memif: Schema,
    native: Schema,
    vhost_user: Schema,
    faults: Schema,
}

fn shelf() -> Shelf {
    let af_packet = "interface: {type: string, min_length: 1, max_length: 15, required: true, help: Its name.}\n\
                     frames: {type: integer, min: 64, max: 65536, default: 2048}\n\
                     ring: {type: size, min: 512KiB, max: 1GiB, default: 8MiB}\n";
    Shelf {
        af_packet: Schema::from_text("af_packet", af_packet).unwrap(),
        null: Schema::default(),
        tap: Schema::from_text(
            "tap",
            "interface: {type: string, required: true}\nmtu: {type: integer, min: 68, max: 65535, required: false}\n\
             mac: {type: mac, required: false}\noffload: {type: enum, values: [\"on\", \"off\"], required: false}",
        )
        .unwrap(),
        af_xdp: Schema::from_text(
            "af_xdp",
            include_str!("../../../dataplane/ports/port_af_xdp/src/settings.yaml"),
        )
        .unwrap(),
        memif: Schema::from_text(
            "memif",
            include_str!("../../../dataplane/ports/port_memif/src/settings.yaml"),
        )
        .unwrap(),
        native: Schema::from_text(
            "native",
            include_str!("../../../dataplane/ports/port_native/src/settings.yaml"),
        )
        .unwrap(),
        vhost_user: Schema::from_text(
            "vhost-user",
            include_str!("../../../dataplane/ports/port_vhost_user/src/settings.yaml"),
        )
        .unwrap(),
        faults: Schema::from_text(
            "fault",
            "seed: {type: integer, default: 0}\nloss: {type: fraction, default: 0%}",
        )
        .unwrap(),
    }
}

fn manifest(name: &str, access: &str, interfaces: &str, config: &str) -> Arc<Manifest> {
    let text = format!(
        "{{name: {name}, version: 1.0.0, abi: 1, summary: s, language: c, access: {access}, interfaces: {interfaces}, \
         memory_limit: 1MiB, config: {{{config}}}}}"
    );
    Arc::new(Manifest::parse(name, &text).unwrap())
}

impl Catalog for Shelf {
    fn image(&self, reference: &str) -> Result<Arc<Manifest>, String> {
        match reference {
            "firewall" => Ok(manifest(
                "firewall",
                "read",
                "[inside, outside]",
                "default_action: {type: enum, values: [accept, drop], default: drop}, \
                 max_flows: {type: integer, min: 1, max: 4000000, default: 65536, unit: flows}",
            )),
            "forwarder" => Ok(manifest("forwarder", "write", "[left, right]", "")),
            "monitor" => Ok(manifest("monitor", "read", "[tap]", "")),
            "./dpi.wasm" => {
                Ok(manifest("dpi", "read", "[in, out]", "rules: {type: file, max: 1KiB, required: true}"))
            }
            "policer" => Ok(manifest(
                "policer",
                "read",
                "[a, b, c], optional_interfaces: [c]",
                "rate: {type: rate, required: true, help: Highest.}",
            )),
            "security-groups" => Ok(Manifest::parse(
                "function.yaml",
                include_str!("../../../../functions/security-groups/function.yaml"),
            )
            .unwrap()
            .into()),
            path => Err(format!("{path}: No such file or directory\n(os error 2)")),
        }
    }

    fn file(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        match path {
            "web.rules" => Ok(vec![b'x'; 5.min(most as usize)]),
            _ => Err("No such file or directory".to_owned()),
        }
    }

    fn image_names(&self) -> Vec<&str> {
        vec!["forwarder", "firewall", "monitor", "policer", "security-groups"]
    }

    fn driver(&self, name: &str) -> Option<&Schema> {
        match name {
            "af_packet" => Some(&self.af_packet),
            "null" => Some(&self.null),
            "tap" => Some(&self.tap),
            "af_xdp" => Some(&self.af_xdp),
            "memif" => Some(&self.memif),
            "native" => Some(&self.native),
            "vhost-user" => Some(&self.vhost_user),
            _ => None,
        }
    }

    fn faults(&self) -> &Schema {
        &self.faults
    }

    fn driver_names(&self) -> Vec<&str> {
        vec!["af_packet", "null"]
    }

    fn processors(&self) -> Vec<usize> {
        vec![0, 1, 2, 3, 6]
    }
}

const EDGE: &str = "\
superfluid: 1
tenants:
  default: {pool: {buffers: 1024, buffer_size: 64KiB, headroom: 128, pages: auto}}
ports:
  lan: {type: af_packet, interface: sf-lan}
  wan: {type: af_packet, interface: sf-wan}
functions:
  edge_firewall: {image: firewall, config: {default_action: accept}}
  flows: {image: monitor}
chains:
  edge: [lan, edge_firewall, wan]
wires: []
observers:
  flows: {at: [edge_firewall]}
services:
  10: edge_firewall:0
";

/// Everything that [`EDGE`] has not.
const OFFICE: &str = "\
superfluid: 1
workers: {count: 2, processors: [0, [1, 2]], slice: 50us, spin_share: 5%, balance: false}
tenants:
  default: {cpu: {weight: 300, cap: 80%, reserve: 10%}}
ports:
  lan: {type: 'null', io: thread}
  wan: {type: 'null', io: inline}
  yard: {type: 'null'}
switches:
  hall: {age: 60s, entries: 512}
functions:
  fw: {image: firewall, cpu: {weight: 300, cap: 50%, reserve: 20%}, worker: 1}
  nat: {image: forwarder, preemptible: true}
  flows: {image: monitor, worker: 1}
chains:
  out: [hall, fw, wan]
wires: [[lan, hall], [hall, nat:0], ['nat:1', yard]]
observers:
  flows: {at: [fw]}
services:
  7: hall
";

fn service(tenant: &str, number: u16) -> Service {
    Service { tenant: tenant.to_owned(), number }
}

fn good(text: &str) -> Configuration {
    let configuration = check("f.yaml", text, &shelf()).unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    assert_eq!(configuration.wiring.validate(), Ok(()));
    configuration
}

fn lines(faults: &[Fault]) -> String {
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}

/// Checks that a file has exactly these faults.
fn bad(text: &str, expected: &str) {
    match check("f.yaml", text, &shelf()) {
        Ok(configuration) => panic!("accepted: {configuration:#?}"),
        Err(faults) => {
            let found = lines(&faults);
            assert_eq!(found, expected, "\n--- found:\n{found}--- expected:\n{expected}--- in:\n{text}");
        }
    }
}

/// A file of some ports and functions, followed by `text` in line 12 and below.
fn with(text: &str) -> String {
    format!(
        "superfluid: 1\nports:\n  lan: {{type: 'null'}}\n  wan: {{type: 'null'}}\nfunctions:\n  fw: {{image: firewall}}\n  \
         nat: {{image: forwarder}}\n  flows: {{image: monitor}}\n  more: {{image: monitor}}\n  tri: {{image: policer, \
         config: {{rate: 1Mpps}}}}\n# {{}}\n{text}"
    )
}

#[test]
fn the_formats_schemas_are_schemas() {
    assert_eq!(pool_schema().keys().len(), 4);
    assert_eq!(function_schema().keys().len(), 14);
    let launched = wiring::ContainerKind::ALL.map(|kind| container_schema(kind).keys().len());
    assert_eq!(launched, [16, 14, 19]);
    let interfaces = wiring::InterfaceKind::ALL.map(|kind| container_interface_schema(kind).keys().len());
    assert_eq!(interfaces, [3, 5, 6, 6, 5, 4]);
    assert_eq!(observer_schema().keys().len(), 3);
    assert_eq!(service_schema().keys().len(), 2);
    assert_eq!(cpu_schema().keys().len(), 3);
    assert_eq!(memory_schema().keys().len(), 2);
    assert_eq!(switch_schema().keys().len(), 2);
    assert_eq!(workers_schema().keys().len(), 8);
    let explicit = good("superfluid: 1\ntenants: {default: {pool: {}}}\n");
    let implicit = good("superfluid: 1\n");
    assert_eq!(explicit, implicit);
    assert_eq!(explicit.wiring.tenants["default"].pool, PoolConfig::default());
}

#[test]
fn a_good_file_becomes_a_wiring() {
    let Configuration { wiring, warnings } = good(EDGE);
    assert_eq!(warnings, []);
    let pool = wiring.tenants["default"].pool;
    assert_eq!((pool.buffers, pool.buffer_size.bytes(), pool.headroom, pool.pages), (1024, 65536, 128, None));
    assert_eq!(wiring.ports.keys().collect::<Vec<_>>(), ["lan", "wan"]);
    assert_eq!(wiring.ports["wan"].settings.to_string(), "{interface: sf-wan, frames: 2048, ring: 8MiB}");
    let firewall = &wiring.instances["edge_firewall"];
    assert_eq!(firewall.config.to_string(), "{default_action: accept, max_flows: 65536}");
    assert_eq!((firewall.max_call.0, firewall.fail), (10_000_000, FailMode::Closed));
    assert_eq!((firewall.restart.first.0, firewall.restart.longest.0), (10_000_000, 5_000_000_000));
    assert_eq!((firewall.quota.of(1024), firewall.longest_hold.0), (64, 1_000_000_000));
    let edges: Vec<String> = wiring.edges.iter().map(ToString::to_string).collect();
    assert_eq!(edges, ["lan - edge_firewall:0", "wan - edge_firewall:1"]);
    let observations: Vec<String> = wiring.observations.iter().map(ToString::to_string).collect();
    assert_eq!(observations, ["flows at edge_firewall"]);
    assert_eq!(wiring.services[&service("default", 10)], Endpoint::Interface("edge_firewall".into(), 0));
}

#[test]
fn what_is_said_of_cores_and_switches_is_read_as_well() {
    let Configuration { wiring, warnings } = good(OFFICE);
    assert_eq!(warnings, []);
    assert_eq!((wiring.workers.list.len(), wiring.plugged_into("hall").count()), (2, 3));
}

#[test]
fn interfaces_have_names_and_numbers() {
    let Configuration { wiring, .. } = good(&with(
        "wires: [[lan, fw:outside], [fw:0, nat:left], [more, nat:1]]\nobservers: {flows: {at: [fw:inside, 'nat:1']}}\n",
    ));
    let edges: Vec<String> = wiring.edges.iter().map(ToString::to_string).collect();
    assert_eq!(edges, ["lan - fw:1", "fw:0 - nat:0", "more:0 - nat:1"]);
    let observations: Vec<String> = wiring.observations.iter().map(ToString::to_string).collect();
    assert_eq!(observations, ["flows at fw:0", "flows at nat:1"]);
}

#[test]
fn chains_begin_and_end_anywhere() {
    let edges = |chain: &str| -> Vec<String> {
        let Configuration { wiring, .. } = good(&with(&format!("chains: {{c: {chain}}}\n")));
        wiring.edges.iter().map(ToString::to_string).collect()
    };
    assert_eq!(edges("[fw, nat]"), ["fw:1 - nat:0"]);
    assert_eq!(edges("[more, fw, flows]"), ["flows:0 - fw:1", "fw:0 - more:0"]);
    assert_eq!(edges("[tri:c, nat, fw:outside]"), ["fw:1 - nat:1", "nat:0 - tri:2"]);
    assert_eq!(edges("[lan, wan]"), ["lan - wan"]);
}

#[test]
fn tenants_may_be_two_and_pools_own() {
    let text = "\
superfluid: 1
tenants:
  red: {pool: {buffers: 16}}
  blue: {pool: {buffers: 32, buffer_size: 4KiB, pages: ordinary}}
ports:
  lan: {type: 'null', tenant: red}
  wan: {type: 'null', tenant: blue}
functions:
  fw: {image: firewall, tenant: red, fail: open, max_call: 250us, quota: 1/4, pool: own, restart: {first_delay: 1s}}
  nat: {image: forwarder, tenant: blue, pool: {buffers: 8}}
chains: {c: [lan, fw, nat, wan]}
";
    let Configuration { wiring, warnings } = good(text);
    assert_eq!(warnings, []);
    assert_eq!(wiring.pool_of(&Endpoint::Port("wan".into())), Some(PoolOwner::Tenant("blue")));
    assert_eq!(wiring.tenants["blue"].pool.pages, Some(PageKind::Ordinary));
    assert_eq!(wiring.instances["fw"].pool, InstancePool::Own(wiring.tenants["red"].pool));
    assert_eq!(wiring.instances["fw"].fail, FailMode::Open);
    let InstancePool::Own(own) = wiring.instances["nat"].pool else { panic!() };
    assert_eq!(own.buffers, 8);
}

#[test]
fn what_nothing_is_wired_to_is_a_warning() {
    let Configuration { warnings, .. } = good(&with("chains: {c: [lan, fw]}\nservices: {7: more}\n"));
    assert_eq!(
        lines(&warnings),
        "\
f.yaml:4:3: ports.wan: nothing is wired to the port `wan`; its packets are dropped (no-route)
f.yaml:6:3: functions.fw: nothing is wired to these interfaces of `fw`: outside; packets sent there are dropped (no-route)
f.yaml:7:3: functions.nat: nothing is wired to the function `nat`; it gets no packets
f.yaml:8:3: functions.flows: nothing is wired to the function `flows`; it gets no packets
f.yaml:10:3: functions.tri: nothing is wired to the function `tri`; it gets no packets
"
    );
}

#[test]
fn an_interface_that_may_be_left_without_a_wire_is_none() {
    let warnings = |wires: &str| {
        let text = format!(
            "superfluid: 1\nports: {{p: {{type: 'null'}}, q: {{type: 'null'}}}}\nfunctions:\n  tri: {{image: policer, \
             config: {{rate: 1kpps}}}}\nwires: [{wires}]\n"
        );
        lines(&good(&text).warnings)
    };
    assert_eq!(warnings("[p, 'tri:a'], ['tri:b', q]"), "");
    assert_eq!(
        warnings("[p, 'tri:a'], ['tri:c', q]"),
        "f.yaml:4:3: functions.tri: nothing is wired to these interfaces of `tri`: b; packets sent there are dropped (no-route)\n"
    );
}

#[test]
fn the_version_comes_first() {
    bad(
        "",
        "f.yaml:1:1: superfluid: the required key `superfluid` is missing; write `superfluid: 1`, the version of this format\n",
    );
    bad(
        "superfluid: 2\nthings: []\n",
        "f.yaml:1:13: superfluid: found `2` as the version of this format; allowed: 1\n",
    );
    bad(
        "superfuild: 1\n",
        "f.yaml:1:1: superfuild: unknown key `superfuild`; allowed: superfluid, workers, tenants, ports, switches, groups, devices, \
         functions, chains, wires, observers, services; did you mean `superfluid`?\n",
    );
    bad(
        "[1]",
        "f.yaml:1:1: found a list; allowed: a map of these keys: superfluid, workers, tenants, ports, switches, groups, devices, \
         functions, chains, wires, observers, services\n",
    );
    bad(
        "superfluid: 1\nsuperfluid: 1\n",
        "f.yaml:2:1: superfluid: key `superfluid` is given twice; the first is in line 1, column 1\n",
    );
}

#[test]
fn everything_wrong_with_one_file_is_told_at_once() {
    let text = "\
superfluid: 1
tenant:
  default: {}
ports:
  lan: {type: af_packt, interface: sf-lan}
  wan: {type: af_packet, intreface: sf-wan}
functions:
  edge_firewall: {image: firewal, config: {default_action: acept}}
  strict: {image: firewall, config: {default_action: acept, max_flows: many}}
  flows: {image: monitor, max_call: 1}
chains:
  edge: [lan, edge_firewal, wan]
observers:
  flows: {at: [edge_firewall, edge_firewal]}
services:
  0: strict:left
";
    bad(
        text,
        "\
f.yaml:2:1: tenant: unknown key `tenant`; allowed: superfluid, workers, tenants, ports, switches, groups, devices, functions, chains, wires, observers, services; did you mean `tenants`?
f.yaml:5:15: ports.lan.type: found `af_packt`; allowed: af_packet, null; did you mean `af_packet`?
f.yaml:6:8: ports.wan.interface: the required key `interface` is missing; allowed: text of 1 to 15 characters
f.yaml:6:26: ports.wan.intreface: unknown key `intreface`; allowed: type, tenant, io, fault, interface, frames, ring; did you mean `interface`?
f.yaml:8:26: functions.edge_firewall.image: no stock image is named `firewal`; allowed: forwarder, firewall, monitor, policer, security-groups, or a file's path such as `./x.wasm`; did you mean `firewall`?
f.yaml:9:54: functions.strict.config.default_action: found `acept`; allowed: one of accept, drop; did you mean `accept`?
f.yaml:9:72: functions.strict.config.max_flows: found `many`; allowed: an integer from 1 to 4000000 (unit: flows)
f.yaml:10:37: functions.flows.max_call: found `1`; allowed: a duration from 10us to 10s, such as `10s` (units: ns, us, ms, s, m, h, d)
f.yaml:12:15: chains.edge[1]: no port, switch, device or function is named `edge_firewal`; allowed: lan, wan, edge_firewall, strict, flows; did you mean `edge_firewall`?
f.yaml:14:31: observers.flows.at[1]: no port, switch, device or function is named `edge_firewal`; allowed: lan, wan, edge_firewall, strict, flows; did you mean `edge_firewall`?
f.yaml:16:3: services.0: found the service ID `0`; allowed: an integer from 1 to 65535, or one behind its tenant's name, such as `red:10`
f.yaml:16:6: services.0: `strict` has no interface `left`; allowed: strict:inside, strict:outside (or strict:0 to strict:1)
",
    );
}

#[test]
fn a_driver_whose_name_means_nothing_in_yaml_is_to_be_quoted() {
    bad(
        "superfluid: 1\nports: {lan: {type: null}}\n",
        "f.yaml:2:21: ports.lan.type: found nothing; allowed: af_packet, null; write \"null\" for the driver of that name\n",
    );
}

#[test]
fn bad_tenants_and_pools() {
    bad(
        "\
superfluid: 1
tenants:
  big: {pool: {buffers: 16385, buffer_size: 64KiB}}
  odd: {pool: {buffer_size: 3KiB}}
  tall: {pool: {headroom: 1025}}
  none: {pool: {buffers: 0, pages: large}}
  1st: {}
  pol: {pol: {}}
  list: []
ports:
  a: {type: 'null'}
  b: {type: 'null', tenant: bgi}
  c: {type: 'null', tenant: [big]}
",
        "\
f.yaml:3:25: tenants.big.pool.buffers: found `16385`; allowed: at most 16384 buffers of 64KiB (1GiB in all)
f.yaml:4:29: tenants.odd.pool.buffer_size: found `3KiB`; allowed: 2KiB, 4KiB, 8KiB, 16KiB, 32KiB, 64KiB
f.yaml:5:27: tenants.tall.pool.headroom: found `1025`; allowed: at most 1024, half a buffer (unit: bytes)
f.yaml:6:26: tenants.none.pool.buffers: found `0`; allowed: an integer from 1 to 524288
f.yaml:6:36: tenants.none.pool.pages: found `large`; allowed: one of auto, huge, ordinary
f.yaml:7:3: tenants.1st: found the name `1st`; allowed: a letter, then letters, digits, `_` and `-`, 32 characters at most
f.yaml:8:9: tenants.pol.pol: unknown key `pol`; allowed: pool, cpu, memory, guests; did you mean `pool`?
f.yaml:9:9: tenants.list: found a list; allowed: a map of these keys: pool, cpu, memory, guests
f.yaml:12:29: ports.b.tenant: found `bgi`; allowed: big, odd, tall, none, pol, list, default; did you mean `big`?
f.yaml:13:29: ports.c.tenant: found a list; allowed: big, odd, tall, none, pol, list, default
",
    );
}

#[test]
fn bad_connections() {
    let cases = [
        (
            "chains: {c: [lan]}\n",
            "f.yaml:12:13: chains.c: found a list of one item; allowed: a list of two or more ports, switches, devices and functions, such as `[lan, firewall, wan]`\n",
        ),
        (
            "chains: {c: lan}\n",
            "f.yaml:12:13: chains.c: found `lan`; allowed: a list of two or more ports, switches, devices and functions, such as `[lan, firewall, wan]`\n",
        ),
        (
            "chains: [[lan, wan]]\n",
            "f.yaml:12:9: chains: found a list; allowed: a map from name to description\n",
        ),
        (
            "chains: {c: [lan, [fw], wan]}\n",
            "f.yaml:12:19: chains.c[1]: found a list; allowed: the name of a port, switch or device, or a function's with an interface, such as `fw:0`\n",
        ),
        (
            "chains: {c: [fw, wan, nat]}\n",
            "f.yaml:12:18: chains.c[1]: the port `wan` stands inside a chain; allowed: ports, switches and devices at its two ends\n",
        ),
        (
            "chains: {c: [lan, fw:1, wan]}\n",
            "f.yaml:12:19: chains.c[1]: found `fw:1` inside a chain; allowed: `fw`, entered by interface 0 and left by interface 1 (say other interfaces under `wires`)\n",
        ),
        (
            "chains: {c: [lan, flows, wan]}\n",
            "f.yaml:12:19: chains.c[1]: `flows` stands inside a chain but has one interface; allowed: two or more\n",
        ),
        (
            "chains: {c: [lan:0, fw]}\n",
            "f.yaml:12:14: chains.c[0]: `lan` is a port and has no interfaces; did you mean `lan`?\n",
        ),
        (
            "chains: {c: [lan, fw, wan], d: [nat, fw]}\n",
            "f.yaml:12:38: chains.d[1]: `fw:0` has a wire already: to `lan`, in line 12\n",
        ),
        (
            "chains: {c: [lan, fw, fw, wan]}\n",
            "f.yaml:12:23: chains.c[2]: `fw:0` has a wire already: to `lan`, in line 12\n",
        ),
        (
            "wires: {a: b}\n",
            "f.yaml:12:8: wires: found a map; allowed: a list of pairs, such as `[[lan, fw:0]]`\n",
        ),
        (
            "wires: [lan]\n",
            "f.yaml:12:9: wires[0]: found `lan`; allowed: a list of two ends, such as `[lan, fw:0]`\n",
        ),
        (
            "wires: [[lan]]\n",
            "f.yaml:12:9: wires[0]: found a list of 1; allowed: a list of two ends, such as `[lan, fw:0]`\n",
        ),
        ("wires: [[lan, lan]]\n", "f.yaml:12:10: wires[0][0]: `lan` is wired to itself\n"),
        (
            "wires: [[lan, fw]]\n",
            "f.yaml:12:15: wires[0][1]: found `fw` without an interface; allowed: fw:inside, fw:outside (or fw:0 to fw:1)\n",
        ),
        (
            "wires: [[lan, fw:insdie]]\n",
            "f.yaml:12:15: wires[0][1]: `fw` has no interface `insdie`; allowed: fw:inside, fw:outside (or fw:0 to fw:1); did you mean `fw:inside`?\n",
        ),
        (
            "wires: [[lan, fw:2], [wan, flows:1]]\n",
            "f.yaml:12:15: wires[0][1]: `fw` has no interface `2`; allowed: fw:inside, fw:outside (or fw:0 to fw:1)\n\
          f.yaml:12:28: wires[1][1]: `flows` has no interface `1`; allowed: flows:tap (or flows:0)\n",
        ),
        (
            "wires: [[~, fw:+1]]\n",
            "f.yaml:12:10: wires[0][0]: found nothing; allowed: the name of a port, switch or device, or a function's with an interface, such as `fw:0`\n\
          f.yaml:12:13: wires[0][1]: `fw` has no interface `+1`; allowed: fw:inside, fw:outside (or fw:0 to fw:1)\n",
        ),
        (
            "observers: {flow: {at: [fw]}}\n",
            "f.yaml:12:13: observers.flow: no port, switch, device or function is named `flow`; allowed: lan, wan, fw, nat, flows, more, tri; did you mean `flows`?\n",
        ),
        (
            "observers: {lan: {at: [lan]}}\n",
            "f.yaml:12:24: observers.lan.at[0]: `lan` is to observe itself; allowed: what others send and get\n",
        ),
        (
            "observers: {nat: {at: [fw]}}\n",
            "f.yaml:12:13: observers.nat: `nat` is an observer, but its image declares `access: write`; allowed: an image with `access: read`\n",
        ),
        (
            "observers: {flows: {at: []}}\n",
            "f.yaml:12:25: observers.flows.at: found 0 items; allowed: a list of 1 to 4096 items\n",
        ),
        (
            "observers: {flows: [fw]}\n",
            "f.yaml:12:20: observers.flows: found a list; allowed: a map of these keys: at, filter, sample\n",
        ),
        (
            "observers: {flows: {at: [flows]}}\n",
            "f.yaml:12:26: observers.flows.at[0]: `flows` is to observe itself; allowed: what others send and get\n",
        ),
        (
            "wires: [[flows, lan]]\nobservers: {flows: {at: [fw]}, more: {at: [flows]}}\nservices: {7: more}\n",
            "f.yaml:13:13: observers.flows: `flows` is an observer and is wired in line 12; allowed: either, and wires by the interfaces from the third on, by which it sends\n\
          f.yaml:13:13: observers.flows: `flows` is an observer and is observed in line 13; allowed: either\n\
          f.yaml:13:32: observers.more: `more` is an observer and is a service in line 14; allowed: either\n",
        ),
        (
            "services: {65536: fw:0, 07: fw:0, a: fw, 9: }\n",
            "f.yaml:12:12: services.65536: found the service ID `65536`; allowed: an integer from 1 to 65535, or one behind its tenant's name, such as `red:10`\n\
          f.yaml:12:25: services.07: found the service ID `07`; allowed: an integer from 1 to 65535, or one behind its tenant's name, such as `red:10`\n\
          f.yaml:12:35: services.a: found the service ID `a`; allowed: an integer from 1 to 65535, or one behind its tenant's name, such as `red:10`\n\
          f.yaml:12:38: services.a: found `fw` without an interface; allowed: fw:inside, fw:outside (or fw:0 to fw:1)\n\
          f.yaml:12:42: services.9: found nothing; allowed: the name of a port, switch or device, or a function's with an interface, such as `fw:0`\n",
        ),
    ];
    for (text, expected) in cases {
        bad(&with(text), expected);
    }
}

#[test]
fn observers_may_send_by_their_further_interfaces() {
    let Configuration { wiring, warnings } =
        good(&with("chains: {c: [lan, fw]}\nwires: [[tri:2, wan]]\nobservers: {tri: {at: [fw]}}\n"));
    assert_eq!(
        wiring.edges.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["lan - fw:0", "wan - tri:2"]
    );
    assert!(warnings.iter().all(|warning| !warning.message.contains("tri")), "{}", lines(&warnings));
    bad(
        &with("wires: [[tri:2, wan], [tri:1, lan]]\nobservers: {tri: {at: [fw]}}\n"),
        "f.yaml:13:13: observers.tri: `tri` is an observer and is wired in line 12; allowed: either, and wires by the interfaces \
         from the third on, by which it sends\n",
    );
}

#[test]
fn observers_stay_with_their_tenant() {
    let text = "\
superfluid: 1
tenants: {red: , blue: }
functions:
  fw: {image: firewall, tenant: red}
  flows: {image: monitor, tenant: blue}
observers: {flows: {at: [fw]}}
";
    bad(
        text,
        "f.yaml:6:26: observers.flows.at[0]: `fw` is the tenant `red`'s and the observer is `blue`'s; allowed: what is of the \
         same tenant, and devices that are open to the observer\n",
    );
}

#[test]
fn a_function_that_cannot_be_used_is_one_fault_only() {
    let text = "\
superfluid: 1
ports: {lan: {type: 'null'}, wan: {type: 'null'}}
functions: {fw: {image: ./fw.wasm}}
chains: {c: [lan, fw, wan]}
services: {1: fw:3}
";
    bad(
        text,
        "f.yaml:3:25: functions.fw.image: the image `./fw.wasm` cannot be used: ./fw.wasm: No such file or directory (os error 2)\n",
    );
}

#[test]
fn a_chain_of_many_functions_is_read_quickly() {
    let mut text =
        String::from("superfluid: 1\nports: {lan: {type: 'null'}, wan: {type: 'null'}}\nfunctions:\n");
    for n in 0..10_000 {
        text.push_str(&format!("  fw{n}: {{image: firewall}}\n"));
    }
    text.push_str("chains:\n  c:\n  - lan\n");
    for n in 0..10_000 {
        text.push_str(&format!("  - fw{n}\n"));
    }
    text.push_str("  - wan\n");
    assert_eq!(good(&text).wiring.edges.len(), 10_001);
}

proptest! {
    #[test]
    fn a_damaged_file_does_not_make_it_panic(whole in proptest::sample::select(vec![EDGE, OFFICE]), edits in proptest::collection::vec((0usize..700, 0usize..12, "[-\\[\\]{},:a-z0-9\n '\"]{0,6}"), 1..4)) {
        let mut text = whole.to_owned();
        for (at, cut, with) in edits {
            let at = at.min(text.len());
            let end = (at + cut).min(text.len());
            text.replace_range(at..end, &with);
        }
        match check("f", &text, &shelf()) {
            Ok(configuration) => prop_assert_eq!(configuration.wiring.validate(), Ok(())),
            Err(faults) => {
                prop_assert!(!faults.is_empty());
                for fault in faults {
                    prop_assert_eq!(fault.to_string().lines().count(), 1);
                    prop_assert!(!fault.message.contains("does not exist"), "missed by the reader: {}", fault);
                }
            }
        }
    }

    #[test]
    fn arbitrary_connections_are_wired_or_refused(
        links in proptest::collection::vec(proptest::sample::select(vec!["lan", "wan", "fw", "nat:0", "nat:right", "flows", "tri:b", "x", "fw:9"]), 0..6),
        wires in proptest::collection::vec((proptest::sample::select(vec!["lan", "fw:0", "fw:1", "nat:0", "more"]), proptest::sample::select(vec!["wan", "tri:0", "tri:c", "flows:tap"])), 0..3),
        observed in proptest::sample::select(vec!["fw", "more", "nat:1", "flows"]),
    ) {
        let wires: Vec<String> = wires.iter().map(|(a, b)| format!("[{a}, {b}]")).collect();
        let text = with(&format!(
            "chains: {{c: [{}]}}\nwires: [{}]\nobservers: {{more: {{at: ['{observed}']}}}}\n",
            links.join(", "),
            wires.join(", ")
        ));
        if let Ok(configuration) = check("f", &text, &shelf()) {
            prop_assert_eq!(configuration.wiring.validate(), Ok(()));
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "(superfluid: 1\n)?[-?:,\\[\\]{}#a-z0-9\n ]{0,80}") {
        let _ = check("f", &text, &shelf());
    }
}

#[test]
fn a_file_that_a_function_names_is_read_through_the_catalog() {
    let text = |rules: &str| {
        format!(
            "superfluid: 1\nports: {{a: {{type: \"null\"}}, b: {{type: \"null\"}}}}\n\
             functions: {{ids: {{image: ./dpi.wasm, events: alerts.json, config: {{rules: {rules}}}}}}}\nchains: {{c: [a, ids, b]}}\n"
        )
    };
    let configuration = check("f.yaml", &text("web.rules"), &shelf()).unwrap();
    let ids = &configuration.wiring.instances["ids"];
    assert_eq!(ids.events.as_deref(), Some("alerts.json"));
    assert_eq!(
        ids.config.get("rules").and_then(|value| value.as_file()),
        Some(("web.rules", b"xxxxx".as_slice()))
    );
    let faults = check("f.yaml", &text("wbe.rules"), &shelf()).unwrap_err();
    assert_eq!(
        faults[0].to_string(),
        "f.yaml:3:75: functions.ids.config.rules: `wbe.rules`: No such file or directory; allowed: the path of a file \
         of at most 1KiB"
    );
}

#[test]
fn faults_are_given_to_any_port_and_checked() {
    let text = |loss: &str| {
        format!(
            "superfluid: 1\nports: {{a: {{type: \"null\", fault: {{loss: {loss}}}}}, b: {{type: \"null\"}}}}\nwires: [[a, b]]\n"
        )
    };
    let configuration = check("f.yaml", &text("0.5%"), &shelf()).unwrap();
    let [a, b] = ["a", "b"].map(|name| &configuration.wiring.ports[name]);
    let loss = a.fault.as_ref().and_then(|fault| fault.get("loss")).and_then(|value| value.as_integer());
    assert_eq!((loss, b.fault.is_none()), (Some(5_000_000), true));
    let faults = check("f.yaml", &text("101%"), &shelf()).unwrap_err();
    assert_eq!(
        faults[0].to_string(),
        "f.yaml:2:41: ports.a.fault.loss: found `101%`; allowed: a fraction of at most 100%, such as `0.5%` (units: %, \
         ppm, ppb)"
    );
}

#[test]
fn a_function_may_say_its_own_wires() {
    let rest = "superfluid: 1\nports: {lan: {type: 'null'}, wan: {type: 'null'}}\n";
    let attached = format!(
        "{rest}functions:\n  f: {{image: forwarder, attach: {{left: lan, 1: 'g:left'}}}}\n  g: {{image: forwarder, attach: {{right: wan}}}}\n"
    );
    let wired = format!(
        "{rest}functions: {{f: {{image: forwarder}}, g: {{image: forwarder}}}}\nwires: [[lan, 'f:0'], ['f:1', 'g:0'], ['g:1', wan]]\n"
    );
    let wiring = |text: &str| check("t.yaml", text, &shelf()).expect("good").wiring;
    assert_eq!(wiring(&attached), wiring(&wired));
    let fault = |attach: &str| {
        let text = format!("{rest}functions:\n  f: {{image: forwarder, attach: {attach}}}\n");
        let faults = check("t.yaml", &text, &shelf()).expect_err("wrong");
        faults.iter().map(|fault| fault.to_string()).collect::<Vec<_>>().join("\n")
    };
    assert!(fault("{left: lan, right: lan}").contains("`lan` has a wire already"));
    // In its own words, as they may stand there.
    assert!(
        fault("{middle: lan}").ends_with("`f` has no interface `middle`; allowed: left, right (or 0 to 1)")
    );
    for (wrong, meant) in [("letf", "left"), ("'f:right'", "right"), ("'f:rihgt'", "right")] {
        let told = fault(&format!("{{{wrong}: lan}}"));
        assert!(
            told.ends_with(&format!("allowed: left, right (or 0 to 1); did you mean `{meant}`?")),
            "{told}"
        );
    }
    assert!(fault("{left: nowhere}").contains("no port, switch, device or function is named `nowhere`"));
    assert!(fault("[lan]").contains("allowed: a map from interfaces"));
    assert!(fault("{left: 'f:left'}").contains("wired to itself"));
}
