//! Images of functions: pinned to digests when they are applied, kept by them, and given up when they are not
//! needed any more.
//!
//! 1. [`Controller::resolve_images`] reads what each function's image names. An image of this program stays
//!    as it is written. A file, or a tag in a registry, is pinned to what it means now: what is written down
//!    holds the digest, and means the same for ever.
//! 2. A file that has not changed since it was last read, and a digest that is kept, are known at once.
//!    Anything else is work: the registry is asked, the file is read, and what comes is checked and kept in
//!    the state's folder `images`.
//! 3. What functions, snapshots and changes that are under way name is pinned there; the rest leaves when
//!    room is needed.
//!
//! A container's image that is in a registry is pinned and fetched likewise, into a layout of its tenant's in
//! the state's folder `container-images`, which the launcher reads. One that is a folder is the launcher's to
//! find.
//!
//! So a restart needs neither the registry nor the file.
//!
//! What is asked for with a tenant's token is had by that tenant's right alone: registries are shown its own
//! logins, and an image that is kept counts as there only if a function or a snapshot of the tenant names its
//! digest, or the tenant has pulled it within the hour. For any other the registry is asked, also if it is
//! kept: knowing a digest gives no right to what another may pull.

use super::controller::{Controller, lock};
use super::shelf::{self, Stamp};
use super::status::digest;
use super::tenant_images::PART;
use api::{DEFAULT_TENANT, Fault, FaultKind, GuestKind, Image, Kind};
use api_server::{Asker, ImageResolution, ObjectChange, Refusal, ResolvedImages};
use deployment::{Material, Named, pinned_file};
use registry::{Client, Digest, Images, ImagesError, Reference};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Why nothing is known of an image that is not here.
const ELSEWHERE: &str =
    "it is not on this host and is fetched when it is applied; what depends on it is not checked";

/// Changes, with images kept from their check.
pub(super) struct Withheld {
    pub(super) changes: Vec<ObjectChange>,
    /// Where these images stand.
    places: BTreeSet<String>,
}

impl Withheld {
    /// The fault of such an image is none of what was sent.
    fn told(&self, fault: Fault) -> Fault {
        match self.places.contains(&fault.at) {
            true => Fault { kind: FaultKind::ImageElsewhere, ..fault },
            false => fault,
        }
    }

    /// The same in a refusal.
    pub(super) fn refusal(&self, refusal: Refusal) -> Refusal {
        let told = |faults: Vec<Fault>| faults.into_iter().map(|fault| self.told(fault)).collect();
        match refusal {
            Refusal::Invalid(faults) => Refusal::Invalid(told(faults)),
            Refusal::Conflict(faults) => Refusal::Conflict(told(faults)),
            other => other,
        }
    }

    /// The same of faults.
    pub(super) fn faults(&self, faults: Vec<Fault>) -> Vec<Fault> {
        faults.into_iter().map(|fault| self.told(fault)).collect()
    }
}

/// The owner of the pins, for the folder.
const OWNER: &str = "daemon";
/// How often content that left while it came is put back.
const ATTEMPTS: usize = 3;

/// An image that has to be had first: of which functions, and what they call it.
struct Wanted {
    text: String,
    /// Of containers: whose.
    container_of: Option<String>,
    /// The tenant of the first of the functions, which pays for it.
    tenant: String,
    functions: Vec<(usize, String)>,
}

/// Why an image is not to be had.
pub(super) enum Lack {
    /// What is wanted is wrong.
    Wrong(String),
    /// A registry does not give it.
    Registry(String),
    /// It does not answer; no further registry is asked.
    Silent(String),
    /// This host.
    Here(String),
    /// The folder of images has no room.
    Full(String),
}

impl From<registry::PullError> for Lack {
    fn from(error: registry::PullError) -> Lack {
        match error {
            registry::PullError::Registry(error) if error.fault.is_silence() => {
                Lack::Silent(error.to_string())
            }
            registry::PullError::Registry(error) => Lack::Registry(error.to_string()),
            registry::PullError::Images(error) => error.into(),
        }
    }
}

impl From<ImagesError> for Lack {
    fn from(error: ImagesError) -> Lack {
        match &error {
            ImagesError::Full { .. } => Lack::Full(error.to_string()),
            _ => Lack::Here(error.to_string()),
        }
    }
}

