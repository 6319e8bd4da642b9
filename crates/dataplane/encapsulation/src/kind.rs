//! Which headers.

use nf_abi::tunnel;

/// A kind of header that is taken off or put on, by what a record says of a packet that was in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LayerKind {
    /// A tag, IEEE 802.1Q or 802.1ad, which is no tunnel.
    Vlan = tunnel::NONE,
    /// GRE, RFC 2784 and RFC 2890.
    Gre = tunnel::GRE,
    /// NVGRE, RFC 7637.
    Nvgre = tunnel::NVGRE,
    /// VXLAN, RFC 7348.
    Vxlan = tunnel::VXLAN,
    /// Geneve, RFC 8926.
    Geneve = tunnel::GENEVE,
    /// A label of MPLS, RFC 3032.
    Mpls = tunnel::MPLS,
    /// IP in IP, RFC 2003, RFC 2473, RFC 4213.
    IpIp = tunnel::IP_IN_IP,
}

impl LayerKind {
    /// Every kind.
    pub const ALL: [LayerKind; 7] = [
        LayerKind::Vlan,
        LayerKind::Gre,
        LayerKind::Nvgre,
        LayerKind::Vxlan,
        LayerKind::Geneve,
        LayerKind::Mpls,
        LayerKind::IpIp,
    ];

    /// The name in configurations and messages.
    pub const fn name(self) -> &'static str {
        match self {
            LayerKind::Vlan => "vlan",
            LayerKind::Gre => "gre",
            LayerKind::Nvgre => "nvgre",
            LayerKind::Vxlan => "vxlan",
            LayerKind::Geneve => "geneve",
            LayerKind::Mpls => "mpls",
            LayerKind::IpIp => "ipip",
        }
    }

    /// The kind of this name.
    pub fn of_name(name: &str) -> Option<LayerKind> {
        LayerKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What a record says of a packet that was in it (`tunnel_type`).
    pub const fn tunnel_type(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for LayerKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
