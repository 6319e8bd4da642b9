//! The daemon's folder of images, how registries are asked, and what is remembered of files.

use super::Settings;
use super::controller::lock;
use api::Password;
use api_server::Asker;
use deployment::{Desired, Named};
use registry::{Client, ContainerImages, Credentials, Digest, Images, Login, Reference};
use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long what was resolved is kept for the change that asked for it.
const PROMISE: Duration = Duration::from_secs(3600);
/// How much is remembered before what is old is looked for.
const MOST: usize = 1024;

/// By the tenant that it was resolved for, none for administrators, and what names it: its digest, and when.
type Promised = HashMap<(Option<String>, String), (Digest, Instant)>;

/// Where images are, and where they come from.
pub(crate) struct Shelf {
    /// The folder, or why there is none.
    pub(super) kept: Result<Arc<Images>, String>,
    /// The same of containers' images.
    pub(super) containers: Result<ContainerImages, String>,
    pub(super) source: Registries,
    /// Files as they were when they were last read.
    pub(super) files: Mutex<HashMap<PathBuf, (Stamp, Digest)>>,
    /// What was resolved lately.
    promised: Mutex<Promised>,
    /// Tenants, what the registry gave them lately, and when.
    granted: Mutex<HashMap<(String, Digest), Instant>>,
    /// What containers of tenants were resolved to lately, and when.
    contained: Mutex<HashMap<(String, Digest), Instant>>,
    /// What was pinned last.
    pub(super) pinned: Mutex<Option<BTreeSet<Digest>>>,
}

/// How registries are asked.
#[derive(Clone, Debug)]
pub struct Registries {
    /// Registries that are spoken to without TLS, HOST[:PORT].
    pub insecure: Vec<String>,
    /// Certificates in PEM that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Credentials, as `~/.docker/config.json` has them.
    pub auth_file: Option<PathBuf>,
    /// The longest time that one exchange may take in all.
    pub timeout: Duration,
}

impl Registries {
    /// A client with the credentials of an asker: those that the administrator's file has now, or a tenant's
    /// own and no others.
    pub(super) fn client(&self, asker: &Asker) -> Result<Client, String> {
        let credentials = match (asker, &self.auth_file) {
            (Asker::Administrator, Some(file)) => {
                Credentials::from_file(file).map_err(|error| error.to_string())?
            }
            (Asker::Administrator, None) => Credentials::default(),
            (Asker::Tenant { logins, .. }, _) => {
                let with =
                    |credentials: Credentials,
                     (registry, (name, password)): (&String, &(String, Password))| {
                        credentials.with_login_at(registry, Login::new(name, password.reveal()))
                    };
                logins.iter().fold(Credentials::default(), with)
            }
        };
        let settings = registry::Settings {
            insecure: self.insecure.clone(),
            ca_file: self.ca_file.clone(),
            total: self.timeout,
            credentials,
            ..registry::Settings::default()
        };
        Client::new(settings).map_err(|error| error.to_string())
    }
}

/// By what one sees that a file is another one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp([i128; 5]);

impl Stamp {
    pub(super) fn of(path: &Path) -> Option<Stamp> {
        let found = std::fs::metadata(path).ok()?;
        let time = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Some(Stamp([
            found.dev().into(),
            found.ino().into(),
            found.len().into(),
            time(found.mtime(), found.mtime_nsec()),
            time(found.ctime(), found.ctime_nsec()),
        ]))
    }
}

impl Stamp {
    /// Whether it is so old that a change of the file from now on changes the stamp: clocks of file systems
    /// are coarse.
    pub(super) fn is_old(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128;
        self.0[3..].iter().all(|time| now - time > 2_000_000_000)
    }
}

/// The artifact that a container's image is.
pub(super) fn artifact(image: &str) -> Option<Reference> {
    match Named::of_container(image) {
        Ok(Named::Artifact(reference)) => Some(reference),
        _ => None,
    }
}

impl Shelf {
    /// Opens the folder. What is wrong with the settings is told now; a folder that cannot be opened, when it
    /// is needed.
    ///
    /// # Errors
    /// What is wrong with the settings, in words for the operator.
    pub(crate) fn open(settings: &Settings) -> Result<Shelf, String> {
        let source = settings.registries.clone();
        source.client(&Asker::Administrator)?;
        let kept = Images::open(&settings.state.join("images"), settings.keep_images);
        let kept = kept.map(Arc::new).map_err(|error| format!("the folder of images: {error}"));
        if let Err(reason) = &kept {
            let what = "functions whose images are not this program's own do not run";
            console::error().line(&format!("{reason}; {what}"));
        }
        let path = settings.state.join("container-images");
        let containers = ContainerImages::open(&path, settings.keep_container_images);
        let containers = containers.map_err(|error| format!("the folder of containers' images: {error}"));
        if let Err(reason) = &containers {
            console::error()
                .line(&format!("{reason}; containers whose images are in registries do not start"));
        }
        Ok(Shelf {
            kept,
            containers,
            source,
            files: Mutex::default(),
            promised: Mutex::default(),
            granted: Mutex::default(),
            contained: Mutex::default(),
            pinned: Mutex::default(),
        })
    }

