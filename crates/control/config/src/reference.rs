//! Names of ports, switches, devices and functions, and what refers to them.

use manifest::Access;
use std::collections::HashMap;
use wiring::{ContainerKind, Endpoint, Opening, container_port};
use yaml_document::{Fault, Location, Position, spelling};

/// The names of ports, switches, devices and functions, in the order of the file.
#[derive(Default)]
pub(crate) struct Names {
    order: Vec<String>,
    named: HashMap<String, Named>,
}

/// What a name stands for.
pub(crate) struct Named {
    pub(crate) position: Position,
    pub(crate) what: What,
}

pub(crate) enum What {
    Port,
    Switch,
    /// A device, and the names of the ports that it is over.
    Device(Vec<String>),
    /// A function whose interfaces are not known, because its image has a fault.
    Broken,
    Function(FunctionFacts),
    /// A function that is a container, or a program of the host.
    Container(ContainerFacts),
}

/// What other parts of the file depend on.
pub(crate) struct FunctionFacts {
    pub(crate) interfaces: Vec<String>,
    /// Those of them that may be left without a wire.
    pub(crate) optional: Vec<String>,
    pub(crate) access: Access,
    pub(crate) tenant: Option<String>,
}

/// What other parts of the file depend on.
pub(crate) struct ContainerFacts {
    pub(crate) kind: ContainerKind,
    pub(crate) interfaces: Vec<String>,
}

/// What a reference leads to.
pub(crate) enum Target<'a> {
    Port,
    Switch,
    Device(Opening),
    Function { name: &'a str, function: &'a FunctionFacts, interface: Option<u16> },
    Container { name: &'a str, container: &'a ContainerFacts, interface: Option<u16> },
}

impl What {
    /// What it is, in a word.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            What::Port => "port",
            What::Switch => "switch",
            What::Device(_) => "device",
            What::Broken | What::Function(_) => "function",
            What::Container(container) => container.kind.as_str(),
        }
    }
}

impl Names {
    pub(crate) fn add(&mut self, name: &str, position: Position, what: What) {
        self.order.push(name.to_owned());
        self.named.insert(name.to_owned(), Named { position, what });
    }

    /// Says what is known of a function whose name was added before.
    pub(crate) fn learn(&mut self, name: &str, function: FunctionFacts) {
        if let Some(named) = self.named.get_mut(name) {
            named.what = What::Function(function);
        }
    }

    /// The same of a container.
    pub(crate) fn learn_container(&mut self, name: &str, container: ContainerFacts) {
        if let Some(named) = self.named.get_mut(name) {
            named.what = What::Container(container);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Named> {
        self.named.get(name)
    }

    pub(crate) fn function(&self, name: &str) -> Option<&FunctionFacts> {
        match &self.named.get(name)?.what {
            What::Function(function) => Some(function),
            _ => None,
        }
    }

    /// The names of ports, switches, devices and functions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        self.order.iter().map(String::as_str)
    }

    /// Resolves `NAME`, `FUNCTION:INTERFACE` or `DEVICE:PORT`. `None` when that is a fault, or when the
    /// function it names has one already.
    pub(crate) fn resolve<'a>(
        &'a self,
        place: &Location<'_>,
        text: &'a str,
        faults: &mut Vec<Fault>,
    ) -> Option<Target<'a>> {
        let (name, interface) = match text.split_once(':') {
            Some((name, interface)) => (name, Some(interface)),
            None => (text, None),
        };
        let Some(named) = self.named.get(name) else {
            place.report_not_found(faults, &["ports", "switches", "devices", "functions"], name, || {
                format!(
                    "no port, switch, device or function is named `{}`{}",
                    spelling::shown(name),
                    spelling::choices(name, self.iter())
                )
            });
            return None;
        };
        match (&named.what, interface) {
            (What::Port, None) => Some(Target::Port),
            (What::Switch, None) => Some(Target::Switch),
            (What::Device(_), None) => Some(Target::Device(Opening::of(name, None))),
            (What::Device(over), Some(port)) if over.iter().any(|name| name == port) => {
                Some(Target::Device(Opening::of(name, Some(port))))
            }
            (What::Device(over), Some(port)) => {
                place.report(faults, || {
                    let sides: Vec<String> = over.iter().map(|port| format!("{name}:{port}")).collect();
                    let sides = sides.iter().map(String::as_str);
                    let allowed = spelling::listed(std::iter::once(name).chain(sides));
                    format!(
                        "the device `{name}` is over no port `{}`; allowed: {allowed}",
                        spelling::shown(port)
                    )
                });
                None
            }
            (what @ (What::Port | What::Switch), Some(_)) => {
                place.report(faults, || {
                    let kind = what.kind();
                    format!("`{name}` is a {kind} and has no interfaces; did you mean `{name}`?")
                });
                None
            }
            (What::Broken, _) => None,
            (What::Function(function), None) => Some(Target::Function { name, function, interface: None }),
            (What::Function(function), Some(interface)) => {
                let number = number_of(place, name, Written::Whole, &function.interfaces, interface, faults)?;
                Some(Target::Function { name, function, interface: Some(number) })
            }
            (What::Container(container), None) => {
                Some(Target::Container { name, container, interface: None })
            }
            (What::Container(container), Some(interface)) => {
                let number =
                    number_of(place, name, Written::Whole, &container.interfaces, interface, faults)?;
                Some(Target::Container { name, container, interface: Some(number) })
            }
        }
    }

    /// Resolves a reference to an endpoint; a function with one interface alone need not say which.
    pub(crate) fn endpoint(
        &self,
        place: &Location<'_>,
        text: &str,
        faults: &mut Vec<Fault>,
    ) -> Option<Endpoint> {
        let target = self.resolve(place, text, faults)?;
        let (name, interfaces, interface) = match &target {
            Target::Function { name, function, interface } => (*name, &function.interfaces, *interface),
            Target::Container { name, container, interface } => (*name, &container.interfaces, *interface),
            Target::Port => return Some(Endpoint::Port(text.to_owned())),
            Target::Switch => return Some(Endpoint::Switch(text.to_owned())),
            Target::Device(opening) => return Some(Endpoint::Device(opening.clone())),
        };
        let Some(number) = interface.or((interfaces.len() == 1).then_some(0)) else {
            place.report(faults, || {
                format!(
                    "found `{name}` without an interface; allowed: {}",
                    allowed(&Written::Whole.before(name), interfaces)
                )
            });
            return None;
        };
        target.endpoint(number)
    }

    /// Resolves an interface that stands in the function that has it, by its own name or number.
    pub(crate) fn own_endpoint(
        &self,
        place: &Location<'_>,
        (name, interface): (&str, &str),
        faults: &mut Vec<Fault>,
    ) -> Option<Endpoint> {
        let (target, interfaces) = match &self.named.get(name)?.what {
            What::Function(function) => {
                (Target::Function { name, function, interface: None }, &function.interfaces)
            }
            What::Container(container) => {
                (Target::Container { name, container, interface: None }, &container.interfaces)
            }
            // Its name is another's, or it has a fault of its own.
            What::Port | What::Switch | What::Device(_) | What::Broken => return None,
        };
        target.endpoint(number_of(place, name, Written::Own, interfaces, interface, faults)?)
    }
}

