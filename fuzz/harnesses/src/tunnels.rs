//! Arbitrary frames through the decoder of tunnels and through its model, which have to agree.

use packet::tunnel::{GENEVE_PORT, Level, Tunnel, Tunnels, VXLAN_PORT};
use packet::{FlowKey, Fragment, Transport, dissect, tunnel};

#[path = "../../../crates/formats/packet/src/tunnel_model.rs"]
mod tunnel_model;

/// The first byte says which kinds are looked into.
pub fn run(data: &[u8]) {
    let Some((kinds, frame)) = data.split_first() else { return };
    let has = |tunnel: &Tunnel| kinds >> (*tunnel as u8 - 1) & 1 == 0;
    let kinds: Vec<Tunnel> = Tunnel::ALL.into_iter().filter(has).collect();
    let tunnels = Tunnels::new(kinds.iter().copied());
    let (expected, is_whole) = tunnel_model::model(frame, &kinds, &[VXLAN_PORT], &[GENEVE_PORT]);
    let mut expected = expected.iter();
    let mut next = dissect(frame).map(|found| Some(Level::outermost(found, frame.len())));
    while let Ok(Some(level)) = next {
        let (around, key) = expected.next().expect("the model has a level less");
        let (tunnel, id) = around.last().map_or((None, 0), |(tunnel, id)| (Some(*tunnel), *id));
        assert_eq!((level.path.tunnel(), level.path.id()), (tunnel, id));
        assert_eq!((level.path.depth(), level.dissection.flow_key()), (around.len(), *key));
        assert!(level.limit() <= frame.len() && level.dissection.l3_offset <= frame.len());
        next = tunnels.inside(frame, &level);
    }
    assert_eq!(expected.next(), None, "the model has a level more");
    assert_eq!(next.is_ok(), is_whole);
}
