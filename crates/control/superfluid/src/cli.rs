//! The command line.

use crate::hop_capture::HopFile;
use crate::output::Format;
use crate::remote::options::RemoteCommand;
use crate::vm_command::VmCommand;
use capture::Filter;
use clap::{Args, Parser, Subcommand, ValueEnum};
use registry::Reference;
use std::ffi::OsString;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Runs chains of sandboxed network functions on real traffic.
#[derive(Debug, Parser)]
#[command(name = "superfluid", version, about, propagate_version = true)]
#[command(
    after_help = "Example:\n  superfluid run examples/edge.yaml\n\nEvery command's own --help has another one."
)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run what a file describes, until Ctrl-C.
    Run(RunOptions),
    /// Say everything that is wrong with a file, and start nothing.
    Check(CheckOptions),
    /// Serve functions, ports and chains that clients create and change.
    Daemon(DaemonOptions),
    /// Start containers for a daemon that may not, as its own file allows.
    Launcher(LauncherOptions),
    /// Make the state of a daemon of a backup, before the daemon starts.
    Restore(RestoreOptions),
    /// Make the folder of a new function: it builds, runs and has a test.
    New(NewOptions),
    /// Build images, look into them, push them to registries, pull them.
    #[command(subcommand)]
    Image(ImageCommand),
    /// Make images of virtual machines that run one program.
    #[command(subcommand)]
    Vm(VmCommand),
    /// Measure what is promised, and say whether it holds.
    Bench(BenchOptions),
    /// Print what completes this program's commands in a shell.
    Completions(CompletionsOptions),
    /// Print the manual page, or write those of all commands to a folder.
    Man(ManOptions),
    #[command(flatten)]
    Remote(RemoteCommand),
    /// Compile the module on standard input; started by this program itself.
    #[command(hide = true)]
    CompileModule,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid run examples/edge.yaml\n  superfluid run examples/generator.yaml --for \
                        10s --json\n  superfluid run examples/edge.yaml --capture edge_firewall=dropped.pcapng \
                        --capture-filter 'dropped and tcp'\n\nWith --json each line is one object: an account each second, events as they \
                        happen, at the end the final account."
)]
pub(crate) struct RunOptions {
    /// The file: tenants, ports, functions, chains; - for standard input.
    pub(crate) file: PathBuf,
    /// Stop after this time (250ms, 10s, 5m) instead of on Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) time: Option<Duration>,
    /// Write JSON lines instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Leave out of the final account what functions report and count themselves.
    #[arg(long, conflicts_with = "json")]
    pub(crate) brief: bool,
    /// Capture the packets at a port, function, interface, device, side of a device (`edge:lan`) or wire into
    /// a pcapng file, with the verdict of each as a comment.
    #[arg(long, value_name = "HOP=FILE")]
    pub(crate) capture: Vec<HopFile>,
    /// Capture these packets only, in the language of pcap-filter(7); also `dropped` and `passed`.
    #[arg(long, value_name = "FILTER", value_parser = filter, requires = "capture")]
    pub(crate) capture_filter: Option<Filter>,
    /// Capture at most so many bytes of each packet.
    #[arg(long, value_name = "BYTES", value_parser = whole(14..=u32::MAX), requires = "capture")]
    pub(crate) capture_snap: Option<u32>,
    /// End a capture when its file would become larger than this (100MiB, 2GiB).
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "capture")]
    pub(crate) capture_limit: Option<u64>,
    /// Time between two views.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub(crate) every: Duration,
    /// The socket of the launcher, which starts functions that are containers or programs.
    #[arg(long, value_name = "PATH", default_value = "/run/superfluid-launcher/launcher.sock")]
    pub(crate) launcher: PathBuf,
    /// The launcher's folder of sockets for these functions.
    #[arg(long, value_name = "DIR", default_value = "/run/superfluid-guests")]
    pub(crate) guest_sockets: PathBuf,
    /// Write /tmp/perf-PID.map, so that perf names functions inside images that were built with --names.
    #[arg(long)]
    pub(crate) perf_map: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid daemon\n  superfluid daemon --socket ./superfluid.sock --state ./state\n  superfluid \
                        daemon --mode 660 --group 27\n  superfluid daemon --page 127.0.0.1:8800\n  superfluid daemon --tenants-socket /run/superfluid/tenants.sock\n\nWhat is created is kept in the state's folder, and runs again after a restart."
)]
pub(crate) struct DaemonOptions {
    /// The UNIX socket that clients talk to.
    #[arg(long, value_name = "PATH", default_value = "/run/superfluid/superfluid.sock")]
    pub(crate) socket: PathBuf,
    /// Permissions of the socket, in octal.
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = permissions)]
    pub(crate) mode: u32,
    /// Owner of the socket, by number.
    #[arg(long, value_name = "UID", value_parser = whole(0..=u32::MAX))]
    pub(crate) owner: Option<u32>,
    /// Group of the socket, by number.
    #[arg(long, value_name = "GID", value_parser = whole(0..=u32::MAX))]
    pub(crate) group: Option<u32>,
    /// A second socket, for tenants: no client is served on it without a token, see `token create`.
    #[arg(long, value_name = "PATH")]
    pub(crate) tenants_socket: Option<PathBuf>,
    /// Permissions of the tenants' socket, in octal.
    #[arg(long, value_name = "MODE", default_value = "666", value_parser = permissions, requires = "tenants_socket")]
    pub(crate) tenants_mode: u32,
    /// Let tenants' tokens name images in this registry, HOST[:PORT]; without it those of this program alone.
    #[arg(long, value_name = "HOST")]
    pub(crate) tenant_registry: Vec<String>,
    /// The folder of what the daemon keeps: objects, images, snapshots, the audit log.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/superfluid")]
    pub(crate) state: PathBuf,
    /// The most memory that may be promised to tenants and functions all together; by default the limit of
    /// the daemon's control group, if it has one.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<u64>,
    /// What to do when a change cannot be written into the audit log: refuse it, or make it and count what is
    /// missing.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) audit: AuditPolicy,
    /// Speak plain HTTP to this registry, HOST[:PORT] as in images' references; without it nothing goes
    /// without TLS, to localhost neither.
    #[arg(long, value_name = "HOST")]
    pub(crate) registry_insecure: Vec<String>,
    /// Trust the certificates in this file, in PEM, beside the system's, when registries are asked.
    #[arg(long, value_name = "FILE")]
    pub(crate) registry_ca_file: Option<PathBuf>,
    /// Credentials for registries: a file with `auths`, as ~/.docker/config.json has them. Read whenever a
    /// registry is asked.
    #[arg(long, value_name = "FILE")]
    pub(crate) registry_auth_file: Option<PathBuf>,
    /// Give a registry up when it takes longer in all.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2m")]
    pub(crate) registry_timeout: Duration,
    /// Keep at most so many bytes of images; what no function and no snapshot needs leaves, the longest
    /// unused first.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    pub(crate) keep_images: u64,
    /// Keep at most so many bytes of images of containers for each tenant; what none of its containers needs
    /// leaves, the longest there first.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4GiB")]
    pub(crate) keep_container_images: u64,
    /// Let tokens of a tenant save a snapshot only where all of the tenant's have at most so many bytes with
    /// it.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4GiB")]
    pub(crate) keep_snapshots: u64,
    /// Listen on this address too, for clients that show a certificate.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address, requires_all = ["tls_cert", "tls_key", "tls_client_ca"])]
    pub(crate) listen: Option<SocketAddr>,
    /// The server's certificate, PEM, for --listen, and for --page off loopback.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The authority that signs clients' certificates, PEM.
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Clients with this certificate are administrators, and all others need a token: a DNS name that it is
    /// for, or sha256:HEX. Without it, all are.
    #[arg(long, value_name = "NAME|sha256:HEX", requires = "listen")]
    pub(crate) tls_admin: Vec<api_server::Administrator>,
    /// Give `GET /metrics` of the whole host to every local user, by plain HTTP on this loopback address,
    /// such as 127.0.0.1:9100, and nothing else there.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Serve the page on this address, such as 127.0.0.1:8800: the host in a browser. Off loopback it needs
    /// --tls-cert and --tls-key. `superfluid page` prints a link to it.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub(crate) page: Option<SocketAddr>,
    /// Tell this OpenTelemetry collector of calls and their steps (OTLP over HTTP); by default as
    /// OTEL_EXPORTER_OTLP_ENDPOINT says.
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// The socket of the launcher, which starts functions that are containers or programs.
    #[arg(long, value_name = "PATH", default_value = "/run/superfluid-launcher/launcher.sock")]
    pub(crate) launcher: PathBuf,
    /// The launcher's folder of sockets for these functions.
    #[arg(long, value_name = "DIR", default_value = "/run/superfluid-guests")]
    pub(crate) guest_sockets: PathBuf,
    /// Write /tmp/perf-PID.map, so that perf names functions inside images that were built with --names.
    #[arg(long)]
    pub(crate) perf_map: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid launcher\n  superfluid launcher --ask '{\"list\": {}}'\n  superfluid launcher --ask - < \
                        start.json\n\nIt needs root, and is started by its unit: systemctl enable --now superfluid-launcher."
)]
pub(crate) struct LauncherOptions {
    /// The UNIX socket that it listens on, or that is asked.
    #[arg(long, value_name = "PATH", default_value = "/run/superfluid-launcher/launcher.sock")]
    pub(crate) socket: PathBuf,
    /// Send this request to the launcher, print its answer, and end; `-` reads it from standard input.
    #[arg(long, value_name = "JSON", conflicts_with_all = ["permits", "state", "run", "guest_sockets"])]
    pub(crate) ask: Option<String>,
    /// What may be started, and for which tenant: a file that only root may write.
    #[arg(long, value_name = "FILE", default_value = "/etc/superfluid/launcher.yaml")]
    pub(crate) permits: PathBuf,
    /// The folder of unpacked images.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/superfluid-launcher")]
    pub(crate) state: PathBuf,
    /// The folder of what runs now, which must not outlive a start of the host.
    #[arg(long, value_name = "DIR", default_value = "/run/superfluid-launcher")]
    pub(crate) run: PathBuf,
    /// The folder of sockets for guests, in which each gets one that the client makes sockets in.
    #[arg(long, value_name = "DIR", default_value = "/run/superfluid-guests")]
    pub(crate) guest_sockets: PathBuf,
    /// The control group that containers' are below. It is the launcher's alone: what it finds in it and has
    /// not started it ends.
    #[arg(long, value_name = "NAME", default_value = "superfluid")]
    pub(crate) cgroup: String,
}

