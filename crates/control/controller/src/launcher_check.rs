//! Whether the launcher would start what a change wants, asked before the change is made: what its file does
//! not allow, and an image that is not there or is not what it is pinned to, is told with its place, and
//! nothing is changed.
//!
//! 1. Containers that a change brings are compared with those that the launcher has said yes to a moment ago
//!    ([`Answered`]).
//! 2. Of the others it is asked, as work before the change, in the account of the tenant whose change it is;
//!    it checks and starts nothing. Then the change is prepared again.
//! 3. A launcher that is not there, does not answer within 5 s, or does not know the question keeps no
//!    change back: the function's state says how it is, as for one that ends later.
//!
//! A tenant's check, which changes nothing and may be asked for without end, puts one question at a time, and
//! what the launcher has worked for it is charged to the tenant.
//!
//! What it says, and what of it a tenant is told, is in [`launcher_question`](super::launcher_question).
//!
//! Limits: what was allowed is asked for again when the container is started.

use super::containers::wanted_containers;
use super::controller::{Controller, lock};
use super::launcher_question::{Said, WITHIN, ask, faults};
use super::shelf::artifact;
use api::{Fault, Kind};
use api_server::{ObjectChange, Refusal, Work};
use launcher::Start;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wiring::{Plan, Wiring};

/// How long an answer counts: from the question to the end of the change.
const COUNTS: Duration = Duration::from_secs(60);
/// Tenants whose checks ask at a time: the launcher takes so many connections of the daemon's, and starts
/// have to find one.
const ASKING: usize = 16;
/// Most answers that are remembered, more than one change has containers.
const MOST: usize = 65_536;

/// Starts that the launcher has been asked of lately, and has nothing against.
#[derive(Default)]
pub(super) struct Answered {
    by: RandomState,
    at: Mutex<HashMap<u64, Instant>>,
    turns: Turns,
}

impl Answered {
    fn key(&self, start: &Start) -> u64 {
        self.by.hash_one(serde_json::to_vec(start).unwrap_or_default())
    }

    fn has(&self, start: &Start) -> bool {
        let key = self.key(start);
        lock(&self.at).get(&key).is_some_and(|at| at.elapsed() < COUNTS)
    }

    fn note(&self, start: &Start) {
        let key = self.key(start);
        let mut at = lock(&self.at);
        at.retain(|_, at| at.elapsed() < COUNTS);
        if at.len() >= MOST {
            at.clear();
        }
        at.insert(key, Instant::now());
    }
}

/// The turns in which tenants' checks ask.
#[derive(Default)]
struct Turns {
    asking: Mutex<BTreeSet<String>>,
    over: Condvar,
}

/// A tenant's turn, which is over when this is dropped.
struct Turn<'a>(&'a Turns, &'a str);

impl Turns {
    /// Asks when it is a tenant's turn; `None`: it has not come within that time.
    fn take<T>(&self, tenant: &str, within: Duration, ask: impl FnOnce() -> T) -> Option<T> {
        let is_taken = |asking: &mut BTreeSet<String>| asking.contains(tenant) || asking.len() >= ASKING;
        let begins = offload::waiting(|| {
            let waited = self.over.wait_timeout_while(lock(&self.asking), within, is_taken);
            let mut asking = waited.unwrap_or_else(PoisonError::into_inner).0;
            !is_taken(&mut asking) && asking.insert(tenant.to_owned())
        });
        let _turn = begins.then(|| Turn(self, tenant))?;
        Some(ask())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.asking).remove(self.1);
        self.0.over.notify_all();
    }
}

impl Controller {
    /// What the launcher would be asked to start for a plan, of what has its image here.
    fn starts_of(&self, plan: &Plan) -> Vec<Start> {
        if plan.add_containers.is_empty() {
            return Vec::new();
        }
        let workers = plan.workers.clone().unwrap_or_else(|| self.host.wiring().workers.clone());
        let containers = plan.add_containers.clone();
        let part = Wiring { workers, containers, ..Wiring::default() };
        let layout = |tenant: &str, image: &str| self.shelf.container_layout(tenant, image);
        let here = |name: &str| {
            let container = part.containers.get(name)?;
            let is_elsewhere =
                artifact(&container.image).is_some() && layout(&container.tenant, &container.image).is_none();
            (!is_elsewhere).then_some(())
        };
        let wanted = wanted_containers(&part, &self.catalog, layout);
        // Those that stand by are as the first one is.
        wanted.into_iter().filter(|(name, _)| here(name).is_some()).map(|(_, wanted)| wanted.start).collect()
    }

    /// What the launcher has to be asked before a change is made; `None`: nothing.
    pub(super) fn launcher_work(&self, plan: &Plan, changes: &[ObjectChange]) -> Option<Refusal> {
        let starts = self.starts_of(plan);
        let starts: Vec<Start> = starts.into_iter().filter(|start| !self.answered.has(start)).collect();
        if starts.is_empty() {
            return None;
        }
        let asked = Question { socket: self.launcher.clone(), specs: specs(changes), starts };
        let answered = self.answered.clone();
        Some(Refusal::Work(Work {
            what: "asking the launcher".to_owned(),
            run: Box::new(move || asked.put(&answered).map(drop)),
        }))
    }

