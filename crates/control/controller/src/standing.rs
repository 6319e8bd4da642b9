//! How a function is that the launcher starts: what the keeper says of its processes, and whether something
//! of it is at its sockets. Until then it is starting: it runs, and no packet reaches it.

use super::attaching::{Attaching, attached_at};
use api::{ContainerStandby, FunctionState};
use engine::PortAccount;
use launcher::keeper::{Condition, Phase, Why, stands_by};
use std::time::{Duration, Instant};
use wiring::{Container, container_port};

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) state: FunctionState,
    /// Why it does not run.
    pub(super) reason: Option<Why>,
    /// Since when it does not, as far as it is known.
    pub(super) since: Option<Instant>,
}

impl Standing {
    /// Of one, with its ports as they were read.
    pub(super) fn of<'a>(
        (name, container): (&str, &Container),
        condition: &Condition,
        attaching: &Attaching,
        port: impl Fn(&str) -> Option<&'a PortAccount>,
    ) -> Standing {
        let (state, reason) = match &condition.phase {
            Phase::Down(why) => (FunctionState::Down, why.clone()),
            Phase::Starting(why) => (FunctionState::Starting, why.clone()),
            Phase::Runs if attaching.has_attached_once(name, &condition.processes) => {
                return Standing::RUNNING;
            }
            Phase::Runs => match unattached(name, container, port) {
                Some(why) => (FunctionState::Starting, why),
                None => return Standing::RUNNING,
            },
        };
        Standing { state, reason: Some(reason), since: condition.since }
    }

    const RUNNING: Standing = Standing { state: FunctionState::Running, reason: None, since: None };
}

/// Those that stand by, as its ports count them, where some are to.
pub(super) fn standing_by(
    name: &str,
    container: &Container,
    ports: &[PortAccount],
) -> Option<ContainerStandby> {
    if container.standby == 0 {
        return None;
    }
    let counts = |detail: &'static str| {
        let of_port =
            move |port: &PortAccount| port.details.iter().find(|(it, _)| *it == detail).map(|it| it.1);
        ports.iter().filter_map(of_port)
    };
    let active = counts("active_guest").next().and_then(|number| u32::try_from(number).ok());
    Some(ContainerStandby {
        active: active.map(|number| match number {
            0 => name.to_owned(),
            number => stands_by(name, number),
        }),
        processes_standby: counts("processes_standby").min().unwrap_or(0),
        takeovers: counts("takeovers").max().unwrap_or(0),
    })
}

/// At which of its sockets nothing is; `None`: something is at each, as far as it is known.
fn unattached<'a>(
    name: &str,
    container: &Container,
    port: impl Fn(&str) -> Option<&'a PortAccount>,
) -> Option<Why> {
    let sockets = container.interfaces.iter().filter(|it| it.kind.is_socket());
    let counted = sockets.map(|socket| {
        let account = port(&container_port(name, &socket.name));
        (socket.name.as_str(), account.map(|account| attached_at(&account.details, &account.status)))
    });
    in_words(counted, container.attach_within.map(Duration::from))
}

/// Of sockets with how many have attached at each. Ports that are just being changed say nothing.
fn in_words<'a>(
    sockets: impl Iterator<Item = (&'a str, Option<u64>)>,
    within: Option<Duration>,
) -> Option<Why> {
    let empty: Vec<String> =
        sockets.filter(|(_, count)| *count == Some(0)).map(|(name, _)| format!("`{name}`")).collect();
    if empty.is_empty() {
        return None;
    }
    let told = format!("it runs, and has not attached at {} yet", empty.join(", "));
    Some(Why::own(match within {
        Some(within) => format!("{told}; it is ended after {} without", humantime::format_duration(within)),
        None => told,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_starting_while_nothing_is_at_one_of_its_sockets() {
        let told = |sockets: &[(&str, Option<u64>)]| {
            let why = in_words(sockets.iter().copied(), Some(Duration::from_secs(300)));
            why.map(|why| why.for_tenant())
        };
        let both = "it runs, and has not attached at `in`, `out` yet; it is ended after 5m without";
        assert_eq!(told(&[("in", Some(0)), ("out", Some(0))]).as_deref(), Some(both));
        let one = "it runs, and has not attached at `out` yet; it is ended after 5m without";
        assert_eq!(told(&[("in", Some(2)), ("out", Some(0))]).as_deref(), Some(one));
        assert_eq!(told(&[("in", Some(1)), ("out", Some(1))]), None);
        assert_eq!(told(&[("in", Some(1)), ("out", None)]), None, "it is not known");
        assert_eq!(told(&[]), None, "its interfaces are the kernel's");
    }
}
