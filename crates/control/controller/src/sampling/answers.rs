//! Answers from the history: one step of all objects, or one object over time.

use super::super::controller::{Controller, lock};
use super::columns::{PLACE, STATE, told_of_place};
use api::{HistoryLatency, HistoryLine, HistoryMinute, HistoryMoment, HistoryObjects, HistorySpan};
use api_server::{HistoryAsked, NoHistory};
use history::{COARSE_STEP, Kind, Line, Objects, Rule, Span};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use telemetry::Latencies;

/// Clients whose last answers are kept for the next one: those of so many tenants.
const KEPT: usize = 64;

/// What clients were told of the last step: by tenant, none for those who see all, with names and without.
#[derive(Default)]
pub(super) struct Answers {
    step: u64,
    texts: HashMap<(Option<String>, bool), Arc<[u8]>>,
}

impl Answers {
    /// They are made anew.
    pub(super) fn forget(&mut self) {
        self.texts.clear();
    }
}

impl Controller {
    /// Answers from the history.
    pub(in super::super) fn history(
        &self,
        asked: &HistoryAsked,
        tenant: Option<&str>,
    ) -> Result<Arc<[u8]>, NoHistory> {
        match asked {
            HistoryAsked::Moment { at, layout } => self.moment(*at, *layout, tenant),
            HistoryAsked::Line { kind, name, seconds } => self.line((kind, name), *seconds, tenant),
        }
    }

    fn moment(
        &self,
        at: Option<u64>,
        layout: Option<u64>,
        tenant: Option<&str>,
    ) -> Result<Arc<[u8]>, NoHistory> {
        let sampled = &self.sampled;
        let history = lock(&sampled.history);
        let last = history.last().ok_or(NoHistory::Nothing)?;
        let named = at.is_some_and(|at| at != last) || layout != Some(history.layout());
        let key = (tenant.map(str::to_owned), named);
        if at.is_none() {
            let mut answers = lock(&sampled.answers);
            if answers.step != last || answers.texts.len() >= KEPT {
                answers.texts.clear();
                answers.step = last;
            }
            if let Some(text) = answers.texts.get(&key) {
                return Ok(text.clone());
            }
        }
        let step = at.unwrap_or(last);
        let gone = NoHistory::Gone { first: history.first(), last };
        let objects = history.moment(step, shown_to(tenant)).ok_or(gone)?;
        let objects = objects.into_iter().filter(|objects| is_for(objects.kind, tenant));
        let told = HistoryMoment {
            started: sampled.started.clone(),
            start_ms: sampled.start_ms(),
            first: history.first(),
            last,
            at: step,
            seconds: history.resolution(step).unwrap_or(COARSE_STEP),
            layout: history.layout(),
            left_out: if tenant.is_none() { history.left_out() } else { 0 },
            objects: objects.map(|objects| told_objects(objects, named)).collect(),
        };
        drop(history);
        // Text and numbers can always be written.
        let text: Arc<[u8]> = serde_json::to_vec(&told).unwrap_or_default().into();
        if at.is_none() {
            let mut answers = lock(&sampled.answers);
            if answers.step == last {
                answers.texts.insert(key, text.clone());
            }
        }
        Ok(text)
    }

    fn line(
        &self,
        (kind, name): (&str, &str),
        seconds: u64,
        tenant: Option<&str>,
    ) -> Result<Arc<[u8]>, NoHistory> {
        let sampled = &self.sampled;
        let history = lock(&sampled.history);
        let last = history.last().ok_or(NoHistory::Nothing)?;
        let shown = shown_to(tenant);
        let line = history.line(kind, name, seconds, &shown).filter(|line| is_for(line.kind, tenant));
        let Line { kind: of, coarse, fine } = line.ok_or(NoHistory::NotFound)?;
        let minute = history.minute(kind, name, &shown).filter(|_| of.has_minute).map(|minute| {
            let counts: Vec<u64> = minute.histogram().collect();
            let bounds_ns = if counts.is_empty() { Vec::new() } else { Latencies::bounds().collect() };
            HistoryMinute {
                drops: minute.counters().map(|(reason, count)| (reason.to_owned(), count)).collect(),
                latency: HistoryLatency { bounds_ns, counts },
            }
        });
        let told = HistoryLine {
            started: sampled.started.clone(),
            start_ms: sampled.start_ms(),
            of: format!("{kind}/{name}"),
            first: history.first(),
            last,
            coarse: told_span(of, coarse, COARSE_STEP),
            fine: told_span(of, fine, 1),
            minute,
        };
        drop(history);
        Ok(serde_json::to_vec(&told).unwrap_or_default().into())
    }
}

/// Whether a client sees objects of a kind at all: workers, pools and sums are the host's.
fn is_for(kind: &Kind, tenant: Option<&str>) -> bool {
    tenant.is_none() || !matches!(kind.name, "worker" | "pool" | "host")
}

/// Whether a client sees an object: a tenant its own.
fn shown_to(tenant: Option<&str>) -> impl Fn(&Kind, Option<&str>) -> bool {
    move |_, of| tenant.is_none() || of == tenant
}

/// Columns as they are told: a function's place is two of them.
fn told_values(kind: &Kind, values: Vec<Vec<u64>>) -> BTreeMap<String, Vec<u64>> {
    let mut told = BTreeMap::new();
    for (column, values) in kind.columns.iter().zip(values) {
        if column.name == PLACE {
            let (states, workers) = values.into_iter().map(told_of_place).unzip();
            told.insert(STATE.to_owned(), states);
            told.insert("worker".to_owned(), workers);
        } else {
            told.insert(column.name.to_owned(), values);
        }
    }
    told
}

fn told_objects(objects: Objects<'_>, named: bool) -> (String, HistoryObjects) {
    let Objects { kind, names, values } = objects;
    let tenants = || names.iter().map(|(_, tenant)| tenant.map(str::to_owned)).collect();
    let told = HistoryObjects {
        tenants: named.then(tenants),
        names: named.then(|| names.iter().map(|(name, _)| (*name).to_owned()).collect()),
        values: told_values(kind, values),
    };
    (kind.name.to_owned(), told)
}

fn told_span(kind: &Kind, span: Span, seconds: u64) -> HistorySpan {
    let mut values = told_values(kind, span.values);
    // It is known as it is now alone.
    kind.columns
        .iter()
        .filter(|column| column.rule == Rule::Now)
        .for_each(|column| drop(values.remove(column.name)));
    HistorySpan { from: span.from, seconds, values }
}
