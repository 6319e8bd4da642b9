//! Devices as they are laid: what [`DeviceLayout`] says, in the engine's names.
//!
//! 1. [`DeviceChange::of`] compares what a plan leads to with what is laid, and makes what takes its time,
//!    before the workers are stopped. All that grows with the number of devices is done here.
//! 2. [`DeviceChange::take_off`] takes off what goes, before functions and ports go.
//! 3. [`DeviceChange::put_on`] makes programs anew and lays what comes, when functions and ports are there.
//!
//! The pair of ports in a striped bond ([`crate::stripes`]) stays as long as the bond is one, and its tenant
//! has the same memory: a bond that changes otherwise goes on with its numbers.

use crate::deployed::Deployed;
use crate::device_reading::Plugged;
use crate::stripes::{LaidStripe, Striped};
use classifier::Rule;
use engine::{Change, End, FleetError, Forwarding, SwitchId};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use virtual_device::{
    Device, DeviceCounters, DeviceSettings, Entered, NextHop, Opener as DeviceOpener, Policies, PortDevices,
    SwitchPort, Tunnels,
};
use wiring::{
    DeviceLayout, Edge, Endpoint, Joint, Link, Opener, Opening, Plan, PortPolicy, Service, Shadowed,
    WatchedDevices, striped,
};

/// What is laid.
#[derive(Default)]
pub(crate) struct LaidDevices {
    /// Devices and classifiers.
    nodes: HashMap<Joint, Node>,
    /// Wires, with the plug at either end that is in a device or classifier.
    links: BTreeMap<Link, [SwitchPort; 2]>,
    /// The plug by which packets for a service come into a device.
    services: BTreeMap<(String, Service), SwitchPort>,
    /// What is in each striped bond.
    pub(crate) stripes: BTreeMap<String, LaidStripe>,
    /// Plugs that were given up in this change: none of them is given to another end in it, so that what was
    /// known of the former end is forgotten before.
    given_up: Vec<(Joint, SwitchPort)>,
    /// Where tunnels of devices lead to whose next hop is found out: by device and port, with the tunnel's
    /// other end.
    next_hops: HashMap<String, NextHops>,
    /// The openers of each device, as they are laid.
    openers: BTreeMap<String, Vec<(Opener, Opening)>>,
    /// Policies that lose packets to others, by either device.
    shadowed: BTreeMap<String, Vec<Shadowed>>,
    /// Some device took headers off packets, for which pools have places from then on.
    keeps_headers: bool,
    /// What decided before this change. It is given back when the workers go on.
    replaced: Vec<Forwarding>,
}

/// The other ends of a device's tunnels, by port, and the Ethernet addresses of the hops towards them.
pub(crate) type NextHops = BTreeMap<String, (IpAddr, Arc<NextHop>)>;

/// A device or classifier.
#[derive(Default)]
struct Node {
    taken: BTreeSet<u16>,
    /// What had come in by a plug before it was given to the end that it leads to.
    before: BTreeMap<u16, Entered>,
    /// What decides in it, and what the engine calls it.
    laid: Option<(SwitchId, Forwarding)>,
    /// Of a classifier: what it is made of.
    wanted: Vec<Wanted>,
}

/// What a device wants of a port.
#[derive(PartialEq)]
struct Wanted {
    device: String,
    policy: PortPolicy,
    /// It takes none.
    only_sees: bool,
}

impl Wanted {
    fn rule(&self) -> Rule {
        let PortPolicy { receive, priority, .. } = self.policy.clone();
        Rule { filter: receive, priority, class: 0, observes: self.only_sees }
    }
}

impl Node {
    /// The lowest number that no plug has.
    fn plug(&mut self) -> Option<SwitchPort> {
        let free = (0..=u16::MAX).find(|number| !self.taken.contains(number))?;
        self.taken.insert(free);
        let plug = SwitchPort(free);
        if let Some((_, Forwarding::Device(device))) = &self.laid {
            self.before.insert(free, device.entered(plug));
        }
        Some(plug)
    }

