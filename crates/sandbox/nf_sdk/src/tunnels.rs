//! The keys by which functions are told which tunnels to look into: `tunnels`, a list of kinds, `vxlan_ports`
//! and `geneve_ports`, lists of destination ports.

use crate::{Config, Error, Value};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use packet::tunnel::{GENEVE_PORT, MAX_PORTS, Tunnels, VXLAN_PORT};

impl Config {
    /// The tunnels that the keys `tunnels`, `vxlan_ports` and `geneve_ports` name; `absent` without the
    /// first, and the assigned port without one of the others.
    ///
    /// # Errors
    /// A value of another type, a name that is no kind of tunnel, more than [`MAX_PORTS`] ports.
    pub fn tunnels(&self, absent: Tunnels) -> Result<Tunnels, Error> {
        let wrong = |key: &str| Error::WrongType(String::from(key));
        let kinds = match self.optional("tunnels")? {
            None => absent,
            Some(value) => {
                let names: Option<Vec<&str>> =
                    value.list().ok_or_else(|| wrong("tunnels"))?.map(|name| name.text()).collect();
                Tunnels::named(names.ok_or_else(|| wrong("tunnels"))?)
                    .map_err(|name| Error::Refused(["tunnels: `", name, "` is no kind of tunnel"].concat()))?
            }
        };
        let ports = |key: &str, assigned: u16| -> Result<Vec<u16>, Error> {
            let Some(value) = self.optional(key)? else { return Ok(vec![assigned]) };
            let port = |value: Value<'_>| value.integer().and_then(|port| u16::try_from(port).ok());
            let ports: Option<Vec<u16>> = value.list().ok_or_else(|| wrong(key))?.map(port).collect();
            ports.filter(|ports| ports.len() <= MAX_PORTS).ok_or_else(|| {
                Error::Refused([key, ": allowed are up to four ports from 1 to 65535"].concat())
            })
        };
        Ok(kinds.with_ports(&ports("vxlan_ports", VXLAN_PORT)?, &ports("geneve_ports", GENEVE_PORT)?))
    }
}
