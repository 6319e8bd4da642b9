//! What the daemon reads of a request by itself: path, parameters, preconditions, `Accept`, tokens and
//! documents.

use api_server::{Call, Found, Language, Precondition, Query, accepted, bearer, objects, read};
use hyper::Method;

/// A request: a line with its method and target, headers, an empty line, and its document.
#[derive(Default)]
struct Request<'a> {
    put: bool,
    path: &'a str,
    query: &'a str,
    if_match: Vec<&'a [u8]>,
    if_none_match: Option<&'a [u8]>,
    accept: &'a str,
    authorization: &'a [u8],
    yaml: bool,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    fn parse(data: &'a [u8]) -> Request<'a> {
        let mut request = Request::default();
        let mut rest = data;
        let mut line = || {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            line
        };
        if let Some(target) = std::str::from_utf8(line()).ok().and_then(|line| line.split_once(' ')) {
            request.put = target.0 == "PUT";
            (request.path, request.query) = target.1.split_once('?').unwrap_or((target.1, ""));
        }
        loop {
            let header = line();
            let Some(colon) = header.iter().position(|byte| *byte == b':') else { break };
            let value = header[colon + 1..].trim_ascii_start();
            match &header[..colon] {
                b"if-match" => request.if_match.push(value),
                b"if-none-match" => request.if_none_match = Some(value),
                b"accept" => request.accept = std::str::from_utf8(value).unwrap_or_default(),
                b"authorization" => request.authorization = value,
                b"content-type" => request.yaml = value == b"application/yaml",
                _ => {}
            }
        }
        request.body = rest;
        request
    }
}

pub fn run(data: &[u8]) {
    let request = Request::parse(data);
    let method = if request.put { Method::PUT } else { Method::GET };
    if let Found::Call(call, name) = Call::find(&method, request.path) {
        assert_eq!(call.method(), method);
        let name = name.unwrap_or_default();
        let path = call.path().replace("{name}", &api::paths::escaped(&name));
        assert_eq!(
            Call::find(&method, &path),
            Found::Call(call, call.path().contains("{name}").then_some(name))
        );
    }
    for known in [&["limit", "after"][..], &["dry_run"]] {
        if let Ok(query) = Query::read(request.query, known) {
            let _ = (query.number("limit", 1, 10), query.flag("dry_run"), query.text("after"));
        }
    }
    if let Ok(precondition) = Precondition::read(request.if_match.iter().copied(), request.if_none_match) {
        // Nothing holds both for an object that is there and one that is not, but for what always holds.
        let both = precondition.holds(Some(1)) && precondition.holds(None);
        assert!(!both || precondition == Precondition::Any);
    }
    let _ = accepted(request.accept, &["application/json", "text/plain; version=0.0.4"]);
    if let Some(secret) = bearer(request.authorization) {
        assert!(api::is_secret(secret));
    }
    let language = if request.yaml { Language::Yaml } else { Language::Json };
    if let Ok(document) = read(language, request.body)
        && let Ok(objects) = objects(document)
    {
        for (id, _) in objects {
            assert_eq!(api::check_name(id.kind, &id.name).as_deref(), Ok(id.name.as_str()));
        }
    }
}
