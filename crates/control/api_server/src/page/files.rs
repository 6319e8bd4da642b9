//! What the page consists of: files inside the program, compressed when it was built.

use super::only_reads;
use crate::answer::Answer;
use crate::body::Written;
use crate::precondition::shown;
use crate::settings::PageFile;
use api::{Problem, ProblemType};
use bytes::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::{Request, Response, StatusCode};

/// The folder whose files have a digest of their contents in their names.
const HASHED: &str = "assets/";

/// What is shown where the program was built without the page.
const MISSING: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Superfluid</title>\n\
    <h1>This program was built without the page</h1>\n\
    <p>The daemon runs, and its API is here. The page needs Node.js when the program is built:\n\
    <code>scripts/setup build</code> installs it, and <code>make build</code> then builds the page into the program.</p>\n";

/// The answer to a request, and its status.
pub(super) fn answer<B>(files: &'static [PageFile], request: &Request<B>) -> (Response<Written>, u16) {
    let problem = |problem: Problem| {
        let status = problem.status;
        (Answer::from(problem).into_response(), status)
    };
    if !only_reads(request.method()) {
        let told = Problem::new(ProblemType::MethodNotAllowed, "allowed here: GET, HEAD");
        let (mut response, status) = problem(told);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return (response, status);
    }
    let path = request.uri().path();
    let path = path.strip_prefix('/').unwrap_or(path);
    let wanted = if path.is_empty() { "index.html" } else { path };
    let Some(file) = files.iter().find(|file| file.path == wanted) else {
        if wanted == "index.html" {
            let mut response =
                Answer::bytes(200, "text/html; charset=utf-8", Bytes::from_static(MISSING.as_bytes()))
                    .into_response();
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            return (response, 200);
        }
        let detail = format!("there is nothing at `{}`", shown(request.uri().path().as_bytes()));
        return problem(Problem::new(ProblemType::NotFound, detail));
    };
    let hashed = wanted.starts_with(HASHED);
    let has_it = request.headers().get_all(IF_NONE_MATCH).into_iter().any(|value| {
        value
            .to_str()
            .is_ok_and(|tags| tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == file.tag))
    });
    let (status, body) = match has_it {
        true => (StatusCode::NOT_MODIFIED, Written::nothing()),
        false => (StatusCode::OK, Written::Whole(Bytes::from_static(file.gzip), None)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let caching = if hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(ETAG, HeaderValue::from_static(file.tag));
    (response, status.as_u16())
}
