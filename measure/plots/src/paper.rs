//! The numbers that the text of HyperNF gives: Yasukata et al., "HyperNF: Building a High Performance, High
//! Utilization and Fair NFV Platform", SoCC 2017.
//!
//! Its figures' curves are not in its text and are not here. Sentences are ours. The machine of the paper has
//! 14 cores at 2.6 GHz and runs virtual machines on Xen; its numbers tell orders and orders of magnitude, no
//! more.

use crate::PaperNumber;

fn say(place: &str, says: &str) -> PaperNumber {
    PaperNumber::sentence(place, says)
}

fn number(place: &str, says: &str, value: f64, unit: &str) -> PaperNumber {
    PaperNumber::new(place, says, value, unit)
}

/// Fig. 2: a firewall under different static assignments of processor time to function and I/O.
pub fn fig_2() -> Vec<PaperNumber> {
    vec![
        say(
            "2.1, Fig. 2",
            "No static assignment is the best for both packet sizes and both numbers of rules.",
        ),
        say(
            "2.1, Fig. 2",
            "All assignments add up to 100% of a core; 64 B and 1,024 B, 10 and 50 rules, all of them traversed.",
        ),
    ]
}

/// Fig. 3: what handing packets to an I/O thread on the same core costs.
pub fn fig_3() -> Vec<PaperNumber> {
    vec![
        number(
            "2.2",
            "One round of synchronisation between function and I/O thread takes 26.306 us.",
            26_306.0,
            "ns",
        ),
        number(
            "2.2, Fig. 3b",
            "Merge synchronises for 25.68 ns a packet at the largest batches.",
            25.68,
            "ns",
        ),
        number(
            "2.2, Fig. 3b",
            "Merge synchronises for 165.55 ns a packet at the smallest batches.",
            165.55,
            "ns",
        ),
        number("2.2, Fig. 3b", "That is at least 24.45% of all the time that a packet takes.", 24.45, "%"),
        number("2.2, Fig. 3b", "That is at most 62.19% of all the time that a packet takes.", 62.19, "%"),
        number("3", "A hypercall takes 507 ns, 51 times less than a round.", 507.0, "ns"),
    ]
}

/// Fig. 4: what shares two functions get in the merge model; Fig. 8 has the other models beside it.
pub fn fig_4() -> Vec<PaperNumber> {
    vec![
        number("2.3, Fig. 4", "The smallest error of merge's six shares is 15%.", 15.0, "%"),
        number("2.3, Fig. 4", "The largest error of merge's six shares is 47%.", 47.0, "%"),
    ]
}

/// Fig. 6a: sender to receiver through the switch, no function between them.
pub fn fig_6a() -> Vec<PaperNumber> {
    vec![
        number("4.1, Fig. 6a", "HyperNF sends up to 60% more than split, at 64 B.", 1.6, "ratio"),
        say("4.1, Fig. 6a", "Split and merge are about equal; HyperNF is the highest at all sizes."),
        number(
            "4.1, Fig. 6e",
            "Through a NIC, with its driver in the hypervisor, close to 15 Mp/s of 64 B on a core.",
            15.0,
            "Mp/s",
        ),
    ]
}

/// Fig. 6b: a bridge.
pub fn fig_6b() -> Vec<PaperNumber> {
    vec![
        say(
            "4.1, Fig. 6b",
            "HyperNF, then merge, then split: split's I/O thread falls asleep and waking it costs.",
        ),
        say("abstract", "Over all functions HyperNF improves throughput by 10% to 73%."),
    ]
}

/// Fig. 6c: a firewall with 10 rules.
pub fn fig_6c() -> Vec<PaperNumber> {
    vec![
        say("4.1, Fig. 6c", "HyperNF beats merge and split, with virtual and with physical ports."),
        say("4.1", "The number of rules does not change the order."),
        say("abstract", "Over all functions HyperNF improves throughput by 10% to 73%."),
    ]
}

/// Fig. 6d: a router with 10 entries.
pub fn fig_6d() -> Vec<PaperNumber> {
    vec![
        number("4.1, Fig. 6d", "HyperNF routes up to 4.2 Mp/s of 64 B.", 4.2, "Mp/s"),
        say(
            "4.1, Fig. 6d",
            "Merge beats split. Batches are 64 for HyperNF, 128 for split and 512 for merge, each the model's best.",
        ),
    ]
}

/// A function that inspects contents: the paper leaves it as future work.
pub fn inspection() -> Vec<PaperNumber> {
    vec![say(
        "4.1",
        "More complex functions such as DPI are left as future work; the order is expected to be the same.",
    )]
}

