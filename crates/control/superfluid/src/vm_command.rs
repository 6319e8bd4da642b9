//! `superfluid vm build`: an image of a virtual machine for one program.

use crate::Outcome;
use crate::cli::{size, time, whole};
use clap::{Args, Subcommand, ValueEnum};
use machine_image::reduce::By;
use machine_image::tiny::{Options, parse_options};
use machine_image::{BuildError, Built, CopyOf, Kernel, Program, Reduction, Request};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum VmCommand {
    /// Make a kernel and an initramfs for a program of this host or a package of Debian's.
    Build(Box<VmOptions>),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid vm build /usr/sbin/nginx --output web --copy ./nginx.conf=/etc/nginx/nginx.conf \
                        --before 'mkdir -p /var/log/nginx /var/lib/nginx' --command \"exec nginx -g 'daemon off;'\"\n  superfluid vm build \
                        redis-server --output cache --kernel tiny --command 'exec redis-server --protected-mode no' --leave-out options \
                        --test 'redis-cli -p $PORT_6379 ping' --port 6379\n\nThe output's folder has `kernel` and `initramfs`, for `guest: vm`. \
                        A search for options that was ended goes on when it is begun again. See docs/vms.md."
)]
pub(crate) struct VmOptions {
    /// A Debian package, or with a `/` a program of this host.
    pub(crate) program: String,
    /// The folder to write `kernel` and `initramfs` into.
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// `debian`, `tiny`, or a kernel's file.
    #[arg(long, value_name = "KERNEL", default_value = "debian")]
    pub(crate) kernel: KernelChoice,
    /// What the machine runs, a line for its shell; by default what the package's unit of systemd starts, or
    /// the program.
    #[arg(long, value_name = "LINE")]
    pub(crate) command: Option<String>,
    /// The program goes on in the background: it is not started again when its first process ends.
    #[arg(long)]
    pub(crate) once: bool,
    /// A line for the machine's shell before that.
    #[arg(long, value_name = "LINE")]
    pub(crate) before: Vec<String>,
    /// Add this package, with its programs and what it depends on.
    #[arg(long, value_name = "PACKAGE")]
    pub(crate) with: Vec<String>,
    /// Add a file or folder of this host.
    #[arg(long, value_name = "PATH=INSIDE", value_parser = copy_of)]
    pub(crate) copy: Vec<CopyOf>,
    /// Add a module of Debian's kernel, and load it.
    #[arg(long, value_name = "NAME")]
    pub(crate) module: Vec<String>,
    /// Of a tiny kernel: an option to add, or with `=n` to leave out, such as CONFIG_SMP=y.
    #[arg(long, value_name = "OPTION")]
    pub(crate) option: Vec<String>,
    /// The same from a file, a line each.
    #[arg(long, value_name = "FILE")]
    pub(crate) options: Option<PathBuf>,
    /// Of a tiny kernel: leave out of the options in this file each without which the test passes.
    #[arg(long, value_name = "FILE", requires = "test")]
    pub(crate) leave_out: Option<PathBuf>,
    /// Try them each alone, or by halves.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) by: Grouping,
    /// The program's test: a line for this host's shell, repeated until it ends with 0; the guest's port N is
    /// $HOST:$PORT_N.
    #[arg(long, value_name = "LINE", requires = "leave_out")]
    pub(crate) test: Option<String>,
    /// A port of the guest that the test reaches.
    #[arg(long, value_name = "N", value_parser = whole(0..=u16::MAX))]
    pub(crate) port: Vec<u16>,
    /// How long a machine has until its test passes.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
    pub(crate) test_time: Duration,
    /// Memory of a machine that is tested.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256MiB")]
    pub(crate) test_memory: u64,
    /// Where packages, the kernel's source and kernels are kept; ~/.cache/superfluid/vm by default.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Compilers at a time; as many as processors by default.
    #[arg(long, value_name = "N", value_parser = whole(1..=usize::MAX))]
    pub(crate) jobs: Option<usize>,
}

/// Which kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelChoice(Kernel);

impl FromStr for KernelChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<KernelChoice, String> {
        match text {
            "debian" => Ok(KernelChoice(Kernel::Debian)),
            "tiny" => Ok(KernelChoice(Kernel::Tiny)),
            path if path.contains('/') => Ok(KernelChoice(Kernel::File(path.into()))),
            _ => Err("allowed: debian, tiny, or a file's path with a `/`".to_owned()),
        }
    }
}

