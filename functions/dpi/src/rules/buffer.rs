//! Buffers: the parts of an application's messages that contents, expressions and lengths of a rule are
//! about, with their names in rules (sticky buffers, and modifiers behind a content).

use super::Direction;

/// Protocols of applications, recognised by what is said and not by port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum App {
    /// HTTP/1.0 and 1.1, RFC 9112.
    Http,
    /// DNS, RFC 1035, in datagrams and in streams.
    Dns,
    /// TLS, RFC 8446 and what was before it.
    Tls,
}

impl App {
    /// By its name in rules.
    pub fn find(name: &[u8]) -> Option<App> {
        match name {
            b"http" | b"http1" => Some(App::Http),
            b"dns" => Some(App::Dns),
            b"tls" | b"ssl" => Some(App::Tls),
            _ => None,
        }
    }
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Buffer {
    /// The request's target: without scheme and host, unescaped, its path made straight.
    Uri,
    /// The request's target as it was sent.
    UriRaw,
    /// The request's method.
    Method,
    /// The request's first line.
    RequestLine,
    /// Version of a request or response.
    Protocol,
    /// All fields but cookies, `NAME: VALUE` and a line end each; repeated ones joined.
    Header,
    /// All fields as they were sent.
    HeaderRaw,
    /// Names of all fields, in order.
    HeaderNames,
    /// Cookies.
    Cookie,
    /// The host that is asked, lower-case, without a port.
    Host,
    /// The host that is asked, as it was sent.
    HostRaw,
    /// Field `User-Agent`.
    UserAgent,
    /// Field `Referer`.
    Referer,
    /// Field `Accept`.
    Accept,
    /// Field `Accept-Encoding`.
    AcceptEncoding,
    /// Field `Accept-Language`.
    AcceptLanguage,
    /// Field `Connection`.
    Connection,
    /// Field `Content-Length`.
    ContentLength,
    /// Field `Content-Type`.
    ContentType,
    /// Field `Server`.
    Server,
    /// Field `Location`.
    Location,
    /// The response's first line.
    ResponseLine,
    /// The response's status code.
    StatusCode,
    /// The response's reason.
    StatusMessage,
    /// The request's body.
    RequestBody,
    /// The response's body, without its encodings.
    ResponseBody,
    /// A name that is asked for.
    DnsQuery,
    /// The name that a client asks a server for.
    TlsSni,
}

/// How many buffers there are.
pub const COUNT: usize = Buffer::TlsSni as usize + 1;

/// A buffer's names and what it belongs to.
#[derive(Debug)]
pub struct Field {
    /// The buffer.
    pub buffer: Buffer,
    /// Its names as a sticky buffer.
    pub sticky: &'static [&'static str],
    /// Its name as a modifier behind a content.
    pub modifier: Option<&'static str>,
    /// Its flag of an expression.
    pub flag: Option<u8>,
    /// The protocol.
    pub app: App,
    /// Which end's messages have it; `None` for both.
    pub direction: Option<Direction>,
}

const CLIENT: Option<Direction> = Some(Direction::ToServer);
const SERVER: Option<Direction> = Some(Direction::ToClient);

const fn http(
    buffer: Buffer,
    sticky: &'static [&'static str],
    modifier: Option<&'static str>,
    flag: Option<u8>,
    direction: Option<Direction>,
) -> Field {
    Field { buffer, sticky, modifier, flag, app: App::Http, direction }
}