/// How an interface is written.
#[derive(Clone, Copy)]
enum Written {
    /// With its function: `fw:inside`.
    Whole,
    /// Within its function: `inside`.
    Own,
}

impl Written {
    /// What stands before the interface.
    fn before(self, name: &str) -> String {
        match self {
            Written::Whole => format!("{name}:"),
            Written::Own => String::new(),
        }
    }
}

impl Target<'_> {
    /// The end of a wire that an interface of it is, if it has interfaces.
    pub(crate) fn endpoint(&self, number: u16) -> Option<Endpoint> {
        match self {
            Target::Function { name, .. } => Some(Endpoint::Interface((*name).to_owned(), number)),
            Target::Container { name, container, .. } => {
                let interface = container.interfaces.get(usize::from(number))?;
                Some(Endpoint::Port(container_port(name, interface)))
            }
            Target::Port | Target::Switch | Target::Device(_) => None,
        }
    }
}

/// The number of an interface that is given by name or by number.
fn number_of(
    place: &Location<'_>,
    name: &str,
    written: Written,
    interfaces: &[String],
    interface: &str,
    faults: &mut Vec<Fault>,
) -> Option<u16> {
    let by_name = interfaces.iter().position(|name| name == interface);
    let digits = !interface.is_empty() && interface.chars().all(|c| c.is_ascii_digit());
    let by_number = || interface.parse().ok().filter(|n| digits && *n < interfaces.len());
    let number = by_name.or_else(by_number).and_then(|n| u16::try_from(n).ok());
    if number.is_none() {
        place.report(faults, || {
            let (wrong, before) = (spelling::shown(interface), written.before(name));
            // Within its function it may be written as elsewhere.
            let bare =
                interface.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')).unwrap_or(interface);
            let meant = match spelling::nearest(bare, interfaces.iter().map(String::as_str)) {
                Some(meant) => format!("; did you mean `{before}{meant}`?"),
                None => String::new(),
            };
            format!("`{name}` has no interface `{wrong}`; allowed: {}{meant}", allowed(&before, interfaces))
        });
    }
    number
}

/// `fw:inside, fw:outside (or fw:0 to fw:1)`, with what stands before each.
fn allowed(before: &str, interfaces: &[String]) -> String {
    let by_name: Vec<String> = interfaces.iter().map(|interface| format!("{before}{interface}")).collect();
    let listed = spelling::listed(by_name.iter().map(String::as_str));
    match interfaces.len() {
        0 => "none, because it has none".to_owned(),
        1 => format!("{listed} (or {before}0)"),
        count => format!("{listed} (or {before}0 to {before}{})", count - 1),
    }
}
