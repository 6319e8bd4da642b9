//! Containers, programs and virtual machines that open devices.

use super::*;

/// A device over two ports, and functions.
fn file(device: &str, functions: &str) -> String {
    format!(
        "superfluid: 1
tenants: {{default: {{}}, red: {{}}, blue: {{}}}}
ports: {{lan: {{type: af_packet, interface: eth0}}, wan: {{type: af_packet, interface: eth1}}}}
groups: {{web: {{rules: [{{direction: in, from: {{group: web}}}}]}}}}
devices:
  d: {{over: [lan, wan], mode: bridge, {device}}}
functions:
{functions}"
    )
}

fn read(device: &str, functions: &str) -> Result<wiring::Wiring, String> {
    check("f.yaml", &file(device, functions), &shelf()).map(|it| it.wiring).map_err(|faults| lines(&faults))
}

/// A container of the tenant `red`.
fn container(interfaces: &str, attach: &str) -> String {
    format!(
        "  web: {{guest: container, tenant: red, image: ./a, memory: 16MiB, interfaces: {{in: {interfaces}}}, attach: \
         {{in: {attach}}}}}\n"
    )
}

#[test]
fn a_container_opens_a_device_as_what_it_is_itself() {
    let port = Endpoint::Port("web:in".to_owned());
    let wiring = read("tenant: red", &container("{addresses: [192.0.2.9/24]}", "d")).expect("it is good");
    let openers: Vec<String> = wiring.openers().map(|(end, opening)| format!("{end} {opening}")).collect();
    assert_eq!(openers, ["web:in d"]);
    let station = wiring.station_of(&port).expect("it has an address");
    assert!(station.answers_itself, "its kernel does");
    assert_eq!(station.settings.addresses[0].to_string(), "192.0.2.9/24");
    // What guards are told of it is what it has.
    let interface = &wiring.containers["web"].interfaces[0];
    assert_eq!(interface.mac, Some(station.settings.mac));

    // Its kernel has the routers of both.
    let attach = "{to: d, addresses: ['2001:db8::9/64'], gateways: ['fe80::1']}";
    let interface = "{addresses: [192.0.2.9/24], gateways: [192.0.2.1]}";
    let wiring = read("tenant: red", &container(interface, attach)).expect("it is good");
    let gateways: Vec<String> =
        wiring.containers["web"].interfaces[0].gateways.iter().map(ToString::to_string).collect();
    assert_eq!(gateways, ["192.0.2.1", "fe80::1"]);

    // The same by its wire, with an address that the interface does not have otherwise.
    let attach =
        "{to: 'd:lan', order: 3, addresses: [192.0.2.9/24, 192.0.2.10/24], mac: '02:00:00:00:00:09'}";
    let wiring = read("tenant: red", &container("{addresses: [192.0.2.9/24]}", attach)).expect("it is good");
    let interface = &wiring.containers["web"].interfaces[0];
    assert_eq!(interface.addresses, ["192.0.2.9/24", "192.0.2.10/24"]);
    assert_eq!(interface.mac, Some([2, 0, 0, 0, 0, 9]));
    let opened: Vec<_> = wiring.openers().map(|(_, opening)| (opening.to_string(), opening.order)).collect();
    assert_eq!(opened, [("d:lan".to_owned(), 3)]);

    // In a chain, and of what has no stack: the platform answers for that.
    let program = "  p: {guest: program, command: [/usr/bin/l2fwd], memory: 16MiB, interfaces: {a: {as: memif}, b: {as: \
                   library}}, attach: {a: {to: 'd:lan', addresses: [192.0.2.7/24]}, b: 'd:wan'}}\n";
    let wiring = read("open_to: [{tenant: default, function: p}]", program).expect("it is good");
    let at = |name: &str| Endpoint::Port(format!("p:{name}"));
    assert!(!wiring.station_of(&at("a")).expect("it has an address").answers_itself);
    assert!(wiring.station_of(&at("b")).is_none() && !wiring.answers_itself(&at("b")));

    // Of what is told of its device the same is said as of a function in the sandbox.
    let told =
        program.replace("b: 'd:wan'", "b: {to: 'd:wan', dhcp: true, mtu: 1400, gateways: [192.0.2.1]}");
    let wiring = read("open_to: [{tenant: default, function: p}]", &told).expect("it is good");
    let end = at("b");
    let station = wiring.station_of(&end).expect("it has some").settings;
    let gateway: std::net::IpAddr = "192.0.2.1".parse().expect("an address");
    assert_eq!((station.dhcp, station.mtu, &station.gateways[..]), (true, 1400, &[gateway][..]));
    let chain = file("share: single", &container("{}", "'d:lan'").replace(", tenant: red", ""))
        .replace("interfaces: {in: {}}", "interfaces: {in: {}, out: {as: tap}}")
        + "chains: {c: [web, 'd:wan']}\n";
    let Configuration { wiring, .. } = good(&chain);
    assert_eq!(wiring.openers().count(), 2);

    // A virtual machine has the address that it gives itself, and QEMU's for Ethernet.
    let machine = "  m: {guest: vm, kernel: /k, memory: 512MiB, interfaces: {in: {}}, attach: {in: {to: d, addresses: \
                   [192.0.2.8/24]}}}\n";
    let wiring = read("share: single", machine).expect("it is good");
    let end = Endpoint::Port("m:in".to_owned());
    let station = wiring.station_of(&end).expect("it has an address");
    assert!(station.answers_itself);
    let mac = schema::Value::Mac(station.settings.mac).to_string();
    let command = wiring.containers["m"].command.join(" ");
    assert!(command.contains(&format!("mac={mac}")), "{mac}: {command}");
}

