//! From what is asked for to a kernel and an initramfs.

use crate::closure::{self, Roots};
use crate::init::{self, Service};
use crate::reduce::{self, By, Found, Journal, Outcome};
use crate::tiny::{Config, Options, Source};
use crate::trial::Machine;
use crate::{BuildError, Tree, cpio, elf, kernel, packages, selection};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is to run in the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A package of Debian's.
    Package(String),
    /// A program of this host.
    File(PathBuf),
}

/// Which kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Debian's for clouds, with modules.
    Debian,
    /// One that is compiled.
    Tiny,
    /// This file, as it is.
    File(PathBuf),
}

/// A file or folder of this host, and where it comes to lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOf {
    /// Where it is.
    pub from: PathBuf,
    /// Where it comes to lie inside.
    pub inside: String,
}

/// Which options are tried to be left out, and how it is found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// Options, without `CONFIG_`.
    pub options: Vec<String>,
    /// In which groups.
    pub by: By,
    /// A shell's command that ends with 0 when the program works.
    pub test: String,
    /// Ports of the guest that it reaches.
    pub ports: Vec<u16>,
    /// How long a machine has until its program works.
    pub time: Duration,
    /// Mebibytes of the machine's memory.
    pub memory: u32,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is to run.
    pub program: Program,
    /// The shell's line that runs it; by default what the package's unit of systemd says, or the program.
    pub command: Option<String>,
    /// It goes into the background by itself.
    pub once: bool,
    /// Lines of the shell before it.
    pub before: Vec<String>,
    /// More packages, wholly.
    pub with: Vec<String>,
    /// More files.
    pub copies: Vec<CopyOf>,
    /// The kernel.
    pub kernel: Kernel,
    /// More modules of Debian's kernel.
    pub modules: Vec<String>,
    /// More options of a tiny kernel, or less.
    pub options: Options,
    /// Options of it to leave out if the program works without them.
    pub reduction: Option<Reduction>,
    /// Where the image comes to lie.
    pub output: PathBuf,
    /// Where downloads, sources and kernels are kept.
    pub cache: PathBuf,
    /// Compilers at a time.
    pub jobs: usize,
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The kernel, and its length.
    pub kernel: (PathBuf, u64),
    /// The initramfs, and its length.
    pub initramfs: (PathBuf, u64),
    /// The line that runs the program.
    pub command: String,
    /// What was found out about options.
    pub found: Option<Found>,
}

