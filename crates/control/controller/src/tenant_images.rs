//! What a tenant has of the images that are kept: which it may have without a question, and how many.
//!
//! Its images are those that its functions and snapshots name and those that came for it within the hour.
//! None of these leaves, so that they are bounded, in number and by a part of the folder: the rest is for
//! others.

use super::controller::Controller;
use super::images::Lack;
use deployment::Named;
use registry::{Digest, Images};
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// The part of the folder that images of one tenant may take and, of what may not leave, the part that is
/// administrators' alone: one of so many.
pub(super) const PART: u64 = 4;
/// Images that a tenant may have at most, however small they are.
const MOST_OF_TENANT: usize = 1024;

/// What a tenant may have of kept images: what it has pulled lately, or an object or a snapshot of its own
/// names. It is found out once, however many functions ask.
pub(super) struct Held<'a> {
    controller: &'a Controller,
    tenant: Option<&'a str>,
    named: OnceCell<BTreeSet<Digest>>,
}

impl Held<'_> {
    pub(super) fn has(&self, digest: Digest) -> bool {
        let Some(tenant) = self.tenant else { return true };
        let named = || self.named.get_or_init(|| self.controller.named_by(tenant));
        self.controller.shelf.is_granted(tenant, digest) || named().contains(&digest)
    }
}

impl Controller {
    /// What an asker may have of kept images without a question to a registry; `None`: an administrator.
    pub(super) fn held<'a>(&'a self, tenant: Option<&'a str>) -> Held<'a> {
        Held { controller: self, tenant, named: OnceCell::new() }
    }

    /// Digests that objects and snapshots of a tenant name.
    fn named_by(&self, tenant: &str) -> BTreeSet<Digest> {
        let desired = self.desired();
        let contained = desired.container_images().filter(|(owner, _)| *owner == tenant);
        let texts = desired.images_of(tenant).chain(contained.map(|(_, image)| image)).map(str::to_owned);
        let texts: BTreeSet<String> = texts.chain(self.folder.images_of(tenant)).collect();
        texts.iter().filter_map(|text| Named::read(text).ok()?.digest()).collect()
    }

    /// Why no further image may come for a tenant: it has as many as it may of those that do not leave. One
    /// that is here it may have all the same.
    pub(super) fn excess(&self, kept: &Images, tenant: &str) -> Result<Option<String>, Lack> {
        let mut own = self.named_by(tenant);
        own.extend(self.shelf.lately_of(tenant));
        let (found, allowed) = (kept.bytes_of(&own)?, kept.limit() / PART);
        let is_full = found >= allowed || own.len() >= MOST_OF_TENANT;
        Ok(is_full.then(|| {
            format!(
                "no room for it beside images that functions and snapshots of the tenant `{tenant}` name and those of the \
                 last hour: found {} of {found} bytes; allowed: less than {MOST_OF_TENANT} of less than {allowed} bytes",
                own.len()
            )
        }))
    }
}
