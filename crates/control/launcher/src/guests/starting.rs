//! Starting a guest: what it is refused for, its name and its interfaces taken for it, and the runtime asked.

use super::{Entry, Guests, own, reader};
use crate::images::{Unpacked, passable};
use crate::keeper::{keeper_of, owner_of};
use crate::permits::Files;
use crate::record::{self, Record, hold, start_time};
use crate::request::{KvmUse, Start, State};
use crate::{Refusal, bundle, image_program, interfaces, probe, program, runtime, watch};
use container_image::Digest;
use rustix::fs::{CWD, FileType, Gid, Mode, OFlags, Uid};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

impl Guests {
    /// Starts a guest for the client of this user; it runs when this returns.
    pub(crate) fn start(self: &Arc<Guests>, start: &Start, client: u32) -> Result<(), Refusal> {
        let permitted = self.permits.check(start)?;
        self.reserve(start, permitted.guests)?;
        let started = self.carry_out(start, client, &permitted);
        if let Err(refused) = started {
            self.remove_taps(&start.name);
            let state = self.table().guests.get(&start.name).map(|entry| entry.state.clone());
            // Until it was given them, what has their names is another's.
            let given = matches!(state, Some(State::Attached | State::Running { .. }));
            self.clear(&start.name, if given { &start.interfaces } else { &[] });
            let mut table = self.table();
            table.guests.remove(&start.name);
            self.note(&mut table);
            let _ = fs::remove_dir_all(self.folder.join(&start.name));
            self.sockets.leave(start.folder());
            return Err(refused);
        }
        Ok(())
    }

    /// Whether a guest may be started, as far as that shows without starting it: what its layers hold, unless
    /// they are unpacked already, and how many guests there are by then, is found out when it is.
    pub(crate) fn check(&self, start: &Start) -> Result<(), Refusal> {
        let permitted = self.permits.check(start)?;
        self.runtime.is_there()?;
        runtime::has_namespaces(Path::new("/proc/sys/user"))?;
        if start.kvm == KvmUse::Required {
            self.kvm_works(&permitted).map_err(without_kvm)?;
        }
        bundle::check_mounts(start, &permitted)?;
        match permitted.files {
            Files::Image(layout, pinned) => {
                let (config, root) =
                    self.images.known(&start.tenant, permitted.uids, layout, pinned.as_ref())?;
                bundle::check(start, &config)?;
                let Some(root) = root else { return Ok(()) };
                let found = image_program::is_there(&root, start, &config);
                // Another start may have taken its room meanwhile.
                if root.exists() { found } else { Ok(()) }
            }
            Files::Host(_) => program::is_there(start),
        }
    }

    /// Takes the name, and the names of the interfaces, for this guest.
    fn reserve(&self, start: &Start, most: usize) -> Result<(), Refusal> {
        let is_left = |table: &super::Table| !table.entered.contains_key(&start.name);
        let (_changing, mut table) = self.claim(&start.name, is_left)?;
        if table.closing {
            return Err(Refusal::new("the launcher ends; allowed: to ask the next one"));
        }
        let alive = |entry: &&Entry| !matches!(entry.state, State::Ended(_));
        if let Some(there) = table.guests.get(&start.name).filter(alive) {
            let tenant = &there.start.tenant;
            return Err(Refusal::new(format!(
                "name: `{}`, of the tenant `{tenant}`, runs; allowed: a name of its own, or stop that one first",
                start.name
            )));
        }
        let others = || table.guests.values().filter(|entry| entry.start.name != start.name);
        let tenants = others().filter(alive).filter(|entry| entry.start.tenant == start.tenant).count();
        if tenants >= most {
            return Err(Refusal::new(format!(
                "tenant: `{}` has {tenants} guests; allowed by the launcher's file: {most}",
                start.tenant
            )));
        }
        // The folder's group is one tenant's.
        let shares = |entry: &&Entry| entry.start.folder() == start.folder();
        if let Some(other) = others().filter(shares).find(|entry| entry.start.tenant != start.tenant) {
            return Err(Refusal::new(format!(
                "sockets_of: the folder of `{}` is that of `{}`, of the tenant `{}`; allowed: one of the same tenant",
                start.folder(),
                other.start.name,
                other.start.tenant
            )));
        }
        for interface in interfaces::links(&start.interfaces) {
            let same = |it: &crate::Interface| it.outer == interface.outer;
            let taken = |entry: &Entry| interfaces::links(&entry.start.interfaces).any(same);
            if let Some(other) = others().find(|entry| taken(entry)) {
                return Err(Refusal::new(format!(
                    "interfaces: `{}` is the outer end of `{}`; allowed: one of its own",
                    interface.outer, other.start.name
                )));
            }
        }
        let entry = Entry {
            start: start.clone(),
            state: State::Starting,
            root: None,
            held: None,
            network: None,
            began: None,
            answered: false,
            condemned: None,
            share: None,
            log: Arc::default(),
        };
        table.guests.insert(start.name.clone(), entry);
        self.note(&mut table);
        Ok(())
    }

    /// The image of a container, unpacked.
    fn unpack(
        &self,
        start: &Start,
        uids: u32,
        (layout, pinned): (&OwnedFd, Option<&Digest>),
    ) -> Result<Unpacked, Refusal> {
        let layout = layout.try_clone().map_err(own)?;
        self.images.for_tenant(&start.tenant, |images| {
            let used: Vec<PathBuf> = self.table().guests.values().filter_map(Entry::used).collect();
            images.make_room(&used).map_err(own)?;
            let image = images.unpack(layout, pinned, uids, self.permits.image_size)?;
            image_program::is_there(&image.root, start, &image.config)?;
            if let Some(entry) = self.table().guests.get_mut(&start.name) {
                entry.root = Some(image.root.clone());
            }
            Ok(image)
        })
    }

