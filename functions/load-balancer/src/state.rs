//! What goes over to another instance. The first byte of an entry's key says what it is of:
//!
//! | | key | value |
//! |---|---|---|
//! | 0, a service | number (2) | address (16), version of IP (1: 0 is IPv4), protocol (1), first port (2) |
//! | 1, a server | number (2) | service (2), address (16), port (2), up (1), answers and failures in a row (1, 1) |
//! | 2, a connection | version (1), client (16), ports (4), server (2) | state (1), ticks left (4), acknowledgment (4) |
//! | 3, a client | version (1), client (16), service (2) | server (2), ticks left (4) |
//!
//! All little-endian, addresses as packets have them. Services and servers are the exporter's; what has no
//! counterpart in this configuration is left out, with its connections.

use crate::LoadBalancer;
use crate::affinity::Known;
use crate::balancer::Balancer;
use crate::connection::{Key, State, at};
use crate::ends::{Words, kind, words};
use alloc::vec;
use alloc::vec::Vec;
use nf_sdk::wire::{TCP, UDP};
use nf_sdk::{StateReader, StateWriter};

const SERVICE: u8 = 0;
const SERVER: u8 = 1;
const CONNECTION: u8 = 2;
const CLIENT: u8 = 3;
/// Stands for a number without a counterpart.
const NONE: u16 = u16::MAX;

fn put_words(bytes: &mut Vec<u8>, words: &Words) {
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// Reads an entry from its beginning.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn half(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn words(&mut self) -> Option<Words> {
        Some([self.word()?, self.word()?, self.word()?, self.word()?])
    }

    fn flag(&mut self) -> Option<bool> {
        self.byte().filter(|byte| *byte <= 1).map(|byte| byte == 1)
    }

    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Writes everything; false when the host takes no more.
pub(crate) fn export(function: &LoadBalancer, out: &mut StateWriter<'_>) -> bool {
    let LoadBalancer { balancer, checks, .. } = function;
    let Balancer { services, connections, affinity, .. } = balancer;
    for (number, service) in services.all.iter().enumerate() {
        let mut key = vec![SERVICE];
        key.extend((number as u16).to_le_bytes());
        let mut value = vec![];
        put_words(&mut value, &service.words);
        value.extend([u8::from(service.is_v6()), service.settings.protocol]);
        value.extend(service.settings.ports.0.to_le_bytes());
        if !out.entry(&key, &value) {
            return false;
        }
    }
    for (number, (server, rewrite)) in services.servers.iter().zip(&services.rewrites).enumerate() {
        let mut key = vec![SERVER];
        key.extend((number as u16).to_le_bytes());
        let mut value = vec![];
        value.extend(rewrite.service.to_le_bytes());
        put_words(&mut value, &words(server.address));
        value.extend(server.port.unwrap_or(0).to_le_bytes());
        let health = checks.health.get(number).copied().unwrap_or_default();
        value.extend([u8::from(rewrite.is_up), health.good, health.bad]);
        if !out.entry(&key, &value) {
            return false;
        }
    }
    let (mut key_bytes, mut value) = (vec![], vec![]);
    for number in 1..connections.bound() {
        let Some(state) = connections.state(number).filter(|_| !connections.is_over(number)) else {
            continue;
        };
        let (key, words) = (connections.key(number), connections.get(number));
        key_bytes.clear();
        key_bytes.extend([CONNECTION, u8::from(key.is_v6)]);
        put_words(&mut key_bytes, &key.client);
        key_bytes.extend(key.ports.to_le_bytes());
        key_bytes.extend(connections.server(number).to_le_bytes());
        value.clear();
        value.push(state as u8);
        value.extend(words[at::EXPIRES].wrapping_sub(connections.now).to_le_bytes());
        value.extend(words[at::EXPECTED].to_le_bytes());
        if !out.entry(&key_bytes, &value) {
            return false;
        }
    }
    affinity.iter(connections.now).all(|known| {
        let is_v6 = services.get(known.service).is_some_and(|service| service.is_v6());
        let mut key = vec![CLIENT, u8::from(is_v6)];
        put_words(&mut key, &known.client);
        key.extend(known.service.to_le_bytes());
        let mut value = vec![];
        value.extend(known.server.to_le_bytes());
        value.extend(known.expires.wrapping_sub(connections.now).to_le_bytes());
        out.entry(&key, &value)
    })
}

/// Numbers here by the exporter's.
#[derive(Default)]
struct Numbers {
    services: Vec<u16>,
    servers: Vec<u16>,
}

fn set(numbers: &mut Vec<u16>, number: u16, here: u16) {
    let place = usize::from(number);
    if numbers.len() <= place {
        numbers.resize(place + 1, NONE);
    }
    numbers[place] = here;
}

fn get(numbers: &[u16], number: u16) -> Option<u16> {
    numbers.get(usize::from(number)).copied().filter(|number| *number != NONE)
}

