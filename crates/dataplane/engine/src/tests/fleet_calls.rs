//! Changes of one thing each, as tests make them.

use super::*;

impl Fleet {
    pub(crate) fn add_switch(
        &self,
        name: &str,
        forwarding: impl Into<Forwarding>,
        home: Option<usize>,
    ) -> Result<SwitchId, FleetError> {
        self.change(|change| change.add_switch(name, forwarding, home))?
    }

    pub(crate) fn add_port(
        &self,
        worker: usize,
        name: &str,
        pool: PoolId,
        port: Box<dyn Port>,
    ) -> Result<FleetPort, FleetError> {
        self.change(|change| change.add_port(worker, name, pool, port))?
    }

    pub(crate) fn add_instance(
        &self,
        worker: usize,
        setup: InstanceSetup,
        guest: Box<dyn Guest>,
    ) -> Result<FleetInstance, FleetError> {
        self.change(|change| change.add_instance(worker, setup, guest))?
    }

    pub(crate) fn link(&self, a: End, b: End) -> Result<(), FleetError> {
        self.change(|change| change.link(a, b))?
    }

    pub(crate) fn lead(&self, from: End, to: End) -> Result<(), FleetError> {
        self.change(|change| change.lead(from, to))?
    }

    pub(crate) fn observe(
        &self,
        observer: FleetInstance,
        at: FleetInstance,
        interface: Option<u16>,
    ) -> Result<(), FleetError> {
        let at = Place::Instance(at, interface);
        self.change(|change| change.observe(observer, at, View::default()))?
    }

    pub(crate) fn serve(&self, service: ServiceId, end: End) -> Result<(), FleetError> {
        self.change(|change| change.serve(service, end))?
    }
}
