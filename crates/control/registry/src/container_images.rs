//! Images of containers that a host has of registries, each an OCI image layout of its own.
//!
//! ```text
//! TENANT/DIGITS/         a layout: oci-layout, index.json, blobs/sha256; called after the digest that the tag meant
//! .unfinished/           layouts that are being fetched
//! ```
//!
//! A tenant has what it has pulled, or an administrator for it, and nothing of others: layers that two have
//! are there twice. A layout is whole, checked but for what only unpacking shows, and on the disk before it
//! gets its name.

use crate::client::{ask_manifest, document, told};
use crate::exchange::{Ask, Exchange};
use crate::{Client, Digest, Fault, ImagesError, PullError, Reference, Step};
use container_image::{ACCEPT, DOCUMENT_MAX, ImageError, Layout, Part, Parts, index_of, parts};
use http_client::http::Method;
use local_file::Place;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// No tenant has such a name.
const UNFINISHED: &str = ".unfinished";
const BLOBS: &str = "blobs/sha256";
const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
/// Most layouts of a tenant's that are kept though nothing needs them.
const SPARE: usize = 64;
/// Bytes that are read at a time.
const CHUNK: usize = 128 << 10;

/// A folder of containers' images.
#[derive(Debug)]
pub struct ContainerImages {
    path: PathBuf,
    place: Place,
    /// Most bytes of one tenant's.
    limit: u64,
    next: AtomicU64,
    /// Held while layouts come and go.
    moving: Mutex<()>,
}

impl ContainerImages {
    /// Opens a folder, which is made if it is not there; what was not finished goes. A tenant's images may
    /// have `limit` bytes together.
    ///
    /// # Errors
    /// [`ImagesError::File`].
    pub fn open(path: &Path, limit: u64) -> Result<ContainerImages, ImagesError> {
        let unfinished = path.join(UNFINISHED);
        absent(fs::remove_dir_all(&unfinished)).map_err(ImagesError::file(&unfinished))?;
        make(&unfinished)?;
        Ok(ContainerImages {
            path: path.to_owned(),
            place: Place::of(path).map_err(ImagesError::file(path))?,
            limit,
            next: AtomicU64::new(0),
            moving: Mutex::default(),
        })
    }

    /// That the folder is not there any more, or another one is: containers run on, and do not start again
    /// until their images are pulled.
    pub fn removed(&self) -> Option<String> {
        self.place.removed()
    }

    /// Where the image of this digest is, if the tenant has it.
    pub fn layout(&self, tenant: &str, digest: Digest) -> PathBuf {
        self.path.join(tenant).join(digest.hex())
    }

    /// Whether a tenant has an image.
    pub fn has(&self, tenant: &str, digest: Digest) -> bool {
        self.layout(tenant, digest).is_dir()
    }

