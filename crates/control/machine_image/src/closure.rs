//! The libraries of programs, as the dynamic linker would find them (ld.so(8)), without running anything:
//! what
//! `ldd` shows is found by loading the program, which one of a package that is looked into need not deserve.

use crate::elf::{self, Elf};
use crate::{BuildError, Tree};
use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Links that are followed on the way to a file (`MAXSYMLINKS` of the kernel).
const LINKS_MAX: usize = 40;
/// Largest program.
const PROGRAM_MAX: u64 = 1 << 30;

/// What the dynamic linker looks into in any case; `TRIPLET` is that of the host.
const FOLDERS: [&str; 6] = ["/lib/TRIPLET", "/usr/lib/TRIPLET", "/lib", "/usr/lib", "/lib64", "/usr/lib64"];

/// Folders of libraries are called so on Debian.
pub const TRIPLET: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };

/// What lies in `/usr` on hosts of today and, in packages, beside it (file-hierarchy(7)).
const MERGED: [&str; 5] = ["bin", "sbin", "lib", "lib32", "lib64"];

/// Folders that are one root together: this host's, or those into which packages were unpacked.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    roots: Vec<PathBuf>,
    /// Further folders of libraries, which the host's linker is configured for.
    more: Vec<String>,
}

impl Roots {
    /// The root of this host.
    pub fn host() -> Roots {
        Roots { roots: vec![PathBuf::from("/")], more: configured(Path::new("/etc/ld.so.conf.d")) }
    }

    /// These folders.
    pub fn of(roots: Vec<PathBuf>) -> Roots {
        Roots { roots, more: Vec::new() }
    }

    /// The file of the host that is at this path inside, with every link on the way followed within the
    /// roots. Of what lies in `/usr` on some hosts and beside it on others, either is found.
    pub fn find(&self, inside: &str) -> Option<PathBuf> {
        self.walk(inside).or_else(|| {
            let plain = inside.trim_start_matches('/');
            match plain.strip_prefix("usr/") {
                Some(rest) if is_merged(rest) => self.walk(rest),
                None if is_merged(plain) => self.walk(&format!("usr/{plain}")),
                _ => None,
            }
        })
    }

    fn walk(&self, inside: &str) -> Option<PathBuf> {
        let parts = |path: &Path| -> Vec<Option<String>> {
            path.components()
                .filter_map(|part| match part {
                    Component::Normal(name) => Some(Some(name.to_string_lossy().into_owned())),
                    Component::ParentDir => Some(None),
                    _ => None,
                })
                .collect()
        };
        let mut pending: VecDeque<Option<String>> = parts(Path::new(inside)).into();
        let (mut at, mut links) = (PathBuf::new(), 0);
        while let Some(part) = pending.pop_front() {
            let Some(name) = part else {
                at.pop();
                continue;
            };
            let here = at.join(name);
            let link = self.roots.iter().find_map(|root| fs::read_link(root.join(&here)).ok());
            let Some(to) = link else {
                at = here;
                continue;
            };
            links += 1;
            if links > LINKS_MAX {
                return None;
            }
            if to.is_absolute() {
                at = PathBuf::new();
            }
            parts(&to).into_iter().rev().for_each(|part| pending.push_front(part));
        }
        self.roots.iter().map(|root| root.join(&at)).find(|path| path.is_file())
    }
}

fn is_merged(path: &str) -> bool {
    path.split_once('/').is_some_and(|(first, _)| MERGED.contains(&first))
}

/// Folders that lines of such files name (ldconfig(8)).
fn configured(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|it| it == "conf")).collect();
    files.sort();
    let texts = files.iter().filter_map(|path| fs::read_to_string(path).ok());
    let lines = texts.flat_map(|text| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>());
    lines.filter(|line| line.starts_with('/')).collect()
}

