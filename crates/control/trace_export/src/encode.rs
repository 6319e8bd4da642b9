//! Spans as OTLP has them (opentelemetry-proto 1, `ExportTraceServiceRequest`, in its JSON form).

use crate::span::{Kind, Span, Value};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;

/// A request with these spans.
pub(crate) fn request<'a>(service: &str, version: &str, spans: impl IntoIterator<Item = &'a Span>) -> Json {
    let spans: Vec<Json> = spans.into_iter().map(span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            attribute("service.name", &Value::Text(service.to_owned())),
            attribute("service.version", &Value::Text(version.to_owned())),
        ]},
        "scopeSpans": [{"scope": {"name": "superfluid", "version": version}, "spans": spans}],
    }]})
}

fn span(span: &Span) -> Json {
    let mut encoded = json!({
        "traceId": hex(&span.context.trace),
        "spanId": hex(&span.context.span),
        "name": span.name,
        "kind": match span.kind { Kind::Internal => 1, Kind::Server => 2 },
        // Numbers of 64 bits are text in this form.
        "startTimeUnixNano": span.began.to_string(),
        "endTimeUnixNano": span.ended.to_string(),
        "attributes": span.attributes.iter().map(|(name, value)| attribute(name, value)).collect::<Vec<_>>(),
        "status": match &span.error { None => json!({}), Some(why) => json!({"code": 2, "message": why}) },
    });
    if let Some(parent) = &span.parent {
        encoded["parentSpanId"] = hex(parent).into();
    }
    encoded
}

fn attribute(name: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({"stringValue": text}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
    };
    json!({"key": name, "value": value})
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
