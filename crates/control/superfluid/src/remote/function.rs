//! `superfluid function` and `superfluid upgrade`.

use super::change::{Made, show_operation};
use super::columns::{cell, function_status};
use super::failure::{Done, Failure, print};
use super::get::not_found;
use super::given::configuration;
use super::options::{CreateOptions, NamedOptions, RestartOptions, UpgradeOptions, Waiting};
use super::paths::Paths;
use super::snapshot::missing;
use crate::Outcome;
use crate::output::{Format, Listing, one};
use crate::progress::Progress;
use api::{Kind, Object, ProblemType, Snapshot, Upgrade};
use client::{Answer, Change, Client, ClientError, Only, Step, Written};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn create(options: &CreateOptions) -> Done {
    let began = Instant::now();
    let wrong = |wrong| Failure::new(wrong, Outcome::BadInput);
    let client = options.connection.client()?;
    let spec = match &options.from {
        Some(snapshot) => {
            let saved = client.snapshot(snapshot).map_err(|error| missing(&client, snapshot, error))?;
            spec(options, as_saved(saved)).map_err(wrong)?
        }
        None => {
            let mut spec = spec(options, Map::new()).map_err(wrong)?;
            Paths::new(Path::new("."), &options.connection).in_function(&mut spec);
            spec
        }
    };
    let mut trace = Trace::default();
    trace.add("read the command", began.elapsed());
    if options.trace {
        // The connection is made by a question of its own, so that what it takes is known.
        trace.time("connect", || client.health())?;
    }
    let from = options.from.clone();
    let change = Change { only: Only::IfAbsent, timed: options.trace, from, ..options.waiting.change() };
    let name = &options.name;
    let progress = Progress::begin(&format!("creating function/{name}"), options.shown.output);
    let asked = Instant::now();
    let answer = client.put(Kind::Function, name, &spec, &change).map_err(|error| refused(error, name))?;
    let answered = asked.elapsed();
    if let Answer::Done(Written { steps, .. }) = &answer {
        trace.asked(answered, steps);
    } else {
        trace.add("ask the daemon", answered);
    }
    let waiting = Instant::now();
    let Some(object) =
        object_made(&client, (&options.waiting, progress), answer, name, options.shown.output)?
    else {
        return Ok(Outcome::Done);
    };
    if answered < began.elapsed() && waiting.elapsed() > Duration::from_millis(1) {
        trace.add("wait for it", waiting.elapsed());
    }
    trace.add("all", began.elapsed());
    tell(&object, "created", options.shown.output)?;
    match options.trace {
        true => print(&trace.shown(options.shown.output)),
        false => Ok(Outcome::Done),
    }
}

/// The spec of a function that was saved, without what is of the place where it was.
fn as_saved(saved: Snapshot) -> Map<String, Value> {
    let Value::Object(mut spec) = saved.spec else { return Map::new() };
    spec.remove("attach");
    spec
}

/// What the options say, over what is there already.
fn spec(options: &CreateOptions, mut spec: Map<String, Value>) -> Result<Value, String> {
    if let Some(image) = &options.image {
        spec.insert("image".to_owned(), json!(image));
    }
    if let Some(tenant) = &options.tenant {
        spec.insert("tenant".to_owned(), json!(tenant));
    }
    if let Some(config) = configuration(&options.config)? {
        spec.insert("config".to_owned(), config);
    }
    let mut attach = Map::new();
    for attached in &options.attach {
        if attach.insert(attached.interface.clone(), json!(attached.end)).is_some() {
            return Err(format!(
                "--attach: the interface `{}` is given twice; allowed: once",
                attached.interface
            ));
        }
    }
    if !attach.is_empty() {
        spec.insert("attach".to_owned(), attach.into());
    }
    if let Some(memory) = &options.memory {
        spec.insert("memory".to_owned(), Value::from(memory.as_str()));
    }
    let cpu = [("weight", options.weight.map(Value::from)), ("cap", options.cap.clone().map(Value::from))];
    let cpu: Map<_, _> = cpu.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    if !cpu.is_empty() {
        match spec.get_mut("cpu").and_then(Value::as_object_mut) {
            Some(there) => there.extend(cpu),
            None => drop(spec.insert("cpu".to_owned(), cpu.into())),
        }
    }
    Ok(spec.into())
}

/// A refusal in the words of the command: what is meant by it, and where the wrong part stands.
fn refused(error: ClientError, name: &str) -> Failure {
    match error.problem().and_then(api::Problem::problem_type) {
        Some(ProblemType::PreconditionFailed) => Failure::new(
            format_args!("function/{name} is there already; `apply` and `upgrade` change functions"),
            Outcome::Failed,
        ),
        _ => error.into(),
    }
}

