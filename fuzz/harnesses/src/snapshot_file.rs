//! Any bytes as a snapshot's file, and a file that this host has sealed with any bytes changed: refused in
//! words, or imported. Only the file as it was sealed is believed.

use api::{Name, Snapshot};
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
        let saved = Saved { memory: snapshot::Memory::new(65536, 65536), ..Saved::default() };
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

pub fn run(data: &[u8]) {
    let (_, _, good) = sealed();
    assert!(!believed(data) || data == good);
    let mut changed = good.clone();
    // The same bytes as changes to the file: two that say where, and the byte to be there.
    for change in data.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
        changed[at] = change[2];
    }
    assert_eq!(believed(&changed), changed == *good);
}
