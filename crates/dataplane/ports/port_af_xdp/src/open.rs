//! From an interface to sockets on its queues: which modes are tried in which order, and what is told of it.

use crate::config::{Mode, UmemChoice, UnfinishedChecksums};
use crate::failure::{Failure, Step};
use crate::interface;
use crate::link::{Link, Parts};
use crate::notices::{self, Refused};
use crate::program::Program;
use crate::queue::Queue;
use crate::socket::{Binding, RingSizes, Socket, any_readable};
use crate::umem::Umem;
use crate::{OpenError, Settings};
use kernel_interface::{Inquiry, Presence, QueueCounts, features};
use packet_memory::{BufferSize, PageKind, Pool, PoolConfig};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The kernel's own limit on a ring is far above; this one bounds the memory that a setting can ask for.
const LARGEST_RING: u32 = 1 << 15;

/// A pool must stay usable: one port never lends more than one part in so many of it to receive into.
const RECEIVE_SHARE: u32 = 4;

/// Nor more than one part in so many to send.
const TRANSMIT_SHARE: u32 = 2;

/// Drivers of interfaces whose other end may be a kernel, which leaves checksums to "hardware".
const SOFTWARE_DRIVERS: [&str; 3] = ["veth", "tun", "virtio_net"];

/// Between two attempts at a queue that is in use.
const PAUSE: Duration = Duration::from_millis(5);

/// What is known of the interface before anything is tried.
struct Subject<'a> {
    settings: &'a Settings,
    pool: &'a Arc<Pool>,
    index: i32,
    queues: Vec<u32>,
    counts: Option<QueueCounts>,
}

/// Modes that share a program and memory: the second is what is left when the device refuses the first.
const ATTEMPTS: [&[Mode]; 2] = [&[Mode::ZeroCopy, Mode::Native], &[Mode::Generic]];

