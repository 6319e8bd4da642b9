//! The description of the interface: OpenAPI 3.1, made from the table of calls and from the types of `api`.

use crate::call::{Call, Gives, Takes};
use crate::past;
use crate::request::{OPENMETRICS, PROMETHEUS};
use crate::schemas::{name_schema, reference, schemas, type_of};
use api::{JSON_LINES, Kind, PCAPNG, PROBLEM_JSON, ProblemType, TAR};
use hyper::Method;
use serde_json::{Map, Value, json};

/// An entity tag.
const VERSION: &str = "\"(0|[1-9][0-9]{0,15})\"";
/// The document, as it is served.
#[must_use]
pub fn document() -> Value {
    let mut paths = Map::new();
    for call in Call::all() {
        let entry = paths.entry(call.path()).or_insert_with(|| json!({}));
        entry[call.method().as_str().to_ascii_lowercase()] = operation(call);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Superfluid",
            "version": "1.0.0",
            "summary": "Network functions on one host.",
            "description": "What stands in the operator's file is the `spec` of objects here. All answers that are no success are \
                            problem documents (RFC 9457).",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://localhost", "description": "Over the daemon's UNIX socket; the host name does not matter."}],
        "paths": paths,
        "security": [{}, {"token": []}],
        "components": {"schemas": schemas(), "securitySchemes": {"token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token, `sft_` and 64 hexadecimal digits: it gives the rights of its tenant and no others, or reads the whole host. Administrators need none: they are clients that may \
                            connect to the administrators' socket, or show a certificate of theirs.",
        }}},
    })
}

