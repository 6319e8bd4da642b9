//! What has changed about one file of a function's configuration, for a function that takes that while it
//! runs: lines that went and lines that came.
//!
//! Both files are read side by side; a line more or less in one of them is skipped there. What differs then
//! is counted by line, so that lines that have only moved are no difference.
//!
//! Limits: one file, and nothing else of the function; lines of at most [`MAX_LINE`] bytes; no more lines
//! than half of the file has, and some. With anything else the function gets another guest.

use nf_abi::change::MAX_LINE;
use schema::Value;
use std::collections::HashMap;
use wiring::Instance;

/// Lines that may differ in a file of any length.
const FEW: usize = 1024;

/// What the function is to read (`nf_abi::stream::CHANGE`), if it can take what makes `after` of `before`
/// while it runs: of the files that it names nothing but one differs.
pub(crate) fn of(mut before: Instance, mut after: Instance, files: &[String]) -> Option<Vec<u8>> {
    let configs = [&mut before, &mut after].map(|it| std::mem::replace(&mut it.config, Value::empty()));
    if before != after {
        return None;
    }
    let [Value::Map(before), Value::Map(after)] = &configs else { return None };
    let keys = |map: &schema::Map| map.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
    if keys(before) != keys(after) {
        return None;
    }
    let mut differing = before.iter().zip(after.iter()).filter(|((_, old), (_, new))| old != new);
    let ((key, Value::File(_, old)), (_, Value::File(_, new))) = differing.next()? else { return None };
    if differing.next().is_some() || !files.iter().any(|file| file == key) {
        return None;
    }
    lines(key, old, new)
}

/// The lines of a file, without their ends.
fn split(text: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    text.split(|byte| *byte == b'\n')
}

/// What went and what came, in the order of the files.
fn lines(key: &str, before: &[u8], after: &[u8]) -> Option<Vec<u8>> {
    let (mut old, mut new) = (split(before), split(after));
    let (mut gone, mut come, mut same) = (Vec::new(), Vec::new(), 0);
    let (mut a, mut b) = (old.next(), new.next());
    loop {
        match (a, b) {
            (None, None) => break,
            (Some(x), Some(y)) if x == y => {
                same += 1;
                (a, b) = (old.next(), new.next());
            }
            (Some(x), _) if b.is_none() || old.clone().next() == b => {
                gone.push(x);
                a = old.next();
            }
            (_, Some(y)) if a.is_none() || new.clone().next() == a => {
                come.push(y);
                b = new.next();
            }
            (Some(x), Some(y)) => {
                gone.push(x);
                come.push(y);
                (a, b) = (old.next(), new.next());
            }
            (Some(_), None) | (None, Some(_)) => return None,
        }
    }
    let mut counts: HashMap<&[u8], i32> = HashMap::with_capacity(gone.len());
    gone.iter().for_each(|line| *counts.entry(line).or_default() -= 1);
    come.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    let most = (same + come.len()) / 2 + FEW;
    let mut out = [key.as_bytes(), b"\n"].concat();
    let mut told = 0;
    for (sign, one, lines) in [(b'-', -1, &gone), (b'+', 1, &come)] {
        for line in lines {
            let Some(count) = counts.get_mut(line).filter(|count| count.signum() == one) else { continue };
            *count -= one;
            told += 1;
            if told > most || line.len() > MAX_LINE {
                return None;
            }
            out.push(sign);
            out.extend_from_slice(line);
            out.push(b'\n');
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(before: &str, after: &str) -> Option<String> {
        lines("k", before.as_bytes(), after.as_bytes()).map(|out| String::from_utf8(out).expect("text"))
    }

    #[test]
    fn lines_that_went_and_came_are_told() {
        assert_eq!(told("a\nb\nc\n", "a\nx\nc\n").as_deref(), Some("k\n-b\n+x\n"));
        assert_eq!(told("a\nb\nc\n", "a\nc\n").as_deref(), Some("k\n-b\n"));
        assert_eq!(told("a\nc\n", "a\nb\nc\nd\n").as_deref(), Some("k\n+b\n+d\n"));
        assert_eq!(told("a\nb\nc\n", "c\nb\na\n").as_deref(), Some("k\n"), "moved");
        assert_eq!(told("a\na\n", "a\n").as_deref(), Some("k\n-a\n"), "one of two");
        assert_eq!(told("", "a").as_deref(), Some("k\n-\n+a\n"), "an empty line says nothing");
    }

    #[test]
    fn what_is_too_much_is_read_anew() {
        let many = |n: usize, of: &str| (0..n).map(|n| format!("{of}{n}\n")).collect::<String>();
        assert!(told(&many(10_000, "a"), &many(10_000, "b")).is_none());
        let half = many(10_000, "a") + &many(4_000, "b");
        assert!(told(&many(10_000, "a"), &half).is_some());
        assert!(told("a\n", &"x".repeat(MAX_LINE + 1)).is_none());
        assert!(told("a\n", &"x".repeat(MAX_LINE)).is_some());
    }

    proptest! {
        /// What is told makes the one of the other, as far as lines go.
        #[test]
        fn the_difference_makes_one_file_of_the_other(before in "[ab\n]{0,40}", after in "[ab\n]{0,40}") {
            let mut counts: HashMap<&str, i32> = HashMap::new();
            before.split('\n').for_each(|line| *counts.entry(line).or_default() += 1);
            let told = told(&before, &after).expect("little");
            for line in told.strip_prefix("k\n").expect("the key").lines() {
                let (sign, line) = line.split_at(1);
                *counts.entry(line).or_default() += if sign == "+" { 1 } else { -1 };
            }
            after.split('\n').for_each(|line| *counts.entry(line).or_default() -= 1);
            prop_assert!(counts.values().all(|count| *count == 0), "{:?}", counts);
        }
    }
}
