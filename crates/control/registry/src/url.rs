//! Addresses that a client goes to: those that it makes of a reference, and those that registries send it to.

use crate::{Fault, Settings, harmless};
use http_client::http::Uri;

/// Scheme, host and port of a request: nothing that is meant for one origin is sent to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    plain: bool,
    /// In lower case, with the port.
    authority: String,
}

/// An address that may be gone to.
#[derive(Clone, Debug)]
pub(crate) struct Url {
    text: String,
    origin: Origin,
    /// As messages name it.
    host: String,
}

impl Url {
    /// An address below a registry.
    pub(crate) fn of_registry(settings: &Settings, host: &str, path: &str) -> Result<Url, Fault> {
        // Docker Hub's references bear another name than the host of its registry.
        let host = if host == "docker.io" { "registry-1.docker.io" } else { host };
        let scheme = if settings.is_plain(host) { "http" } else { "https" };
        Url::absolute(settings, host, &format!("{scheme}://{host}{path}"))
    }

    /// The address that `Location` or a realm names, if one may go there.
    ///
    /// # Errors
    /// [`Fault::Location`].
    pub(crate) fn join(&self, settings: &Settings, location: &str) -> Result<Url, Fault> {
        if location.starts_with('/') && !location.starts_with("//") {
            let base = self.text.find("://").map_or(0, |at| at + 3);
            let end = self.text[base..].find('/').map_or(self.text.len(), |at| base + at);
            return Url::absolute(settings, &self.host, &format!("{}{location}", &self.text[..end]));
        }
        Url::absolute(settings, &self.host, location)
    }

    fn absolute(settings: &Settings, asked: &str, text: &str) -> Result<Url, Fault> {
        let wrong = || Fault::Location { host: asked.to_owned(), found: harmless(text, 120) };
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong());
        };
        let host = authority.as_str();
        // A name and a password in an address are a mistake or an attack.
        if host.contains('@') || authority.host().is_empty() {
            return Err(wrong());
        }
        let plain = match scheme {
            "https" => false,
            "http" if settings.is_plain(host) => true,
            _ => return Err(wrong()),
        };
        let port = authority.port_u16().unwrap_or(if plain { 80 } else { 443 });
        let origin = Origin { plain, authority: format!("{}:{port}", authority.host().to_ascii_lowercase()) };
        Ok(Url { origin, host: host.to_owned(), text: text.split('#').next().unwrap_or_default().to_owned() })
    }

    /// With one more parameter.
    pub(crate) fn with_parameter(mut self, name: &str, value: &str) -> Url {
        self.text.push(if self.text.contains('?') { '&' } else { '?' });
        self.text.push_str(name);
        self.text.push('=');
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    self.text.push(char::from(byte))
                }
                _ => self.text.push_str(&format!("%{byte:02X}")),
            }
        }
        self
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_only_where_one_may() {
        let settings = Settings { insecure: vec!["127.0.0.1:5000".to_owned()], ..Settings::default() };
        let base = Url::of_registry(&settings, "r.example", "/v2/a/blobs/uploads/").expect("an address");
        assert_eq!(base.as_str(), "https://r.example/v2/a/blobs/uploads/");
        let to = |location: &str| base.join(&settings, location);
        let there = to("/v2/x?y=1").expect("a path");
        assert_eq!((there.as_str(), there.origin() == base.origin()), ("https://r.example/v2/x?y=1", true));
        let there = to("https://R.example:443/x#y").expect("the same, written otherwise");
        assert_eq!((there.as_str(), there.origin() == base.origin()), ("https://R.example:443/x", true));
        assert_ne!(to("https://r.example:444/x").expect("another port").origin(), base.origin());
        let plain = to("http://127.0.0.1:5000/x").expect("it is listed");
        assert_ne!(plain.origin(), base.origin());
        for wrong in [
            "http://r.example/x",
            "http://127.0.0.1:5001/",
            "http://127.0.0.1/",
            "ftp://r.example/",
            "//r.example/x",
            "x/y",
            "",
            "https://me:secret@r.example/",
            "https:///x",
            "file:///etc/passwd",
            "https://r.example/\u{1b}",
            "https://r.example /x",
        ] {
            assert!(matches!(to(wrong), Err(Fault::Location { .. })), "{wrong}");
        }
    }

    #[test]
    fn parameters_are_escaped() {
        let settings = Settings::default();
        let url = Url::of_registry(&settings, "docker.io", "/t?a=b").expect("an address");
        let url = url.with_parameter("scope", "repository:a/b:pull,push").with_parameter("s", "\u{e4} &");
        let wanted =
            "https://registry-1.docker.io/t?a=b&scope=repository%3Aa%2Fb%3Apull%2Cpush&s=%C3%A4%20%26";
        assert_eq!(url.as_str(), wanted);
    }
}
