//! What two sides agree on, and each difference.

use crate::table::{Alerts, Flows, Verdicts};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How much is the same, of all that either side has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// What both sides say alike.
    pub same: u64,
    /// What either side says.
    pub union: u64,
}

impl Agreement {
    /// The share of what is the same; 100 where neither side says anything.
    pub fn percent(&self) -> f64 {
        if self.union == 0 { 100.0 } else { self.same as f64 * 100.0 / self.union as f64 }
    }

    fn note(&mut self, is_same: bool) {
        self.union += 1;
        self.same += u64::from(is_same);
    }

    fn add(&mut self, other: Agreement) {
        self.same += other.same;
        self.union += other.union;
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} ({:.3}%)", self.same, self.union, self.percent())
    }
}

/// Something that the two sides do not say alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The capture.
    pub capture: String,
    /// The frame that it begins with, from 1; `None` where neither side tells, or it is not about a frame.
    pub frame: Option<u64>,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Difference {
    /// Lines of at most 76 columns, as far as the capture's name lets them: a report sets them in by four.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.frame.map_or(String::new(), |frame| format!(" frame {frame}"));
        write!(f, "{}{place}:", self.capture)?;
        for line in wrap(&self.what, 72) {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}

/// Words in lines of so many columns; a longer word has a line to itself.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// What was compared of any number of captures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Of all captures.
    pub agreement: Agreement,
    /// The same by rule; of alerts alone.
    pub rules: BTreeMap<u64, Agreement>,
    /// Every difference, in the order of captures.
    pub differences: Vec<Difference>,
}

impl Compared {
    /// Adds what was found in another capture.
    pub fn add(&mut self, other: Compared) {
        self.agreement.add(other.agreement);
        for (rule, agreement) in other.rules {
            self.rules.entry(rule).or_default().add(agreement);
        }
        self.differences.extend(other.differences);
    }
}

/// Alerts agree when a rule alerted equally often for a flow.
pub fn alerts(capture: &str, ours: &Alerts, suricata: &Alerts) -> Compared {
    let mut found = Compared::default();
    let keys: BTreeSet<_> = ours.keys().chain(suricata.keys()).collect();
    for key in keys {
        let (here, there) = (ours.get(key), suricata.get(key));
        let [mine, theirs] = [here, there].map(|side| side.map_or(0, |alerted| alerted.count));
        found.agreement.note(mine == theirs);
        found.rules.entry(key.0).or_default().note(mine == theirs);
        if mine != theirs {
            let frames = [there, here].into_iter().flatten().filter_map(|alerted| alerted.frame);
            found.differences.push(Difference {
                capture: capture.to_owned(),
                frame: frames.min(),
                what: format!("rule {}, {}: dpi {mine}, Suricata {theirs} alerts", key.0, key.1),
            });
        }
    }
    found
}

/// Flows agree when they have the same ends, packets and bytes.
pub fn flows(capture: &str, ours: &Flows, tshark: &Flows) -> Compared {
    let mut found = Compared::default();
    let keys: BTreeSet<_> = ours.keys().chain(tshark.keys()).collect();
    for flow in keys {
        let (here, there) = (ours.get(flow), tshark.get(flow));
        let counts = [here, there].map(|side| side.map(|count| (count.packets, count.bytes)));
        found.agreement.note(counts[0] == counts[1]);
        if counts[0] != counts[1] {
            let [mine, theirs] = counts.map(|side| {
                side.map_or("nothing".to_owned(), |(packets, bytes)| {
                    format!("{packets} packets of {bytes} bytes")
                })
            });
            found.differences.push(Difference {
                capture: capture.to_owned(),
                frame: [there, here].into_iter().flatten().find_map(|count| count.frame),
                what: format!("{flow}: monitor has {mine}, tshark {theirs}"),
            });
        }
    }
    found
}

