//! Why a container does not run, and what else is told of it, by what it may name.
//!
//! The launcher's refusals and the troubles with it name paths of the host, and tenants of the launcher's
//! file. An administrator reads all of it. A tenant reads what is its own: what is wrong with its limits,
//! its interfaces and its probe, a program that its image lacks, and how its processes ended. Of all else it
//! gets the same words, whether something is not there or not allowed, so that a start is no way to ask
//! about the host.

use crate::image_program::NOT_THERE;
use std::fmt;

/// What a tenant is told of a refusal that is not about what is its own.
const REFUSED: &str = "the launcher does not start this: it is not there, not what it has to be, or not allowed by the \
                       launcher's file; the host's administrator is told which";
/// Of one by the OCI runtime, which is asked after the file's permits and the image's layout.
const RUNTIME: &str = "the OCI runtime did not start its command, which, or the interpreter of which, may be missing in the image or no \
                       program; the host's administrator is told why";
/// Of a launcher that does not answer.
const SILENT: &str = "the launcher does not answer; the host's administrator is told why";
/// Keys of refusals that are about nothing but the request and the tenant's own bounds.
const OWN: [&str; 4] = ["limits", "interfaces", "probe", "mark"];
/// How refusals by the runtime begin.
const BY_RUNTIME: &str = "the OCI runtime ";

/// What a tenant is told of a refusal by the launcher.
pub fn refusal_for_tenant(reason: &str) -> &str {
    let key = reason.split_once(':').map_or("", |(key, _)| key);
    match key.split('.').next() {
        Some(first) if OWN.contains(&first) => reason,
        _ if reason.starts_with(NOT_THERE) => reason,
        _ if reason.starts_with(BY_RUNTIME) => RUNTIME,
        _ => REFUSED,
    }
}

/// What it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Container,
    Refusal,
    Launcher,
}

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    about: About,
    /// Words in front of it, for all readers.
    before: &'static str,
    text: String,
}

impl Why {
    /// About the container itself.
    pub fn own(text: impl Into<String>) -> Why {
        Why { about: About::Container, before: "", text: text.into() }
    }

    /// The launcher refused it.
    pub fn refused(reason: impl Into<String>) -> Why {
        Why { about: About::Refusal, before: "", text: reason.into() }
    }

    /// There is a trouble with the launcher.
    pub fn launcher(trouble: impl Into<String>) -> Why {
        Why { about: About::Launcher, before: "", text: trouble.into() }
    }

    /// The same behind these words.
    #[must_use]
    pub fn behind(mut self, before: &'static str) -> Why {
        self.before = before;
        self
    }

    /// Whether a tenant reads something else than an administrator.
    pub fn is_withheld(&self) -> bool {
        self.for_tenant() != self.to_string()
    }

    /// What the container's tenant may read of it.
    pub fn for_tenant(&self) -> String {
        let text = match self.about {
            About::Container => &self.text,
            About::Refusal => refusal_for_tenant(&self.text),
            About::Launcher => SILENT,
        };
        format!("{}{text}", self.before)
    }
}

/// All of it, for administrators.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.before, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_reads_what_is_its_own() {
        let of = |why: Why| (why.to_string(), why.for_tenant());
        let same = |text: &str| (text.to_owned(), text.to_owned());
        assert_eq!(of(Why::own("signal 9 ended it")), same("signal 9 ended it"));
        let lacks = format!("{NOT_THERE}`/bin/x` is not there; allowed: a program of the image");
        for own in ["limits.memory: found 4; allowed: 5 to 6", &lacks] {
            assert_eq!(of(Why::refused(own)), same(own));
        }
        for refused in
            ["image: `/srv/a` lies elsewhere", "tenant: found `red`; allowed: blue", "the guest's folder"]
        {
            let (whole, told) = of(Why::refused(refused).behind("before, "));
            assert_eq!((whole, told), (format!("before, {refused}"), format!("before, {REFUSED}")));
        }
        let runtime =
            of(Why::refused("the OCI runtime /usr/bin/runc run: status 1: /var/lib/x: no such file"));
        assert_eq!(runtime.1, RUNTIME);
        let silent = of(Why::launcher("/run/x.sock: connection refused"));
        assert_eq!(silent, ("/run/x.sock: connection refused".to_owned(), SILENT.to_owned()));
    }
}
