//! The root of a program of the host: nothing but the places where folders of the host are bound.

use crate::Refusal;
use crate::request::Start;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, chownat};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

/// What lies in `/usr` on hosts of today, and is found by these names (file-hierarchy(7)).
const MERGED: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Whether a program's file is there.
pub(crate) fn is_there(start: &Start) -> Result<(), Refusal> {
    let command = start.command.first().map(String::as_str).unwrap_or_default();
    let found = fs::metadata(command).map_err(|error| error.to_string());
    let found =
        found.and_then(|found| if found.is_file() { Ok(()) } else { Err("it is no file".to_owned()) });
    found.map_err(|why| Refusal::new(format!("command: `{command}`: {why}; allowed: a program of the host")))
}

/// Makes the root in the guest's folder; its files are the tenant's, as those of an unpacked image.
pub(crate) fn root(folder: &Path, programs: &[PathBuf], uids: u32) -> io::Result<PathBuf> {
    let root = folder.join("root");
    make(&root, uids)?;
    for path in programs {
        let mut place = root.clone();
        for part in path.components() {
            if let Component::Normal(part) = part {
                place.push(part);
                make(&place, uids)?;
            }
        }
    }
    for name in MERGED {
        let leads_to_usr = fs::read_link(Path::new("/").join(name)).is_ok_and(|to| is_in_usr(&to));
        let there = root.join(name);
        if leads_to_usr && !there.exists() {
            symlink(Path::new("usr").join(name), &there)?;
            let own = (Some(Uid::from_raw(uids)), Some(Gid::from_raw(uids)));
            chownat(CWD, &there, own.0, own.1, AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    Ok(root)
}

fn is_in_usr(to: &Path) -> bool {
    let mut parts = to.components().filter(|part| *part != Component::RootDir);
    parts.next() == Some(Component::Normal("usr".as_ref()))
}

fn make(folder: &Path, uids: u32) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty())?;
    rustix::fs::fchown(&opened, Some(Uid::from_raw(uids)), Some(Gid::from_raw(uids)))?;
    Ok(rustix::fs::fchmod(&opened, Mode::from_bits_truncate(0o755))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_has_places_for_the_folders_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = rustix::process::geteuid().as_raw();
        let root = root(folder.path(), &["/usr".into(), "/opt/nf/bin".into()], own).expect("made");
        let mut names: Vec<String> = fs::read_dir(&root)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|name| !MERGED.contains(&name.as_str()))
            .collect();
        names.sort();
        assert_eq!(names, ["opt", "usr"]);
        assert!(root.join("opt/nf/bin").is_dir());
        for name in MERGED.iter().filter(|name| root.join(name).symlink_metadata().is_ok()) {
            assert_eq!(fs::read_link(root.join(name)).expect("a link"), Path::new("usr").join(name));
        }
        assert!(is_in_usr(Path::new("usr/lib")) && is_in_usr(Path::new("/usr/lib")));
        assert!(!is_in_usr(Path::new("/opt/usr")) && !is_in_usr(Path::new("../usr")));
    }
}
