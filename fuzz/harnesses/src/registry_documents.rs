//! Whatever a registry sends as a manifest, a configuration, or a way of asking for credentials, and whatever
//! an operator writes as a reference.

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