/// Where downloads and kernels of the calling user are kept.
pub fn default_cache() -> PathBuf {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = of("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(of("HOME")?.join(".cache")));
    cache.unwrap_or_else(|| PathBuf::from("/var/cache")).join("superfluid/vm")
}

/// Makes the image. `say` is told of each step that takes long.
///
/// # Errors
/// [`BuildError`]; what is in the output's folder is whole in any case.
pub fn build(request: &Request, say: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    check(request)?;
    let request = &Request {
        output: std::path::absolute(&request.output).map_err(BuildError::file(&request.output))?,
        cache: std::path::absolute(&request.cache).map_err(BuildError::file(&request.cache))?,
        ..request.clone()
    };
    for folder in [&request.output, &request.cache] {
        fs::create_dir_all(folder).map_err(BuildError::file(folder))?;
    }
    let work = Work::begin(&request.output)?;
    let mut tree = Tree::default();
    let service = match &request.program {
        Program::File(file) => of_file(request, file, &mut tree)?,
        Program::Package(name) => of_package(request, name, &work.0, &mut tree, say)?,
    };
    copies(request, &mut tree)?;
    named(&service.command, &tree)?;
    init::add(&mut tree, &service);
    if tree.get(init::BUSYBOX).is_none() {
        let busybox = busybox(request, &work.0)?;
        tree.file(init::BUSYBOX, &busybox, 0o755);
    }
    let initramfs = request.output.join("initramfs");
    let kernel = request.output.join("kernel");
    let found = match &request.kernel {
        Kernel::Debian => {
            say("taking Debian's kernel");
            let debian = kernel::debian(&request.cache, &work.0)?;
            let modules = kernel::MODULES.iter().map(|name| (*name).to_owned());
            let modules: Vec<String> = modules.chain(request.modules.iter().cloned()).collect();
            kernel::add_modules(&mut tree, &debian, &modules, &work.0)?;
            copy(&debian.image, &kernel)?;
            archive(&tree, &initramfs)?;
            None
        }
        Kernel::File(file) => {
            copy(file, &kernel)?;
            archive(&tree, &initramfs)?;
            None
        }
        Kernel::Tiny => {
            archive(&tree, &initramfs)?;
            tiny(request, &work.0, &initramfs, &kernel, say)?
        }
    };
    let length = |path: &Path| fs::metadata(path).map(|it| it.len()).map_err(BuildError::file(path));
    Ok(Built {
        kernel: (kernel.clone(), length(&kernel)?),
        initramfs: (initramfs.clone(), length(&initramfs)?),
        command: service.command,
        found,
    })
}

/// What can be said without doing anything.
fn check(request: &Request) -> Result<(), BuildError> {
    let of_tiny = !request.options.is_empty() || request.reduction.is_some();
    if of_tiny && request.kernel != Kernel::Tiny {
        return Err(BuildError::input(
            "options of the kernel",
            "some for another kernel",
            "none, or --kernel tiny",
        ));
    }
    if !request.modules.is_empty() && request.kernel != Kernel::Debian {
        return Err(BuildError::input("modules", request.modules.join(", "), "none, or --kernel debian"));
    }
    let lines = request.before.iter().chain(&request.command);
    if let Some(line) = lines.into_iter().find(|line| line.contains('\n') || line.trim().is_empty()) {
        return Err(BuildError::input("a command", line, "one line of a shell"));
    }
    for one in &request.copies {
        let plain = one.inside.starts_with('/') && one.inside.len() > 1 && one.inside.len() < 4096;
        if !plain || one.inside.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(BuildError::input(
                "a path inside",
                &one.inside,
                "absolute paths without `.` and `..`",
            ));
        }
    }
    Ok(())
}

/// A folder for what is not kept, in the output's. It is the calling user's alone: packages are unpacked in
/// it, with the owners and set-user bits that they have.
struct Work(PathBuf);

