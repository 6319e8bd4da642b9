//! The network function `monitor`.
