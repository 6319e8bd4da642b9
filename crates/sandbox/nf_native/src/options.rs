//! The process's arguments.

use crate::StartError;
use manifest::Manifest;
use nf_sdk::Nanos;

/// How such a process is started.
pub const USAGE: &str = "usage: PROGRAM [--config FILE] [--longest-hold SECONDS] [--report SECONDS] SOCKET...
  SOCKET            that of each interface's port, in the order of the function's manifest; those at the end that may have
                    no wire (`optional_interfaces`) may be left out
  --config FILE     the function's configuration, as under `config` of a function; FILE.cbor as it is handed to functions.
                    Without it: the text that the first port has in its key `config`
  --longest-hold SECONDS
                    longest time that it may hold a packet: 1 by default, 3600 at most
  --report SECONDS  an account on standard output from time to time, and not at the end alone";

/// The process's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub sockets: Vec<String>,
    pub config: Option<String>,
    pub longest_hold: Nanos,
    pub report: Option<Nanos>,
}

impl Options {
    /// Reads them: as many sockets as the function has interfaces.
    pub fn read(
        mut arguments: impl Iterator<Item = String>,
        manifest: &Manifest,
    ) -> Result<Options, StartError> {
        let (sockets, longest_hold) = (Vec::new(), Nanos::from_secs(1));
        let mut options = Options { sockets, config: None, longest_hold, report: None };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let missing =
                    || StartError::Arguments(format!("{argument}: found nothing; allowed: a value"));
                arguments.next().ok_or_else(missing)
            };
            match argument.as_str() {
                "--config" => options.config = Some(value()?),
                "--longest-hold" => options.longest_hold = seconds(&argument, &value()?, 3_600)?,
                "--report" => options.report = Some(seconds(&argument, &value()?, 86_400)?),
                other if other.starts_with("--") => {
                    let allowed = "allowed: --config, --longest-hold, --report, and sockets";
                    return Err(StartError::Arguments(format!("found `{other}`; {allowed}")));
                }
                _ => options.sockets.push(argument),
            }
        }
        let (found, most) = (options.sockets.len(), manifest.interfaces.len());
        let may_be_left_out = |name: &&String| manifest.optional_interfaces.contains(name);
        let fewest = most - manifest.interfaces.iter().rev().take_while(may_be_left_out).count();
        if !(fewest.max(1)..=most).contains(&found) {
            let names = manifest.interfaces.join(", ");
            let wanted =
                if fewest < most { format!("{} to {most}", fewest.max(1)) } else { most.to_string() };
            return Err(StartError::Arguments(format!(
                "found {found} sockets; allowed: {wanted}, of the interfaces {names}"
            )));
        }
        Ok(options)
    }
}

fn seconds(name: &str, text: &str, most: u64) -> Result<Nanos, StartError> {
    let seconds = text.parse().ok().filter(|seconds| (1..=most).contains(seconds));
    let wrong = || StartError::Arguments(format!("{name}: found `{text}`; allowed: 1 to {most} seconds"));
    seconds.map(Nanos::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        let manifest = "name: a\nversion: 1.0.0\nabi: 1\nsummary: S.\nlanguage: rust\naccess: read\n\
                        interfaces: [left, right]\nmemory_limit: 64KiB\n";
        let manifest = crate::configuration::manifest(manifest).expect("a manifest");
        let arguments = line.split_whitespace().map(str::to_owned);
        Options::read(arguments, &manifest).map_err(|error| error.to_string())
    }

    #[test]
    fn there_is_a_socket_for_each_interface() {
        let options = read("/a --config c.yaml /b --report 5").expect("good");
        let (sockets, config) = (vec!["/a".into(), "/b".into()], Some("c.yaml".to_owned()));
        let (longest_hold, report) = (Nanos::from_secs(1), Some(Nanos::from_secs(5)));
        assert_eq!(options, Options { sockets, config, longest_hold, report });
        assert_eq!(read("--longest-hold 60 /a /b").expect("good").longest_hold, Nanos::from_secs(60));
        for (line, told) in [
            ("/a", "found 1 sockets; allowed: 2, of the interfaces left, right"),
            ("/a /b /c", "found 3 sockets"),
            ("/a /b --config", "--config: found nothing"),
            ("/a /b --report 0", "--report: found `0`; allowed: 1 to 86400 seconds"),
            ("/a /b --longest-hold 3601", "--longest-hold: found `3601`; allowed: 1 to 3600 seconds"),
            ("/a /b --verbose", "found `--verbose`; allowed: "),
        ] {
            let refused = read(line).expect_err(line);
            assert!(refused.starts_with(told) && refused.contains("usage: "), "{refused}");
        }
    }

    #[test]
    fn those_at_the_end_may_be_left_out_that_may_have_no_wire() {
        let read = |optional: &str, line: &str| {
            let manifest = format!(
                "name: a\nversion: 1.0.0\nabi: 1\nsummary: S.\nlanguage: rust\naccess: read\ninterfaces: [a, b, c]\n\
                 optional_interfaces: [{optional}]\nmemory_limit: 64KiB\n"
            );
            let manifest = crate::configuration::manifest(&manifest).expect("a manifest");
            let arguments = line.split_whitespace().map(str::to_owned);
            Options::read(arguments, &manifest).map_err(|error| error.to_string())
        };
        assert_eq!(read("b, c", "/a").expect("good").sockets.len(), 1);
        assert_eq!(read("b, c", "/a /b /c").expect("good").sockets.len(), 3);
        for (optional, line, told) in [
            ("b, c", "", "found 0 sockets; allowed: 1 to 3, of the interfaces a, b, c"),
            ("b, c", "/a /b /c /d", "found 4 sockets; allowed: 1 to 3"),
            ("b", "/a /b", "found 2 sockets; allowed: 3, "),
            ("c", "/a", "found 1 sockets; allowed: 2 to 3, "),
        ] {
            let refused = read(optional, line).expect_err(line);
            assert!(refused.starts_with(told), "{refused}");
        }
    }
}
