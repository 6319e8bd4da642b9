//! The function's manifest, and its configuration as the platform would check and hand it over.

use crate::StartError;
use manifest::Manifest;
use schema::Files;
use std::io::Read;
use std::path::{Path, PathBuf};
use yaml_document::{Document, Fault, Location};

/// Longest configuration.
const MOST: u64 = 16 << 20;

/// What the function says of itself.
pub(crate) fn manifest(text: &str) -> Result<Manifest, StartError> {
    Manifest::parse("function.yaml", text).map_err(|faults| told(&faults))
}

/// The configuration in CBOR: of a file, or the text that the port has for the process.
pub(crate) fn read(manifest: &Manifest, file: Option<&str>, of_port: &[u8]) -> Result<Vec<u8>, StartError> {
    let Some(path) = file else {
        let text = String::from_utf8_lossy(of_port);
        return check(manifest, "the port's config", &text, Path::new("."));
    };
    let bytes = bytes_of(Path::new(path), MOST)
        .map_err(|source| StartError::File { path: path.to_owned(), source })?;
    if path.ends_with(".cbor") {
        return Ok(bytes);
    }
    let folder = Path::new(path).parent().unwrap_or(Path::new("."));
    check(manifest, path, &String::from_utf8_lossy(&bytes), folder)
}

fn check(manifest: &Manifest, name: &str, text: &str, folder: &Path) -> Result<Vec<u8>, StartError> {
    let document = Document::parse(name, text).map_err(|fault| told(&[fault]))?;
    let root = document.root();
    let (place, mut faults) = (Location::new(name, "", root.position), Vec::new());
    let value = manifest.schema.check_with(&place, Some(root), &[], &Beside(folder.into()), &mut faults);
    value.filter(|_| faults.is_empty()).map(|value| value.to_cbor()).ok_or_else(|| told(&faults))
}

/// Files that a configuration names lie beside it.
struct Beside(PathBuf);

impl Files for Beside {
    fn read(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        bytes_of(&self.0.join(path), most).map_err(|error| error.to_string())
    }
}

fn bytes_of(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    local_file::open_given(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(std::io::Error::other(format!("longer than {most} bytes")));
    }
    Ok(bytes)
}

fn told(faults: &[Fault]) -> StartError {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    StartError::Faults(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "name: a\nversion: 1.0.0\nabi: 1\nsummary: S.\nlanguage: rust\naccess: read\n\
                            interfaces: [left]\nmemory_limit: 64KiB\nconfig:\n  most: {type: integer, min: 1, max: 9, default: 4}\n  \
                            list: {type: file, max: 1KiB, required: false}\n";

    #[test]
    fn a_configuration_is_checked_and_has_its_defaults_wherever_it_comes_from() {
        let manifest = manifest(MANIFEST).expect("a manifest");
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
            folder.path().join(name).display().to_string()
        };
        let default = read(&manifest, None, b"").expect("good");
        assert_eq!(default, [&[0xa1, 0x64][..], b"most", &[4]].concat());
        let of_port = read(&manifest, None, b"most: 7").expect("good");
        assert_eq!(read(&manifest, Some(&file("c.yaml", "{most: 7}")), b"most: 1").expect("good"), of_port);
        assert_eq!(read(&manifest, Some(&file("c.cbor", "\u{1}")), b"").expect("as it is"), [1]);
        file("names", "ab");
        let named = read(&manifest, Some(&file("d.yaml", "list: names")), b"").expect("good");
        assert!(named.windows(2).any(|two| two == b"ab"), "{named:?}");
        let refused = |config: Result<Vec<u8>, StartError>| config.expect_err("refused").to_string();
        let told = refused(read(&manifest, None, b"most: 10"));
        assert!(told.starts_with("the port's config:1:7: most: found `10`; allowed: "), "{told}");
        let told = refused(read(&manifest, Some("/nowhere.yaml"), b""));
        assert!(told.starts_with("/nowhere.yaml: "), "{told}");
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
        assert!(made.success());
        for config in [file("e.yaml", "list: fifo"), fifo.display().to_string()] {
            let told = refused(read(&manifest, Some(&config), b""));
            assert!(told.contains("found a FIFO; allowed: a regular file"), "{told}");
        }
    }
}
