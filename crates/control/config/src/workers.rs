//! Reads the `workers` section.

use crate::format::workers_schema;
use crate::read::Reader;
use schema::Value;
use std::collections::HashMap;
use telemetry::clock::Nanos;
use wiring::{MAX_WORKERS, WorkerPlan, Workers};
use yaml_document::{Location, Node, spelling};

impl Reader<'_> {
    /// Reads the section `workers`: a number, or a map.
    pub(crate) fn workers(&mut self, root_place: &Location<'_>, root: &Node) {
        let workers = match root.entry("workers") {
            Some((_, node)) if !node.is_null() => {
                let place = root_place.key("workers", node.position);
                if node.as_map().is_some() {
                    self.workers_of_map(&place, node)
                } else {
                    self.so_many(&place, node)
                }
            }
            _ => Some(Workers::default()),
        };
        let Some(workers) = workers else { return };
        self.worker_count = Some(workers.list.len());
        self.wiring.workers = workers;
    }

    fn so_many(&mut self, place: &Location<'_>, node: &Node) -> Option<Workers> {
        let count = node.as_text().and_then(number).filter(|count| (1..=MAX_WORKERS).contains(count));
        let Some(count) = count else {
            place.report(&mut self.faults, || {
                let keys = workers_schema().keys().iter().map(|key| key.name.as_str());
                let keys = spelling::listed(["processors"].into_iter().chain(keys));
                format!(
                    "{}; allowed: an integer from 1 to {MAX_WORKERS}, or a map of these keys: {keys}",
                    node.found()
                )
            });
            return None;
        };
        self.crowded(place, count);
        Some(Workers { list: vec![WorkerPlan::default(); count], ..Workers::default() })
    }

    fn workers_of_map(&mut self, place: &Location<'_>, node: &Node) -> Option<Workers> {
        let values = workers_schema().check_at(place, Some(node), &["processors"], &mut self.faults);
        let processors = match node.entry("processors") {
            Some((_, node)) => self.processors(&place.key("processors", node.position), node).map(Some),
            None => Some(None),
        };
        let (values, processors) = (values?, processors?);
        let count = values.get("count").and_then(Value::as_integer).and_then(|n| usize::try_from(n).ok());
        let list = match (count, processors) {
            (Some(count), Some(list)) if count != list.len() => {
                let position = node.get("processors").map_or(place.position(), |node| node.position);
                place.key("processors", position).report(&mut self.faults, || {
                    format!("found {} items; allowed: {count}, one for each worker of `count`", list.len())
                });
                return None;
            }
            (_, Some(list)) => list,
            (count, None) => {
                let count = count.unwrap_or(1);
                self.crowded(place, count);
                vec![WorkerPlan::default(); count]
            }
        };
        let duration = |key| values.get(key).and_then(Value::as_duration).map(Nanos);
        Some(Workers {
            list,
            slice: duration("slice")?,
            slack: duration("slack")?,
            quantum: duration("quantum")?,
            spin: duration("spin")?,
            spin_percent: self.spin_percent(place, node, &values)?,
            moderation: duration("moderation")?,
            balance: values.get("balance").and_then(Value::as_bool)?,
        })
    }

    fn spin_percent(&mut self, place: &Location<'_>, node: &Node, values: &Value) -> Option<u32> {
        const PERCENT: u64 = schema::WHOLE / 100;
        let parts = values.get("spin_share").and_then(Value::as_integer)?.unsigned_abs();
        if !parts.is_multiple_of(PERCENT) {
            let node = node.get("spin_share").unwrap_or(node);
            place.key("spin_share", node.position).report(&mut self.faults, || {
                format!("{}; allowed: whole percent, such as `12%`", node.found())
            });
            return None;
        }
        u32::try_from(parts / PERCENT).ok()
    }

    /// Warns of more workers than processors.
    fn crowded(&mut self, place: &Location<'_>, count: usize) {
        let processors = self.catalog.processors().len();
        if processors > 0 && count > processors {
            place.report(&mut self.warnings, || {
                format!("{count} workers on {processors} of the machine's processors: some of them share one")
            });
        }
    }

    /// A worker for each item: the processor that it may run on, or a list of them.
    fn processors(&mut self, place: &Location<'_>, node: &Node) -> Option<Vec<WorkerPlan>> {
        let allowed = self.catalog.processors();
        let Some(items) = node.as_list().filter(|items| (1..=MAX_WORKERS).contains(&items.len())) else {
            place.report(&mut self.faults, || {
                let found = match node.as_list() {
                    Some(items) => format!("found a list of {}", items.len()),
                    None => node.found(),
                };
                format!(
                    "{found}; allowed: a list of 1 to {MAX_WORKERS}, for each worker a processor or a list of processors, \
                     such as `[0, 1]` or `[[0, 1], [2, 3]]`"
                )
            });
            return None;
        };
        let mut taken: HashMap<usize, usize> = HashMap::new();
        let plans: Vec<Option<WorkerPlan>> = (0..)
            .zip(items)
            .map(|(worker, item)| {
                let place = place.item(worker, item.position);
                let mut processors = Vec::new();
                match item.as_list() {
                    Some([]) => {
                        place.report(&mut self.faults, || {
                            "found an empty list; allowed: one processor or more".to_owned()
                        });
                        return None;
                    }
                    Some(inner) => {
                        for (n, item) in inner.iter().enumerate() {
                            let place = place.item(n, item.position);
                            let processor = self.processor(&place, item, &allowed)?;
                            if processors.contains(&processor) {
                                place.report(&mut self.faults, || {
                                    format!("found `{processor}` twice; allowed: each processor once")
                                });
                                return None;
                            }
                            processors.push(processor);
                            self.shared(&place, processor, worker, &mut taken);
                        }
                    }
                    None => {
                        let processor = self.processor(&place, item, &allowed)?;
                        processors.push(processor);
                        self.shared(&place, processor, worker, &mut taken);
                    }
                }
                Some(WorkerPlan { processors: Some(processors) })
            })
            .collect();
        plans.into_iter().collect()
    }

    /// Warns of a processor that is another worker's as well.
    fn shared(
        &mut self,
        place: &Location<'_>,
        processor: usize,
        worker: usize,
        taken: &mut HashMap<usize, usize>,
    ) {
        if let Some(other) = taken.insert(processor, worker) {
            place.report(&mut self.warnings, || {
                format!(
                    "processor {processor} is both worker {other}'s and worker {worker}'s; while both run on it, each has less \
                     than the core that shares are of"
                )
            });
        }
    }

    fn processor(&mut self, place: &Location<'_>, node: &Node, allowed: &[usize]) -> Option<usize> {
        let processor = node.as_text().and_then(number).filter(|processor| allowed.contains(processor));
        if processor.is_none() {
            place.report(&mut self.faults, || {
                format!(
                    "{}; allowed: the processors that this program may run on, {}",
                    node.found(),
                    ranges(allowed)
                )
            });
        }
        processor
    }

    /// The worker that a function is to stay on: `Some(None)` where none is said, `None` after a fault.
    pub(crate) fn stays_on(
        &mut self,
        place: &Location<'_>,
        node: &Node,
        values: &Value,
    ) -> Option<Option<usize>> {
        let Some(worker) = values.get("worker").and_then(Value::as_integer) else { return Some(None) };
        let worker = usize::try_from(worker).ok()?;
        // Without a number of workers their section has a fault already.
        let count = self.worker_count?;
        if worker >= count {
            let position = node.get("worker").map_or(place.position(), |node| node.position);
            place.key("worker", position).report(&mut self.faults, || match count {
                1 => format!("found `{worker}`; allowed: 0, as there is one worker (see `workers`)"),
                _ => format!("found `{worker}`; allowed: 0 to {}, as there are {count} `workers`", count - 1),
            });
            return None;
        }
        Some(Some(worker))
    }
}

/// A number in digits, written in the one usual way.
fn number(text: &str) -> Option<usize> {
    text.parse::<usize>().ok().filter(|number| number.to_string() == text)
}

/// `0-3, 6`.
fn ranges(numbers: &[usize]) -> String {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let mut text = String::new();
    for run in numbers.chunk_by(|a, b| a + 1 >= *b) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&if first == last { first.to_string() } else { format!("{first}-{last}") });
    }
    text
}
