//! Any bytes as a snapshot's file, and a file that this host has sealed with any bytes changed: refused in
//! words, or imported. Only the file as it was sealed is believed.
#![no_main]

use api::{Name, Snapshot};
use libfuzzer_sys::fuzz_target;
use snapshot::Saved;
use snapshot_folder::{Key, Keys, encoded, read};
use std::sync::OnceLock;

/// Keys, and a file that they have sealed.
fn sealed() -> &'static (Keys, Name, Vec<u8>) {
    static SEALED: OnceLock<(Keys, Name, Vec<u8>)> = OnceLock::new();
    SEALED.get_or_init(|| {
        let name = Name::new("monday").expect("a name");
        let told = Snapshot {
            name: name.clone(),
            function: name.clone(),
            image: String::new(),
            saved: String::new(),
            bytes: 0,
            tenant: Some(name.clone()),
            imported: false,
            spec: serde_json::json!({"image": "firewall", "tenant": "monday"}),
        };
        let key = Key::generate().expect("random numbers");
        let saved = Saved { memory: snapshot::Memory::new(65536, 65536, 0), ..Saved::default() };
        let file = encoded(&key, &told, &saved).expect("it can be written");
        (Keys::of(key), name, file)
    })
}

fn believed(bytes: &[u8]) -> bool {
    let (keys, name, _) = sealed();
    match read(keys, (name, "fuzzed"), bytes.len() as u64, bytes) {
        Ok((told, _)) => {
            assert_eq!(told.imported, told.tenant.is_none());
            !told.imported
        }
        Err(refusal) => {
            assert!(!refusal.to_string().contains('\n'));
            false
        }
    }
}

fuzz_target!(|input: (Vec<u8>, Vec<(u16, u8)>)| {
    let (bytes, changes) = input;
    let (_, _, good) = sealed();
    assert!(!believed(&bytes) || bytes == *good);
    let mut changed = good.clone();
    for (at, byte) in changes {
        let at = usize::from(at) % changed.len();
        changed[at] = byte;
    }
    assert_eq!(believed(&changed), changed == *good);
});
