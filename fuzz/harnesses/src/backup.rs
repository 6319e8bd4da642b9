//! Any bytes as a backup, and any files with headers that are right: refused in words, or whole. Checking
//! finds what unpacking does.

fn read(bytes: &[u8]) {
    match store::backup::check(bytes) {
        // Whatever is in it is counted.
        Ok(about) => assert!(about.bytes <= bytes.len() as u64),
        Err(error) => assert!(!error.to_string().contains(|c: char| c.is_control())),
    }
}

pub fn run(data: &[u8]) {
    read(data);
    let mut files = Vec::new();
    let mut rest = data;
    // A kind, the length of a name and that of what is in the file, and both.
    while let &[kind, name, length, ref bytes @ ..] = rest {
        let (name, bytes) = bytes.split_at(usize::from(name).min(bytes.len()));
        let (bytes, after) = bytes.split_at(usize::from(length).min(bytes.len()));
        files.push((kind, name.to_vec(), bytes.to_vec()));
        rest = after;
    }
    let mut archive = tar::Builder::new(Vec::new());
    let about = serde_json::json!({
        "superfluid_backup": 1, "program": "", "created": "", "revision": 1, "files": files.len(),
        "bytes": files.iter().map(|(_, _, bytes)| bytes.len()).sum::<usize>(),
    });
    let first = (b"superfluid-backup.json".to_vec(), about.to_string().into_bytes());
    for (kind, (name, bytes)) in std::iter::once((b'0', first))
        .chain(files.into_iter().map(|(kind, name, bytes)| (kind, (name, bytes))))
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_entry_type(tar::EntryType::new(kind));
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
}
