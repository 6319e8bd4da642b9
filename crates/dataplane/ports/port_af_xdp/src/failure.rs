//! Why a way of opening an interface did not work, and what is told of it.

use crate::OpenError;
use std::fmt;
use std::io;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Attaching the program.
    Attach,
    /// Registering memory as UMEM.
    Register(&'static str),
    /// Binding a socket to a queue.
    Bind(u32),
    /// Anything else.
    Other(&'static str),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Attach => f.write_str("attaching the XDP program"),
            Step::Register(memory) => write!(f, "registering {memory} as UMEM"),
            Step::Bind(queue) => write!(f, "binding an AF_XDP socket to queue {queue}"),
            Step::Other(what) => f.write_str(what),
        }
    }
}

/// What was tried, and what the kernel said.
#[derive(Debug)]
pub(crate) struct Failure {
    pub step: Step,
    pub source: io::Error,
}

impl Failure {
    /// Makes a failure of the kernel's answer to a step.
    pub fn at(step: Step) -> impl FnOnce(io::Error) -> Failure {
        move |source| Failure { step, source }
    }

    fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }

    /// In words, with what can be done about it where that is known.
    pub fn reason(&self, name: &str) -> String {
        let advice = match (self.step, self.errno()) {
            (Step::Attach, libc::ERANGE) => {
                format!("; frames must fit into a page: `ip link set dev {name} mtu 1500`, and the same on its other end")
            }
            (Step::Attach, libc::ENOSPC) => {
                "; it has fewer queues to receive by than its other end has to send by".to_owned()
            }
            (Step::Register(_), libc::ENOBUFS) => {
                "; the limit of locked memory is too low: `ulimit -l unlimited`, or the capability CAP_IPC_LOCK".to_owned()
            }
            _ => String::new(),
        };
        format!("{}: {}{advice}", self.step, self.source)
    }

    /// The failure as the end of the search, when no other mode would do better; otherwise as it is.
    pub fn judge(self, name: &str) -> Result<Failure, OpenError> {
        let interface = name.to_owned();
        let Failure { step, source } = self;
        match (step, source.raw_os_error()) {
            (_, Some(libc::EPERM | libc::EACCES)) => Err(OpenError::NoPermission {
                interface,
                missing: missing_capabilities(),
                step: step.to_string(),
                source,
            }),
            (Step::Attach, Some(libc::EBUSY | libc::EEXIST)) => {
                Err(OpenError::ProgramAttached { interface, source })
            }
            (Step::Bind(queue), Some(libc::EBUSY)) => Err(OpenError::QueueTaken { interface, queue, source }),
            _ => Ok(Failure { step, source }),
        }
    }
}

/// Which of the capabilities the thread does not have, by name.
fn missing_capabilities() -> String {
    // CAP_SYS_ADMIN stands in for these two where bpf(2) asks for them.
    const SYS_ADMIN: u64 = 1 << 21;
    const NEEDED: [(&str, u64); 3] =
        [("CAP_NET_ADMIN", 1 << 12 | SYS_ADMIN), ("CAP_NET_RAW", 1 << 13), ("CAP_BPF", 1 << 39 | SYS_ADMIN)];
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(mask) = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()) else {
        return "which are missing is not known".to_owned();
    };
    let missing: Vec<_> = NEEDED.iter().filter(|(_, bits)| mask & bits == 0).map(|(name, _)| *name).collect();
    match missing.is_empty() {
        true => "it has them, of a user namespace".to_owned(),
        false => format!("missing: {}", missing.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(step: Step, errno: i32) -> Failure {
        Failure { step, source: io::Error::from_raw_os_error(errno) }
    }

    #[test]
    fn what_another_mode_cannot_help_ends_the_search() {
        let end = |step, errno| failure(step, errno).judge("a").err();
        assert!(matches!(end(Step::Other("x"), libc::EPERM), Some(OpenError::NoPermission { .. })));
        assert!(matches!(end(Step::Attach, libc::EBUSY), Some(OpenError::ProgramAttached { .. })));
        assert!(matches!(end(Step::Bind(3), libc::EBUSY), Some(OpenError::QueueTaken { queue: 3, .. })));
        assert!(end(Step::Bind(3), libc::EOPNOTSUPP).is_none());
        assert!(end(Step::Attach, libc::ERANGE).is_none());
    }

    #[test]
    fn what_can_be_done_is_said() {
        let words = |step, errno| failure(step, errno).reason("a");
        assert!(words(Step::Attach, libc::ERANGE).contains("`ip link set dev a mtu 1500`"));
        assert!(words(Step::Attach, libc::ENOSPC).contains("fewer queues"));
        assert!(words(Step::Register("the pool"), libc::ENOBUFS).contains("`ulimit -l unlimited`"));
        let plain = words(Step::Bind(1), libc::EOPNOTSUPP);
        assert_eq!(plain, "binding an AF_XDP socket to queue 1: Operation not supported (os error 95)");
    }
}
