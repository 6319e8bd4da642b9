//! Rights of clients: the administrator may do everything, a client that shows a token what its tenant may,
//! or read the whole host.
//!
//! 1. A connection comes in by a [`Door`]: the administrators' socket, the tenants' socket, or TLS, where the
//!    certificate decides.
//! 2. [`of`] reads `Authorization` of each request. A token gives its tenant's rights and no others, or those
//!    of a reader of the whole host, at each door; without one only the administrators' door leads anywhere.
//! 3. [`Access`] says for each call which clients may make it at all. What a tenant may change is decided in
//!    `admit`, what it is shown in `seen`.

use crate::answer::one_fault;
use crate::call::Call;
use crate::identity::Identity;
use crate::state::State;
use crate::tokens::Grant;
use api::{DEFAULT_TENANT, Fault, Kind, Problem, ProblemType};
use hyper::header::{AUTHORIZATION, HeaderMap};
use std::sync::Arc;

/// By which way a client came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// A client that comes by this needs no token.
    Administrators,
    /// No client is served here without a token.
    Tenants,
    /// Browsers, each with the rights of its session.
    Page,
}

/// What a client may do.
#[derive(Clone, Debug)]
pub(crate) enum Rights {
    /// Everything.
    All,
    /// What a token of a tenant gives.
    Of(Arc<Grant>),
    /// What a token of the host gives: to read what administrators read, except what is theirs alone
    /// ([`Access::Administrator`]).
    Reader(Arc<Grant>),
}

/// Which clients may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// A tenant too: it is answered with what is the tenant's. A reader of the host too: it is answered as
    /// administrators are, and so no call of this class answers with secrets, packets or what snapshots hold.
    Read,
    /// A tenant too, if its token is not for reading alone: it changes what is the tenant's, or looks into
    /// its packets.
    Change,
    /// Administrators alone: it is about the host, or shows or touches what is others'.
    Administrator,
}

impl Call {
    /// Which clients may make it. There is no default: a new call needs a decision.
    pub(crate) fn access(self) -> Access {
        match self {
            Call::OpenApi
            | Call::Health
            | Call::Metrics
            | Call::Account
            | Call::Memory
            | Call::Graph
            | Call::History
            | Call::Images
            | Call::Events
            | Call::PastEvents
            | Call::Operations
            | Call::Operation
            | Call::Snapshots
            | Call::Snapshot
            | Call::Logs
            | Call::FunctionEvents
            | Call::Report
            | Call::Neighbours
            | Call::RegistryLogins
            // A link has the rights of the client that asks for it, and no others.
            | Call::PageLink
            | Call::List(_)
            | Call::Get(_) => Access::Read,
            Call::Apply
            | Call::DeleteSnapshot
            | Call::Restore
            | Call::Pause
            | Call::Resume
            | Call::Restart
            | Call::Upgrade
            | Call::Save
            | Call::SetRegistryLogin
            | Call::DeleteRegistryLogin
            // Its messages are those of a change, and may say what is in files.
            | Call::Check
            // It sees what is the tenant's alone: `Control::trace` says where that is.
            | Call::Trace
            | Call::Capture => Access::Change,
            Call::Put(kind) | Call::Delete(kind) => match is_a_tenants_to_change(kind) {
                true => Access::Change,
                false => Access::Administrator,
            },
            // They say whose a snapshot is.
            Call::Adopt | Call::RotateKey => Access::Administrator,
            // It has the data of all tenants.
            Call::Backup => Access::Administrator,
            Call::Tokens | Call::Token | Call::IssueToken | Call::DeleteToken => Access::Administrator,
        }
    }
}

/// Whether objects of a kind are for a tenant to make. The security groups of the tenant `default` are the
/// administrator's: they bind the others. Which devices are is said by [`mod@tenant_devices`].
///
/// [`mod@tenant_devices`]: crate::tenant_devices
pub(crate) fn may_change(tenant: &str, kind: Kind) -> bool {
    is_a_tenants_to_change(kind) && (kind != Kind::Group || tenant != DEFAULT_TENANT)
}

/// Kinds of objects that a tenant makes for itself. Of ports and of itself it has what the administrator
/// gives it.
fn is_a_tenants_to_change(kind: Kind) -> bool {
    match kind {
        Kind::Function | Kind::Group | Kind::Device | Kind::Chain | Kind::Wire | Kind::Observer => true,
        Kind::Workers | Kind::Tenant | Kind::Port | Kind::Switch | Kind::Service => false,
    }
}

impl Rights {
    /// Those that a token gives.
    pub fn of(grant: Arc<Grant>) -> Rights {
        if grant.token.host { Rights::Reader(grant) } else { Rights::Of(grant) }
    }

