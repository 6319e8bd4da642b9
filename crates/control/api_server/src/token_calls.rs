//! Tokens, as administrators make and delete them.

use crate::answer::{Answer, one_fault};
use crate::calls::missing;
use crate::change::not_committed;
use crate::request::Asked;
use crate::state::State;
use crate::tokens::{self, TOKENS_MAX, Tokens, instant};
use api::{DEFAULT_TENANT, Fault, IssuedToken, Name, NewToken, Problem, ProblemType, paths};
use serde_json::json;
use std::sync::Arc;
use std::time::SystemTime;
use store::Change;
use yaml_document::spelling;

/// One token.
pub(crate) fn get(state: &State, asked: &Asked) -> Result<Answer, Problem> {
    let name = asked.name()?;
    let token = state.tokens.get(name).ok_or_else(|| no_such(name))?;
    Ok(Answer::json(200, &token))
}

/// Makes a token: on disk before its secret is told.
pub(crate) async fn issue(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let wanted: NewToken = asked.body_with(&["name", "tenant"])?;
    let wrong = |at: &str, what: String| one_fault(ProblemType::Invalid, Fault::new(at, what));
    let expires =
        wanted.expires.as_deref().map(instant).transpose().map_err(|what| wrong("expires", what))?;
    if expires.is_some_and(|expires| expires <= SystemTime::now()) {
        let found = spelling::shown(wanted.expires.as_deref().unwrap_or_default()).to_string();
        return Err(wrong("expires", format!("found `{found}`, which is over; allowed: a time to come")));
    }
    match (&wanted.tenant, wanted.host) {
        (None, false) => {
            let what =
                "found nothing; allowed: the name of a tenant, or `host: true` for reading the whole host";
            return Err(wrong("tenant", what.to_owned()));
        }
        (Some(_), true) => {
            return Err(wrong("host", "found `true` beside a `tenant`; allowed: one of them".to_owned()));
        }
        (None, true) | (Some(_), false) => {}
    }
    let (issued, revision) =
        state.work_on(&asked.rights, true, move |state| issue_now(state, wanted)).await??;
    // A client that is told a secret can rely on it.
    state.durable(revision).await?;
    let about = json!({"token": issued.token});
    let location = Some(paths::token(&issued.token.name));
    Ok(Answer { location, about: Some(about), ..Answer::json(201, &issued) })
}

/// Writes a token down, and takes it from now on.
fn issue_now(state: &State, wanted: NewToken) -> Result<(IssuedToken, u64), Problem> {
    let _turn = state.turn();
    let unknown = wanted.tenant.as_ref().filter(|tenant| !state.owners.is_tenant(tenant));
    if let Some(unknown) = unknown {
        let tenants = state.owners.tenants();
        let found = spelling::shown(unknown).to_string();
        let allowed = match tenants.as_slice() {
            [] => "`default`, the only tenant".to_owned(),
            tenants => {
                let unsaid =
                    (!tenants.iter().any(|tenant| tenant == DEFAULT_TENANT)).then_some(DEFAULT_TENANT);
                spelling::listed(tenants.iter().map(String::as_str).chain(unsaid))
            }
        };
        let what = format!("there is no tenant `{found}`; allowed: {allowed}");
        return Err(one_fault(ProblemType::Invalid, Fault::new("tenant", what)));
    }
    if state.tokens.get(&wanted.name).is_some() {
        let what = format!("the token `{}` is there already; choose another name, or delete it", wanted.name);
        return Err(Problem::new(ProblemType::Conflict, what));
    }
    if state.tokens.count() >= TOKENS_MAX {
        let what = format!("there are {TOKENS_MAX} tokens, which is as many as may be; delete some");
        return Err(Problem::new(ProblemType::NoRoom, what));
    }
    let (grant, write, issued) =
        Tokens::issue(wanted).map_err(|what| Problem::new(ProblemType::Internal, what))?;
    let revision = state.commit(&[write], &[]).map_err(|error| not_committed(&error))?;
    state.tokens.keep(grant);
    Ok((issued, revision))
}

/// Deletes a token: it is not taken any more when this returns, and not after a crash either.
pub(crate) async fn delete(state: &Arc<State>, asked: &Asked) -> Result<Answer, Problem> {
    let name = asked.name()?.clone();
    let theirs = name.clone();
    let deleted = state.work_on(&asked.rights, true, move |state| {
        let _turn = state.turn();
        let name = &theirs;
        let token = state.tokens.get(name).ok_or_else(|| no_such(name))?;
        let write = Change::delete(tokens::KIND, name.as_str());
        let revision = state.commit(&[write], &[]).map_err(|error| not_committed(&error))?;
        state.tokens.forget(name);
        Ok::<_, Problem>((token, revision))
    });
    let (token, revision) = deleted.await??;
    state.durable(revision).await?;
    Ok(Answer { about: Some(json!({"token": token})), ..Answer::json(200, &json!({"deleted": name})) })
}

fn no_such(name: &Name) -> Problem {
    missing(&format!("token `{name}`"))
}
