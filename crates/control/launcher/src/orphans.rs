//! Processes that nothing waits for: those whose parent, an OCI runtime, was killed become the launcher's
//! children, as first processes of guests do that a watch waits for. What has ended and is not taken note of
//! keeps its number, and the process namespace of its guest with it, for as long as the launcher lives.

use rustix::process::{Pid, WaitOptions, waitpid};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How often they are looked for.
const EVERY: Duration = Duration::from_secs(2);
/// What waits for a process takes note of its end at once. Those that have ended so long ago are none's.
const LEFT_FOR: Duration = Duration::from_secs(10);

/// Takes note of them, as long as the launcher runs.
pub(crate) fn begin() -> io::Result<()> {
    let look = || {
        let mut ended = Ended::default();
        loop {
            std::thread::sleep(EVERY);
            for pid in ended.left(zombies(), Instant::now()) {
                // It may have been waited for meanwhile.
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
    };
    Builder::new().name("orphans".into()).spawn(look).map(drop)
}

/// Since when children have ended, as far as they were seen.
#[derive(Debug, Default)]
struct Ended(BTreeMap<i32, Instant>);

impl Ended {
    /// Those of the children which have ended by now that had ended long ago.
    fn left(&mut self, now_ended: Vec<i32>, now: Instant) -> Vec<Pid> {
        self.0.retain(|pid, _| now_ended.contains(pid));
        for pid in now_ended {
            self.0.entry(pid).or_insert(now);
        }
        let long = self.0.iter().filter(|(_, since)| now.saturating_duration_since(**since) >= LEFT_FOR);
        long.filter_map(|(pid, _)| Pid::from_raw(*pid)).collect()
    }
}

/// Children of all threads that have ended (proc(5), `children` and `stat`). A kernel that does not list them
/// has none.
fn zombies() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<String> =
        lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    let has_ended = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name, which may have anything in it.
        stat.rsplit_once(')').is_some_and(|(_, behind)| behind.trim_start().starts_with('Z'))
    };
    children.iter().filter(|pid| has_ended(pid)).filter_map(|pid| pid.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn children_that_have_ended_are_left_when_nothing_takes_note_of_them() {
        let mut child = Command::new("true").spawn().expect("it starts");
        let pid = i32::try_from(child.id()).expect("a number");
        let begin = Instant::now();
        while !zombies().contains(&pid) {
            assert!(begin.elapsed() < Duration::from_secs(20), "it is not seen: {:?}", zombies());
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut ended = Ended::default();
        assert_eq!(ended.left(vec![pid, 7], begin), []);
        assert_eq!(ended.left(vec![pid], begin + LEFT_FOR / 2), [], "what waits for it may be late");
        assert_eq!(
            ended.left(vec![pid, 7], begin + LEFT_FOR),
            Pid::from_raw(pid).into_iter().collect::<Vec<_>>()
        );
        child.wait().expect("it ends");
        assert!(!zombies().contains(&pid));
        assert_eq!(ended.left(Vec::new(), begin + 2 * LEFT_FOR), []);
        assert_eq!(ended.left(vec![pid], begin + 3 * LEFT_FOR), [], "another process of that number");
    }
}
