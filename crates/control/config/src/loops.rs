//! Wires that lead back to where they began.
//!
//! A loop is refused. Two ways between switches are a warning: a function on one of them may end frames, as a
//! router does, and what goes round nevertheless is ended by the hop budget.

use crate::read::Reader;
use wiring::{Detour, Endpoint, Loop};
use yaml_document::{Fault, Location, Position};

impl Reader<'_> {
    /// Refuses loops, and warns of ways that may be some.
    pub(crate) fn loops(&mut self, root_place: &Location<'_>) {
        let faults: Vec<Fault> = self.wiring.loops().iter().map(|it| self.refused(root_place, it)).collect();
        self.faults.extend(faults);
        // A part shows none of the other ways, and nothing is told of what it warns of.
        if !self.whole {
            return;
        }
        let warnings: Vec<Fault> =
            self.wiring.detours().iter().map(|it| self.warned(root_place, it)).collect();
        self.warnings.extend(warnings);
    }

    fn refused(&self, root_place: &Location<'_>, found: &Loop) -> Fault {
        let Loop { first, second, hub } = found;
        let other = self.other(first, second);
        let place = root_place.key("functions", root_place.position());
        place.key(second.function(), self.at(second, root_place)).fault(match hub {
            Some(hub) => {
                let kind = if self.wiring.switches.contains_key(hub) { "switch" } else { "device" };
                format!(
                    "`{second}` and {other} are both at the {kind} `{hub}`, and what comes by one leaves by the other, so that \
                     frames would go round; allowed: one of them"
                )
            }
            None => format!(
                "`{second}` and {other} lead into each other: no packet gets there, and one that did would go round; allowed: a \
                 port, a switch or a device at the end of what is wired"
            ),
        })
    }

    fn warned(&self, root_place: &Location<'_>, found: &Detour) -> Fault {
        let Detour { first, second, hubs: [from, to] } = found;
        let other = self.other(first, second);
        let place = root_place.key("functions", root_place.position());
        place.key(second.function(), self.at(second, root_place)).fault(format!(
            "`{second}` leads from `{from}` to `{to}`, and so does {other}: frames go round unless a function on one of the two \
             ways ends them, as a router does; what went round is dropped (hop-budget)"
        ))
    }

    /// An interface, and where its wire is said. The name of another tenant's function is nothing to the one
    /// whose fault it is.
    fn other(&self, first: &Endpoint, second: &Endpoint) -> String {
        let tenant = |end: &Endpoint| {
            let instance = self.wiring.instances.get(end.name()).map(|it| &it.tenant);
            instance.or_else(|| self.wiring.ports.get(end.name()).map(|it| &it.tenant))
        };
        match (tenant(first) == tenant(second), self.wired.get(first)) {
            (false, _) => "another tenant's function".to_owned(),
            (true, Some((at, _))) => format!("`{first}`{}", at.in_line(" ")),
            (true, None) => format!("`{first}`"),
        }
    }

    fn at(&self, end: &Endpoint, root_place: &Location<'_>) -> Position {
        self.wired.get(end).map_or(root_place.position(), |(at, _)| *at)
    }
}
