//! The client against servers that answer well, and such that do not.

mod hostile;
mod spoken;
mod stub;
mod tls;
