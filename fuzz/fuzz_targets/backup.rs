//! Any bytes as a backup, and any files with headers that are right: refused in words, or whole. Checking
//! finds what unpacking does.
#![no_main]

use libfuzzer_sys::fuzz_target;

fn read(bytes: &[u8]) {
    match store::backup::check(bytes) {
        // Whatever is in it is counted.
        Ok(about) => assert!(about.bytes <= bytes.len() as u64),
        Err(error) => assert!(!error.to_string().contains(|c: char| c.is_control())),
    }
}

fuzz_target!(|input: (Vec<u8>, Vec<(u8, String, Vec<u8>)>)| {
    let (bytes, files) = input;
    read(&bytes);
    let mut archive = tar::Builder::new(Vec::new());
    let about = serde_json::json!({
        "superfluid_backup": 1, "program": "", "created": "", "revision": 1, "files": files.len(),
        "bytes": files.iter().map(|(_, _, bytes)| bytes.len()).sum::<usize>(),
    });
    let first = ("superfluid-backup.json".to_owned(), about.to_string().into_bytes());
    for (kind, (name, bytes)) in std::iter::once((b'0', first))
        .chain(files.into_iter().map(|(kind, name, bytes)| (kind, (name, bytes))))
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_entry_type(tar::EntryType::new(kind));
        let name = name.as_bytes();
        let most = name.len().min(100);
        header.as_mut_bytes()[..most].copy_from_slice(&name[..most]);
        header.set_cksum();
        if archive.append(&header, bytes.as_slice()).is_err() {
            return;
        }
    }
    if let Ok(bytes) = archive.into_inner() {
        read(&bytes);
    }
});
