//! What requests asked for whose responses have not come: whether a response has a body depends on it.

use super::http::Asked;
use alloc::collections::VecDeque;

/// Most changes from one kind of request to another that are noted: of the same kind there may be any number.
const MAX_RUNS: usize = 64;

/// Requests that wait for their response, in order.
#[derive(Debug, Default)]
pub struct Queue {
    runs: VecDeque<(Asked, u32)>,
    /// There were more than could be noted: what comes behind those that were is not known.
    is_lost: bool,
}

impl Queue {
    /// Notes a request.
    pub fn push(&mut self, asked: Asked) {
        if self.is_lost {
            return;
        }
        if let Some((kind, count)) = self.runs.back_mut()
            && *kind == asked
            && *count < u32::MAX
        {
            *count += 1;
        } else if self.runs.len() < MAX_RUNS {
            self.runs.push_back((asked, 1));
        } else {
            self.is_lost = true;
        }
    }

    /// What the next response answers: without a known request something with a body; `None` when it is not
    /// known.
    pub fn pop(&mut self) -> Option<Asked> {
        let Some((asked, count)) = self.runs.front_mut() else {
            return (!self.is_lost).then_some(Asked::Other);
        };
        let asked = *asked;
        *count -= 1;
        if *count == 0 {
            self.runs.pop_front();
        }
        Some(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_requests_of_a_kind_and_no_guess_beyond_the_last_that_is_noted() {
        let mut queue = Queue::default();
        assert_eq!(queue.pop(), Some(Asked::Other));
        for _ in 0..1000 {
            queue.push(Asked::Other);
        }
        queue.push(Asked::Head);
        assert!((0..1000).all(|_| queue.pop() == Some(Asked::Other)));
        assert_eq!((queue.pop(), queue.pop()), (Some(Asked::Head), Some(Asked::Other)));
        for number in 0..100 {
            queue.push(if number % 2 == 0 { Asked::Head } else { Asked::Other });
        }
        assert!(
            (0..MAX_RUNS)
                .all(|number| queue.pop().is_some_and(|asked| (asked == Asked::Head) == (number % 2 == 0)))
        );
        assert_eq!(queue.pop(), None);
    }
}
