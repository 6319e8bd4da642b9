//! Any bytes as a snapshot, and any sections with checksums that are right: refused in words, or one that is
//! written and read again as the same, and whose memory fits into what it says.

use snapshot::format::{REQUIRED, assemble};
use snapshot::{PAGE, Saved};

fn read(bytes: &[u8]) {
    match Saved::decode(bytes) {
        Ok(saved) => {
            assert_eq!(saved.check(), Ok(()));
            let again = saved.encode().expect("what was read can be written");
            assert_eq!(Saved::decode(&again).as_ref(), Ok(&saved));
            let size = saved.memory.size() as usize;
            assert!(saved.memory.iter().all(|(page, _)| (page.number as usize + 1) * PAGE <= size));
            if size <= 1 << 20 {
                let mut memory = vec![0; size];
                saved.memory.write_to(&mut memory);
                let mut kept = snapshot::Memory::new(size as u64, saved.memory.limit());
                kept.keep(0, &memory);
                assert!(kept.bytes().len() <= saved.memory.bytes().len());
            }
        }
        Err(refusal) => assert!(!refusal.to_string().contains('\n')),
    }
}

pub fn run(data: &[u8]) {
    read(data);
    let mut sections = Vec::new();
    let mut rest = data;
    // A kind, flags and two bytes of length, and what is in the section.
    while let &[kind, flags, low, high, ref bytes @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([low, high]));
        let (bytes, after) = bytes.split_at(length.min(bytes.len()));
        sections.push((kind, flags, bytes));
        rest = after;
    }
    // With kinds and flags that mean something as often as not.
    let table: Vec<(u16, u16, &[u8])> = sections
        .iter()
        .map(|(kind, flags, bytes)| (u16::from(kind % 10), u16::from(*flags) & (REQUIRED | 2), *bytes))
        .collect();
    read(&assemble((1, 0), &table));
}
