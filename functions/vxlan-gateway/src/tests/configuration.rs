//! What a configuration may say, and what is told about one that is wrong.

use super::*;

/// Why there is no such gateway.
fn refusal(text: &str) -> String {
    let config = configure(text).unwrap_or_else(|error| panic!("{error}"));
    match Runner::<Gateway>::new(&config) {
        Ok(_) => String::from("nothing is wrong"),
        Err(error) => format!("{error}"),
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_what_is_allowed() {
    let with = |networks: &str| format!("{{local: 192.0.2.1, networks: [{networks}]}}");
    let fine = "{vni: 7, remotes: [192.0.2.2]}";
    for (text, expected) in [
        (with(fine), "nothing is wrong"),
        (
            format!("{{local: 224.0.0.1, networks: [{fine}]}}"),
            "local: 224.0.0.1; allowed is the address of a host",
        ),
        (with("{vni: 7}"), "networks: vni 7: remotes is empty; allowed are addresses there, or a `group`"),
        (
            with("{vni: 7, remotes: [192.0.2.1]}"),
            "networks: vni 7: remotes: 192.0.2.1; allowed is the address of another host",
        ),
        (
            with("{vni: 7, remotes: ['2001:db8::1']}"),
            "networks: vni 7: remotes: 2001:db8::1; allowed is IPv4 as `local` has",
        ),
        (
            with("{vni: 7, remotes: [192.0.2.2, 192.0.2.2]}"),
            "networks: vni 7: remotes: 192.0.2.2 is there twice",
        ),
        (with("{vni: 7, group: 192.0.2.2}"), "networks: vni 7: group: 192.0.2.2; allowed is a group of IPv4"),
        (
            with(&format!("{fine}, {{vni: 7, vlan: 3, remotes: [192.0.2.2]}}")),
            "networks: vni 7 is there twice",
        ),
        (
            with(&format!("{fine}, {{vni: 8, remotes: [192.0.2.2]}}")),
            "networks: frames without a tag are joined twice",
        ),
        (
            with("{vni: 7, vlan: 3, group: 239.1.1.1}, {vni: 8, vlan: 3, group: 239.1.1.1}"),
            "networks: vlan 3 is there twice",
        ),
        (
            format!("{{local: 192.0.2.1, networks: [{fine}], mac: '01:00:00:00:00:00'}}"),
            "mac: 01:00:00:00:00:00; allowed is the address of one host",
        ),
        (
            format!("{{local: 192.0.2.1, networks: [{fine}], gateway: '2001:db8::9'}}"),
            "gateway: 2001:db8::9; allowed is IPv4 as `local` has",
        ),
    ] {
        let told = refusal(&text);
        assert!(told.contains(expected), "{text}\n{told}");
    }
}

#[test]
fn all_tables_together_are_bounded() {
    let networks: Vec<String> =
        (1..=100).map(|n| format!("{{vni: {n}, vlan: {n}, group: 239.1.1.1}}")).collect();
    let text = |most| format!("{{local: 192.0.2.1, endpoints: {most}, networks: [{}]}}", networks.join(", "));
    assert_eq!(refusal(&text(10_000)), "nothing is wrong");
    let told = refusal(&text(20_000));
    assert!(
        told.contains("20000 for each of 100 networks are 2000000; allowed are 10485, together 1048576"),
        "{told}"
    );
    assert!(configure("{local: 192.0.2.1, networks: []}").is_err());
    assert!(configure("{local: 192.0.2.1, networks: [{vni: 16777216, group: 239.1.1.1}]}").is_err());
}
