//! `superfluid check`: every fault of a file at once.

use crate::Outcome;
use crate::cli::CheckOptions;
use crate::remote::{Connection, File};
use api::Fault;
use controller::{ask_launcher, taken_names};
use deployment::{Catalog, PrepareError};
use std::io::Read;
use std::path::Path;
use wiring::Wiring;

/// Most lines of what a function says of its configuration, with `--all`.
const ALL_LINES: usize = 1 << 16;
/// Largest file that is read.
const LARGEST: u64 = yaml_document::MAX_TEXT as u64;

/// A file that is good.
pub(crate) struct Loaded {
    /// What the user calls it.
    pub(crate) name: String,
    bytes: Vec<u8>,
    pub(crate) wiring: Wiring,
    pub(crate) catalog: Catalog,
}

/// Reads and checks a file, `-` for standard input. Faults and warnings go to standard error, a line each.
pub(crate) fn load(file: &Path) -> Option<Loaded> {
    let (name, bytes) = read(file)?;
    let (wiring, catalog) = checked(file, &name, &bytes)?;
    Some(Loaded { name, bytes, wiring, catalog })
}

impl Loaded {
    /// Asks the launcher at a socket whether it starts the file's guests: what it refuses, a line each. Those
    /// that it was not asked about are warned of.
    pub(crate) fn refused_by_launcher(&self, socket: &Path) -> Vec<String> {
        if self.wiring.containers.is_empty() {
            return Vec::new();
        }
        let file = File::parse(self.name.clone(), &self.bytes).ok();
        let document = file.as_ref().map(|file| file.as_json(&Connection::local()));
        let spec = |name: &str| document.as_ref()?.get("functions")?.get(name).cloned();
        let says = ask_launcher(socket, &self.wiring, &self.catalog, spec);
        for (why, names) in &says.unasked {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            console::error().line(&format!(
                "warning: {}: whether the launcher starts {} was not asked: {why}",
                self.name,
                names.join(", ")
            ));
        }
        says.refused.iter().map(|fault| placed(&file, &self.name, fault)).collect()
    }

    /// Guests of the file whose names another client of the launcher has, a line each.
    pub(crate) fn names_taken(&self, socket: &Path, keeper: &str) -> Vec<String> {
        if self.wiring.containers.is_empty() {
            return Vec::new();
        }
        let file = File::parse(self.name.clone(), &self.bytes).ok();
        let taken = taken_names(socket, &self.wiring, keeper);
        taken.iter().map(|fault| placed(&file, &self.name, fault)).collect()
    }
}

fn placed(file: &Option<File>, name: &str, fault: &Fault) -> String {
    match file {
        Some(file) => file.place(fault),
        None => format!("{name}: {fault}"),
    }
}

/// Says what is wrong, and that nothing was started.
pub(crate) fn refuse(name: &str, faults: &[String]) -> Outcome {
    faults.iter().for_each(|fault| console::error().line(fault));
    let count = if faults.len() == 1 { "1 fault".to_owned() } else { format!("{} faults", faults.len()) };
    console::error().line(&format!("{name}: {count}, nothing was started"));
    Outcome::BadInput
}

/// What a file is called in messages, and what is in it.
fn read(file: &Path) -> Option<(String, Vec<u8>)> {
    let (name, mut bytes) = (named(file), Vec::new());
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().take(LARGEST + 1).read_to_end(&mut bytes),
        false => local_file::open_given(file).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)),
    };
    match read {
        Ok(_) => Some((name, bytes)),
        Err(error) => {
            console::error().line(&format!("{name}: {error}"));
            None
        }
    }
}

fn named(file: &Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}

fn checked(file: &Path, name: &str, bytes: &[u8]) -> Option<(Wiring, Catalog)> {
    let catalog = Catalog::new(file.parent().unwrap_or(Path::new(".")));
    let text = yaml_document::text(name, bytes).map_err(|fault| vec![fault]);
    match text.and_then(|text| config::check(name, text, &catalog)) {
        Ok(configuration) => {
            for warning in &configuration.warnings {
                console::error().line(&format!("warning: {warning}"));
            }
            Some((configuration.wiring, catalog))
        }
        Err(faults) => {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            refuse(name, &faults);
            None
        }
    }
}

/// What a daemon would refuse because it is too large or too many; what depends on what the daemon has
/// already, such as memory that is promised, is not known here.
fn limits(name: &str, bytes: &[u8]) -> Vec<String> {
    let Ok(file) = File::parse(name.to_owned(), bytes) else { return Vec::new() };
    let document = file.as_json(&Connection::local());
    let mut faults: Vec<_> = api_server::body_too_large(document.to_string().len()).into_iter().collect();
    faults.extend(
        api_server::objects(document).map_or_else(|faults| faults, |objects| api_server::too_large(&objects)),
    );
    faults.iter().map(|fault| file.place(fault)).collect()
}

pub(crate) fn check(options: &CheckOptions) -> Outcome {
    let Some(loaded) = load(&options.file) else { return Outcome::BadInput };
    let Loaded { name, bytes, wiring, catalog } = &loaded;
    let mut faults = limits(name, bytes);
    // What a schema cannot say, the functions themselves do.
    let lines = if options.all { ALL_LINES } else { deployment::LOG_LINES };
    let rehearsed = deployment::rehearse(wiring, catalog, lines);
    let file = File::parse(name.clone(), bytes).ok();
    let of_function =
        |function: &str, said: &str| placed(&file, name, &Fault::new(format!("functions.{function}"), said));
    match rehearsed {
        Ok(warnings) => {
            for (function, line) in warnings {
                console::error().line(&format!("warning: {}", of_function(&function, &line)));
            }
        }
        Err(refused) => faults.extend(refused.iter().map(|error| match error {
            PrepareError::Part { what: "function", name: function, reason } => {
                let mut said = of_function(function, reason);
                if !options.all && reason.lines().count() > lines {
                    said.push_str(&format!(
                        "\n  at most {lines} lines are shown; `superfluid check --all` shows all"
                    ));
                }
                said
            }
            _ => format!("{name}: {error}"),
        })),
    }
    let captures = deployment::unusable_captures(&wiring.ports, |_| true, catalog);
    if !captures.is_empty() {
        let file = File::parse(name.clone(), bytes).ok();
        let fault = |(port, why)| Fault::new(format!("ports.{port}"), why);
        faults.extend(captures.into_iter().map(fault).map(|fault| placed(&file, name, &fault)));
    }
    faults.extend(loaded.refused_by_launcher(&options.launcher));
    if !faults.is_empty() {
        faults.iter().for_each(|fault| console::error().line(fault));
        return Outcome::BadInput;
    }
    // No fault: the port waits for it, as it does when the file is run.
    for (port, missing) in deployment::missing_interfaces(wiring) {
        console::error()
            .line(&format!("warning: {name}: ports.{port}.interface: {missing}; the port waits for it"));
    }
    console::output().line(&format!(
        "{name}: good: {} tenants, {} ports, {} devices, {} functions, {} wires",
        wiring.tenants.len(),
        wiring.ports.len(),
        wiring.devices.len(),
        wiring.instances.len() + wiring.containers.len(),
        wiring.edges.len()
    ));
    Outcome::Done
}
