//! Images of virtual machines: the tiny kernel beside Debian's, for the same program in the same initramfs.
//!
//! busybox's web server is made an image twice (`machine_image`), with each kernel. Both machines boot with
//! the
//! initramfs that Debian's needs, modules included, in turns, emulated, with so many MiB of memory. A machine
//! has booted when its server answers over its network device; what it answers is its own count of free
//! memory.

use crate::{BenchError, Inputs, Measurement, RUNS};
use machine_image::trial::Machine;
use machine_image::{BuildError, CopyOf, Kernel, Program, Request, default_cache};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MEMORY: u32 = 128;
/// A machine that has not booted by then does not.
const LONG: Duration = Duration::from_secs(120);
/// One question to it.
const ASK: Duration = Duration::from_millis(500);

/// The results.
const RESULTS: [(&str, &str); 7] = [
    ("kernel-ratio", "x"),
    ("memory-ratio", "x"),
    ("boot-ms", "ms"),
    ("boot-debian-ms", "ms"),
    ("kernel-mib", "MiB"),
    ("memory-mib", "MiB"),
    ("memory-debian-mib", "MiB"),
];

/// A folder that goes with the bench.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The results, and what was compared; where a kernel or QEMU cannot be had, why.
pub(crate) fn run(
    inputs: &Inputs,
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    let folder = Folder(std::env::temp_dir().join(format!("superfluid-bench-vm-{}", std::process::id())));
    fs::create_dir_all(&folder.0).map_err(BenchError::setup)?;
    match compare(inputs, &folder.0, progress) {
        Ok(found) => Ok(found),
        Err(Trouble::Bench(error)) => Err(error),
        Err(Trouble::Build(error)) => {
            let missing =
                |(name, unit): (&str, &'static str)| Measurement::missing(name, unit, "not-measured");
            Ok((RESULTS.into_iter().map(missing).collect(), vec![error.to_string()]))
        }
    }
}

/// Why nothing is measured: something is missing or cannot be made, or what was made does not work.
enum Trouble {
    Build(BuildError),
    Bench(BenchError),
}

impl From<BuildError> for Trouble {
    fn from(error: BuildError) -> Trouble {
        Trouble::Build(error)
    }
}

impl From<BenchError> for Trouble {
    fn from(error: BenchError) -> Trouble {
        Trouble::Bench(error)
    }
}

fn compare(
    inputs: &Inputs,
    folder: &Path,
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), Trouble> {
    let debian =
        machine_image::build(&request(folder, "debian", Kernel::Debian)?, &mut |what| progress(0.0, what))?;
    let tiny = match &inputs.kernel {
        Some(given) => given.join("kernel"),
        None => {
            let request = request(folder, "tiny", Kernel::Tiny)?;
            machine_image::build(&request, &mut |what| progress(0.1, what))?.kernel.0
        }
    };
    let length = |path: &Path| {
        let found =
            fs::metadata(path).map_err(|error| BenchError::Setup(format!("{}: {error}", path.display())));
        found.map(|it| it.len() as f64 / f64::from(1 << 20))
    };
    let sizes = (length(&tiny)?, length(&debian.kernel.0)?);
    let machine = |kernel: &Path| Machine {
        kernel: kernel.to_owned(),
        initramfs: debian.initramfs.0.clone(),
        memory: MEMORY,
        ports: vec![80],
        append: String::new(),
    };
    let (tiny, debian) = (machine(&tiny), machine(&debian.kernel.0));
    let mut taken: [Vec<f64>; 2] = Default::default();
    let mut times: [Vec<f64>; 2] = Default::default();
    for run in 0..RUNS {
        for (side, (machine, name)) in [(&tiny, "tiny"), (&debian, "Debian's")].into_iter().enumerate() {
            progress(0.3 + 0.7 * (2 * run + side) as f64 / (2 * RUNS) as f64, name);
            let (time, memory) = boot(machine, name, folder)?;
            times[side].push(time);
            taken[side].push(memory);
        }
    }
    let ratios: Vec<f64> = taken[0].iter().zip(&taken[1]).map(|(tiny, debian)| tiny / debian).collect();
    let values: [&[f64]; 7] =
        [&[sizes.0 / sizes.1], &ratios, &times[0], &times[1], &[sizes.0], &taken[0], &taken[1]];
    let results = RESULTS.into_iter().zip(values);
    let results = results.map(|((name, unit), runs)| Measurement::new(name, unit, runs));
    let note = format!(
        "busybox's web server in {MEMORY} MiB, emulated; memory is what is not free, of the same initramfs in both. Debian's kernel \
         has {:.1} MiB",
        sizes.1
    );
    Ok((results.collect(), vec![note]))
}

/// The image of busybox's server, which tells of the machine's memory.
fn request(folder: &Path, name: &str, kernel: Kernel) -> Result<Request, BenchError> {
    let www = folder.join("www");
    let page = www.join("cgi-bin/memory");
    fs::create_dir_all(www.join("cgi-bin")).map_err(BenchError::setup)?;
    fs::write(&page, "#!/bin/sh\necho Content-Type: text/plain\necho\ncat /proc/meminfo\n")
        .map_err(BenchError::setup)?;
    fs::set_permissions(&page, fs::Permissions::from_mode(0o755)).map_err(BenchError::setup)?;
    Ok(Request {
        program: Program::File("/bin/busybox".into()),
        command: Some("exec busybox httpd -f -p 80 -h /www".to_owned()),
        once: false,
        before: Vec::new(),
        with: Vec::new(),
        copies: vec![CopyOf { from: www, inside: "/www".to_owned() }],
        kernel,
        modules: Vec::new(),
        options: Default::default(),
        reduction: None,
        output: folder.join(name),
        cache: default_cache(),
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
    })
}

/// Boots a machine; milliseconds until it answers, and MiB of its memory that are not free then.
fn boot(machine: &Machine, name: &str, folder: &Path) -> Result<(f64, f64), Trouble> {
    let mut running = machine.boot(&folder.join("console"))?;
    let port = running.port(80).unwrap_or_default();
    loop {
        if let Some(answer) = ask(port)
            && let Some(free) = free(&answer)
        {
            let time = running.age().as_secs_f64() * 1e3;
            return Ok((time, f64::from(MEMORY) - free));
        }
        let why = match running.ended() {
            Some(why) => why,
            None if running.age() > LONG => format!("no answer within {LONG:?}"),
            None => continue,
        };
        return Err(BenchError::Invalid(format!("the machine with the kernel {name}: {why}")).into());
    }
}

/// Asks the server; `None` as long as there is none.
fn ask(port: u16) -> Option<String> {
    let mut answer = String::new();
    let asked = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
        stream.set_read_timeout(Some(ASK))?;
        stream.write_all(b"GET /cgi-bin/memory HTTP/1.0\r\n\r\n")?;
        stream.read_to_string(&mut answer)
    });
    if asked.is_err() {
        std::thread::sleep(Duration::from_millis(10));
        return None;
    }
    Some(answer)
}

/// MiB that `/proc/meminfo` says are free.
fn free(answer: &str) -> Option<f64> {
    let line = answer.lines().find_map(|line| line.strip_prefix("MemFree:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_of_an_answer() {
        let answer = "HTTP/1.0 200 OK\r\n\r\nMemTotal:         119448 kB\nMemFree:          102400 kB\n";
        assert_eq!(free(answer), Some(100.0));
        assert_eq!(free("HTTP/1.0 404 Not Found\r\n\r\n"), None);
    }
}