    /// What came in by a plug since it leads where it does.
    fn entered(&self, plug: SwitchPort) -> Option<Entered> {
        let Some((_, Forwarding::Device(device))) = &self.laid else { return None };
        let (now, before) = (device.entered(plug), self.before.get(&plug.0).copied().unwrap_or_default());
        Some(Entered {
            packets: now.packets.wrapping_sub(before.packets),
            bytes: now.bytes.wrapping_sub(before.bytes),
        })
    }
}

/// A change of what is laid.
pub(crate) struct DeviceChange {
    /// As they are laid.
    devices: IndexMap<String, wiring::Device>,
    /// Striped bonds whose pair of ports goes.
    unpaired: BTreeSet<String>,
    /// As it is laid then; its openers are those before when that is done.
    layout: DeviceLayout,
    unlink: BTreeSet<Link>,
    link: Vec<Link>,
    /// Devices and classifiers that go, and those that come.
    gone: Vec<Joint>,
    come: Vec<Joint>,
    /// Services that lead to a device no more.
    unserved: Vec<(String, Service)>,
    /// Devices whose program may be another one.
    touched: BTreeSet<String>,
    /// Of ports of which devices want something else, or others: by port.
    policies: BTreeMap<String, (Policies, Vec<Wanted>)>,
    /// As [`LaidDevices`] has them then, and had them before when that is done.
    shadowed: BTreeMap<String, Vec<Shadowed>>,
}

impl DeviceChange {
    /// Whether a device may have got another place or other plugs.
    pub(crate) fn touches(&self, device: &str) -> bool {
        self.touched.contains(device)
    }

