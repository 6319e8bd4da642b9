//! Physical ports, as far as one machine has them: veth pairs whose other ends have no listener.

use crate::BenchError;
use port::Port;
use port_af_packet::{AfPacketPort, Settings};
use testbed::{Namespace, TestbedError};

/// Pairs between two namespaces that go with this value.
pub(crate) struct Devices {
    near: Namespace,
    /// Where the other ends are: what arrives there is dropped at once.
    _far: Namespace,
}

impl Devices {
    /// So many pairs.
    pub(crate) fn new(count: usize) -> Result<Devices, BenchError> {
        let failed = |error| match error {
            TestbedError::Kernel { what, source } => BenchError::Setup(format!(
                "{what}: {source}; run as root, or by `unshare --user --map-root-user --net superfluid bench shares`"
            )),
            other => BenchError::setup(other),
        };
        let (near, far) = (Namespace::new().map_err(failed)?, Namespace::new().map_err(failed)?);
        near.quiet().map_err(failed)?;
        far.quiet().map_err(failed)?;
        for n in 0..count {
            near.join(&format!("sf-{n}"), &far, &format!("eth{n}")).map_err(failed)?;
        }
        Ok(Devices { near, _far: far })
    }

    /// Opens a port on the near end of a pair.
    pub(crate) fn open(&self, n: usize) -> Result<Box<dyn Port>, BenchError> {
        let port = self.near.enter(|| AfPacketPort::open(Settings::new(&format!("sf-{n}"))));
        Ok(Box::new(port.map_err(BenchError::setup)?))
    }
}
