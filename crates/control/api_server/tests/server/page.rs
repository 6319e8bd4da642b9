//! The page's address: sessions, and what other pages, names and clients try there.

use crate::Running;
use crate::client::{Client, Got};
use api_server::{Page, PageFile};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

static FILES: [PageFile; 2] = [
    PageFile {
        path: "index.html",
        content_type: "text/html; charset=utf-8",
        gzip: b"the page",
        tag: "\"1\"",
    },
    PageFile { path: "assets/a-1.js", content_type: "text/javascript", gzip: b"a script", tag: "\"2\"" },
];

/// How long what must come is waited for.
const LIMIT: Duration = Duration::from_secs(20);

fn running(change: impl FnOnce(&mut Page)) -> (Running, SocketAddr) {
    let mut page = Page::new(SocketAddr::from(([127, 0, 0, 1], 0)), None, &FILES);
    change(&mut page);
    let running = Running::with(|settings| settings.page = Some(page));
    let address = running.page.expect("it listens");
    (running, address)
}

/// A browser that does no more than it is told.
#[derive(Clone)]
struct Browser {
    address: SocketAddr,
    host: String,
    cookie: Option<String>,
    secret: Option<String>,
}

impl Browser {
    fn new(address: SocketAddr) -> Browser {
        Browser { address, host: address.to_string(), cookie: None, secret: None }
    }

    /// With a session of a link that a client of the API asked for.
    fn with(address: SocketAddr, link: &str) -> Browser {
        let mut browser = Browser::new(address);
        let opened = browser.open(link);
        assert_eq!(opened.status, 200, "{opened:?}");
        browser.take(&opened);
        browser
    }

    fn take(&mut self, opened: &Got) {
        let set = opened.header("set-cookie").expect("a cookie");
        self.cookie = set.split(';').next().map(str::to_owned);
        self.secret = opened.json()["secret"].as_str().map(str::to_owned);
    }

    fn open(&self, link: &str) -> Got {
        self.ask(
            "POST",
            "/session",
            &[("content-type", "application/json")],
            &json!({"link": link}).to_string(),
        )
    }

    /// As the page's scripts ask; a header that is given replaces the usual one.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
        read(&mut self.begin(method, path, headers, body))
    }

    fn begin(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(self.address).expect("connects");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        let mut all = vec![
            ("host", self.host.clone()),
            ("origin", format!("http://{}", self.host)),
            ("sec-fetch-site", "same-origin".to_owned()),
            ("connection", "close".to_owned()),
            ("content-length", body.len().to_string()),
        ];
        all.extend(self.cookie.clone().map(|cookie| ("cookie", cookie)));
        all.extend(self.secret.clone().map(|secret| ("superfluid-session", secret)));
        all.retain(|(name, _)| !headers.iter().any(|(given, _)| given == name));
        all.extend(
            headers
                .iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        let lines: String = all.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut reader = BufReader::new(stream);
        let text = format!("{method} {path} HTTP/1.1\r\n{lines}\r\n{body}");
        reader.get_mut().write_all(text.as_bytes()).expect("writes");
        reader
    }

    fn get(&self, path: &str) -> Got {
        self.ask("GET", path, &[], "")
    }
}

fn head(stream: &mut BufReader<TcpStream>) -> Got {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).expect("reads");
        line.trim_end().to_owned()
    };
    let first = line();
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut headers = Vec::new();
    loop {
        let line = line();
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Got { status, headers, body: Vec::new() }
}

fn read(stream: &mut BufReader<TcpStream>) -> Got {
    let mut got = head(stream);
    stream.read_to_end(&mut got.body).expect("reads to its end");
    got
}

/// The secret of a link.
fn link(client: &mut Client, token: Option<&str>) -> String {
    let shown = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<(&str, &str)> = shown.iter().map(|shown| ("authorization", shown.as_str())).collect();
    let made = client.ask("POST", "/v1/page-links", &headers, "");
    assert_eq!(made.status, 201, "{made:?}");
    let url = made.json()["url"].as_str().expect("an address").to_owned();
    url.split_once("/#link=").expect("a fragment").1.to_owned()
}

