//! What all requests share.

use crate::audit::Audit;
use crate::body::room;
use crate::control::Control;
use crate::counts::Counts;
use crate::notices::Notices;
use crate::operations::Operations;
use crate::owners::Owners;
use crate::places::Places;
use crate::rooms::Rooms;
use crate::settings::{Limits, Settings};
use crate::spare::Spare;
use crate::tokens::Tokens;
use bytes::Bytes;
use std::sync::Arc;
use store::{Store, Subscription};
use tokio::sync::{Mutex, Semaphore, watch};

/// Tenants that read what takes a thread, at a time: half of the threads stay for administrators.
const TENANTS_READING: usize = 4;

/// Requests of readers of the host that take a thread, at a time. Tenants take none of them.
const READERS_READING: usize = 2;

/// What all requests share.
pub(crate) struct State {
    pub store: Arc<Store>,
    pub control: Arc<dyn Control>,
    /// Held by whoever changes something, from reading what there is until it is changed.
    pub changing: Arc<Mutex<()>>,
    /// Held by the one tenant that waits for [`changing`](State::changing), or has it.
    pub tenants_turn: Arc<Semaphore>,
    /// Held by tenants that read what takes a thread.
    pub tenants_reading: Arc<Semaphore>,
    /// Held by readers of the host likewise.
    pub readers_reading: Arc<Semaphore>,
    pub notices: Notices,
    pub operations: Operations,
    pub audit: Audit,
    pub counts: Counts,
    pub bodies: Arc<Semaphore>,
    /// Of each tenant.
    pub tenants_bodies: Places,
    /// Of readers of the host, whose requests have none: what they send all the same takes nothing of the others' room.
    pub readers_bodies: Arc<Semaphore>,
    pub rooms: Arc<Rooms>,
    pub spare: Spare,
    pub tokens: Tokens,
    pub owners: Owners,
    pub limits: Limits,
    pub version: String,
    pub started: String,
    pub openapi: Bytes,
    /// Who is told of calls and their steps.
    pub spans: Option<spans::Exporter>,
    /// The last revision, for those who follow.
    pub revision: watch::Sender<u64>,
    /// True when the server ends: streams do then, too.
    pub ending: watch::Sender<bool>,
    _told: Subscription,
}

impl State {
    pub fn new(
        store: Arc<Store>,
        control: Arc<dyn Control>,
        settings: &Settings,
        audit: Audit,
        spans: Option<spans::Exporter>,
        (tokens, owners): (Tokens, Owners),
    ) -> State {
        let revision = watch::Sender::new(store.revision().0);
        let told = {
            let revision = revision.clone();
            store.subscribe(move |committed| {
                revision.send_if_modified(|last| {
                    let newer = committed.0 > *last;
                    *last = committed.0.max(*last);
                    newer
                });
            })
        };
        State {
            store,
            control,
            changing: Arc::default(),
            tenants_turn: Arc::new(Semaphore::new(1)),
            tenants_reading: Arc::new(Semaphore::new(TENANTS_READING)),
            readers_reading: Arc::new(Semaphore::new(READERS_READING)),
            notices: Notices::new(),
            operations: Operations::new(&settings.limits),
            audit,
            counts: Counts::default(),
            bodies: Arc::new(Semaphore::new(room(settings.limits.all_bodies_bytes, &settings.limits))),
            tenants_bodies: Places::new(room(settings.limits.tenant_bodies_bytes, &settings.limits)),
            readers_bodies: Arc::new(Semaphore::new(room(0, &settings.limits))),
            rooms: Arc::new(Rooms::new(&settings.limits)),
            spare: Spare::new(),
            tokens,
            owners,
            limits: settings.limits.clone(),
            version: settings.version.clone(),
            started: crate::time::now(),
            spans,
            openapi: Bytes::from(crate::openapi::document().to_string()),
            revision,
            ending: watch::Sender::new(false),
            _told: told,
        }
    }
}