/// Whether changes need the audit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditPolicy {
    /// A change that cannot be logged is refused.
    #[default]
    Required,
    /// It is made, and the lines that are missing are counted.
    BestEffort,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  superfluid restore /srv/backup/edge1.tar --state /var/lib/superfluid\n\nAll of it or nothing: the backup is checked as a whole first. The folder must be empty or \
                        not exist; if it exists, what is restored gets its owner."
)]
pub(crate) struct RestoreOptions {
    /// What `superfluid backup` wrote.
    pub(crate) file: PathBuf,
    /// The folder that a daemon is then given as its --state.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/superfluid")]
    pub(crate) state: PathBuf,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid check examples/edge.yaml\n  superfluid check - < edge.yaml\n\nWhere a launcher \
                        runs it is asked whether it would start the file's containers, programs and virtual machines."
)]
pub(crate) struct CheckOptions {
    /// List all faults that functions find in files that their configuration names, such as rules; else the
    /// first ones of each function, and how many more there are.
    #[arg(long)]
    pub(crate) all: bool,
    /// The socket of the launcher, which is asked about functions that are containers or programs.
    #[arg(long, value_name = "PATH", default_value = "/run/superfluid-launcher/launcher.sock")]
    pub(crate) launcher: PathBuf,
    /// The file; - for standard input.
    pub(crate) file: PathBuf,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid new hello\n  superfluid new counter --lang c --path functions/counter\n  superfluid new \
                        gate --native\n  superfluid new gate --native --lang rust"
)]
pub(crate) struct NewOptions {
    /// The function's name.
    pub(crate) name: String,
    /// What it is written in; by default Rust, with --native C.
    #[arg(long, value_enum)]
    pub(crate) lang: Option<SourceLanguage>,
    /// Make one that builds as a native process, too: in C with what the package superfluid-dev installs, in
    /// Rust with crates of a registry.
    #[arg(long)]
    pub(crate) native: bool,
    /// The folder to make; NAME by default.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) path: Option<PathBuf>,
}

