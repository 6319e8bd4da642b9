//! Whole random modules, as they come and after the rewriting pass: the host is afterwards as it was before.

use crate::support;
use arbitrary::Unstructured;
use guest_wasm::Access;

pub fn run(data: &[u8]) {
    let mut bytes = Unstructured::new(data);
    let Ok((write, bulk)) = bytes.arbitrary::<(bool, bool)>() else { return };
    let access = if write { Access::Write } else { Access::Read };
    let Some(module) = support::smith::module(&mut bytes, bulk) else { return };
    support::trial::trial(support::sandbox(), &module, access, data);
    if let Ok(rewritten) = image::rewrite(&module) {
        support::trial::trial(support::sandbox(), &rewritten, access, data);
    }
}
