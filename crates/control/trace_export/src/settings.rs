//! Where spans go.

use std::time::Duration;

/// Where spans go, and as whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where they are posted: `http://localhost:4318/v1/traces`.
    pub url: String,
    /// Headers that go with them.
    pub headers: Vec<(String, String)>,
    /// The service that they are of.
    pub service: String,
    /// Its version.
    pub version: String,
    /// How long a collector may take.
    pub timeout: Duration,
    /// How long spans wait for others to go with them.
    pub gather: Duration,
    /// How long the end may take.
    pub grace: Duration,
}

/// What is wrong with them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The endpoint is no URL.
    #[error("the collector's endpoint: found `{0}`; allowed: http://HOST[:PORT][/PATH] or https://...")]
    Url(String),
    /// The headers are none.
    #[error("the collector's headers: found `{0}`; allowed: NAME=VALUE,NAME=VALUE")]
    Headers(String),
}

impl Settings {
    /// As the command line says, or the environment by the names that OpenTelemetry has for that:
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`,
    /// `OTEL_SERVICE_NAME`. `None` when neither says where spans go.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn find(
        endpoint: Option<&str>,
        environment: impl Fn(&str) -> Option<String>,
        version: &str,
    ) -> Result<Option<Settings>, SettingsError> {
        let given = |name| environment(name).filter(|value| !value.is_empty());
        let whole = |base: &str| format!("{}/v1/traces", base.trim_end_matches('/'));
        // What is said for traces alone is the whole URL; else it is where all signals go.
        let url = match endpoint {
            Some(endpoint) => whole(endpoint),
            None => match given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
                Some(url) => url,
                None => match given("OTEL_EXPORTER_OTLP_ENDPOINT") {
                    Some(endpoint) => whole(&endpoint),
                    None => return Ok(None),
                },
            },
        };
        let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let sound = |host: &str| !host.starts_with('/') && url.bytes().all(|byte| byte.is_ascii_graphic());
        if !host.is_some_and(sound) {
            return Err(SettingsError::Url(url));
        }
        let headers = given("OTEL_EXPORTER_OTLP_HEADERS").map_or(Ok(Vec::new()), |text| headers(&text))?;
        Ok(Some(Settings {
            url,
            headers,
            service: given("OTEL_SERVICE_NAME").unwrap_or_else(|| "superfluid".to_owned()),
            version: version.to_owned(),
            timeout: Duration::from_secs(10),
            gather: Duration::from_secs(1),
            grace: Duration::from_secs(2),
        }))
    }
}

fn headers(text: &str) -> Result<Vec<(String, String)>, SettingsError> {
    let wrong = || SettingsError::Headers(text.to_owned());
    let header = |part: &str| {
        let (name, value) = part.split_once('=').ok_or_else(wrong)?;
        let (name, value) = (name.trim(), value.trim());
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let sound =
            !name.is_empty() && name.chars().all(token) && value.bytes().all(|b| (32..127).contains(&b));
        sound.then(|| (name.to_owned(), value.to_owned())).ok_or_else(wrong)
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(header).collect()
}
