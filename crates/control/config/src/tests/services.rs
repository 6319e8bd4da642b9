//! Which function reaches what by which service ID.

use super::*;

fn two(services: &str) -> String {
    format!(
        "superfluid: 1\ntenants: {{red: , blue: , green: }}\nports:\n  a: {{type: 'null', tenant: red}}\n  b: {{type: 'null', tenant: blue}}\n  \
         c: {{type: 'null', tenant: green}}\nswitches: {{hall: }}\nfunctions:\n  gate: {{image: forwarder, tenant: blue}}\nwires: [[a, b], [c, hall]]\n\
         services:\n{services}"
    )
}

/// `red:7 a` for each that functions can reach.
fn reached(text: &str) -> Vec<String> {
    good(text).wiring.services.iter().map(|(service, end)| format!("{service} {end}")).collect()
}

#[test]
fn a_service_is_its_ends_tenants() {
    assert_eq!(reached(&two("  7: gate:0\n  8: a\n")), ["blue:7 gate:0", "red:8 a"]);
    // Two tenants use one number.
    assert_eq!(reached(&two("  red:7: a\n  blue:7: gate:1\n")), ["blue:7 gate:1", "red:7 a"]);
    // A switch has no tenant: one is named, or it is the default tenant's.
    assert_eq!(reached(&two("  red:7: hall\n  7: hall\n")), ["default:7 hall", "red:7 hall"]);
}

#[test]
fn another_tenant_reaches_a_service_where_its_entry_says_so() {
    let granted = two("  7: {to: 'gate:0', for: [red, blue]}\n  8: {to: b}\n");
    assert_eq!(reached(&granted), ["blue:7 gate:0", "blue:8 b", "red:7 gate:0"]);
    assert_eq!(
        reached(&two("  7: {to: hall, for: [red, green]}\n")),
        ["default:7 hall", "green:7 hall", "red:7 hall"]
    );
}

#[test]
fn a_tenants_own_service_comes_before_one_that_it_is_granted() {
    for text in [
        "  red:7: a\n  blue:7: {to: 'gate:0', for: [red]}\n",
        "  blue:7: {to: 'gate:0', for: [red]}\n  red:7: a\n",
    ] {
        let text = two(text);
        assert_eq!(reached(&text), ["blue:7 gate:0", "red:7 a"]);
        let told = lines(&good(&text).warnings);
        let own = "services.blue:7.for[0]: the tenant `red` has a service 7 of its own, which is the one that its functions reach\n";
        assert!(told.contains(own), "{told}");
    }
}

#[test]
fn bad_services_of_tenants() {
    bad(
        &two(
            "  red:7: gate:0\n  7: gate:0\n  blue:7: b\n  rde:8: a\n  red:0: a\n  9: {to: b, for: [green]}\n  \
             red:9: {to: a, for: [green, purple]}\n  10: {for: [red]}\n  11: {to: b, from: [red]}\n  12: {to: b, for: red}\n",
        ),
        "\
f.yaml:12:3: services.red:7: `gate:0` is the tenant `blue`'s; allowed: a service of `blue`, with `for: [red]` if functions of `red` may send there
f.yaml:14:3: services.blue:7: the tenant `blue` has a service 7 already in line 13
f.yaml:15:3: services.rde:8: found `rde`; allowed: red, blue, green, default; did you mean `red`?
f.yaml:16:3: services.red:0: found the service ID `red:0`; allowed: an integer from 1 to 65535, or one behind its tenant's name, such as `red:10`
f.yaml:18:24: services.red:9.for[0]: the tenant `green` is granted two services 9: of `blue` and of `red`; allowed: one
f.yaml:18:31: services.red:9.for[1]: found `purple`; allowed: red, blue, green, default
f.yaml:19:7: services.10.to: the required key `to` is missing; allowed: text of 1 to 200 characters
f.yaml:20:15: services.11.from: unknown key `from`; allowed: to, for
f.yaml:21:20: services.12.for: found `red`; allowed: a list of 1 to 4096 items
",
    );
    bad(
        &two("  9: {to: b, for: [green]}\n  red:9: {to: a, for: [blue, green]}\n"),
        "f.yaml:13:30: services.red:9.for[1]: the tenant `green` is granted two services 9: of `blue` and of `red`; allowed: one\n",
    );
}
