//! Security groups, and the functions that they become.

use super::*;
use schema::Value;

fn faults(text: &str) -> String {
    lines(&check("f.yaml", text, &shelf()).expect_err("a fault"))
}

/// Two tenants with a device each, of one address, and a third device; `groups` in line 4 and below.
fn net(groups: &str, red: &str, blue: &str) -> String {
    format!(
        "superfluid: 1
tenants: {{default: {{}}, red: {{}}, blue: {{}}}}
ports: {{a: {{type: af_packet, interface: a}}, b: {{type: af_packet, interface: b}}, c: {{type: af_packet, interface: c}}}}
{groups}
devices:
  red: {{mode: direct, over: [a], tenant: red, addresses: [192.0.2.9/24], mac: '02:00:00:00:00:09'{red}}}
  blue: {{mode: direct, over: [b], tenant: blue, addresses: [192.0.2.9/24, '2001:db8::9/64']{blue}}}
  other: {{mode: direct, over: [c], tenant: red, addresses: [192.0.2.8/24], groups: [proxies], zone: 7}}
functions:
  f: {{image: forwarder, tenant: red, attach: {{left: red}}}}
  g: {{image: forwarder, tenant: blue, attach: {{left: blue}}}}
  h: {{image: forwarder, tenant: red, attach: {{left: other}}}}
"
    )
}

const GROUPS: &str = "groups:
  base: {rules: [{direction: in, from: 198.51.100.0/24}, {direction: out}]}
  web: {tenant: red, rules: [{direction: in, protocol: tcp, ports: '443', from: 0.0.0.0/0}, {direction: in, from: {group: proxies}}]}
  mine: {tenant: blue, rules: [{direction: in, from: {group: mine}}, {direction: in, from: {group: friends}}]}
  friends: {tenant: blue}
  proxies: {tenant: red}";

/// What a function is configured with: the rules of a list, each its name and the other end.
fn rules(wiring: &wiring::Wiring, function: &str, list: &str) -> Option<Vec<String>> {
    let rules = wiring.instances[function].config.get(list)?.as_list()?;
    let text = |rule: &Value, key| match rule.get(key) {
        Some(Value::Text(text)) => text.clone(),
        value => value.map(ToString::to_string).unwrap_or_default(),
    };
    Some(rules.iter().map(|rule| format!("{} {}", text(rule, "name"), text(rule, "remote"))).collect())
}

#[test]
fn a_function_stands_around_the_opener_of_a_device_with_groups() {
    let text = net(GROUPS, ", groups: [base, web], zone: 7", ", groups: [mine], zone: 8");
    let Configuration { wiring, .. } = good(&text);
    let edges: Vec<String> = wiring.edges.iter().map(ToString::to_string).collect();
    assert_eq!(
        edges,
        [
            "blue - groups@blue~g:0:1",
            "other - groups@other~h:0:1",
            "red - groups@red~f:0:1",
            "f:0 - groups@red~f:0:0",
            "g:0 - groups@blue~g:0:0",
            "groups@other~h:0:0 - h:0",
        ]
    );
    let guard = &wiring.instances["groups@red~f:0"];
    assert_eq!((guard.tenant.as_str(), guard.fail), ("default", FailMode::Closed));
    assert_eq!(guard.pool, InstancePool::Tenant, "the platform's");
    let guards = ["groups@red~f:0", "groups@blue~g:0", "groups@other~h:0"];
    let payers = guards.map(|guard| wiring.instances[guard].payer());
    assert_eq!(payers, ["red", "blue", "red"], "it works for what opens its device");
    assert_eq!(guard.config.get("mac").map(ToString::to_string).as_deref(), Some("02:00:00:00:00:09"));
    let own =
        |function: &str| wiring.instances[function].config.get("addresses").unwrap().as_list().unwrap().len();
    assert_eq!((own("groups@red~f:0"), own("groups@blue~g:0")), (1, 2));
    let list = |function, list| rules(&wiring, function, list);
    let owned = |items: &[&str]| Some(items.iter().map(|&item| item.to_owned()).collect::<Vec<_>>());
    assert_eq!(list("groups@red~f:0", "administrator"), owned(&["base[0] 198.51.100.0/24", "base[1] "]));
    // The proxies of its zone, of which there is one.
    assert_eq!(list("groups@red~f:0", "tenant"), owned(&["web[0] 0.0.0.0/0", "web[1] 192.0.2.8/32"]));
    // Its own group, and none of a group that has no devices; the administrator says nothing there.
    assert_eq!(
        list("groups@blue~g:0", "tenant"),
        owned(&["mine[0] 192.0.2.9/32", "mine[0] 2001:db8::9/128"])
    );
    assert_eq!(list("groups@blue~g:0", "administrator"), None);
    assert_eq!(
        (list("groups@other~h:0", "administrator"), list("groups@other~h:0", "tenant")),
        (None, owned(&[]))
    );
}