impl Controller {
    /// Pins images to what they mean now; see the module's documentation.
    pub(super) fn resolve_images(
        self: &Arc<Self>,
        functions: &[(&str, &Value)],
        resolve: bool,
        asker: &Asker,
    ) -> Result<ResolvedImages, Refusal> {
        let mut resolved = vec![None; functions.len()];
        let mut wanted: BTreeMap<(&str, Option<&str>), Wanted> = BTreeMap::new();
        let asking = match asker {
            Asker::Administrator => None,
            Asker::Tenant { name, .. } => Some(name.as_str()),
        };
        let held = self.held(asking);
        for (at, (name, spec)) in functions.iter().enumerate() {
            let Some(text) = spec.get("image").and_then(Value::as_str) else { continue };
            // A program has none: that it says one is told when the change is checked.
            if api::guest_of(spec) == GuestKind::Program {
                continue;
            }
            let tenant = spec.get("tenant").and_then(Value::as_str).unwrap_or(DEFAULT_TENANT);
            let container_of = (api::guest_of(spec) == GuestKind::Container).then_some(tenant);
            // What is wrong with it is told when the change is checked.
            let named = if container_of.is_some() { Named::of_container(text) } else { Named::read(text) };
            // The launcher has folders with images of containers.
            let (Ok(named), false) = (named, container_of.is_some() && shelf::artifact(text).is_none())
            else {
                continue;
            };
            if matches!(named, Named::Stock(_)) {
                continue;
            }
            let may = |digest| held.has(digest);
            match self.known((name, container_of), text, &named, resolve).filter(|(_, digest)| may(*digest)) {
                Some((pinned, digest)) => {
                    match container_of {
                        Some(tenant) => self.shelf.promise_container(tenant, digest),
                        None => self.shelf.promise(asking, &pinned, digest),
                    }
                    resolved[at] = (pinned != text).then_some(pinned);
                }
                None => {
                    let of = || Wanted {
                        text: text.to_owned(),
                        container_of: container_of.map(str::to_owned),
                        // That a tenant names another one is told when the change is checked.
                        tenant: asking.unwrap_or(tenant).to_owned(),
                        functions: Vec::new(),
                    };
                    let entry = wanted.entry((text, container_of)).or_insert_with(of);
                    entry.functions.push((at, (*name).to_owned()));
                }
            }
        }
        if wanted.is_empty() {
            return Ok(ResolvedImages::Now(resolved));
        }
        let wanted: Vec<Wanted> = wanted.into_values().collect();
        let what = match wanted.as_slice() {
            [one] => format!("fetching {}", one.text),
            several => format!("fetching {} images", several.len()),
        };
        let (this, asker) = (self.clone(), asker.clone());
        Ok(ResolvedImages::After(ImageResolution {
            what,
            run: Box::new(move || this.fetch_all(wanted, resolved, &asker)),
        }))
    }

    /// Changes, with images kept from a check that are not here, or that a tenant may not know without asking
    /// the registry for them. Such an image gets a name of its own: what other objects name is not withheld
    /// with it, or the check would tell who has it.
    pub(super) fn withheld(
        &self,
        changes: &[ObjectChange],
        tenant: Option<&str>,
        material: &Material<'_>,
    ) -> Withheld {
        let (mut changes, held) = (changes.to_vec(), self.held(tenant));
        let mut places = BTreeSet::new();
        let functions = changes.iter_mut().filter(|change| change.kind == Kind::Function);
        for (name, spec) in functions.filter_map(|change| Some((&change.name, change.spec.as_mut()?))) {
            if api::guest_of(spec).is_launched() {
                continue;
            }
            let Some(Value::String(text)) = spec.get_mut("image") else { continue };
            let Ok(Named::Artifact(reference)) = Named::read(text) else { continue };
            let is_here = |digest| self.shelf.has_artifact(digest) && held.has(digest);
            if !reference.digest().is_some_and(is_here) {
                text.push(' ');
                material.put(text, Err(ELSEWHERE.to_owned()));
                places.insert(format!("functions.{name}.image"));
            }
        }
        Withheld { changes, places }
    }