    /// What a plan changes; `None`: nothing.
    pub(crate) fn of(deployed: &Deployed, plan: &Plan) -> Option<DeviceChange> {
        let there = &deployed.wiring.devices;
        let is_opening = |edge: &&Edge| edge.opening().is_some();
        // Functions that come to be observers, or cease to be.
        let turned = observers_turned(deployed, plan);
        let turns = |edge: &&Edge| edge.opening().is_some_and(|(end, _)| turned.contains(end.name()));
        // Mostly none: then no wire is looked at.
        let turning = (!turned.is_empty()).then(|| deployed.wiring.edges.iter().filter(turns));
        let turning = turning.into_iter().flatten();
        let opened = plan.unwire.iter().chain(&plan.wire).chain(turning).filter_map(Edge::opening);
        let ended = plan.remove_services.iter().filter_map(|service| deployed.wiring.services.get(service));
        let served = ended.chain(plan.add_services.values()).filter_map(|end| match end {
            Endpoint::Device(opening) => Some(opening),
            _ => None,
        });
        let named = opened.map(|(_, opening)| opening).chain(served).map(|opening| &opening.device);
        let watching = plan.observe.iter().chain(&plan.unobserve).filter_map(|seen| seen.at.device());
        let is_replaced_under =
            |device: &wiring::Device| plan.remove_ports.iter().any(|port| device.over.contains_key(port));
        // Without a port that goes no device is looked at, however many there are.
        let replaced_under = (!plan.remove_ports.is_empty())
            .then(|| there.iter().filter(|(_, device)| is_replaced_under(device)).map(|(name, _)| name));
        let touched = named.chain(replaced_under.into_iter().flatten());
        let touched = touched.chain(&plan.remove_devices).chain(plan.add_devices.keys());
        let mut touched: BTreeSet<String> = touched.cloned().collect();
        touched.extend(watching.map(str::to_owned));
        if touched.is_empty() {
            return None;
        }
        let of_links: Vec<String> = touched.iter().map(|name| striped::links(name)).collect();
        touched.extend(of_links);
        let mut devices: IndexMap<String, wiring::Device> = there
            .iter()
            .filter(|(name, _)| !plan.remove_devices.contains(*name))
            .chain(&plan.add_devices)
            .map(|(name, device)| (name.clone(), device.clone()))
            .collect();
        devices.sort_unstable_keys();
        let stays = |(name, stripe): &(&String, &LaidStripe)| {
            let same = |device: &wiring::Device| stripe.is_for(device, tenant_under(deployed, plan, device));
            devices.get(*name).is_some_and(same) && !plan.remove_tenants.contains(&stripe.tenant)
        };
        let laid = deployed.devices.stripes.iter();
        let unpaired: BTreeSet<String> =
            laid.filter(|one| !stays(one)).map(|(name, _)| name.clone()).collect();
        let ports_unpaired: BTreeSet<String> =
            unpaired.iter().flat_map(|name| [striped::inside(name), striped::outside(name)]).collect();
        let devices = striped::laid(devices);
        let stay = deployed.wiring.edges.iter().filter(|edge| !plan.unwire.contains(edge));
        let edges = stay.chain(&plan.wire).filter(is_opening);
        let stay = deployed.wiring.services.iter();
        let stay = stay.filter(|(service, _)| !plan.remove_services.contains(*service));
        let services = stay.chain(&plan.add_services);
        let stay = deployed.wiring.observations.iter().filter(|seen| !plan.unobserve.contains(*seen));
        let watched = WatchedDevices::of(stay.chain(&plan.observe));
        let layout = DeviceLayout::of(
            &devices,
            edges,
            services,
            |name| deployed.observes_by_name(name) != turned.contains(name),
            &watched,
        );
        let replaced = |joint: &Joint| match joint {
            Joint::End(end) => {
                let name = end.name();
                plan.remove_instances.contains(name)
                    || plan.remove_ports.contains(name)
                    || ports_unpaired.contains(name)
                    || turned.contains(name)
            }
            Joint::Device(_) | Joint::Classifier(_) => false,
        };
        let goes = |link: &&Link| !layout.links.contains(*link) || replaced(&link.0) || replaced(&link.1);
        let unlink: BTreeSet<Link> = deployed.devices.links.keys().filter(goes).cloned().collect();
        let stays = |link: &Link| deployed.devices.links.contains_key(link) && !unlink.contains(link);
        let link: Vec<Link> = layout.links.iter().filter(|link| !stays(link)).cloned().collect();
        let joints = unlink.iter().chain(&link).flat_map(|(a, b)| [a, b]);
        touched.extend(joints.filter_map(|joint| match joint {
            Joint::Device(name) => Some(name.clone()),
            Joint::End(_) | Joint::Classifier(_) => None,
        }));
        let (gone, come) = nodes_that_change(&deployed.devices, &layout);
        let serves = |(device, service): &&(String, Service)| {
            let mut openers = layout.devices.get(device).into_iter().flatten();
            openers.any(|(opener, _)| matches!(opener, Opener::Service(there) if there == service))
        };
        let unserved = deployed.devices.services.keys().filter(|service| !serves(service)).cloned().collect();
        let change = DeviceChange {
            devices,
            unpaired,
            unlink,
            link,
            gone,
            come,
            unserved,
            touched,
            layout,
            policies: BTreeMap::new(),
            shadowed: BTreeMap::new(),
        };
        let policies = change.policies(&deployed.devices);
        let shadowed = change.shadowed(deployed);
        Some(DeviceChange { policies, shadowed, ..change })
    }

    /// Classifiers of the ports where another one is needed.
    fn policies(&self, laid: &LaidDevices) -> BTreeMap<String, (Policies, Vec<Wanted>)> {
        let joints: BTreeSet<&Joint> =
            self.unlink.iter().chain(&self.link).flat_map(|(a, b)| [a, b]).collect();
        let mut found = BTreeMap::new();
        for (port, names) in &self.layout.classifiers {
            let joint = Joint::Classifier(port.clone());
            let is_linked_anew = joints.contains(&joint);
            // One that goes and had got no plug has no link that goes with it.
            let before = laid.nodes.get(&joint).into_iter().flat_map(|node| &node.wanted);
            let mut named = names.iter().chain(before.map(|wanted| &wanted.device));
            if !is_linked_anew && !named.any(|name| self.touched.contains(name)) {
                continue;
            }
            let wanted = names.iter().filter_map(|name| {
                let policy = self.devices.get(name)?.over.get(port)?.clone();
                let only_sees = self.layout.only_seeing.contains(&(name.clone(), port.clone()));
                Some(Wanted { device: name.clone(), policy, only_sees })
            });
            let wanted: Vec<Wanted> = wanted.collect();
            let same = |node: &Node| node.laid.is_some() && node.wanted == wanted;
            if is_linked_anew || !laid.nodes.get(&joint).is_some_and(same) {
                let rules = wanted.iter().map(Wanted::rule).collect();
                found.insert(port.clone(), (Policies::new(rules), wanted));
            }
        }
        found
    }

