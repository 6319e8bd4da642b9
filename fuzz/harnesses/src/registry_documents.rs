//! Whatever a registry sends as a manifest, a configuration, or a way of asking for credentials, of functions
//! and of containers, and whatever an operator writes as a reference.

use container_image::{ACCEPT, DOCUMENT_MAX, LAYERS_MAX, Parts};
use registry::{Descriptor, Digest, Manifest, Reference, challenges, check_config};

pub fn run(bytes: &[u8]) {
    let error = match Manifest::parse(bytes) {
        Ok(manifest) => {
            // What is read can be shown to be what was meant: the digests are in the text.
            let text = String::from_utf8_lossy(bytes);
            assert!(text.contains("sha256") || text.contains("\\u"));
            let layer = Descriptor { digest: Digest::of(bytes), ..manifest.layer };
            check_config(bytes, &layer).err().map(|error| error.to_string())
        }
        Err(error) => Some(error.to_string()),
    };
    let layer = Descriptor { media_type: String::new(), digest: Digest::of(b""), size: 0 };
    let config = check_config(bytes, &layer).err().map(|error| error.to_string());
    for line in ACCEPT.split(", ").filter_map(|media_type| parts(media_type, bytes)) {
        assert!(!line.contains(|c: char| c.is_control()) && line.len() < 4096, "{line:?}");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for challenge in challenges(text) {
        assert!(!challenge.scheme.is_empty());
    }
    let reference = match text.parse::<Reference>() {
        Ok(reference) => {
            assert_eq!(reference.to_string().parse::<Reference>().as_ref(), Ok(&reference));
            assert!(reference.tag().is_some() || reference.digest().is_some());
            None
        }
        Err(error) => Some(error.to_string()),
    };
    for line in [error, config, reference].into_iter().flatten() {
        assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
        assert!(line.len() < 4096);
    }
}

/// Reads a document of a container's image; why it is none.
fn parts(media_type: &str, bytes: &[u8]) -> Option<String> {
    match container_image::parts(media_type, bytes) {
        Ok(Parts::Manifest(manifest)) => assert!(manifest.size <= DOCUMENT_MAX),
        Ok(Parts::Image(config, layers)) => {
            assert!(config.size <= DOCUMENT_MAX && (1..=LAYERS_MAX).contains(&layers.len()));
        }
        Err(error) => return Some(error.to_string()),
    }
    None
}
