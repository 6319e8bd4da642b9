//! Names of ports, switches, devices and functions, and what refers to them.

use manifest::Access;
use std::collections::HashMap;
use wiring::{Endpoint, Opening};
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
}

/// What other parts of the file depend on.
pub(crate) struct FunctionFacts {
    pub(crate) interfaces: Vec<String>,
    pub(crate) access: Access,
    pub(crate) tenant: Option<String>,
}

/// What a reference leads to.
pub(crate) enum Target<'a> {
    Port,
    Switch,
    Device(Opening),
    Function { name: &'a str, function: &'a FunctionFacts, interface: Option<u16> },
}

impl What {
    /// What it is, in a word.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            What::Port => "port",
            What::Switch => "switch",
            What::Device(_) => "device",
            What::Broken | What::Function(_) => "function",
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

    pub(crate) fn get(&self, name: &str) -> Option<&Named> {
        self.named.get(name)
    }

    pub(crate) fn function(&self, name: &str) -> Option<&FunctionFacts> {
        match &self.named.get(name)?.what {
            What::Function(function) => Some(function),
            _ => None,
        }
    }

    /// The names of ports, switches, devices and functions, or of functions alone.
    pub(crate) fn iter(&self, ports: bool) -> impl Iterator<Item = &str> + Clone {
        let wanted = move |name: &&String| {
            ports || self.named.get(*name).is_some_and(|named| named.what.kind() == "function")
        };
        self.order.iter().filter(wanted).map(String::as_str)
    }

    /// Resolves `NAME`, `FUNCTION:INTERFACE` or `DEVICE:PORT`. `None` when that is a fault, or when the function it names has
    /// one already.
    pub(crate) fn resolve<'a>(
        &'a self,
        place: &Location<'_>,
        text: &'a str,
        ports: bool,
        faults: &mut Vec<Fault>,
    ) -> Option<Target<'a>> {
        let (name, interface) = match text.split_once(':') {
            Some((name, interface)) => (name, Some(interface)),
            None => (text, None),
        };
        let Some(named) = self.named.get(name) else {
            place.report(faults, || {
                let what = if ports { "port, switch, device or function" } else { "function" };
                format!(
                    "no {what} is named `{}`{}",
                    spelling::shown(name),
                    spelling::choices(name, self.iter(ports))
                )
            });
            return None;
        };
        match (&named.what, interface) {
            (what @ (What::Port | What::Switch | What::Device(_)), _) if !ports => {
                place.report(faults, || {
                    let kind = what.kind();
                    format!("`{name}` is a {kind}; allowed: {}", spelling::listed(self.iter(false)))
                });
                None
            }
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
                let number = number_of(function, interface);
                if number.is_none() {
                    place.report(faults, || {
                        let wrong = spelling::shown(interface);
                        let names = function.interfaces.iter().map(String::as_str);
                        let meant = match spelling::nearest(interface, names) {
                            Some(meant) => format!("; did you mean `{name}:{meant}`?"),
                            None => String::new(),
                        };
                        format!(
                            "`{name}` has no interface `{wrong}`; allowed: {}{meant}",
                            allowed(name, function)
                        )
                    });
                }
                Some(Target::Function { name, function, interface: Some(number?) })
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
        match self.resolve(place, text, true, faults)? {
            Target::Port => Some(Endpoint::Port(text.to_owned())),
            Target::Switch => Some(Endpoint::Switch(text.to_owned())),
            Target::Device(opening) => Some(Endpoint::Device(opening)),
            Target::Function { name, interface: Some(number), .. } => {
                Some(Endpoint::Interface(name.to_owned(), number))
            }
            Target::Function { name, function, .. } if function.interfaces.len() == 1 => {
                Some(Endpoint::Interface(name.to_owned(), 0))
            }
            Target::Function { name, function, .. } => {
                place.report(faults, || {
                    format!("found `{name}` without an interface; allowed: {}", allowed(name, function))
                });
                None
            }
        }
    }
}

fn number_of(function: &FunctionFacts, interface: &str) -> Option<u16> {
    let by_name = function.interfaces.iter().position(|name| name == interface);
    let digits = !interface.is_empty() && interface.chars().all(|c| c.is_ascii_digit());
    let by_number = || interface.parse().ok().filter(|n| digits && *n < function.interfaces.len());
    by_name.or_else(by_number).and_then(|n| u16::try_from(n).ok())
}

/// `fw:inside, fw:outside (or fw:0 to fw:1)`.
fn allowed(name: &str, function: &FunctionFacts) -> String {
    let by_name: Vec<String> =
        function.interfaces.iter().map(|interface| format!("{name}:{interface}")).collect();
    let listed = spelling::listed(by_name.iter().map(String::as_str));
    match function.interfaces.len() {
        1 => format!("{listed} (or {name}:0)"),
        count => format!("{listed} (or {name}:0 to {name}:{})", count - 1),
    }
}