    /// What policies lose then: what is known of ports where nothing changes, and what is found of others.
    fn shadowed(&self, deployed: &Deployed) -> BTreeMap<String, Vec<Shadowed>> {
        let before = |name: &String| deployed.wiring.devices.get(name);
        let touched = self.touched.iter().flat_map(|name| [self.devices.get(name), before(name)]).flatten();
        let ports: BTreeSet<&str> =
            touched.flat_map(|device| device.over.keys()).map(String::as_str).collect();
        let there = |name: &str, port: &str| {
            self.devices.get(name).is_some_and(|device| device.over.contains_key(port))
        };
        let stays = |found: &&Shadowed| {
            let Shadowed { port, first, second, .. } = found;
            there(first, port) && there(second, port) && !ports.contains(port.as_str())
        };
        let known = deployed.devices.shadowed.values().flatten().filter(stays).cloned();
        let mut found: BTreeSet<Shadowed> = known.collect();
        let only_seeing = &self.layout.only_seeing;
        found.extend(Shadowed::among(&self.devices, only_seeing, |port| ports.contains(port)));
        let mut by_device: BTreeMap<String, Vec<Shadowed>> = BTreeMap::new();
        for found in found {
            let both = BTreeSet::from([found.first.clone(), found.second.clone()]);
            both.into_iter().for_each(|name| by_device.entry(name).or_default().push(found.clone()));
        }
        by_device
    }

    /// Takes off what goes, while everything is there yet.
    pub(crate) fn take_off(&self, deployed: &mut Deployed, change: &mut Change<'_, '_>, done: &mut Done<'_>) {
        for link in &self.unlink {
            let Some([a, b]) = ends(deployed, link) else { continue };
            done(link, change.unlink(a, b));
            if let Some(plugs) = deployed.devices.links.remove(link) {
                let joints = [&link.0, &link.1].into_iter().cloned();
                deployed.devices.given_up.extend(joints.zip(plugs));
            }
        }
        for name in &self.unpaired {
            deployed.unpair(change, name);
        }
        let laid = &mut deployed.devices;
        for served in &self.unserved {
            let plug = laid.services.remove(served);
            laid.given_up.extend(plug.map(|plug| (Joint::Device(served.0.clone()), plug)));
        }
        for joint in &self.gone {
            if let Some((id, before)) = laid.nodes.remove(joint).and_then(|node| node.laid) {
                change.remove_switch(id);
                laid.replaced.push(before);
            }
            if let Joint::Device(name) = joint {
                laid.next_hops.remove(name);
            }
        }
    }