    /// Reads what an administrator's check needs of images, each as a job of the tenant whose function it is
    /// for. One in a file is as it is now, whatever it was when it was looked at before.
    pub(super) fn read_images(
        self: &Arc<Self>,
        changes: &[ObjectChange],
        material: &Material<'_>,
    ) -> Result<(), Refusal> {
        let mut done = BTreeSet::new();
        let functions = changes.iter().filter(|change| change.kind == Kind::Function);
        for spec in functions.filter_map(|change| change.spec.as_ref()) {
            let Some(text) = spec.get("image").and_then(Value::as_str) else { continue };
            if api::guest_of(spec).is_launched() || !done.insert(text) {
                continue;
            }
            let is_file = match Named::read(text) {
                Ok(Named::File { digest: None, .. }) => true,
                Ok(Named::File { .. } | Named::Artifact(_)) if !material.has_image(text) => false,
                _ => continue,
            };
            let tenant = spec.get("tenant").and_then(Value::as_str).unwrap_or(DEFAULT_TENANT);
            let (this, named) = (self.clone(), text.to_owned());
            let read = self.requests.run(tenant, move || match is_file {
                true => this.catalog.read_file(&named),
                false => this.catalog.load(&named),
            });
            material.put(text, read.map_err(|refused| Refusal::Busy(refused.to_string()))?);
        }
        Ok(())
    }

    /// What an image means, as far as that is known without a question.
    fn known(
        &self,
        (function, container_of): (&str, Option<&str>),
        text: &str,
        named: &Named<'_>,
        resolve: bool,
    ) -> Option<(String, Digest)> {
        let has = |digest| match container_of {
            Some(tenant) => self.shelf.has_container(tenant, digest),
            None => self.shelf.has(digest),
        };
        let there = |pinned: String, digest| has(digest).then_some((pinned, digest));
        match named {
            Named::Stock(_) => None,
            Named::File { path, digest: None } => {
                let path = self.catalog.path(path);
                let (stamp, digest) = *lock(&self.shelf.files).get(&path)?;
                let found = self.catalog.look(&path, Stamp::of).ok().flatten()?;
                (found == stamp).then(|| there(pinned_file(text, digest), digest))?
            }
            Named::Artifact(reference) if reference.digest().is_none() => {
                if resolve {
                    return None;
                }
                let runs = self.desired().spec(api::Kind::Function, function)?;
                let runs = runs.get("image")?.as_str()?;
                let Ok(Named::Artifact(pinned)) = Named::read(runs) else { return None };
                let digest = pinned.digest()?;
                (reference.pinned(digest) == pinned).then(|| there(runs.to_owned(), digest))?
            }
            Named::File { digest, .. } => there(text.to_owned(), (*digest)?),
            // The digest may be another one than a manifest's.
            Named::Artifact(reference) => {
                let digest = reference.digest()?;
                let has = container_of.is_some() && has(digest)
                    || container_of.is_none() && self.shelf.has_artifact(digest);
                has.then(|| (text.to_owned(), digest))
            }
        }
    }

    /// Fetches all, and tells all that cannot be had.
    fn fetch_all(
        self: &Arc<Self>,
        wanted: Vec<Wanted>,
        mut resolved: api_server::Images,
        asker: &Asker,
    ) -> Result<api_server::Images, Refusal> {
        let (mut faults, mut of_registries) = (Vec::new(), false);
        let mut silent: BTreeMap<String, String> = BTreeMap::new();
        let mut client = None;
        for Wanted { text, container_of, tenant, functions } in wanted {
            let host = match Named::read(&text) {
                Ok(Named::Artifact(reference)) => Some(reference.host().to_owned()),
                _ => None,
            };
            let before = host.as_ref().and_then(|host| silent.get(host)).cloned();
            let fetched = match before {
                Some(reason) => Err(Lack::Registry(format!("{text}: not asked for after {reason}"))),
                None => {
                    let registry = match (&host, &client) {
                        (None, _) => None,
                        (Some(_), Some(client)) => Some(Arc::clone(client)),
                        (Some(_), None) => {
                            let new = self.shelf.source.client(asker).map_err(Refusal::Broken)?;
                            Some(Arc::clone(client.insert(Arc::new(new))))
                        }
                    };
                    let (this, text, asker) = (self.clone(), text.clone(), asker.clone());
                    // To read and check what may be large is the tenant's work, beside the workers. It is not
                    // held up by what the tenant's functions have used up.
                    let done = self.requests.run(&tenant, move || match registry {
                        None => this.fetch_here(&text),
                        // The registry is waited for.
                        Some(client) => offload::waiting(|| match container_of {
                            Some(tenant) => this.fetch_container((&client, &asker), &tenant, &text),
                            None => this.fetch_artifact((&client, &asker), &text),
                        }),
                    });
                    done.map_err(|refused| Refusal::Busy(refused.to_string()))?
                }
            };
            let message = match fetched {
                Ok(pinned) => {
                    let other = (pinned != text).then_some(pinned);
                    functions.iter().for_each(|(at, _)| resolved[*at].clone_from(&other));
                    continue;
                }
                Err(Lack::Here(reason)) => return Err(Refusal::Broken(reason)),
                Err(Lack::Full(reason)) => return Err(Refusal::NoRoom(reason)),
                Err(Lack::Wrong(message)) => message,
                Err(Lack::Registry(message)) => {
                    of_registries = true;
                    message
                }
                Err(Lack::Silent(message)) => {
                    of_registries = true;
                    silent.extend(host.map(|host| (host, message.clone())));
                    message
                }
            };
            let at = |name: &str| format!("functions.{name}.image");
            faults.extend(functions.iter().map(|(_, name)| Fault::of_request(at(name), message.clone())));
        }
        match (faults.is_empty(), of_registries) {
            (true, _) => Ok(resolved),
            (false, true) => Err(Refusal::Registry(faults)),
            (false, false) => Err(Refusal::Invalid(faults)),
        }
    }