/// Adds to the tree what the programs and libraries at these paths inside need: their interpreter and
/// libraries, theirs, and so on. `from` says which file of the host is at a path that the tree already has.
///
/// # Errors
/// A library is nowhere, or a file cannot be read.
pub fn add(tree: &mut Tree, roots: &Roots, programs: &[(String, PathBuf)]) -> Result<(), BuildError> {
    let mut seen = BTreeSet::new();
    let mut pending: VecDeque<(String, PathBuf)> = programs.to_vec().into();
    while let Some((inside, file)) = pending.pop_front() {
        if !seen.insert(inside.clone()) {
            continue;
        }
        let bytes = contents(&file)?;
        if !elf::is_elf(&bytes) {
            continue;
        }
        let elf = elf::read(&bytes).map_err(|fault| damaged(&file, fault))?;
        if let Some(interpreter) = &elf.interpreter {
            let found = roots.find(interpreter).ok_or_else(|| BuildError::Library {
                program: inside.clone(),
                library: interpreter.clone(),
                searched: "the packages that it depends on".to_owned(),
            })?;
            pending.push_back(put(tree, interpreter, found)?);
        }
        for name in &elf.needed {
            let (place, found) = library(roots, &inside, &elf, name)?;
            pending.push_back(put(tree, &place, found)?);
        }
    }
    Ok(())
}

/// The bytes of a program.
pub(crate) fn contents(file: &Path) -> Result<Vec<u8>, BuildError> {
    let mut bytes = Vec::new();
    let opened = local_file::open(file).map_err(BuildError::file(file))?;
    opened.take(PROGRAM_MAX).read_to_end(&mut bytes).map_err(BuildError::file(file))?;
    Ok(bytes)
}

fn damaged(file: &Path, fault: elf::ElfFault) -> BuildError {
    BuildError::input("a program or library", file.display(), format!("one that can be read ({fault})"))
}

fn put(tree: &mut Tree, inside: &str, found: PathBuf) -> Result<(String, PathBuf), BuildError> {
    let mode = fs::metadata(&found).map_err(BuildError::file(&found))?.permissions().mode();
    // Where a link was, or another name of the same, the file itself is.
    tree.file(inside, &found, mode);
    Ok((inside.to_owned(), found))
}

/// Where a library is: the path that it has inside, and its file.
fn library(roots: &Roots, program: &str, elf: &Elf, name: &str) -> Result<(String, PathBuf), BuildError> {
    let fits = |path: &str| {
        let file = roots.find(path)?;
        let found = elf::read(&contents(&file).ok()?).ok()?;
        ((found.wide, found.machine) == (elf.wide, elf.machine)).then_some(file)
    };
    if name.contains('/') {
        let found = fits(name).map(|file| (name.to_owned(), file));
        return found.ok_or_else(|| none(program, name, &[name.to_owned()]));
    }
    let origin = program.rsplit_once('/').map_or("", |(folder, _)| folder);
    let of_its_own = elf.folders.iter().map(|folder| {
        let folder = folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", origin);
        plain(&folder)
    });
    let of_its_own: Vec<String> = of_its_own.collect();
    let fixed: Vec<String> = FOLDERS.iter().map(|folder| folder.replace("TRIPLET", TRIPLET)).collect();
    for folder in of_its_own.iter().chain(&fixed) {
        let path = format!("{folder}/{name}");
        if let Some(file) = fits(&path) {
            return Ok((path, file));
        }
    }
    // The guest's linker has no configuration: it lies where that looks in any case.
    for folder in &roots.more {
        if let Some(file) = fits(&format!("{folder}/{name}")) {
            return Ok((format!("{}/{name}", fixed[0]), file));
        }
    }
    let searched: Vec<String> = of_its_own.into_iter().chain(fixed).chain(roots.more.clone()).collect();
    Err(none(program, name, &searched))
}

fn none(program: &str, name: &str, searched: &[String]) -> BuildError {
    let harmless = |text: &str| printable::harmless(text, 512);
    BuildError::Library {
        program: harmless(program),
        library: harmless(name),
        searched: harmless(&searched.join(", ")),
    }
}

