//! A daemon that has no file descriptor left: what needs one is refused with the reason, everything else is
//! answered, and when there are descriptors again all goes on. Needs no privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::json;
use std::os::unix::net::UnixStream;
use support::daemon::{Options, SOCKET};

/// The process's limit: less than what the tenants below need, more than what it starts with.
const LIMIT: usize = 96;

#[test]
fn without_descriptors_what_needs_one_is_refused_and_the_rest_is_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let limited = format!("ulimit -n {LIMIT} && exec \"$@\"");
    let options = Options::new(folder.path()).shared_cache().launcher(["sh", "-c", limited.as_str(), "sh"]);
    let daemon = options.start();
    daemon.put("/v1/functions/there", json!({"image": "forwarder"}));
    // Each tenant has a pool, which is a file; connections that rest take what is left.
    let mut idle: Vec<UnixStream> = Vec::new();
    let mut refused = None;
    for n in 0..LIMIT {
        idle.extend(UnixStream::connect(daemon.path(SOCKET)));
        let tenant = json!({"pool": {"buffers": 64, "pages": "ordinary"}});
        let spec = json!({"image": "forwarder", "tenant": format!("t{n}")});
        let objects = [(format!("tenants/t{n}"), tenant), (format!("functions/f{n}"), spec)];
        // The tenant may be the first that is refused: an audit log that cannot be opened allows no change.
        let (mut status, mut answer) = (0, json!(null));
        for (path, spec) in objects {
            (status, answer) =
                daemon.ask("PUT", &format!("/v1/{path}?wait=true"), Some(json!({"spec": spec})));
            if !matches!(status, 200 | 201) {
                break;
            }
        }
        // Whatever becomes of it, the host can be looked at.
        let health = daemon.get("/v1/health");
        assert!(health["healthy"].is_boolean(), "{health}");
        if !matches!(status, 200 | 201) {
            refused = Some((n, status, answer));
            break;
        }
    }
    let (n, status, answer) = refused.expect("there is a limit");
    assert!(status >= 400, "{status}");
    assert!(answer.to_string().contains("Too many open files"), "it says why: {answer}");
    // Nothing is half there.
    assert_eq!(daemon.ask("GET", &format!("/v1/functions/f{n}"), None).0, 404);
    assert_eq!(daemon.get("/v1/functions/there")["status"]["state"], "running");
    // With descriptors again it is done.
    drop(idle);
    for gone in 0..n {
        assert!(matches!(daemon.ask("DELETE", &format!("/v1/functions/f{gone}"), None).0, 200..=204));
        assert!(matches!(daemon.ask("DELETE", &format!("/v1/tenants/t{gone}"), None).0, 200..=204));
    }
    daemon.wait("there are descriptors again", || {
        let spec = json!({"image": "forwarder", "tenant": format!("t{n}")});
        let tenant = json!({"pool": {"buffers": 64, "pages": "ordinary"}});
        let tenant = daemon.ask("PUT", &format!("/v1/tenants/t{n}?wait=true"), Some(json!({"spec": tenant})));
        let function =
            daemon.ask("PUT", &format!("/v1/functions/f{n}?wait=true"), Some(json!({"spec": spec})));
        matches!(tenant.0, 200 | 201) && matches!(function.0, 200 | 201)
    });
    assert_eq!(daemon.get("/v1/account")["balanced"], true);
    let printed = daemon.end();
    assert!(printed.contains("the account balances"), "{printed}");
}
