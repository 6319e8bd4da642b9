//! Which headers.

use nf_abi::tunnel;

/// A kind of header that is taken off or put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// A tag, IEEE 802.1Q or 802.1ad.
    Vlan,
    /// GRE, RFC 2784 and RFC 2890.
    Gre,
    /// NVGRE, RFC 7637.
    Nvgre,
    /// VXLAN, RFC 7348.
    Vxlan,
    /// Geneve, RFC 8926.
    Geneve,
    /// A label of MPLS, RFC 3032.
    Mpls,
    /// IP in IP, RFC 2003, RFC 2473, RFC 4213.
    IpIp,
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

    /// What a record says of a packet that was in it (`tunnel_type`). A tag is no tunnel.
    pub const fn tunnel_type(self) -> u8 {
        match self {
            LayerKind::Vlan => tunnel::NONE,
            LayerKind::Gre => tunnel::GRE,
            LayerKind::Nvgre => tunnel::NVGRE,
            LayerKind::Vxlan => tunnel::VXLAN,
            LayerKind::Geneve => tunnel::GENEVE,
            LayerKind::Mpls => tunnel::MPLS,
            LayerKind::IpIp => tunnel::IP_IN_IP,
        }
    }
}

impl std::fmt::Display for LayerKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