/// What functions are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceLanguage {
    Rust,
    C,
}

impl SourceLanguage {
    /// As manifests name it.
    pub(crate) fn shown(self) -> &'static str {
        match self {
            SourceLanguage::Rust => "rust",
            SourceLanguage::C => "c",
        }
    }
}

#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  superfluid completions bash > ~/.local/share/bash-completion/completions/superfluid"
)]
pub(crate) struct CompletionsOptions {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid man | man -l -\n  superfluid man --output ~/.local/share/man/man1"
)]
pub(crate) struct ManOptions {
    /// Write a page for each command into this folder.
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Build the smallest image of a function that passes the function's own test, from its folder.
    Build(BuildOptions),
    /// Show what an image is, what it needs and how it is configured.
    #[command(
        after_help = "Examples:\n  superfluid image inspect firewall\n  superfluid image inspect ./my.wasm"
    )]
    Inspect {
        /// A stock image's name, or a file.
        image: String,
    },
    /// Push an image to a registry; prints the reference, pinned to its digest.
    #[command(
        after_help = "Examples:\n  superfluid image push hello.wasm registry.example.org/edge/hello:1.0.0\n  superfluid image push \
                        firewall localhost:5000/firewall:1 --insecure localhost:5000"
    )]
    Push {
        /// A stock image's name, or a file.
        image: String,
        /// Where to: HOST[:PORT]/REPOSITORY[:TAG].
        reference: Reference,
        #[command(flatten)]
        registry: RegistryOptions,
    },
    /// Pull an image from a registry, check it and keep it; prints the reference, pinned to its digest.
    #[command(
        after_help = "Examples:\n  superfluid image pull registry.example.org/edge/hello:1.0.0\n  superfluid image pull \
                        localhost:5000/firewall:1 --insecure localhost:5000 --output firewall.wasm\n\nA reference with a digest that is kept \
                        already is not asked for."
    )]
    Pull {
        /// What: HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST].
        reference: Reference,
        /// Write the image into this file as well.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        registry: RegistryOptions,
        #[command(flatten)]
        kept: KeptOptions,
    },
    /// List the images that were pulled and are kept.
    #[command(after_help = "Examples:\n  superfluid image ls\n  superfluid image ls -o json")]
    Ls {
        /// How to show them.
        #[arg(long, short, value_enum, default_value_t)]
        output: Format,
        #[command(flatten)]
        kept: KeptOptions,
    },
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid image build functions/forwarder --output forwarder.wasm\n  superfluid image build . --for size -o \
                        json\n\nThe function's own test is tests/image.yaml in its folder. A cut stays when the test passes and packets \
                        cost no more than 2% more."
)]
pub(crate) struct BuildOptions {
    /// The folder, with function.yaml and the sources.
    pub(crate) directory: PathBuf,
    /// Where to write the image; NAME.wasm of the function's name by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Keep the names of functions, for profilers and traps.
    #[arg(long)]
    pub(crate) names: bool,
    /// Cut nothing, and run no test.
    #[arg(long, conflicts_with_all = ["goal", "format"])]
    pub(crate) no_cut: bool,
    /// What to cut for.
    #[arg(long = "for", value_name = "GOAL", value_enum, default_value_t)]
    pub(crate) goal: BuildGoal,
    /// How to show what was cut.
    #[arg(long, short = 'o', value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// What an image is cut for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BuildGoal {
    /// Smaller, as long as packets cost no more than 2% more.
    #[default]
    Speed,
    /// Smaller, whatever packets cost.
    Size,
}

