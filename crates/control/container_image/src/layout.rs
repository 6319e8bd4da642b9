//! The layout: a folder with an index, and content by digest.

use crate::contents::{for_this_machine, media_type, one_of};
use crate::digest::Summed;
use crate::documents::{Descriptor, Document, INDEX, Index, LAYER, LAYER_GZIP, MANIFEST, Manifest};
use crate::layer::{Applied, apply};
use crate::parsed;
use crate::tree::Tree;
use crate::{ARCHITECTURE, Bounds, Config, DOCUMENT_MAX, Digest, ImageError, LAYERS_MAX, LayerError, Owners};
use flate2::read::MultiGzDecoder;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};

/// A layout whose documents have been checked.
#[derive(Debug)]
pub struct Layout {
    folder: OwnedFd,
    digest: Digest,
    layers: Vec<Descriptor>,
    diff_ids: Vec<Digest>,
    config: Config,
}

impl Layout {
    /// Reads the documents of the layout in `folder`, an open folder; `pinned` is the digest that its
    /// manifest, or the index of platforms that names it, must have, if one was asked for.
    ///
    /// # Errors
    /// [`ImageError`]: what is wrong, and where.
    pub fn open(folder: OwnedFd, pinned: Option<&Digest>) -> Result<Layout, ImageError> {
        let index: Index = parsed("index.json", &document(&folder, "index.json", None)?)?;
        let first = one_of(for_this_machine(index.manifests))?;
        // An index may name another one, of the platforms of one image. It is not followed further.
        let manifest = if INDEX.contains(&first.media_type.as_str()) {
            let index: Index = named(&folder, &first)?;
            one_of(for_this_machine(index.manifests))?
        } else {
            first.clone()
        };
        if !MANIFEST.contains(&manifest.media_type.as_str()) {
            return Err(media_type("the manifest", &manifest.media_type, MANIFEST[0]));
        }
        // Who pins a tag pins what it names, which may be the index of an image's platforms.
        if let Some(pinned) = pinned.filter(|pinned| **pinned != manifest.digest && **pinned != first.digest)
        {
            return Err(ImageError::Pinned { found: manifest.digest, pinned: pinned.clone() });
        }
        let digest = manifest.digest.clone();
        let manifest: Manifest = named(&folder, &manifest)?;
        let document: Document = named(&folder, &manifest.config)?;
        if (document.os.as_str(), document.architecture.as_str()) != ("linux", ARCHITECTURE) {
            let found = format!("{}/{}", document.os, document.architecture);
            let found = printable::harmless(&found, 80);
            return Err(ImageError::Platform { found, architecture: ARCHITECTURE });
        }
        let (layers, ids) = (manifest.layers.len(), document.rootfs.diff_ids.len());
        if layers != ids || !(1..=LAYERS_MAX).contains(&layers) {
            return Err(ImageError::Layers { layers, ids, allowed: LAYERS_MAX });
        }
        for (index, layer) in manifest.layers.iter().enumerate() {
            is_compressed(index + 1, layer)?;
        }
        Ok(Layout {
            folder,
            digest,
            layers: manifest.layers,
            diff_ids: document.rootfs.diff_ids,
            config: document.config,
        })
    }

    /// The digest of its manifest, which names all of it.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// What it runs.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Applies the layers to the empty folder `to`. What was unpacked before an error is left there.
    ///
    /// # Errors
    /// [`ImageError`]: what is wrong, and where.
    pub fn unpack(&self, to: OwnedFd, owners: Owners, bounds: Bounds) -> Result<(), ImageError> {
        let tree = Tree::new(to, owners).map_err(ImageError::To)?;
        let mut applied = Applied::new();
        // Headers and padding are beside the files' bytes: 1 KiB for each entry, a name or two.
        let mut most = bounds.bytes.saturating_add(bounds.entries.saturating_mul(16 << 10));
        for (index, (layer, diff_id)) in self.layers.iter().zip(&self.diff_ids).enumerate() {
            let number = index + 1;
            let name = blob(&layer.digest);
            let compressed = is_compressed(number, layer)?;
            let wrong = |error| ImageError::Layer { number, digest: layer.digest.clone(), error };
            let read = |error| wrong(LayerError::Read(error));
            let mut stored = Summed::new(BufReader::new(regular(&self.folder, &name)?), layer.size);
            let raw: &mut dyn Read = &mut stored;
            let plain: Box<dyn Read + '_> =
                if compressed { Box::new(MultiGzDecoder::new(raw)) } else { Box::new(raw) };
            let mut plain = Summed::new(plain, most);
            apply(&mut plain, &tree, bounds, &mut applied).map_err(wrong)?;
            plain.exhaust().map_err(read)?;
            let (found, length) = plain.into_sum();
            most = most.saturating_sub(length);
            if found != *diff_id {
                return Err(wrong(LayerError::DiffId { found, expected: diff_id.clone() }));
            }
            stored.exhaust().map_err(read)?;
            is_as_named(&name, stored.into_sum(), layer)?;
        }
        Ok(())
    }
}

/// Whether a layer is compressed, of the kinds that are read.
fn is_compressed(number: usize, layer: &Descriptor) -> Result<bool, ImageError> {
    match layer.media_type.as_str() {
        LAYER => Ok(false),
        found if LAYER_GZIP.contains(&found) => Ok(true),
        found => Err(media_type(&format!("layer {number}"), found, "tar and tar+gzip layers")),
    }
}

fn blob(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Opens a file of the layout without following links: what it is called is what it is.
fn regular(folder: &impl AsFd, name: &str) -> Result<File, ImageError> {
    let file = |source: std::io::Error| ImageError::File { file: name.to_owned(), source };
    // A pipe must not be waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::openat2(
        folder,
        name,
        flags,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    );
    let opened = File::from(opened.map_err(|error| file(error.into()))?);
    if !opened.metadata().map_err(file)?.is_file() {
        return Err(ImageError::NotRegular { file: name.to_owned() });
    }
    Ok(opened)
}

/// Reads a document, of at most the size that is named.
fn document(folder: &impl AsFd, name: &str, size: Option<u64>) -> Result<Vec<u8>, ImageError> {
    let opened = regular(folder, name)?;
    let file = |source| ImageError::File { file: name.to_owned(), source };
    let found = size.map_or_else(|| opened.metadata().map(|it| it.len()), Ok).map_err(file)?;
    if found > DOCUMENT_MAX {
        return Err(ImageError::TooLong { file: name.to_owned(), found, allowed: DOCUMENT_MAX });
    }
    let mut bytes = Vec::new();
    opened.take(DOCUMENT_MAX + 1).read_to_end(&mut bytes).map_err(file)?;
    Ok(bytes)
}

/// Reads a document by its digest.
fn named<T: DeserializeOwned>(folder: &impl AsFd, content: &Descriptor) -> Result<T, ImageError> {
    let name = blob(&content.digest);
    let bytes = document(folder, &name, Some(content.size))?;
    let mut sum = Summed::new(bytes.as_slice(), u64::MAX);
    sum.exhaust().map_err(|source| ImageError::File { file: name.clone(), source })?;
    is_as_named(&name, sum.into_sum(), content)?;
    parsed(&name, &bytes)
}

fn is_as_named(name: &str, (found, size): (Digest, u64), content: &Descriptor) -> Result<(), ImageError> {
    if found == content.digest && size == content.size {
        return Ok(());
    }
    Err(ImageError::Content {
        file: name.to_owned(),
        found,
        size,
        digest: content.digest.clone(),
        expected: content.size,
    })
}