/// Verdicts agree when both let a frame pass, or neither.
pub fn verdicts(capture: &str, ours: &Verdicts, nft: &Verdicts) -> Compared {
    let mut found = Compared::default();
    let keys: BTreeSet<_> = ours.keys().chain(nft.keys()).collect();
    for frame in keys {
        let sides = [ours.get(frame), nft.get(frame)];
        found.agreement.note(sides[0] == sides[1]);
        if sides[0] != sides[1] {
            let [mine, theirs] = sides.map(|side| match side {
                Some(true) => "passes",
                Some(false) => "is dropped",
                None => "is not seen",
            });
            found.differences.push(Difference {
                capture: capture.to_owned(),
                frame: Some(*frame),
                what: format!("firewall: it {mine}; nft: it {theirs}"),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Alerted, Count, Flow};

    fn flow(port: u16) -> Flow {
        let end = |last, port| (std::net::Ipv4Addr::new(192, 0, 2, last).into(), port);
        Flow { protocol: 6, source: end(9, port), destination: end(1, 80) }
    }

    #[test]
    fn alerts_agree_in_rule_flow_and_number() {
        let alert =
            |sid, port, count, frame| ((sid, flow(port).undirected()), Alerted { count, frame: Some(frame) });
        let ours = Alerts::from([alert(1, 1, 1, 5), alert(1, 2, 2, 6), alert(2, 1, 1, 7)]);
        let theirs = Alerts::from([alert(1, 1, 1, 4), alert(1, 2, 1, 8), alert(3, 1, 1, 9)]);
        let found = alerts("a.pcap", &ours, &theirs);
        assert_eq!(found.agreement, Agreement { same: 1, union: 4 });
        assert_eq!(found.agreement.percent(), 25.0);
        assert_eq!(found.rules[&1], Agreement { same: 1, union: 2 });
        assert_eq!((found.rules[&2], found.rules[&3]), (Agreement { same: 0, union: 1 }, found.rules[&2]));
        let frames: Vec<_> = found.differences.iter().map(|difference| difference.frame).collect();
        assert_eq!(frames, [Some(6), Some(7), Some(9)]);
        assert_eq!(
            found.differences[0].what,
            "rule 1, protocol 6 192.0.2.1:80 > 192.0.2.9:2: dpi 2, Suricata 1 alerts"
        );
        assert_eq!(alerts("a.pcap", &ours, &ours).differences, []);
    }

    #[test]
    fn flows_agree_in_ends_packets_and_bytes() {
        let count = |packets, bytes, frame| Count { packets, bytes, frame };
        let theirs = Flows::from([
            (flow(1), count(2, 100, Some(1))),
            (flow(2), count(2, 100, Some(3))),
            (flow(3), count(2, 100, Some(5))),
            (flow(4), count(1, 40, Some(7))),
        ]);
        let ours = Flows::from([
            (flow(1), count(2, 100, None)),
            (flow(2), count(1, 100, None)),
            (flow(3), count(2, 99, None)),
            (flow(5), count(1, 40, None)),
        ]);
        let found = flows("a.pcap", &ours, &theirs);
        assert_eq!(found.agreement, Agreement { same: 1, union: 5 });
        let frames: Vec<_> = found.differences.iter().map(|difference| difference.frame).collect();
        assert_eq!(frames, [Some(3), Some(5), Some(7), None]);
        assert_eq!(
            found.differences[0].what,
            "protocol 6 192.0.2.9:2 > 192.0.2.1:80: monitor has 1 packets of 100 bytes, tshark 2 packets of 100 bytes"
        );
        assert!(found.differences[3].what.ends_with("tshark nothing"));
        // A flow back is another one.
        let back = Flow { source: flow(1).destination, destination: flow(1).source, ..flow(1) };
        assert_eq!(back.undirected(), flow(1).undirected());
        let turned = Flows::from([(back, count(2, 100, None))]);
        let one = Flows::from([(flow(1), count(2, 100, None))]);
        assert_eq!(flows("a.pcap", &turned, &one).agreement, Agreement { same: 0, union: 2 });
    }

    #[test]
    fn verdicts_agree_frame_by_frame() {
        let ours = Verdicts::from([(1, true), (2, false), (3, true)]);
        let theirs = Verdicts::from([(1, true), (2, true), (4, false)]);
        let found = verdicts("a.pcap", &ours, &theirs);
        assert_eq!(found.agreement, Agreement { same: 1, union: 4 });
        let what: Vec<_> =
            found.differences.iter().map(|difference| (difference.frame, difference.what.as_str())).collect();
        assert_eq!(
            what,
            [
                (Some(2), "firewall: it is dropped; nft: it passes"),
                (Some(3), "firewall: it passes; nft: it is not seen"),
                (Some(4), "firewall: it is not seen; nft: it is dropped"),
            ]
        );
    }

    #[test]
    fn captures_add_up_and_differences_are_lines_of_eighty_columns() {
        let ours = Alerts::from([((1, flow(1)), Alerted { count: 1, frame: None })]);
        let mut sum = alerts("a.pcap", &ours, &ours);
        sum.add(alerts("b.pcap", &ours, &Alerts::new()));
        assert_eq!(sum.agreement, Agreement { same: 1, union: 2 });
        assert_eq!(sum.rules[&1], sum.agreement);
        assert_eq!(sum.agreement.to_string(), "1 of 2 (50.000%)");
        assert_eq!(Agreement::default().percent(), 100.0);
        let long = Difference {
            capture: "b.pcap".to_owned(),
            frame: Some(7),
            what: "protocol 17 ".to_owned() + &"[2001:db8:1:2:3:4:5:6]:65535 ".repeat(5),
        };
        let text = long.to_string();
        assert!(text.starts_with("b.pcap frame 7:\n    protocol 17 [2001"), "{text}");
        assert!(text.lines().count() > 3 && text.lines().all(|line| line.chars().count() <= 76), "{text}");
    }
}
