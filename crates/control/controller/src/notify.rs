//! What a service manager is told: sd_notify(3), a datagram to the socket in `$NOTIFY_SOCKET`. Without one
//! nothing is sent.
//!
//! 1. `READY=1`: packets are served, and clients are listened to.
//! 2. `WATCHDOG=1`, three times in the time that `$WATCHDOG_USEC` says, while all workers answer. A daemon
//!    one of whose workers hangs says nothing, and is ended and started again.
//! 3. `STOPPING=1`: the host is drained.

use super::controller::Controller;
use engine::Fleet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How long a service manager that does not read is waited for.
const LONGEST: Duration = Duration::from_secs(2);

/// How long one question to a worker waits for its answer before the next is asked.
const ANSWER: Duration = Duration::from_millis(100);

/// Sends a message, if there is a service manager.
pub(super) fn tell(message: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(&socket, message) {
        let what = format!("the service manager at NOTIFY_SOCKET={} was not told", socket.display());
        console::error().line(&format!("{what}: {error}"));
    }
}

fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(LONGEST))?;
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}

/// Says that all is well for as long as it is, if that is asked for.
pub(super) fn watch(controller: &Arc<Controller>) {
    let asked = |name: &str| std::env::var_os(name);
    let Some(every) = period(asked("WATCHDOG_USEC"), asked("WATCHDOG_PID"), std::process::id()) else {
        return;
    };
    let (this, ends) = (Arc::downgrade(controller), controller.ends.clone());
    let watching = std::thread::Builder::new().name("alive".into()).spawn(move || {
        while let Some(this) = this.upgrade() {
            let fleet = this.host.fleet().clone();
            drop(this);
            // Each worker has to answer, for itself: one that is in a long call keeps no other waiting.
            if !(0..fleet.workers()).all(|worker| answers(&fleet, worker, &ends)) {
                return;
            }
            tell("WATCHDOG=1");
            std::thread::sleep(every);
        }
    });
    if let Err(error) = watching {
        console::error().line(&format!("the thread of the watchdog: {error}"));
    }
}

/// Waits until a worker has come to the end of a turn; false if the daemon ends meanwhile.
fn answers(fleet: &Fleet, worker: usize, ends: &AtomicBool) -> bool {
    while !ends.load(Relaxed) {
        if fleet.answers(worker, ANSWER) {
            return true;
        }
    }
    false
}

/// How often to say it: thrice in the time that is allowed.
fn period(time: Option<OsString>, process: Option<OsString>, own: u32) -> Option<Duration> {
    let number = |text: OsString| text.to_str()?.parse::<u64>().ok();
    if process.is_some_and(|process| number(process) != Some(own.into())) {
        return None;
    }
    number(time?).filter(|time| *time > 0).map(|time| Duration::from_micros(time) / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_may_have_a_path_or_a_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("superfluid-test-{}", std::process::id());
        let abstract_one = SocketAddr::from_abstract_name(&name).expect("a name");
        let sockets = [
            (path.clone().into_os_string(), UnixDatagram::bind(&path)),
            (format!("@{name}").into(), UnixDatagram::bind_addr(&abstract_one)),
        ];
        for (socket, bound) in sockets {
            send(&socket, "READY=1").expect("there is a listener");
            let mut bytes = [0; 64];
            let read = bound.expect("bound").recv(&mut bytes).expect("a datagram");
            assert_eq!(&bytes[..read], b"READY=1");
        }
        assert!(send(folder.path().join("absent").as_os_str(), "READY=1").is_err());
    }

    #[test]
    fn the_watchdog_is_for_this_process_alone() {
        let text = |text: &str| Some(OsString::from(text));
        assert_eq!(period(text("3000000"), text("7"), 7), Some(Duration::from_secs(1)));
        assert_eq!(period(text("3000000"), None, 7), Some(Duration::from_secs(1)));
        for (time, process) in
            [(None, None), (text("0"), None), (text("x"), None), (text("3000000"), text("8"))]
        {
            assert_eq!(period(time, process, 7), None);
        }
    }
}