    /// The folder in which images are kept.
    fn kept(&self) -> Result<&Images, Lack> {
        self.shelf.kept.as_deref().map_err(|reason| Lack::Here(reason.clone()))
    }

    /// Has an image of this host kept; what names it for ever.
    fn fetch_here(&self, text: &str) -> Result<String, Lack> {
        match Named::read(text).map_err(Lack::Wrong)? {
            Named::File { path, digest } => self.fetch_file(path, digest),
            Named::Stock(_) | Named::Artifact(_) => Ok(text.to_owned()),
        }
    }

    fn fetch_file(&self, text: &str, wanted: Option<Digest>) -> Result<String, Lack> {
        let kept = self.kept()?;
        let path = self.catalog.path(text);
        let looked = || self.catalog.look(&path, Stamp::of).ok().flatten();
        let stamp = looked();
        let image = self.catalog.read_file(text).map_err(Lack::Wrong)?;
        let digest = Digest::from(image.digest());
        if let Some(wanted) = wanted.filter(|wanted| *wanted != digest) {
            let reason =
                format!("{}: found {digest}; allowed: what it is pinned to, {wanted}", path.display());
            return Err(Lack::Wrong(reason));
        }
        let pinned = pinned_file(text, digest);
        self.keep((None, &pinned), digest, &image, || kept.keep(&image).map(drop).map_err(Lack::from))?;
        // A process that wrote into it meanwhile may have changed more than was read.
        if let Some(stamp) = stamp.filter(|stamp| looked() == Some(*stamp) && stamp.is_old()) {
            self.shelf.remember(path.clone(), stamp, digest);
        }
        Ok(pinned)
    }

    /// The same of one in a registry.
    fn fetch_artifact(&self, (client, asker): (&Client, &Asker), text: &str) -> Result<String, Lack> {
        let kept = self.kept()?;
        let Named::Artifact(reference) = Named::read(text).map_err(Lack::Wrong)? else {
            return Ok(text.to_owned());
        };
        // What is needed is pinned before anything else may leave.
        self.pin_needed().map_err(Lack::Here)?;
        let by = match asker {
            Asker::Administrator => None,
            Asker::Tenant { name, .. } => Some(name.as_str()),
        };
        let excess = by.map(|tenant| self.excess(kept, tenant)).transpose()?.flatten();
        let most = match excess {
            None => kept.limit() - kept.limit() / PART,
            Some(_) => 0,
        };
        let pull = |reference: &Reference| match asker {
            Asker::Administrator => kept.pull(client, reference),
            Asker::Tenant { .. } => kept.pull_allowed(client, reference, most),
        };
        let pulled = pull(&reference).map_err(|error| match (Lack::from(error), &excess) {
            (Lack::Full(_), Some(excess)) => Lack::Wrong(format!("{text}: {excess}")),
            (lack, _) => lack,
        })?;
        let pinned = pulled.reference.to_string();
        self.keep((by, &pinned), pulled.digest, &pulled.image, || {
            pull(&pulled.reference).map(drop).map_err(Lack::from)
        })?;
        if let Asker::Tenant { name, .. } = asker {
            self.shelf.grant(name, pulled.digest);
        }
        Ok(pinned)
    }

