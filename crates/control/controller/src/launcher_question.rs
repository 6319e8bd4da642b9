//! What the launcher says of starts: asked of each, within a time for all of them, and each refusal with the
//! place of what was refused in what was said of the guest.
//!
//! What it says may name paths of the host and tenants of its file. A tenant is told whether its limits are
//! too large, and of all else the same words, whether something is not there or not allowed.

use super::containers::wanted_containers;
use api::Fault;
use deployment::Catalog;
use launcher::keeper::{TAKEN, refusal_for_tenant};
use launcher::{ClientError, Launcher, Start};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};
use wiring::Wiring;
use yaml_document::spelling;

/// How long one answer is waited for, and those of one change together.
pub(super) const WITHIN: Duration = Duration::from_secs(5);

/// What the launcher says of a start.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Yes,
    No(String),
    /// It answers no question of this user, and starts nothing for it.
    NotServed(String),
    /// It said nothing, and why.
    Nothing(String),
}

pub(super) fn ask(socket: &Path, start: &Start, until: Instant) -> Said {
    let within = until.saturating_duration_since(Instant::now());
    if within.is_zero() {
        return Said::Nothing(format!("the launcher at {} does not answer", socket.display()));
    }
    let begin = Instant::now();
    let answer = offload::waiting(|| Launcher::check(socket, start, within));
    // An image's documents may be as long as a tenant likes; what reads them has no account of tenants. One
    // that does not answer is no tenant's fault.
    if answer.is_ok() {
        offload::charge_job(begin.elapsed().into());
    }
    match answer {
        Ok(Ok(())) => Said::Yes,
        Ok(Err(reason)) => Said::No(reason),
        Err(error @ ClientError::NotServed { .. }) => Said::NotServed(error.to_string()),
        Err(error) => Said::Nothing(error.to_string()),
    }
}

/// A refusal as faults: for administrators, and for the tenant whose function it is.
pub(super) fn faults(name: &str, spec: Option<&Value>, reason: &str) -> (Fault, Fault) {
    let key = reason.split_once(':').map_or("", |(key, _)| key);
    let said = match key {
        "limits.memory" => "memory",
        "limits.weight" | "limits.cap" => "cpu",
        "limits.processes" => "processes",
        "limits.files" => "files",
        "kvm" => "accel",
        "beside" => "worker",
        "mounts" => file_of_machine(spec, reason).unwrap_or("mounts"),
        other => other,
    };
    // What is not said there has no place of its own.
    let at = match (said, spec.and_then(|spec| spec.get(said))) {
        ("mounts", Some(mounts)) => match mounted(mounts, reason) {
            Some(inside) => format!("functions.{name}.mounts.{}", spelling::shown(inside)),
            None => format!("functions.{name}.mounts"),
        },
        (said, Some(_)) => format!("functions.{name}.{said}"),
        (_, None) => format!("functions.{name}"),
    };
    let told = refusal_for_tenant(reason);
    (Fault::of_request(&at, format!("the launcher refuses it: {reason}")), Fault::of_request(&at, told))
}

/// The key of a virtual machine that names the file which a refusal names as well: the launcher knows of
/// mounts alone.
fn file_of_machine(spec: Option<&Value>, reason: &str) -> Option<&'static str> {
    let refused = refused_path(reason)?;
    let names = |key: &&str| {
        let said = spec.and_then(|spec| spec.get(*key)).and_then(Value::as_str);
        said.is_some_and(|said| is_path(refused, said))
    };
    ["kernel", "initrd", "image"].into_iter().find(names)
}

/// The path inside of what a refusal is about: it names that, or the file of the host.
fn mounted<'a>(mounts: &'a Value, reason: &str) -> Option<&'a str> {
    let (mounts, refused) = (mounts.as_object()?, refused_path(reason)?);
    let names = |(inside, from): &(&String, &Value)| {
        inside.as_str() == refused || from.as_str().is_some_and(|from| is_path(refused, from))
    };
    // The most of a path that is the same: `./b/a` is not `./a`.
    let length = |(_, from): &(&String, &Value)| from.as_str().map_or(0, str::len);
    mounts.iter().filter(names).max_by_key(length).map(|(inside, _)| inside.as_str())
}

/// The path that a refusal names first.
fn refused_path(reason: &str) -> Option<&str> {
    reason.split('`').nth(1)
}

/// Whether a path of the host is what an operator's file says; a relative one is from the file's folder.
fn is_path(path: &str, said: &str) -> bool {
    if Path::new(said).is_absolute() { path == said } else { Path::new(path).ends_with(from_folder(said)) }
}

fn from_folder(said: &str) -> PathBuf {
    Path::new(said).components().filter(|part| *part != Component::CurDir).collect()
}

