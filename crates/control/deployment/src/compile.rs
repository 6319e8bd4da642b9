// UNSAFETY: the child's limits are set between fork and exec, with async-signal-safe system calls.
// Miri forks no process; every start of the program in `tests/program` does.
#![allow(unsafe_code)]
//! Compiling in a process of its own: bounded in time and memory, and if the compiler breaks, nothing else
//! does.

use guest_wasm::{Artifact, CompileError, Sandbox};
use std::cell::Cell;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use telemetry::clock::Nanos;

/// Most processor time that compiling one image may take.
const MOST: Duration = Duration::from_secs(60);
/// Longest time for it, on a machine that has hardly any processor time left for it.
const LONGEST: Duration = Duration::from_secs(600);
/// Most address space of the compiling process: its own code, the module, and Cranelift's data.
const MEMORY: libc::rlim_t = 4 << 30;
/// The nice value of the compiling process: workers and requests go first.
const NICE: libc::c_int = 15;
/// Largest outcome that is taken.
const LARGEST: u64 = 512 << 20;

/// This program, whatever stands at its path by now: nothing, or another version.
const PROGRAM: &str = "/proc/self/exe";

/// Compiles a module in a process of its own. The processor time of that process is added to `used`.
///
/// # Errors
/// [`CompileError::Process`] with what that process had to say.
pub(crate) fn compile(wasm: &[u8], used: &Cell<Nanos>) -> Result<Artifact, CompileError> {
    let failed = |what: String| CompileError::Process(what);
    let mut command = Command::new(PROGRAM);
    command
        .arg0("superfluid")
        .arg("compile-module")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: setrlimit, setpriority and prctl are system calls and no more, and nothing else happens
    // between fork and exec.
    unsafe { command.pre_exec(limit) };
    let mut child = command.spawn().map_err(|error| failed(format!("starting the compiler: {error}")))?;
    let outcome = talk(&mut child, wasm);
    if outcome.is_err() {
        // It may have ended by itself.
        let _ = child.kill();
    }
    let (status, time) = wait(&child).map_err(|error| failed(error.to_string()))?;
    used.set(used.get().saturating_add(time));
    match outcome {
        // SAFETY: the child is this same program, started here, and its output is a pipe to here alone.
        Ok((code, _)) if status.success() => Ok(unsafe { Artifact::from_own_compiler(code) }),
        Ok(_) if status.signal() == Some(libc::SIGXCPU) => {
            Err(failed(format!("it took more than {} s of processor time", MOST.as_secs())))
        }
        Ok((_, errors)) => Err(failed(format!("{} ({status})", errors.trim()))),
        Err(error) => Err(failed(error)),
    }
}

/// Waits for the end of a child that nothing else waits for: how it ended, and its processor time.
fn wait(child: &Child) -> std::io::Result<(ExitStatus, Nanos)> {
    let pid = libc::pid_t::try_from(child.id()).map_err(std::io::Error::other)?;
    let mut status = 0;
    // SAFETY: a `rusage` is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: a system call with valid pointers.
        if unsafe { libc::wait4(pid, &mut status, 0, &mut usage) } == pid {
            break;
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let nanos = |time: libc::timeval| {
        let micros = u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000;
        (micros + u64::try_from(time.tv_usec).unwrap_or(0)) * 1_000
    };
    Ok((ExitStatus::from_raw(status), Nanos(nanos(usage.ru_utime) + nanos(usage.ru_stime))))
}

fn limit() -> std::io::Result<()> {
    let bound = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
    let seconds = MOST.as_secs();
    let time = libc::rlimit { rlim_cur: seconds, rlim_max: seconds + 1 };
    // SAFETY: plain system calls with valid pointers.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &bound) | libc::setrlimit(libc::RLIMIT_CPU, &time) };
    // SAFETY: a plain system call with numbers. It fails where the process is nicer already, which is as
    // good.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    // What a service manager gave the daemon for its ports, the compiler does without.
    // SAFETY: a plain system call with numbers.
    let none = unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    if set == 0 && none == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Hands the module over and takes what comes back, for as long as that may take.
fn talk(child: &mut Child, wasm: &[u8]) -> Result<(Vec<u8>, String), String> {
    let (Some(mut input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("the compiler's pipes are missing".into());
    };
    let deadline = Instant::now() + LONGEST;
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || input.write_all(wasm));
        let code = scope.spawn(move || read_all(output));
        let errors = scope.spawn(move || read_all(errors));
        while !(code.is_finished() && errors.is_finished()) {
            if Instant::now() >= deadline {
                // Ends the readers as well.
                let _ = child.kill();
                return Err(format!("it took longer than {} s", LONGEST.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // A child that ended early says why on its standard error.
        let _ = writer.join();
        let joined = |handle: std::thread::ScopedJoinHandle<'_, Result<Vec<u8>, String>>| {
            handle.join().unwrap_or_else(|_| Err("a reader ended".into()))
        };
        Ok((joined(code)?, String::from_utf8_lossy(&joined(errors)?).into_owned()))
    })
}

fn read_all(source: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    source.take(LARGEST).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// The other side: compiles what comes on standard input. A program that has a [`Host`](crate::Host) does
/// this when it is started with the one argument `compile-module`.
///
/// # Errors
/// What is wrong with the module, in words.
pub fn serve() -> Result<(), String> {
    // Else it is called `exe` where processes are listed, as what it was started by; that would do as well.
    let _ = std::fs::write("/proc/self/comm", "superfluid");
    let wasm = read_all(std::io::stdin().lock())?;
    let image = image::Image::load(&wasm).map_err(|error| error.to_string())?;
    let sandbox = Sandbox::new().map_err(|error| error.to_string())?;
    let artifact = sandbox.precompile(image.wasm()).map_err(|error| error.to_string())?;
    std::io::stdout().write_all(artifact.as_bytes()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_has_so_much_memory_and_time_and_a_low_priority_and_no_capability_of_the_daemons() {
        let mut command = Command::new("sh");
        let script = "ulimit -v; ulimit -t; cut -d ' ' -f 19 /proc/$$/stat; grep CapAmb: /proc/$$/status";
        command.args(["-c", script]);
        // SAFETY: as for the compiler.
        unsafe { command.pre_exec(limit) };
        let output = command.output().expect("it starts");
        let told = String::from_utf8(output.stdout).expect("text");
        let told: Vec<&str> = told.split_whitespace().collect();
        let [memory, seconds, nice, "CapAmb:", ambient] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((memory.parse(), seconds.parse()), (Ok(MEMORY >> 10), Ok(MOST.as_secs())));
        assert!(nice.parse::<libc::c_int>().is_ok_and(|nice| nice >= NICE), "{nice}");
        assert_eq!(u64::from_str_radix(ambient, 16), Ok(0));
    }
}
