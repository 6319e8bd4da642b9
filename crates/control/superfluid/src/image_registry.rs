//! `superfluid image push`, `pull` and `ls`: images in registries, and those that are kept here.

use crate::Outcome;
use crate::cli::{KeptOptions, RegistryOptions};
use crate::manual::print;
use crate::output::{Format, Listing};
use crate::output_file;
use crate::progress::Progress;
use deployment::{Catalog, cache_directory};
use registry::{
    Artifact, Client, Credentials, Images, ImagesError, Kept, Origin, Pulled, Pushed, Reference, Settings,
};
use serde_json::json;
use std::path::Path;
use std::time::SystemTime;

pub(crate) fn push(image: &str, reference: &Reference, options: &RegistryOptions) -> Outcome {
    let image = match Catalog::new(Path::new(".")).load(image) {
        Ok(image) => image,
        Err(reason) => return told(&format_args!("{image}: {reason}"), Outcome::BadInput),
    };
    let client = match client(options) {
        Ok(client) => client,
        Err(reason) => return told(&reason, Outcome::BadInput),
    };
    let progress = Progress::begin(&format!("pushing {reference}"), Format::Table);
    let pushed = client.push(reference, &Artifact::of(image));
    drop(progress);
    match pushed {
        Ok(Pushed { reference, image_bytes, was_there }) => {
            let found = if was_there { "there already" } else { "sent" };
            print(format!("{reference}\nsize      {image_bytes} bytes, {found}\n").as_bytes())
        }
        Err(error) => told(&error, Outcome::Failed),
    }
}

pub(crate) fn pull(
    reference: &Reference,
    output: Option<&Path>,
    options: &RegistryOptions,
    kept: &KeptOptions,
) -> Outcome {
    let client = match client(options) {
        Ok(client) => client,
        Err(reason) => return told(&reason, Outcome::BadInput),
    };
    let images = match open(kept) {
        Ok(images) => images,
        Err(error) => return told(&error, Outcome::Failed),
    };
    let progress = Progress::begin(&format!("pulling {reference}"), Format::Table);
    let pulled = images.pull(&client, reference);
    drop(progress);
    let Pulled { reference, image, origin, .. } = match pulled {
        Ok(pulled) => pulled,
        Err(error) => return told(&error, Outcome::Failed),
    };
    if let Some(output) = output
        && let Err(error) = output_file::write(output, image.wasm())
    {
        return told(&format_args!("{}: {error}", output.display()), Outcome::Failed);
    }
    let origin = match origin {
        Origin::Registry => "fetched",
        Origin::Folder => "there already",
    };
    print(format!("{reference}\nsize      {} bytes, {origin}\n", image.wasm().len()).as_bytes())
}

pub(crate) fn list(format: Format, kept: &KeptOptions) -> Outcome {
    let images = match open(kept).and_then(|images| images.list()) {
        Ok(images) => images,
        Err(error) => return told(&error, Outcome::Failed),
    };
    print(listing(&images, SystemTime::now()).printed(format).as_bytes())
}

fn listing(images: &[Kept], now: SystemTime) -> Listing {
    let mut listing =
        Listing::new(&["REFERENCE", "DIGEST", "BYTES", "STORED"], &["USED", "PINNED", "WHOLE DIGEST"]);
    for image in images {
        let digest = image.digest.to_string();
        let short = digest.trim_start_matches("sha256:").chars().take(12).collect();
        listing.add(
            vec![
                image.reference.clone(),
                short,
                image.bytes.to_string(),
                ago(now, image.stored),
                ago(now, image.used),
                if image.pinned { "yes" } else { "no" }.to_owned(),
                digest,
            ],
            json!({
                "reference": image.reference,
                "digest": image.digest.to_string(),
                "bytes": image.bytes,
                "stored": time(image.stored),
                "used": time(image.used),
                "pinned": image.pinned,
            }),
        );
    }
    listing
}

/// A time as RFC 3339 has it, in UTC.
fn time(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time.max(SystemTime::UNIX_EPOCH)).to_string()
}

/// How long it is since, in the largest unit that fits.
fn ago(now: SystemTime, then: SystemTime) -> String {
    let seconds = now.duration_since(then).map_or(0, |since| since.as_secs());
    let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
    match units.into_iter().find(|(size, _)| seconds >= *size) {
        Some((size, unit)) => format!("{}{unit} ago", seconds / size),
        None => format!("{seconds}s ago"),
    }
}

fn open(kept: &KeptOptions) -> Result<Images, ImagesError> {
    let default = || cache_directory("images");
    Images::open(&kept.images.clone().unwrap_or_else(default), kept.keep)
}

fn client(options: &RegistryOptions) -> Result<Client, String> {
    let credentials = match &options.auth_file {
        Some(file) => Credentials::from_file(file),
        None => Credentials::from_environment(),
    };
    let settings = Settings {
        insecure: options.insecure.clone(),
        ca_file: options.ca_file.clone(),
        total: options.timeout,
        credentials: credentials.map_err(|error| error.to_string())?,
        ..Settings::default()
    };
    Client::new(settings).map_err(|error| error.to_string())
}

fn told(reason: &dyn std::fmt::Display, outcome: Outcome) -> Outcome {
    console::error().line(&reason.to_string());
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use registry::Digest;
    use std::time::Duration;

    #[test]
    fn images_are_listed_in_every_format() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let image = Kept {
            reference: "r.example/echo:1".to_owned(),
            digest: Digest::of(b""),
            image: Digest::of(b"x"),
            bytes: 1234,
            stored: now - Duration::from_secs(7_300),
            used: now - Duration::from_secs(59),
            pinned: true,
        };
        let listing = listing(&[image], now);
        let whole = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(
            listing.shown(Format::Table),
            "REFERENCE         DIGEST        BYTES  STORED\nr.example/echo:1  e3b0c44298fc  1234   2h ago\n"
        );
        let wide = listing.shown(Format::Wide);
        assert!(wide.ends_with(&format!("2h ago  59s ago  yes     {whole}\n")), "{wide}");
        let read: serde_json::Value = serde_json::from_str(&listing.shown(Format::Json)).expect("JSON");
        assert_eq!(read[0]["stored"], "2001-09-08T23:45:00Z");
        assert_eq!((&read[0]["bytes"], &read[0]["pinned"]), (&json!(1234), &json!(true)));
        let yaml = listing.shown(Format::Yaml);
        assert!(yaml.starts_with("- reference: \"r.example/echo:1\"\n  digest: "), "{yaml}");
        assert!(yaml.contains("\n  bytes: 1234\n"), "{yaml}");
    }
}