/// All buffers, in the order of [`Buffer`].
pub static FIELDS: [Field; COUNT] = [
    http(Buffer::Uri, &["http.uri"], Some("http_uri"), Some(b'U'), CLIENT),
    http(Buffer::UriRaw, &["http.uri.raw"], Some("http_raw_uri"), Some(b'I'), CLIENT),
    http(Buffer::Method, &["http.method"], Some("http_method"), Some(b'M'), CLIENT),
    http(Buffer::RequestLine, &["http.request_line", "http_request_line"], None, None, CLIENT),
    http(Buffer::Protocol, &["http.protocol", "http_protocol"], None, None, None),
    http(Buffer::Header, &["http.header"], Some("http_header"), Some(b'H'), None),
    http(Buffer::HeaderRaw, &["http.header.raw"], Some("http_raw_header"), Some(b'D'), None),
    http(Buffer::HeaderNames, &["http.header_names", "http_header_names"], None, None, None),
    http(Buffer::Cookie, &["http.cookie"], Some("http_cookie"), Some(b'C'), None),
    http(Buffer::Host, &["http.host"], Some("http_host"), Some(b'W'), CLIENT),
    http(Buffer::HostRaw, &["http.host.raw"], Some("http_raw_host"), Some(b'Z'), CLIENT),
    http(Buffer::UserAgent, &["http.user_agent"], Some("http_user_agent"), Some(b'V'), CLIENT),
    http(Buffer::Referer, &["http.referer", "http_referer"], None, None, CLIENT),
    http(Buffer::Accept, &["http.accept", "http_accept"], None, None, CLIENT),
    http(Buffer::AcceptEncoding, &["http.accept_enc", "http_accept_enc"], None, None, CLIENT),
    http(Buffer::AcceptLanguage, &["http.accept_lang", "http_accept_lang"], None, None, CLIENT),
    http(Buffer::Connection, &["http.connection", "http_connection"], None, None, None),
    http(Buffer::ContentLength, &["http.content_len", "http_content_len"], None, None, None),
    http(Buffer::ContentType, &["http.content_type", "http_content_type"], None, None, None),
    http(Buffer::Server, &["http.server"], None, None, SERVER),
    http(Buffer::Location, &["http.location"], None, None, SERVER),
    http(Buffer::ResponseLine, &["http.response_line", "http_response_line"], None, None, SERVER),
    http(Buffer::StatusCode, &["http.stat_code"], Some("http_stat_code"), Some(b'S'), SERVER),
    http(Buffer::StatusMessage, &["http.stat_msg"], Some("http_stat_msg"), Some(b'Y'), SERVER),
    http(Buffer::RequestBody, &["http.request_body"], Some("http_client_body"), Some(b'P'), CLIENT),
    http(
        Buffer::ResponseBody,
        &["file.data", "file_data", "http.response_body"],
        Some("http_server_body"),
        Some(b'Q'),
        SERVER,
    ),
    Field {
        buffer: Buffer::DnsQuery,
        sticky: &["dns.query", "dns_query"],
        modifier: None,
        flag: None,
        app: App::Dns,
        direction: CLIENT,
    },
    Field {
        buffer: Buffer::TlsSni,
        sticky: &["tls.sni", "tls_sni"],
        modifier: None,
        flag: None,
        app: App::Tls,
        direction: CLIENT,
    },
];

impl Buffer {
    /// What it belongs to.
    pub fn field(self) -> &'static Field {
        &FIELDS[self as usize]
    }

    /// By a name as a sticky buffer.
    pub fn sticky(name: &[u8]) -> Option<Buffer> {
        let field = FIELDS.iter().find(|field| field.sticky.iter().any(|known| known.as_bytes() == name))?;
        Some(field.buffer)
    }

    /// By a name as a modifier.
    pub fn modifier(name: &[u8]) -> Option<Buffer> {
        let is = |field: &&Field| field.modifier.is_some_and(|known| known.as_bytes() == name);
        Some(FIELDS.iter().find(is)?.buffer)
    }

    /// By a flag of an expression.
    pub fn of_flag(flag: u8) -> Option<Buffer> {
        Some(FIELDS.iter().find(|field| field.flag == Some(flag))?.buffer)
    }

    /// It is there when a message's head is, and not only at the message's end.
    pub fn is_body(self) -> bool {
        matches!(self, Buffer::RequestBody | Buffer::ResponseBody)
    }

    /// A message may have more than one.
    pub fn is_multiple(self) -> bool {
        self == Buffer::DnsQuery
    }
}

/// All names of buffers in rules.
pub fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().flat_map(|field| field.sticky.iter().copied().chain(field.modifier))
}
