//! All that can be asked: methods, paths, parameters, bodies and answers. Requests are told apart by this
//! table, and the description of the interface is made of it, so that neither can have what the other lacks.

use crate::state::SMALL;
use api::Kind;
use hyper::Method;

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The description of the interface.
    OpenApi,
    /// How the daemon is.
    Health,
    /// Counters for Prometheus.
    Metrics,
    /// The account of every packet.
    Account,
    /// Where memory goes.
    Memory,
    /// What is wired to what.
    Graph,
    /// What passed in the last hour.
    History,
    /// The images.
    Images,
    /// The stream of events.
    Events,
    /// The events of the last hour.
    PastEvents,
    /// A whole document.
    Apply,
    /// A whole document, of which nothing comes.
    Check,
    /// All operations.
    Operations,
    /// One operation.
    Operation,
    /// All snapshots.
    Snapshots,
    /// One snapshot.
    Snapshot,
    /// Removes a snapshot.
    DeleteSnapshot,
    /// Makes a function of a snapshot.
    Restore,
    /// Gives an imported snapshot to a tenant.
    Adopt,
    /// Makes a new key for snapshots.
    RotateKey,
    /// Objects of a kind.
    List(Kind),
    /// One object.
    Get(Kind),
    /// Creates or replaces one.
    Put(Kind),
    /// Deletes one.
    Delete(Kind),
    /// Lets a function stand still.
    Pause,
    /// Lets it go on.
    Resume,
    /// Starts it anew.
    Restart,
    /// Gives it another image.
    Upgrade,
    /// Saves it.
    Save,
    /// What it said.
    Logs,
    /// What it found and what happened to it.
    FunctionEvents,
    /// What it reports.
    Report,
    /// What a device is on its links, and its neighbours.
    Neighbours,
    /// Follows packets on their way.
    Trace,
    /// Captures packets.
    Capture,
    /// Writes a backup.
    Backup,
    /// All tokens.
    Tokens,
    /// One token.
    Token,
    /// Makes a token.
    IssueToken,
    /// Deletes one.
    DeleteToken,
    /// Makes a link to the page.
    PageLink,
    /// Logins at registries.
    RegistryLogins,
    /// Sets one.
    SetRegistryLogin,
    /// Deletes one.
    DeleteRegistryLogin,
}

/// What a body is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No body.
    Nothing,
    /// JSON.
    Json,
    /// JSON or YAML.
    Document,
}

/// What a successful answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// JSON.
    Json,
    /// JSON, or lines of it when it is followed.
    Lines,
    /// Text for Prometheus.
    Text,
    /// Packets, as pcapng.
    Packets,
    /// A backup, as a tar file.
    Archive,
}

/// What the name in a path is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// An object of a kind.
    Object(Kind),
    /// A snapshot, a token or an operation: one word.
    Word,
}

/// What a path is, when it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A call, with the name in the path.
    Call(Call, Option<String>),
    /// A path that does not take this method, but these.
    Methods(Vec<&'static str>),
    /// Nothing.
    Nothing,
}

impl Call {
    /// All of them, in the order of the description.
    pub fn all() -> impl Iterator<Item = Call> {
        let of_kinds = Kind::ALL
            .into_iter()
            .flat_map(|kind| [Call::List(kind), Call::Get(kind), Call::Put(kind), Call::Delete(kind)]);
        let others = [
            Call::Apply,
            Call::Check,
            Call::Pause,
            Call::Resume,
            Call::Restart,
            Call::Upgrade,
            Call::Logs,
            Call::FunctionEvents,
            Call::Report,
            Call::Save,
            Call::Neighbours,
            Call::Snapshots,
            Call::Snapshot,
            Call::DeleteSnapshot,
            Call::Restore,
            Call::Adopt,
            Call::RotateKey,
            Call::Images,
            Call::Events,
            Call::PastEvents,
            Call::Operations,
            Call::Operation,
            Call::Trace,
            Call::Capture,
            Call::Backup,
            Call::Tokens,
            Call::IssueToken,
            Call::Token,
            Call::DeleteToken,
            Call::PageLink,
            Call::RegistryLogins,
            Call::SetRegistryLogin,
            Call::DeleteRegistryLogin,
            Call::Account,
            Call::Memory,
            Call::Graph,
            Call::History,
            Call::Metrics,
            Call::Health,
            Call::OpenApi,
        ];
        of_kinds.chain(others)
    }