    /// The folder, for the catalog.
    pub(crate) fn kept(&self) -> Option<Arc<Images>> {
        self.kept.as_ref().ok().cloned()
    }

    pub(super) fn has(&self, digest: Digest) -> bool {
        self.kept.as_ref().is_ok_and(|kept| kept.has(digest).unwrap_or(false))
    }

    /// What was resolved lately.
    pub(super) fn promises(&self) -> Vec<String> {
        let mut promised = lock(&self.promised);
        promised.retain(|_, (_, since)| since.elapsed() < PROMISE);
        promised.keys().map(|(_, text)| text.clone()).collect()
    }

    /// What was lately resolved for a tenant, or given to it by a registry.
    pub(super) fn lately_of(&self, tenant: &str) -> BTreeSet<Digest> {
        let promised = lock(&self.promised);
        let promised = promised
            .iter()
            .filter(|((by, _), (_, since))| by.as_deref() == Some(tenant) && since.elapsed() < PROMISE);
        let mut all: BTreeSet<Digest> = promised.map(|(_, (digest, _))| *digest).collect();
        let granted = lock(&self.granted);
        let granted = granted.iter().filter(|((to, _), since)| to == tenant && since.elapsed() < PROMISE);
        all.extend(granted.map(|((_, digest), _)| *digest));
        all
    }

    /// The same of an artifact, whose digest is that of its manifest.
    pub(super) fn has_artifact(&self, digest: Digest) -> bool {
        self.kept.as_ref().is_ok_and(|kept| kept.has_artifact(digest).unwrap_or(false))
    }

    /// Remembers what a file is, as long as it looks like this.
    pub(super) fn remember(&self, path: PathBuf, stamp: Stamp, digest: Digest) {
        let mut files = lock(&self.files);
        if files.len() > MOST {
            files.retain(|_, (_, digest)| self.has(*digest));
        }
        files.insert(path, (stamp, digest));
    }

    pub(super) fn promise(&self, by: Option<&str>, text: &str, digest: Digest) {
        let mut promised = lock(&self.promised);
        promised.insert((by.map(str::to_owned), text.to_owned()), (digest, Instant::now()));
        if promised.len() > MOST {
            promised.retain(|_, (_, since)| since.elapsed() < PROMISE);
        }
    }

    /// Where the image of a container is that is in a registry: of which digest, in which folder. `None`: it
    /// is the path of a folder, or has no digest.
    pub(super) fn container_layout(&self, tenant: &str, image: &str) -> Option<(Digest, PathBuf)> {
        let digest = Reference::digest(&artifact(image)?)?;
        Some((digest, self.containers.as_ref().ok()?.layout(tenant, digest)))
    }

    pub(super) fn has_container(&self, tenant: &str, digest: Digest) -> bool {
        self.containers.as_ref().is_ok_and(|images| images.has(tenant, digest))
    }

    /// A container of a tenant is to have this image.
    pub(super) fn promise_container(&self, tenant: &str, digest: Digest) {
        let mut contained = lock(&self.contained);
        contained.retain(|_, since| since.elapsed() < PROMISE);
        contained.insert((tenant.to_owned(), digest), Instant::now());
    }

    /// Images that a tenant's containers need.
    pub(super) fn needed_by_containers(&self, tenant: &str, desired: &Desired) -> BTreeSet<Digest> {
        let lately = lock(&self.contained);
        let lately = lately.iter().filter(|((owner, _), since)| owner == tenant && since.elapsed() < PROMISE);
        let named = desired.container_images().filter(|(owner, _)| *owner == tenant);
        let named = named.filter_map(|(_, image)| artifact(image)?.digest());
        named.chain(lately.map(|((_, digest), _)| *digest)).collect()
    }

    /// Images of containers of tenants that have none leave.
    ///
    /// # Errors
    /// What the folder has to say.
    pub(super) fn retain_containers(&self, desired: &Desired) -> Result<(), String> {
        let Ok(images) = &self.containers else { return Ok(()) };
        let tenants = desired.container_images().map(|(tenant, _)| tenant).collect();
        images.retain(&tenants).map_err(|error| error.to_string())
    }

    /// A tenant is deleted: what registries gave it is not the next one's of that name.
    pub(super) fn end_tenant(&self, tenant: &str) {
        lock(&self.promised).retain(|(by, _), _| by.as_deref() != Some(tenant));
        lock(&self.granted).retain(|(to, _), _| to != tenant);
        lock(&self.contained).retain(|(of, _), _| of != tenant);
    }

    /// A registry has given an image to a tenant.
    pub(super) fn grant(&self, tenant: &str, digest: Digest) {
        let mut granted = lock(&self.granted);
        granted.insert((tenant.to_owned(), digest), Instant::now());
        if granted.len() > MOST {
            granted.retain(|_, since| since.elapsed() < PROMISE);
        }
    }

    /// Whether one has lately.
    pub(super) fn is_granted(&self, tenant: &str, digest: Digest) -> bool {
        let granted = lock(&self.granted);
        granted.get(&(tenant.to_owned(), digest)).is_some_and(|since| since.elapsed() < PROMISE)
    }
}