/// In which groups options are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grouping {
    /// Each alone.
    One,
    /// All, then halves of what cannot go together.
    #[default]
    Halves,
}

fn copy_of(text: &str) -> Result<CopyOf, String> {
    let (from, inside) =
        text.split_once('=').ok_or("allowed: PATH=INSIDE, such as ./my.conf=/etc/my.conf")?;
    if from.is_empty() || !inside.starts_with('/') {
        return Err("allowed: PATH=INSIDE, the path inside beginning with a `/`".to_owned());
    }
    Ok(CopyOf { from: from.into(), inside: inside.to_owned() })
}

/// Carries the command out.
pub(crate) fn vm(command: &VmCommand) -> Outcome {
    let VmCommand::Build(options) = command;
    let built = request(options).and_then(|request| {
        machine_image::build(&request, &mut |what| console::error().line(&printable::harmless(what, 600)))
    });
    match built {
        Ok(built) => {
            told(&built).iter().for_each(|line| console::output().line(line));
            Outcome::Done
        }
        Err(error) => {
            console::error().line(&format!("superfluid vm build: {error}"));
            match error {
                _ if error.is_input() => Outcome::BadInput,
                _ if error.is_missing() => Outcome::Missing,
                _ => Outcome::Failed,
            }
        }
    }
}

/// What was made, in lines.
fn told(built: &Built) -> Vec<String> {
    let size = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let file =
        |what: &str, (path, bytes): &(PathBuf, u64)| format!("{what}: {}, {}", path.display(), size(*bytes));
    let mut lines = vec![
        file("kernel", &built.kernel),
        file("initramfs", &built.initramfs),
        format!("runs: {}", printable::harmless(&built.command, 400)),
    ];
    if let Some(found) = &built.found {
        let (made, known) = found.trials;
        lines.push(format!(
            "left out: {} options, kept: {}; {made} trials, {known} known from before",
            found.left_out.len(),
            found.kept.len()
        ));
    }
    lines
}

fn request(given: &VmOptions) -> Result<Request, BuildError> {
    let mut options = Options::new();
    if let Some(path) = &given.options {
        options.extend(read(path)?);
    }
    options.extend(parse_options(&given.option.join("\n"))?);
    let reduction = match (&given.leave_out, &given.test) {
        (Some(path), Some(test)) => Some(Reduction {
            options: read(path)?.into_keys().collect(),
            by: match given.by {
                Grouping::One => By::One,
                Grouping::Halves => By::Halves,
            },
            test: test.clone(),
            ports: given.port.clone(),
            time: given.test_time,
            memory: u32::try_from(given.test_memory >> 20).unwrap_or(u32::MAX),
        }),
        _ => None,
    };
    let program = match given.program.contains('/') {
        true => Program::File(given.program.clone().into()),
        false => Program::Package(given.program.clone()),
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Request {
        program,
        command: given.command.clone(),
        once: given.once,
        before: given.before.clone(),
        with: given.with.clone(),
        copies: given.copy.clone(),
        kernel: given.kernel.0.clone(),
        modules: given.module.clone(),
        options,
        reduction,
        output: given.output.clone(),
        cache: given.cache.clone().unwrap_or_else(machine_image::default_cache),
        jobs: given.jobs.unwrap_or(processors).max(1),
    })
}

fn read(path: &Path) -> Result<Options, BuildError> {
    let mut text = String::new();
    local_file::open_given(path)
        .and_then(|mut file| file.read_to_string(&mut text))
        .map_err(|source| BuildError::File { path: path.to_owned(), source })?;
    parse_options(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_read() {
        assert_eq!("tiny".parse(), Ok(KernelChoice(Kernel::Tiny)));
        assert_eq!("./bzImage".parse(), Ok(KernelChoice(Kernel::File("./bzImage".into()))));
        assert!("huge".parse::<KernelChoice>().expect_err("refused").contains("allowed: debian, tiny"));
        let copy = copy_of("./a=b=/etc/a").expect_err("refused");
        assert!(copy.contains("allowed"), "{copy}");
        let copy = copy_of("./a=/etc/a=b").expect("read");
        assert_eq!((copy.from, copy.inside), (PathBuf::from("./a"), "/etc/a=b".to_owned()));
    }
}