    /// Lays what comes, when everything is there. Pairs of ports for striped bonds are taken from `pairs`.
    ///
    /// # Errors
    /// What of these pairs could not be laid, one line each; the rest is laid.
    pub(crate) fn put_on(
        &mut self,
        deployed: &mut Deployed,
        change: &mut Change<'_, '_>,
        pairs: HashMap<String, Striped>,
        done: &mut Done<'_>,
    ) -> Result<(), Vec<String>> {
        let troubles: Vec<String> =
            pairs.into_iter().filter_map(|(name, pair)| deployed.pair(change, &name, pair).err()).collect();
        for joint in self.come.drain(..) {
            deployed.devices.nodes.entry(joint).or_default();
        }
        let laid = &mut deployed.devices;
        for link in &self.link {
            let plugs = [&link.0, &link.1].map(|joint| {
                let plug = laid.nodes.get_mut(joint).map(Node::plug);
                plug.unwrap_or(Some(SwitchPort(0)))
            });
            match plugs {
                [Some(a), Some(b)] => drop(laid.links.insert(link.clone(), [a, b])),
                // The end that has a plug left keeps it for another.
                plugs => {
                    for (joint, plug) in [&link.0, &link.1].into_iter().zip(plugs) {
                        if let (Some(node), Some(SwitchPort(plug))) = (laid.nodes.get_mut(joint), plug) {
                            node.taken.remove(&plug);
                        }
                    }
                    done(link, Err(engine::WireError::TooMany.into()));
                }
            }
        }
        self.program(deployed, change, done);
        // Those before are dropped with the change, when the workers go on.
        std::mem::swap(&mut deployed.devices.openers, &mut self.layout.devices);
        std::mem::swap(&mut deployed.devices.shadowed, &mut self.shadowed);
        for (joint, SwitchPort(plug)) in std::mem::take(&mut deployed.devices.given_up) {
            if let Some(node) = deployed.devices.nodes.get_mut(&joint) {
                node.taken.remove(&plug);
            }
        }
        for link in &self.link {
            let Some([a, b]) = ends(deployed, link) else { continue };
            // What an observer makes goes out, and nothing comes to it but what it observes.
            let observes = |joint: &Joint| matches!(joint, Joint::End(end) if deployed.observes(end));
            let laid = if observes(&link.0) {
                change.lead(a, b)
            } else if observes(&link.1) {
                change.lead(b, a)
            } else {
                change.link(a, b)
            };
            done(link, laid);
        }
        if troubles.is_empty() { Ok(()) } else { Err(troubles) }
    }

    /// Tells each device and classifier what is plugged into it.
    fn program(&mut self, deployed: &mut Deployed, change: &mut Change<'_, '_>, done: &mut Done<'_>) {
        for name in &self.touched {
            let (Some(openers), Some(device)) = (self.layout.devices.get(name), self.devices.get(name))
            else {
                continue;
            };
            let joint = Joint::Device(name.clone());
            let settings = settings(deployed, name, device, openers);
            if settings.openers.len() < openers.len() {
                done(&(joint.clone(), joint.clone()), Err(engine::WireError::TooMany.into()));
            }
            let stripe = deployed.devices.stripes.values_mut().find(|stripe| stripe.links == *name);
            let (mtu, is_new) = stripe.map(LaidStripe::least_mtu).unzip();
            let before = match deployed.devices.forwarding(&joint) {
                Some(Forwarding::Device(before))
                    if *before.settings() == settings && is_new != Some(true) =>
                {
                    continue;
                }
                Some(Forwarding::Device(before)) => Some(before),
                _ => None,
            };
            let mut device = Device::new(settings, before.map(Arc::as_ref));
            mtu.into_iter().for_each(|mtu| device.tell_least_mtu(mtu));
            let device = Arc::new(device);
            let laid = deployed.devices.lay(change, &joint, name, Forwarding::Device(device));
            done(&(joint.clone(), joint), laid);
        }
        for (port, (policies, wanted)) in std::mem::take(&mut self.policies) {
            let joint = Joint::Classifier(port.clone());
            let laid = &mut deployed.devices;
            let plug = |of: Joint| laid.links.get(&(joint.clone(), of)).map(|[plug, _]| *plug);
            // A device that has got no plug has been told of. What it wants is dropped, and is for no other.
            let plugs = wanted.iter().map(|wanted| plug(Joint::Device(wanted.device.clone()))).collect();
            let end = (Joint::End(Endpoint::Port(port.clone())), joint.clone());
            let outside = laid.links.get(&end).map(|[_, outside]| *outside);
            let Some(outside) = outside else { continue };
            let before = match laid.forwarding(&joint) {
                Some(Forwarding::Ports(before)) => Some(before.as_ref()),
                _ => None,
            };
            let devices = Arc::new(PortDevices::of(outside, policies, plugs, before));
            let done_with = laid.lay(change, &joint, &port, Forwarding::Ports(devices));
            if let Some(node) = laid.nodes.get_mut(&joint) {
                node.wanted = wanted;
            }
            done(&(joint.clone(), joint), done_with);
        }
    }
}