/// How registries are spoken to.
#[derive(Args, Debug)]
pub(crate) struct RegistryOptions {
    /// Speak plain HTTP to this host, HOST[:PORT] as in the reference; without it nothing goes without TLS,
    /// to localhost neither.
    #[arg(long, value_name = "HOST")]
    pub(crate) insecure: Vec<String>,
    /// Trust the certificates in this file, in PEM, beside the system's.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Take credentials from the `auths` of this file instead of $REGISTRY_AUTH_FILE or
    /// ~/.docker/config.json.
    #[arg(long, value_name = "FILE")]
    pub(crate) auth_file: Option<PathBuf>,
    /// Give up when it takes longer in all.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5m")]
    pub(crate) timeout: Duration,
}

/// Where images are kept.
#[derive(Args, Debug)]
pub(crate) struct KeptOptions {
    /// The folder; superfluid/images in $XDG_CACHE_HOME or ~/.cache by default.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) images: Option<PathBuf>,
    /// Keep at most so many bytes; what is not pinned leaves, the longest unused first.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    pub(crate) keep: u64,
}

#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\n  superfluid bench --help\n  superfluid bench call\n  superfluid bench hypernf --report report"
)]
pub(crate) struct BenchOptions {
    /// Which bench, and its options: `superfluid bench --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "BENCH")]
    pub(crate) arguments: Vec<OsString>,
}