#[test]
fn members_are_those_of_the_zone() {
    let groups = "groups: {web: {rules: [{direction: in, from: {group: proxies}}]}, proxies: {}}";
    for (zone, wanted) in [(7, vec!["web[0] 192.0.2.8/32".to_owned()]), (8, vec![])] {
        let Configuration { wiring, .. } = good(&net(groups, &format!(", groups: [web], zone: {zone}"), ""));
        assert_eq!(rules(&wiring, "groups@red~f:0", "administrator"), Some(wanted), "{zone}");
    }
}

#[test]
fn nothing_tells_a_tenant_of_anothers_groups() {
    let named = |group: &str| {
        let groups = format!(
            "groups: {{web: {{tenant: red, rules: [{{direction: in, from: {{group: {group}}}}}]}}, mine: {{tenant: blue}}, base: {{}}, proxies: {{}}}}"
        );
        faults(&net(&groups, ", groups: [web], zone: 7", ""))
    };
    for group in ["mine", "base", "none"] {
        let told = format!("groups.web.rules[0]: no group is named `{group}`; allowed: web");
        assert!(named(group).contains(&told), "{}", named(group));
    }
}

#[test]
fn packets_stay_out_of_a_tenants_memory_once_they_are_checked() {
    let text =
        net(GROUPS, ", groups: [web], zone: 7", "").replace("interface: a}", "interface: a, tenant: red}");
    let told = "devices.red.groups: its port `a` is the tenant `red`'s, whose functions could write to packets there";
    assert!(faults(&text).contains(told), "{}", faults(&text));
}

/// What is on the lists of a guard, by the numbers that its rules of the tenant name.
fn learning(wiring: &wiring::Wiring, guard: &str, list: &str) -> Vec<Vec<String>> {
    let instance = &wiring.instances[guard];
    let rules = instance.config.get(list).and_then(Value::as_list).unwrap_or_default();
    let numbers = rules.iter().filter_map(|rule| rule.get("members")?.as_integer());
    let learner = |it: &wiring::Learner| match &it.interface {
        None => it.device.clone(),
        Some((function, number)) => format!("{}/{function}:{number}", it.device),
    };
    let on =
        numbers.map(|number| instance.members[&u32::try_from(number).unwrap()].iter().map(learner).collect());
    on.collect()
}

#[test]
fn addresses_that_are_learned_are_told_while_a_guard_runs() {
    let groups = "groups: {web: {rules: [{direction: in, from: {group: proxies}}, {direction: out, to: {group: web}}]}, proxies: {}}";
    let text = |zone: u16| {
        net(groups, &format!(", groups: [web], zone: {zone}"), "")
            .replace("addresses: [192.0.2.8/24]", "dhcp: true, addresses: ['2001:db8::8/64']")
    };
    let Configuration { wiring, .. } = good(&text(7));
    let list = |guard| rules(&wiring, guard, "administrator").unwrap();
    assert_eq!(list("groups@red~f:0"), ["web[0] 2001:db8::8/128", "web[0] ", "web[1] 192.0.2.9/32"]);
    assert_eq!(learning(&wiring, "groups@red~f:0", "administrator"), [["other"]]);
    assert!(wiring.instances["groups@other~h:0"].members.is_empty(), "its rules name no group");
    // Nothing of another zone.
    let Configuration { wiring, .. } = good(&text(8));
    assert!(wiring.instances["groups@red~f:0"].members.is_empty());
    // The number of a list is that of its group and zone, whatever else there is.
    let number = |text: &str| {
        good(text).wiring.instances["groups@red~f:0"].members.keys().copied().collect::<Vec<_>>()
    };
    let more = text(7).replace("to: {group: web}", "to: {group: proxies}");
    assert_eq!(number(&text(7)), number(&more));
    let other_zone = text(8).replace("groups: [proxies], zone: 7", "groups: [proxies], zone: 8");
    assert_ne!(number(&text(7)), number(&other_zone));
}