/// Devices and classifiers that are laid and go, and those that come.
fn nodes_that_change(laid: &LaidDevices, layout: &DeviceLayout) -> (Vec<Joint>, Vec<Joint>) {
    let stays = |joint: &&Joint| match joint {
        Joint::Device(name) => layout.devices.contains_key(name),
        Joint::Classifier(name) => layout.classifiers.contains_key(name),
        Joint::End(_) => false,
    };
    let gone = laid.nodes.keys().filter(|joint| !stays(joint)).cloned().collect();
    let devices = layout.devices.keys().map(|name| Joint::Device(name.clone()));
    let all = devices.chain(layout.classifiers.keys().map(|name| Joint::Classifier(name.clone())));
    (gone, all.filter(|joint| !laid.nodes.contains_key(joint)).collect())
}

/// Whose a device's ports are by then.
fn tenant_under<'a>(deployed: &'a Deployed, plan: &'a Plan, device: &wiring::Device) -> Option<&'a str> {
    let link = device.over.keys().next()?;
    let port = plan.add_ports.get(link).or_else(|| deployed.wiring.ports.get(link))?;
    Some(&port.tenant)
}

/// Functions that come to be observers by a plan, or cease to be.
fn observers_turned(deployed: &Deployed, plan: &Plan) -> BTreeSet<String> {
    let named = plan.observe.iter().chain(&plan.unobserve).map(|seen| &seen.observer);
    let turned = named.filter(|name| {
        let stays = deployed
            .wiring
            .observations
            .iter()
            .any(|seen| seen.observer == **name && !plan.unobserve.contains(seen));
        let observes = stays || plan.observe.iter().any(|seen| seen.observer == **name);
        observes != deployed.observes_by_name(name)
    });
    turned.cloned().collect()
}

/// Takes note of what came of a wire.
pub(crate) type Done<'a> = dyn FnMut(&Link, Result<(), FleetError>) + 'a;

/// What a device is to know of what is plugged into it; services get a plug here.
fn settings(
    deployed: &mut Deployed,
    name: &str,
    device: &wiring::Device,
    openers: &[(Opener, Opening)],
) -> DeviceSettings {
    let joint = &Joint::Device(name.to_owned());
    let plug = |laid: &LaidDevices, end: &Joint| {
        laid.links.get(&(end.clone(), joint.clone())).map(|[_, plug]| *plug)
    };
    let ports = device.over.keys().map(|port| {
        let classifier = plug(&deployed.devices, &Joint::Classifier(port.clone()));
        classifier.or_else(|| plug(&deployed.devices, &Joint::End(Endpoint::Port(port.clone()))))
    });
    // Sides are known by the places of their ports: where one has got no plug, which has been told of,
    // nothing passes the device.
    let ports = ports.collect::<Option<Vec<SwitchPort>>>().unwrap_or_default();
    let mut plugged = Vec::new();
    for (opener, opening) in openers {
        let side = opening.port.as_ref().and_then(|port| device.over.get_index_of(port));
        let (plug, receives) = match opener {
            Opener::Interface(end) => {
                (plug(&deployed.devices, &Joint::End(end.clone())), !deployed.observes(end))
            }
            Opener::Service(service) => (deployed.devices.service(name, service), false),
        };
        plugged.extend(plug.map(|plug| DeviceOpener { plug, side, receives }));
    }
    let mut settings = DeviceSettings::new(device.mode, device.share, ports, plugged);
    let next_hops = deployed.devices.set_next_hops(name, device);
    for (index, (port, policy)) in device.over.iter().enumerate() {
        if policy.has_tunnels() {
            let PortPolicy { decapsulate, encapsulate, .. } = policy.clone();
            let next_hop = next_hops.get(port).map(|(_, next_hop)| next_hop.clone());
            settings.tunnels.insert(index, Arc::new(Tunnels { decapsulate, encapsulate, next_hop }));
        }
        let send = policy.send.as_ref().and_then(|port| device.over.get_index_of(port));
        settings.send.extend(send.map(|port| (index, port)));
    }
    settings
}