impl Work {
    fn begin(output: &Path) -> Result<Work, BuildError> {
        let folder = begun(output, ".work");
        let made = fs::DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(BuildError::file(&folder))?;
        Ok(Work(folder))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program of this host, and its libraries.
fn of_file(request: &Request, file: &Path, tree: &mut Tree) -> Result<Service, BuildError> {
    let file = std::path::absolute(file).map_err(BuildError::file(file))?;
    let bytes = closure::contents(&file)?;
    let inside = file.to_string_lossy().into_owned();
    if let Some(script) = bytes.strip_prefix(b"#!") {
        let line = script.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let interpreter = line.split_whitespace().next().unwrap_or_default();
        if interpreter != "/bin/sh" {
            let found = format!("{inside}, a script for `{}`", line.trim());
            let allowed = "an ELF program, or a script for /bin/sh; of another one its interpreter's package, with the \
                           script by --copy and in --command";
            return Err(BuildError::input("program", found, allowed));
        }
    } else {
        let elf = elf::read(&bytes).map_err(|fault| {
            BuildError::input(
                "program",
                &inside,
                format!("an ELF program ({fault}), or a script for /bin/sh"),
            )
        })?;
        let own = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        if elf.machine != own || !elf.wide {
            let found = format!("{inside}, for the machine {}", elf.machine);
            return Err(BuildError::input(
                "program",
                found,
                format!("one for this host's processor ({own})"),
            ));
        }
    }
    let mode = fs::metadata(&file).map_err(BuildError::file(&file))?.permissions().mode();
    if mode & 0o111 == 0 {
        return Err(BuildError::input("program", &inside, "a file that may be executed"));
    }
    tree.file(&inside, &file, mode);
    closure::add(tree, &Roots::host(), &[(inside.clone(), file)])?;
    if !request.with.is_empty() {
        let allowed = "none beside a program of this host; name the program's package in its place";
        return Err(BuildError::input("packages", request.with.join(" "), allowed));
    }
    Ok(Service {
        command: request.command.clone().unwrap_or(format!("exec {}", quoted(&inside))),
        once: request.once,
        before: request.before.clone(),
        users: Vec::new(),
    })
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A package, and what it needs.
fn of_package(
    request: &Request,
    name: &str,
    work: &Path,
    tree: &mut Tree,
    say: &mut dyn FnMut(&str),
) -> Result<Service, BuildError> {
    let mut names: Vec<&str> = vec![name];
    names.extend(request.with.iter().map(String::as_str));
    let asked = names.clone();
    // What the guest's init is comes the same way, unless this host has it.
    if host_busybox().is_none() {
        names.push("busybox-static");
    }
    let all = packages::needed(packages::resolve(&names, work)?, &names)?;
    say(&format!("{name} and what it depends on: {} packages", all.len()));
    let files = packages::fetch(&all, &request.cache)?;
    let mut unpacked = Vec::new();
    for (package, file) in all.iter().zip(&files) {
        let root = work.join("packages").join(&package.name);
        packages::unpack(file, &root)?;
        let whole = asked.contains(&package.name.as_str());
        unpacked.push(selection::Unpacked { root, whole });
    }
    let programs = selection::of_packages(&unpacked, tree, say)?;
    let of_unit = unit(name, &all, &unpacked);
    let mut service = of_unit.clone().unwrap_or_default();
    service.before.extend(request.before.iter().cloned());
    if let Some(command) = &request.command {
        (service.command, service.once) = (command.clone(), request.once);
    } else if of_unit.is_some() {
        service.once |= request.once;
    } else {
        let [only] = programs.as_slice() else {
            return Err(BuildError::Unclear(unclear(name, &programs, &all, &unpacked)));
        };
        (service.command, service.once) = (format!("exec {}", quoted(only)), request.once);
    }
    Ok(service)
}

/// What could be meant.
fn unclear(
    name: &str,
    programs: &[String],
    all: &[packages::Package],
    unpacked: &[selection::Unpacked],
) -> String {
    if !programs.is_empty() {
        let some: Vec<&str> = programs.iter().map(String::as_str).take(12).collect();
        return format!(
            "command: the package `{name}` has {} programs and no unit of its own; allowed: --command with one, such as {}",
            programs.len(),
            some.join(", ")
        );
    }
    let has_some = |root: &Path| {
        let folders = ["usr/bin", "usr/sbin", "bin", "sbin"];
        folders.iter().any(|it| fs::read_dir(root.join(it)).is_ok_and(|mut found| found.next().is_some()))
    };
    let others: Vec<&str> = all
        .iter()
        .zip(unpacked)
        .filter(|(_, it)| has_some(&it.root))
        .map(|(package, _)| package.name.as_str())
        .take(12)
        .collect();
    format!(
        "package: `{name}` has no program; allowed: one that has, or --with it and --command; it depends on {}",
        if others.is_empty() { "none".to_owned() } else { others.join(", ") }
    )
}

/// How the package's own unit starts it: one of its name, or the only one.
fn unit(name: &str, all: &[packages::Package], unpacked: &[selection::Unpacked]) -> Option<Service> {
    let mut found: Vec<(bool, String, PathBuf)> = Vec::new();
    for (package, one) in all.iter().zip(unpacked) {
        for folder in ["lib/systemd/system", "usr/lib/systemd/system"] {
            for entry in fs::read_dir(one.root.join(folder)).into_iter().flatten().flatten() {
                let file = entry.file_name().to_string_lossy().into_owned();
                let Some(unit) = file.strip_suffix(".service").filter(|it| !it.ends_with('@')) else {
                    continue;
                };
                // A link leads to a file of the package, or to none: never to one of this host.
                let inside = Roots::of(vec![one.root.clone()]).find(&format!("{folder}/{file}"));
                found.extend(inside.map(|path| (package.name == name, unit.to_owned(), path)));
            }
        }
    }
    let own: Vec<_> = found.iter().filter(|(own, ..)| *own).collect();
    let named = found.iter().find(|(_, unit, _)| unit == name);
    let (.., path) = named.or(if own.len() == 1 { Some(own[0]) } else { None })?;
    init::of_unit(&String::from_utf8(closure::contents(path).ok()?).ok()?)
}

/// Files of this host, and what they need of it.
fn copies(request: &Request, tree: &mut Tree) -> Result<(), BuildError> {
    let mut binaries = Vec::new();
    for one in &request.copies {
        binaries.extend(selection::of_host(&one.from, &one.inside, tree)?);
    }
    closure::add(tree, &Roots::host(), &binaries)
}

/// A command that names its program by a path names one that is there.
fn named(command: &str, tree: &Tree) -> Result<(), BuildError> {
    let words = command.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
    let first = words.into_iter().find(|word| *word != "exec").unwrap_or_default();
    if !first.starts_with('/') || first == init::BUSYBOX || first == "/bin/sh" || tree.get(first).is_some() {
        return Ok(());
    }
    // What lies beside `/usr` on some hosts, and what is busybox's.
    let usr = format!("/usr{first}");
    let beside = first.strip_prefix("/usr").unwrap_or(&usr);
    if tree.get(beside).is_some() || ["/bin/", "/sbin/"].iter().any(|it| first.starts_with(it)) {
        return Ok(());
    }
    Err(BuildError::input("command", first, "a program of the image, by its path there or its name"))
}

/// The host's, if it is one that needs no libraries.
fn host_busybox() -> Option<PathBuf> {
    let paths = ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from);
    paths.into_iter().find(|path| {
        let elf = closure::contents(path).ok().and_then(|bytes| elf::read(&bytes).ok());
        elf.is_some_and(|elf| elf.interpreter.is_none() && elf.needed.is_empty())
    })
}

fn busybox(request: &Request, work: &Path) -> Result<PathBuf, BuildError> {
    if let Some(own) = host_busybox() {
        return Ok(own);
    }
    let all = packages::resolve(&["busybox-static"], work)?;
    let all: Vec<_> = all.into_iter().filter(|it| it.name == "busybox-static").collect();
    let files = packages::fetch(&all, &request.cache)?;
    let root = work.join("busybox");
    for file in &files {
        packages::unpack(file, &root)?;
    }
    let found = Roots::of(vec![root]).find(init::BUSYBOX);
    found.ok_or_else(|| BuildError::input("package", "busybox-static", "one with bin/busybox"))
}

/// Writes the initramfs.
fn archive(tree: &Tree, to: &Path) -> Result<(), BuildError> {
    let begun = to.with_added_extension("begun");
    let write = || {
        let mut file = BufWriter::new(File::create(&begun)?);
        cpio::write(tree, &mut file)?;
        file.flush()?;
        fs::rename(&begun, to)
    };
    let done = write();
    if done.is_err() {
        let _ = fs::remove_file(&begun);
    }
    done.map_err(BuildError::file(to))
}

/// Copies a file: whole, or not at all.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), BuildError> {
    let begun = to.with_added_extension("begun");
    let mut source = local_file::open(from).map_err(BuildError::file(from))?;
    let mut copied = File::create(&begun).map_err(BuildError::file(&begun))?;
    std::io::copy(&mut source, &mut copied).map_err(BuildError::file(from))?;
    let shared = fs::Permissions::from_mode(0o644);
    fs::set_permissions(&begun, shared).map_err(BuildError::file(&begun))?;
    fs::rename(&begun, to).map_err(BuildError::file(to))
}

/// A path for what this process begins to make. What processes that were killed have left there goes.
pub(crate) fn begun(folder: &Path, name: &str) -> PathBuf {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let of = entry
            .file_name()
            .to_str()
            .and_then(|it| it.strip_prefix(name)?.strip_prefix('.')?.parse::<u32>().ok());
        let own = std::process::id();
        if of.is_some_and(|pid| pid == own || !Path::new("/proc").join(pid.to_string()).exists()) {
            // One that cannot be removed is in nothing's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    folder.join(format!("{name}.{}", std::process::id()))
}

/// Moves a folder that was made to its place; what another build has put there meanwhile stays.
pub(crate) fn put(begun: &Path, to: &Path) -> Result<(), BuildError> {
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent).map_err(BuildError::file(parent))?;
    match fs::rename(begun, to) {
        Err(_) if to.is_dir() => fs::remove_dir_all(begun).map_err(BuildError::file(begun)),
        done => done.map_err(BuildError::file(to)),
    }
}

/// Whether there are so many mebibytes left.
pub(crate) fn has_space(folder: &Path, needed: u64, why: &'static str) -> Result<(), BuildError> {
    let found = rustix::fs::statvfs(folder).map_err(|error| BuildError::file(folder)(error.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize) >> 20;
    if free >= needed {
        return Ok(());
    }
    Err(BuildError::Space { path: folder.to_owned(), found: free, needed, why })
}

/// The kernel that is compiled.
fn tiny(
    request: &Request,
    work: &Path,
    initramfs: &Path,
    kernel: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Option<Found>, BuildError> {
    let source = Source::open(&request.cache, work, request.jobs, say)?;
    let whole = source.configure(&request.options)?;
    let Some(reduction) = &request.reduction else {
        say("compiling a kernel, unless it has been done before");
        take(&source, &whole, kernel)?;
        return Ok(None);
    };
    if let Some(name) = reduction.options.iter().find(|name| !whole.has(name)) {
        return Err(BuildError::input(
            "option to leave out",
            format!("CONFIG_{name}"),
            "options that the kernel has",
        ));
    }
    let journal = request.output.join("reduce.log");
    let mut journal = Journal::open(&journal, &key(reduction, &whole, initramfs)?)?;
    let configured = |left_out: &[String]| {
        let mut options = request.options.clone();
        options.extend(left_out.iter().map(|name| (name.clone(), "n".to_owned())));
        source.configure(&options)
    };
    let mut number = 0;
    let mut trial = |left_out: &[String], left: usize| {
        number += 1;
        let config = configured(left_out)?;
        if let Some(name) = left_out.iter().find(|name| config.has(name)) {
            return Ok(Outcome::Fails(format!("others need CONFIG_{name}")));
        }
        say(&format!("trial {number}: without {} options; {left} are undecided", left_out.len()));
        let image = match source.compile(&config) {
            Ok(image) => image,
            // A configuration that cannot be compiled is one that does not work, unless none can be.
            Err(BuildError::Command { told, .. })
                if !left_out.is_empty() && !told.contains("No space left") =>
            {
                return Ok(Outcome::Fails(told));
            }
            Err(error) => return Err(error),
        };
        let machine = Machine {
            kernel: image.clone(),
            initramfs: initramfs.to_owned(),
            memory: reduction.memory,
            ports: reduction.ports.clone(),
            append: String::new(),
        };
        let outcome = machine.boot(&work.join("console"))?.test(&reduction.test, reduction.time)?;
        if let Outcome::Fails(why) = &outcome {
            say(&format!("it does not work: {why}"));
        } else {
            // The newest that works is there, whenever the search ends.
            copy(&image, kernel)?;
        }
        Ok(outcome)
    };
    let found = reduce::search(&reduction.options, reduction.by, &mut journal, &mut trial)?;
    take(&source, &configured(&found.left_out)?, kernel)?;
    let lines =
        |names: &[String], form: &dyn Fn(&String) -> String| names.iter().map(form).collect::<String>();
    let left_out = lines(&found.left_out, &|name| format!("# CONFIG_{name} is not set\n"));
    let kept = lines(&found.kept, &|name| format!("CONFIG_{name}=y\n"));
    for (name, text) in [("left-out", left_out), ("kept", kept)] {
        let path = request.output.join(name);
        fs::write(&path, text).map_err(BuildError::file(&path))?;
    }
    Ok(Some(found))
}

/// Compiles a configuration, and puts it and its kernel into the output's folder.
fn take(source: &Source, config: &Config, kernel: &Path) -> Result<(), BuildError> {
    copy(&source.compile(config)?, kernel)?;
    let path = kernel.with_extension("config");
    fs::write(&path, config.text()).map_err(BuildError::file(&path))
}

/// What the outcome of a trial depends on.
fn key(reduction: &Reduction, whole: &Config, initramfs: &Path) -> Result<String, BuildError> {
    let mut hash = Sha256::new();
    hash.update(whole.text());
    let Reduction { test, ports, memory, .. } = reduction;
    hash.update(format!("{test:?} {ports:?} {memory}"));
    let mut file = File::open(initramfs).map_err(BuildError::file(initramfs))?;
    std::io::copy(&mut file, &mut hash).map_err(BuildError::file(initramfs))?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(folder: &Path, program: &Path) -> Request {
        Request {
            program: Program::File(program.to_owned()),
            command: None,
            once: false,
            before: Vec::new(),
            with: Vec::new(),
            copies: Vec::new(),
            kernel: Kernel::File(folder.join("vmlinuz")),
            modules: Vec::new(),
            options: Options::new(),
            reduction: None,
            output: folder.join("out"),
            cache: folder.join("cache"),
            jobs: 1,
        }
    }

    fn refused(request: &Request) -> String {
        let error = build(request, &mut |_| ()).expect_err("refused");
        assert!(error.is_input(), "{error}");
        error.to_string()
    }

    #[test]
    fn a_program_of_the_host_becomes_an_image() {
        let folder = tempfile::tempdir().expect("a folder");
        if host_busybox().is_none() {
            return println!("skipped: there is no busybox without libraries (Debian: busybox-static)");
        }
        fs::write(folder.path().join("vmlinuz"), "a kernel").expect("written");
        fs::write(folder.path().join("page"), "hello").expect("written");
        let own = std::env::current_exe().expect("this test");
        let copies = vec![CopyOf { from: folder.path().join("page"), inside: "/srv/page".into() }];
        let request = Request { copies, ..request(folder.path(), &own) };
        let built = build(&request, &mut |_| ()).expect("built");
        assert_eq!(built.kernel.1, 8);
        assert_eq!(built.command, format!("exec {}", own.display()));
        let bytes = fs::read(&built.initramfs.0).expect("there");
        for name in ["srv/page\0", "bin/busybox\0", "init\0", "libc.so.6\0", "etc/inittab\0"] {
            assert!(bytes.windows(name.len()).any(|it| it == name.as_bytes()), "{name}");
        }
        let left: Vec<_> =
            fs::read_dir(&request.output).expect("there").map(|it| it.expect("one").file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn what_is_no_program_is_refused_with_what_is_allowed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
            path
        };
        for (program, wanted) in [
            (
                file("script", "#!/usr/bin/python3 -I\nprint(1)\n", 0o755),
                "a script for `/usr/bin/python3 -I`",
            ),
            (file("text", "hello", 0o755), "it is no ELF file"),
            (file("cut", "\x7fELF\x02\x01", 0o755), "it is damaged"),
            (file("sh", "#!/bin/sh\n", 0o644), "a file that may be executed"),
        ] {
            let told = refused(&request(folder.path(), &program));
            assert!(told.contains(wanted), "{told}");
        }
        let none = build(&request(folder.path(), Path::new("/nowhere/x")), &mut |_| ()).expect_err("refused");
        assert!(none.to_string().starts_with("/nowhere/x: "), "{none}");
        let sh = file("good", "#!/bin/sh\n", 0o755);
        let with = |change: &dyn Fn(&mut Request)| {
            let mut request = request(folder.path(), &sh);
            change(&mut request);
            refused(&request)
        };
        assert!(with(&|it| it.command = Some("a\nb".into())).starts_with("a command: "));
        assert!(
            with(&|it| it.command = Some("/usr/sbin/nowhere -x".into()))
                .starts_with("command: found `/usr/sbin/nowhere`")
        );
        assert!(with(&|it| it.modules = vec!["x".into()]).starts_with("modules: "));
        assert!(with(&|it| it.with = vec!["nginx".into()]).starts_with("packages: "));
        assert!(
            with(&|it| it.options = [("SMP".to_owned(), "y".to_owned())].into()).contains("--kernel tiny")
        );
        for inside in ["x", "/", "/a/../b"] {
            let copies = vec![CopyOf { from: sh.clone(), inside: inside.into() }];
            assert!(with(&|it| it.copies = copies.clone()).starts_with("a path inside: "), "{inside}");
        }
    }

    #[test]
    fn what_is_unpacked_is_the_calling_users_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let work = Work::begin(folder.path()).expect("made");
        let mode = fs::metadata(&work.0).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let path = work.0.clone();
        drop(work);
        assert!(!path.exists());
    }

    #[test]
    fn a_unit_is_the_packages_own_and_no_file_that_a_link_leads_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, host) = (folder.path().join("package"), folder.path().join("host/systemd/system"));
        let unit_of = |root: &Path| {
            let of = |name: &str| packages::Package {
                name: name.to_owned(),
                version: "1".to_owned(),
                file: String::new(),
                size: 0,
            };
            let unpacked = selection::Unpacked { root: root.to_owned(), whole: true };
            unit("server", &[of("server")], &[unpacked]).map(|service| service.command)
        };
        fs::create_dir_all(&host).expect("made");
        fs::write(host.join("server.service"), "[Service]\nExecStart=/of/the/host\n").expect("written");
        let units = root.join("lib/systemd/system");
        fs::create_dir_all(&units).expect("made");
        std::os::unix::fs::symlink(host.join("server.service"), units.join("server.service"))
            .expect("linked");
        assert_eq!(unit_of(&root), None);
        // The folder leads there.
        fs::remove_dir_all(root.join("lib")).expect("removed");
        std::os::unix::fs::symlink(folder.path().join("host"), root.join("lib")).expect("linked");
        assert_eq!(unit_of(&root), None);
        // A link within the package is followed.
        fs::remove_file(root.join("lib")).expect("removed");
        fs::create_dir_all(&units).expect("made");
        fs::write(root.join("unit"), "[Service]\nExecStart=/of/the/package\n").expect("written");
        std::os::unix::fs::symlink("/unit", units.join("server.service")).expect("linked");
        assert_eq!(unit_of(&root).as_deref(), Some("/of/the/package"));
    }

    #[test]
    fn what_killed_builds_have_left_goes_with_the_next_one() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [".work.4194999", ".work.1", ".work.x", "source.4194999"] {
            fs::create_dir_all(folder.path().join(name).join("y")).expect("made");
        }
        let own = begun(folder.path(), ".work");
        assert!(own.ends_with(format!(".work.{}", std::process::id())));
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).expect("there").map(|it| it.expect("one").file_name()).collect();
        left.sort();
        assert_eq!(left, [".work.1", ".work.x", "source.4194999"], "of processes that run, and of others");
    }

    #[test]
    fn room_is_looked_for_before_it_is_needed() {
        let folder = tempfile::tempdir().expect("a folder");
        has_space(folder.path(), 0, "for a test").expect("enough");
        let error = has_space(folder.path(), u64::MAX, "for a test").expect_err("too little");
        assert!(error.is_missing() && error.to_string().contains("for a test"), "{error}");
    }
}
