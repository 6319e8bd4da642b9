//! What another web page, or a name that was made to lead here, has a browser send is refused.
//!
//! 1. `Host` must be a name of this host: a loopback address or `localhost`, or off loopback a name that the
//!    certificate is for. A page whose name leads here (DNS rebinding) has another one.
//! 2. `Origin`, which browsers add to what another page has them send, must be this page's, and has to be
//!    there for whatever may change something. So must `Sec-Fetch-Site`, where the browser knows that header.
//! 3. What is loaded into a frame is refused, beside the headers by which the browser does not show it
//!    (clickjacking).

use super::only_reads;
use crate::error::BindError;
use crate::host_names::is_local;
use crate::tls;
use api::Fault;
use hyper::Method;
use hyper::Uri;
use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::uri::Authority;
use rustls::pki_types::{CertificateDer, ServerName};
use std::path::Path;

/// Why a request on the page's address was refused, as it is counted.
pub(crate) const REFUSALS: [&str; 3] = ["cross-site", "no-session", "bad-link"];
pub(super) const CROSS_SITE: usize = 0;
pub(super) const NO_SESSION: usize = 1;
pub(super) const BAD_LINK: usize = 2;

/// The names under which the page is there.
pub(super) struct Guard {
    /// `None`: those of the loopback interface.
    certificate: Option<CertificateDer<'static>>,
}

impl Guard {
    pub(super) fn loopback() -> Guard {
        Guard { certificate: None }
    }

    /// The names of a certificate, and the one that is shown in links, if there is one.
    ///
    /// # Errors
    /// The file has no certificate for a server.
    pub(super) fn certified(path: &Path) -> Result<(Guard, Option<String>), BindError> {
        let wrong = |what: String| BindError::Tls { path: path.to_owned(), what };
        let certificate = tls::certificates(path)?.into_iter().next();
        let certificate = certificate.ok_or_else(|| wrong("found no certificate".to_owned()))?;
        let parsed = webpki::EndEntityCert::try_from(&certificate)
            .map_err(|error| wrong(format!("not a server's certificate: {error}")))?;
        let name = parsed.valid_dns_names().find(|name| !name.starts_with('*')).map(str::to_owned);
        Ok((Guard { certificate: Some(certificate) }, name))
    }

    /// Refuses what this page's own scripts, or a user who opens it, would not send. `shown` is what may be
    /// opened by a link.
    ///
    /// # Errors
    /// Which header is wrong.
    pub(super) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        shown: bool,
    ) -> Result<(), Fault> {
        let host = only(headers, &HOST).ok().flatten();
        let host = host.filter(|host| self.is_ours(host)).ok_or_else(|| {
            let allowed = match self.certificate {
                None => "`localhost` or a loopback address",
                Some(_) => "a name that the daemon's certificate is for",
            };
            Fault::of_request("Host", format!("is not this host's; allowed: {allowed}, once"))
        })?;
        if !uri.authority().is_none_or(|named| self.is_ours(named.as_str())) {
            return Err(Fault::of_request("Host", "the request's target is not this host"));
        }
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        let origin = only(headers, &ORIGIN).map_err(|()| Fault::of_request("Origin", "found twice"))?;
        let is_own = |origin: &str| {
            let named = origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
            named.is_some_and(|named| named.eq_ignore_ascii_case(host))
        };
        match origin {
            Some(origin) if !is_own(origin) => {
                return Err(Fault::of_request("Origin", "is another page's; allowed: this page's"));
            }
            None if !only_reads(method) => {
                let message = "is missing; what changes something is taken from this page alone";
                return Err(Fault::of_request("Origin", message));
            }
            _ => {}
        }
        let site = only(headers, &HeaderName::from_static("sec-fetch-site"))
            .map_err(|()| Fault::of_request("Sec-Fetch-Site", "found twice"))?;
        if !shown && site.is_some_and(|site| site != "same-origin") {
            return Err(Fault::of_request("Sec-Fetch-Site", "is another page's; allowed: `same-origin`"));
        }
        let destination = only(headers, &HeaderName::from_static("sec-fetch-dest"));
        if let Ok(Some("iframe" | "frame" | "embed" | "object" | "fencedframe")) = destination {
            return Err(Fault::of_request("Sec-Fetch-Dest", "the page is not shown in a frame"));
        }
        Ok(())
    }

    fn is_ours(&self, host: &str) -> bool {
        let Some(certificate) = &self.certificate else { return is_local(host) };
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        let (Ok(name), Ok(parsed)) =
            (ServerName::try_from(name), webpki::EndEntityCert::try_from(certificate))
        else {
            return false;
        };
        parsed.verify_is_valid_for_subject_name(&name).is_ok()
    }
}

/// A header's value, if it is there once; refused where it is there twice or is no text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).into_iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    /// Where the fault is, if there is one.
    fn checked(
        guard: &Guard,
        method: &Method,
        headers: &[(&'static str, &'static str)],
        shown: bool,
    ) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let told = guard.check(method, &Uri::from_static("/v1/health"), &map, shown);
        told.map_or_else(|fault| fault.at, |()| String::new())
    }

    #[test]
    fn only_this_hosts_names_are_taken() {
        let (guard, get) = (Guard::loopback(), Method::GET);
        for good in ["localhost", "LocalHost:8800", "127.0.0.1:8800", "[::1]:8800", "[::1]", "127.9.9.9"] {
            assert_eq!(checked(&guard, &get, &[("host", good)], false), "", "{good}");
        }
        for wrong in
            ["evil.example", "127.0.0.1.evil.example:8800", "10.0.0.1", "", "localhost.evil", "[::2]:1"]
        {
            assert_eq!(checked(&guard, &get, &[("host", wrong)], false), "Host", "{wrong}");
        }
        assert_eq!(checked(&guard, &get, &[], false), "Host");
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(checked(&guard, &get, &twice, false), "Host");
    }

    #[test]
    fn what_other_pages_send_is_refused() {
        let (guard, host) = (Guard::loopback(), ("host", "localhost:8800"));
        let own = ("origin", "http://localhost:8800");
        let ask = |method: &Method, headers: &[(&'static str, &'static str)], shown| {
            checked(&guard, method, &[&[host][..], headers].concat(), shown)
        };
        assert_eq!(ask(&Method::POST, &[own, ("sec-fetch-site", "same-origin")], false), "");
        assert_eq!(ask(&Method::GET, &[("sec-fetch-site", "same-origin")], false), "");
        for wrong in [
            "http://evil.example",
            "http://localhost:8801",
            "http://localhost",
            "https://localhost:8800",
            "null",
        ] {
            assert_eq!(ask(&Method::POST, &[("origin", wrong)], false), "Origin", "{wrong}");
            assert_eq!(ask(&Method::GET, &[("origin", wrong)], false), "Origin", "{wrong}");
        }
        assert_eq!(ask(&Method::POST, &[], false), "Origin", "a form of an old browser");
        assert_eq!(ask(&Method::DELETE, &[own, own], false), "Origin");
        for site in ["cross-site", "same-site", "none"] {
            assert_eq!(ask(&Method::GET, &[("sec-fetch-site", site)], false), "Sec-Fetch-Site", "{site}");
            assert_eq!(ask(&Method::GET, &[("sec-fetch-site", site)], true), "", "a link leads to the page");
        }
        for frame in ["iframe", "frame", "embed", "object", "fencedframe"] {
            assert_eq!(ask(&Method::GET, &[("sec-fetch-dest", frame)], true), "Sec-Fetch-Dest", "{frame}");
        }
    }
}
