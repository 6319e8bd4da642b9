//! Logins of tenants at registries.

use crate::exchange::Ask;
use crate::{Client, ClientError};
use api::{NewRegistryLogin, RegistryLogin, paths};
use http_client::http::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
struct Logins {
    items: Vec<RegistryLogin>,
}

impl Client {
    /// Sets the login of a tenant at a registry.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn set_registry_login(&self, login: &NewRegistryLogin) -> Result<RegistryLogin, ClientError> {
        self.ask(Ask::new(Method::POST, paths::REGISTRY_LOGINS).with_json(login))
    }

    /// All logins that are shown to the client, without their passwords.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn registry_logins(&self) -> Result<Vec<RegistryLogin>, ClientError> {
        self.ask::<Logins>(Ask::get(paths::REGISTRY_LOGINS)).map(|list| list.items)
    }

    /// Deletes the login at a registry, of a tenant if it is not the client's own.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn delete_registry_login(&self, registry: &str, tenant: Option<&str>) -> Result<(), ClientError> {
        let ask = Ask::new(Method::DELETE, paths::REGISTRY_LOGINS).with("registry", registry);
        let ask = match tenant {
            Some(tenant) => ask.with("tenant", tenant),
            None => ask,
        };
        self.ask::<IgnoredAny>(ask).map(|_| ())
    }
}