    /// The tenant, if it is the rights of one. A reader of the host has none: what it may read at all it
    /// reads as administrators do.
    pub fn tenant(&self) -> Option<&str> {
        match self {
            Rights::All | Rights::Reader(_) => None,
            Rights::Of(grant) => grant.token.tenant.as_deref(),
        }
    }

    /// What they come from, if that is a token.
    pub fn grant(&self) -> Option<&Arc<Grant>> {
        match self {
            Rights::All => None,
            Rights::Of(grant) | Rights::Reader(grant) => Some(grant),
        }
    }

    /// Whether a call may be made at all.
    ///
    /// # Errors
    /// It may not.
    pub fn may(&self, call: Call) -> Result<(), Problem> {
        let Some(grant) = self.grant() else { return Ok(()) };
        let name = &grant.token.name;
        match call.access() {
            Access::Read => Ok(()),
            _ if grant.token.host => {
                let (method, path) = (call.method(), call.path());
                let detail = format!(
                    "{method} {path} is not for reading the host, and the token `{name}` gives the right to nothing else"
                );
                Err(Problem::new(ProblemType::Forbidden, detail))
            }
            Access::Change if !grant.token.read_only => Ok(()),
            Access::Change => {
                let detail = format!("the token `{name}` is for reading alone");
                Err(Problem::new(ProblemType::Forbidden, detail))
            }
            Access::Administrator => {
                let (method, path) = (call.method(), call.path());
                let tenant = self.tenant().unwrap_or_default();
                let detail = format!(
                    "{method} {path} is for administrators; `{name}` is a token of the tenant `{tenant}`"
                );
                Err(Problem::new(ProblemType::Forbidden, detail))
            }
        }
    }
}

/// The rights of the client that sends a request, and its identity.
///
/// # Errors
/// No token where one is needed, or one that is not taken.
pub(crate) fn of(
    state: &State,
    (door, who): (Door, &Arc<Identity>),
    headers: &HeaderMap,
) -> Result<(Rights, Arc<Identity>), Problem> {
    let mut values = headers.get_all(AUTHORIZATION).into_iter();
    let shown = match (values.next(), values.next()) {
        (None, _) if door == Door::Administrators => return Ok((Rights::All, who.clone())),
        (None, _) => {
            let detail = "found no token; allowed: `Authorization: Bearer sft_...`, with one that an administrator has made";
            return Err(Problem::new(ProblemType::Unauthorized, detail));
        }
        (Some(one), None) => one,
        (Some(_), Some(_)) => {
            let fault = Fault::new("Authorization", "found twice; allowed: once");
            return Err(one_fault(ProblemType::Malformed, fault));
        }
    };
    // What was found is not told: it may be a secret.
    let secret = bearer(shown.as_bytes()).ok_or_else(|| {
        let detail = "Authorization: found something else; allowed: `Bearer` and a token, `sft_` and 64 hexadecimal digits";
        Problem::new(ProblemType::Unauthorized, detail)
    })?;
    let grant = state.tokens.find(secret)?;
    let who = Identity::Token {
        token: grant.token.name.clone(),
        tenant: grant.token.tenant.clone(),
        by: Box::new((**who).clone()),
    };
    Ok((Rights::of(grant), Arc::new(who)))
}

/// The token's secret in a value of `Authorization` (RFC 6750, section 2.1), if it is one.
#[must_use]
pub fn bearer(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    let (scheme, secret) = text.split_once(' ')?;
    let secret = secret.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && api::is_secret(secret)).then_some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_and_nothing_else_is_taken_for_one() {
        let secret = format!("sft_{}", "09af".repeat(16));
        for good in [format!("Bearer {secret}"), format!("bearer  {secret} "), format!("BEARER {secret}")] {
            assert_eq!(bearer(good.as_bytes()), Some(secret.as_str()), "{good}");
        }
        let wrong = [
            secret.clone(),
            format!("Basic {secret}"),
            format!("Bearer{secret}"),
            format!("Bearer {secret}0"),
            format!("Bearer {}", secret.to_uppercase()),
            format!("Bearer {secret}, Bearer {secret}"),
            format!("Bearer\t{secret}"),
            "Bearer ".to_owned(),
            String::new(),
        ];
        for wrong in wrong {
            assert_eq!(bearer(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(bearer(b"Bearer \xff"), None);
    }

    #[test]
    fn what_reads_is_get_and_what_changes_is_not() {
        for call in Call::all() {
            match call.access() {
                Access::Read => assert!(!call.changes() || call == Call::PageLink, "{call:?}"),
                Access::Change => assert!(call.changes() || call == Call::Check, "{call:?}"),
                Access::Administrator => {}
            }
        }
    }
}
