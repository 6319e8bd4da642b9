//! Logins at registries, by which images are pulled for a tenant.

use crate::Name;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt;

/// A login at a registry, as it is shown: without its password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistryLogin {
    /// The tenant for whose functions images are pulled with it.
    pub tenant: String,
    /// The registry: HOST or HOST:PORT, as references of images begin.
    pub registry: String,
    /// The user's name there.
    pub username: String,
    /// When it was set (RFC 3339).
    pub set: String,
}

/// A login that is to be set, in the place of one that the tenant has at the same registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRegistryLogin {
    /// The tenant. A tenant's token need not name it; an administrator must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    /// The registry: HOST or HOST:PORT, as references of images begin.
    pub registry: String,
    /// The user's name there, without a colon.
    pub username: String,
    /// The password, or a token that the registry takes for one. It is in no answer.
    pub password: Password,
}

/// A password. Neither `Debug` nor an error shows it.
#[derive(Clone, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct Password(String);

impl Password {
    /// Most bytes of one: tokens of registries are long.
    pub const MAX: usize = 16_384;

    /// A password of 1 to [`MAX`](Password::MAX) bytes without control characters; `None` for any other text.
    pub fn new(text: impl Into<String>) -> Option<Password> {
        let text = text.into();
        let allowed = (1..=Password::MAX).contains(&text.len()) && !text.chars().any(char::is_control);
        allowed.then_some(Password(text))
    }

    /// Its text, for the registry and for the store.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(...)")
    }
}

impl Serialize for Password {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Password {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Password, D::Error> {
        // What the formats say of a wrong value would show it.
        let found = Value::deserialize(deserializer)?;
        let text = found.as_str().and_then(Password::new);
        let most = Password::MAX;
        text.ok_or_else(|| {
            D::Error::custom(format!("password: allowed: 1 to {most} bytes of text on one line"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_shown_by_nothing_but_its_own_document() {
        let text = r#"{"registry":"r.example:5000","username":"ci","password":"hush"}"#;
        let login: NewRegistryLogin = serde_json::from_str(text).expect("one");
        assert_eq!(serde_json::to_string(&login).expect("JSON"), text);
        assert!(!format!("{login:?}").contains("hush"), "{login:?}");
        for wrong in ["7654321", "\"\"", "\"hush\\n\"", "[\"hush\"]", "{\"hush\": 1}"] {
            let error = serde_json::from_str::<Password>(wrong).expect_err(wrong).to_string();
            assert!(
                error.contains("allowed: 1 to") && !error.contains("hush") && !error.contains("765"),
                "{error}"
            );
        }
    }
}
