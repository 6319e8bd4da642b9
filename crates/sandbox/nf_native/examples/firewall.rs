//! The platform's firewall as a native process: the source that is its image, with this `main`.
//!
//!     cargo build --release -p nf_native --example firewall
//!     target/release/examples/firewall --config firewall-config.yaml INSIDE.sock OUTSIDE.sock

fn main() -> std::process::ExitCode {
    nf_native::main::<firewall::Firewall>(include_str!("../../../../functions/firewall/function.yaml"))
}
