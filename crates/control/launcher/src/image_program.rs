//! Whether an image has the program that its container is to run: told of the image, before the runtime says
//! it of its own work.
//!
//! It is looked for as the runtime does: a path, from the working folder where it is not absolute, or a name
//! in the folders of `PATH`. Links are followed within the image. What mounts hide or bring is not looked
//! into, and whether the kernel can run the file, which may lack its interpreter, shows at the start.

use crate::Refusal;
use crate::bundle::{command, path_of, working_folder};
use crate::request::Start;
use container_image::Config;
use rustix::fs::{Dir, Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use yaml_document::spelling;

/// Folders of `PATH` that are looked into; of an image that has more, nothing is said.
const FOLDERS_MAX: usize = 64;
/// Names of a folder that are compared with one that is not there.
const NAMES_MAX: usize = 4096;
/// Folders that each guest has of its own.
const OWN: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/tmp"];

/// Whether the image at `root` has the program.
///
/// # Errors
/// [`Refusal`] of `command`.
pub(crate) fn is_there(root: &Path, start: &Start, config: &Config) -> Result<(), Refusal> {
    let command = command(start, config)?;
    let program = command.first().map(String::as_str).unwrap_or_default();
    let Ok(image) = File::open(root) else { return Ok(()) };
    let folders: Vec<PathBuf> =
        path_of(config).split(':').take(FOLDERS_MAX + 1).map(|it| working_folder(config).join(it)).collect();
    let places: Vec<PathBuf> = match program.contains('/') {
        true => vec![working_folder(config).join(program)],
        false => folders.iter().map(|folder| folder.join(program)).collect(),
    };
    let hidden = |place: &PathBuf| {
        let own = OWN.iter().map(Path::new);
        let mounted = start.mounts.keys().chain(config.volumes.keys()).map(Path::new);
        own.chain(mounted).any(|folder| place.starts_with(folder))
    };
    if places.len() > FOLDERS_MAX || places.iter().any(hidden) {
        return Ok(());
    }
    let mut why = "is not there";
    for place in &places {
        match look(&image, place) {
            Found::Program => return Ok(()),
            Found::Folder => why = "is a folder",
            Found::Plain => why = "may not be executed",
            Found::Nothing => {}
        }
    }
    let mut said =
        format!("{NOT_THERE}`{}` {why}; allowed: a program of the image", spelling::shown(program));
    if let Some(other) = other(&image, program, places.first().map(PathBuf::as_path), &folders) {
        said.push_str(&format!("; did you mean `{}`?", spelling::shown(&other)));
    }
    Err(Refusal::new(said))
}

/// How a refusal begins that is about the image's own files alone.
pub(crate) const NOT_THERE: &str = "command: the image's ";

enum Found {
    Program,
    Folder,
    Plain,
    Nothing,
}

/// What is at a path of the image.
fn look(image: &File, place: &Path) -> Found {
    let Some(found) = open(image, place, OFlags::PATH).and_then(|it| File::from(it).metadata().ok()) else {
        return Found::Nothing;
    };
    match (found.is_file(), found.is_dir()) {
        (true, _) if found.mode() & 0o111 != 0 => Found::Program,
        (_, true) => Found::Folder,
        _ => Found::Plain,
    }
}

fn open(image: &File, place: &Path, flags: OFlags) -> Option<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(image, place, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
}

/// What was probably meant: the same name in a folder of `PATH`, or one that is spelled much the same.
fn other(image: &File, program: &str, place: Option<&Path>, folders: &[PathBuf]) -> Option<String> {
    let name = Path::new(program).file_name()?;
    let same = folders.iter().take(FOLDERS_MAX).map(|folder| folder.join(name));
    if let Some(same) = same.into_iter().find(|place| matches!(look(image, place), Found::Program)) {
        return Some(same.display().to_string());
    }
    let folder = place?.parent()?;
    let entries = Dir::new(open(image, folder, OFlags::RDONLY | OFlags::DIRECTORY)?).ok()?;
    let names: Vec<String> = entries
        .take(NAMES_MAX)
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_owned()))
        .filter(|name| matches!(look(image, &folder.join(name)), Found::Program))
        .collect();
    let near = spelling::nearest(name.to_str()?, names.iter().map(String::as_str))?;
    Some(if program.contains('/') { folder.join(near).display().to_string() } else { near.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_command_that_the_image_lacks_is_told_with_what_was_meant() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        std::fs::create_dir_all(root.join("usr/bin/folder")).expect("made");
        std::fs::create_dir_all(root.join("opt")).expect("made");
        for (name, mode) in [("usr/bin/suricata", 0o755), ("usr/bin/plain", 0o644), ("opt/start", 0o755)] {
            std::fs::write(root.join(name), "").expect("written");
            std::fs::set_permissions(root.join(name), PermissionsExt::from_mode(mode)).expect("set");
        }
        // Of the image, not of this host.
        symlink("/usr/bin", root.join("bin")).expect("made");
        symlink("/bin/sh", root.join("usr/bin/host")).expect("made");
        symlink("loop", root.join("usr/bin/loop")).expect("made");
        let mut config = Config { working_dir: "/opt".into(), ..Config::default() };
        let start = serde_json::json!({"name": "a", "tenant": "blue", "limits": {"memory": 1}});
        let mut start: Start = serde_json::from_value(start).expect("a start");
        let mut asked = |command: &str, config: &Config| {
            start.command = vec![command.to_owned()];
            is_there(root, &start, config).map_err(|refused| refused.to_string())
        };
        for there in ["/usr/bin/suricata", "suricata", "/bin/suricata", "./start", "/../usr/bin/suricata"] {
            assert_eq!(asked(there, &config), Ok(()), "{there}");
        }
        // What is mounted there is not known.
        assert_eq!(asked("/tmp/x", &config), Ok(()));
        for (missing, wanted) in [
            ("/bin/sh", "`/bin/sh` is not there; allowed: a program of the image"),
            ("/sbin/suricata", "did you mean `/usr/bin/suricata`?"),
            ("/usr/bin/surricata", "did you mean `/usr/bin/suricata`?"),
            ("host", "`host` is not there"),
            ("loop", "`loop` is not there"),
            ("plain", "`plain` may not be executed"),
            ("/usr/bin/folder", "`/usr/bin/folder` is a folder"),
            ("start", "`start` is not there"),
            ("", "`` is a folder"),
        ] {
            let refused = asked(missing, &config).expect_err(missing);
            assert!(refused.starts_with(NOT_THERE) && refused.contains(wanted), "{missing}: {refused}");
        }
        config.env = vec!["PATH=/opt".into()];
        assert_eq!(asked("start", &config), Ok(()));
        config.env = vec![format!("PATH={}", "/x:".repeat(1 << 16))];
        assert_eq!(asked("start", &config), Ok(()), "too many folders to look into");
    }
}
