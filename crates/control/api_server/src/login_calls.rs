//! Logins at registries, as tenants set and delete them.

use crate::answer::{Answer, one_fault};
use crate::calls::missing;
use crate::change::not_committed;
use crate::logins::{MOST, Update};
use crate::request::Asked;
use crate::rights::Rights;
use crate::seen::items;
use crate::state::State;
use api::{Fault, Name, NewRegistryLogin, Problem, ProblemType};
use serde_json::json;
use std::sync::Arc;
use yaml_document::spelling;

/// Longest names of a registry and of a user, in bytes.
const LONGEST: usize = 255;

/// Those that are shown with these rights.
pub(crate) fn list(state: &State, asked: &Asked) -> Answer {
    items(&state.logins.list(asked.rights.tenant()))
}

/// Sets one: on disk when this returns.
pub(crate) async fn set(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let wanted: NewRegistryLogin = asked.body_with(&["tenant"])?;
    check_registry("registry", &wanted.registry)?;
    let username = &wanted.username;
    if !(1..=LONGEST).contains(&username.len()) || username.contains(|c: char| c == ':' || c.is_control()) {
        let message = format!(
            "found `{}`; allowed: 1 to {LONGEST} bytes of text without a colon",
            spelling::shown(username)
        );
        return Err(wrong("username", message));
    }
    let rights = asked.rights.clone();
    let set = state.work_on(&asked.rights, true, move |state| {
        let _turn = state.turn();
        state.tokens.hold(&rights)?;
        let tenant = tenant(state, &rights, wanted.tenant.as_ref())?;
        let Some((update, shown)) = state.logins.with(&tenant, wanted) else {
            let what = format!("logins of the tenant `{tenant}`: allowed: at most {MOST}");
            return Err(Problem::new(ProblemType::NoRoom, what));
        };
        Ok((shown, kept(state, update)?))
    });
    let (shown, revision) = set.await??;
    state.durable(revision).await?;
    let about = json!({"registry_login": shown});
    Ok(Answer { about: Some(about), ..Answer::json(201, &shown) })
}

/// Deletes one: it is not used any more when this returns, and not after a crash either.
pub(crate) async fn delete(state: &Arc<State>, asked: &Asked) -> Result<Answer, Problem> {
    let registry = asked.query.text("registry").ok_or_else(|| {
        wrong("registry", "found nothing; allowed: the registry, HOST or HOST:PORT".to_owned())
    })?;
    check_registry("registry", registry)?;
    let named = asked.named("tenant", api::Kind::Tenant)?;
    let (rights, at) = (asked.rights.clone(), registry.to_owned());
    let deleted = state.work_on(&asked.rights, true, move |state| {
        let _turn = state.turn();
        state.tokens.hold(&rights)?;
        let tenant = tenant(state, &rights, named.as_ref())?;
        let none = || missing(&format!("login of the tenant `{tenant}` at `{at}`"));
        let update = state.logins.without(&tenant, &at).ok_or_else(none)?;
        let revision = kept(state, update)?;
        Ok::<_, Problem>((tenant, revision))
    });
    let (tenant, revision) = deleted.await??;
    state.durable(revision).await?;
    let about = json!({"registry_login": {"tenant": tenant, "registry": registry}});
    Ok(Answer { about: Some(about), ..Answer::json(200, &json!({"deleted": registry})) })
}

/// Writes a tenant's logins down; the revision since which they are. The caller has its turn.
fn kept(state: &State, update: Update) -> Result<u64, Problem> {
    let revision = state.commit(&[update.write()], &[]).map_err(|error| not_committed(&error))?;
    state.logins.keep(update);
    Ok(revision)
}

/// Whose login it is: that of the tenant whose token it is, or the one that an administrator names.
fn tenant(state: &State, rights: &Rights, named: Option<&Name>) -> Result<String, Problem> {
    match (rights.tenant(), named) {
        (Some(own), Some(named)) if own != named.as_str() => {
            let message = format!("found `{named}`; allowed: `{own}`, whose token it is");
            Err(one_fault(ProblemType::Forbidden, Fault::new("tenant", message)))
        }
        (Some(own), _) => Ok(own.to_owned()),
        (None, Some(named)) if state.owners.is_tenant(named) => Ok(named.to_string()),
        (None, Some(named)) => Err(wrong("tenant", format!("there is no tenant `{named}`"))),
        (None, None) => {
            let message = "found nothing; allowed: the tenant for which images are pulled with it; the administrator's own logins are in the file of `--registry-auth-file`";
            Err(wrong("tenant", message.to_owned()))
        }
    }
}

fn check_registry(at: &str, registry: &str) -> Result<(), Problem> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']' | '_');
    if (1..=LONGEST).contains(&registry.len()) && registry.chars().all(allowed) {
        return Ok(());
    }
    let found = spelling::shown(registry);
    Err(wrong(at, format!("found `{found}`; allowed: HOST or HOST:PORT, such as `registry.example:5000`")))
}

fn wrong(at: &str, message: String) -> Problem {
    one_fault(ProblemType::Invalid, Fault::new(at, message))
}