fn operation(call: Call) -> Value {
    let (id, summary) = naming(call);
    let mut operation = json!({"operationId": id, "summary": summary, "parameters": parameters(call)});
    let body = match call {
        Call::Put(kind) => Some(reference(&format!("Desired{}", type_of(kind)))),
        Call::Upgrade => Some(reference("Upgrade")),
        Call::Save => Some(reference("Save")),
        Call::Restore => Some(reference("Restore")),
        Call::Adopt => Some(reference("Adopt")),
        Call::Trace => Some(reference("Trace")),
        Call::Capture => Some(reference("Capture")),
        Call::IssueToken => Some(reference("NewToken")),
        Call::SetRegistryLogin => Some(reference("NewRegistryLogin")),
        Call::Apply | Call::Check => Some(reference("Document")),
        _ => None,
    };
    if let Some(schema) = body {
        let mut content = json!({"application/json": {"schema": schema.clone()}});
        if call.takes() == Takes::Document {
            content["application/yaml"] = json!({"schema": schema});
        }
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    operation["responses"] = responses(call);
    operation
}

fn naming(call: Call) -> (String, String) {
    let one = |verb: &str, kind: Kind| format!("{verb}{}", type_of(kind));
    let (id, summary) = match call {
        Call::List(kind) => {
            let plural = kind.plural();
            return (
                format!("list{}{}", plural[..1].to_ascii_uppercase(), &plural[1..]),
                format!("The {plural}."),
            );
        }
        Call::Get(kind) => return (one("get", kind), format!("One {kind}.")),
        Call::Put(kind) => {
            return (
                one("put", kind),
                format!("Creates or replaces a {kind}; as it is already, it is not touched."),
            );
        }
        Call::Delete(kind) => return (one("delete", kind), format!("Deletes a {kind}.")),
        Call::OpenApi => ("getDescription", "This document."),
        Call::Health => ("getHealth", "How the daemon is."),
        Call::Metrics => ("getMetrics", "Counters for Prometheus."),
        Call::Account => ("getAccount", "The account of every packet."),
        Call::Memory => ("getMemory", "Where the host's memory goes."),
        Call::Graph => ("getGraph", "What is wired to what, with what has passed."),
        Call::History => (
            "getHistory",
            "What passed in the last hour: all objects at one step, or with `of` one object over time.",
        ),
        Call::Images => ("listImages", "The images on this host."),
        Call::Events => ("getEvents", "What happens: one JSON object a line."),
        Call::PastEvents => ("getPastEvents", "What happened in the last hour."),
        Call::Apply => {
            ("apply", "Creates and changes what a whole document names, and with `prune` deletes the rest.")
        }
        Call::Check => (
            "check",
            "Says what is wrong with a whole document and what it would change, and does nothing for it.",
        ),
        Call::Operations => ("listOperations", "Operations that are not ended, and the last that are."),
        Call::Operation => ("getOperation", "One operation."),
        Call::Snapshots => ("listSnapshots", "The snapshots."),
        Call::Snapshot => ("getSnapshot", "One snapshot."),
        Call::DeleteSnapshot => ("deleteSnapshot", "Deletes a snapshot."),
        Call::Restore => ("restoreSnapshot", "Makes a function that begins as the snapshot was."),
        Call::Adopt => ("adoptSnapshot", "Gives an imported snapshot to a tenant."),
        Call::RotateKey => (
            "rotateSnapshotKey",
            "Makes a new key for snapshots, seals with it those that are this host's own, and forgets the key before.",
        ),
        Call::Pause => ("pauseFunction", "Lets a function stand still; packets wait in its queue."),
        Call::Resume => ("resumeFunction", "Lets a paused function go on."),
        Call::Restart => ("restartFunction", "Starts a function anew, without what it knew."),
        Call::Upgrade => (
            "upgradeFunction",
            "Lets another image take over between two batches, with the function's state.",
        ),
        Call::Save => ("saveFunction", "Saves a function with what it knows."),
        Call::Logs => ("getLogs", "What a function said: one JSON object a line."),
        Call::FunctionEvents => {
            ("getFunctionEvents", "What a function found and what happened to it: one JSON object a line.")
        }
        Call::Report => ("getReport", "What a function reports of itself."),
        Call::Neighbours => (
            "getNeighbours",
            "What a device is on its links: its addresses, its groups, a part of its neighbours.",
        ),
        Call::Trace => (
            "tracePackets",
            "Follows packets on their way through the functions: one JSON object a line, for each that has come to its end.",
        ),
        Call::Capture => ("capturePackets", "Captures packets where they pass."),
        Call::Backup => ("backUp", "Writes a backup of objects, images and snapshots, all of one moment."),
        Call::Tokens => ("listTokens", "The tokens, without their secrets."),
        Call::Token => ("getToken", "One token, without its secret."),
        Call::IssueToken => ("issueToken", "Makes a token of a tenant; its secret is told this once."),
        Call::DeleteToken => {
            ("deleteToken", "Deletes a token: it is not taken any more, and streams by it end.")
        }
        Call::PageLink => (
            "linkToPage",
            "Makes a link to the page, with the rights of the client that asks: it is opened once, within 60 s.",
        ),
        Call::RegistryLogins => ("listRegistryLogins", "Logins at registries, without their passwords."),
        Call::SetRegistryLogin => {
            ("setRegistryLogin", "Sets the login at a registry with which images are pulled for a tenant.")
        }
        Call::DeleteRegistryLogin => ("deleteRegistryLogin", "Deletes the login of a tenant at a registry."),
    };
    (id.to_owned(), summary.to_owned())
}

fn parameters(call: Call) -> Value {
    let mut parameters = Vec::new();
    if call.path().contains("{name}") {
        let (schema, of) = match call {
            Call::Get(kind) | Call::Put(kind) | Call::Delete(kind) => {
                (name_schema(Some(kind)), "The object's name.")
            }
            Call::Neighbours => (name_schema(Some(Kind::Device)), "The device's name."),
            Call::Operation => (name_schema(None), "The operation's `id`."),
            Call::Snapshot | Call::DeleteSnapshot | Call::Restore | Call::Adopt => {
                (name_schema(None), "The snapshot's name.")
            }
            Call::Token | Call::DeleteToken => (name_schema(None), "The token's name."),
            _ => (name_schema(Some(Kind::Function)), "The function's name."),
        };
        parameters.push(
            json!({"name": "name", "in": "path", "required": true, "description": of, "schema": schema}),
        );
    }
    for name in call.parameters() {
        let number = |least: u64, most: u64| json!({"type": "integer", "minimum": least, "maximum": most});
        let flag = || json!({"type": "boolean"});
        let (schema, of) = match (*name, call) {
            ("limit", Call::Logs) => (number(1, 10_000), "Most lines; 100 without it."),
            ("limit", Call::FunctionEvents) => (number(1, 10_000), "Most events; 100 without it."),
            ("limit", Call::Neighbours) => (number(1, 1000), "Most neighbours; 100 without it."),
            ("limit", Call::PastEvents) => {
                (number(1, past::MOST_TOLD), "Most events, the latest ones; 1,000 without it.")
            }
            ("limit", _) => (number(1, 1000), "Most objects; 100 without it."),
            ("after", Call::Events) => {
                (number(0, (1 << 53) - 1), "The events after this revision; without it, those that come.")
            }
            ("after", Call::Logs) => (number(0, (1 << 53) - 1), "Lines with larger numbers."),
            ("after", Call::FunctionEvents) => (number(0, (1 << 53) - 1), "Events with larger numbers."),
            ("after", Call::Neighbours) => (
                json!({"anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]}),
                "Neighbours with addresses behind this one: `next` of the part before.",
            ),
            ("after", _) => {
                (json!({"type": "string"}), "Objects with names behind this one: `next` of the part before.")
            }
            ("at", _) => (number(0, (1 << 53) - 1), "The step; without it, the last."),
            ("layout", _) => (
                number(0, (1 << 53) - 1),
                "The layout whose names the client knows: they are left out if it still is that of the last step.",
            ),
            ("of", _) => (
                json!({"type": "string", "pattern": "^[^/]+/.+$", "maxLength": 640}),
                "An object, by kind and name, such as `function/fw`: it over time, instead of all at a step.",
            ),
            ("seconds", Call::PastEvents) => (number(1, 3600), "Those of so long; 3600 without it."),
            ("seconds", _) => (number(1, 3600), "With `of`: for so long; 600 without it."),
            ("registry", _) => {
                (json!({"type": "string"}), "The registry, `HOST` or `HOST:PORT`. It has to be there.")
            }
            ("tenant", Call::DeleteRegistryLogin) => (
                json!({"type": "string"}),
                "The tenant whose login it is. A tenant's token need not name it; an administrator must.",
            ),
            ("tenant", _) => (
                json!({"type": "string"}),
                "Objects of this tenant. A part may then have fewer, while `next` says that there are more.",
            ),
            ("follow", _) => (flag(), "The answer does not end; lines come as they come."),
            ("dry_run", _) => {
                (flag(), "Nothing is changed; the answer is the difference that it would make.")
            }
            ("durable", _) => (flag(), "The answer comes when the change is on disk."),
            ("resolve", _) => (
                flag(),
                "With `dry_run`: registries are asked what tags mean now. Without it, those that functions run with mean what they meant when they were applied.",
            ),
            ("allow_restart", _) => (
                flag(),
                "Functions that cannot hand over what they know to their successors may begin anew. Without it, such a change is refused.",
            ),
            ("from", _) => (
                name_schema(None),
                "The snapshot that the function begins with: one of its tenant's, of the same image and configuration. Functions of one tenant that begin with one share its memory until they write it.",
            ),
            ("prune", _) => (flag(), "What the document does not name is deleted."),
            _ => (
                flag(),
                "Whether to wait for work such as compiling an image: to its end, or not at all. Without it, for a second; a client that does not wait is answered with the operation.",
            ),
        };
        parameters.push(
            json!({"name": name, "in": "query", "required": false, "description": of, "schema": schema}),
        );
    }
    if call.conditional() {
        let header = |name: &str, of: &str, schema: Value| json!({"name": name, "in": "header", "required": false, "description": of, "schema": schema});
        let version =
            json!({"type": "string", "pattern": format!("^(\\*|{VERSION}(, *{VERSION}){{0,31}})$")});
        parameters.push(header(
            "If-Match",
            "Only if the object has one of these versions, in quotes; `*`: only if it is there.",
            version,
        ));
        parameters.push(header(
            "If-None-Match",
            "Only if the object is not there.",
            json!({"type": "string", "pattern": r"^\*$"}),
        ));
    }
    if call.changes() {
        parameters.push(json!({
            "name": "Prefer", "in": "header", "required": false,
            "description": "What the client would rather have (RFC 7240); others than these are passed over. `server-timing`: the answer says in `Server-Timing` how long each step took.",
            "schema": {"type": "string"},
        }));
    }
    Value::Array(parameters)
}

fn responses(call: Call) -> Value {
    let mut responses = Map::new();
    let json = |schema: Value| json!({"application/json": {"schema": schema}});
    let object =
        |properties: Value| json!({"type": "object", "required": ["items"], "properties": properties});
    let items = |name: &str| object(json!({"items": {"type": "array", "items": reference(name)}}));
    let tag =
        || json!({"ETag": {"description": "The object's version, in quotes.", "schema": {"type": "string"}}});
    let location = |of: &str| json!({"Location": {"description": of, "schema": {"type": "string"}}});
    let mut add = |status: u16, of: &str, content: Value, headers: Option<Value>| {
        let mut response = json!({"description": of, "content": content});
        if let Some(headers) = headers {
            response["headers"] = headers;
        }
        responses.insert(status.to_string(), response);
    };
    let written = |kind: Kind| json!({"anyOf": [reference(&type_of(kind)), reference("Difference")]});
    match call {
        Call::List(kind) => {
            add(200, "A part of them.", json(reference(&format!("{}List", type_of(kind)))), None)
        }
        Call::Get(kind) => add(200, "The object.", json(reference(&type_of(kind))), Some(tag())),
        Call::Put(kind) => {
            add(
                200,
                "The object as it is now, or the difference of a dry run.",
                json(written(kind)),
                Some(tag()),
            );
            add(
                201,
                "The object, which is new.",
                json(reference(&type_of(kind))),
                Some(location("Where it is.")),
            );
        }
        Call::Delete(_) => add(200, "What is different.", json(reference("Difference")), None),
        Call::Apply => add(200, "What is different.", json(reference("Difference")), None),
        Call::Check => add(200, "What it comes to.", json(reference("CheckReport")), None),
        Call::Upgrade => add(200, "The function.", json(reference("Function")), Some(tag())),
        Call::Restore => {
            add(200, "The function.", json(reference("Function")), Some(tag()));
            add(
                201,
                "The function, which is new.",
                json(reference("Function")),
                Some(location("Where it is.")),
            );
        }
        Call::Pause | Call::Resume | Call::Restart => {
            add(200, "The function.", json(reference("Function")), Some(tag()));
        }
        Call::Save => add(201, "The snapshot.", json(reference("Snapshot")), Some(location("Where it is."))),
        Call::Snapshots => add(200, "All of them.", json(items("Snapshot")), None),
        Call::Snapshot | Call::Adopt => add(200, "The snapshot.", json(reference("Snapshot")), None),
        Call::RotateKey => add(200, "What it has sealed.", json(reference("RotatedKey")), None),
        Call::Tokens => add(200, "All of them.", json(items("Token")), None),
        Call::Token => add(200, "The token.", json(reference("Token")), None),
        Call::IssueToken => {
            add(
                201,
                "The token, with its secret.",
                json(reference("IssuedToken")),
                Some(location("Where it is.")),
            );
        }
        Call::DeleteSnapshot | Call::DeleteToken | Call::DeleteRegistryLogin => {
            let deleted = json!({"type": "object", "required": ["deleted"], "properties": {"deleted": {"type": "string", "description": "Its name."}}});
            add(200, "It is gone.", json(deleted), None);
        }
        Call::PageLink => add(201, "The link, with its secret.", json(reference("PageLink")), None),
        Call::RegistryLogins => add(200, "All of them.", json(items("RegistryLogin")), None),
        Call::SetRegistryLogin => add(201, "The login.", json(reference("RegistryLogin")), None),
        Call::Images => add(200, "All of them.", json(items("Image")), None),
        Call::Operations => add(200, "All of them.", json(items("Operation")), None),
        Call::Operation => add(200, "The operation.", json(reference("Operation")), None),
        Call::Health => add(200, "How it is.", json(reference("Health")), None),
        Call::Account => add(200, "The account.", json(json!({"type": "object"})), None),
        Call::Memory => add(200, "Where it goes.", json(json!({"type": "object"})), None),
        Call::Graph => add(200, "What there is.", json(reference("Graph")), None),
        Call::History => {
            let either = json!({"anyOf": [reference("HistoryMoment"), reference("HistoryLine")]});
            add(200, "All objects at a step, or one over time.", json(either), None);
        }
        Call::OpenApi => add(200, "The document.", json(json!({"type": "object"})), None),
        Call::Metrics => {
            let text = json!({"schema": {"type": "string"}});
            add(200, "The metrics.", json!({PROMETHEUS: text, OPENMETRICS: text}), None);
        }
        Call::Events => add(
            200,
            "A line for each event.",
            json!({JSON_LINES: {"schema": {"type": "string", "description": "Each line is an `Event`."}}}),
            None,
        ),
        Call::PastEvents => add(200, "The events.", json(reference("PastEvents")), None),
        Call::Logs => add(
            200,
            "A line for each line.",
            json!({JSON_LINES: {"schema": {"type": "string", "description": "Each line is a `LogLine`."}}}),
            None,
        ),
        Call::FunctionEvents => add(
            200,
            "A line for each event.",
            json!({JSON_LINES: {"schema": {"type": "string", "description": "Each line is a `FunctionEvent`."}}}),
            None,
        ),
        Call::Report => add(200, "The report.", json(reference("FunctionReport")), None),
        Call::Neighbours => {
            add(200, "The device, and the neighbours.", json(reference("DeviceNeighbours")), None)
        }
        Call::Trace => add(
            200,
            "A line for each packet.",
            json!({JSON_LINES: {"schema": {"type": "string", "description": "Each line is a `TraceLine`."}}}),
            None,
        ),
        Call::Capture => {
            let packets = json!({"type": "string", "contentMediaType": PCAPNG});
            add(200, "The packets, as they come.", json!({PCAPNG: {"schema": packets}}), None);
        }
        Call::Backup => {
            let archive = json!({"type": "string", "contentMediaType": TAR});
            add(
                200,
                "The backup; its last entry has the sums of all before it.",
                json!({TAR: {"schema": archive}}),
                None,
            );
        }
    }
    if call.parameters().contains(&"wait") {
        let of = "It takes longer: the operation, which goes on.";
        add(202, of, json(reference("Operation")), Some(location("Where the operation is.")));
    }
    for of in problems(call) {
        let description = ProblemType::title(of);
        let response = responses.entry(of.status().to_string()).or_insert_with(|| {
            json!({"description": description, "content": {PROBLEM_JSON: {"schema": reference("Problem")}}})
        });
        if of == ProblemType::Unauthorized {
            let challenge =
                json!({"description": "`Bearer`: a token is wanted.", "schema": {"type": "string"}});
            response["headers"] = json!({"WWW-Authenticate": challenge});
        }
    }
    Value::Object(responses)
}

/// What a call may be refused with.
fn problems(call: Call) -> Vec<ProblemType> {
    use ProblemType::{
        Busy, Conflict, Forbidden, Gone, HeadersTooLarge, Internal, Invalid, Malformed, NoRoom,
        NotAcceptable, NotDurable, NotFound, PreconditionFailed, Timeout, TooLarge, Unauthorized,
        UnsupportedMediaType,
    };
    let mut problems = vec![
        Malformed,
        Unauthorized,
        Forbidden,
        NotAcceptable,
        Timeout,
        TooLarge,
        HeadersTooLarge,
        Internal,
        Busy,
    ];
    if call.path().contains("{name}") {
        problems.push(NotFound);
    }
    if call.takes() != Takes::Nothing {
        problems.extend([UnsupportedMediaType, Invalid]);
    }
    if call.method() != Method::GET {
        problems.extend([NotFound, Conflict, Invalid, NoRoom, NotDurable]);
    }
    if call.conditional() {
        problems.push(PreconditionFailed);
    }
    if call.gives() == Gives::Lines || call == Call::History {
        problems.push(Gone);
    }
    if call == Call::History {
        problems.push(NotFound);
    }
    problems
}