impl LaidDevices {
    /// Notes where the tunnels of a device lead to. What is known of a hop stays as long as the tunnel's
    /// other end.
    fn set_next_hops(&mut self, name: &str, device: &wiring::Device) -> NextHops {
        let before = self.next_hops.remove(name).unwrap_or_default();
        let remotes = device.over.iter().filter_map(|(port, policy)| Some((port, policy.station?.remote?)));
        let hops = remotes.map(|(port, remote)| {
            let known = before.get(port).filter(|(end, _)| *end == remote).map(|(_, hop)| hop.clone());
            (port.clone(), (remote, known.unwrap_or_default()))
        });
        let hops: NextHops = hops.collect();
        if !hops.is_empty() {
            self.next_hops.insert(name.to_owned(), hops.clone());
        }
        hops
    }

    /// Where tunnels of devices lead to whose next hop is to be found out.
    pub(crate) fn next_hops(&self) -> &HashMap<String, NextHops> {
        &self.next_hops
    }

    /// What decided before and does no more: to drop it takes its time.
    pub(crate) fn take_replaced(&mut self) -> Vec<Forwarding> {
        std::mem::take(&mut self.replaced)
    }

    /// Those that open a device, in their order.
    pub(crate) fn openers_of(&self, device: &str) -> &[(Opener, Opening)] {
        self.openers.get(device).map_or(&[], Vec::as_slice)
    }

    /// Policies of a device that lose packets to others', or take them.
    pub(crate) fn shadowed(&self, device: &str) -> &[Shadowed] {
        self.shadowed.get(device).map_or(&[], Vec::as_slice)
    }

    /// What a device counted, if it is laid as one.
    pub(crate) fn counters(&self, device: &str) -> Option<DeviceCounters> {
        match self.forwarding(&Joint::Device(device.to_owned()))? {
            Forwarding::Device(device) => Some(device.counters()),
            Forwarding::Ports(_) | Forwarding::Learning(_) => None,
        }
    }

    /// What came into a device by one of its plugs, since that leads where it does.
    pub(crate) fn entered(&self, device: &str, plug: SwitchPort) -> Option<Entered> {
        self.nodes.get(&Joint::Device(device.to_owned()))?.entered(plug)
    }

    /// What the plugs of a device lead to.
    pub(crate) fn plugs_of(&self, device: &str) -> BTreeMap<u16, Plugged> {
        let this = Joint::Device(device.to_owned());
        let links = self.links.iter().filter(|((_, to), _)| *to == this);
        let links = links.map(|((from, _), [_, plug])| match from {
            Joint::End(end) if end.is_opener() => (plug.0, Plugged::Opener(Opener::Interface(end.clone()))),
            Joint::End(Endpoint::Port(port)) | Joint::Classifier(port) => {
                (plug.0, Plugged::Port(port.clone()))
            }
            Joint::End(end) => (plug.0, Plugged::Opener(Opener::Interface(end.clone()))),
            Joint::Device(name) => (plug.0, Plugged::Port(name.clone())),
        });
        let services = self.services.iter().filter(|((name, _), _)| name == device);
        let services =
            services.map(|((_, service), plug)| (plug.0, Plugged::Opener(Opener::Service(service.clone()))));
        links.chain(services).collect()
    }

    /// The plug by which packets for a service come into a device.
    pub(crate) fn plug_of_service(&self, device: &str, service: &Service) -> Option<SwitchPort> {
        self.services.get(&(device.to_owned(), service.clone())).copied()
    }

    /// Whether a port is one device's alone.
    pub(crate) fn is_alone(&self, device: &str, port: &str) -> bool {
        match self.nodes.get(&Joint::Classifier(port.to_owned())) {
            Some(node) => node.wanted.len() == 1,
            None => self.openers.contains_key(device),
        }
    }

