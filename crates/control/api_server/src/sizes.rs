//! How large a document may be: one place for `apply`, which refuses it, and for `superfluid check`, which
//! says so before.

use crate::settings::Limits;
use crate::stored::Stored;
use api::{Fault, ObjectName};
use serde_json::Value;
use store::{CHANGES_MAX, VALUE_MAX};

/// What is too large or too many in the objects of a document.
#[must_use]
pub fn too_large(objects: &[(ObjectName, Value)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    if objects.len() > CHANGES_MAX {
        let found = objects.len();
        faults.push(Fault::new(
            "",
            format!("found {found} objects; allowed in one document: at most {CHANGES_MAX}"),
        ));
    }
    for (id, spec) in objects {
        let found = Stored { spec: spec.clone(), paused: true }.to_bytes().len();
        if found > VALUE_MAX {
            let at = format!("{}.{}", id.kind.plural(), id.name);
            faults.push(Fault::new(at, format!("found {found} bytes as JSON; allowed: at most {VALUE_MAX}")));
        }
    }
    faults
}

/// What is too large in a document as it is sent: JSON of so many bytes.
#[must_use]
pub fn body_too_large(bytes: usize) -> Option<Fault> {
    let most = Limits::default().body_bytes;
    let told = || format!("found {bytes} bytes as JSON; allowed in one document: at most {most}");
    (bytes > most).then(|| Fault::new("", told()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Kind;
    use serde_json::json;

    #[test]
    fn what_is_too_much_is_told_with_its_place() {
        let named = |n: usize| (ObjectName::new(Kind::Function, format!("f{n}")), json!({"image": "x"}));
        let objects: Vec<_> = (0..CHANGES_MAX).map(named).collect();
        assert_eq!(too_large(&objects), []);
        let objects: Vec<_> = (0..=CHANGES_MAX).map(named).collect();
        assert_eq!(
            too_large(&objects)[0].message,
            "found 10001 objects; allowed in one document: at most 10000"
        );
        let large = (ObjectName::new(Kind::Function, "fw"), json!({"image": "x".repeat(VALUE_MAX)}));
        assert_eq!(too_large(&[large])[0].at, "functions.fw");
        let most = Limits::default().body_bytes;
        assert_eq!((body_too_large(most), body_too_large(most + 1).is_some()), (None, true));
    }
}