    /// Its method.
    pub fn method(self) -> Method {
        match self {
            Call::Put(_) => Method::PUT,
            Call::Delete(_) | Call::DeleteSnapshot | Call::DeleteToken | Call::DeleteRegistryLogin => {
                Method::DELETE
            }
            Call::Apply
            | Call::Check
            | Call::Pause
            | Call::Resume
            | Call::Restart
            | Call::Upgrade
            | Call::Save
            | Call::Restore
            | Call::Adopt
            | Call::RotateKey
            | Call::Trace
            | Call::Capture
            | Call::Backup
            | Call::IssueToken
            | Call::PageLink
            | Call::SetRegistryLogin => Method::POST,
            _ => Method::GET,
        }
    }

    /// Its path, with `{name}` where a name stands.
    pub fn path(self) -> String {
        use api::paths;
        match self {
            Call::OpenApi => paths::OPENAPI.to_owned(),
            Call::Health => paths::HEALTH.to_owned(),
            Call::Metrics => paths::METRICS.to_owned(),
            Call::Account => paths::ACCOUNT.to_owned(),
            Call::Memory => paths::MEMORY.to_owned(),
            Call::Graph => paths::GRAPH.to_owned(),
            Call::History => paths::HISTORY.to_owned(),
            Call::Images => paths::IMAGES.to_owned(),
            Call::Events => paths::EVENTS.to_owned(),
            Call::PastEvents => paths::PAST_EVENTS.to_owned(),
            Call::Apply => paths::APPLY.to_owned(),
            Call::Check => paths::CHECK.to_owned(),
            Call::Operations => paths::OPERATIONS.to_owned(),
            Call::Operation => format!("{}/{{name}}", paths::OPERATIONS),
            Call::Snapshots => paths::SNAPSHOTS.to_owned(),
            Call::Snapshot | Call::DeleteSnapshot => format!("{}/{{name}}", paths::SNAPSHOTS),
            Call::Restore => format!("{}/{{name}}/restore", paths::SNAPSHOTS),
            Call::Adopt => format!("{}/{{name}}/adopt", paths::SNAPSHOTS),
            Call::RotateKey => paths::SNAPSHOT_KEYS.to_owned(),
            Call::List(kind) => paths::objects(kind),
            Call::Get(kind) | Call::Put(kind) | Call::Delete(kind) => {
                format!("{}/{{name}}", paths::objects(kind))
            }
            Call::Pause => "/v1/functions/{name}/pause".to_owned(),
            Call::Resume => "/v1/functions/{name}/resume".to_owned(),
            Call::Restart => "/v1/functions/{name}/restart".to_owned(),
            Call::Upgrade => "/v1/functions/{name}/upgrade".to_owned(),
            Call::Save => "/v1/functions/{name}/snapshots".to_owned(),
            Call::Logs => "/v1/functions/{name}/logs".to_owned(),
            Call::FunctionEvents => "/v1/functions/{name}/events".to_owned(),
            Call::Report => "/v1/functions/{name}/report".to_owned(),
            Call::Neighbours => "/v1/devices/{name}/neighbours".to_owned(),
            Call::Trace => paths::TRACES.to_owned(),
            Call::Capture => paths::CAPTURES.to_owned(),
            Call::Backup => paths::BACKUPS.to_owned(),
            Call::Tokens | Call::IssueToken => paths::TOKENS.to_owned(),
            Call::Token | Call::DeleteToken => format!("{}/{{name}}", paths::TOKENS),
            Call::PageLink => paths::PAGE_LINKS.to_owned(),
            Call::RegistryLogins | Call::SetRegistryLogin | Call::DeleteRegistryLogin => {
                paths::REGISTRY_LOGINS.to_owned()
            }
        }
    }

    /// What the name in its path is of, if there is one.
    pub fn names(self) -> Names {
        match self {
            Call::Get(kind) | Call::Put(kind) | Call::Delete(kind) | Call::List(kind) => Names::Object(kind),
            Call::Pause
            | Call::Resume
            | Call::Restart
            | Call::Upgrade
            | Call::Save
            | Call::Logs
            | Call::FunctionEvents
            | Call::Report => Names::Object(Kind::Function),
            Call::Neighbours => Names::Object(Kind::Device),
            _ => Names::Word,
        }
    }