fn token(client: &mut Client, name: &str, tenant: &str) -> String {
    let made = client.post("/v1/tokens", &json!({"name": name, "tenant": tenant}).to_string());
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["secret"].as_str().expect("a secret").to_owned()
}

/// How many requests were refused for a reason.
fn refused(running: &Running, reason: &str) -> u64 {
    let text = running.client().get("/metrics").text();
    let name = format!("superfluid_daemon_page_refused_requests_total{{reason=\"{reason}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(name.as_str())).expect("is counted");
    line.parse().expect("a number")
}

const SPEC: &str = r#"{"spec": {"image": "a"}}"#;
const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn a_link_opens_one_session_with_the_rights_of_its_client() {
    let (running, address) = running(|_| {});
    let mut client = running.client();
    let secret = link(&mut client, None);
    let browser = Browser::new(address);
    let opened = browser.open(&secret);
    assert_eq!(opened.status, 200, "{opened:?}");
    let told = opened.json();
    assert_eq!((&told["rights"], &told["read_only"]), (&json!("administrator"), &json!(false)));
    let cookie = opened.header("set-cookie").expect("a cookie").to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", &format!("superfluid-{}=", address.port())] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "nothing is encrypted here");
    assert!(
        !opened.text().contains(cookie.split(['=', ';']).nth(1).expect("a value")),
        "the cookie is in no body"
    );
    let mut browser = browser;
    browser.take(&opened);
    assert_eq!(browser.ask("PUT", "/v1/functions/fw", &[JSON], SPEC).status, 201);
    assert_eq!(browser.get("/v1/functions/fw").status, 200);
    let shown = browser.get("/session").json();
    assert_eq!((shown["secret"].is_null(), &shown["rights"]), (true, &json!("administrator")));
    // Who did it is written down: the process that asked for the link, and the browser.
    let audit = running.audit();
    let put = audit.iter().find(|line| line["method"] == "PUT").expect("a line");
    assert!(put["who"]["uid"].is_number() && put["who"]["browser"] == "127.0.0.1", "{put}");
    assert!(
        audit
            .iter()
            .any(|line| line["path"] == "/session" && line["who"]["session"] == put["who"]["session"])
    );
    let all = serde_json::to_string(&audit).expect("JSON");
    assert!(
        !all.contains(&secret) && !all.contains(browser.secret.as_deref().expect("one")),
        "no secret is logged"
    );
}

#[test]
fn a_link_that_was_used_is_over_or_never_was_opens_nothing() {
    let (running, address) = running(|page| page.link_time = Duration::from_millis(300));
    let browser = Browser::new(address);
    let used = link(&mut running.client(), None);
    assert_eq!(browser.open(&used).status, 200);
    let late = link(&mut running.client(), None);
    std::thread::sleep(Duration::from_millis(400));
    let guessed = format!("sfl_{}", "0".repeat(64));
    let mut told = Vec::new();
    for wrong in [&used, &late, &guessed, ""] {
        let got = browser.open(wrong);
        assert_eq!((got.status, got.problem().as_str()), (401, "unauthorized"), "{wrong}");
        assert!(got.header("set-cookie").is_none());
        told.push(got.text());
    }
    assert!(told.iter().all(|one| *one == told[0]), "a client that guesses learns nothing: {told:?}");
    assert_eq!(refused(&running, "bad-link"), 4);
    // By another method, and by a form, none is opened either, and none is used up.
    let good = link(&mut running.client(), None);
    let body = json!({"link": good}).to_string();
    assert_eq!(browser.ask("PUT", "/session", &[JSON], &body).status, 405);
    assert_eq!(browser.ask("POST", "/session", &[("content-type", "text/plain")], &body).status, 415);
    assert_eq!(browser.ask("POST", "/session", &[JSON], &format!("{body}{}", " ".repeat(2000))).status, 400);
    assert_eq!(browser.get(&format!("/session?link={good}")).status, 401);
    assert_eq!(browser.open(&good).status, 200);
}

#[test]
fn a_name_that_was_made_to_lead_here_reads_and_changes_nothing() {
    let (running, address) = running(|_| {});
    let mut browser = Browser::with(address, &link(&mut running.client(), None));
    let before = refused(&running, "cross-site");
    // The page of the other name is of one origin with what it asks, and may even have both secrets.
    for host in ["evil.example", "127.0.0.1.evil.example:8800", "192.0.2.1"] {
        browser.host = host.to_owned();
        for path in ["/", "/assets/a-1.js", "/session", "/v1/functions", "/metrics"] {
            let got = browser.get(path);
            assert_eq!((got.status, got.problem().as_str()), (403, "forbidden"), "{host} {path}");
            assert!(!got.text().contains("the page"));
        }
        assert_eq!(browser.ask("PUT", "/v1/functions/fw", &[JSON], SPEC).status, 403);
        assert_eq!(browser.open(&link(&mut running.client(), None)).status, 403);
    }
    assert_eq!(refused(&running, "cross-site") - before, 21);
    assert_eq!(running.client().get("/v1/functions/fw").status, 404);
    browser.host = "localhost:1".to_owned();
    assert_eq!(browser.get("/v1/functions").status, 200, "a port that is forwarded");
}

#[test]
fn what_another_page_has_the_browser_send_is_refused() {
    let (running, address) = running(|_| {});
    let browser = Browser::with(address, &link(&mut running.client(), None));
    let other = format!("http://{}", SocketAddr::from(([127, 0, 0, 1], 1)));
    for origin in ["http://evil.example", "null", other.as_str(), ""] {
        let origin = ("origin", origin);
        assert_eq!(browser.ask("PUT", "/v1/functions/fw", &[JSON, origin], SPEC).status, 403, "{origin:?}");
        assert_eq!(browser.ask("POST", "/v1/apply", &[JSON, origin], "{}").status, 403, "{origin:?}");
        assert_eq!(browser.ask("DELETE", "/session", &[origin], "").status, 403, "{origin:?}");
        let body = json!({"link": link(&mut running.client(), None)}).to_string();
        assert_eq!(browser.ask("POST", "/session", &[JSON, origin], &body).status, 403, "{origin:?}");
    }
    for site in ["cross-site", "same-site"] {
        assert_eq!(
            browser.ask("GET", "/v1/functions", &[("sec-fetch-site", site)], "").status,
            403,
            "{site}"
        );
    }
    // What a browser asks before a request of another page with a header of its own is not granted.
    let asked = browser.ask("OPTIONS", "/v1/functions/fw", &[("origin", "http://evil.example")], "");
    assert!(asked.status == 403 && asked.header("access-control-allow-origin").is_none(), "{asked:?}");
    assert_eq!(running.client().get("/v1/functions/fw").status, 404);
    assert_eq!(browser.get("/session").status, 200, "it was not left either");
}

#[test]
fn a_cookie_alone_gives_no_right_and_neither_does_the_other_secret() {
    let (running, address) = running(|_| {});
    let one = Browser::with(address, &link(&mut running.client(), None));
    let two = Browser::with(address, &link(&mut running.client(), None));
    let asks = [
        Browser { secret: None, ..one.clone() },
        Browser { cookie: None, ..one.clone() },
        Browser { secret: two.secret.clone(), ..one.clone() },
        Browser {
            cookie: one.cookie.clone().map(|cookie| cookie.replace("superfluid-", "superfluid-1")),
            ..one.clone()
        },
        Browser {
            cookie: one.cookie.clone().map(|cookie| cookie.split_once('=').expect("a value").1.to_owned()),
            ..one.clone()
        },
    ];
    for (n, browser) in asks.iter().enumerate() {
        for path in ["/v1/functions", "/metrics", "/session", "/v1/nothing"] {
            let got = browser.get(path);
            assert_eq!((got.status, got.problem().as_str()), (401, "unauthorized"), "{n} {path}");
        }
        assert_eq!(browser.ask("PUT", "/v1/functions/fw", &[JSON], SPEC).status, 401, "{n}");
    }
    assert_eq!(refused(&running, "no-session"), 25);
    // Nor does a token: it is for clients of the API.
    let token = token(&mut running.client(), "t", "default");
    let shown = format!("Bearer {token}");
    let bare = Browser::new(address);
    assert_eq!(bare.ask("GET", "/v1/functions", &[("authorization", &shown)], "").status, 401);
    // A cookie that another program on the host has set beside it takes nothing away.
    let cookie = one.cookie.clone().expect("one");
    let name = cookie.split('=').next().expect("a name");
    let both = format!("{name}=0; other=1; {cookie}");
    assert_eq!(one.ask("GET", "/v1/functions", &[("cookie", &both)], "").status, 200);
}

#[test]
fn a_session_ends_with_its_token_and_its_streams_do() {
    let (running, address) = running(|_| {});
    let mut client = running.client();
    assert_eq!(client.put("/v1/tenants/red", &json!({})).status, 201);
    let token = token(&mut client, "ci", "red");
    let browser = Browser::with(address, &link(&mut client, Some(&token)));
    let shown = browser.get("/session").json();
    assert_eq!(
        (&shown["rights"], &shown["tenant"], &shown["token"]),
        (&json!("tenant"), &json!("red"), &json!("ci"))
    );
    let unused = link(&mut client, Some(&token));
    let mut events = browser.begin("GET", "/v1/events?follow=true", &[], "");
    assert_eq!(head(&mut events).status, 200);
    assert_eq!(client.delete("/v1/tokens/ci").status, 200);
    let mut rest = Vec::new();
    events.read_to_end(&mut rest).expect("the stream ends");
    assert_eq!(browser.get("/v1/functions").status, 401);
    assert_eq!(browser.get("/session").status, 401);
    assert_eq!(Browser::new(address).open(&unused).status, 401, "a link of it gives nothing either");
}

#[test]
fn a_tenants_page_shows_what_is_the_tenants() {
    let (running, address) = running(|_| {});
    let mut client = running.client();
    for tenant in ["red", "blue"] {
        assert_eq!(client.put(&format!("/v1/tenants/{tenant}"), &json!({})).status, 201);
        let spec = json!({"image": "firewall", "tenant": tenant});
        assert_eq!(client.put(&format!("/v1/functions/{tenant}-fw"), &spec).status, 201);
    }
    let token = token(&mut client, "ci", "red");
    let browser = Browser::with(address, &link(&mut client, Some(&token)));
    assert_eq!(browser.get("/v1/functions/red-fw").status, 200);
    assert_eq!(browser.get("/v1/functions/blue-fw").status, 404);
    for path in ["/v1/functions", "/v1/graph", "/v1/account", "/metrics"] {
        let told = browser.get(path).text();
        assert!(told.contains("red-fw") && !told.contains("blue"), "{path}: {told}");
    }
    assert_eq!(browser.ask("DELETE", "/v1/functions/blue-fw", &[], "").status, 404);
    assert_eq!(browser.get("/v1/tokens").status, 403);
    assert_eq!(browser.ask("POST", "/v1/tokens", &[JSON], r#"{"name": "x", "tenant": "red"}"#).status, 403);
    assert_eq!(client.get("/v1/functions/blue-fw").status, 200);
}

#[test]
fn no_other_page_shows_this_one_and_nothing_is_loaded_from_elsewhere() {
    let (running, address) = running(|_| {});
    let browser = Browser::with(address, &link(&mut running.client(), None));
    let mut evil = browser.clone();
    evil.host = "evil.example".to_owned();
    let answers = [
        browser.get("/"),
        browser.get("/assets/a-1.js"),
        browser.get("/nothing"),
        browser.get("/session"),
        browser.get("/v1/functions"),
        browser.get("/v1/nothing"),
        browser.ask("DELETE", "/", &[], ""),
        browser.ask("GET", "/v1/functions", &[("cookie", "")], ""),
        evil.get("/"),
    ];
    for got in answers {
        let policy = got.header("content-security-policy").unwrap_or_default().to_owned();
        assert!(
            policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"),
            "{got:?}"
        );
        assert!(!policy.contains("unsafe") && !policy.contains("http:") && !policy.contains('*'), "{policy}");
        assert_eq!(got.header("x-frame-options"), Some("DENY"), "{got:?}");
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"), "{got:?}");
        assert_eq!(got.header("referrer-policy"), Some("no-referrer"), "{got:?}");
        assert!(got.header("access-control-allow-origin").is_none(), "{got:?}");
    }
    // A browser that knows no such header, but says what it loads.
    for frame in ["iframe", "frame", "embed", "object"] {
        let site = ("sec-fetch-site", "cross-site");
        let got = browser.ask("GET", "/", &[site, ("sec-fetch-dest", frame), ("origin", "")], "");
        assert_eq!(got.status, 403, "{frame}");
    }
    let followed = [("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "document"), ("origin", "")];
    assert_eq!(browser.ask("GET", "/", &followed, "").status, 200, "a link on another page leads here");
}

#[test]
fn a_session_that_is_left_or_rests_too_long_is_over() {
    let (running, address) = running(|page| page.idle = Duration::from_millis(700));
    let browser = Browser::with(address, &link(&mut running.client(), None));
    let other = Browser::with(address, &link(&mut running.client(), None));
    let mut events = browser.begin("GET", "/v1/events?follow=true", &[], "");
    assert_eq!(head(&mut events).status, 200);
    let left = browser.ask("DELETE", "/session", &[], "");
    assert!(
        left.status == 204 && left.header("set-cookie").is_some_and(|set| set.contains("Max-Age=0")),
        "{left:?}"
    );
    let mut rest = Vec::new();
    events.read_to_end(&mut rest).expect("the stream ends");
    assert_eq!(browser.get("/v1/functions").status, 401);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        assert_eq!(other.get("/v1/functions").status, 200, "as long as something is asked");
        std::thread::sleep(Duration::from_millis(50));
    }
    // A stream is no request: it ends when nothing else comes.
    let mut events = other.begin("GET", "/v1/events?follow=true", &[], "");
    assert_eq!(head(&mut events).status, 200);
    events.read_to_end(&mut rest).expect("the stream ends");
    assert_eq!(other.get("/v1/functions").status, 401);
    let text = running.client().get("/metrics").text();
    assert!(text.contains("superfluid_daemon_page_sessions 0\n"), "{text}");
}

#[test]
fn a_session_does_not_last_for_ever_and_makes_no_other() {
    let (running, address) = running(|page| page.longest = Duration::from_millis(700));
    let browser = Browser::with(address, &link(&mut running.client(), None));
    let made = browser.ask("POST", "/v1/page-links", &[], "");
    assert_eq!((made.status, made.problem().as_str()), (403, "forbidden"));
    let began = Instant::now();
    while browser.get("/v1/functions").status == 200 {
        assert!(began.elapsed() < LIMIT, "it is used, and ends all the same");
        std::thread::sleep(Duration::from_millis(20));
    }
    let none = Running::new();
    let told = none.client().post("/v1/page-links", "");
    assert!(told.status == 404 && told.text().contains("--page"), "{told:?}");
}

#[test]
fn an_owner_has_few_links_and_sessions_and_takes_none_of_others() {
    let (running, address) = running(|_| {});
    let mut client = running.client();
    assert_eq!(client.put("/v1/tenants/red", &json!({})).status, 201);
    let token = token(&mut client, "ci", "red");
    let administrators = Browser::with(address, &link(&mut client, None));
    let kept = link(&mut client, None);
    let first = link(&mut client, Some(&token));
    let links: Vec<String> = (0..16).map(|_| link(&mut client, Some(&token))).collect();
    assert_eq!(Browser::new(address).open(&first).status, 401, "the oldest gave way");
    let mut sessions: Vec<Browser> = links.iter().map(|link| Browser::with(address, link)).collect();
    assert!(sessions.iter().all(|session| session.get("/session").status == 200));
    // The first one has rested for longest, but for being asked.
    assert_eq!(sessions[0].get("/session").status, 200);
    sessions.push(Browser::with(address, &link(&mut client, Some(&token))));
    let standing: Vec<u16> = sessions.iter().map(|session| session.get("/session").status).collect();
    assert_eq!(standing.iter().filter(|status| **status == 401).count(), 1, "{standing:?}");
    assert_eq!((standing[0], standing[1]), (200, 401), "{standing:?}");
    assert_eq!(administrators.get("/session").status, 200);
    assert_eq!(Browser::new(address).open(&kept).status, 200);
}

#[test]
fn files_are_given_compressed_and_kept_by_browsers_as_long_as_they_are_the_same() {
    let (running, address) = running(|_| {});
    let browser = Browser::new(address);
    let page = browser.get("/");
    assert_eq!((page.status, page.text().as_str()), (200, "the page"), "without a session");
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    assert_eq!(page.header("content-encoding"), Some("gzip"));
    let again = browser.ask("GET", "/index.html", &[("if-none-match", "W/\"0\", \"1\"")], "");
    assert_eq!((again.status, again.body.len()), (304, 0));
    let script = browser.get("/assets/a-1.js");
    assert_eq!(script.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(script.header("content-type"), Some("text/javascript"));
    for nothing in ["/assets/", "/assets/../index.html", "/etc/passwd", "//", "/%2e%2e/x", "/v1"] {
        assert_eq!(browser.get(nothing).status, 404, "{nothing}");
    }
    assert_eq!(browser.ask("POST", "/", &[], "").status, 405);
    assert_eq!(running.client().get("/").status, 404, "the API has no files");
    let bare = Page::new(SocketAddr::from(([127, 0, 0, 1], 0)), None, &[]);
    let bare = Running::with(|settings| settings.page = Some(bare));
    let told = Browser::new(bare.page.expect("it listens")).get("/");
    assert!(told.status == 200 && told.text().contains("built without the page"), "{told:?}");
}

#[test]
fn clients_that_hold_every_place_keep_no_browser_out() {
    let (running, address) = running(|_| {});
    let browser = Browser::with(address, &link(&mut running.client(), None));
    let mut events = browser.begin("GET", "/v1/events?follow=true", &[], "");
    assert_eq!(head(&mut events).status, 200);
    let held: Vec<TcpStream> = (0..200)
        .map(|n| {
            let mut stream = TcpStream::connect(address).expect("connects");
            let some = ["", "GET / HTTP/1.1\r\nhost: lo", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"];
            // It may have been closed for the next already.
            let _ = stream.write_all(some[n % 3].as_bytes());
            stream
        })
        .collect();
    assert_eq!(browser.get("/").status, 200);
    assert_eq!(browser.get("/v1/functions").status, 200);
    assert_eq!(running.client().get("/v1/health").status, 200);
    assert_eq!(running.client().put("/v1/functions/fw", &json!({"image": "a"})).status, 201);
    let mut line = String::new();
    // The length of the part, and the line itself.
    events.read_line(&mut line).and_then(|_| events.read_line(&mut line)).expect("its stream goes on");
    assert!(line.contains("\"fw\""), "{line}");
    drop(held);
}

#[test]
fn what_a_session_may_not_do_is_counted_and_written_down() {
    let (running, address) = running(|_| {});
    let browser = Browser::new(address);
    assert_eq!(browser.get("/v1/functions").status, 401);
    let audit = running.audit();
    let line: &Value = audit.iter().find(|line| line["path"] == "/v1/functions").expect("a line");
    assert_eq!(
        (&line["outcome"], &line["status"], &line["who"]["browser"]),
        (&json!("refused"), &json!(401), &json!("127.0.0.1"))
    );
}