/// A path without `.` and `..`.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::made;
    use std::os::unix::fs::symlink;

    /// Two packages, unpacked: a program, and its libraries.
    fn roots(folder: &Path) -> Roots {
        let roots = ["program", "libraries"].map(|name| folder.join(name));
        let put = |root: usize, path: &str, bytes: &[u8]| {
            let path = roots[root].join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, bytes).expect("written");
        };
        let lib = format!("usr/lib/{TRIPLET}");
        put(
            0,
            "usr/sbin/server",
            &made::elf(Some("/lib64/ld.so"), &["liba.so.1", "libown.so"], Some("$ORIGIN/../lib/server")),
        );
        put(0, "usr/lib/server/libown.so", &made::elf(None, &["libb.so.2"], None));
        put(1, &format!("{lib}/liba.so.1.0"), &made::elf(None, &["libb.so.2"], None));
        symlink("liba.so.1.0", roots[1].join(&lib).join("liba.so.1")).expect("linked");
        put(1, &format!("lib/{TRIPLET}/libb.so.2"), &made::elf(None, &["liba.so.1"], None));
        // On hosts of today it lies in /usr.
        put(1, "usr/lib64/ld-2.so", &made::elf(None, &[], None));
        symlink("/usr/lib64/ld-2.so", roots[1].join("usr/lib64/ld.so")).expect("linked");
        // Of another kind of processor, in a folder that is looked into first.
        let mut other = made::elf(None, &[], None);
        other[18] = 183;
        put(0, "usr/lib/server/libb.so.2", &other);
        Roots::of(roots.to_vec())
    }

    fn programs(roots: &Roots) -> Vec<(String, PathBuf)> {
        vec![("/usr/sbin/server".to_owned(), roots.find("/usr/sbin/server").expect("there"))]
    }

    #[test]
    fn libraries_of_libraries_are_found_in_the_linkers_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let roots = roots(folder.path());
        let mut tree = Tree::default();
        add(&mut tree, &roots, &programs(&roots)).expect("closed");
        let files: Vec<&str> = tree
            .entries()
            .filter(|(_, entry)| matches!(entry, crate::Entry::File { .. }))
            .map(|(name, _)| name)
            .collect();
        let wanted = [
            format!("lib/{TRIPLET}/liba.so.1"),
            format!("lib/{TRIPLET}/libb.so.2"),
            "lib64/ld.so".to_owned(),
            "usr/lib/server/libown.so".to_owned(),
        ];
        assert_eq!(files, wanted);
    }

    #[test]
    fn a_library_that_is_nowhere_is_named_with_what_needs_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let roots = roots(folder.path());
        fs::remove_file(folder.path().join(format!("libraries/lib/{TRIPLET}/libb.so.2"))).expect("removed");
        let error = add(&mut Tree::default(), &roots, &programs(&roots)).expect_err("refused");
        let told = error.to_string();
        assert!(error.is_input() && told.contains("needs the library `libb.so.2`"), "{told}");
        assert!(told.contains(&format!("/usr/lib/{TRIPLET}")), "{told}");
    }

    #[test]
    fn links_lead_nowhere_else_and_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        fs::create_dir(&root).expect("made");
        fs::write(folder.path().join("secret"), "x").expect("written");
        symlink("../../../../secret", root.join("up")).expect("linked");
        symlink("/loop", root.join("loop")).expect("linked");
        symlink(folder.path().join("secret"), root.join("absolute")).expect("linked");
        let roots = Roots::of(vec![root]);
        for path in ["/up", "/loop", "/absolute", "../secret", "/nothing"] {
            assert_eq!(roots.find(path), None, "{path}");
        }
    }

    #[test]
    fn what_runs_here_is_closed_as_the_linker_says() {
        let mut tree = Tree::default();
        let own = std::env::current_exe().expect("this test");
        add(&mut tree, &Roots::host(), &[(own.display().to_string(), own.clone())]).expect("closed");
        let maps = fs::read_to_string("/proc/self/maps").expect("maps");
        let loaded = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5))
            .filter(|path| path.contains(".so"));
        for path in loaded {
            let name = path.rsplit('/').next().unwrap_or(path);
            let there = tree.entries().any(|(inside, _)| inside.ends_with(name));
            assert!(there, "{path} is not among {:?}", tree.entries().collect::<Vec<_>>());
        }
    }
}