/// An expression of pcap-filter(7).
fn filter(text: &str) -> Result<Filter, String> {
    Filter::parse(text).map_err(|error| error.to_string())
}

/// A size with its unit.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    schema::size(text)
        .filter(|bytes| *bytes >= 4096)
        .ok_or_else(|| format!("`{text}` is no size; allowed: 4KiB or more, units B, KiB, MiB, GiB"))
}

/// Permissions of a file, in octal.
fn permissions(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| format!("`{text}` are no permissions; allowed: 0 to 777, such as 660"))
}

/// An IP address and a port.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "allowed: an IP address and a port, such as 127.0.0.1:8800 or [::1]:8800".to_owned())
}

/// A whole number within bounds. Where the upper one is that of the type it is told of ports alone.
pub(crate) fn whole<T>(
    bounds: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Unbounded + Copy + Send + Sync + 'static,
{
    move |text| {
        let (least, most) = (bounds.start(), bounds.end());
        text.parse().ok().filter(|number| bounds.contains(number)).ok_or_else(|| match T::BEYOND {
            Some(beyond) if *most == beyond => format!("allowed: a whole number from {least} on"),
            _ => format!("allowed: a whole number from {least} to {most}"),
        })
    }
}

/// A type of numbers, the largest of which is none that people know, if it has one.
pub(crate) trait Unbounded: Sized {
    /// That number.
    const BEYOND: Option<Self>;
}

impl Unbounded for u16 {
    const BEYOND: Option<u16> = None;
}

impl Unbounded for u32 {
    const BEYOND: Option<u32> = Some(u32::MAX);
}

impl Unbounded for u64 {
    const BEYOND: Option<u64> = Some(u64::MAX);
}

impl Unbounded for usize {
    const BEYOND: Option<usize> = Some(usize::MAX);
}

/// A time with its unit.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    schema::duration(text).map(Duration::from_nanos).ok_or_else(|| {
        format!("`{text}` is not a time; allowed: a number and ns, us, ms, s, m, h or d, such as 10s")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_an_example() {
        let mut command = CommandLine::command();
        command.build();
        command.clone().debug_assert();
        let mut leaves = 0;
        let mut below: Vec<_> = command.get_subcommands().cloned().collect();
        while let Some(mut command) = below.pop() {
            if command.is_hide_set() || command.get_name() == "help" {
                continue;
            }
            below.extend(command.get_subcommands().cloned());
            if command.get_subcommands().next().is_none() {
                leaves += 1;
                let help = command.render_help().to_string();
                assert!(help.contains("Example") && help.contains("\n  superfluid "), "{help}");
            }
        }
        assert!(leaves > 30, "{leaves}");
    }

    /// Every option of every command, with a value that fits none.
    #[test]
    fn what_is_no_number_is_told_with_what_is_allowed() {
        let mut below = vec![(CommandLine::command(), vec!["superfluid".to_owned()])];
        let mut numbers = 0;
        while let Some((command, way)) = below.pop() {
            for next in command.get_subcommands().cloned() {
                let way = way.iter().cloned().chain([next.get_name().to_owned()]).collect();
                below.push((next, way));
            }
            for option in command.get_opts().filter_map(|option| option.get_long()) {
                for value in ["x1", "-5"] {
                    let line = way.iter().cloned().chain([format!("--{option}={value}")]);
                    let Err(error) = CommandLine::command().try_get_matches_from(line) else { continue };
                    let told = error.to_string();
                    assert!(
                        !["found in string", " is not in ", "syntax"].iter().any(|it| told.contains(it)),
                        "{told}"
                    );
                    numbers += usize::from(told.contains("allowed: a whole number from "));
                }
            }
        }
        assert!(numbers > 20, "{numbers}");
    }
}
