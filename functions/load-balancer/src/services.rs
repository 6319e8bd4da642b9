//! Services and their servers: which ones an end is of, which servers are up, and how a packet for each is
//! written.
//!
//! Servers are numbered over all services. What the usual packet needs of one is in its [`Rewrite`];
//! everything else stands apart.

use crate::ends::{End, Ends, Words, kind, words};
use crate::least::{self, Tournament};
use crate::maglev::{self, Maglev, Member};
use crate::settings::{Choice, Server, Service};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::Range;
use nf_sdk::wire::{folded, gain, gain_half};

/// Places of tables that one call makes anew, at least: a table of them takes some 3 ms.
const REFRESHED: usize = 65_537;

/// How a frame gets its Ethernet addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// They stay.
    #[default]
    AsIs,
    /// The destination, then the source.
    Known([u8; 12]),
    /// The destination; the source is what the destination was.
    Onward([u8; 6]),
    /// They are not known: the next hop has to be asked for.
    Unknown,
}

/// How packets for a server, and from it, are written. Addresses and ports are as packets have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// IPv4 address of the server, 0 for IPv6.
    pub server: u32,
    /// IPv4 virtual address.
    pub virtual_address: u32,
    /// The server's port; 0: ports stay.
    pub server_port: u16,
    /// The service's.
    pub virtual_port: u16,
    /// What a sum over the addresses gains towards the server.
    pub network: u16,
    /// What a sum over addresses and ports gains.
    pub transport: u16,
    /// The server is up.
    pub is_up: bool,
    /// Answers do not pass, and IP stays as it is.
    pub is_direct: bool,
    /// The service.
    pub service: u16,
    /// Ethernet addresses.
    pub way: Way,
}

/// A service as it runs.
pub struct Running {
    /// What the configuration says.
    pub settings: Service,
    /// Words of the virtual address.
    pub words: Words,
    /// Its servers.
    pub servers: Range<u16>,
    maglev: Maglev,
    least: Option<Tournament>,
    /// Servers that new connections may go to, in order: what a stale table does not lead to is chosen among
    /// them.
    takers: Vec<u16>,
    /// A server has come up or gone down since the table was made.
    is_stale: bool,
}

impl Running {
    /// Its addresses are of IPv6.
    pub fn is_v6(&self) -> bool {
        self.settings.address.is_ipv6()
    }
}

/// All services.
pub struct Services {
    /// By number.
    pub all: Vec<Running>,
    /// Servers by number.
    pub servers: Vec<Server>,
    /// What the usual packet needs of them.
    pub rewrites: Vec<Rewrite>,
    /// Connections of each.
    pub connections: Vec<u32>,
    /// Services by virtual end.
    pub virtual_ends: Ends,
    /// Servers whose answers pass, by their end.
    pub server_ends: Ends,
    /// Services whose table is stale.
    stale: usize,
    has_direct: bool,
}