#[test]
fn an_interface_that_learns_its_address_is_a_member() {
    let groups = "groups: {web: {rules: [{direction: in, from: {group: proxies}}]}, proxies: {}}";
    let text = net(groups, ", groups: [web], zone: 7", "")
        .replace("attach: {left: other}", "attach: {left: {to: other, dhcp: true}}");
    let Configuration { wiring, .. } = good(&text);
    assert_eq!(learning(&wiring, "groups@red~f:0", "administrator"), [["other/h:0"]]);
    assert!(wiring.instances["h"].stations[&0].dhcp);
    assert_eq!(
        rules(&wiring, "groups@red~f:0", "administrator").unwrap(),
        ["web[0] 192.0.2.8/32", "web[0] "]
    );
}

#[test]
fn a_device_whose_opener_may_form_addresses_is_a_member() {
    let groups = "groups: {web: {rules: [{direction: in, from: {group: proxies}}]}, proxies: {}}";
    let text =
        |other: &str| net(groups, ", groups: [web], zone: 7", "").replace("addresses: [192.0.2.8/24]", other);
    let Configuration { wiring, .. } = good(&text("slaac: ['2001:db8:7::/64']"));
    assert_eq!(learning(&wiring, "groups@red~f:0", "administrator"), [["other"]]);
    let list = wiring.instances["groups@other~h:0"].config.get("slaac").and_then(Value::as_list);
    let prefix = list.and_then(|list| list[0].as_prefix());
    assert_eq!(prefix, Some(("2001:db8:7::".parse().unwrap(), 64)));
    let station = wiring.devices["other"].station.as_ref().unwrap();
    assert!(station.ipv6 && station.router_advertisements && station.slaac.len() == 1);
    assert_eq!(wiring.devices["other"].zone, Some(7));
    assert_eq!(wiring.devices["blue"].zone, None);
    // One interface may.
    let interface = text("addresses: [192.0.2.8/24]")
        .replace("attach: {left: other}", "attach: {left: {to: other, slaac: ['2001:db8:7::/64']}}");
    let Configuration { wiring, .. } = good(&interface);
    assert_eq!(learning(&wiring, "groups@red~f:0", "administrator"), [["other/h:0"]]);
    for (wrong, told) in [
        ("slaac: ['2001:db8:7::/63']", "2001:db8:7::/63; allowed: networks of IPv6 with prefixes of 64 bits"),
        ("slaac: ['fe80::/64']", "`slaac` fe80::/64; allowed"),
        ("slaac: [192.0.2.0/24]", "devices.other.slaac[0]: "),
        ("slaac: ['2001:db8:7::/64', '2001:db8:7::/64']", "2001:db8:7:: is there twice"),
    ] {
        assert!(faults(&text(wrong)).contains(told), "{}", faults(&text(wrong)));
    }
    let alone = text("slaac: ['2001:db8:7::/64']").replace(", groups: [proxies], zone: 7", "");
    let told = "devices.other: `slaac` says nothing here; allowed: with `groups` and `zone` of the device";
    assert!(faults(&alone).contains(told), "{}", faults(&alone));
    let alone = interface.replace(", groups: [proxies], zone: 7", "");
    assert!(faults(&alone).contains("`h:0`: `slaac` says nothing here"), "{}", faults(&alone));
}

#[test]
fn rules_are_bounded_before_they_fill_memory() {
    let rules = vec!["{direction: in, from: {group: web}}"; 4096].join(", ");
    let groups = format!("groups: {{web: {{rules: [{rules}]}}, proxies: {{}}}}");
    let of = ", groups: [web], zone: 7";
    let told = "devices.red.groups: the administrator's groups come to more than 4096 rules";
    assert!(faults(&net(&groups, of, of)).contains(told));
    assert!(good(&net(&groups, of, "")).wiring.instances.contains_key("groups@red~f:0"));
    let groups = groups.replace("rules: [", "rules: [{direction: out}, ");
    let told = "groups.web.rules: found 4097 rules; allowed: a list of at most 4096 rules";
    assert!(faults(&net(&groups, of, "")).contains(told));
}

