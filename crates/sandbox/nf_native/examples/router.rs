//! The platform's router as a native process: the source that is its image, with this `main`. Neighbours,
//! addresses and MTUs are those of the devices behind its ports.
//!
//!     cargo build --release -p nf_native --example router
//!     target/release/examples/router --config router-config.yaml A.sock B.sock

fn main() -> std::process::ExitCode {
    nf_native::main::<router::Router>(include_str!("../../../../functions/router/function.yaml"))
}
