//! The network function `firewall`.