#[test]
fn what_may_not_open_a_device_may_not_through_its_guard() {
    let text = net(GROUPS, ", groups: [web], zone: 7", "")
        .replace("f: {image: forwarder, tenant: red", "f: {image: forwarder, tenant: blue");
    let told = "functions.f: `f:0` opens the device `red`, which is not open to it";
    assert!(faults(&text).contains(told), "{}", faults(&text));
    // A wiring that did not come from here is held to it as well.
    let mut wiring = good(&net(GROUPS, ", groups: [web], zone: 7", "")).wiring;
    wiring.instances.get_mut("f").expect("is there").tenant = "blue".to_owned();
    let told =
        wiring.validate().expect_err("it is not open").iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        told.contains(&"`f:0` is the tenant `blue`'s, which the device `red` is not open to".to_owned()),
        "{told:?}"
    );
}

#[test]
fn no_group_at_all_allows_nothing() {
    let Configuration { wiring, .. } = good(&net(GROUPS, ", groups: [], zone: 1", ""));
    assert_eq!(rules(&wiring, "groups@red~f:0", "administrator"), Some(vec![]));
    assert_eq!(rules(&wiring, "groups@red~f:0", "tenant"), None);
    assert!(!wiring.instances.contains_key("groups@blue~g:0"));
}

#[test]
fn a_group_is_its_devices_whose_groups_name_it_and_may_name_itself() {
    let groups = "groups: {web: {rules: [{direction: in, from: {group: web}}]}, proxies: {}}";
    let of = ", groups: [web], zone: 7";
    let Configuration { wiring, .. } = good(&net(groups, of, of));
    let all = ["web[0] 192.0.2.9/32", "web[0] 2001:db8::9/128"].map(str::to_owned);
    assert_eq!(rules(&wiring, "groups@red~f:0", "administrator"), Some(all.to_vec()));
}

#[test]
fn what_is_wrong_with_groups_is_told() {
    let of = ", groups: [web], zone: 7";
    let one = |rule: &str| format!("groups: {{web: {{rules: [{rule}]}}, proxies: {{}}}}");
    for (groups, red, blue, told) in [
        (
            GROUPS,
            ", groups: [web]",
            "",
            "devices.red.groups: `groups` without `zone`; allowed: both, such as `groups: [web], zone: 7`",
        ),
        (
            GROUPS,
            ", zone: 7",
            "",
            "devices.red.zone: `zone` without `groups`; allowed: both, such as `groups: [web], zone: 7`",
        ),
        (
            GROUPS,
            ", groups: [mine], zone: 7",
            "",
            "devices.red.groups[0]: no group of `red` or `default` is named `mine`; allowed: base, proxies, web",
        ),
        (
            GROUPS,
            ", groups: [web, base, web], zone: 7",
            "",
            "devices.red.groups[2]: `web` is named twice; allowed: once",
        ),
        (
            GROUPS,
            ", groups: [wep], zone: 7",
            "",
            "is named `wep`; allowed: base, proxies, web; did you mean `web`?",
        ),
        (
            &one("{direction: in, from: {group: none}}"),
            of,
            "",
            "groups.web.rules[0]: no group is named `none`; allowed: proxies, web",
        ),
        (
            &one("{direction: in, protocol: icmp, from: \"fe80::/64\"}"),
            of,
            "",
            "rules[0].from: found `fe80::/64`; allowed with `protocol: icmp`: a prefix of IPv4, which it is of",
        ),
        (
            &one("{direction: out, protocol: icmpv6, to: 10.0.0.0/8}"),
            of,
            "",
            "rules[0].to: found `10.0.0.0/8`; allowed with `protocol: icmpv6`: a prefix of IPv6, which it is of",
        ),
        (
            &one("{direction: in, to: 0.0.0.0/0}"),
            of,
            "",
            "groups.web.rules[0].to: `to` is the device itself; allowed: `from`, which is the other end",
        ),
        (
            &one("{direction: in, ports: '443'}"),
            of,
            "",
            "groups.web.rules[0].ports: `ports` says nothing here; allowed: with `protocol: tcp` or `udp`",
        ),
        (
            &one("{direction: in, icmp_type: 8, protocol: tcp}"),
            of,
            "",
            "`icmp_type` says nothing here; allowed: with `protocol: icmp` or `icmpv6`",
        ),
        (
            &one("{direction: in, protocol: tcpp}"),
            of,
            "",
            "groups.web.rules[0].protocol: found `tcpp`; allowed: tcp, udp, icmp, icmpv6, any, 0 to 255",
        ),
        (
            &one("{direction: in, from: 192.0.2.1/24}"),
            of,
            "",
            "allowed: a prefix such as `192.0.2.0/24`, or a group, `{group: NAME}`",
        ),
        (
            GROUPS,
            "",
            ", groups: [mine], zone: 8}\n  d: {mode: rootless, tenant: red, groups: [base], zone: 9",
            "devices.d.groups: the device is over no port, and its openers have no addresses",
        ),
    ] {
        let faults = faults(&net(groups, red, blue));
        assert!(faults.contains(told), "{told}\n{faults}");
    }
}

