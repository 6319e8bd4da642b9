//! Tokens of tenants, which administrators make and delete, and links to the page.

use crate::exchange::Ask;
use crate::{Client, ClientError};
use api::{IssuedToken, NewToken, PageLink, Token, paths};
use http_client::http::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
struct Tokens {
    items: Vec<Token>,
}

impl Client {
    /// Makes a token. Its secret is in this answer and in no other.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn issue_token(&self, token: &NewToken) -> Result<IssuedToken, ClientError> {
        self.ask(Ask::new(Method::POST, paths::TOKENS).with_json(token))
    }

    /// All tokens, without their secrets.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn tokens(&self) -> Result<Vec<Token>, ClientError> {
        self.ask::<Tokens>(Ask::get(paths::TOKENS)).map(|list| list.items)
    }

    /// One token, without its secret.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn token(&self, name: &str) -> Result<Token, ClientError> {
        self.ask(Ask::get(paths::token(name)))
    }

    /// Deletes a token: it is not taken any more.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn delete_token(&self, name: &str) -> Result<(), ClientError> {
        self.ask::<IgnoredAny>(Ask::new(Method::DELETE, paths::token(name))).map(|_| ())
    }

    /// Makes a link to the page, with this client's rights. It opens one session, once.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn page_link(&self) -> Result<PageLink, ClientError> {
        self.ask(Ask::new(Method::POST, paths::PAGE_LINKS))
    }
}
