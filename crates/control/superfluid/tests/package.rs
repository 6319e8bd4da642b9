//! The Debian packages and the OCI image: made of the program under test, looked through, unpacked, and run
//! in a root that has nothing else.

#[path = "support/packaged.rs"]
mod packaged;

use packaged::{packaged, run, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_package_is_whole_and_starts_nothing_and_the_image_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = packaged(folder.path());
    fields(&made.package, "superfluid");
    contents(&made.package, 60);
    files(&made.package, folder.path());
    fields(&made.development, "superfluid-dev");
    contents(&made.development, 10);
    builds(&made.development, folder.path());
    runs(&made.image, folder.path());
}

fn fields(package: &Path, name: &str) {
    let field = |name: &str| {
        text(&run(Command::new("dpkg-deb").arg("--field").arg(package).arg(name)).stdout).trim().to_owned()
    };
    assert_eq!(field("Package"), name);
    assert_eq!(field("Version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(field("Architecture"), "amd64");
    assert!(field("Depends").starts_with("libc6 (>= 2."), "{}", field("Depends"));
    assert!(field("Installed-Size").parse::<u64>().expect("KiB") > 1000);
    assert!(field("Description").lines().count() > 2);
}

/// Owners and permissions, and that nothing stands where a package has no business.
fn contents(package: &Path, least: usize) {
    let listed = text(&run(Command::new("dpkg-deb").arg("--contents").arg(package)).stdout);
    assert!(listed.lines().count() > least, "{listed}");
    for line in listed.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let (mode, owner, path) = (words[0], words[1], words[5]);
        assert_eq!(owner, "root/root", "{line}");
        let program = path == "./usr/bin/superfluid";
        let wanted = match mode.as_bytes()[0] {
            // Within its folder.
            b'l' if !words[7].contains('/') => "rwxrwxrwx",
            _ if path.ends_with('/') || program => "rwxr-xr-x",
            _ => "rw-r--r--",
        };
        assert_eq!(&mode[1..], wanted, "{line}");
        let places = ["./", "./usr/", "./etc/", "./etc/sysctl.d/", "./etc/sysctl.d/60-superfluid.conf"];
        assert!(places.contains(&path) || path.starts_with("./usr/"), "{line}");
        assert!(!path.starts_with("./usr/local/"), "{line}");
    }
}

fn files(package: &Path, folder: &Path) {
    let root = folder.join("unpacked");
    run(Command::new("dpkg-deb").arg("--raw-extract").args([package, &root]));
    let read =
        |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let sums = run(Command::new("md5sum").args(["--check", "--quiet", "DEBIAN/md5sums"]).current_dir(&root));
    assert!(sums.stdout.is_empty() && sums.stderr.is_empty());
    for file in read("DEBIAN/conffiles").lines() {
        assert!(root.join(file.trim_start_matches('/')).is_file(), "{file}");
    }
    let unit = read("usr/lib/systemd/system/superfluid.service");
    assert!(
        unit.contains("\nExecStart=/usr/bin/superfluid daemon ")
            && unit.contains("ExecPaths=/usr/bin/superfluid "),
        "{unit}"
    );
    assert!(!unit.contains("/usr/local"), "{unit}");
    let launcher = read("usr/lib/systemd/system/superfluid-launcher.service");
    assert!(launcher.contains("\nExecStart=/usr/bin/superfluid launcher\n"), "{launcher}");
    assert!(!launcher.contains("/usr/local"), "{launcher}");
    // The unit's user is the one that is made.
    assert!(
        unit.contains("\nUser=superfluid\n")
            && read("usr/lib/sysusers.d/superfluid.conf").contains("\nu superfluid ")
    );
    for script in ["postinst", "prerm", "postrm"] {
        run(Command::new("sh").arg("-n").arg(root.join("DEBIAN").join(script)));
        let script = read(&format!("DEBIAN/{script}"));
        assert!(script.starts_with("#!/bin/sh\n") && script.contains("\nset -e\n"), "{script}");
        let commands = script.lines().filter(|line| !line.trim_start().starts_with('#'));
        for line in commands {
            let starts = ["systemctl start", "systemctl enable", "systemctl restart", "deb-systemd-invoke"];
            let told = line.trim_start().starts_with("echo ");
            assert!(told || !starts.iter().any(|start| line.contains(start)), "it starts something: {line}");
        }
    }
    // A page for each command that has a help, and the completions of three shells.
    let pages = fs::read_dir(root.join("usr/share/man/man1")).expect("pages");
    let pages: BTreeSet<_> =
        pages.map(|page| page.expect("a page").file_name().into_string().expect("a name")).collect();
    for page in [
        "superfluid",
        "superfluid-run",
        "superfluid-daemon",
        "superfluid-function-create",
        "superfluid-image-build",
    ] {
        assert!(pages.contains(&format!("{page}.1.gz")), "{page}: {pages:?}");
    }
    for path in [
        "usr/share/bash-completion/completions/superfluid",
        "usr/share/zsh/vendor-completions/_superfluid",
        "usr/share/fish/vendor_completions.d/superfluid.fish",
        "usr/share/doc/superfluid/copyright",
        "usr/share/superfluid/prometheus/superfluid.rules.yml",
        "usr/share/superfluid/grafana/superfluid.json",
    ] {
        assert!(read(path).len() > 100, "{path}");
    }
    let documents = root.join("usr/share/doc/superfluid");
    examples(&documents.join("examples"), folder);
    let guide = fs::read_to_string(documents.join("docs/operations.md")).expect("the guide");
    assert!(guide.contains("](cli.md)") && documents.join("docs/cli.md").is_file(), "its links lead there");
    run(Command::new("bash").arg("-n").arg(root.join("usr/share/bash-completion/completions/superfluid")));
    run(Command::new("gzip").arg("--test").arg(root.join("usr/share/doc/superfluid/changelog.gz")));
}

/// Each example is good as it is installed, with the files that it names.
fn examples(examples: &Path, folder: &Path) {
    let mut checked = 0;
    for example in fs::read_dir(examples).expect("examples") {
        let path = example.expect("an example").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            run(Command::new(env!("CARGO_BIN_EXE_superfluid"))
                .arg("check")
                .arg(&path)
                .env("XDG_CACHE_HOME", folder.join("cache")));
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked}");
}

/// The example in C is built with what the package installs and nothing else, with either library, and
/// starts.
fn builds(package: &Path, folder: &Path) {
    let root = folder.join("development");
    run(Command::new("dpkg-deb").arg("--raw-extract").args([package, &root]));
    let sums = run(Command::new("md5sum").args(["--check", "--quiet", "DEBIAN/md5sums"]).current_dir(&root));
    assert!(sums.stdout.is_empty() && sums.stderr.is_empty());
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let named = fs::read_link(libraries.join("libsuperfluid_native.so")).expect("a link");
    assert_eq!(named, Path::new("libsuperfluid_native.so.1"), "the version of the contract");
    asked_by_pkg_config(&libraries, &root);
    for (name, library) in [("shared", "-lsuperfluid_native"), ("alone", "-l:libsuperfluid_native.a")] {
        let program = folder.join(name);
        run(Command::new("clang-19")
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root.join("usr/include"))
            .arg(root.join("usr/share/doc/superfluid-dev/examples/forwarder.c"))
            .arg("-L")
            .arg(&libraries)
            .args([library, "-lpthread", "-ldl", "-lm", "-o"])
            .arg(&program));
        let started = Command::new(&program)
            .args([folder.join("no-such-socket"), folder.join("nor-this-one")])
            .env("LD_LIBRARY_PATH", &libraries)
            .output()
            .expect("it was just made");
        let said = text(&started.stderr);
        assert!(!started.status.success() && said.contains("no-such-socket"), "{name}: {said}");
    }
}

