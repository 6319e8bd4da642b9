//! Debian's kernel for machines in clouds, with the modules that a guest of vhost-user needs.

use crate::{BuildError, Tree, command, packages};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that depends on the newest one.
const PACKAGE: &str =
    if cfg!(target_arch = "aarch64") { "linux-image-cloud-arm64" } else { "linux-image-cloud-amd64" };
const FLAVOUR: &str = if cfg!(target_arch = "aarch64") { "-cloud-arm64" } else { "-cloud-amd64" };

/// Modules of the network device, where they are not built in; what they need comes along.
pub const MODULES: [&str; 2] = ["virtio_pci", "virtio_net"];

/// A kernel and its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebianKernel {
    /// What `uname -r` prints.
    pub release: String,
    /// The kernel's file.
    pub image: PathBuf,
    /// The folder of the modules.
    pub modules: PathBuf,
}

/// The newest one that is installed on this host; else it is fetched.
///
/// # Errors
/// See [`packages::resolve`] and [`packages::fetch`].
pub fn debian(cache: &Path, work: &Path) -> Result<DebianKernel, BuildError> {
    match installed(Path::new("/")) {
        Some(kernel) => Ok(kernel),
        None => fetched(cache, work),
    }
}

/// The newest one below a root, with its modules.
fn installed(root: &Path) -> Option<DebianKernel> {
    let names = fs::read_dir(root.join("boot")).ok()?;
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let releases = names.filter_map(|name| {
        let release = name.strip_prefix("vmlinuz-")?;
        release.ends_with(FLAVOUR).then(|| release.to_owned())
    });
    let kernels = releases.filter_map(|release| {
        let image = root.join("boot").join(format!("vmlinuz-{release}"));
        let modules = ["lib/modules", "usr/lib/modules"].map(|it| root.join(it).join(&release));
        let modules = modules.into_iter().find(|it| it.join("kernel").is_dir())?;
        // The host's may be root's alone to read.
        local_file::open(&image).ok()?;
        Some(DebianKernel { release, image, modules })
    });
    kernels.max_by_key(|kernel| numbers(&kernel.release))
}

/// `6.1.0-56-cloud-amd64` as numbers that can be compared.
fn numbers(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn fetched(cache: &Path, work: &Path) -> Result<DebianKernel, BuildError> {
    let all = packages::resolve(&[PACKAGE], work)?;
    let image = all.iter().find(|it| it.name.starts_with("linux-image-") && it.name != PACKAGE);
    let image = image.ok_or_else(|| BuildError::input("kernel", PACKAGE, "a package with a kernel"))?;
    let root = cache.join("kernels").join(format!("{}_{}", image.name, image.version));
    if !root.is_dir() {
        let files = packages::fetch(std::slice::from_ref(image), cache)?;
        crate::build::has_space(cache, 256, "for the kernel's modules")?;
        let begun = crate::build::begun(cache, "kernel");
        packages::unpack(&files[0], &begun)?;
        crate::build::put(&begun, &root)?;
    }
    installed(&root).ok_or_else(|| {
        BuildError::input("kernel", root.display(), format!("boot/vmlinuz-*{FLAVOUR} and its modules in it"))
    })
}

/// Adds modules, and those that they need, to the tree, in the order in which they can be loaded. `work` is a
/// folder that outlives the tree.
///
/// # Errors
/// The kernel has no such module.
pub fn add_modules(
    tree: &mut Tree,
    kernel: &DebianKernel,
    wanted: &[String],
    work: &Path,
) -> Result<(), BuildError> {
    let files = files(&kernel.modules.join("kernel"))?;
    let built_in = fs::read_to_string(kernel.modules.join("modules.builtin")).unwrap_or_default();
    let built_in: Vec<String> = built_in.lines().filter_map(name_of).collect();
    let mut order = Vec::new();
    for name in wanted {
        load(&normal(name), &files, &built_in, kernel, work, &mut order, 0)?;
    }
    let folder = format!("lib/modules/{}", kernel.release);
    let mut list = String::new();
    for (name, file) in &order {
        tree.file(&format!("{folder}/{name}.ko"), file, 0o644);
        list.push_str(&format!("{name}.ko\n"));
    }
    tree.text(&format!("{folder}/order"), &list, 0o644);
    Ok(())
}

fn load(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    built_in: &[String],
    kernel: &DebianKernel,
    work: &Path,
    order: &mut Vec<(String, PathBuf)>,
    depth: usize,
) -> Result<(), BuildError> {
    if order.iter().any(|(other, _)| other == name) || built_in.iter().any(|other| other == name) {
        return Ok(());
    }
    let Some(file) = files.get(name).filter(|_| depth < 64) else {
        let allowed = format!("modules of the kernel {}", kernel.release);
        return Err(BuildError::input("module", name, allowed));
    };
    let file = plain(file, name, work)?;
    for needed in depends(&crate::closure::contents(&file)?) {
        load(&needed, files, built_in, kernel, work, order, depth + 1)?;
    }
    order.push((name.to_owned(), file));
    Ok(())
}

/// The module, without compression.
fn plain(file: &Path, name: &str, work: &Path) -> Result<PathBuf, BuildError> {
    if file.extension().is_none_or(|it| it != "xz") {
        return Ok(file.to_owned());
    }
    let bytes = command::run(Command::new("xz").args(["--decompress", "--stdout"]).arg(file), "xz-utils")?;
    let to = work.join(format!("{name}.ko"));
    fs::write(&to, bytes).map_err(BuildError::file(&to))?;
    Ok(to)
}

/// Modules by name.
fn files(folder: &Path) -> Result<BTreeMap<String, PathBuf>, BuildError> {
    let (mut found, mut pending) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).map_err(BuildError::file(&folder))? {
            let entry = entry.map_err(BuildError::file(&folder))?;
            let path = entry.path();
            if entry.file_type().map_err(BuildError::file(&path))?.is_dir() {
                pending.push(path);
            } else if let Some(name) = entry.file_name().to_str().and_then(name_of) {
                found.insert(name, path);
            }
        }
    }
    Ok(found)
}