/// The object that a change made, once it is made. `None` when it goes on, which is told.
fn object_made(
    client: &Client,
    (waiting, progress): (&Waiting, Progress),
    answer: Answer<Written>,
    name: &str,
    format: Format,
) -> Result<Option<Object>, Failure> {
    let made = waiting.until_made(client, &progress, answer)?;
    drop(progress);
    match made {
        Made::Now(written) => Ok(Some(written.object)),
        Made::InTime(_) => Ok(Some(client.object(Kind::Function, name)?)),
        Made::Left(operation) => show_operation(&operation, format).map(|_| None),
    }
}

/// Says what a function is now.
fn tell(object: &Object, what: &str, format: Format) -> Done {
    match format {
        Format::Table | Format::Wide => {
            let state = function_status(object).map_or("", |status| status.state.as_str());
            let state = if state.is_empty() { String::new() } else { format!(", {state}") };
            print(&format!("{} {what}{state}\n", cell(&object.id().to_string())))
        }
        Format::Json | Format::Yaml => print(&one(&json!(object), format)),
    }
}

/// Asks for something with each of several functions.
fn each(
    names: &[String],
    client: &Client,
    what: &str,
    ask: impl Fn(&str) -> Result<Object, ClientError>,
) -> Done {
    for name in names {
        let progress = Progress::begin(&format!("changing function/{name}"), Format::Table);
        let asked = ask(name);
        drop(progress);
        let object = asked.map_err(|error| not_found(client, Kind::Function, name, error))?;
        tell(&object, what, Format::Table)?;
    }
    Ok(Outcome::Done)
}

pub(crate) fn pause(options: &NamedOptions) -> Done {
    let client = options.connection.client()?;
    each(&options.names, &client, "asked to pause", |name| client.pause(name, options.durable))
}

pub(crate) fn resume(options: &NamedOptions) -> Done {
    let client = options.connection.client()?;
    each(&options.names, &client, "asked to go on", |name| client.resume(name, options.durable))
}

pub(crate) fn restart(options: &RestartOptions) -> Done {
    let client = options.connection.client()?;
    each(&options.names, &client, "begins anew", |name| client.restart(name))
}

pub(crate) fn upgrade(options: &UpgradeOptions) -> Done {
    let mut spec = json!({"image": options.image});
    let config = configuration(&options.config).map_err(|wrong| Failure::new(wrong, Outcome::BadInput))?;
    if let Some(config) = config {
        spec["config"] = config;
    }
    Paths::new(Path::new("."), &options.connection).in_function(&mut spec);
    let client = options.connection.client()?;
    let config = spec.get("config").cloned();
    let image = spec["image"].as_str().unwrap_or(&options.image).to_owned();
    let name = &options.function;
    let change = Change { allow_restart: options.allow_restart, ..options.waiting.change() };
    let progress = Progress::begin(&format!("upgrading function/{name}"), options.shown.output);
    let answer = client
        .upgrade(name, &Upgrade { image, config }, &change)
        .map_err(|error| not_found(&client, Kind::Function, name, error))?;
    match object_made(&client, (&options.waiting, progress), answer, name, options.shown.output)? {
        Some(object) => tell(&object, "upgraded", options.shown.output),
        None => Ok(Outcome::Done),
    }
}

/// Longest bar, in characters.
const BAR: usize = 40;

/// What each step took.
#[derive(Default)]
struct Trace(Vec<(String, Duration)>);

impl Trace {
    fn add(&mut self, step: &str, time: Duration) {
        self.0.push((step.to_owned(), time));
    }

    fn time<T>(&mut self, step: &str, run: impl FnOnce() -> Result<T, ClientError>) -> Result<T, Failure> {
        let began = Instant::now();
        let ran = run()?;
        self.add(step, began.elapsed());
        Ok(ran)
    }

    /// An answer, and what the daemon told of its own time within.
    fn asked(&mut self, time: Duration, steps: &[Step]) {
        self.add("ask the daemon", time);
        for step in steps {
            self.add(&format!("  {}", cell(&step.name)), step.time);
        }
    }

    fn shown(&self, format: Format) -> String {
        let mut listing = Listing::new(&["STEP", "TIME", ""], &[]);
        let longest = self.0.iter().map(|(_, time)| time.as_secs_f64()).fold(f64::MIN_POSITIVE, f64::max);
        for (step, time) in &self.0 {
            let microseconds = time.as_secs_f64() * 1e6;
            let bar = (time.as_secs_f64() / longest * BAR as f64).round() as usize;
            listing.add(
                vec![step.clone(), format!("{microseconds:.0} us"), "#".repeat(bar.min(BAR))],
                json!({"step": step.trim_start(), "us": microseconds}),
            );
        }
        listing.shown(format)
    }
}
