//! A client and a server that are not joined yet, for tests that join them by something of their own.

use crate::{CLIENT, Namespace, SERVER, TestbedError};

/// A client, a server, and what stands between them.
#[derive(Debug)]
pub struct Hosts {
    /// Between the two.
    pub middle: Namespace,
    /// Gets [`CLIENT`].
    pub client: Namespace,
    /// Gets [`SERVER`].
    pub server: Namespace,
}

impl Hosts {
    /// Makes client and server.
    ///
    /// # Errors
    /// [`TestbedError`]: not root, or `ip` failed.
    pub fn around(middle: Namespace) -> Result<Hosts, TestbedError> {
        middle.quiet()?;
        Ok(Hosts { middle, client: Namespace::new()?, server: Namespace::new()? })
    }

    /// Gives an interface that is in the middle to the client, as its `eth0`, and one to the server.
    ///
    /// # Errors
    /// [`TestbedError`]: `ip` failed.
    pub fn give(&self, to_client: &str, to_server: &str) -> Result<(), TestbedError> {
        self.give_client(to_client)?;
        self.give_server(to_server)
    }

    /// Gives an interface to the client.
    ///
    /// # Errors
    /// [`TestbedError`]: `ip` failed.
    pub fn give_client(&self, device: &str) -> Result<(), TestbedError> {
        self.join(device, &self.client, CLIENT)
    }

    /// Gives an interface to the server.
    ///
    /// # Errors
    /// [`TestbedError`]: `ip` failed.
    pub fn give_server(&self, device: &str) -> Result<(), TestbedError> {
        self.join(device, &self.server, SERVER)
    }

    fn join(&self, device: &str, host: &Namespace, address: &str) -> Result<(), TestbedError> {
        self.middle.give(device, host, "eth0")?;
        host.ip("link set eth0 up")?;
        host.ip(&format!("addr add {address}/24 dev eth0"))
    }

    /// Joins the two by the kernel's bridge and two veth pairs, all offloads on: what there is without any
    /// further program.
    ///
    /// # Errors
    /// [`TestbedError`]: `ip` failed.
    pub fn bridge(&self) -> Result<(), TestbedError> {
        self.middle.ip("link add br0 type bridge")?;
        for (name, host, address) in [("br-lan", &self.client, CLIENT), ("br-wan", &self.server, SERVER)] {
            self.middle.join(name, host, "eth0")?;
            self.middle.ip(&format!("link set {name} master br0"))?;
            host.ip(&format!("addr add {address}/24 dev eth0"))?;
        }
        self.middle.ip("link set br0 up")
    }
}
