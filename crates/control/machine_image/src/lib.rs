//! Images of virtual machines for one program: a Linux kernel, and an initramfs with the program, what it
//! needs, and busybox (Tinyx: Superfluidity D5.2, section 2.3.2; LightVM, SOSP 2017, section 3.2).
//!
//! The life of an image, [`build`]:
//! 1. The program is one of this host, or a package of Debian's, which `apt-get` resolves with its
//!    dependencies, downloads and verifies ([`packages`]); they are unpacked beside each other, and no script
//!    of theirs runs.
//! 2. Of the package all files are taken, of what it depends on those that are no programs, libraries or
//!    documentation ([`selection`]). Libraries come by what the programs say they need ([`closure`]), as the
//!    dynamic linker would find them; nothing is executed for that.
//! 3. busybox is its init and shell; scripts for it are written ([`init`]), and all of it becomes one archive
//!    ([`cpio`]).
//! 4. The kernel is Debian's, with the modules of virtio's network device ([`kernel`]), or is compiled from
//!    Debian's source with `tinyconfig` and what such a guest needs ([`tiny`]).
//! 5. Of options of that kernel that the caller lists, each is left out as long as the program's own test
//!    passes in a machine that was booted with what is left ([`reduce`], [`trial`]). What was found is
//!    written down after each trial, and a build that was ended goes on there.
//!
//! Everything is done with the rights of the calling user, in its folders. Sources:
//! `Documentation/driver-api/early-userspace/buffer-format.rst` of the kernel (the archive), elf(5),
//! ld.so(8), deb(5).
//!
//! Limits: [`PACKAGES_MAX`] packages, [`OPTIONS_MAX`] options to leave out, [`FILES_MAX`] files.

#![forbid(unsafe_code)]

mod build;
pub mod closure;
mod command;
pub mod cpio;
pub mod elf;
mod error;
pub mod init;
pub mod kernel;
pub mod packages;
pub mod reduce;
pub mod selection;
pub mod tiny;
mod tree;
pub mod trial;

pub use build::{Built, CopyOf, Kernel, Program, Reduction, Request, build, default_cache};
pub use error::BuildError;
pub use tree::{Entry, Tree};

/// Most packages of one image, those that it depends on included.
pub const PACKAGES_MAX: usize = 1024;

/// Most options that are tried.
pub const OPTIONS_MAX: usize = 4096;

/// Most files and folders of one image.
pub const FILES_MAX: usize = 65_536;
