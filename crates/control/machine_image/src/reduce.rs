//! Which options of a kernel a program does without: each is left out, in turn or by halves, and stays out if
//! the program's test passes without it.
//!
//! 1. The kernel with all options has to work: otherwise the test says nothing.
//! 2. [`Search::next`] says what is left out in the next trial: what is out already, and one more option, or
//!    a group of them. [`Search::note`] takes what came of it.
//! 3. [`Journal`] has the outcome of each trial, written before the next one begins. A search that is begun
//!    again asks it first, so that nothing is tried twice, whenever it was ended.

use crate::{BuildError, OPTIONS_MAX};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// How options are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Each alone: as many trials as there are options.
    One,
    /// All, and of those that cannot go together, each half: fewer trials where most can go.
    #[default]
    Halves,
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The program's test passed.
    Works,
    /// It did not, or there was nothing to boot; why.
    Fails(String),
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Options that the program does without, all together.
    pub left_out: Vec<String>,
    /// Those that it needs.
    pub kept: Vec<String>,
    /// Trials that were made, and those of an earlier search that were not made again.
    pub trials: (usize, usize),
}

/// A search, without what carries its trials out.
#[derive(Clone, Debug)]
pub struct Search {
    /// Groups that have not been tried, the next one first.
    groups: VecDeque<Vec<String>>,
    out: Vec<String>,
    kept: Vec<String>,
    /// Everything has been shown to work with all options.
    begun: bool,
}

impl Search {
    /// A search among these options, in this order.
    pub fn new(options: &[String], by: By) -> Search {
        let mut seen = BTreeSet::new();
        let options: Vec<String> = options.iter().filter(|name| seen.insert(*name)).cloned().collect();
        let groups = match by {
            By::One => options.into_iter().map(|name| vec![name]).collect(),
            By::Halves if options.is_empty() => VecDeque::new(),
            By::Halves => VecDeque::from([options]),
        };
        Search { groups, out: Vec::new(), kept: Vec::new(), begun: false }
    }

    /// What the next trial leaves out; `None`: all is known.
    pub fn next(&self) -> Option<Vec<String>> {
        if !self.begun {
            return Some(Vec::new());
        }
        let group = self.groups.front()?;
        Some(self.out.iter().chain(group).cloned().collect())
    }

    /// Takes the outcome of the trial that [`next`](Search::next) said; false if the search is of no use.
    pub fn note(&mut self, works: bool) -> bool {
        if !self.begun {
            self.begun = true;
            return works;
        }
        let Some(mut group) = self.groups.pop_front() else { return true };
        match (works, group.len()) {
            (true, _) => self.out.append(&mut group),
            (false, 0 | 1) => self.kept.append(&mut group),
            (false, length) => {
                let second = group.split_off(length / 2);
                self.groups.push_front(second);
                self.groups.push_front(group);
            }
        }
        true
    }

    /// How many options are not decided.
    pub fn left(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }
}

/// What the first line of a journal begins with.
const FORMAT: &str = "superfluid-vm-reduce 1 ";

/// Outcomes of trials, on disk.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    outcomes: BTreeMap<String, bool>,
}

impl Journal {
    /// Opens a file for the search that `key` names: everything that outcomes depend on. One of another
    /// search
    /// begins anew. A line that was not written to its end does not count.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(path: &Path, key: &str) -> Result<Journal, BuildError> {
        let failed = || BuildError::file(path);
        let mut bytes = Vec::new();
        let text = match local_file::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed()(error)),
        };
        let head = format!("{FORMAT}{key}\n");
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        let rest = text[..whole].strip_prefix(&head);
        let mut outcomes = BTreeMap::new();
        let mut kept = head.clone();
        for line in rest.unwrap_or_default().lines() {
            let (works, names) = match line.split_once(' ') {
                Some(("works", names)) => (true, names),
                Some(("fails", names)) => (false, names),
                // What follows was not written by this program.
                _ => break,
            };
            outcomes.insert(names.to_owned(), works);
            kept.push_str(line);
            kept.push('\n');
        }
        if kept != text {
            let begun = path.with_extension("begun");
            fs::write(&begun, &kept).map_err(BuildError::file(&begun))?;
            fs::rename(&begun, path).map_err(failed())?;
        }
        let file = local_file::open_with(path, File::options().append(true)).map_err(failed())?;
        Ok(Journal { path: path.to_owned(), file, outcomes })
    }

    fn line(left_out: &[String]) -> String {
        let mut names: Vec<&str> = left_out.iter().map(String::as_str).collect();
        names.sort_unstable();
        names.join(",")
    }

    /// What is known of a trial.
    pub fn outcome(&self, left_out: &[String]) -> Option<bool> {
        self.outcomes.get(&Journal::line(left_out)).copied()
    }

    /// Writes an outcome down; it is on the disk when this returns.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note(&mut self, left_out: &[String], works: bool) -> Result<(), BuildError> {
        let names = Journal::line(left_out);
        let line = format!("{} {names}\n", if works { "works" } else { "fails" });
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(BuildError::file(&self.path))?;
        self.outcomes.insert(names, works);
        Ok(())
    }
}

