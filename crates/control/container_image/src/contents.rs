//! What belongs to an image, read from its documents by whoever fetches them one by one.

use crate::documents::{Descriptor, INDEX, Index, LAYER, LAYER_GZIP, MANIFEST, Manifest};
use crate::{ARCHITECTURE, DOCUMENT_MAX, Digest, ImageError, LAYERS_MAX, parsed};

/// Media types of what an image's reference may name, as `Accept` of HTTP has them.
pub const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                          application/vnd.docker.distribution.manifest.list.v2+json, \
                          application/vnd.docker.distribution.manifest.v2+json";

/// One part of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub media_type: String,
    /// Its name.
    pub digest: Digest,
    /// Its bytes, as its name's document says.
    pub size: u64,
}

/// What a document names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// An index: the one manifest for this machine.
    Manifest(Part),
    /// A manifest: the configuration, and the layers in their order.
    Image(Part, Vec<Part>),
}

/// What a document of this media type names. Layers are of kinds that [`Layout`](crate::Layout) unpacks.
///
/// # Errors
/// [`ImageError`]: what is wrong with it.
pub fn parts(media: &str, document: &[u8]) -> Result<Parts, ImageError> {
    if INDEX.contains(&media) {
        let index: Index = parsed("the index", document)?;
        let manifest = one_of(for_this_machine(index.manifests))?;
        return match MANIFEST.contains(&manifest.media_type.as_str()) {
            true => Ok(Parts::Manifest(part(manifest, DOCUMENT_MAX)?)),
            false => Err(media_type("what the index names", &manifest.media_type, MANIFEST[0])),
        };
    }
    if !MANIFEST.contains(&media) {
        return Err(media_type("the manifest", media, MANIFEST[0]));
    }
    let manifest: Manifest = parsed("the manifest", document)?;
    let layers = manifest.layers.len();
    if !(1..=LAYERS_MAX).contains(&layers) {
        return Err(ImageError::Layers { layers, ids: layers, allowed: LAYERS_MAX });
    }
    let layers = manifest.layers.into_iter().enumerate().map(|(index, layer)| {
        let kind = layer.media_type.as_str();
        if kind != LAYER && !LAYER_GZIP.contains(&kind) {
            return Err(media_type(&format!("layer {}", index + 1), kind, "tar and tar+gzip layers"));
        }
        part(layer, u64::MAX)
    });
    Ok(Parts::Image(part(manifest.config, DOCUMENT_MAX)?, layers.collect::<Result<_, _>>()?))
}

/// The text of `index.json` in a layout of one image, whose manifest or index this is.
pub fn index_of(first: &Part) -> String {
    serde_json::json!({
        "schemaVersion": 2,
        "manifests": [{"mediaType": first.media_type, "digest": first.digest.to_string(), "size": first.size}],
    })
    .to_string()
}

fn part(named: Descriptor, most: u64) -> Result<Part, ImageError> {
    let Descriptor { media_type, digest, size, .. } = named;
    if size > most {
        return Err(ImageError::TooLong { file: digest.to_string(), found: size, allowed: most });
    }
    Ok(Part { media_type, digest, size })
}

/// Those of an index that are for this machine; without a platform they are for any.
pub(crate) fn for_this_machine(manifests: Vec<Descriptor>) -> Vec<Descriptor> {
    let fits = |one: &Descriptor| {
        one.platform
            .as_ref()
            .is_none_or(|it| (it.os.as_str(), it.architecture.as_str()) == ("linux", ARCHITECTURE))
    };
    manifests.into_iter().filter(fits).collect()
}

/// The only one.
pub(crate) fn one_of(mut found: Vec<Descriptor>) -> Result<Descriptor, ImageError> {
    match found.pop() {
        Some(one) if found.is_empty() => Ok(one),
        one => {
            let found = found.len() + usize::from(one.is_some());
            Err(ImageError::Manifests { found, architecture: ARCHITECTURE })
        }
    }
}

pub(crate) fn media_type(what: &str, found: &str, allowed: &'static str) -> ImageError {
    ImageError::MediaType { what: what.to_owned(), found: printable::harmless(found, 80), allowed }
}
