use crate::{Context, Counts, Exporter, Kind, Settings, SettingsError, Span, Value};
use serde_json::Value as Json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

#[test]
fn contexts_are_read_as_the_specification_says() {
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let read = Context::read(good).expect("a context");
    assert_eq!((read.trace[0], read.trace[15], read.span[0], read.sampled), (0x0a, 0x9c, 0xb7, true));
    let not_kept =
        Context::read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").expect("a context");
    assert!(!not_kept.sampled);
    let later = Context::read("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-will-be");
    assert_eq!(later, Some(read));
    for bad in [
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
    ] {
        assert_eq!(Context::read(bad), None, "{bad}");
    }
    assert_eq!(Span::new("x".into(), Kind::Server, Some(not_kept), SystemTime::now(), Duration::ZERO), None);
}

#[test]
fn the_environment_says_where_spans_go_unless_the_command_line_does() {
    let find = |endpoint: Option<&str>, pairs: &[(&str, &str)]| {
        let of =
            |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Settings::find(endpoint, of, "1")
    };
    let url = |found: Result<Option<Settings>, SettingsError>| {
        found.map(|found| found.map(|settings| settings.url))
    };
    assert_eq!(url(find(None, &[])), Ok(None));
    let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/");
    assert_eq!(url(find(None, &[base])), Ok(Some("http://a:4318/v1/traces".into())));
    let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://b/x");
    assert_eq!(url(find(None, &[base, whole])), Ok(Some("https://b/x".into())));
    assert_eq!(url(find(Some("http://c"), &[base, whole])), Ok(Some("http://c/v1/traces".into())));
    let more =
        [("OTEL_EXPORTER_OTLP_HEADERS", "a=b, authorization=Bearer x=="), ("OTEL_SERVICE_NAME", "edge")];
    let found = find(Some("http://c"), &more).expect("sound").expect("there");
    let headers = [("a".to_owned(), "b".to_owned()), ("authorization".to_owned(), "Bearer x==".to_owned())];
    assert_eq!((found.headers.as_slice(), found.service.as_str()), (&headers[..], "edge"));
    for wrong in ["ftp://x", "collector:4318", "http:///x", "http://a b"] {
        assert!(matches!(find(Some(wrong), &[]), Err(SettingsError::Url(_))), "{wrong}");
    }
    let wrong = find(Some("http://c"), &[("OTEL_EXPORTER_OTLP_HEADERS", "a")]);
    assert!(matches!(wrong, Err(SettingsError::Headers(_))));
}

/// A collector that gives each request to the test, and these answers, the last one again and again.
fn collector(answers: Vec<&'static str>) -> (String, Receiver<(String, Json)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1/traces", listener.local_addr().expect("an address"));
    let (told, requests) = channel();
    std::thread::spawn(move || {
        let mut answers = answers.into_iter().peekable();
        for stream in listener.incoming().flatten() {
            let answer = if answers.len() > 1 { answers.next() } else { answers.peek().copied() };
            let Some(request) = read(stream, answer.unwrap_or_default()) else { continue };
            if told.send(request).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

/// Reads one request and answers it; its head and its body.
fn read(mut stream: TcpStream, answer: &str) -> Option<(String, Json)> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length:")
                    .and_then(|text| text.trim().parse().ok())
            });
            if length.is_some_and(|length: usize| body.len() >= length) {
                stream.write_all(answer.as_bytes()).ok()?;
                return Some((head.to_owned(), serde_json::from_str(body).expect("JSON")));
            }
        }
        match stream.read(&mut part).ok()? {
            0 => return None,
            count => bytes.extend(&part[..count]),
        }
    }
}