    /// Whether a tenant's guests may use KVM, and can.
    fn kvm_works(&self, permitted: &crate::Permitted) -> Result<(), String> {
        match permitted.kvm {
            true => self.kvm.works(),
            false => Err("the launcher's file does not say `kvm: true` of the tenant's programs".to_owned()),
        }
    }

    /// The device of KVM for a guest that is to have it; `None` for one that runs without.
    fn kvm_for(&self, start: &Start, permitted: &crate::Permitted) -> Result<Option<PathBuf>, Refusal> {
        if start.kvm == KvmUse::No {
            return Ok(None);
        }
        let node = self.kvm_works(permitted).and_then(|()| {
            self.kvm.node(permitted.uids).map_err(|error| format!("the launcher's folder of it: {error}"))
        });
        match node {
            Ok(node) => Ok(Some(node)),
            Err(why) if start.kvm == KvmUse::Required => Err(without_kvm(why)),
            Err(why) => {
                if let Some(entry) = self.table().guests.get(&start.name) {
                    let mut log = entry.log.lock().unwrap_or_else(PoisonError::into_inner);
                    log.take(format!("superfluid: without {}: {why}\n", crate::kvm::DEVICE).as_bytes());
                }
                Ok(None)
            }
        }
    }

    fn carry_out(
        self: &Arc<Guests>,
        start: &Start,
        client: u32,
        permitted: &crate::Permitted,
    ) -> Result<(), Refusal> {
        // At first: the client makes its sockets meanwhile.
        let sockets = self.sockets.make(start.folder(), &start.interfaces, client, permitted.uids)?;
        let unpacked = match &permitted.files {
            Files::Image(layout, pinned) => {
                Some(self.unpack(start, permitted.uids, (layout, pinned.as_ref()))?)
            }
            Files::Host(_) => None,
        };
        let folder = self.folder.join(&start.name);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(own)?;
        }
        passable(&folder).map_err(own)?;
        let root = unpacked.as_ref().map(|image| image.root.clone());
        let programs = permitted.files.folders();
        let image = match unpacked {
            Some(image) => image,
            None => {
                let root = program::root(&folder, programs, permitted.uids).map_err(own)?;
                Unpacked { root, config: container_image::Config::default() }
            }
        };
        let kvm = self.kvm_for(start, permitted)?;
        let of_host = bundle::OfHost { programs, sockets: sockets.as_deref(), kvm: kvm.as_deref() };
        let group = if start.beside.is_some() { self.cgroups.beside() } else { self.cgroups.parent.clone() };
        bundle::write(&folder, &group, start, permitted, &image, &of_host)?;
        let (output, to) = pipe(&folder, permitted.uids).map_err(own)?;
        // Before anything runs: what is found without a process is ended.
        let mut record = Record { start: start.clone(), root, process: None };
        record.write(&folder).map_err(own)?;
        let pid_file = folder.join("pid");
        self.runtime.create(&start.name, &folder, &pid_file, &to)?;
        if start.beside.is_some() {
            self.cgroups.give_way_beside();
        }
        let pid = record::number(&pid_file).map_err(Refusal::of("the runtime's number of the process"))?;
        let (held, watched) = (hold(pid).map_err(own)?, hold(pid).map_err(own)?);
        record.process = start_time(pid).map(|began| (pid, began));
        record.write(&folder).map_err(own)?;
        let network = interfaces::network(pid).map_err(Refusal::of("its network namespace"))?;
        // What no keeper marked is its client's.
        let keeper = start.mark.as_deref().and_then(keeper_of);
        let owner = keeper.map_or_else(|| owner_of(&format!("user {client}")), owner_of);
        interfaces::give(&network, start, owner)?;
        let network = interfaces::taps(&start.interfaces).next().map(|_| Arc::new(network));
        // Whatever follows may open the outer ends while the program is started.
        {
            let mut table = self.table();
            if let Some(entry) = table.guests.get_mut(&start.name) {
                entry.network = network;
                entry.state = State::Attached;
            }
            self.note(&mut table);
        }
        self.sockets.wait(start.folder(), &start.interfaces);
        self.runtime.start(&start.name)?;
        let mut log = Arc::default();
        {
            let mut table = self.table();
            if let Some(entry) = table.guests.get_mut(&start.name) {
                entry.held = Some(held);
                entry.state = State::Running { pid };
                entry.began = record.process.map(|(_, began)| began);
                log = entry.log.clone();
            }
            self.note(&mut table);
        }
        // What is watched is ended by its watch: nothing that may fail follows.
        probe::begin(self, start, pid).map_err(own)?;
        watch::begin(self, &start.name, watched, output, log).map_err(own)
    }
}

/// One that is not to run without KVM.
fn without_kvm(why: String) -> Refusal {
    Refusal::new(format!("kvm: {} cannot be used ({why}); allowed: to run without it", crate::kvm::DEVICE))
}

/// The pipe of a guest's output: its reading end, and the one that the guest gets. That is open for reading
/// too, so that a guest that writes while no launcher runs waits and is not ended by SIGPIPE.
fn pipe(folder: &Path, uids: u32) -> io::Result<(File, File)> {
    let path = folder.join("output");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_bits_truncate(0o600), 0)?;
    let to = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::fchown(&to, Some(Uid::from_raw(uids)), Some(Gid::from_raw(uids)))?;
    Ok((reader(folder)?, to.into()))
}
