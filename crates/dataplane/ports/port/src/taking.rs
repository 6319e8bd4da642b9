//! Taking settings out of a value that was checked against a port's schema.

use schema::Value;
use telemetry::clock::Nanos;

/// Checked settings.
#[derive(Clone, Copy)]
pub(crate) struct Taking<'a>(pub &'a Value);

impl<'a> Taking<'a> {
    /// A setting that may be absent, read by `read`; a value of another type than the schema's is an error.
    pub fn optional<T>(
        self,
        key: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        match self.0.get(key) {
            None => Ok(None),
            Some(value) => match read(value) {
                Some(taken) => Ok(Some(taken)),
                None => Err(format!("{key}: {value} is not of the type that the schema says")),
            },
        }
    }

    /// A setting that the schema requires or has a default for.
    pub fn required<T>(self, key: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Result<T, String> {
        self.optional(key, read)?.ok_or_else(|| format!("{key}: missing"))
    }

    /// A count that the schema bounds to be not negative.
    pub fn count(self, key: &str) -> Result<Option<u64>, String> {
        self.optional(key, |value| value.as_integer().and_then(|n| u64::try_from(n).ok()))
    }

    /// A time span.
    pub fn span(self, key: &str) -> Result<Option<Nanos>, String> {
        self.optional(key, Value::as_duration).map(|span| span.map(Nanos))
    }
}

/// Checks `text` against a schema, as the configuration does, for tests and examples.
#[cfg(test)]
pub(crate) fn checked(schema: &str, text: &str) -> Result<Value, Vec<String>> {
    let schema = schema::Schema::from_text("settings.yaml", schema).expect("a correct schema");
    let document =
        yaml_document::Document::parse("test.yaml", text).map_err(|fault| vec![fault.to_string()])?;
    let mut faults = Vec::new();
    let value = schema.check("test.yaml", "", Some(document.root()), &mut faults);
    value.ok_or_else(|| faults.iter().map(ToString::to_string).collect())
}
