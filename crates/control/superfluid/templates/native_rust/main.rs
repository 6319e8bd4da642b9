//! The function `NAME` as a native process, by the manifest of its image.

fn main() -> std::process::ExitCode {
    nf_native::main::<CRATE::Function>(include_str!("../../function.yaml"))
}