/// Fig. 7: many firewalls on 6 cores.
pub fn fig_7() -> Vec<PaperNumber> {
    vec![
        number(
            "4.2, Fig. 7",
            "HyperNF forwards close to 18 Mp/s with one function on each of 6 cores.",
            18.0,
            "Mp/s",
        ),
        number(
            "4.2, Fig. 7",
            "HyperNF forwards about 13 Mp/s with six functions on each core.",
            13.0,
            "Mp/s",
        ),
        number(
            "4.2, Fig. 7",
            "Six functions on each core keep 72% of what one forwards (13 of 18).",
            72.0,
            "%",
        ),
        say(
            "4.2",
            "Packets have 256 B; split has 1 of the 6 cores for I/O, mix leaves I/O threads to Linux.",
        ),
    ]
}

/// Fig. 8: shares of two functions, virtual ports.
pub fn fig_8() -> Vec<PaperNumber> {
    vec![
        number("4.3, Fig. 8", "HyperNF errs by 2.9% at most.", 2.9, "%"),
        number("4.3, Fig. 8", "Merge errs by up to 47%.", 47.0, "%"),
        number(
            "4.3, Fig. 8",
            "Split errs by up to 175%, since its baseline suffers from an I/O thread that falls asleep.",
            175.0,
            "%",
        ),
        number("4.3, Fig. 8", "Split's smallest error is 4%.", 4.0, "%"),
        say(
            "4.3, Table 1",
            "A: bridge with 64 B beside a firewall of 50 rules with 1,472 B. B: firewalls of 10 rules with 1,024 B and of 50 with 512 B.",
        ),
    ]
}

/// Fig. 8, lower row: shares of two functions, physical ports.
pub fn fig_8_ports() -> Vec<PaperNumber> {
    vec![
        number(
            "4.3, Fig. 8",
            "With the NIC's driver in the driver domain HyperNF errs by 3.55% at most.",
            3.55,
            "%",
        ),
        number("4.3, Fig. 8", "With the driver in the hypervisor HyperNF errs by 0.37% at most.", 0.37, "%"),
    ]
}

/// Fig. 10: 30 functions, traffic of each varies, the sum does not.
pub fn fig_10() -> Vec<PaperNumber> {
    vec![
        say("5.1, Fig. 10", "HyperNF forwards most of the four models."),
        say(
            "5.1",
            "30 firewalls of 10 rules on 6 cores, not pinned, 256 B; split has 2 of the 6 cores for I/O.",
        ),
    ]
}

/// Fig. 11: the sum varies too.
pub fn fig_11() -> Vec<PaperNumber> {
    vec![
        say(
            "5.1, Fig. 11a",
            "HyperNF follows the offered load most closely and is the highest curve throughout.",
        ),
        number("5.1, Fig. 11a", "HyperNF drops visibly below the offered load at t = 18 s.", 18.0, "s"),
        say(
            "5.1, Fig. 11b",
            "At t = 18 s many flows have 1.5 to 2 Mp/s: queues of functions that wait for a core fill up.",
        ),
    ]
}

/// Fig. 12: the number of functions varies as well.
pub fn fig_12() -> Vec<PaperNumber> {
    vec![
        say(
            "5.1, Fig. 12a",
            "HyperNF beats merge, split and mix, and follows the offered load but for a peak at about t = 18 s.",
        ),
        say(
            "5.1, Fig. 12b",
            "15 functions, three more every 5 s up to 30; from t = 30 s three fewer every 5 s down to 15.",
        ),
    ]
}

/// Fig. 13a: throughput of chains.
pub fn fig_13a() -> Vec<PaperNumber> {
    vec![
        say("5.2, Fig. 13a", "At each length HyperNF has the highest throughput and the least decline."),
        say("5.2", "Firewalls of 10 rules, 256 B, 10 cores; split has 9 and one for I/O."),
    ]
}

/// Fig. 13b: latency of chains.
pub fn fig_13b() -> Vec<PaperNumber> {
    vec![number("5.2, Fig. 13b", "HyperNF takes 2 ms at most, for a chain of 50 on 10 cores.", 2_000.0, "us")]
}

/// Partial load and many idle functions: what the paper asks of a platform, without measuring it.
pub fn utilisation() -> Vec<PaperNumber> {
    vec![
        number("1", "Traffic at its peak is five times the average.", 5.0, "ratio"),
        number("1", "Traffic at its peak is ten times the least.", 10.0, "ratio"),
        say(
            "2",
            "High utilisation: no cycles wasted by polling when there are no packets, none idle on cores set aside for I/O.",
        ),
    ]
}

/// A cheap function beside one that fills its quantum: Superfluidity, deliverable 5.2.
pub fn cheap_share() -> Vec<PaperNumber> {
    vec![number(
        "D5.2, 4.3.2",
        "Beside a process that uses its whole quantum, one that forwards gets 10% of the processor.",
        10.0,
        "%",
    )]
}