/// Leaves options out, and says whether what is left works; it is told how many are left to be decided.
pub type Trial<'a> = dyn FnMut(&[String], usize) -> Result<Outcome, BuildError> + 'a;

/// Searches to the end. `trial` leaves options out, and says whether what is left works; it is called with
/// what is left to be decided as well.
///
/// # Errors
/// Nothing works with all options, or a trial could not be carried out.
pub fn search(
    options: &[String],
    by: By,
    journal: &mut Journal,
    trial: &mut Trial<'_>,
) -> Result<Found, BuildError> {
    if options.len() > OPTIONS_MAX {
        return Err(BuildError::input(
            "options to leave out",
            options.len(),
            format!("at most {OPTIONS_MAX}"),
        ));
    }
    let mut search = Search::new(options, by);
    let mut trials = (0, 0);
    while let Some(left_out) = search.next() {
        let works = match journal.outcome(&left_out) {
            Some(works) => {
                trials.1 += 1;
                works
            }
            None => {
                trials.0 += 1;
                let outcome = trial(&left_out, search.left())?;
                if let (Outcome::Fails(why), true) = (&outcome, left_out.is_empty()) {
                    // It is not written down: what it depends on may be put right.
                    return Err(BuildError::Test(why.clone()));
                }
                journal.note(&left_out, outcome == Outcome::Works)?;
                outcome == Outcome::Works
            }
        };
        search.note(works);
    }
    Ok(Found { left_out: search.out, kept: search.kept, trials })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("O{number}")).collect()
    }

    /// A program that needs these options, and one of each of these pairs.
    #[derive(Clone, Debug)]
    struct Simulated {
        needs: BTreeSet<String>,
        pairs: Vec<(String, String)>,
    }

    impl Simulated {
        fn works_without(&self, left_out: &[String]) -> bool {
            let out = |name: &String| left_out.contains(name);
            !self.needs.iter().any(out) && !self.pairs.iter().any(|(a, b)| out(a) && out(b))
        }

        /// Searches; ended before trial number `end`, counted from zero. The outcomes that were asked for.
        fn search(
            &self,
            options: &[String],
            by: By,
            path: &Path,
            end: usize,
        ) -> (Result<Found, BuildError>, usize) {
            let mut journal = Journal::open(path, "test").expect("opened");
            let mut asked = 0;
            let found = search(options, by, &mut journal, &mut |left_out, _| {
                if asked == end {
                    return Err(BuildError::Unclear("ended".to_owned()));
                }
                asked += 1;
                Ok(match self.works_without(left_out) {
                    true => Outcome::Works,
                    false => Outcome::Fails("it does not answer".to_owned()),
                })
            });
            (found, asked)
        }
    }

    fn simulated(count: usize, needs: &[usize], pairs: &[(usize, usize)]) -> (Vec<String>, Simulated) {
        let options = names(count);
        let needs = needs.iter().map(|number| options[number % count].clone()).collect();
        let pairs =
            pairs.iter().map(|(a, b)| (options[a % count].clone(), options[b % count].clone())).collect();
        (options.clone(), Simulated { needs, pairs })
    }

    #[test]
    fn halves_take_few_trials_where_most_can_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let (options, program) = simulated(64, &[5], &[]);
        let (found, asked) = program.search(&options, By::Halves, &folder.path().join("halves"), usize::MAX);
        let found = found.expect("found");
        assert_eq!((found.kept, found.left_out.len()), (vec!["O5".to_owned()], 63));
        assert!(asked <= 2 + 2 * 6, "{asked}");
        let (found, asked) = program.search(&options, By::One, &folder.path().join("one"), usize::MAX);
        assert_eq!((found.expect("found").left_out.len(), asked), (63, 65));
    }

    #[test]
    fn a_kernel_that_never_works_is_said_and_not_written_down() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&path, "x").expect("opened");
        let failing =
            search(&names(3), By::Halves, &mut journal, &mut |_, _| Ok(Outcome::Fails("no answer".into())));
        assert!(matches!(failing, Err(BuildError::Test(why)) if why == "no answer"));
        let found =
            search(&names(3), By::Halves, &mut journal, &mut |_, _| Ok(Outcome::Works)).expect("found");
        assert_eq!((found.left_out.len(), found.trials), (3, (2, 0)));
        // The same again asks nothing; another search does.
        let mut journal = Journal::open(&path, "x").expect("opened");
        let never = &mut |_: &[String], _: usize| -> Result<Outcome, BuildError> { panic!("it is known") };
        assert_eq!(search(&names(3), By::Halves, &mut journal, never).expect("found").trials, (0, 2));
        let mut journal = Journal::open(&path, "y").expect("opened");
        assert_eq!(journal.outcome(&[]), None);
        journal.note(&[], true).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "superfluid-vm-reduce 1 y\nworks \n");
    }

    /// Whatever byte was the last that reached the disk, the search goes on to the same end.
    #[test]
    fn a_search_that_was_ended_in_the_middle_of_a_line_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let (options, program) = simulated(9, &[2, 7], &[(3, 4)]);
        let path = folder.path().join("journal");
        let whole = program.search(&options, By::Halves, &path, usize::MAX).0.expect("found");
        let all = whole.trials.0 + whole.trials.1;
        let bytes = fs::read(&path).expect("there");
        for length in 0..=bytes.len() {
            fs::write(&path, &bytes[..length]).expect("written");
            let (found, asked) = program.search(&options, By::Halves, &path, usize::MAX);
            let found = found.expect("found");
            assert_eq!((&found.left_out, &found.kept), (&whole.left_out, &whole.kept), "{length}");
            assert_eq!(asked + found.trials.1, all, "{length}");
            assert_eq!(fs::read(&path).expect("there"), bytes, "{length}");
        }
        fs::write(&path, [&bytes[..40], b"\nnoise\xff\nworks O1\n"].concat()).expect("written");
        let (found, _) = program.search(&options, By::Halves, &path, usize::MAX);
        assert_eq!(found.expect("found").left_out, whole.left_out, "what is no journal is not believed");
    }

    proptest! {
        /// What is left out works, and nothing that was kept can go beside it; and a search that was ended
        /// before any of its trials, twice, finds the same and tries nothing again.
        #[test]
        fn what_is_found_is_minimal_and_the_same_after_an_end_at_any_trial(
            count in 1usize..24,
            needs in proptest::collection::vec(0usize..24, 0..6),
            pairs in proptest::collection::vec((0usize..24, 0usize..24), 0..4),
            one in any::<bool>(),
            ends in (0usize..60, 0usize..60),
        ) {
            let (options, program) = simulated(count, &needs, &pairs);
            let by = if one { By::One } else { By::Halves };
            let folder = tempfile::tempdir().expect("a folder");
            let (whole, all) = program.search(&options, by, &folder.path().join("whole"), usize::MAX);
            let whole = whole.expect("found");
            prop_assert!(program.works_without(&whole.left_out));
            prop_assert_eq!(whole.left_out.len() + whole.kept.len(), count);
            for name in &whole.kept {
                let mut more = whole.left_out.clone();
                more.push(name.clone());
                prop_assert!(!program.works_without(&more), "{} could go", name);
            }
            let path = folder.path().join("ended");
            let (first, asked) = program.search(&options, by, &path, ends.0);
            let (second, more) = program.search(&options, by, &path, ends.1);
            let (last, rest) = program.search(&options, by, &path, usize::MAX);
            let last = last.expect("found");
            prop_assert_eq!(asked + more + rest, all);
            prop_assert_eq!(&last.left_out, &whole.left_out);
            prop_assert_eq!(&last.kept, &whole.kept);
            prop_assert!(first.is_ok() == (ends.0 >= all) && second.is_ok() == (asked + ends.1 >= all));
        }
    }
}
