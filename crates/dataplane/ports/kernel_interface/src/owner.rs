//! Whose guest an interface is of.

/// The program that had a guest started whose interface's outer end is in the host. Its Ethernet address says
/// so; packets are not sent to it or from it. Two programs may name one function the same, and so the outer
/// ends of its interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner([u8; 6]);

impl Owner {
    /// What such addresses begin with: of one interface, and not of a manufacturer's.
    const MARK: [u8; 3] = [0x06, b's', b'f'];

    /// The owner of this name.
    pub fn of(name: &str) -> Owner {
        // FNV-1a.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let [a, b, c, ..] = hash.to_be_bytes();
        let [x, y, z] = Owner::MARK;
        Owner([x, y, z, a, b, c])
    }

    /// The address of its guests' outer ends.
    pub fn address(self) -> [u8; 6] {
        self.0
    }

    /// Whether an interface of this address is another owner's. One that says nothing is any's.
    pub fn is_anothers(self, address: [u8; 6]) -> bool {
        address.starts_with(&Owner::MARK) && address != self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_whose_an_interface_is() {
        let (own, another) = (Owner::of("/var/lib/superfluid"), Owner::of("/home/me/lab.yaml"));
        assert!(own.is_anothers(another.address()) && !own.is_anothers(own.address()));
        assert!(!own.is_anothers([0x06, 1, 2, 3, 4, 5]), "the kernel's choice");
        assert_eq!(own.address()[0] & 3, 2, "of one interface, by no manufacturer");
    }
}
