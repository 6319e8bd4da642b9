//! Names of the loopback interface, as clients write them.

use hyper::http::uri::Authority;
use std::net::IpAddr;

/// Whether only this host reaches an address.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether `Host` names the loopback interface, whatever the port: it may be forwarded.
pub(crate) fn is_local(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_here_is_not_this_host() {
        for good in ["localhost", "LocalHost:9100", "127.0.0.1:9100", "[::1]:9100", "[::1]", "127.9.9.9"] {
            assert!(is_local(good), "{good}");
        }
        for wrong in
            ["evil.example", "127.0.0.1.evil.example:9100", "10.0.0.1", "", "localhost.evil", "[::2]:1"]
        {
            assert!(!is_local(wrong), "{wrong}");
        }
    }
}
