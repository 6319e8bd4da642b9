//! Tokens: a client that shows one has the rights of a tenant, or reads the whole host, and has no others.

use crate::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A token, without its secret: that is shown once, in the answer to its creation, and not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Its name, among all tokens.
    pub name: String,
    /// The tenant whose rights it gives; none if it is for the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Whether it reads the whole host: what all tenants have, except secrets and packets. It changes
    /// nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub host: bool,
    /// When it was made.
    #[schemars(extend("format" = "date-time"))]
    pub created: String,
    /// From when on it is not taken any more; without it, it is until it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expires: Option<String>,
    /// Whether it shows what there is, and changes nothing.
    pub read_only: bool,
}

/// A token that is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["tenant"]}, {"required": ["host"], "properties": {"host": {"const": true}}}]))]
pub struct NewToken {
    /// What it is to be called. A token of this name must not be there yet.
    pub name: Name,
    /// The tenant whose rights it gives; it must exist. Either this or `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    /// Whether it is to read the whole host, and change nothing. Either this or `tenant`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub host: bool,
    /// From when on it is not to be taken any more, in UTC; without it, it is until it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time", "pattern" = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|\+00:00)$"))]
    pub expires: Option<String>,
    /// Whether it is to show what there is, and change nothing. A token of the whole host always is.
    #[serde(default)]
    pub read_only: bool,
}

/// A token that was made, with its secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IssuedToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// What is shown to the daemon, as `Authorization: Bearer SECRET`. It is told this once.
    pub secret: String,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Without the secret, which must not appear in a log.
impl std::fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedToken").field("token", &self.token).finish_non_exhaustive()
    }
}

/// How a token's secret begins, so that people and programs that look for secrets know one when they see it.
pub const TOKEN_PREFIX: &str = "sft_";

/// Hexadecimal digits of a token's secret behind [`TOKEN_PREFIX`]: 256 bits.
pub const TOKEN_DIGITS: usize = 64;

/// Whether this has the form of a token's secret: [`TOKEN_PREFIX`] and [`TOKEN_DIGITS`] digits, `0` to `9`
/// and `a` to `f`.
pub fn is_secret(text: &str) -> bool {
    text.strip_prefix(TOKEN_PREFIX).is_some_and(|digits| {
        digits.len() == TOKEN_DIGITS && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}
