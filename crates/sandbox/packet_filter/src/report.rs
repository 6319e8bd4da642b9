//! What filters' reports have in common.

use crate::rule::Action;
use crate::rule_set::RuleSet;
use crate::tally::Tally;
use crate::tracker::Tracker;
use nf_sdk::Json;

/// `packets`: counts by name.
pub fn packets<const N: usize>(json: &mut Json<'_>, names: &[&str; N], tally: &Tally<N>) {
    json.key("packets").object();
    for (name, total) in names.iter().zip(tally.totals) {
        json.member(name, total);
    }
    json.end_object();
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Accept => "accept",
        Action::Drop => "drop",
    }
}

/// `rules`, each with its hits, and `default`.
pub fn rules(json: &mut Json<'_>, rules: &RuleSet) {
    json.key("rules").array();
    for (number, (rule, decision)) in rules.rules.iter().zip(&rules.decisions).enumerate() {
        json.object().member("number", number as u64);
        if !rule.name.is_empty() {
            json.key("name").text(&rule.name);
        }
        json.key("action").text(word(rule.action)).member("hits", decision.hits).end_object();
    }
    json.end_array().key("default").object().key("action").text(word(rules.default_action));
    json.member("hits", rules.decisions.last().map_or(0, |decision| decision.hits)).end_object();
}

/// `flows`.
pub fn flows(json: &mut Json<'_>, tracker: &Tracker) {
    let turnover = tracker.terms.turnover;
    json.key("flows").object();
    json.member("ipv4", tracker.v4.len() as u64).member("max_ipv4", tracker.v4.limit() as u64);
    json.member("ipv6", tracker.v6.len() as u64).member("max_ipv6", tracker.v6.limit() as u64);
    json.member("opened", turnover.opened).member("expired", turnover.expired);
    json.member("evicted", turnover.evicted).end_object();
}
