//! A body that is a map, as what a call takes. A fault says which key has it, what was found there and what
//! is allowed.

use crate::document::found;
use api::{Fault, FaultKind};
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Error, IntoDeserializer, MapAccess};
use serde_json::{Map, Value};
use std::fmt;
use yaml_document::spelling;

/// Reads a body.
///
/// # Errors
/// The first thing that is wrong with its keys and their values.
pub(crate) fn read<T: DeserializeOwned>(body: Map<String, Value>) -> Result<T, Fault> {
    let entries = Entries { left: body.into_iter(), value: None };
    T::deserialize(MapAccessDeserializer::new(entries)).map_err(|Wrong(fault)| fault)
}

/// The entries of a map, one after the other.
struct Entries {
    left: serde_json::map::IntoIter,
    /// The entry whose key was read.
    value: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for Entries {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some((key.clone(), value));
        let key: StringDeserializer<Wrong> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let (key, value) = self.value.take().unwrap_or_default();
        let found = found(&value);
        seed.deserialize(value).map_err(|error| Wrong::of_value(&key, &found, &error.to_string()))
    }
}

/// What is wrong.
#[derive(Debug)]
struct Wrong(Fault);

impl Wrong {
    /// What `serde_json` says of a wrong value, `invalid type: null, expected a string`, in the words of a
    /// fault. What a type says of its values itself, which may be secret, is left as it is.
    fn of_value(key: &str, found: &str, told: &str) -> Wrong {
        let expected = told.strip_prefix("invalid ").and_then(|told| told.rsplit_once(", expected "));
        let message = match expected {
            Some((_, expected)) => {
                let allowed = match expected {
                    "a string" => "text",
                    "u64" | "u32" => "a whole number from 0 on",
                    "a boolean" => "true or false",
                    other => other,
                };
                format!("found {found}; allowed: {allowed}")
            }
            None => told.strip_prefix(&format!("{key}: ")).unwrap_or(told).to_owned(),
        };
        Wrong(Fault::new(key, message))
    }
}

impl Error for Wrong {
    fn custom<M: fmt::Display>(message: M) -> Wrong {
        Wrong(Fault::new("", message.to_string()))
    }

    fn unknown_field(key: &str, expected: &'static [&'static str]) -> Wrong {
        let shown = spelling::shown(key);
        let message = format!("unknown key `{shown}`{}", spelling::choices(key, expected.iter().copied()));
        Wrong(Fault { kind: FaultKind::UnknownKey, ..Fault::new(shown, message) })
    }

    fn missing_field(key: &'static str) -> Wrong {
        Wrong(Fault::new(key, format!("the required key `{key}` is missing")))
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Wrong {}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{NewRegistryLogin, NewToken, Trace, Upgrade};
    use serde_json::json;

    fn told<T: DeserializeOwned + fmt::Debug>(body: Value) -> String {
        let Value::Object(map) = body else { panic!("no map") };
        read::<T>(map).expect_err("a fault").to_string()
    }

    #[test]
    fn a_fault_says_which_key_what_was_found_and_what_is_allowed() {
        let cases = [
            (json!({}), "image: the required key `image` is missing"),
            (json!({"image": null}), "image: found nothing; allowed: text"),
            (json!({"image": {"a": 1}}), "image: found a map; allowed: text"),
            (json!({"imag": "x"}), "imag: unknown key `imag`; allowed: image, config; did you mean `image`?"),
        ];
        for (body, wanted) in cases {
            assert_eq!(told::<Upgrade>(body), wanted);
        }
        assert_eq!(
            told::<Trace>(json!({"count": -1})),
            "count: found `-1`; allowed: a whole number from 0 on"
        );
        let large = json!({"heads": 1_u64 << 40});
        assert!(told::<Trace>(large).starts_with("heads: found `1099511627776`; allowed: "));
        let token = json!({"name": "a", "read_only": "yes"});
        assert_eq!(told::<NewToken>(token), "read_only: found the text \"yes\"; allowed: true or false");
        let read = read::<Upgrade>(json!({"image": "x"}).as_object().expect("a map").clone());
        assert_eq!(read.expect("one").image, "x");
    }

    #[test]
    fn a_wrong_password_is_not_repeated() {
        for password in [json!(7_654_321), json!("hush\n"), json!({"hush": 1})] {
            let told =
                told::<NewRegistryLogin>(json!({"registry": "r", "username": "u", "password": password}));
            assert!(told.starts_with("password: allowed: 1 to "), "{told}");
            assert!(!told.contains("hush") && !told.contains("765"), "{told}");
        }
    }
}
