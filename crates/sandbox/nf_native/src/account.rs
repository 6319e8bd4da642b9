//! What became of the packets, in numbers: each that was taken or made was sent, consumed or dropped, or is
//! held.

use manifest::Manifest;
use nf_sdk::Json;
use std::collections::BTreeMap;

/// Why a packet was dropped, beside what the function's verdicts say: as `docs/drop-reasons.md` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lost {
    NoVerdict,
    BadVerdict,
    NoRoute,
    UnknownService,
    HoldQuota,
    HoldExpired,
    HeldAtStop,
    NoBuffer,
    PortFull,
}

impl Lost {
    fn name(self) -> &'static str {
        match self {
            Lost::NoVerdict => "no-verdict",
            Lost::BadVerdict => "bad-verdict",
            Lost::NoRoute => "no-route",
            Lost::UnknownService => "unknown-service",
            Lost::HoldQuota => "hold-quota",
            Lost::HoldExpired => "hold-expired",
            Lost::HeldAtStop => "held-at-stop",
            Lost::NoBuffer => "no-buffer",
            Lost::PortFull => "port-full",
        }
    }
}

/// The packets of a process, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub received: u64,
    /// Packets that the function made.
    pub made: u64,
    pub sent: u64,
    pub consumed: u64,
    /// By the function's own reasons, in the order of its manifest; the last one is for those that are not
    /// there.
    by_function: Vec<u64>,
    lost: BTreeMap<Lost, u64>,
}

impl Account {
    /// Nothing yet.
    pub fn new(manifest: &Manifest) -> Account {
        Account { by_function: vec![0; manifest.drop_reasons.len() + 1], ..Account::default() }
    }

    /// A packet was dropped.
    pub fn drop(&mut self, lost: Lost) {
        *self.lost.entry(lost).or_default() += 1;
    }

    /// The function's verdict was to drop a packet.
    pub fn drop_by_function(&mut self, reason: u16) {
        let at = usize::from(reason).min(self.by_function.len().saturating_sub(1));
        if let Some(count) = self.by_function.get_mut(at) {
            *count += 1;
        }
    }

    /// Packets that were dropped, in all.
    #[cfg(test)]
    pub fn dropped(&self) -> u64 {
        self.by_function.iter().chain(self.lost.values()).sum()
    }

    /// One line of JSON, with what is held, the function's counters, lines that were not written, and what
    /// the function reports, which is JSON.
    pub fn to_json(
        &self,
        manifest: &Manifest,
        held: u64,
        counter: impl Fn(u32) -> u64,
        output_lost: u64,
        report: Option<&str>,
    ) -> String {
        let mut text = String::new();
        let mut json = Json::new(&mut text);
        json.object().member("received", self.received).member("made", self.made);
        json.member("sent", self.sent).member("consumed", self.consumed).member("held", held);
        json.member("output_lost", output_lost).key("dropped").object();
        for (lost, count) in &self.lost {
            json.member(lost.name(), *count);
        }
        json.end_object().key("dropped_by_function").object();
        for (at, count) in self.by_function.iter().enumerate().filter(|(_, count)| **count > 0) {
            json.member(manifest.drop_reasons.get(at).map_or("other", String::as_str), *count);
        }
        json.end_object().key("counters").object();
        for (name, index) in manifest.counters.iter().zip(0..) {
            json.member(name, counter(index));
        }
        json.end_object();
        if let Some(report) = report {
            text.push_str(",\"report\":");
            text.push_str(report);
        }
        text.push('}');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_a_line_of_json_and_balances() {
        let manifest = "name: a\nversion: 1.0.0\nabi: 1\nsummary: S.\nlanguage: rust\naccess: read\n\
                        interfaces: [left]\nmemory_limit: 64KiB\ndrop_reasons: [no, never]\ncounters: [seen, liked]\n";
        let manifest = crate::configuration::manifest(manifest).expect("a manifest");
        let mut account = Account { received: 9, made: 1, sent: 4, consumed: 1, ..Account::new(&manifest) };
        account.drop(Lost::PortFull);
        account.drop_by_function(1);
        account.drop_by_function(7);
        let text = account.to_json(&manifest, 2, |index| 10 + u64::from(index), 3, Some("{\"x\":1}"));
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let expected = serde_json::json!({
            "received": 9, "made": 1, "sent": 4, "consumed": 1, "held": 2, "output_lost": 3,
            "dropped": {"port-full": 1}, "dropped_by_function": {"never": 1, "other": 1},
            "counters": {"seen": 10, "liked": 11}, "report": {"x": 1}
        });
        assert_eq!(json, expected);
        assert_eq!(account.received + account.made, account.sent + account.consumed + 2 + account.dropped());
    }
}