/// What a launcher has against the guests of a wiring.
#[derive(Debug, Default)]
pub struct LauncherSays {
    /// What it refuses, with its place.
    pub refused: Vec<Fault>,
    /// Guests that it has not answered about, by the reason.
    pub unasked: Vec<(String, Vec<String>)>,
}

/// Asks the launcher at a socket about the guests of a wiring, 5 s at most, for a program that has no daemon:
/// it checks them and starts nothing. `spec` is what is said of a function; the catalog has the file's
/// folder.
pub fn ask_launcher(
    socket: &Path,
    wiring: &Wiring,
    catalog: &Catalog,
    spec: impl Fn(&str) -> Option<Value>,
) -> LauncherSays {
    let until = Instant::now() + WITHIN;
    let mut says = LauncherSays::default();
    for (name, wanted) in wanted_containers(wiring, catalog, |_, _| None) {
        // Those that stand by are as the first one is.
        if !wiring.containers.contains_key(&name) {
            continue;
        }
        match ask(socket, &wanted.start, until) {
            Said::Yes => {}
            Said::No(reason) => says.refused.push(faults(&name, spec(&name).as_ref(), &reason).0),
            Said::NotServed(why) | Said::Nothing(why) => {
                match says.unasked.iter_mut().find(|(reason, _)| *reason == why) {
                    Some((_, names)) => names.push(name),
                    None => says.unasked.push((why, vec![name])),
                }
            }
        }
    }
    says
}

/// Guests of a wiring whose names the launcher has given to another client's, each with its place: a program
/// that starts its own would have the interfaces of those. Of a launcher that does not answer it says
/// nothing.
pub fn taken_names(socket: &Path, wiring: &Wiring, keeper: &str) -> Vec<Fault> {
    let listed = Launcher::others(socket, keeper, WITHIN).unwrap_or_default();
    let taken = wiring.containers.keys().filter(|name| listed.contains(*name));
    taken.map(|name| Fault::of_request(format!("functions.{name}"), TAKEN)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refusal_has_its_place_and_tells_a_tenant_nothing_of_the_host() {
        let spec = json!({"guest": "container", "image": "r.example/a", "memory": "4GiB", "cpu": {}});
        let place = |reason: &str| faults("web", Some(&spec), reason).0.at;
        for (reason, wanted) in [
            ("limits.memory: found 4294967296; allowed: 1048576 to 1073741824", "functions.web.memory"),
            ("limits.cap: found 5; allowed: 10 to 1000000", "functions.web.cpu"),
            ("image: `/srv/a` lies elsewhere", "functions.web.image"),
            ("tenant: found `red`; allowed by the launcher's file: blue", "functions.web"),
            ("something else", "functions.web"),
        ] {
            assert_eq!(place(reason), wanted);
        }
        let machine =
            json!({"guest": "vm", "kernel": "/boot/linux", "initrd": "./vm/initramfs", "mounts": {}});
        for (file, key) in [("/boot/linux", "kernel"), ("/srv/vm/initramfs", "initrd"), ("/srv/x", "mounts")]
        {
            let reason = format!("mounts: `{file}` lies elsewhere; allowed by the launcher's file: none");
            assert_eq!(faults("m", Some(&machine), &reason).0.at, format!("functions.m.{key}"));
        }
        let mounts = json!({"/etc/s.yaml": "./s.yaml", "/etc/t.yaml": "./sub/s.yaml", "/srv": "/srv/files"});
        let ids = json!({"guest": "container", "mounts": mounts});
        for (reason, entry) in [
            ("mounts: `/srv/files` lies elsewhere; allowed by the launcher's file: none", "./srv"),
            ("mounts: `/home/a/s.yaml` cannot be opened (No such file)", "./etc/s.yaml"),
            ("mounts: `/home/a/sub/s.yaml` is a link, or lies behind one", "./etc/t.yaml"),
            ("mounts: found `/srv` as a path inside; allowed: absolute paths without `..`", "./srv"),
            ("mounts: `/home/a/t.yaml`: more than 64 MiB", ""),
            ("mounts: found 65; allowed: at most 64", ""),
        ] {
            assert_eq!(faults("ids", Some(&ids), reason).0.at, format!("functions.ids.mounts{}", entry));
        }
        let told = |reason: &str| faults("web", Some(&spec), reason).1.message;
        assert!(told("limits.memory: found 4; allowed: 5 to 6").contains("allowed: 5 to 6"));
        // One cannot be told from the other.
        let absent = "image: `/var/lib/x` cannot be opened (No such file or directory); allowed by the launcher's file: /srv";
        let elsewhere =
            "image: `/var/lib/x` lies elsewhere; allowed by the launcher's file: what lies below /srv";
        assert_eq!(told(absent), told(elsewhere));
        assert!(
            !told(absent).contains("/srv") && !told("tenant: found `red`; allowed: blue").contains("blue")
        );
    }
}