impl Services {
    /// Of the configuration; all servers are up.
    ///
    /// # Errors
    /// What contradicts itself.
    pub fn new(settings: Vec<Service>) -> Result<Services, String> {
        let (mut all, mut servers, mut rewrites) = (Vec::new(), Vec::new(), Vec::new());
        let (mut virtual_ends, mut server_ends): (Vec<End>, Vec<End>) = (Vec::new(), Vec::new());
        for (number, service) in settings.into_iter().enumerate() {
            let kind = kind(service.protocol, service.address.is_ipv6());
            let virtual_words = words(service.address);
            virtual_ends.push((virtual_words, kind, service.ports.0, service.ports.1, number as u16));
            let begin = servers.len() as u16;
            for server in &service.servers {
                let (first, last) = server.port.map_or(service.ports, |port| (port, port));
                if !service.is_direct {
                    server_ends.push((words(server.address), kind, first, last, servers.len() as u16));
                }
                rewrites.push(rewrite(&service, server, number as u16));
                servers.push(server.clone());
            }
            let least =
                (service.choose == Choice::LeastLoaded).then(|| Tournament::new(service.servers.len()));
            let servers = begin..servers.len() as u16;
            all.push(Running {
                settings: service,
                words: virtual_words,
                servers,
                maglev: Maglev::default(),
                least,
                takers: Vec::new(),
                is_stale: false,
            });
        }
        let name =
            |number: u16| all.get(usize::from(number)).map_or("", |service: &Running| &service.settings.name);
        let virtual_ends = Ends::new(virtual_ends).map_err(|(a, b)| {
            format!("services: `{}` and `{}` share an address and port", name(a), name(b))
        })?;
        let server_ends = Ends::new(server_ends).map_err(|(a, b)| {
            let of = |number: u16| rewrites.get(usize::from(number)).map_or("", |server: &Rewrite| name(server.service));
            let address = servers.get(usize::from(a)).map(|server: &Server| server.address);
            format!(
                "services: `{}` and `{}` share the server {} and its port, so that its answers could be of either; \
                 allowed are different ports, or `forward: direct`",
                of(a),
                of(b),
                address.map(|address| format!("{address}")).unwrap_or_default()
            )
        })?;
        let connections = alloc::vec![0; servers.len()];
        let has_direct = all.iter().any(|service| service.settings.is_direct);
        let mut services =
            Services { all, servers, rewrites, connections, virtual_ends, server_ends, stale: 0, has_direct };
        for number in 0..services.all.len() {
            let of_service = services.all.get(number).map_or(0..0, |running| running.servers.clone());
            let takers = of_service.filter(|server| services.takes_new(*server)).collect();
            if let Some(running) = services.all.get_mut(number) {
                running.takers = takers;
            }
            services.choose_among(number as u16);
        }
        Ok(services)
    }

    /// A service.
    pub fn get(&self, service: u16) -> Option<&Running> {
        self.all.get(usize::from(service))
    }

    /// Whether answers of one of them do not pass.
    pub fn has_direct(&self) -> bool {
        self.has_direct
    }

    /// What the usual packet needs of a server.
    #[inline(always)]
    pub fn rewrite(&self, server: u16) -> Option<&Rewrite> {
        self.rewrites.get(usize::from(server))
    }

    /// Whether a server is up.
    pub fn is_up(&self, server: u16) -> bool {
        self.rewrite(server).is_some_and(|server| server.is_up)
    }

    /// A server's port, of a client that sends to `port`, in host order.
    pub fn port(&self, server: u16, port: u16) -> u16 {
        self.servers.get(usize::from(server)).and_then(|server| server.port).unwrap_or(port)
    }

    /// A server's address and port, for people.
    pub fn name(&self, server: u16) -> String {
        let Some(known) = self.servers.get(usize::from(server)) else { return String::new() };
        match (known.port, known.address) {
            (None, address) => format!("{address}"),
            (Some(port), address) => format!("{}", SocketAddr::new(address, port)),
        }
    }

    /// Whether new connections may go to a server.
    pub fn takes_new(&self, server: u16) -> bool {
        self.is_up(server) && self.servers.get(usize::from(server)).is_some_and(|server| server.weight > 0)
    }

    /// Makes what a service chooses its servers by.
    fn choose_among(&mut self, service: u16) {
        let Some(running) = self.all.get(usize::from(service)) else { return };
        let size = maglev::size(running.servers.len());
        let members = running.servers.clone().filter_map(|number| self.member(number));
        let mut members: Vec<Member> = members.collect();
        // Balancers whose lists are in another order choose alike.
        members.sort_unstable_by_key(|member| member.name);
        let loads: Vec<u64> = running.servers.clone().map(|number| self.load(number)).collect();
        let Some(running) = self.all.get_mut(usize::from(service)) else { return };
        running.maglev = Maglev::new(size, &members);
        if let Some(least) = &mut running.least {
            for (number, load) in loads.into_iter().enumerate() {
                least.set(number as u16, load);
            }
        }
    }

    /// Whether there are tables to be made anew.
    #[inline(always)]
    pub fn has_stale(&self) -> bool {
        self.stale > 0
    }

