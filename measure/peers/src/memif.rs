//! Two testpmd, a processor each, joined by a shared-memory interface (memif).

use crate::dpdk::Telemetry;
use crate::polling::{Polling, Window};
use crate::process::Process;
use crate::testpmd::with_forwarding;
use crate::{Cores, Folder, PeerError};
use std::path::Path;
use std::time::Duration;
use testbed::Namespace;

/// Logarithm of the slots of a ring: 1,024, as a wire between two workers has.
const RING: u32 = 10;

/// See the module's documentation. The first takes frames from a null port and gives them to the second,
/// which gives them to another one.
#[derive(Debug)]
pub struct MemifPair {
    first: Polling,
    second: Polling,
    /// Both command lines.
    pub configurations: [String; 2],
    /// Removed after the processes have ended.
    _folder: Folder,
}

impl MemifPair {
    /// Starts both in a namespace, with `buffers` buffers each.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn start(
        namespace: &Namespace,
        burst: usize,
        buffers: u32,
        cores: Cores,
    ) -> Result<MemifPair, PeerError> {
        let folder = Folder::new()?;
        let socket = folder.file("memif.sock");
        let begin = |end: End, name: &'static str| {
            let words = arguments(end, name, &socket, burst, buffers, cores);
            let mut command = namespace.command("dpdk-testpmd");
            command.args(&words).env("RUNTIME_DIRECTORY", folder.path());
            let process = Process::start("testpmd", &mut command)?;
            let telemetry = Telemetry::path(folder.path(), name);
            let polling = Polling::ready(process, &telemetry, 2, "rte-worker", end.cores(cores))?;
            Ok::<_, PeerError>((polling, format!("dpdk-testpmd {}", words.join(" "))))
        };
        let (first, one) = begin(End::First, "memif-first")?;
        let (second, other) = begin(End::Second, "memif-second")?;
        // The second connects within a second or so; what was polled until then is in no window.
        std::thread::sleep(Duration::from_millis(1500));
        Ok(MemifPair { first, second, configurations: [one, other], _folder: folder })
    }

    /// Stops both.
    ///
    /// # Errors
    /// [`PeerError`]: one has ended.
    pub fn pause(&self) -> Result<(), PeerError> {
        self.first.pause()?;
        self.second.pause()
    }

    /// Lets both go on, and gives them time to warm up.
    ///
    /// # Errors
    /// [`PeerError`]: one has ended.
    pub fn resume(&self) -> Result<(), PeerError> {
        self.first.resume()?;
        self.second.resume()
    }

    /// What came out of the second in this time, and the processor time of both.
    ///
    /// # Errors
    /// [`PeerError`]: one has ended, or does not answer.
    pub fn measure(&self, window: Duration) -> Result<Window, PeerError> {
        let before = self.first.time()?;
        let measured = self.second.measure(window)?;
        let first = self.first.time()?.saturating_sub(before);
        Ok(Window { time: measured.time + first, ..measured })
    }
}

/// Which of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    First,
    Second,
}

impl End {
    /// The second one polls on the other's processor for everything else.
    fn cores(self, Cores { device, sender }: Cores) -> Cores {
        match self {
            End::First => Cores { device, sender },
            End::Second => Cores { device: sender, sender: device },
        }
    }
}

fn arguments(end: End, name: &str, socket: &Path, burst: usize, buffers: u32, cores: Cores) -> Vec<String> {
    let (role, null) = match end {
        End::First => ("server", "net_null0,size=64"),
        End::Second => ("client", "net_null0,size=64,no-rx=1"),
    };
    let socket = socket.display();
    let Cores { device, sender } = end.cores(cores);
    let eal = format!(
        "--lcores={sender},{device} --main-lcore={sender} --in-memory --no-pci --file-prefix={name} --vdev={null} \
         --vdev=net_memif0,role={role},socket={socket},socket-abstract=no,id=0,bsize=2048,rsize={RING}"
    );
    with_forwarding(&eal, burst, buffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_joined_by_one_socket_and_have_a_processor_each() {
        let cores = Cores { device: 3, sender: 0 };
        let line = |end| arguments(end, "name", Path::new("/run/x.sock"), 32, 4096, cores).join(" ");
        let (first, second) = (line(End::First), line(End::Second));
        assert!(
            first.starts_with("--lcores=0,3 --main-lcore=0 ")
                && first.contains("role=server,socket=/run/x.sock,")
        );
        assert!(
            second.starts_with("--lcores=3,0 --main-lcore=3 ")
                && second.contains("role=client,socket=/run/x.sock,")
        );
        // What comes back would be work that no hop needs.
        assert!(
            second.contains("net_null0,size=64,no-rx=1 ") && !first.contains("no-rx"),
            "{first} {second}"
        );
    }
}
