//! Pushing, pulling and resolving.

use crate::artifact::check_config;
use crate::exchange::{Answer, Ask, Exchange};
use crate::trust::agent;
use crate::{
    Artifact, Descriptor, Digest, Fault, MANIFEST_TYPE, MAX_DOCUMENT, Manifest, Reference, RegistryError,
    Settings, SettingsError, Step, harmless,
};
use http_client::Agent;
use http_client::http::Method;
use image::Image;

/// Media types that stand for a choice of manifests.
const INDEXES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];

/// What speaks to registries. Connections are kept for a while, and may be used by several threads.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    settings: Settings,
}

/// What a push has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The reference, pinned to the artifact.
    pub reference: Reference,
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Whether the registry had the image's layer already.
    pub was_there: bool,
}

/// The step at which a fault happened.
type At = (Step, Fault);

fn at(step: Step) -> impl Fn(Fault) -> At {
    move |fault| (step, fault)
}

impl Client {
    /// A client with these settings.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn new(settings: Settings) -> Result<Client, SettingsError> {
        Ok(Client { agent: agent(&settings)?, settings })
    }

    /// The digest that a reference means now. A pinned reference means its own, without a question.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub fn resolve(&self, reference: &Reference) -> Result<Digest, RegistryError> {
        if let Some(digest) = reference.digest() {
            return Ok(digest);
        }
        let mut exchange = self.exchange(reference, false);
        let fetched = manifest(&mut exchange, reference);
        fetched.map(|(_, digest)| digest).map_err(|fault| told(reference)(at(Step::Manifest)(fault)))
    }

    /// Fetches an artifact whole. What comes back is what the reference means, and holds an image that the
    /// engine takes.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub fn pull(&self, reference: &Reference) -> Result<Artifact, RegistryError> {
        self.pull_unless(reference, |_| false).map(|pulled| match pulled {
            Ok(artifact) => artifact,
            Err(_) => unreachable!("it was not told that there is one already"),
        })
    }

    /// The same, unless there is one with the digest that the reference means; then that digest.
    pub(crate) fn pull_unless(
        &self,
        reference: &Reference,
        there: impl FnOnce(Digest) -> bool,
    ) -> Result<Result<Artifact, Digest>, RegistryError> {
        let mut exchange = self.exchange(reference, false);
        let (text, digest) =
            manifest(&mut exchange, reference).map_err(|fault| told(reference)(at(Step::Manifest)(fault)))?;
        if there(digest) {
            return Ok(Err(digest));
        }
        self.contents(&mut exchange, text, digest).map(Ok).map_err(told(reference))
    }

    fn contents(&self, exchange: &mut Exchange<'_>, text: Vec<u8>, digest: Digest) -> Result<Artifact, At> {
        let manifest = Manifest::parse(&text).map_err(|fault| at(Step::Manifest)(fault.into()))?;
        let config = blob(exchange, &manifest.config, MAX_DOCUMENT).map_err(at(Step::Config))?;
        check_config(&config, &manifest.layer).map_err(|fault| at(Step::Config)(fault.into()))?;
        let layer = blob(exchange, &manifest.layer, self.settings.largest_image).map_err(at(Step::Layer))?;
        let image = Image::load(&layer).map_err(|error| at(Step::Layer)(Fault::Image(error)))?;
        Ok(Artifact { manifest: text, config, image, digest })
    }

    /// Sends an artifact: what the registry lacks of it, the manifest last. A registry that breaks off in the
    /// middle has nothing under the reference, or what it had before.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub fn push(&self, reference: &Reference, artifact: &Artifact) -> Result<Pushed, RegistryError> {
        self.send(reference, artifact).map_err(told(reference))
    }

    fn send(&self, reference: &Reference, artifact: &Artifact) -> Result<Pushed, At> {
        let found = artifact.digest();
        if let Some(expected) = reference.digest().filter(|expected| *expected != found) {
            return Err((Step::Manifest, Fault::Pinned { found, expected }));
        }
        let mut exchange = self.exchange(reference, true);
        let wasm = artifact.image.wasm();
        upload(&mut exchange, &artifact.config).map_err(at(Step::Config))?;
        let was_there = upload(&mut exchange, wasm).map_err(at(Step::Layer))?;
        put_manifest(&mut exchange, reference, artifact).map_err(at(Step::Manifest))?;
        Ok(Pushed { reference: reference.pinned(found), image_bytes: wasm.len() as u64, was_there })
    }

    pub(crate) fn exchange<'a>(&'a self, reference: &'a Reference, push: bool) -> Exchange<'a> {
        Exchange::new(&self.agent, &self.settings, reference, push)
    }
}

pub(crate) fn told(reference: &Reference) -> impl Fn((Step, Fault)) -> RegistryError {
    let reference = reference.to_string();
    move |(step, fault)| RegistryError { reference: reference.clone(), step, fault: Box::new(fault) }
}

