//! Whether this host's KVM runs guests, and the device with which one of them may use it.
//!
//! That `/dev/kvm` is there says little: a host that is a virtual machine itself may have one which stops at
//! the first instruction, or never comes back. So a machine of a few hundred bytes is started once, and has
//! to answer within [`WITHIN`]. What it finds holds for the launcher's life.

use crate::Settings;
use rustix::fs::{CWD, FileType, Gid, Mode, Uid, makedev};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The device, on the host and in guests.
pub(crate) const DEVICE: &str = "/dev/kvm";
/// Its numbers (`Documentation/admin-guide/devices.txt`).
pub(crate) const NUMBERS: (u32, u32) = (10, 232);

/// How long the machine has, the start of QEMU included. Where KVM works it takes a tenth of a second.
const WITHIN: Duration = Duration::from_secs(2);

/// The status with which QEMU ends when the machine has answered: `isa-debug-exit` makes `2 * 0x31 + 1` of
/// the byte that it writes.
const ANSWERED: i32 = 99;

/// The machine's firmware, at the beginning of its 64 KiB: from real mode to the 64-bit mode in which kernels
/// run, 20,000,000 turns of a loop, and the answer. Where instructions are emulated one by one that takes
/// many times as long as the machine has.
#[rustfmt::skip]
const FIRMWARE: [u8; 190] = [
    // cli; lgdt cs:[0xb8]; cr0 |= 1; far jump to 8:0xffff001a
    0xfa, 0x2e, 0x66, 0x0f, 0x01, 0x16, 0xb8, 0x00, 0x0f, 0x20, 0xc0, 0x66, 0x83, 0xc8, 0x01, 0x0f,
    0x22, 0xc0, 0x66, 0xea, 0x1a, 0x00, 0xff, 0xff, 0x08, 0x00,
    // 0x1a: ds = es = ss = 16; 4096 zero words at 0x1000
    0xb8, 0x10, 0x00, 0x00, 0x00, 0x8e, 0xd8, 0x8e, 0xc0, 0x8e, 0xd0, 0x31, 0xc0, 0xbf, 0x00, 0x10,
    0x00, 0x00, 0xb9, 0x00, 0x10, 0x00, 0x00, 0xf3, 0xab,
    // the first and the last GiB of 4 are mapped, by pages of 1 GiB: [0x1000] = 0x2003; [0x2000] = 0x83;
    // [0x2018] = 0xc0000083
    0xc7, 0x05, 0x00, 0x10, 0x00, 0x00, 0x03, 0x20, 0x00, 0x00, 0xc7, 0x05, 0x00, 0x20, 0x00, 0x00,
    0x83, 0x00, 0x00, 0x00, 0xc7, 0x05, 0x18, 0x20, 0x00, 0x00, 0x83, 0x00, 0x00, 0xc0,
    // cr3 = 0x1000; cr4 |= PAE; EFER |= LME; cr0 |= PG; far jump to 24:0xffff0082
    0xb8, 0x00, 0x10, 0x00, 0x00, 0x0f, 0x22, 0xd8, 0x0f, 0x20, 0xe0, 0x83, 0xc8, 0x20, 0x0f, 0x22,
    0xe0, 0xb9, 0x80, 0x00, 0x00, 0xc0, 0x0f, 0x32, 0x0d, 0x00, 0x01, 0x00, 0x00, 0x0f, 0x30, 0x0f,
    0x20, 0xc0, 0x0d, 0x00, 0x00, 0x00, 0x80, 0x0f, 0x22, 0xc0, 0xea, 0x82, 0x00, 0xff, 0xff, 0x18,
    0x00,
    // 0x82: ecx = 20000000; until it is 0: ecx -= 1; out 0xf4, 0x31; hlt
    0xb9, 0x00, 0x2d, 0x31, 0x01, 0xff, 0xc9, 0x75, 0xfc, 0x66, 0xba, 0xf4, 0x00, 0xb0, 0x31, 0xee,
    0xf4, 0x8d, 0xb4, 0x00, 0x00, 0x90,
    // 0x98: descriptors: none, 32-bit code, data, 64-bit code; 0xb8: where they are
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x9b, 0xcf, 0x00,
    0xff, 0xff, 0x00, 0x00, 0x00, 0x93, 0xcf, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x9b, 0xaf, 0x00,
    0x1f, 0x00, 0x98, 0x00, 0xff, 0xff,
];
/// Where a processor begins, in the firmware: a jump to its beginning.
const RESET: (usize, [u8; 3]) = (0xfff0, [0xe9, 0x0d, 0x00]);

/// What was found of KVM, once it is looked for.
#[derive(Debug)]
pub(crate) struct Kvm {
    qemu: PathBuf,
    firmware: PathBuf,
    nodes: PathBuf,
    found: Mutex<Option<Result<(), String>>>,
}

impl Kvm {
    pub(crate) fn new(settings: &Settings) -> Kvm {
        Kvm {
            qemu: settings.qemu.clone(),
            firmware: settings.run.join("kvm-firmware"),
            nodes: settings.state.join("kvm"),
            found: Mutex::new(None),
        }
    }