    /// The parameters that may stand behind `?`.
    pub fn parameters(self) -> &'static [&'static str] {
        match self {
            Call::List(Kind::Function | Kind::Port) => &["limit", "after", "tenant"],
            Call::List(_) | Call::Neighbours => &["limit", "after"],
            Call::Put(Kind::Function) => &["allow_restart", "dry_run", "durable", "from", "wait"],
            Call::Put(_) => &["allow_restart", "dry_run", "durable", "wait"],
            Call::Delete(_) => &["dry_run", "durable", "wait"],
            Call::Apply => &["allow_restart", "dry_run", "durable", "prune", "resolve", "wait"],
            Call::Check => &["prune"],
            Call::Upgrade => &["allow_restart", "durable", "wait"],
            Call::Restore => &["durable", "wait"],
            Call::Pause | Call::Resume => &["durable"],
            Call::DeleteRegistryLogin => &["registry", "tenant"],
            Call::Events => &["after", "follow"],
            Call::PastEvents => &["limit", "seconds"],
            Call::History => &["at", "layout", "of", "seconds"],
            Call::Logs | Call::FunctionEvents => &["after", "limit", "follow"],
            _ => &[],
        }
    }

    /// Whether it heeds `If-Match` and `If-None-Match`.
    pub fn conditional(self) -> bool {
        let objects = matches!(self, Call::Put(_) | Call::Delete(_) | Call::Upgrade | Call::Restore);
        objects || matches!(self, Call::Pause | Call::Resume | Call::Restart | Call::Save)
    }

    /// Whether it changes something, looks into packets or takes all there is with it, so that it is written
    /// to the audit log.
    pub fn changes(self) -> bool {
        self.method() != Method::GET && self != Call::Check
    }

    /// Whether it is a change of objects, which is written to the audit log when it is made, be it after the
    /// answer.
    pub fn is_a_change_of_objects(self) -> bool {
        matches!(self, Call::Put(_) | Call::Delete(_) | Call::Apply | Call::Upgrade | Call::Restore)
    }

    /// Its body.
    pub fn takes(self) -> Takes {
        match self {
            Call::Put(_)
            | Call::Upgrade
            | Call::Save
            | Call::Restore
            | Call::Adopt
            | Call::Trace
            | Call::Capture
            | Call::IssueToken
            | Call::SetRegistryLogin => Takes::Json,
            Call::Apply | Call::Check => Takes::Document,
            _ => Takes::Nothing,
        }
    }

    /// Bytes of its body at most, where that is less than for any: what is not written down as it is has a
    /// few keys, and is taken apart on the thread that answers.
    pub fn most_bytes(self) -> Option<usize> {
        let whole = matches!(self, Call::Put(_) | Call::Upgrade | Call::Apply | Call::Check);
        (!whole).then_some(SMALL)
    }

    /// Its answer.
    pub fn gives(self) -> Gives {
        match self {
            Call::Events => Gives::Lines,
            Call::Logs | Call::FunctionEvents | Call::Trace => Gives::Lines,
            Call::Capture => Gives::Packets,
            Call::Backup => Gives::Archive,
            Call::Metrics => Gives::Text,
            _ => Gives::Json,
        }
    }

    /// Finds the call of a request.
    pub fn find(method: &Method, path: &str) -> Found {
        let mut segments = path.split('/');
        let (Some(""), Some(first)) = (segments.next(), segments.next()) else { return Found::Nothing };
        let rest: Vec<&str> = segments.by_ref().take(4).collect();
        if segments.next().is_some() {
            return Found::Nothing;
        }
        let mut name = None;
        let calls: &[Call] = match (first, rest.as_slice()) {
            ("metrics", []) => &[Call::Metrics],
            ("v1", [section]) => match (*section, Kind::from_plural(section)) {
                (_, Some(kind)) => &[Call::List(kind)],
                ("openapi.json", _) => &[Call::OpenApi],
                ("health", _) => &[Call::Health],
                ("account", _) => &[Call::Account],
                ("memory", _) => &[Call::Memory],
                ("graph", _) => &[Call::Graph],
                ("history", _) => &[Call::History],
                ("images", _) => &[Call::Images],
                ("events", _) => &[Call::Events],
                ("past-events", _) => &[Call::PastEvents],
                ("apply", _) => &[Call::Apply],
                ("check", _) => &[Call::Check],
                ("operations", _) => &[Call::Operations],
                ("snapshots", _) => &[Call::Snapshots],
                ("snapshot-keys", _) => &[Call::RotateKey],
                ("traces", _) => &[Call::Trace],
                ("captures", _) => &[Call::Capture],
                ("backups", _) => &[Call::Backup],
                ("tokens", _) => &[Call::Tokens, Call::IssueToken],
                ("page-links", _) => &[Call::PageLink],
                ("registry-logins", _) => {
                    &[Call::RegistryLogins, Call::SetRegistryLogin, Call::DeleteRegistryLogin]
                }
                _ => &[],
            },
            ("v1", [section, segment]) => {
                name = Some(*segment);
                match (*section, Kind::from_plural(section)) {
                    (_, Some(kind)) => &[Call::Get(kind), Call::Put(kind), Call::Delete(kind)],
                    ("operations", _) => &[Call::Operation],
                    ("snapshots", _) => &[Call::Snapshot, Call::DeleteSnapshot],
                    ("tokens", _) => &[Call::Token, Call::DeleteToken],
                    _ => &[],
                }
            }
            ("v1", [section, segment, part]) => {
                name = Some(*segment);
                match (*section, *part) {
                    ("functions", "pause") => &[Call::Pause],
                    ("functions", "resume") => &[Call::Resume],
                    ("functions", "restart") => &[Call::Restart],
                    ("functions", "upgrade") => &[Call::Upgrade],
                    ("functions", "snapshots") => &[Call::Save],
                    ("functions", "logs") => &[Call::Logs],
                    ("functions", "events") => &[Call::FunctionEvents],
                    ("functions", "report") => &[Call::Report],
                    ("devices", "neighbours") => &[Call::Neighbours],
                    ("snapshots", "restore") => &[Call::Restore],
                    ("snapshots", "adopt") => &[Call::Adopt],
                    _ => &[],
                }
            }
            _ => &[],
        };
        if calls.is_empty() {
            return Found::Nothing;
        }
        // What answers GET answers HEAD; the HTTP library leaves out the body.
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        match calls.iter().find(|call| call.method() == *wanted) {
            None => Found::Methods(methods(calls)),
            Some(call) => match name.map(api::paths::unescaped) {
                None => Found::Call(*call, None),
                Some(Some(name)) => Found::Call(*call, Some(name)),
                Some(None) => Found::Nothing,
            },
        }
    }
}