    /// Whether pools are to have places for headers that are taken off packets, now that these devices come.
    pub(crate) fn keep_headers<'a>(&mut self, mut added: impl Iterator<Item = &'a wiring::Device>) -> bool {
        let takes_off = |device: &wiring::Device| device.over.values().any(|it| !it.decapsulate.is_empty());
        self.keeps_headers |= added.any(takes_off);
        self.keeps_headers
    }

    pub(crate) fn forwarding(&self, joint: &Joint) -> Option<&Forwarding> {
        self.nodes.get(joint)?.laid.as_ref().map(|(_, forwarding)| forwarding)
    }

    fn id(&self, joint: &Joint) -> Option<SwitchId> {
        self.nodes.get(joint)?.laid.as_ref().map(|(id, _)| *id)
    }

    /// Puts in place what decides in a device or classifier.
    fn lay(
        &mut self,
        change: &mut Change<'_, '_>,
        joint: &Joint,
        name: &str,
        forwarding: Forwarding,
    ) -> Result<(), FleetError> {
        let Some(node) = self.nodes.get_mut(joint) else { return Ok(()) };
        let id = match &node.laid {
            Some((id, _)) => {
                change.set_forwarding(*id, forwarding.clone())?;
                *id
            }
            None => change.add_switch(name, forwarding.clone(), None)?,
        };
        self.replaced.extend(node.laid.replace((id, forwarding)).map(|(_, before)| before));
        Ok(())
    }

    /// The plug of a device by which packets for a service come in.
    fn service(&mut self, device: &str, service: &Service) -> Option<SwitchPort> {
        let key = (device.to_owned(), service.clone());
        if let Some(plug) = self.services.get(&key) {
            return Some(*plug);
        }
        let plug = self.nodes.get_mut(&Joint::Device(device.to_owned()))?.plug()?;
        self.services.insert(key, plug);
        Some(plug)
    }

    /// What the engine calls a device, if it is laid as one.
    pub(crate) fn id_of(&self, device: &str) -> Option<SwitchId> {
        self.id(&Joint::Device(device.to_owned()))
    }

    /// The plug of a device that leads to one of its ports.
    pub(crate) fn plug_of_port(&self, device: &str, port: &str) -> Option<SwitchPort> {
        let device = Joint::Device(device.to_owned());
        let [end, classifier] =
            [Joint::End(Endpoint::Port(port.to_owned())), Joint::Classifier(port.to_owned())];
        let link = self.links.get(&(classifier, device.clone())).or_else(|| self.links.get(&(end, device)));
        link.map(|[_, plug]| *plug)
    }

    /// The plug of a device that leads to an opener.
    pub(crate) fn plug_of_opener(&self, device: &str, opener: &Endpoint) -> Option<SwitchPort> {
        let link = (Joint::End(opener.clone()), Joint::Device(device.to_owned()));
        self.links.get(&link).map(|[_, plug]| *plug)
    }

    /// The end by which packets for a service come in.
    pub(crate) fn end_of_service(&self, service: &Service, device: &str) -> Option<End> {
        let id = self.id(&Joint::Device(device.to_owned()))?;
        Some(End::Switch(id, *self.services.get(&(device.to_owned(), service.clone()))?))
    }
}

/// Both ends of a link as the fleet knows them.
fn ends(deployed: &Deployed, link: &Link) -> Option<[End; 2]> {
    let plugs = deployed.devices.links.get(link)?;
    let end = |joint: &Joint, plug: SwitchPort| match joint {
        Joint::End(end) => deployed.port_or_interface(end),
        node => deployed.devices.id(node).map(|id| End::Switch(id, plug)),
    };
    Some([end(&link.0, plugs[0])?, end(&link.1, plugs[1])?])
}

#[cfg(test)]
impl LaidDevices {
    /// Gives all plugs away that a port's classifier has left.
    pub(crate) fn use_up_plugs(&mut self, port: &str) {
        if let Some(node) = self.nodes.get_mut(&Joint::Classifier(port.to_owned())) {
            node.taken.extend(0..=u16::MAX);
        }
    }
}