    /// Whether it runs guests, or why not. The first call finds out; others wait for it.
    pub(crate) fn works(&self) -> Result<(), String> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found
            .get_or_insert_with(|| {
                let found = self.probe(WITHIN);
                let line = match &found {
                    Ok(()) => format!("{DEVICE} runs guests"),
                    Err(why) => format!("{DEVICE} runs no guests, virtual machines are emulated: {why}"),
                };
                console::error().line(&format!("superfluid launcher: {line}"));
                found
            })
            .clone()
    }

    /// Starts the machine, and waits for its answer.
    fn probe(&self, within: Duration) -> Result<(), String> {
        if !Path::new(DEVICE).exists() {
            return Err("there is none".to_owned());
        }
        if !cfg!(target_arch = "x86_64") {
            return Err("it is looked for on x86-64 alone".to_owned());
        }
        let mut firmware = vec![0; 64 << 10];
        firmware[..FIRMWARE.len()].copy_from_slice(&FIRMWARE);
        firmware[RESET.0..RESET.0 + RESET.1.len()].copy_from_slice(&RESET.1);
        fs::write(&self.firmware, firmware)
            .map_err(|error| format!("{}: {error}", self.firmware.display()))?;
        // It is root's, without any of root's rights, and ends with the thread that waits for it.
        let mut command = Command::new("setpriv");
        command.args([
            "--pdeathsig",
            "KILL",
            "--no-new-privs",
            "--inh-caps=-all",
            "--bounding-set=-all",
            "--",
        ]);
        command.arg(&self.qemu).args(["-machine", "q35", "-accel", "kvm", "-cpu", "max", "-m", "16M"]);
        command.args(["-nodefaults", "-display", "none", "-no-reboot", "-bios"]).arg(&self.firmware);
        command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        command.env_clear().env("PATH", path).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("setpriv: {error}"))?;
        let begin = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if begin.elapsed() < within => std::thread::sleep(Duration::from_millis(5)),
                // A process in the midst of a call of the kernel ends later; it is waited for beside.
                waited => {
                    let _ = child.kill();
                    std::thread::spawn(move || drop(child.wait()));
                    return Err(match waited {
                        Err(error) => error.to_string(),
                        Ok(_) => format!("a machine of 64 KiB did not answer within {within:?}"),
                    });
                }
            }
        };
        if status.code() == Some(ANSWERED) {
            return Ok(());
        }
        let mut said = String::new();
        if let Some(errors) = child.stderr.take() {
            // What it wrote before its end; of a text that is none nothing is said.
            let _ = errors.take(4096).read_to_string(&mut said);
        }
        let last = said.lines().next().unwrap_or_default();
        let why = format!("QEMU ended ({status}) {last}");
        Err(printable::harmless(why.trim(), 300))
    }

    /// The device as a file of this tenant's users, in a folder of the launcher's. The host's own may be
    /// other
    /// users' alone, and stays as it is.
    pub(crate) fn node(&self, uids: u32) -> io::Result<PathBuf> {
        crate::images::passable(&self.nodes)?;
        let path = self.nodes.join(uids.to_string());
        let device = makedev(NUMBERS.0, NUMBERS.1);
        // Another guest of the tenant may be about to be given it.
        if fs::symlink_metadata(&path).is_ok_and(|it| {
            it.file_type().is_char_device()
                && it.rdev() == device
                && (it.uid(), it.mode() & 0o777) == (uids, 0o600)
        }) {
            return Ok(path);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mode = Mode::from_bits_truncate(0o600);
        rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, mode, device)?;
        rustix::fs::chown(&path, Some(Uid::from_raw(uids)), Some(Gid::from_raw(uids)))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// With a script in place of QEMU.
    fn with(folder: &Path, script: &str) -> Kvm {
        let qemu = folder.join("qemu");
        fs::write(&qemu, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).expect("changed");
        let settings = Settings { qemu, run: folder.into(), state: folder.into(), ..Settings::default() };
        Kvm::new(&settings)
    }

    fn skipped() -> bool {
        let missing = !Path::new(DEVICE).exists() || !rustix::process::geteuid().is_root();
        if missing {
            println!("skipped: there is no {DEVICE}, or no root");
        }
        missing
    }

    #[test]
    fn a_machine_that_hangs_is_ended_and_what_was_found_is_kept() {
        if skipped() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let hangs = with(folder.path(), "exec sleep 1000");
        let why = hangs.probe(Duration::from_millis(100)).expect_err("it hangs");
        assert!(why.contains("did not answer within 100ms"), "{why}");
        let log = folder.path().join("calls");
        let fails =
            with(folder.path(), &format!("echo x >>{}; echo no such thing >&2; exit 1", log.display()));
        for _ in 0..3 {
            let why = fails.works().expect_err("it fails");
            assert!(why.contains("no such thing"), "{why}");
        }
        assert_eq!(fs::read_to_string(&log).expect("there"), "x\n", "it was asked once");
        assert_eq!(with(folder.path(), "exit 99").works(), Ok(()));
        assert!(with(folder.path(), "exit 0").works().is_err(), "an end that is no answer");
    }

    /// The firmware does what it says: QEMU's own emulation runs it to its end.
    #[test]
    fn the_machine_answers_where_it_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let qemu = Settings::default().qemu;
        if skipped() || !qemu.exists() || !cfg!(target_arch = "x86_64") {
            return println!("skipped: there is no {}", qemu.display());
        }
        // The first `kvm` is the accelerator's.
        let script = format!(
            "for a; do shift; [ \"$a\" = kvm ] && a=tcg; set -- \"$@\" \"$a\"; done; exec {} \"$@\"",
            qemu.display()
        );
        assert_eq!(with(folder.path(), &script).probe(Duration::from_secs(20)), Ok(()));
    }
}