#[test]
fn each_opener_is_guarded_by_itself_and_with_its_own_addresses() {
    let of = ", groups: [web, base], zone: 7, share: duplicate";
    let two = net(GROUPS, of, "").replace("g: {image", "i: {image: forwarder, tenant: red, attach: {left: {to: red, order: 2, addresses: [198.51.100.77/24]}}}\n  g: {image");
    let Configuration { wiring, .. } = good(&two);
    let edges: Vec<String> = wiring.edges.iter().map(ToString::to_string).collect();
    for wanted in [
        "red - groups@red~f:0:1",
        "red - groups@red~i:0:1",
        "f:0 - groups@red~f:0:0",
        "groups@red~i:0:0 - i:0",
    ] {
        assert!(edges.contains(&wanted.to_owned()), "{wanted}: {edges:?}");
    }
    let own = |guard: &str| wiring.instances[guard].config.get("addresses").unwrap().to_string();
    assert!(
        own("groups@red~f:0").contains("192.0.2.9/24") && own("groups@red~i:0").contains("198.51.100.77/24")
    );
    // What opens the device beside it is nothing to its name, or to what it is, but for its groups' members.
    let alone = good(&net(GROUPS, of, "")).wiring;
    let plan = wiring::Plan::between(&alone, &wiring);
    assert_eq!(plan.add_instances.keys().collect::<Vec<_>>(), ["i", "groups@red~i:0"]);
    assert!(plan.remove_instances.is_empty() && plan.unwire.is_empty(), "{plan:?}");
    // It opens the device as what is behind it did.
    let openers: Vec<_> = wiring.openers().filter(|(_, opening)| opening.device == "red").collect();
    let orders: Vec<_> = openers.iter().map(|(end, opening)| (end.to_string(), opening.order)).collect();
    assert_eq!(orders, [("f:0".to_owned(), 0), ("i:0".to_owned(), 2)]);
    assert_eq!(wiring::guarded_by("groups@red~i:0"), Some("red"));
    // The addresses of all of them are those of its groups.
    let groups = "groups: {web: {rules: [{direction: in, from: {group: web}}]}, proxies: {}}";
    let one = net(groups, ", groups: [web], zone: 7", "")
        .replace("{left: red}", "{left: {to: red, addresses: [198.51.100.77/24]}}");
    let Configuration { wiring, .. } = good(&one);
    let all = ["web[0] 192.0.2.9/32", "web[0] 198.51.100.77/32"].map(str::to_owned);
    assert_eq!(rules(&wiring, "groups@red~f:0", "administrator"), Some(all.to_vec()));
    // One side.
    let side = net(GROUPS, of, "").replace("{left: red}", "{left: 'red:a'}");
    let openers: Vec<_> =
        good(&side).wiring.openers().map(|(end, opening)| format!("{end} {opening}")).collect();
    assert!(openers.contains(&"f:0 red:a".to_owned()), "{openers:?}");
}

#[test]
fn openers_that_cannot_be_guarded_are_told() {
    let of = ", groups: [web], zone: 7, share: duplicate";
    let served = net(GROUPS, of, "") + "services: {7: red}\n";
    assert!(faults(&served).contains("the service 7 leads to the device"), "{}", faults(&served));
    let bare = net(GROUPS, of, "")
        .replace("addresses: [192.0.2.9/24], mac: '02:00:00:00:00:09'", "multicast: [239.1.1.1]");
    let told =
        "devices.red.groups: `f:0` opens the device and has no addresses, which are what may be sent from";
    assert!(faults(&bare).contains(told), "{}", faults(&bare));
    // With addresses of its own it has some.
    let own = bare.replace("{left: red}", "{left: {to: red, addresses: [198.51.100.77/24]}}");
    assert!(good(&own).wiring.instances.contains_key("groups@red~f:0"));
}