#[test]
fn a_container_is_guarded_by_its_own_addresses() {
    let device = "tenant: red, addresses: [192.0.2.1/24], share: duplicate, groups: [web], zone: 7";
    let of = container("{addresses: [192.0.2.9/24]}", "d")
        + "  f: {image: forwarder, tenant: red, attach: {left: d}}\n";
    let wiring = read(device, &of).expect("it is good");
    let guards: Vec<&str> = wiring
        .instances
        .keys()
        .map(String::as_str)
        .filter(|name| wiring::guarded_by(name).is_some())
        .collect();
    let guard = guards.iter().find(|name| name.contains("web:in")).expect("it has a guard");
    let config = &wiring.instances[*guard].config;
    let addresses = config.get("addresses").expect("addresses").to_string();
    assert!(addresses.contains("192.0.2.9/24") && !addresses.contains("192.0.2.1/24"), "{addresses}");
    let mac = wiring.containers["web"].interfaces[0].mac.expect("it is given one");
    assert_eq!(config.get("mac").and_then(schema::Value::as_mac), Some(mac));
    assert_eq!(wiring.instances[*guard].payer(), "red");
    // It counts as a member.
    let rules = config.get("administrator").expect("rules").to_string();
    assert!(rules.contains("192.0.2.9/32") && rules.contains("192.0.2.1/32"), "{rules}");
    let end = Endpoint::Port("web:in".to_owned());
    assert_eq!(wiring.peer(&end), Some(&Endpoint::Interface((*guard).to_owned(), wiring::INSIDE)));
    assert!(wiring.validate().is_ok());

    // The device's addresses are answered for by the platform: they are nothing that it could send from.
    let told = read(device, &container("{}", "d")).expect_err("it has none");
    let wanted = "devices.d.groups: `web:in` opens the device and has no addresses, which are what may be sent from; \
                  allowed: with `addresses` of the interface";
    assert!(told.contains(wanted), "{told}");
}