    /// What the launcher has against a change that is only checked; warnings of what it did not answer. It is
    /// waited for as a job of a tenant's, unless one waits already.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(super) fn launcher_check(
        &self,
        plan: &Plan,
        changes: &[ObjectChange],
        tenant: Option<&str>,
    ) -> Result<Vec<Fault>, Refusal> {
        let starts = self.starts_of(plan);
        let Some(first) = starts.first() else { return Ok(Vec::new()) };
        let whose = first.tenant.clone();
        let asked = Question { socket: self.launcher.clone(), specs: specs(changes), starts };
        let answered = self.answered.clone();
        let put = move || asked.put(&answered);
        let busy = "the launcher is being asked for other checks of the tenant's; try it again later";
        match tenant {
            Some(name) => {
                let told = self.answered.turns.take(name, WITHIN, put);
                told.ok_or_else(|| Refusal::Busy(busy.to_owned()))?
            }
            None => self.requests.run(&whose, put).map_err(|refused| Refusal::Busy(refused.to_string()))?,
        }
    }
}

/// What changed functions are to be, by name.
fn specs(changes: &[ObjectChange]) -> HashMap<String, Value> {
    let functions = changes.iter().filter(|change| change.kind == Kind::Function);
    functions.filter_map(|change| Some((change.name.clone(), change.spec.clone()?))).collect()
}

/// What is asked of the launcher.
struct Question {
    socket: PathBuf,
    specs: HashMap<String, Value>,
    starts: Vec<Start>,
}

impl Question {
    /// Asks of each; warnings of what was not answered.
    fn put(self, answered: &Answered) -> Result<Vec<Fault>, Refusal> {
        let until = Instant::now() + WITHIN;
        let (mut warnings, mut all, mut of_tenant) = (Vec::new(), Vec::new(), Vec::new());
        for start in &self.starts {
            match ask(&self.socket, start, until) {
                Said::Yes => answered.note(start),
                Said::No(reason) | Said::NotServed(reason) => {
                    let (told, untold) = faults(&start.name, self.specs.get(&start.name), &reason);
                    all.push(told);
                    of_tenant.push(untold);
                }
                Said::Nothing(why) => {
                    answered.note(start);
                    warnings.push(Fault::of_request(
                        format!("functions.{}", start.name),
                        format!("whether it may be started is not checked: {why}"),
                    ));
                }
            }
        }
        match all.is_empty() {
            true => Ok(warnings),
            false => Err(Refusal::Launcher { all, of_tenant }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_counts_for_the_same_start_alone() {
        let answered = Answered::default();
        let start = |memory: u64| -> Start {
            let limits = json!({"memory": memory});
            serde_json::from_value(json!({"name": "web", "tenant": "red", "limits": limits}))
                .expect("a start")
        };
        answered.note(&start(1));
        assert!(answered.has(&start(1)) && !answered.has(&start(2)));
    }

    #[test]
    fn a_tenants_checks_ask_in_turn_and_keep_no_other_from_asking() {
        let turns = Turns::default();
        let none = Duration::ZERO;
        turns.take("red", none, || {
            assert_eq!(turns.take("red", none, || ()), None, "one at a time");
            assert_eq!(turns.take("blue", none, || ()), Some(()));
        });
        assert_eq!(turns.take("red", none, || ()), Some(()), "its turn is over");
        fn nested(turns: &Turns, number: usize) -> usize {
            turns.take(&number.to_string(), Duration::ZERO, || nested(turns, number + 1)).unwrap_or(number)
        }
        assert_eq!(nested(&turns, 0), ASKING);
        assert!(lock(&turns.asking).is_empty());
        std::thread::scope(|scope| {
            turns.take("red", none, || {
                scope.spawn(|| assert_eq!(turns.take("red", Duration::from_secs(20), || ()), Some(())));
            });
        });
    }

    #[test]
    fn what_the_launcher_works_for_a_question_is_charged_to_the_tenant() {
        use std::io::{BufRead, BufReader, Write};
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("launcher.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("it listens");
        let start: Start =
            serde_json::from_value(json!({"name": "web", "tenant": "red", "limits": {"memory": 1}}))
                .expect("a start");
        let works = Duration::from_millis(50);
        let answers = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            BufReader::new(&stream).read_line(&mut String::new()).expect("a request");
            std::thread::sleep(works);
            stream.write_all(b"{\"done\":null}\n").expect("it reads");
        });
        let offload = offload::Offload::new(&offload::Settings::default()).expect("threads");
        let until = Instant::now() + Duration::from_secs(20);
        let path = socket.clone();
        assert_eq!(offload.run("red", move || ask(&path, &start, until)), Ok(Said::Yes));
        answers.join().expect("it answered");
        assert!(offload.usage("red").used >= works.into(), "{:?}", offload.usage("red"));
    }

    #[test]
    fn a_launcher_that_is_not_there_or_says_nothing_keeps_nothing_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("launcher.sock");
        let start: Start =
            serde_json::from_value(json!({"name": "web", "tenant": "red", "limits": {"memory": 1}}))
                .expect("a start");
        let soon = || Instant::now() + Duration::from_millis(50);
        assert!(matches!(ask(&socket, &start, soon()), Said::Nothing(_)), "there is none");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("it listens");
        assert!(matches!(ask(&socket, &start, soon()), Said::Nothing(_)), "it does not answer");
        drop(listener);
        let question = |starts| Question { socket: socket.clone(), specs: HashMap::new(), starts };
        let answered = Answered::default();
        let warnings = question(vec![start.clone()]).put(&answered).expect("it is not kept back");
        assert!(warnings[0].message.contains("is not checked"), "{warnings:?}");
        assert!(answered.has(&start), "it is not asked again at once");
    }
}
