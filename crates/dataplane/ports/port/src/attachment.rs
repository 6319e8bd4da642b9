//! The life of a port's hold on an interface of the kernel, which may vanish, be replaced and come back: one
//! for all drivers.
//!
//! 1. A port that is made has an interface that was not looked at yet ([`Condition::unseen`]).
//! 2. [`look`] follows at the beginning, and from then on with each `Port::maintain`: it asks what is to be
//!    done ([`Attached::assess`]), takes the interface anew if need be ([`Attached::attach`]), and notes
//!    whether packets pass.
//! 3. [`Condition::closed`] is the end.
//!
//! Limits: what is asked of the kernel, and how, is the driver's.

use crate::{Condition, PortStatus};

/// What is to be done about an interface.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Packets pass.
    Up,
    /// Packets do not pass, for this reason.
    Down(String),
    /// It must be taken: the port has none, or one that is no more.
    Open,
}

/// A port on an interface of the kernel.
pub trait Attached {
    /// What became of an interface that has to be taken anew, for messages.
    const CUT_OFF: &'static str;

    /// The interface's name.
    fn interface(&self) -> &str;

    /// How the port is.
    fn condition(&mut self) -> &mut Condition;

    /// Compares what there is with what the port has.
    fn assess(&mut self) -> Action;

    /// Lets go of what the port has, and takes the interface that there is.
    ///
    /// # Errors
    /// Why that failed, in words for the operator.
    fn attach(&mut self) -> Result<(), String>;
}

/// Looks at the interface of a port, and does what follows.
pub fn look<P: Attached>(port: &mut P) {
    let name = port.interface().to_owned();
    let mut action = port.assess();
    if action == Action::Open {
        // The port was cut off, however short: what was sent meanwhile is lost.
        port.condition().down(format!("interface `{name}` {}", P::CUT_OFF));
        action = match port.attach() {
            Ok(()) => port.assess(),
            Err(reason) => Action::Down(reason),
        };
    }
    match action {
        Action::Up => port.condition().up(&format!("interface `{name}` is there")),
        Action::Down(reason) => port.condition().down(reason),
        // Gone once more in between: that shows at the next look.
        Action::Open => {}
    }
}

impl Condition {
    /// That of a port whose interface was not looked at yet.
    pub fn unseen(interface: &str) -> Condition {
        Condition::new(PortStatus::Down(format!("interface `{interface}` was not looked at yet")))
    }

    /// That of a port that was closed, of which nothing is told any more.
    pub fn closed(&mut self, interface: &str) {
        self.down(format!("interface `{interface}` was closed"));
        self.take_events();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortEvent;

    /// A port whose interface is as the test says, a look after another.
    struct Fake {
        condition: Condition,
        found: Vec<Action>,
        attached: Vec<Result<(), String>>,
    }

    impl Attached for Fake {
        const CUT_OFF: &'static str = "was replaced";

        fn interface(&self) -> &str {
            "a"
        }

        fn condition(&mut self) -> &mut Condition {
            &mut self.condition
        }

        fn assess(&mut self) -> Action {
            self.found.remove(0)
        }

        fn attach(&mut self) -> Result<(), String> {
            self.attached.remove(0)
        }
    }

    fn looked(fake: &mut Fake, found: Vec<Action>, attached: Vec<Result<(), String>>) -> Vec<PortEvent> {
        (fake.found, fake.attached) = (found, attached);
        look(fake);
        assert!(fake.found.is_empty() && fake.attached.is_empty(), "all of it was asked for");
        fake.condition.take_events()
    }

    #[test]
    fn an_interface_that_comes_goes_and_is_replaced_is_told_of() {
        let mut fake = Fake { condition: Condition::unseen("a"), found: vec![], attached: vec![] };
        let up = || PortEvent::CameUp("interface `a` is there".into());
        let replaced = || PortEvent::WentDown("interface `a` was replaced".into());
        assert_eq!(looked(&mut fake, vec![Action::Down("absent".into())], vec![]), [], "it was down before");
        assert_eq!(looked(&mut fake, vec![Action::Open, Action::Up], vec![Ok(())]), [up()]);
        assert_eq!(looked(&mut fake, vec![Action::Up], vec![]), []);
        assert_eq!(looked(&mut fake, vec![Action::Open, Action::Up], vec![Ok(())]), [replaced(), up()]);
        assert_eq!(looked(&mut fake, vec![Action::Open], vec![Err("busy".into())]), [replaced()]);
        assert_eq!(fake.condition.status(), &PortStatus::Down("busy".into()));
        assert_eq!(looked(&mut fake, vec![Action::Open, Action::Open], vec![Ok(())]), [], "gone in between");
        assert!(!fake.condition.is_up());
        fake.condition.closed("a");
        assert_eq!(fake.condition.status(), &PortStatus::Down("interface `a` was closed".into()));
    }
}