/// Takes everything over that this configuration has a place for. False, and there are no connections, when
/// an entry is not what [`export`] writes.
pub(crate) fn import(function: &mut LoadBalancer, entries: &mut StateReader<'_>) -> bool {
    let mut numbers = Numbers::default();
    while let Some((key, value)) = entries.next() {
        if take(function, &mut numbers, key, value).is_none() {
            clear(&mut function.balancer);
            return false;
        }
    }
    if entries.is_broken() {
        clear(&mut function.balancer);
    }
    !entries.is_broken()
}

fn clear(balancer: &mut Balancer) {
    for number in 1..balancer.connections.bound() {
        if balancer.connections.state(number).is_some() {
            balancer.close(number);
        }
    }
}

fn take(function: &mut LoadBalancer, numbers: &mut Numbers, key: &[u8], value: &[u8]) -> Option<()> {
    let (mut key, mut value) = (Reader(key), Reader(value));
    let LoadBalancer { balancer, checks, .. } = function;
    match key.byte()? {
        SERVICE => {
            let (number, address, is_v6) = (key.half()?, value.words()?, value.flag()?);
            let protocol = value.byte().filter(|protocol| matches!(*protocol, TCP | UDP))?;
            let here = balancer.services.virtual_ends.find(&address, kind(protocol, is_v6), value.half()?);
            set(&mut numbers.services, number, here.unwrap_or(NONE));
        }
        SERVER => {
            let (number, service, address, port) =
                (key.half()?, value.half()?, value.words()?, value.half()?);
            let (is_up, good, bad) = (value.flag()?, value.byte()?, value.byte()?);
            let services = &mut balancer.services;
            let here = get(&numbers.services, service).and_then(|service| {
                services.get(service)?.servers.clone().find(|number| {
                    let server = services.servers.get(usize::from(*number));
                    server.is_some_and(|server| {
                        words(server.address) == address && server.port.unwrap_or(0) == port
                    })
                })
            });
            set(&mut numbers.servers, number, here.unwrap_or(NONE));
            if let Some(here) = here {
                let has_check = services
                    .rewrite(here)
                    .and_then(|server| services.get(server.service))
                    .is_some_and(|service| service.settings.check.is_some());
                // What nothing checks is up.
                if !is_up && has_check {
                    services.set_up(here, false);
                }
                if let Some(health) = checks.health.get_mut(usize::from(here)) {
                    (health.good, health.bad) = (good, bad);
                }
            }
        }
        CONNECTION => {
            let (is_v6, client, ports, server) = (key.flag()?, key.words()?, key.word()?, key.half()?);
            let state = State::of(u32::from(value.byte()?))?;
            let (left, expected) = (value.word()?, value.word()?);
            let known = get(&numbers.servers, server).and_then(|server| {
                let service = balancer.services.rewrite(server)?.service;
                let running = balancer.services.get(service)?;
                let of_protocol = match state {
                    State::Opening => running.settings.protocol == TCP || running.settings.is_direct,
                    State::OneSided => !running.settings.is_direct,
                    State::Udp => running.settings.protocol == UDP,
                    _ => running.settings.protocol == TCP,
                };
                // The port that the client sends to may be the service's no more.
                let port = ((ports >> 16) as u16).swap_bytes();
                let (first, last) = running.settings.ports;
                let fits = of_protocol && running.is_v6() == is_v6 && (first..=last).contains(&port);
                (fits && (is_v6 || client[1..] == [0; 3])).then_some((server, service))
            });
            let takes = !state.is_half_open() || balancer.connections.takes_half_open();
            if let Some((server, service)) = known.filter(|_| takes) {
                let key = Key { client, ports, service, is_v6 };
                if balancer.find(&key).is_none()
                    && let Some(number) = balancer.open(&key, server, state)
                {
                    balancer.connections.set_left(number, left);
                    if state == State::Answered {
                        balancer.connections.answered(number, expected);
                    }
                }
            }
        }
        CLIENT => {
            let (is_v6, client, service) = (key.flag()?, key.words()?, key.half()?);
            let (server, left) = (value.half()?, value.word()?);
            let service = get(&numbers.services, service);
            let known = service.zip(get(&numbers.servers, server)).filter(|(service, _)| {
                let running = balancer.services.get(*service);
                running.is_some_and(|running| {
                    let notes = running.settings.affinity.is_some() && !running.settings.is_direct;
                    running.is_v6() == is_v6 && notes
                })
            });
            if let Some((service, server)) = known {
                let now = balancer.connections.now;
                let expires = now.wrapping_add(left.min(1 << 30));
                balancer.affinity.note(&Known { client, service, server, expires }, now);
            }
        }
        _ => return None,
    }
    key.end()?;
    value.end()?;
    Some(())
}
