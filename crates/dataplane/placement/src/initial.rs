//! The first assignment of units to workers, before anything is known of loads.

use crate::unit::Units;
use std::collections::VecDeque;

/// The worker of each unit.
pub(crate) fn place(units: &Units, workers: usize) -> Vec<usize> {
    let mut homes = anchored(units);
    // Functions, then parts on each worker.
    let mut counts = vec![(0, 0); workers];
    for (unit, home) in units.list.iter().zip(&homes) {
        if let Some(home) = home {
            counts[*home].0 += unit.instances;
            counts[*home].1 += unit.parts.len();
        }
    }
    let size = |component: &[usize]| {
        let sizes = component.iter().map(|unit| (units.list[*unit].instances, units.list[*unit].parts.len()));
        sizes.fold((0, 0), |(all, parts), (instances, more)| (all + instances, parts + more))
    };
    let is_free = |component: &&Vec<usize>| component.iter().all(|unit| homes[*unit].is_none());
    let mut free: Vec<_> = units.components.iter().filter(is_free).collect();
    // The largest first, because the small ones fill what is left; among equals in their order.
    free.sort_by_key(|component| std::cmp::Reverse(size(component)));
    for component in free {
        let (instances, parts) = size(component);
        let fewest = (0..workers).min_by_key(|worker| counts[*worker]).unwrap_or(0);
        counts[fewest].0 += instances;
        counts[fewest].1 += parts;
        component.iter().for_each(|unit| homes[*unit] = Some(fewest));
    }
    homes.into_iter().map(Option::unwrap_or_default).collect()
}

/// Units that are pinned and those that are somewhere already stay there. A unit that is connected with one
/// of them goes where the nearest is.
fn anchored(units: &Units) -> Vec<Option<usize>> {
    let mut homes: Vec<_> = units.list.iter().map(|unit| unit.pinned.or(unit.at)).collect();
    let mut ways: VecDeque<usize> = (0..homes.len()).filter(|unit| homes[*unit].is_some()).collect();
    while let Some(unit) = ways.pop_front() {
        for &other in &units.list[unit].beside {
            if homes[other].is_none() {
                homes[other] = homes[unit];
                ways.push_back(other);
            }
        }
    }
    homes
}