    /// Makes stale tables anew, as many as one call has time for. Until then what they choose is passed over.
    #[cold]
    pub fn refresh(&mut self) {
        let mut places = 0;
        for number in 0..self.all.len() {
            let Some(running) = self.all.get_mut(number).filter(|running| running.is_stale) else { continue };
            if places >= REFRESHED {
                break;
            }
            running.is_stale = false;
            self.stale -= 1;
            places += maglev::size(running.servers.len());
            self.choose_among(number as u16);
        }
    }

    fn member(&self, number: u16) -> Option<Member> {
        let server = self.servers.get(usize::from(number)).filter(|_| self.takes_new(number))?;
        let name = maglev::name(words(server.address), server.port.unwrap_or(0));
        Some(Member { number, name, weight: u32::from(server.weight) })
    }

    fn load(&self, number: u16) -> u64 {
        let place = usize::from(number);
        match (self.servers.get(place), self.connections.get(place)) {
            (Some(server), Some(connections)) if self.is_up(number) => {
                least::load(*connections, server.weight)
            }
            _ => least::NEVER,
        }
    }

    /// A server has come up or gone down.
    pub fn set_up(&mut self, server: u16, is_up: bool) {
        let Some(rewrite) = self.rewrites.get_mut(usize::from(server)) else { return };
        rewrite.is_up = is_up;
        let service = usize::from(rewrite.service);
        let (load, takes_new) = (self.load(server), self.takes_new(server));
        let Some(running) = self.all.get_mut(service) else { return };
        match running.takers.binary_search(&server) {
            Ok(place) if !takes_new => drop(running.takers.remove(place)),
            Err(place) if takes_new => running.takers.insert(place, server),
            _ => {}
        }
        if let Some(least) = &mut running.least {
            least.set(server - running.servers.start, load);
        }
        self.stale += usize::from(!core::mem::replace(&mut running.is_stale, true));
    }

    /// The server of a hash, wherever its connections are; `None` at once when new connections may go to
    /// none.
    pub fn by_hash(&self, service: u16, hash: u64) -> Option<u16> {
        let running = self.get(service)?;
        let count = running.takers.len() as u64;
        if count == 0 {
            return None;
        }
        if !running.is_stale {
            return running.maglev.choose(hash, |_| true);
        }
        // The table may have no place of a server that has come up since.
        let any = || running.takers.get((((hash >> 32) * count) >> 32) as usize).copied();
        running.maglev.choose(hash, |server| self.takes_new(server)).or_else(any)
    }

    /// The server of a new connection with this hash.
    pub fn for_new(&self, service: u16, hash: u64) -> Option<u16> {
        let running = self.get(service)?;
        match &running.least {
            Some(least) => least.best().map(|number| running.servers.start + number),
            None => self.by_hash(service, hash),
        }
    }

    /// A server has a connection more, or one less.
    pub fn count(&mut self, server: u16, more: bool) {
        let Some(count) = self.connections.get_mut(usize::from(server)) else { return };
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        let load = self.load(server);
        let Some(service) = self.rewrite(server).map(|server| server.service) else { return };
        if let Some(running) = self.all.get_mut(usize::from(service))
            && let Some(least) = &mut running.least
        {
            least.set(server - running.servers.start, load);
        }
    }
}

fn rewrite(service: &Service, server: &Server, number: u16) -> Rewrite {
    let mut rewrite = Rewrite {
        is_up: true,
        is_direct: service.is_direct,
        service: number,
        way: match server.mac {
            Some(mac) => Way::Onward(mac),
            None if service.is_direct => Way::Unknown,
            None => Way::AsIs,
        },
        ..Rewrite::default()
    };
    if service.is_direct {
        return rewrite;
    }
    if service.address.is_ipv4() {
        (rewrite.server, rewrite.virtual_address) = (words(server.address)[0], words(service.address)[0]);
    }
    let mut ports = 0;
    if let Some(port) = server.port {
        (rewrite.server_port, rewrite.virtual_port) = (port.swap_bytes(), service.ports.0.swap_bytes());
        ports = gain_half(rewrite.virtual_port, rewrite.server_port);
    }
    rewrite.network = gain(rewrite.virtual_address, rewrite.server);
    rewrite.transport = folded(u32::from(rewrite.network) + u32::from(ports));
    rewrite
}