    /// Removes what tenants have that are none of these.
    ///
    /// # Errors
    /// [`ImagesError::File`].
    pub fn retain(&self, tenants: &BTreeSet<&str>) -> Result<(), ImagesError> {
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, name) in list(&self.path)? {
            if name != UNFINISHED && !tenants.contains(name.as_str()) {
                absent(fs::remove_dir_all(&path)).map_err(ImagesError::file(&path))?;
            }
        }
        Ok(())
    }

    /// Sees to it that a tenant has the image that a reference means; the reference, pinned to it. Whether it
    /// may be had the registry is asked in any case. Others of the tenant leave if there is no room, the
    /// longest there first, but for those that are `needed`: it is told what the reference means, and says
    /// which are, that one included from then on.
    ///
    /// # Errors
    /// [`PullError`]; nothing is changed then but what had to leave.
    pub fn pull(
        &self,
        client: &Client,
        tenant: &str,
        reference: &Reference,
        needed: impl Fn(&Reference) -> BTreeSet<Digest>,
    ) -> Result<Reference, PullError> {
        let wrong = |fault: (Step, Fault)| PullError::Registry(told(reference)(fault));
        let mut exchange = client.exchange(reference, false);
        let unreadable = |fault| wrong((Step::Manifest, fault));
        let (first, text) = first(&mut exchange, reference).map_err(unreadable)?;
        let digest = Digest::of(&text);
        let pinned = reference.pinned(digest);
        let stay = needed(&pinned);
        if self.has(tenant, digest) {
            return Ok(pinned);
        }
        let named = |document: &[u8], part: &Part| {
            parts(&part.media_type, document).map_err(|error| unreadable(Fault::Container(error)))
        };
        let mut documents = vec![(first.clone(), text)];
        let (config, layers) = match named(&documents[0].1, &first)? {
            Parts::Image(config, layers) => (config, layers),
            Parts::Manifest(manifest) => {
                let text = fetch_manifest(&mut exchange, &manifest).map_err(unreadable)?;
                let found = named(&text, &manifest)?;
                documents.push((manifest, text));
                match found {
                    Parts::Image(config, layers) => (config, layers),
                    // It was of the type of manifests.
                    Parts::Manifest(_) => unreachable!("an index names manifests alone"),
                }
            }
        };
        let all = documents.iter().map(|(part, _)| part).chain([&config]).chain(&layers);
        let size = all.fold(0_u64, |sum, part| sum.saturating_add(part.size));
        if size > self.limit {
            return Err(unreadable(Fault::Large { found: Some(size), limit: self.limit }));
        }
        self.make_room(tenant, size, &stay)?;

        let unfinished = Unfinished::new(&self.path, self.next.fetch_add(1, Ordering::Relaxed))?;
        unfinished.write("oci-layout", LAYOUT.as_bytes())?;
        unfinished.write("index.json", index_of(&first).as_bytes())?;
        for (part, text) in &documents {
            unfinished.write(&format!("{BLOBS}/{}", part.digest.hex()), text)?;
        }
        unfinished.fetch(&mut exchange, &config, Step::Config, wrong)?;
        for layer in &layers {
            unfinished.fetch(&mut exchange, layer, Step::Layer, wrong)?;
        }
        unfinished.check(&first).map_err(|error| wrong((Step::Config, Fault::Container(error))))?;
        unfinished.sync()?;

        self.make_room(tenant, size, &needed(&pinned))?;
        make(&self.path.join(tenant))?;
        let place = self.layout(tenant, digest);
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        match fs::rename(&unfinished.0, &place) {
            // Another request was as fast.
            Err(_) if place.is_dir() => {}
            moved => {
                moved.map_err(ImagesError::file(&place))?;
                sync(&self.path.join(tenant))?;
            }
        }
        Ok(pinned)
    }

    /// Lets images of a tenant go until there is room for so many bytes, and few enough that nothing needs.
    fn make_room(&self, tenant: &str, wanted: u64, needed: &BTreeSet<Digest>) -> Result<(), ImagesError> {
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut kept, mut leaving) = (0_u64, Vec::new());
        let folder = self.path.join(tenant);
        for (path, name) in list(&folder)? {
            let bytes = bytes_of(&path)?;
            match format!("sha256:{name}").parse::<Digest>() {
                Ok(digest) if needed.contains(&digest) => kept += bytes,
                _ => {
                    let there = fs::metadata(&path).and_then(|found| found.modified());
                    leaving.push((there.unwrap_or(SystemTime::UNIX_EPOCH), path, bytes));
                }
            }
        }
        if kept.saturating_add(wanted) > self.limit {
            return Err(ImagesError::Full { path: folder, wanted, pinned: kept, limit: self.limit });
        }
        leaving.sort();
        let mut all = kept + leaving.iter().map(|(_, _, bytes)| bytes).sum::<u64>();
        let spare = leaving.len();
        for (n, (_, path, bytes)) in leaving.into_iter().enumerate() {
            if all + wanted <= self.limit && spare - n <= SPARE {
                break;
            }
            absent(fs::remove_dir_all(&path)).map_err(ImagesError::file(&path))?;
            all -= bytes;
        }
        Ok(())
    }
}

/// What a reference means: a manifest, or an index of those of several platforms.
fn first(exchange: &mut Exchange<'_>, reference: &Reference) -> Result<(Part, Vec<u8>), Fault> {
    let name = reference.digest().map(|digest| digest.to_string());
    let name = name.as_deref().or(reference.tag()).unwrap_or_default();
    let answer = ask_manifest(exchange, name, ACCEPT)?;
    let media_type = answer.media_type().to_owned();
    let (text, digest) = document(exchange, answer, reference.digest(), DOCUMENT_MAX)?;
    let digest = container_image::Digest::try_from(digest.to_string()).map_err(Fault::Container)?;
    Ok((Part { media_type, digest, size: text.len() as u64 }, text))
}

