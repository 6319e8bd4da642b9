//! `superfluid account`: what became of every packet, and first of all what was lost, where and why.

use super::columns::cell;
use super::failure::{Done, print};
use super::options::ShowOptions;
use super::tree::tree;
use crate::output::{Format, Listing, one};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// Most lines about losses that are not wide; those with the most packets.
const LOSSES: usize = 20;

/// What is told above the losses; all else is below them.
const ABOVE: [&str; 4] = ["time", "packets", "in_flight", "balanced"];

pub(crate) fn account(options: &ShowOptions) -> Done {
    let account = options.connection.client()?.account()?;
    print(&match options.shown.output {
        Format::Table => told(&account, false),
        Format::Wide => told(&account, true),
        format => one(&account, format),
    })
}

fn told(account: &Value, wide: bool) -> String {
    let (mut above, mut below) = (Map::new(), Map::new());
    for (key, value) in account.as_object().into_iter().flatten() {
        match key.as_str() {
            // There is but one kind.
            "event" => {}
            "time" => drop(above.insert(key.clone(), json!(moment(value)))),
            key if ABOVE.contains(&key) => drop(above.insert(key.to_owned(), value.clone())),
            key => drop(below.insert(key.to_owned(), value.clone())),
        }
    }
    let parts = [tree(&above.into(), wide), lost(account, wide), tree(&below.into(), wide)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A moment in nanoseconds since 1970.
fn moment(value: &Value) -> String {
    let nanos = value.as_u64().unwrap_or_default();
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos)).to_string()
}

/// A table of what was lost, a line for each place and reason.
fn lost(account: &Value, wide: bool) -> String {
    let mut losses = losses(account);
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.packets));
    if losses.is_empty() {
        return String::new();
    }
    let mut listing = Listing::new(&["LOST AT", "REASON", "PACKETS"], &[]);
    for Loss { place, reason, packets } in losses.iter().take(if wide { usize::MAX } else { LOSSES }) {
        listing.add(vec![cell(place), cell(reason), packets.to_string()], Value::Null);
    }
    let mut text = listing.shown(Format::Table);
    if let more @ 1.. = losses.len().saturating_sub(LOSSES)
        && !wide
    {
        text.push_str(&format!("... {more} more; -o wide shows all\n"));
    }
    text
}

/// Packets that were lost at one place for one reason.
#[derive(Debug, PartialEq, Eq)]
struct Loss {
    place: String,
    reason: String,
    packets: u64,
}

/// What was lost at no port and no function that there is: between two of them, by a worker, or at one that
/// is no more.
const OTHERS: &str = "(others)";

/// Every packet that was lost, once.
fn losses(account: &Value) -> Vec<Loss> {
    let mut losses = Vec::new();
    let mut others: BTreeMap<String, u64> = counts(&account["packets"]["dropped"]).collect();
    for (section, kind, ledger) in [("ports", "port", "packets"), ("functions", "function", "ledger")] {
        for (name, entry) in account[section].as_object().into_iter().flatten() {
            let mut add = |reason: String, packets: u64| {
                if packets > 0 {
                    losses.push(Loss { place: format!("{kind}/{name}"), reason, packets });
                }
            };
            for (reason, mut packets) in counts(&entry[ledger]["dropped"]) {
                if let Some(all) = others.get_mut(&reason) {
                    *all = all.saturating_sub(packets);
                }
                // What a function dropped by its verdict has reasons of its own.
                if reason == "function" {
                    for (own, count) in counts(&entry["drops"]) {
                        let count = count.min(packets);
                        packets -= count;
                        add(own, count);
                    }
                }
                add(reason, packets);
            }
            add("kernel-lost".to_owned(), entry["kernel_lost"].as_u64().unwrap_or_default());
        }
    }
    let rest = others.into_iter().filter(|(_, packets)| *packets > 0);
    losses.extend(rest.map(|(reason, packets)| Loss { place: OTHERS.to_owned(), reason, packets }));
    losses
}

fn counts(map: &Value) -> impl Iterator<Item = (String, u64)> {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(reason, count)| Some((reason.clone(), count.as_u64()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Value {
        json!({
            "event": "account", "time": 1_795_919_435_030_071_615_u64,
            "packets": {"received": 100, "delivered": 60, "dropped": {"function": 25, "port-down": 4, "no-route": 11}},
            "in_flight": 0, "balanced": true,
            "ports": {
                "lan": {"status": "up", "packets": {"received": 100, "dropped": {}}, "kernel_lost": 7},
                "wan": {"status": "down", "packets": {"delivered": 60, "dropped": {"port-down": 4}}, "kernel_lost": 0},
            },
            "functions": {
                "fw": {"packets": 100, "ledger": {"dropped": {"function": 25, "no-route": 10}}, "drops": {"denied": 20, "malformed": 3}},
            },
        })
    }

    #[test]
    fn every_lost_packet_has_one_place_and_one_reason() {
        let account = example();
        let losses = losses(&account);
        let all: u64 =
            losses.iter().filter(|loss| loss.reason != "kernel-lost").map(|loss| loss.packets).sum();
        let dropped: u64 = counts(&account["packets"]["dropped"]).map(|(_, count)| count).sum();
        assert_eq!(all, dropped, "{losses:?}");
        // A tenant is not told the host's sums.
        let mut of_tenant = account.clone();
        of_tenant.as_object_mut().expect("a map").shift_remove("packets");
        assert_eq!(super::losses(&of_tenant).len(), losses.len() - 1);
        assert_eq!(super::losses(&Value::Null), []);
    }

    #[test]
    fn losses_stand_above_the_numbers_of_ports_and_functions() {
        let told = told(&example(), false);
        let begins = "time                       2026-11-29T02:30:35.030Z\npackets.received           100\n";
        assert!(told.starts_with(begins), "{told}");
        let lost = "balanced                   true\n\nLOST AT      REASON       PACKETS\nfunction/fw  denied       20\n\
                    function/fw  no-route     10\nport/lan     kernel-lost  7\nport/wan     port-down    4\n\
                    function/fw  malformed    3\nfunction/fw  function     2\n(others)     no-route     1\n\nPORTS ";
        assert!(told.contains(lost), "{told}");
    }

    #[test]
    fn only_the_greatest_losses_are_told_unless_it_is_wide() {
        let ports: Map<_, _> = (0..30)
            .map(|n| (format!("p{n}"), json!({"packets": {"dropped": {"no-buffer": n + 1}}})))
            .collect();
        let account = json!({"ports": ports});
        let narrow = lost(&account, false);
        assert!(narrow.contains("\nport/p29  no-buffer  30\n") && !narrow.contains("port/p0 "), "{narrow}");
        assert!(narrow.ends_with("... 10 more; -o wide shows all\n"), "{narrow}");
        assert_eq!(lost(&account, true).lines().count(), 31);
    }
}
