//! Which files of unpacked packages become the guest's.

use crate::closure::{self, Roots, TRIPLET};
use crate::elf;
use crate::{BuildError, FILES_MAX, Tree};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What is for people, for building, or for a system that services are installed into, in any package.
const NEVER: [&str; 44] = [
    "usr/share/doc",
    "usr/share/doc-base",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/bug",
    "usr/share/reportbug",
    "usr/share/apport",
    "usr/share/bash-completion",
    "usr/share/zsh",
    "usr/share/fish",
    "usr/share/debconf",
    "usr/share/initramfs-tools",
    "usr/share/applications",
    "usr/share/pixmaps",
    "usr/share/menu",
    "usr/share/perl5",
    "usr/share/gcc",
    "usr/share/gdb",
    "usr/share/pam-configs",
    "usr/share/metainfo",
    "usr/include",
    "usr/src",
    "usr/games",
    "usr/lib/systemd",
    "lib/systemd",
    "usr/lib/udev",
    "lib/udev",
    "usr/lib/locale",
    "usr/lib/pkgconfig",
    "usr/lib/tmpfiles.d",
    "usr/lib/sysusers.d",
    "etc/init.d",
    "etc/cron.d",
    "etc/cron.daily",
    "etc/cron.weekly",
    "etc/logrotate.d",
    "etc/apparmor.d",
    "etc/systemd",
    "etc/init",
    "etc/ufw",
    "var/lib/dpkg",
    "var/cache/apt",
];

/// Folders of programs.
const PROGRAMS: [&str; 5] = ["bin", "sbin", "usr/bin", "usr/sbin", "usr/libexec"];