/// Of a module's path, its name.
fn name_of(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    file.strip_suffix(".ko").or_else(|| file.strip_suffix(".ko.xz")).map(normal)
}

/// The kernel takes both for the same.
fn normal(name: &str) -> String {
    name.replace('-', "_")
}

/// What a module's section `.modinfo` says that it needs: `depends=a,b` between zeros.
fn depends(bytes: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = bytes.windows(KEY.len()).position(|it| it == KEY) else { return Vec::new() };
    let value = bytes[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(value);
    text.split(',').filter(|name| !name.is_empty()).map(normal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(root: &Path, number: u32) {
        let release = format!("6.1.0-{number}{FLAVOUR}");
        fs::create_dir_all(root.join("boot")).expect("made");
        fs::write(root.join(format!("boot/vmlinuz-{release}")), "x").expect("written");
        let modules = root.join("lib/modules").join(&release);
        fs::create_dir_all(modules.join("kernel/net")).expect("made");
        for (name, needs) in
            [("virtio_net", "net-failover,virtio"), ("net_failover", "failover"), ("failover", "")]
        {
            let bytes = format!("\x7fELF noise\0license=GPL\0depends={needs}\0vermagic=x\0");
            fs::write(modules.join(format!("kernel/net/{name}.ko")), bytes).expect("written");
        }
        fs::write(modules.join("modules.builtin"), "kernel/drivers/virtio/virtio.ko\n").expect("written");
    }

    #[test]
    fn the_newest_kernel_is_taken_with_modules_in_the_order_of_their_needs() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(installed(folder.path()), None);
        [9, 56, 10].iter().for_each(|number| kernel(folder.path(), *number));
        let found = installed(folder.path()).expect("one");
        assert_eq!(found.release, format!("6.1.0-56{FLAVOUR}"));
        let mut tree = Tree::default();
        add_modules(&mut tree, &found, &["virtio-net".to_owned()], folder.path()).expect("added");
        let order = format!("lib/modules/{}/order", found.release);
        let Some(crate::Entry::Text { bytes, .. }) = tree.get(&order) else { panic!("no order") };
        assert_eq!(String::from_utf8_lossy(bytes), "failover.ko\nnet_failover.ko\nvirtio_net.ko\n");
        let error =
            add_modules(&mut tree, &found, &["nf_tables".to_owned()], folder.path()).expect_err("refused");
        assert!(error.to_string().contains("`nf_tables`"), "{error}");
    }
}
