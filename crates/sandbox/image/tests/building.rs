//! Real compilers' output, from a function's folder to a running module.

use image::{BuildError, BuildOptions, BuildReport, Image, Names, build_directory, inspect};
use std::path::{Path, PathBuf};
use wasmi::{Engine, Linker, Module, Store};

const RECORD: usize = 64;
const BATCH: usize = 64 * RECORD;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/functions").join(name)
}

fn options() -> BuildOptions {
    let target_directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("functions");
    BuildOptions { target_directory, names: Names::Dropped }
}

fn build(name: &str) -> (Image, BuildReport) {
    build_directory(&fixture(name), &options()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn bytes(seed: usize) -> Vec<u8> {
    (0..BATCH).map(|n| (n * 7 + n / RECORD * 13 + seed) as u8).collect()
}

/// Runs one batch and compares it with what the sources say, word for word.
fn mirrors(image: &Image) {
    let mut config = wasmi::Config::default();
    config.wasm_bulk_memory(false).wasm_reference_types(false);
    let engine = Engine::new(&config);
    let module = Module::new(&engine, image.wasm()).unwrap();
    let mut linker = Linker::new(&engine);
    linker.func_wrap(nf_abi::IMPORT_MODULE, "timer_set", |_: i64| 0i32).unwrap();
    let mut store = Store::new(&engine, ());
    let instance = linker.instantiate_and_start(&mut store, &module).unwrap();
    let address = |store: &mut Store<()>, name: &str| {
        let function = instance.get_typed_func::<(), u32>(&*store, name).unwrap();
        function.call(store, ()).unwrap() as usize
    };
    let memory = instance.get_memory(&store, "memory").unwrap();
    let process = instance.get_typed_func::<(u32, u64), ()>(&store, "sf_process").unwrap();
    assert_eq!(address(&mut store, "sf_init"), 0);
    let (batch, kept) = (address(&mut store, "sf_batch"), address(&mut store, "kept"));
    assert_eq!(batch % RECORD, 0);
    for count in [1, 2, 3, 17, 63, 64] {
        for now in [4u64, 5] {
            let before = bytes(count);
            memory.data_mut(&mut store)[batch..batch + BATCH].copy_from_slice(&before);
            process.call(&mut store, (count as u32, now)).unwrap();
            let length = count * RECORD;

            let mut expected = before.clone();
            expected.copy_within(..length - RECORD, RECORD);
            expected[..RECORD].copy_from_slice(&before[length - RECORD..length]);
            for record in expected[..length].chunks_exact_mut(RECORD) {
                record[..4].copy_from_slice(&2u32.to_le_bytes());
                let mark = u32::from_le_bytes(record[16..20].try_into().unwrap());
                let mark = if now % 2 == 0 { mark / 2 } else { mark.wrapping_mul(3).wrapping_add(1) };
                record[16..20].copy_from_slice(&mark.to_le_bytes());
            }
            let mut expected_kept = before.clone();
            expected_kept[length..].fill(0x5a);
            // A record's mark lies at another place in C's structure and in the array of words: both at
            // byte 16.
            assert!(memory.data(&store)[batch..batch + BATCH] == expected[..], "batch of {count}");
            assert!(memory.data(&store)[kept..kept + BATCH] == expected_kept[..], "kept of {count}");
        }
    }
}

#[test]
fn what_rustc_emits_becomes_an_image() {
    let (image, report) = build("mirror_rust");
    assert!(report.lowered.memory_copies >= 2, "{report:?}");
    assert_eq!(image.facts().imports, ["timer_set"]);
    assert!(image.facts().memory_bytes <= 3 << 16, "{:?}", image.facts());
    assert_eq!(report.digest, image.digest());
    assert_eq!(image.manifest().name.as_str(), "mirror-rust");
    mirrors(&image);
    let text = inspect(&image);
    for part in ["mirror-rust", "timer_set", "turns", "0 wire", &image.digest().to_string()] {
        assert!(text.contains(part), "no {part} in:\n{text}");
    }
}

#[test]
fn what_clang_emits_becomes_an_image() {
    let (image, report) = build("mirror_c");
    assert!(report.lowered.memory_copies >= 2 && report.lowered.memory_fills >= 1, "{report:?}");
    assert!(image.facts().memory_bytes <= 3 << 16, "{:?}", image.facts());
    assert_eq!(report.diagnostics, "");
    mirrors(&image);
}

#[test]
fn an_image_does_not_depend_on_where_it_was_built() {
    let elsewhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moved");
    for name in ["mirror_rust", "mirror_c"] {
        let to = elsewhere.join(name);
        std::fs::create_dir_all(to.join("src")).unwrap();
        for file in ["function.yaml", "Cargo.toml", "src/lib.rs", "src/mirror.c"] {
            if fixture(name).join(file).exists() {
                std::fs::copy(fixture(name).join(file), to.join(file)).unwrap();
            }
        }
        let target_directory = elsewhere.join("target");
        let (moved, _) =
            build_directory(&to, &BuildOptions { target_directory, names: Names::Dropped }).unwrap();
        assert_eq!(moved.digest(), build(name).0.digest(), "{name}");
    }
}

#[test]
fn faults_of_a_folder_say_where_they_are() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faulty");
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let manifest = std::fs::read_to_string(fixture("mirror_c").join("function.yaml")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let fault = || build_directory(&folder, &options()).unwrap_err();

    let _ = std::fs::remove_file(folder.join("function.yaml"));
    let _ = std::fs::remove_file(folder.join("src/a.c"));
    assert!(matches!(fault(), BuildError::File { path, .. } if path.ends_with("function.yaml")));
    write("function.yaml", &manifest.replace("access: read", "access: some"));
    let text = fault().to_string();
    assert!(text.contains("function.yaml:6:9: access"), "{text}");
    write("function.yaml", &manifest);
    assert!(matches!(fault(), BuildError::NoSource { .. }));
    write("function.yaml", &manifest.replace("language: c", "language: rust"));
    assert!(matches!(fault(), BuildError::NoSource { .. }));
    write("function.yaml", &manifest);
    write("src/a.c", "#include \"superfluid.h\"\nint wrong = ;\n");
    let text = fault().to_string();
    assert!(text.contains("a.c:2:13"), "{text}");
    write("src/a.c", "__attribute__((export_name(\"sf_init\"))) int start(void) { return 0; }\n");
    let text = fault().to_string();
    assert!(text.contains("sf_batch"), "{text}");
}