fn is_below(name: &str, folder: &str) -> bool {
    name.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a file is never taken.
fn is_never(name: &str) -> bool {
    NEVER.iter().any(|folder| is_below(name, folder))
        // Conversions of character sets, of which `iconv` finds none then: as large as the library.
        || ["lib", "usr/lib"].iter().any(|lib| is_below(name, &format!("{lib}/{TRIPLET}/gconv")))
}

/// Whether it is a program, which only the package itself has for the guest.
fn is_program(name: &str) -> bool {
    PROGRAMS.iter().any(|folder| is_below(name, folder) && name.len() > folder.len())
}

/// Whether it is a library where the linker looks for it: those come by who needs them. What lies deeper is
/// a module that is loaded by its path.
fn is_library(name: &str) -> bool {
    let Some((folder, file)) = name.rsplit_once('/') else { return false };
    let places = ["lib", "usr/lib", "lib64", "usr/lib64"];
    let of_triplet = ["lib", "usr/lib"].map(|lib| format!("{lib}/{TRIPLET}"));
    let is_place = places.contains(&folder) || of_triplet.iter().any(|it| it == folder);
    is_place
        && (file.ends_with(".so") || file.contains(".so.") || file.ends_with(".a") || file.ends_with(".o"))
}

fn has_programs(root: &Path) -> bool {
    PROGRAMS.iter().any(|it| fs::read_dir(root.join(it)).is_ok_and(|mut found| found.next().is_some()))
}

/// A package's folder, and whether it is one that was asked for.
#[derive(Clone, Debug)]
pub struct Unpacked {
    /// Where it was unpacked.
    pub root: PathBuf,
    /// Whether its programs are wanted; of others they are not.
    pub whole: bool,
}

/// Takes what the guest needs of these packages, and the libraries of all that is taken. Gives the programs
/// of those that were asked for.
///
/// # Errors
/// See [`closure::add`]; also more than [`FILES_MAX`] files.
pub fn of_packages(
    packages: &[Unpacked],
    tree: &mut Tree,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<String>, BuildError> {
    let roots = Roots::of(packages.iter().map(|it| it.root.clone()).collect());
    let (mut binaries, mut modules, mut programs) = (Vec::new(), Vec::new(), Vec::new());
    for package in packages {
        // What is loaded by programs that are not taken is not, either.
        let loads = package.whole || !has_programs(&package.root);
        let mut take = |name: &str, path: &Path, found: &fs::Metadata| {
            if is_never(name) || is_library(name) || (!package.whole && is_program(name)) {
                return Ok(false);
            }
            let mode = found.permissions().mode();
            if found.is_dir() {
                tree.folder(name, mode);
                return Ok(true);
            }
            // A program may be a link to one of another package.
            let program = roots.find(name).filter(|_| is_program(name));
            if let Some(file) = program {
                tree.file(name, &file, 0o755);
                programs.push(format!("/{name}"));
                if begins_as_elf(&file)? {
                    binaries.push((format!("/{name}"), file));
                }
            } else if found.is_symlink() {
                let to = fs::read_link(path).map_err(BuildError::file(path))?;
                tree.link(name, &to.to_string_lossy());
            } else if found.is_file() {
                let is_module = begins_as_elf(path)?;
                if is_module && !loads {
                    return Ok(false);
                }
                tree.file(name, path, mode);
                if is_module {
                    modules.push((format!("/{name}"), path.to_owned()));
                }
            }
            if tree.len() > FILES_MAX {
                return Err(BuildError::input("the packages", "more files", format!("{FILES_MAX}")));
            }
            Ok(true)
        };
        walk(&package.root, "", &mut take)?;
    }
    closure::add(tree, &roots, &binaries)?;
    for module in modules {
        let mut with = tree.clone();
        match closure::add(&mut with, &roots, std::slice::from_ref(&module)) {
            Ok(()) => *tree = with,
            // Its library is in a package that is recommended at most: it can be loaded nowhere.
            Err(error @ BuildError::Library { .. }) => {
                tree.remove(&module.0);
                say(&format!("left out: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    programs.sort();
    Ok(programs)
}

/// Takes a file of this host, or a folder with everything in it, to a path inside; gives what is a program
/// or library of it.
pub(crate) fn of_host(
    from: &Path,
    inside: &str,
    tree: &mut Tree,
) -> Result<Vec<(String, PathBuf)>, BuildError> {
    let mut binaries = Vec::new();
    let top = fs::metadata(from).map_err(BuildError::file(from))?;
    if top.is_file() {
        tree.file(inside, from, top.permissions().mode());
        if begins_as_elf(from)? {
            binaries.push((inside.to_owned(), from.to_owned()));
        }
        return Ok(binaries);
    }
    tree.folder(inside, top.permissions().mode());
    let mut take = |name: &str, path: &Path, found: &fs::Metadata| {
        let place = format!("{}/{name}", inside.trim_end_matches('/'));
        let mode = found.permissions().mode();
        if found.is_dir() {
            tree.folder(&place, mode);
        } else if found.is_symlink() {
            let to = fs::read_link(path).map_err(BuildError::file(path))?;
            tree.link(&place, &to.to_string_lossy());
        } else if found.is_file() {
            tree.file(&place, path, mode);
            if begins_as_elf(path)? {
                binaries.push((place, path.to_owned()));
            }
        }
        if tree.len() > FILES_MAX {
            return Err(BuildError::input("the image", "more files", format!("{FILES_MAX}")));
        }
        Ok(true)
    };
    walk(from, "", &mut take)?;
    Ok(binaries)
}

fn begins_as_elf(path: &Path) -> Result<bool, BuildError> {
    use std::io::Read;
    let mut begin = Vec::new();
    let file = local_file::open(path).map_err(BuildError::file(path))?;
    file.take(4).read_to_end(&mut begin).map_err(BuildError::file(path))?;
    Ok(elf::is_elf(&begin))
}

/// Calls `take` with everything below a folder, in the order of names, by its path from there; what it says
/// no to is not looked into.
fn walk(
    root: &Path,
    below: &str,
    take: &mut dyn FnMut(&str, &Path, &fs::Metadata) -> Result<bool, BuildError>,
) -> Result<(), BuildError> {
    let folder = root.join(below);
    let listed = fs::read_dir(&folder).map_err(BuildError::file(&folder))?;
    let mut names = Vec::new();
    for entry in listed {
        let name = entry.map_err(BuildError::file(&folder))?.file_name();
        let Some(name) = name.to_str() else {
            return Err(BuildError::input("a file's name", name.to_string_lossy(), "names in UTF-8"));
        };
        names.push(if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") });
    }
    names.sort();
    for name in names {
        let path = root.join(&name);
        let found = fs::symlink_metadata(&path).map_err(BuildError::file(&path))?;
        if take(&name, &path, &found)? && found.is_dir() {
            walk(root, &name, take)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::made;
    use std::os::unix::fs::symlink;

    fn put(root: &Path, path: &str, bytes: &[u8], mode: u32) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
    }

    #[test]
    fn of_what_a_package_depends_on_its_data_and_the_libraries_that_are_needed_are_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let [own, common, libc, tools] =
            ["own", "common", "libc", "tools"].map(|name| folder.path().join(name));
        let lib = format!("usr/lib/{TRIPLET}");
        put(&own, "usr/sbin/server", &made::elf(Some("/lib64/ld.so"), &["libc.so.6"], None), 0o755);
        put(&own, "usr/share/doc/server/copyright", b"x", 0o644);
        put(&own, "usr/sbin/helper", b"#!/bin/sh\n", 0o755);
        put(&common, "etc/server/server.conf", b"x", 0o640);
        put(&common, "etc/init.d/server", b"x", 0o755);
        put(&tools, "usr/bin/tool", &made::elf(None, &["libother.so"], None), 0o755);
        put(&tools, &format!("{lib}/tool/loaded.so"), &made::elf(None, &[], None), 0o644);
        put(&tools, "etc/tool.conf", b"x", 0o644);
        put(&common, &format!("{lib}/server/module.so"), &made::elf(None, &["libm.so.6"], None), 0o644);
        fs::create_dir_all(common.join("var/lib/server")).expect("made");
        symlink("/etc/server/server.conf", common.join("etc/default.conf")).expect("linked");
        put(&libc, &format!("{lib}/libc.so.6"), &made::elf(None, &[], None), 0o755);
        put(&libc, &format!("{lib}/libm.so.6"), &made::elf(None, &[], None), 0o644);
        put(&libc, &format!("{lib}/libother.so"), &made::elf(None, &[], None), 0o644);
        put(&libc, &format!("{lib}/gconv/BIG5.so"), &made::elf(None, &[], None), 0o644);
        put(&libc, "lib64/ld.so", &made::elf(None, &[], None), 0o755);
        let packages = [
            Unpacked { root: own, whole: true },
            Unpacked { root: common.clone(), whole: false },
            Unpacked { root: libc, whole: false },
            Unpacked { root: tools, whole: false },
        ];
        let mut tree = Tree::default();
        put(&common, &format!("{lib}/server/without.so"), &made::elf(None, &["libnone.so.1"], None), 0o644);
        symlink("../bin/tool", packages[0].root.join("usr/sbin/linked")).expect("linked");
        let mut said = Vec::new();
        let programs =
            of_packages(&packages, &mut tree, &mut |what| said.push(what.to_owned())).expect("taken");
        assert!(said.len() == 1 && said[0].contains("`libnone.so.1`"), "{said:?}");
        assert_eq!(programs, ["/usr/sbin/helper", "/usr/sbin/linked", "/usr/sbin/server"]);
        assert!(matches!(tree.get("usr/sbin/linked"), Some(crate::Entry::File { .. })), "what it leads to");
        for name in [
            "usr/sbin/server",
            "etc/server/server.conf",
            "etc/default.conf",
            "var/lib/server",
            "etc/tool.conf",
            &format!("lib/{TRIPLET}/libother.so"),
            &format!("{lib}/server/module.so"),
            &format!("lib/{TRIPLET}/libc.so.6"),
            &format!("lib/{TRIPLET}/libm.so.6"),
            "lib64/ld.so",
        ] {
            assert!(tree.get(name).is_some(), "{name}");
        }
        for name in [
            "usr/share/doc/server/copyright",
            "etc/init.d/server",
            "usr/bin/tool",
            &format!("{lib}/tool/loaded.so"),
            &format!("{lib}/server/without.so"),
            &format!("{lib}/gconv/BIG5.so"),
        ] {
            assert!(tree.get(name).is_none(), "{name}");
        }
    }

    #[test]
    fn files_and_folders_of_the_host_are_taken_as_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        put(folder.path(), "www/index.html", b"x", 0o644);
        put(folder.path(), "www/cgi-bin/x", &made::elf(None, &[], None), 0o755);
        let mut tree = Tree::default();
        let binaries = of_host(&folder.path().join("www"), "/srv/www", &mut tree).expect("taken");
        assert_eq!(binaries.len(), 1);
        assert!(tree.get("srv/www/index.html").is_some() && tree.get("srv/www/cgi-bin/x").is_some());
        let error = of_host(Path::new("/nowhere"), "/x", &mut tree).expect_err("refused").to_string();
        assert!(error.starts_with("/nowhere: "), "{error}");
    }
}
