//! The shared library's name says which version of the contract it has (`SFN_VERSION`): a program that was
//! linked with it finds no other.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsuperfluid_native.so.1");
}
