//! Any frame at a link of any MTU: fragments fit, and are the packet; an answer is one that a host takes.

use packet::{Network, Transport, dissect, ethernet, ipv4, protocol};
use path_mtu::{Remedy, too_long};

pub fn run(data: &[u8]) {
    let Some((mtu, frame)) = data.split_first_chunk() else { return };
    let mtu = u32::from(u16::from_le_bytes(*mtu));
    match too_long(frame, mtu) {
        Remedy::Fragments(fragments) => {
            let at = ethernet::View::new(frame).expect("it has a header").header_length();
            let whole = ipv4::View::new(&frame[at..]).expect("it is IPv4");
            let mut payload: Vec<u8> = Vec::new();
            for (n, fragment) in fragments.iter().enumerate() {
                assert_eq!(fragment[..at], frame[..at]);
                let view = ipv4::View::new(&fragment[at..]).expect("it is IPv4");
                assert!(
                    view.length() <= mtu as usize
                        && view.length() == fragment.len() - at
                        && view.verify_checksum()
                );
                let begin = usize::from(view.fragment_offset()) - usize::from(whole.fragment_offset());
                assert_eq!(begin, payload.len(), "one follows the other");
                let is_last = n + 1 == fragments.len();
                assert_eq!(view.more_fragments(), !is_last || whole.more_fragments());
                payload.extend(view.payload());
            }
            assert_eq!(payload[..], *whole.payload());
        }
        Remedy::Answer(answer) => {
            assert_eq!(
                (&answer[..6], &answer[6..12]),
                (&frame[6..12], &frame[..6]),
                "back to where it came from"
            );
            let network = dissect(&answer).ok().and_then(|it| it.network).expect("it is IP");
            let Network { source, destination, protocol, transport, .. } = network;
            assert!(matches!(protocol, protocol::ICMPV4 | protocol::ICMPV6), "{protocol}");
            assert!(matches!(
                transport,
                Transport::Icmp { kind: 3, code: 4, .. } | Transport::Icmp { kind: 2, code: 0, .. }
            ));
            assert!(
                source.is_ipv4() == destination.is_ipv4()
                    && !source.is_multicast()
                    && !destination.is_multicast()
            );
            assert!(answer.len() <= 14 + 4 * 16 + 1280);
        }
        Remedy::None => {}
    }
}