const TAKEN: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const BROKEN: &str = "HTTP/1.1 400 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
/// Says that it refused more than it was sent.
const LYING: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 46\r\n\r\n{\"partialSuccess\": {\"rejectedSpans\": \"99999\"}}";

fn exporter(url: &str) -> Exporter {
    let settings = Settings::find(Some("http://x"), |_| None, "1").expect("sound").expect("there");
    let settings = Settings {
        url: url.to_owned(),
        gather: Duration::from_millis(20),
        timeout: Duration::from_secs(2),
        headers: vec![("x-key".into(), "secret".into())],
        ..settings
    };
    Exporter::begin(settings, |_| {}).expect("a thread")
}

fn span(name: &str) -> Span {
    let below = Context::read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let mut span = Span::new(name.into(), Kind::Server, below, SystemTime::now(), Duration::from_millis(3))
        .expect("kept");
    span.attributes.push(("http.response.status_code", Value::Number(200)));
    span.attributes.push(("url.path", Value::Text("/v1/health".into())));
    span
}

fn counted(exporter: &Exporter, wanted: Counts) {
    let began = Instant::now();
    while exporter.counts() != wanted {
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", exporter.counts());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn spans_arrive_as_the_protocol_has_them() {
    let (url, requests) = collector(vec![BUSY, TAKEN]);
    let exporter = exporter(&url);
    let mut failed = span("PUT /v1/functions/{name}");
    failed.error = Some("no disk".into());
    exporter.hand_in(vec![span("GET /v1/health"), failed.clone()]);
    counted(&exporter, Counts { sent: 2, ..Counts::default() });
    // Once refused because it was busy, and then again.
    let (_, first) = requests.recv_timeout(Duration::from_secs(20)).expect("a request");
    let (head, second) = requests.recv_timeout(Duration::from_secs(20)).expect("a request");
    assert_eq!(first, second);
    assert!(head.starts_with("POST /v1/traces HTTP/1.1") && head.contains("x-key: secret"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    let resource = &second["resourceSpans"][0];
    assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "superfluid");
    let spans = resource["scopeSpans"][0]["spans"].as_array().expect("spans");
    assert_eq!(spans.len(), 2);
    let last = &spans[1];
    assert_eq!(last["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!((last["parentSpanId"].as_str(), last["kind"].as_u64()), (Some("b7ad6b7169203331"), Some(2)));
    assert_eq!(last["spanId"].as_str().map(str::len), Some(16));
    let time =
        |key: &str| last[key].as_str().and_then(|text| text.parse::<u64>().ok()).expect("a number as text");
    assert_eq!(time("endTimeUnixNano") - time("startTimeUnixNano"), 3_000_000);
    assert_eq!(time("startTimeUnixNano"), failed.began);
    assert_eq!(last["status"], serde_json::json!({"code": 2, "message": "no disk"}));
    assert_eq!(last["attributes"][0]["value"]["intValue"], "200");
    drop(exporter);
}

#[test]
fn collectors_that_refuse_lie_hang_or_are_not_there_cost_spans_and_nothing_else() {
    for (answer, wanted) in [
        (BROKEN, Counts { lost: 1, ..Counts::default() }),
        (LYING, Counts { refused: 1, ..Counts::default() }),
        ("no HTTP at all\r\n\r\n", Counts { lost: 1, ..Counts::default() }),
    ] {
        let (url, requests) = collector(vec![answer]);
        let exporter = exporter(&url);
        exporter.hand_in(vec![span("x")]);
        counted(&exporter, wanted);
        drop((exporter, requests));
    }
    // It takes the connection and says nothing; there is more than has room, and the exporter does not wait.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let exporter = exporter(&format!("http://{}/v1/traces", silent.local_addr().expect("an address")));
    let began = Instant::now();
    for _ in 0..10 * crate::WAITING {
        exporter.hand_in(vec![span("x")]);
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(exporter.counts().lost >= 8 * crate::WAITING as u64, "{:?}", exporter.counts());
    let began = Instant::now();
    drop(exporter);
    assert!(began.elapsed() < Duration::from_secs(60), "its end is bounded");
}
