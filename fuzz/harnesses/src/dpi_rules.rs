//! Any text is read as rules or refused with places, and what is read can be looked for.

use dpi::detect::Detector;
use dpi::rules::Rules;
use dpi::rules::network::Variables;

pub fn run(data: &[u8]) {
    let variables = Variables::from([
        ("A".into(), "[10.0.0.0/8,!10.1.0.0/16]".into()),
        ("P".into(), "[80,1000:]".into()),
    ]);
    match Rules::parse(data, &variables) {
        Ok(rules) => {
            let count = rules.list.len();
            assert_eq!(Detector::new(rules, 256, 1024).rules().len(), count);
        }
        Err(faults) => {
            let lines = data.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
            assert!(faults.list.iter().all(|fault| (1..=lines).contains(&fault.line) && fault.column > 0));
            assert!(faults.total >= faults.list.len() && !faults.list.is_empty());
            assert!(faults.lines("f", 1024).iter().all(|line| line.len() <= 1024));
        }
    }
}