/// The manifest that an index names.
fn fetch_manifest(exchange: &mut Exchange<'_>, part: &Part) -> Result<Vec<u8>, Fault> {
    let answer = ask_manifest(exchange, &part.digest.to_string(), ACCEPT)?;
    let text = exchange.body(answer, part.size)?;
    if text.len() as u64 != part.size {
        return Err(Fault::Length { found: Some(text.len() as u64), expected: part.size });
    }
    is_as_named(part, Digest::of(&text)).map(|()| text)
}

fn is_as_named(part: &Part, found: Digest) -> Result<(), Fault> {
    if found.to_string() == part.digest.to_string() {
        return Ok(());
    }
    // A digest of an image's documents is one of these, too.
    let expected = part.digest.to_string().parse().unwrap_or(found);
    Err(Fault::Digest { found, expected })
}

/// A layout that is being fetched; what is left of it goes.
#[derive(Debug)]
struct Unfinished(PathBuf);

impl Unfinished {
    fn new(below: &Path, number: u64) -> Result<Unfinished, ImagesError> {
        let unfinished = Unfinished(below.join(UNFINISHED).join(number.to_string()));
        make(&unfinished.0.join(BLOBS))?;
        Ok(unfinished)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ImagesError> {
        let path = self.0.join(name);
        File::create_new(&path)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            })
            .map_err(ImagesError::file(&path))
    }

    /// Fetches content into its file. Layers may name the same one twice.
    fn fetch(
        &self,
        exchange: &mut Exchange<'_>,
        part: &Part,
        step: Step,
        wrong: impl Fn((Step, Fault)) -> PullError,
    ) -> Result<(), PullError> {
        let path = self.0.join(BLOBS).join(part.digest.hex());
        if path.exists() {
            return Ok(());
        }
        let wrong = |fault| wrong((step, fault));
        let url = exchange.url(&format!("/blobs/{}", part.digest)).map_err(wrong)?;
        let answer = exchange.ask(Ask::new(Method::GET, url)).map_err(wrong)?;
        if answer.status() != 200 {
            return Err(wrong(exchange.refusal(answer)));
        }
        let host = answer.url.host().to_owned();
        let mut from = exchange.reader(answer, part.size);
        let mut to = File::create_new(&path).map_err(ImagesError::file(&path))?;
        let (mut sum, mut read, mut chunk) = (Sha256::new(), 0_u64, vec![0; CHUNK]);
        loop {
            let got = match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(got) => &chunk[..got],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(wrong(exchange.broken(&host, error))),
            };
            read += got.len() as u64;
            if read > part.size {
                return Err(wrong(Fault::Length { found: None, expected: part.size }));
            }
            sum.update(got);
            to.write_all(got).map_err(ImagesError::file(&path))?;
        }
        if read != part.size {
            return Err(wrong(Fault::Length { found: Some(read), expected: part.size }));
        }
        is_as_named(part, Digest::from_sum(sum.finalize().into())).map_err(wrong)?;
        to.sync_all().map_err(ImagesError::file(&path))?;
        Ok(())
    }

    /// Whether the launcher would take it.
    fn check(&self, first: &Part) -> Result<(), ImageError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&self.0, flags, Mode::empty());
        let folder =
            folder.map_err(|error| ImageError::File { file: ".".to_owned(), source: error.into() })?;
        Layout::open(folder, Some(&first.digest)).map(drop)
    }

    fn sync(&self) -> Result<(), ImagesError> {
        sync(&self.0.join(BLOBS)).and_then(|()| sync(&self.0))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It has its name by now, or goes when the folder is opened.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn make(folder: &Path) -> Result<(), ImagesError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(ImagesError::file(folder))
}

fn sync(folder: &Path) -> Result<(), ImagesError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(ImagesError::file(folder))
}

fn absent(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// What is in a folder, by path and name; nothing if there is none.
fn list(folder: &Path) -> Result<Vec<(PathBuf, String)>, ImagesError> {
    let failed = |error| ImagesError::file(folder)(error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let named = |entry: fs::DirEntry| (entry.path(), entry.file_name().to_string_lossy().into_owned());
    entries.map(|entry| entry.map(named)).collect::<Result<_, _>>().map_err(failed)
}

/// Bytes of a layout's content.
fn bytes_of(layout: &Path) -> Result<u64, ImagesError> {
    let mut sum = 0;
    for (path, _) in list(&layout.join(BLOBS))? {
        sum += fs::metadata(&path).map_err(ImagesError::file(&path))?.len();
    }
    Ok(sum)
}