#[test]
fn every_fault_of_a_container_at_a_device_has_its_place() {
    let with = |interfaces, attach| container(interfaces, attach);
    let two = |second: &str| {
        with("{addresses: [192.0.2.9/24]}", "d")
            + &format!("  f: {{image: forwarder, tenant: red, attach: {{left: {{to: d, {second}}}}}}}\n")
    };
    for (device, functions, wanted) in [
        (
            "tenant: blue",
            with("{}", "d"),
            "functions.web: `web:in` opens the device `d`, which is not open to it; allowed: functions of the device's tenant",
        ),
        (
            "tenant: blue, open_to: [{tenant: red, function: other}]",
            with("{}", "d"),
            "`web:in` opens the device `d`, which is not open to it",
        ),
        (
            "tenant: red",
            with("{}", "d").replace("in: {}", "in: {}, out: {}").replace("{in: d}", "{in: d, out: d}"),
            "`web:in` and `web:out` get the same packets of the device `d`",
        ),
        (
            "tenant: red",
            with("{}", "d") + "  f: {image: forwarder, tenant: red, attach: {left: d}}\n",
            "is a second opener of the device `d`, beside",
        ),
        (
            "tenant: red, share: duplicate",
            two("addresses: [192.0.2.9/24]"),
            "has 192.0.2.9 at the device `d`, and so has",
        ),
        (
            "tenant: red, addresses: [192.0.2.9/24]",
            with("{addresses: [192.0.2.9/24]}", "d"),
            "`web:in` has 192.0.2.9 at the device `d`, and so has the device `d` in line 6; allowed: each address once",
        ),
        (
            "tenant: red",
            with("{}", "{to: d, addresses: [192.0.2.9/24], dhcp: true}"),
            "functions.web.attach.in.dhcp: `dhcp` says nothing of the interface of a container; allowed: `addresses`, `gateways` and `mac`",
        ),
        (
            "tenant: red",
            with("{as: memif}", "{to: d, addresses: [192.0.2.9/24], gateways: [192.0.2.1]}"),
            "attach.in.gateways: `gateways` says nothing of the interface of a container; allowed: `addresses` and `mac`",
        ),
        (
            "tenant: red",
            with("{}", "{to: d, addresses: [192.0.2.9/24], gateways: [198.51.100.1]}"),
            "functions.web.attach.in.gateways: found 198.51.100.1, which is in no network of the interface's `addresses`",
        ),
        (
            "tenant: red",
            with("{}", "{to: d, addresses: [192.0.2.9]}"),
            "attach.in.addresses[0]: found `192.0.2.9`; allowed: an address with",
        ),
        (
            "tenant: red",
            with("{as: tap, mac: '02:00:00:00:00:08'}", "{to: d, addresses: [192.0.2.9/24], mac: '02:00:00:00:00:09'}"),
            "attach.in.mac: found another `mac` than under `interfaces` of `web`; allowed: one of both",
        ),
        (
            "tenant: red",
            "  m: {guest: vm, tenant: red, kernel: /k, memory: 512MiB, interfaces: {in: {}}, attach: {in: {to: d, addresses: \
             [192.0.2.8/24], mac: '02:00:00:00:00:09'}}}\n"
                .to_owned(),
            "attach.in.mac: `mac` says nothing of the interface of a vm; allowed: `addresses`",
        ),
        (
            "tenant: red",
            with("{addresses: [192.0.2.255/24]}", "d"),
            "functions.web: `web:in`: ",
        ),
        (
            "mode: rootless",
            with("{as: memif}", "{to: d, addresses: [192.0.2.9/24]}"),
            "the device `d` is over no port",
        ),
    ] {
        let text = file(device, &functions);
        let text = match device.strip_prefix("mode: ") {
            Some(_) => text.replace("over: [lan, wan], mode: bridge, mode: rootless", "tenant: red, mode: rootless"),
            None => text,
        };
        let told = lines(&check("f.yaml", &text, &shelf()).expect_err(wanted));
        assert!(told.contains(wanted), "{wanted}\n{told}");
    }
    // A port that is no function's still opens none.
    let plain = file("tenant: red", &with("{}", "d")) + "wires: [[other, d]]\n";
    let plain = plain.replace("wan: {type", "other: {type: 'null'}, wan: {type");
    let told = lines(&check("f.yaml", &plain, &shelf()).expect_err("it opens none"));
    assert!(told.contains("allowed: from a device to an interface of a function"), "{told}");
    // Nor does what observes get packets of one by a wire.
    let both = file("tenant: red", &with("{}", "d")) + "observers: {web: {at: [lan]}}\n";
    assert!(check("f.yaml", &both, &shelf()).is_err());
}
