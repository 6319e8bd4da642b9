//! The network function `forwarder`.