/// The text of the manifest that a reference means, and its digest.
fn manifest(exchange: &mut Exchange<'_>, reference: &Reference) -> Result<(Vec<u8>, Digest), Fault> {
    let name = reference.digest().map(|digest| digest.to_string());
    let name = name.as_deref().or(reference.tag()).unwrap_or_default();
    let answer = ask_manifest(exchange, name, MANIFEST_TYPE)?;
    match answer.media_type() {
        MANIFEST_TYPE => {}
        found if INDEXES.contains(&found) => return Err(Fault::Index { found: found.to_owned() }),
        found => {
            let (host, found) = (answer.url.host().to_owned(), harmless(found, 80));
            return Err(Fault::Type { host, found, allowed: MANIFEST_TYPE });
        }
    }
    document(exchange, answer, reference.digest(), MAX_DOCUMENT)
}

/// Asks for a manifest by tag or digest.
pub(crate) fn ask_manifest(
    exchange: &mut Exchange<'_>,
    name: &str,
    accept: &'static str,
) -> Result<Answer, Fault> {
    let mut ask = Ask::new(Method::GET, exchange.url(&format!("/manifests/{name}"))?);
    ask.accept = Some(accept);
    let answer = exchange.ask(ask)?;
    if answer.status() != 200 {
        return Err(exchange.refusal(answer));
    }
    Ok(answer)
}

/// A manifest's text, and its digest: the one that is wanted, if one is, else the one that the registry says.
pub(crate) fn document(
    exchange: &Exchange<'_>,
    answer: Answer,
    wanted: Option<Digest>,
    most: u64,
) -> Result<(Vec<u8>, Digest), Fault> {
    let told = promised(&answer);
    let text = exchange.body(answer, most)?;
    let found = Digest::of(&text);
    match wanted.or(told).filter(|expected| *expected != found) {
        Some(expected) => Err(Fault::Digest { found, expected }),
        None => Ok((text, found)),
    }
}

/// What the registry says the digest is.
fn promised(answer: &Answer) -> Option<Digest> {
    answer.header("docker-content-digest").and_then(|text| text.parse().ok())
}

/// The content that a descriptor names.
fn blob(exchange: &mut Exchange<'_>, wanted: &Descriptor, limit: u64) -> Result<Vec<u8>, Fault> {
    let Descriptor { digest: expected, size, .. } = *wanted;
    if size > limit {
        return Err(Fault::Large { found: Some(size), limit });
    }
    let answer = exchange.ask(Ask::new(Method::GET, exchange.url(&format!("/blobs/{expected}"))?))?;
    if answer.status() != 200 {
        return Err(exchange.refusal(answer));
    }
    let bytes = exchange.body(answer, size).map_err(|fault| match fault {
        Fault::Large { found, .. } => Fault::Length { found, expected: size },
        other => other,
    })?;
    if bytes.len() as u64 != size {
        return Err(Fault::Length { found: Some(bytes.len() as u64), expected: size });
    }
    let found = Digest::of(&bytes);
    if found != expected {
        return Err(Fault::Digest { found, expected });
    }
    Ok(bytes)
}

/// Sends content unless the registry has it; whether it had.
fn upload(exchange: &mut Exchange<'_>, bytes: &[u8]) -> Result<bool, Fault> {
    let digest = Digest::of(bytes);
    let answer = exchange.ask(Ask::new(Method::HEAD, exchange.url(&format!("/blobs/{digest}"))?))?;
    match answer.status() {
        200 => return Ok(true),
        404 => {}
        _ => return Err(exchange.refusal(answer)),
    }
    let begin =
        Ask { body: Some((UPLOAD_TYPE, &[])), ..Ask::new(Method::POST, exchange.url("/blobs/uploads/")?) };
    let answer = exchange.ask(begin)?;
    if answer.status() != 202 {
        return Err(exchange.refusal(answer));
    }
    let place = exchange.location(&answer)?.with_parameter("digest", &digest.to_string());
    let put = Ask { body: Some((UPLOAD_TYPE, bytes)), ..Ask::new(Method::PUT, place) };
    let answer = exchange.ask(put)?;
    match answer.status() {
        201 => Ok(false),
        _ => Err(exchange.refusal(answer)),
    }
}

/// What blobs are sent as, whatever they are (OCI distribution specification 1.1, "Pushing blobs").
const UPLOAD_TYPE: &str = "application/octet-stream";

fn put_manifest(
    exchange: &mut Exchange<'_>,
    reference: &Reference,
    artifact: &Artifact,
) -> Result<(), Fault> {
    let digest = artifact.digest();
    let name = reference.tag().map_or_else(|| digest.to_string(), str::to_owned);
    let place = exchange.url(&format!("/manifests/{name}"))?;
    let put = Ask { body: Some((MANIFEST_TYPE, &artifact.manifest)), ..Ask::new(Method::PUT, place) };
    let answer = exchange.ask(put)?;
    if answer.status() != 201 {
        return Err(exchange.refusal(answer));
    }
    match promised(&answer).filter(|found| *found != digest) {
        Some(found) => Err(Fault::Digest { found, expected: digest }),
        None => Ok(()),
    }
}
