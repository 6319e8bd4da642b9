//! What an `image` names: an image of this program, a file, or an artifact in a registry.

use registry::{Digest, Reference};

/// Between a path and the digest that it is pinned to.
const PIN: &str = "@sha256:";

/// What the text of an `image` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named<'t> {
    /// An image of this program, by its name.
    Stock(&'t str),
    /// A file.
    File {
        /// Where it is.
        path: &'t str,
        /// The digest of its content, where it is pinned to one: it then means what was in the file when it
        /// was applied.
        digest: Option<Digest>,
    },
    /// An artifact in a registry; pinned to a digest it means the same for ever.
    Artifact(Reference),
}

impl<'t> Named<'t> {
    /// Reads the text. What begins with `/`, `./` or `../` is a file; what begins with a host (a dot, a port
    /// or `localhost` before the first `/`) is an artifact; what has neither `/` nor `.` is an image of this
    /// program; the rest are files.
    ///
    /// # Errors
    /// What is wrong with a reference to a registry.
    pub fn read(text: &'t str) -> Result<Named<'t>, String> {
        if !text.contains(['/', '.']) {
            return Ok(Named::Stock(text));
        }
        let is_path = ["/", "./", "../"].iter().any(|begin| text.starts_with(begin));
        let host = text.split_once('/').map(|(host, _)| host);
        if !is_path && host.is_some_and(|host| host.contains(['.', ':', '[']) || host == "localhost") {
            return text
                .parse()
                .map(Named::Artifact)
                .map_err(|error: registry::ReferenceError| error.to_string());
        }
        let pinned = text.rfind(PIN).map(|at| (&text[..at], text[at + 1..].parse::<Digest>()));
        Ok(match pinned {
            Some((path, Ok(digest))) => Named::File { path, digest: Some(digest) },
            _ => Named::File { path: text, digest: None },
        })
    }

    /// The same of a container's `image`, where all but an artifact is the folder of a layout.
    ///
    /// # Errors
    /// What is wrong with a reference to a registry.
    pub fn of_container(text: &'t str) -> Result<Named<'t>, String> {
        match Named::read(text)? {
            artifact @ Named::Artifact(_) => Ok(artifact),
            _ => Ok(Named::File { path: text, digest: None }),
        }
    }

    /// Whether it may come to mean something else: a file, or an artifact by its tag alone.
    pub fn moves(&self) -> bool {
        match self {
            Named::Stock(_) => false,
            Named::File { digest, .. } => digest.is_none(),
            Named::Artifact(reference) => reference.digest().is_none(),
        }
    }

    /// The digest that it is pinned to.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Named::Stock(_) => None,
            Named::File { digest, .. } => *digest,
            Named::Artifact(reference) => reference.digest(),
        }
    }
}

/// A file, pinned to what is in it.
pub fn pinned_file(path: &str, digest: Digest) -> String {
    format!("{path}@{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_told_by_how_it_is_written() {
        let digest = Digest::of(b"x");
        let file = |path| Named::File { path, digest: None };
        for (text, named) in [
            ("firewall", Named::Stock("firewall")),
            ("fw.wasm", file("fw.wasm")),
            ("./fw.wasm", file("./fw.wasm")),
            ("../r.example/fw:1", file("../r.example/fw:1")),
            ("/srv/r.example/fw:1", file("/srv/r.example/fw:1")),
            ("images/fw.wasm", file("images/fw.wasm")),
            ("./fw.wasm@sha256:12", file("./fw.wasm@sha256:12")),
        ] {
            assert_eq!(Named::read(text), Ok(named), "{text}");
        }
        for text in ["r.example/fw", "localhost/fw:1", "localhost:5000/nf/fw:1.2", "[::1]:5000/fw"] {
            let named = Named::read(text).expect("a reference");
            assert!(matches!(named, Named::Artifact(_)) && named.moves(), "{text}");
            let pinned = format!("{text}@{digest}");
            let named = Named::read(&pinned).expect("a reference");
            assert!(matches!(named, Named::Artifact(_)) && !named.moves(), "{text}");
            assert_eq!(named.digest(), Some(digest));
        }
        for text in ["suricata", "./suricata", "/srv/r.example/ids:1"] {
            assert_eq!(Named::of_container(text), Ok(file(text)));
        }
        let named = Named::of_container("r.example/ids:7").expect("a reference");
        assert!(matches!(named, Named::Artifact(_)));
        let pinned = pinned_file("/srv/fw@2.wasm", digest);
        assert_eq!(Named::read(&pinned), Ok(Named::File { path: "/srv/fw@2.wasm", digest: Some(digest) }));
        assert!(Named::read("r.example/FW").expect_err("no repository").contains("no repository"));
        assert!(Named::read("r.example/fw@sha256:12").expect_err("no digest").contains("no digest"));
    }
}
