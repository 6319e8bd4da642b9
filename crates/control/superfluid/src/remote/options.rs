//! The command line of what asks a daemon.

use super::connection::Connection;
use super::frame::Frame;
use super::given::{Attached, Given};
use super::registry_login::RegistryCommand;
use super::token::TokenCommand;
use crate::cli::{time, whole};
use crate::output::Format;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum RemoteCommand {
    /// Make what runs what a file says; touch nothing else.
    Apply(ApplyOptions),
    /// Say what `apply` would change, and change nothing.
    Diff(DiffOptions),
    /// Print a link to the page, the host in a browser, for one session.
    Page(PageOptions),
    /// List objects: functions, ports, chains and the other kinds.
    Get(GetOptions),
    /// Tell all of one object: what it is to be, how it is, what names it.
    Describe(DescribeOptions),
    /// Change one object in an editor.
    Edit(EditOptions),
    /// Delete objects, by name or as a file names them.
    Delete(DeleteOptions),
    /// Create, pause, resume and restart functions, read what they say.
    #[command(subcommand)]
    Function(FunctionCommand),
    /// Let another image take over a running function; no packet is lost.
    Upgrade(UpgradeOptions),
    /// Save functions with what they know, and restore them.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Give tenants, and what monitors the host, rights by tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Set the logins with which images are pulled for a tenant.
    #[command(subcommand)]
    Registry(RegistryCommand),
    /// Show what devices are on their links, and their neighbours.
    Neighbours(NeighboursOptions),
    /// Watch functions work: how much each takes, and what is lost.
    Top(TopOptions),
    /// Draw what is wired to what, and what passes there in a second.
    Graph(GraphOptions),
    /// Tell what happens, as it happens.
    Events(EventsOptions),
    /// Follow packets on their way through the functions, hop by hop.
    Trace(TraceOptions),
    /// Capture packets anywhere in the wiring, as pcapng or as lines.
    Capture(CaptureOptions),
    /// Show where the host's memory goes.
    #[command(after_help = "Examples:\n  superfluid memory\n  superfluid memory -o wide")]
    Memory(ShowOptions),
    /// Account for every packet.
    #[command(after_help = "Examples:\n  superfluid account\n  superfluid account -o json")]
    Account(ShowOptions),
    /// Say whether the daemon is well.
    Health(HealthOptions),
    /// Write all that the daemon keeps into one file, while it runs.
    Backup(BackupOptions),
    /// Print the names of objects of a kind, a line each, for completion by a shell.
    #[command(hide = true)]
    Names(NamesOptions),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid page\n  superfluid page --token-file red.token\n\nThe daemon serves the page if it was started with --page \
                        ADDRESS. The link is taken for 60 s, and has the rights of the one who asks: with a token, those of the token."
)]
pub(crate) struct PageOptions {
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
pub(crate) struct NamesOptions {
    /// The kind, as `get` takes it.
    pub(crate) kind: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// How a list is shown.
#[derive(Args, Debug)]
pub(crate) struct Shown {
    /// How to show it.
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Format,
}

/// How long one waits for a change.
#[derive(Args, Debug)]
pub(crate) struct Waiting {
    /// Wait until the change is on disk; else it is there within 10 ms.
    #[arg(long)]
    pub(crate) durable: bool,
    /// Do not wait for what takes long, such as compiling an image; `get operations` shows it.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Wait so long for it; it goes on when the time is over.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10m", conflicts_with = "no_wait")]
    pub(crate) timeout: Duration,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid apply -f examples/edge.yaml\n  superfluid apply -f edge.yaml --dry-run\n  superfluid \
                        apply -f - --prune < everything.yaml\n\nThe file is one that `superfluid run` takes. Objects that it names are created or changed, all of it or \
                        nothing; what is as it should be goes on untouched, and so does what it does not name, unless it is pruned."
)]
pub(crate) struct ApplyOptions {
    /// The file; - for standard input.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Change nothing, and say what would be changed.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Delete what the file does not name.
    #[arg(long)]
    pub(crate) prune: bool,
    /// Let functions begin anew that cannot hand over what they know; `diff` names them.
    #[arg(long)]
    pub(crate) allow_restart: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid diff -f examples/edge.yaml\n  superfluid diff -f edge.yaml --prune -o json\n\nEnds with 0 when all is as the \
                        file says, with 1 when something differs."
)]
pub(crate) struct DiffOptions {
    /// The file; - for standard input.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What the file does not name is to be deleted.
    #[arg(long)]
    pub(crate) prune: bool,
    /// Ask registries whether tags mean other images now than those that functions run with.
    #[arg(long)]
    pub(crate) resolve: bool,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid get functions\n  superfluid get fn fw -o yaml\n  superfluid get port/lan function/fw\n  superfluid get \
                        all -o wide\n  superfluid get functions -w\n  superfluid get all --document > host.yaml\n\nKinds: workers (wk), tenant (tn), port (po), switch (sw), group (gr), device (dev), function (fn), chain (ch), \
                        wire (wi), observer (ob), service (svc); also image (img), snapshot (snap), operation (op), and all."
)]
pub(crate) struct GetOptions {
    /// A kind and perhaps names, or KIND/NAME.
    #[arg(required = true, value_name = "KIND [NAME]...", num_args = 1..)]
    pub(crate) what: Vec<String>,
    /// Those of this tenant alone: functions and ports.
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// Go on with each object that changes, until Ctrl-C. With -o json each is a line then.
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// Print them as one document, as `apply` and `run` take it: what they are to be, without how they are.
    #[arg(long, conflicts_with = "watch")]
    pub(crate) document: bool,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid graph\n  superfluid graph -o svg > host.svg\n  superfluid graph -o json --every 10s\n\nA number that is missing is one that nothing counts: a wire between two \
                  functions of which neither has another way in."
)]
pub(crate) struct GraphOptions {
    /// How to show it.
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: GraphFormat,
    /// Time between the two readings that make the rates.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub(crate) every: Duration,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// How a graph is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// A tree, in 80 columns.
    #[default]
    Text,
    /// Nodes and edges.
    Json,
    /// A picture.
    Svg,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid edit function fw\n  EDITOR=nano superfluid edit port/lan\n\nThe editor is $VISUAL, else $EDITOR, else vi. What is saved is applied, unless the object \
                  has been changed meanwhile or something is wrong with it: then the editor opens again and shows why. What is left as it is, or emptied, changes nothing."
)]
pub(crate) struct EditOptions {
    /// KIND NAME, or KIND/NAME.
    #[arg(required = true, value_name = "KIND NAME", num_args = 1..=2)]
    pub(crate) what: Vec<String>,
    /// Let a function begin anew that cannot hand over what it knows.
    #[arg(long)]
    pub(crate) allow_restart: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid describe function fw\n  superfluid describe port/lan\n\nWith -o json or yaml: the object alone."
)]
pub(crate) struct DescribeOptions {
    /// KIND NAME, or KIND/NAME.
    #[arg(required = true, value_name = "KIND NAME", num_args = 1..=2)]
    pub(crate) what: Vec<String>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid delete function fw\n  superfluid delete chain/edge function/fw port/lan\n  superfluid delete -f \
                        edge.yaml --missing-ok\n\nNothing is deleted that another object needs. Objects go one after the other, those that need others first."
)]
pub(crate) struct DeleteOptions {
    /// A kind and names, or KIND/NAME.
    #[arg(required_unless_present = "file", conflicts_with = "file", value_name = "KIND NAME...", num_args = 1..)]
    pub(crate) what: Vec<String>,
    /// All objects that this file names; - for standard input.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// What is not there is no mistake.
    #[arg(long)]
    pub(crate) missing_ok: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FunctionCommand {
    /// Create a function, with its wires.
    Create(CreateOptions),
    /// Let functions stand still: packets wait in their queues.
    #[command(
        after_help = "Example:\n  superfluid function pause fw\n\nA pause is kept until it is resumed, over a restart of the daemon too."
    )]
    Pause(NamedOptions),
    /// Let paused functions go on.
    #[command(after_help = "Example:\n  superfluid function resume fw")]
    Resume(NamedOptions),
    /// Start functions anew, without what they know.
    #[command(after_help = "Example:\n  superfluid function restart fw")]
    Restart(RestartOptions),
    /// Show what a function said.
    Logs(LogsOptions),
    /// Show what a function found, and why it failed.
    Events(FunctionEventsOptions),
    /// Show what a function reports of itself.
    Report(ReportOptions),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid function create fw --image firewall --attach inside=lan --attach outside=wan\n  superfluid \
                        function create fw --image firewall --config default_action=accept --config rules=@rules.yaml\n  superfluid function create \
                        probe --image ./probe.wasm --tenant red --weight 300 --cap 20% --trace\n  superfluid function create fw2 --from monday --attach inside=lan2\n\nA function that is there already is left as it is; `apply` and \
                        `upgrade` change functions."
)]
pub(crate) struct CreateOptions {
    /// Its name.
    pub(crate) name: String,
    /// A stock image's name, a file, or a reference to a registry.
    #[arg(long, required_unless_present = "from")]
    pub(crate) image: Option<String>,
    /// Begin as this snapshot was: with its image, configuration and memory, which all that begin so share
    /// until they write it.
    #[arg(long, value_name = "SNAPSHOT", conflicts_with_all = ["image", "config"])]
    pub(crate) from: Option<String>,
    /// Connect an interface with a port, a switch or another function's interface, such as lan or gate:1.
    #[arg(long, value_name = "INTERFACE=END")]
    pub(crate) attach: Vec<Attached>,
    /// Configure it: KEY=VALUE in YAML, KEY=@FILE with the value in a file, or @FILE with all of it. Dots
    /// lead into maps.
    #[arg(long, value_name = "KEY=VALUE|@FILE")]
    pub(crate) config: Vec<Given>,
    /// Whose it is.
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Its share of the processor beside others that want it too; others have 100.
    #[arg(long, value_parser = whole(1..=10_000_u32))]
    pub(crate) weight: Option<u32>,
    /// Most of a core that it may have, such as 20%.
    #[arg(long, value_name = "SHARE")]
    pub(crate) cap: Option<String>,
    /// Most memory that it may come to have for itself, such as 16MiB; else what its image allows.
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Print the time of each step.
    #[arg(long)]
    pub(crate) trace: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
pub(crate) struct NamedOptions {
    /// Their names.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Wait until it is on disk; else it is there within 10 ms.
    #[arg(long)]
    pub(crate) durable: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
pub(crate) struct RestartOptions {
    /// Their names.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid function logs fw\n  superfluid function logs fw --follow\n\nWith -o json each line is one object."
)]
pub(crate) struct LogsOptions {
    /// The function's name.
    pub(crate) name: String,
    /// Go on with what it says next, until Ctrl-C.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only lines after the one of this number.
    #[arg(long, value_name = "NUMBER", value_parser = whole(0..=u64::MAX), default_value_t = 0)]
    pub(crate) after: u64,
    /// At most so many lines.
    #[arg(long, value_name = "LINES", value_parser = whole(1..=10_000_u64), conflicts_with = "follow")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid function events ids\n  superfluid function events ids --follow -o json\n\nAlerts, faults and restarts: the last ones of each function are \
                        kept, over a restart of the daemon too. With -o json each line is one object."
)]
pub(crate) struct FunctionEventsOptions {
    /// The function's name.
    pub(crate) name: String,
    /// Go on with what comes next, until Ctrl-C.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only events after the one of this number.
    #[arg(long, value_name = "NUMBER", value_parser = whole(0..=u64::MAX), default_value_t = 0)]
    pub(crate) after: u64,
    /// At most so many events.
    #[arg(long, value_name = "EVENTS", value_parser = whole(1..=10_000_u64), conflicts_with = "follow")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid function report fw\n  superfluid function report fw -o json\n\nThe function is called for it, once a second at most. One that cannot be asked, because it is \
                        down or frozen, is shown with what it reported last."
)]
pub(crate) struct ReportOptions {
    /// The function's name.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid upgrade fw --image ./firewall-2.wasm\n  superfluid upgrade fw --image monitor --config \
                        interval=5s\n\nThe new image takes over between two batches, with what the old one knew. If it cannot, the old one goes on."
)]
pub(crate) struct UpgradeOptions {
    /// The function's name.
    pub(crate) function: String,
    /// The image that takes over: a stock image's name, or a file.
    #[arg(long)]
    pub(crate) image: String,
    /// Configure it anew, as with `function create`; without it, it has the configuration that it had.
    #[arg(long, value_name = "KEY=VALUE|@FILE")]
    pub(crate) config: Vec<Given>,
    /// Let it begin anew if the image cannot take over what the one before knows.
    #[arg(long)]
    pub(crate) allow_restart: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Save a function with what it knows; it goes on.
    Save(SaveOptions),
    /// Make a function of a snapshot.
    Restore(RestoreOptions),
    /// List snapshots.
    #[command(after_help = "Examples:\n  superfluid snapshot ls\n  superfluid snapshot ls -o json")]
    Ls(ShowOptions),
    /// Remove snapshots.
    #[command(after_help = "Example:\n  superfluid snapshot rm monday")]
    Rm(RemoveOptions),
    /// Give an imported snapshot to a tenant.
    Adopt(AdoptOptions),
    /// Make a new key for snapshots, and forget the one before.
    #[command(
        after_help = "Example:\n  superfluid snapshot rotate-key\n\nThe host's own snapshots are sealed with the new key. What was sealed with the key before and is not \
                            in the folder, such as a copy, counts as imported from then on."
    )]
    RotateKey(ShowOptions),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  superfluid snapshot adopt monday --tenant red\n\nA snapshot is imported when this host has not sealed it as it is: it was copied here, was \
                        changed, or was saved before there were seals. Look at it before: it can hold anything."
)]
pub(crate) struct AdoptOptions {
    /// The snapshot.
    pub(crate) name: String,
    /// The tenant that it is given to.
    #[arg(long)]
    pub(crate) tenant: String,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid snapshot save fw monday\n  superfluid snapshot save fw monday -o json"
)]
pub(crate) struct SaveOptions {
    /// The function.
    pub(crate) function: String,
    /// What the snapshot is called.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid snapshot restore monday\n  superfluid snapshot restore monday --as fw2\n\nA function of that name is replaced, with what it \
                        knows; under another name a clone comes beside it."
)]
pub(crate) struct RestoreOptions {
    /// The snapshot.
    pub(crate) name: String,
    /// The function's name; by default the one that was saved.
    #[arg(long = "as", value_name = "FUNCTION")]
    pub(crate) function: Option<String>,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveOptions {
    /// Their names.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid neighbours\n  superfluid neighbours edge -o json\n\nNeighbours are what functions have asked for. Above them stand the addresses, gateways and groups of the devices \
                        themselves: an address is tentative until no other station is found to have it, then preferred; one that another station has is a \
                        duplicate."
)]
pub(crate) struct NeighboursOptions {
    /// One device; without it, all that have addresses.
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid top\n  superfluid top --sort drops\n  superfluid top --every 5s -o json\n\nKeys: q ends; c, p, b, d, m and n sort by \
                        processor, packets, bits, drops, memory and name, the same again turns the order; arrows and Page Up and Down move. Without a terminal, or \
                        with -o, one table is printed after the time between two looks."
)]
pub(crate) struct TopOptions {
    /// What to sort by.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sort: SortBy,
    /// Time between two looks.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub(crate) every: Duration,
    /// Those of this tenant alone.
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// How to show it, once.
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// What functions are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// The processor that they take.
    #[default]
    Cpu,
    /// Packets a second.
    Packets,
    /// Bits a second.
    Bits,
    /// Packets lost a second.
    Drops,
    /// Memory.
    Memory,
    /// Names.
    Name,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid events --follow\n  superfluid events --after 0 -o json\n  superfluid events --since 10m\n  superfluid events --since 1h --follow\n\nWithout --after and --since it begins with what happens next. \
                        --since has the time of each event, and notices too: the daemon keeps those of the last hour. With -o json each \
                        line is one object."
)]
pub(crate) struct EventsOptions {
    /// Go on with what happens next, until Ctrl-C.
    #[arg(long, short, required_unless_present_any = ["after", "since"])]
    pub(crate) follow: bool,
    /// Begin after this revision.
    #[arg(long, value_name = "REVISION", value_parser = whole(0..=u64::MAX))]
    pub(crate) after: Option<u64>,
    /// Begin so long ago, at most an hour.
    #[arg(long, visible_alias = "past", value_name = "TIME", value_parser = past, conflicts_with = "after")]
    pub(crate) since: Option<Duration>,
    /// Of what was, the latest alone, at most so many.
    #[arg(long, value_name = "EVENTS", value_parser = whole(1..=8192_u64), requires = "since")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  superfluid backup -o /srv/backup/edge1.tar\n\nObjects, images and snapshots are as they were at one moment. The file is there when it is whole, on disk and \
                        was read again; a file that has the name is replaced then. It has what is in configurations, secrets too, and is for its owner alone. `superfluid \
                        restore` makes a daemon's state of it."
)]
pub(crate) struct BackupOptions {
    /// The file.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid health\n  superfluid health -o json\n  superfluid health --wait 10s\n\nEnds with 1 when something is not as it should be."
)]
pub(crate) struct HealthOptions {
    /// Wait at most so long until the daemon answers and is well, as after its start.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
pub(crate) struct ShowOptions {
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid trace --at lan tcp port 80\n  superfluid trace -n 3 dropped\n  superfluid trace --at fw:inside --inject \
                        tcp:10.1.0.5:40000-10.2.0.1:80\n\nWithout --at, packets are picked at all ports. Each is told of when its way has ended, with the cycles that \
                        each function took for it; -o json: an object a line. Ends with 1 when no packet was seen."
)]
pub(crate) struct TraceOptions {
    /// Which packets, in the language of pcap-filter(7); also `dropped` and `passed`.
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Pick packets at a port, a device, a function or a function's interface, such as lan or fw:inside.
    #[arg(long, value_name = "PLACE")]
    pub(crate) at: Option<String>,
    /// Follow so many packets.
    #[arg(long, short = 'n', value_name = "PACKETS", value_parser = whole(1..=api::TRACED_MAX))]
    pub(crate) count: Option<u64>,
    /// Pick packets for this time.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) time: Option<Duration>,
    /// Put this packet there where --at says, and follow it; it really goes its way.
    #[arg(long, value_name = "PACKET", requires = "at", conflicts_with_all = ["filter", "count"])]
    pub(crate) inject: Option<Frame>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid capture lan -w lan.pcapng\n  superfluid capture fw dropped and tcp -n 100\n  superfluid capture fw:inside -w - | tcpdump -n \
                        -r -\n  superfluid capture lan~fw:0 --for 10s -w wire.pcapng\n\nPLACE is a port, a function, one of its interfaces, a device, a side of it (edge:lan), or a wire. Where a function is captured, a \
                        comment says what it decided. Goes on until Ctrl-C; what was lost on the way to the file is told at the end."
)]
pub(crate) struct CaptureOptions {
    /// Where, such as lan, fw, fw:inside or lan~fw:0.
    #[arg(value_name = "PLACE")]
    pub(crate) at: String,
    /// Which packets, in the language of pcap-filter(7); also `dropped` and `passed`.
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Write pcapng into this file; - for standard output. Without it, a line for each packet is printed.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Capture so many packets.
    #[arg(long, short = 'n', value_name = "PACKETS", value_parser = whole(1..=u64::MAX))]
    pub(crate) count: Option<u64>,
    /// Capture for this time.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) time: Option<Duration>,
    /// Capture at most so many bytes of each packet.
    #[arg(long = "snaplen", short = 's', value_name = "BYTES", value_parser = whole(14..=u32::MAX))]
    pub(crate) snap: Option<u32>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// How far back events are kept.
fn past(text: &str) -> Result<Duration, String> {
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(3600));
    let span = time(text)?;
    match (least..=most).contains(&span) {
        true => Ok(span),
        false => Err(format!("`{text}` is out of range; allowed: 1s to 1h, for which events are kept")),
    }
}