/// Opens the interface in the best mode that works. The kernel lets go of a queue a few milliseconds after a
/// socket was closed: so long, `patience`, a queue may be in use.
///
/// # Errors
/// [`OpenError`]; nothing stays attached.
pub(crate) fn open(
    inquiry: &Inquiry,
    settings: &Settings,
    pool: &Arc<Pool>,
    patience: Duration,
) -> Result<Link, OpenError> {
    let begin = Instant::now();
    loop {
        match open_once(inquiry, settings, pool) {
            Err(OpenError::QueueTaken { .. }) if begin.elapsed() < patience => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

fn open_once(inquiry: &Inquiry, settings: &Settings, pool: &Arc<Pool>) -> Result<Link, OpenError> {
    let subject = examine(inquiry, settings, pool)?;
    let name = settings.interface.as_str();
    let mut refused = Vec::new();
    for modes in ATTEMPTS {
        let wanted = |mode: &Mode| settings.mode.is_none_or(|only| only == *mode);
        let modes: Vec<Mode> = modes.iter().copied().filter(wanted).collect();
        if modes.is_empty() {
            continue;
        }
        match attempt(&subject, &modes, &mut refused) {
            Ok(mut link) => {
                link.mtu = mtu(inquiry, name);
                let driver = inquiry.driver(name);
                let software = SOFTWARE_DRIVERS.contains(&driver.as_str());
                link.finds_unfinished = match settings.unfinished_checksums {
                    UnfinishedChecksums::Auto => software,
                    UnfinishedChecksums::Find => true,
                    UnfinishedChecksums::Ignore => false,
                };
                link.notices.extend(notices::mode(name, link.mode, &refused));
                link.notices.extend(notices::segments(name, link.mode, software));
                link.notices.extend(notices::tags(name, inquiry.features(name) & features::RX_VLAN != 0));
                link.notices.extend(notices::room(name, &link));
                return Ok(link);
            }
            Err(failure) => {
                let told = |mode: &Mode| refused.iter().any(|(modes, _): &Refused| modes.contains(mode));
                let modes = modes.into_iter().filter(|mode| !told(mode)).collect();
                refused.push((modes, failure.judge(name)?));
            }
        }
    }
    Err(OpenError::NoMode { interface: name.to_owned(), tried: notices::tried(name, &refused) })
}

pub(crate) fn mtu(inquiry: &Inquiry, name: &str) -> u32 {
    // One that went away meanwhile is noticed when it is looked at; until then nothing is too long.
    inquiry.mtu(name).unwrap_or(u32::MAX / 2)
}

fn examine<'a>(
    inquiry: &Inquiry,
    settings: &'a Settings,
    pool: &'a Arc<Pool>,
) -> Result<Subject<'a>, OpenError> {
    let interface = || settings.interface.clone();
    let name = settings.interface.as_str();
    let system = |operation| move |source| OpenError::System { interface: interface(), operation, source };
    let Presence::Present { index, .. } = inquiry.presence(name).map_err(system("asking for its number"))?
    else {
        return Err(OpenError::NoInterface { interface: interface(), present: kernel_interface::present() });
    };
    let hardware_type = inquiry.hardware_type(name).map_err(system("asking for its kind"))?;
    if hardware_type != libc::ARPHRD_ETHER {
        return Err(OpenError::NotEthernet { interface: interface(), hardware_type });
    }
    let counts = inquiry.queues(name);
    let queues = choose_queues(settings.queues.as_deref(), counts).map_err(|what| {
        let QueueCounts { receive, transmit } = counts.unwrap_or(QueueCounts { receive: 1, transmit: 1 });
        OpenError::Queues { interface: interface(), what, receive, transmit }
    })?;
    Ok(Subject { settings, pool, index, queues, counts })
}

/// The queues to take; where the driver does not say how many there are, the kernel refuses what there is
/// not.
pub(crate) fn choose_queues(wanted: Option<&[u32]>, counts: Option<QueueCounts>) -> Result<Vec<u32>, String> {
    let Some(wanted) = wanted else {
        return Ok((0..counts.map_or(1, |counts| counts.receive)).collect());
    };
    let mut queues = wanted.to_vec();
    queues.sort_unstable();
    queues.dedup();
    if queues.is_empty() || queues.len() != wanted.len() {
        return Err(format!("`queues` must name at least one queue and none twice, not {wanted:?}"));
    }
    if let Some(counts) = counts {
        if let Some(absent) = queues.iter().find(|&&queue| queue >= counts.receive) {
            return Err(format!("there is no queue {absent}"));
        }
        if queues[0] >= counts.transmit {
            return Err(format!("none of the queues {queues:?} can send"));
        }
    }
    Ok(queues)
}

/// Opens the interface in the first of `modes` that the device takes; those that it refused are added to
/// `refused`.
fn attempt(subject: &Subject<'_>, modes: &[Mode], refused: &mut Vec<Refused>) -> Result<Link, Failure> {
    let Subject { settings, pool, index, queues, counts } = subject;
    let mut mode = modes[0];
    let last = queues.last().copied().unwrap_or(0);
    let program = Program::attach(*index, mode, last + 1)?;
    let sizes = RingSizes {
        receive: ring_size(settings.receive_ring),
        transmit: None,
        completion: ring_size(settings.transmit_ring),
    };
    let first = Socket::new().map_err(Failure::at(Step::Other("opening an AF_XDP socket")))?;
    let (mut umem, notice) = register(&first, subject, sizes)?;
    let share = |part: u32| match umem.is_tenants {
        true => (pool.config().buffers / part / queues.len() as u32).max(1),
        false => u32::MAX,
    };
    let (target, most_in_flight) = (sizes.receive.min(share(RECEIVE_SHARE)), share(TRANSMIT_SHARE));
    let mut opened: Vec<Queue> = Vec::with_capacity(queues.len());
    let mut next = Some(first);
    for &number in queues {
        let socket = match next.take() {
            Some(first) => first,
            None => Socket::new().map_err(Failure::at(Step::Other("opening an AF_XDP socket")))?,
        };
        let transmit = counts.is_none_or(|counts| number < counts.transmit).then_some(sizes.completion);
        let rings = socket
            .make_rings(RingSizes { transmit, ..sizes })
            .map_err(Failure::at(Step::Other("making the rings of an AF_XDP socket")))?;
        match opened.first() {
            None => mode = bind_first(&socket, *index, number, modes, refused)?,
            Some(first) => socket
                .bind(*index, number, Binding::Sharing(first.socket()))
                .map_err(Failure::at(Step::Bind(number)))?,
        }
        opened.push(Queue::new(socket, rings, mode, target, most_in_flight));
    }
    for queue in &mut opened {
        queue.refill(&mut umem);
    }
    for (queue, &number) in opened.iter().zip(queues) {
        program.enter(number, queue.socket().as_fd())?;
    }
    let several = match opened.len() {
        1 => None,
        _ => Some(
            any_readable(opened.iter().map(Queue::socket))
                .map_err(Failure::at(Step::Other("making one descriptor of several")))?,
        ),
    };
    let promiscuous = match settings.promiscuous {
        true => Some(
            interface::promiscuous(*index)
                .map_err(Failure::at(Step::Other("making the interface promiscuous")))?,
        ),
        false => None,
    };
    let parts = Parts { index: *index, mode, program, umem, queues: opened, several, promiscuous };
    Ok(Link::new(parts, notice))
}

/// Binds the first socket in the first mode that the device takes. A socket that was refused can be bound
/// once more.
fn bind_first(
    socket: &Socket,
    index: i32,
    queue: u32,
    modes: &[Mode],
    refused: &mut Vec<Refused>,
) -> Result<Mode, Failure> {
    let (last, better) = modes.split_last().unwrap_or((&Mode::Generic, &[]));
    let bind = |mode: Mode| {
        socket
            .bind(index, queue, Binding::First { zero_copy: mode == Mode::ZeroCopy })
            .map_err(Failure::at(Step::Bind(queue)))
    };
    for &mode in better {
        match bind(mode) {
            Ok(()) => return Ok(mode),
            Err(failure) => refused.push((vec![mode], failure)),
        }
    }
    bind(*last).map(|()| *last)
}

/// Registers the pool as the socket's UMEM, or memory of the port's own where that is wanted or the kernel
/// insists.
fn register(
    socket: &Socket,
    subject: &Subject<'_>,
    sizes: RingSizes,
) -> Result<(Umem, Option<String>), Failure> {
    let Subject { settings, pool, queues, .. } = subject;
    let name = settings.interface.as_str();
    let mut notice = None;
    if settings.umem == UmemChoice::Pool {
        let umem = Umem::new(Arc::clone(pool), true);
        let failure = match socket.register(pool.memory(), umem.chunk(), umem.headroom()) {
            Ok(()) => return Ok((umem, None)),
            Err(source) => Failure { step: Step::Register("the pool"), source },
        };
        notice = Some(format!(
            "interface `{name}`: {}; memory of the port's own is used instead, with one copy of each packet in and one \
             out",
            failure.reason(name)
        ));
    }
    // Enough for everything that can be in the rings, so that this pool is never empty.
    let buffers = (sizes.receive + 2 * sizes.completion).saturating_mul(queues.len() as u32);
    let buffer_size = if pool.buffer_size() > 2048 { 4096 } else { 2048 };
    let huge = u64::from(buffers) * u64::from(buffer_size) >= PageKind::Huge.size() as u64;
    let config = PoolConfig {
        buffers,
        buffer_size: BufferSize::new(buffer_size).unwrap_or(BufferSize::DEFAULT),
        headroom: 0,
        // Where it is a small part of one, a huge page is a waste, of locked memory also.
        pages: if huge { None } else { Some(PageKind::Ordinary) },
    };
    let own = Pool::new(&format!("port {name}"), config).map_err(|error| {
        Failure::at(Step::Other("making memory of the port's own"))(io::Error::other(error))
    })?;
    let umem = Umem::new(Arc::new(own), false);
    socket
        .register(umem.pool().memory(), umem.chunk(), umem.headroom())
        .map_err(Failure::at(Step::Register("memory of the port's own")))?;
    Ok((umem, notice))
}

fn ring_size(wanted: u32) -> u32 {
    wanted.clamp(1, LARGEST_RING).next_power_of_two()
}
