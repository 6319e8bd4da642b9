//! What is told once about an interface that was opened: how, instead of what, and what it does to frames.

use crate::config::Mode;
use crate::failure::Failure;
use crate::link::Link;

/// Modes that were refused, and why.
pub(crate) type Refused = (Vec<Mode>, Failure);

/// What was refused, in words.
pub(crate) fn tried(name: &str, refused: &[Refused]) -> String {
    let words = |(modes, failure): &Refused| {
        let modes: Vec<&str> = modes.iter().map(|mode| mode.name()).collect();
        format!("refused: {} ({})", modes.join(" and "), failure.reason(name))
    };
    refused.iter().map(words).collect::<Vec<_>>().join("; ")
}

/// What is told of the mode: what was refused, what is used instead, what would be better. Nothing when
/// nothing was.
pub(crate) fn mode(name: &str, mode: Mode, refused: &[Refused]) -> Option<String> {
    let what = match mode {
        Mode::ZeroCopy => return None,
        Mode::Native => {
            "the kernel copies each packet once; an interface whose driver has AF_XDP zero-copy saves that"
        }
        Mode::Generic => {
            "the kernel makes a socket buffer of each packet first and then copies it; an interface whose driver runs \
             XDP programs saves that"
        }
    };
    (!refused.is_empty()).then(|| {
        format!("interface `{name}`: {}; {} is used instead: {what}", tried(name, refused), mode.name())
    })
}

/// Whether frames can come that do not fit into a buffer.
pub(crate) fn room(name: &str, link: &Link) -> Option<String> {
    // A VLAN tag does not count.
    let (longest, room) = (link.mtu.saturating_add(18), link.umem.room());
    let advice = match link.umem.chunk() {
        0..4096 => "; `buffer_size: 4KiB` takes frames of up to 3,840 bytes",
        _ => "",
    };
    (longest > room).then(|| {
        format!(
            "interface `{name}`: with its MTU of {} frames of up to {longest} bytes can come, of which a buffer takes {room}; \
             longer ones are lost in the kernel{advice}",
            link.mtu
        )
    })
}

/// Whether segments can come that no kernel has cut: in native mode the driver of a veth pair sees to that.
pub(crate) fn segments(name: &str, mode: Mode, software: bool) -> Option<String> {
    (mode == Mode::Generic && software).then(|| {
        format!(
            "interface `{name}`: in mode generic, segments that its other end has not cut are lost in the kernel; run \
             `ethtool -K IF tso off gso off` there"
        )
    })
}

/// Whether tags can come beside the frames.
pub(crate) fn tags(name: &str, strips_tags: bool) -> Option<String> {
    strips_tags.then(|| {
        format!(
            "interface `{name}`: a VLAN tag that is not in the frame's bytes is lost to XDP; `ethtool -K {name} rxvlan off` \
             keeps it there (of a veth pair: `ethtool -K IF txvlan off` on the other end)"
        )
    })
}
