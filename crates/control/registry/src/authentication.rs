//! How a registry wants clients to identify themselves: `WWW-Authenticate` (RFC 9110 section 11.6.1), and
//! tokens (OCI distribution specification 1.1; "Token Authentication Specification" of CNCF Distribution).

use serde::Deserialize;

/// Most parameters of one challenge that are read.
const MAX_PARAMETERS: usize = 32;

/// One way of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// In lower case: `basic`, `bearer` or another.
    pub scheme: String,
    /// Names, in lower case, and values.
    pub parameters: Vec<(String, String)>,
}

impl Challenge {
    /// The value of the first parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// The challenges of one header, in their order, up to the first thing that is none.
pub fn challenges(header: &str) -> Vec<Challenge> {
    let mut found: Vec<Challenge> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (token, after) = token(rest);
        if token.is_empty() {
            return found;
        }
        let spaced = after.trim_start_matches([' ', '\t']);
        let value = spaced.strip_prefix('=').map(|value| value.trim_start_matches([' ', '\t']));
        match (value, found.last_mut()) {
            (Some(text), Some(challenge)) if challenge.parameters.len() < MAX_PARAMETERS => {
                let Some((value, after)) = value_of(text) else { return found };
                challenge.parameters.push((token.to_ascii_lowercase(), value));
                rest = after;
            }
            (Some(_), _) => return found,
            (None, _) => {
                found.push(Challenge { scheme: token.to_ascii_lowercase(), parameters: Vec::new() });
                rest = after;
            }
        }
    }
}

/// A token (RFC 9110 section 5.6.2) and what is behind it.
fn token(text: &str) -> (&str, &str) {
    let end = text
        .bytes()
        .position(|byte| !(byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)))
        .unwrap_or(text.len());
    text.split_at(end)
}

/// A token or a quoted string, and what is behind it.
fn value_of(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = token(text);
        return (!value.is_empty()).then(|| (value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

/// What a token service answers.
#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

/// The token in a token service's answer, if it can stand in a header.
pub(crate) fn bearer(answer: &[u8]) -> Result<String, &'static str> {
    let answer: TokenAnswer = serde_json::from_slice(answer)
        .map_err(|_| "its token service's answer is no JSON object with a token")?;
    let token = answer.token.or(answer.access_token).ok_or("its token service gives no token")?;
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("its token service gives a token that is none");
    }
    Ok(format!("Bearer {token}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let header = r#"Bearer realm="https://a.example/t?x=\"y,\"",service=r , Basic realm="", Negotiate"#;
        let [bearer, basic, other] = &challenges(header)[..] else { panic!("{:?}", challenges(header)) };
        assert_eq!(bearer.scheme, "bearer");
        assert_eq!(bearer.parameter("realm"), Some("https://a.example/t?x=\"y,\""));
        assert_eq!(bearer.parameter("service"), Some("r"));
        assert_eq!((basic.scheme.as_str(), basic.parameter("realm")), ("basic", Some("")));
        assert_eq!((other.scheme.as_str(), other.parameters.len()), ("negotiate", 0));
    }

    #[test]
    fn what_is_no_challenge_ends_them() {
        for (header, schemes) in
            [("", 0), ("=x", 0), ("a=b", 0), ("Basic realm=\"x", 1), ("Basic realm=", 1), ("B \u{e4}", 1)]
        {
            assert_eq!(challenges(header).len(), schemes, "{header}");
        }
        let many = format!("Basic {}", "a=b,".repeat(100));
        assert_eq!(challenges(&many)[0].parameters.len(), MAX_PARAMETERS);
    }

    #[test]
    fn a_token_is_one_that_a_header_takes() {
        assert_eq!(bearer(br#"{"token": "abc.def", "expires_in": 60}"#), Ok("Bearer abc.def".to_owned()));
        assert_eq!(bearer(br#"{"access_token": "x"}"#), Ok("Bearer x".to_owned()));
        for wrong in [&b"{}"[..], b"[", br#"{"token": "a\r\nb"}"#, br#"{"token": ""}"#] {
            assert!(bearer(wrong).is_err());
        }
    }
}
