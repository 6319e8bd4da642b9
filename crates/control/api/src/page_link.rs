//! Links to the page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a link's secret begins, so that it is known for one when it is seen.
pub const LINK_PREFIX: &str = "sfl_";

/// A link to the page, with the rights of the client that asked for it. It opens one session, once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageLink {
    /// What a browser opens. Its secret stands in the fragment, which browsers send to no server.
    pub url: String,
    /// From when on it is not taken any more.
    #[schemars(extend("format" = "date-time"))]
    pub expires: String,
}

/// Without the secret, which must not appear in a log.
impl std::fmt::Debug for PageLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageLink").field("expires", &self.expires).finish_non_exhaustive()
    }
}
