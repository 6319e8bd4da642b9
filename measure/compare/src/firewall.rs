//! The product's verdicts: `superfluid run` with `firewall` between the two sides of a capture, and what came
//! out on either side.

use crate::Error;
use crate::child::{self, Running};
use crate::frames::{Frame, Frames, Inside};
use crate::table::Verdicts;
use peers::Folder;
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// What is run.
const PROGRAM: &str = "superfluid run";
/// Longest time for a capture.
const LIMIT: Duration = Duration::from_secs(900);

/// What was written at one end of the chain, frame by frame.
struct Output {
    frames: Frames,
    head: Option<(u64, Vec<u8>)>,
}

impl Output {
    fn open(path: &Path) -> Result<Output, Error> {
        let mut output = Output { frames: Frames::open(path)?, head: None };
        output.step()?;
        Ok(output)
    }

    fn step(&mut self) -> Result<(), Error> {
        self.head = self.frames.step()?.map(|frame| (frame.time, frame.bytes.to_vec()));
        Ok(())
    }

    /// Whether the frame is the next one that was written; then it has been taken.
    fn takes(&mut self, frame: &Frame<'_>) -> Result<bool, Error> {
        let is_next =
            self.head.as_ref().is_some_and(|(time, bytes)| *time == frame.time && bytes == frame.bytes);
        if is_next {
            self.step()?;
        }
        Ok(is_next)
    }
}

/// Which frames pass from inside, and back as answers, of those that a router forwards.
///
/// # Errors
/// [`Error`]: it failed, did not end in time, or sent what was not in the capture.
pub fn read(program: &Path, capture: &Path, inside: Inside) -> Result<Verdicts, Error> {
    let folder = Folder::new()?;
    let quoted = Value::from(capture.display().to_string()).to_string();
    let file = format!(
        "superfluid: 1\ntenants:\n  default: {{pool: {{buffers: 2048, buffer_size: 64KiB}}}}\nports:\n  inside: {{type: pcap, read: \
         {quoted}, pace: flat_out, sides: {{inside: {}}}, write: back.pcapng}}\n  outside: {{type: pcap, side_of: inside, write: \
         out.pcapng}}\nfunctions:\n  border: {{image: firewall, max_call: 5s, config: {{max_flows: 1000000, rules: [{{action: \
         accept, from: inside}}]}}}}\nchains:\n  main: [inside, border, outside]\n",
        inside.prefix()
    );
    let file = folder.write("run.yaml", &file)?;
    let log = folder.file("accounts");
    let output = File::create(&log).map_err(|source| Error::file(&log, source))?;
    let mut command = child::product(program);
    command.arg("run").arg(file).arg("--json").current_dir(folder.path());
    Running::start(PROGRAM, &mut command, output)?.finish(LIMIT)?;
    verdicts(capture, inside, [&folder.file("out.pcapng"), &folder.file("back.pcapng")])
}

fn verdicts(capture: &Path, inside: Inside, outputs: [&Path; 2]) -> Result<Verdicts, Error> {
    let [mut out, mut back] = [Output::open(outputs[0])?, Output::open(outputs[1])?];
    let (mut frames, mut verdicts) = (Frames::open(capture)?, Verdicts::new());
    while let Some(frame) = frames.step()? {
        let passes = out.takes(&frame)? || back.takes(&frame)?;
        if inside.side(&frame).is_some() {
            verdicts.insert(frame.number, passes);
        }
    }
    if out.head.is_some() || back.head.is_some() {
        let found = "it sent frames in another order than the capture's".to_owned();
        return Err(Error::Unexpected { program: PROGRAM, found });
    }
    Ok(verdicts)
}