/// What other build systems ask for: flags that are of the package's own folders.
fn asked_by_pkg_config(libraries: &Path, root: &Path) {
    let told = fs::read_to_string(libraries.join("pkgconfig/superfluid_native.pc")).expect("a file");
    let mut values: std::collections::HashMap<&str, String> = std::collections::HashMap::new();
    for line in told.lines().filter(|line| !line.is_empty()) {
        let end = line.find(['=', ':']).expect("a key");
        let (key, value) = (&line[..end], line[end + 1..].trim());
        let known =
            |text: String, (name, value): (&&str, &String)| text.replace(&format!("${{{name}}}"), value);
        let value = values.iter().fold(value.to_owned(), known);
        values.insert(key, value);
    }
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    assert!(below(&values["includedir"]).join("superfluid_native.h").is_file(), "{told}");
    assert_eq!(below(&values["libdir"]), libraries, "{told}");
    assert_eq!(values["Cflags"], format!("-I{}", values["includedir"]));
    assert_eq!(values["Libs"], format!("-L{} -lsuperfluid_native", values["libdir"]));
    assert_eq!(values["Version"], env!("CARGO_PKG_VERSION"), "{told}");
}

/// Each blob is what its name says, and the layer runs as the root of a process that sees nothing else.
fn runs(image: &Path, folder: &Path) {
    let layout = folder.join("layout");
    let root = folder.join("root");
    fs::create_dir(&layout).expect("a folder");
    fs::create_dir(&root).expect("a folder");
    run(Command::new("tar").arg("--extract").arg("--directory").arg(&layout).arg("--file").arg(image));
    let json =
        |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON") };
    assert_eq!(json(&layout.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"]
            .as_str()
            .and_then(|digest| digest.strip_prefix("sha256:"))
            .expect("a digest");
        let path = layout.join("blobs/sha256").join(digest);
        let found = text(&run(Command::new("sha256sum").arg(&path)).stdout);
        assert!(found.starts_with(digest), "{descriptor}");
        assert_eq!(descriptor["size"], fs::metadata(&path).expect("a file").len(), "{descriptor}");
        path
    };
    let manifest = json(&blob(&json(&layout.join("index.json"))["manifests"][0]));
    let config = json(&blob(&manifest["config"]));
    let layers = manifest["layers"].as_array().expect("layers");
    assert_eq!((layers.len(), config["rootfs"]["diff_ids"].as_array().map(Vec::len)), (1, Some(1)));
    let layer = blob(&layers[0]);
    let sum = run(Command::new("sh").args(["-c", "gzip -dc \"$0\" | sha256sum"]).arg(&layer));
    let diff_id = config["rootfs"]["diff_ids"][0].as_str().expect("a digest");
    assert_eq!(
        Some(text(&sum.stdout).split(' ').next().unwrap_or_default()),
        diff_id.strip_prefix("sha256:")
    );
    run(Command::new("tar")
        .args(["--extract", "--no-same-owner", "--directory"])
        .arg(&root)
        .arg("--file")
        .arg(&layer));

    let entry = config["config"]["Entrypoint"][0].as_str().expect("a program");
    let inside = |arguments: &[&str]| {
        // Its own root, network and processes; as root of a user namespace, so that the test needs no rights.
        run(Command::new("unshare")
            .args(["--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc", "--root"])
            .arg(&root)
            .arg(entry)
            .args(arguments)
            .env("XDG_CACHE_HOME", "/var/cache"))
    };
    assert!(text(&inside(&["--version"]).stdout).contains(env!("CARGO_PKG_VERSION")));
    let example = "/usr/share/doc/superfluid/examples/generator.yaml";
    let account = text(&inside(&["run", example, "--for", "1s", "--brief"]).stdout);
    assert!(account.contains("the account balances"), "{account}");
}
