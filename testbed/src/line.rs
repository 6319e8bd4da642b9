//! The usual arrangement: a client and a server, and between them the device under test.

use crate::{Namespace, TestbedError};

/// Address of the client.
pub const CLIENT: &str = "10.83.0.1";
/// Address of the server.
pub const SERVER: &str = "10.83.0.2";

/// Fixed, so that a pair that is made anew is no news to the neighbours.
const CLIENT_MAC: &str = "02:00:00:00:00:01";
const SERVER_MAC: &str = "02:00:00:00:00:02";

/// Client and server, each with an interface `eth0` whose other end (`sf-lan`, `sf-wan`) is in the test's own
/// namespace. There is no way from one to the other but through the program that moves packets between these
/// two.
#[derive(Debug)]
pub struct Line {
    /// The test's own namespace, where `sf-lan` and `sf-wan` are.
    pub middle: Namespace,
    /// Has [`CLIENT`].
    pub client: Namespace,
    /// Has [`SERVER`].
    pub server: Namespace,
}

impl Line {
    /// Makes it.
    ///
    /// # Errors
    /// [`TestbedError`]: not root, or `ip` failed.
    pub fn new() -> Result<Line, TestbedError> {
        let line = Line { middle: Namespace::here()?, client: Namespace::new()?, server: Namespace::new()? };
        line.middle.quiet()?;
        line.join_client()?;
        line.join_server()?;
        Ok(line)
    }

    /// Makes the pair between `sf-lan` and the client.
    ///
    /// # Errors
    /// [`TestbedError`]: `ip` failed.
    pub fn join_client(&self) -> Result<(), TestbedError> {
        self.middle.join("sf-lan", &self.client, "eth0")?;
        self.client.ip(&format!("link set eth0 address {CLIENT_MAC}"))?;
        self.client.ip(&format!("addr add {CLIENT}/24 dev eth0"))
    }

    /// Makes the pair between `sf-wan` and the server.
    ///
    /// # Errors
    /// [`TestbedError`]: `ip` failed.
    pub fn join_server(&self) -> Result<(), TestbedError> {
        self.middle.join("sf-wan", &self.server, "eth0")?;
        self.server.ip(&format!("link set eth0 address {SERVER_MAC}"))?;
        self.server.ip(&format!("addr add {SERVER}/24 dev eth0"))
    }
}