fn methods(calls: &[Call]) -> Vec<&'static str> {
    let mut methods = Vec::new();
    for call in calls {
        methods.extend(match call.method() {
            Method::PUT => &["PUT"][..],
            Method::DELETE => &["DELETE"],
            Method::POST => &["POST"],
            _ => &["GET", "HEAD"],
        });
    }
    methods
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_found_by_its_own_method_and_path() {
        let mut seen = std::collections::BTreeSet::new();
        for call in Call::all() {
            let named = call.path().contains("{name}").then(|| "a b".to_owned());
            let path = call.path().replace("{name}", "a%20b");
            assert_eq!(Call::find(&call.method(), &path), Found::Call(call, named), "{path}");
            assert!(seen.insert((call.method().to_string(), call.path())), "{call:?} is there once");
        }
        assert_eq!(seen.len(), 4 * Kind::ALL.len() + 40);
    }

    #[test]
    fn what_is_no_path_is_nothing_and_methods_are_told() {
        let nothing = [
            "",
            "/",
            "//",
            "/v1",
            "/v1/",
            "/v2/health",
            "/v1/function",
            "/v1/functions/a/b",
            "/v1/functions/a/pause/x",
            "/v1/a/b/c/d/e/f",
            "v1/health",
            "/v1/functions/%f",
            "/v1/functions/%ff",
        ];
        for path in nothing {
            assert_eq!(Call::find(&Method::GET, path), Found::Nothing, "{path:?}");
        }
        assert_eq!(
            Call::find(&Method::POST, "/v1/ports/a"),
            Found::Methods(vec!["GET", "HEAD", "PUT", "DELETE"])
        );
        assert_eq!(Call::find(&Method::HEAD, "/v1/health"), Found::Call(Call::Health, None));
    }
}
