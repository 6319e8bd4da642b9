//! `superfluid check`: every fault of a file at once.

use crate::Outcome;
use crate::cli::CheckOptions;
use host::Catalog;
use std::io::Read;
use std::path::Path;
use wiring::Wiring;

/// Largest file that is read.
const LARGEST: u64 = 4 << 20;

/// Reads and checks a file. Faults and warnings go to standard error, a line each.
pub(crate) fn load(file: &Path) -> Option<(Wiring, Catalog)> {
    let name = file.display().to_string();
    let mut bytes = Vec::new();
    if let Err(error) =
        std::fs::File::open(file).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
    {
        eprintln!("{name}: {error}");
        return None;
    }
    let catalog = Catalog::new(file.parent().unwrap_or(Path::new(".")));
    let text = yaml_document::text(&name, &bytes).map_err(|fault| vec![fault]);
    match text.and_then(|text| config::check(&name, text, &catalog)) {
        Ok(configuration) => {
            for warning in &configuration.warnings {
                eprintln!("warning: {warning}");
            }
            Some((configuration.wiring, catalog))
        }
        Err(faults) => {
            for fault in &faults {
                eprintln!("{fault}");
            }
            let count =
                if faults.len() == 1 { "1 fault".to_owned() } else { format!("{} faults", faults.len()) };
            eprintln!("{name}: {count}, nothing was started");
            None
        }
    }
}

pub(crate) fn check(options: &CheckOptions) -> Outcome {
    match load(&options.file) {
        Some((wiring, catalog)) => {
            // What a schema cannot say, the functions themselves do.
            if let Err(refused) = host::rehearse(&wiring, &catalog) {
                for error in &refused {
                    eprintln!("{}: {error}", options.file.display());
                }
                return Outcome::BadInput;
            }
            // No fault: the port waits for it, as it does when the file is run.
            for (port, missing) in host::missing_interfaces(&wiring) {
                eprintln!(
                    "warning: {}: ports.{port}.interface: {missing}; the port waits for it",
                    options.file.display()
                );
            }
            println!(
                "{}: good: {} tenants, {} ports, {} functions, {} wires",
                options.file.display(),
                wiring.tenants.len(),
                wiring.ports.len(),
                wiring.instances.len(),
                wiring.edges.len()
            );
            Outcome::Done
        }
        None => Outcome::BadInput,
    }
}