    /// The same of a container's, which its tenant has for itself.
    fn fetch_container(
        &self,
        (client, asker): (&Client, &Asker),
        tenant: &str,
        text: &str,
    ) -> Result<String, Lack> {
        let images = self.shelf.containers.as_ref().map_err(|reason| Lack::Here(reason.clone()))?;
        let Named::Artifact(reference) = Named::of_container(text).map_err(Lack::Wrong)? else {
            return Ok(text.to_owned());
        };
        let needed = |pinned: &Reference| {
            pinned.digest().into_iter().for_each(|digest| self.shelf.promise_container(tenant, digest));
            self.shelf.needed_by_containers(tenant, &self.desired())
        };
        let pinned = images.pull(client, tenant, &reference, needed)?;
        if let (Asker::Tenant { name, .. }, Some(digest)) = (asker, pinned.digest()) {
            self.shelf.grant(name, digest);
        }
        Ok(pinned.to_string())
    }

    /// Sees to it that an image is kept and stays; `put` puts it there.
    fn keep(
        &self,
        (by, text): (Option<&str>, &str),
        digest: Digest,
        image: &image::Image,
        put: impl Fn() -> Result<(), Lack>,
    ) -> Result<(), Lack> {
        self.shelf.promise(by, text, digest);
        self.pin_needed().map_err(Lack::Here)?;
        // Before it was pinned it may have left for others.
        for _ in 0..ATTEMPTS {
            if self.shelf.has(digest) {
                self.catalog.learn(text, image.clone());
                return Ok(());
            }
            put()?;
        }
        Err(Lack::Here(format!("{text}: it leaves the folder of images as soon as it comes")))
    }

    /// Pins what functions, snapshots and changes under way name, and lets the catalog forget the rest.
    ///
    /// # Errors
    /// What the folder has to say.
    pub(super) fn pin_needed(&self) -> Result<(), String> {
        let Ok(kept) = &self.shelf.kept else { return Ok(()) };
        let mut last = lock(&self.shelf.pinned);
        let mut texts: BTreeSet<String> = self.desired().images().map(str::to_owned).collect();
        let of = |saved: &api::Snapshot| Some(saved.spec.get("image")?.as_str()?.to_owned());
        texts.extend(self.folder.list().iter().filter_map(of));
        texts.extend(self.shelf.promises());
        let digests = texts.iter().filter_map(|text| Named::read(text).ok()?.digest());
        let digests: BTreeSet<Digest> = digests.collect();
        self.catalog.retain(|text| texts.contains(text) || matches!(Named::read(text), Ok(Named::Stock(_))));
        if last.as_ref() != Some(&digests) {
            let list: Vec<Digest> = digests.iter().copied().collect();
            kept.pin(OWNER, &list).map_err(|error| error.to_string())?;
            *last = Some(digests);
        }
        Ok(())
    }

    /// All images: this program's own, those that are kept, and those that functions name.
    pub(super) fn images_here(&self) -> Vec<Image> {
        let mut functions: HashMap<String, u64> = HashMap::new();
        for text in self.desired().images() {
            *functions.entry(text.to_owned()).or_default() += 1;
        }
        let mut all: BTreeMap<String, Image> = BTreeMap::new();
        for (text, image) in self.catalog.known() {
            let (reference, pinned) = told_apart(&text);
            let one = Image {
                digest: digest(&image),
                bytes: image.wasm().len() as u64,
                compiled: self.workshop.knows(&image.digest().to_string()),
                functions: functions.get(&text).copied().unwrap_or(0),
                version: Some(image.manifest().version.to_string()),
                summary: Some(image.manifest().summary.clone()),
                reference,
                pinned,
            };
            all.insert(text, one);
        }
        let kept = self.shelf.kept().and_then(|kept| kept.list().ok()).unwrap_or_default();
        for one in kept {
            let Ok(reference) = one.reference.parse::<Reference>() else { continue };
            let text = reference.pinned(one.digest).to_string();
            let hex = one.image.to_string();
            all.entry(text.clone()).or_insert_with(|| Image {
                reference: one.reference,
                compiled: self.workshop.knows(hex.strip_prefix("sha256:").unwrap_or(&hex)),
                digest: hex,
                bytes: one.bytes,
                functions: functions.get(&text).copied().unwrap_or(0),
                pinned: Some(text),
                version: None,
                summary: None,
            });
        }
        all.into_values().collect()
    }
}

/// What a user calls an image, and the same with its digest, if it has one.
fn told_apart(text: &str) -> (String, Option<String>) {
    match Named::read(text) {
        Ok(named) if named.digest().is_some() => {
            let name = text.rsplit_once('@').map_or(text, |(name, _)| name);
            (name.to_owned(), Some(text.to_owned()))
        }
        _ => (text.to_owned(), None),
    }
}
