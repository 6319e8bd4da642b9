//! `superfluid page`: a link to the page.

use super::failure::{Done, print};
use super::options::PageOptions;
use crate::output::{Format, one};
use serde_json::json;

pub(crate) fn page(options: &PageOptions) -> Done {
    let link = options.connection.client()?.page_link()?;
    print(&match options.shown.output {
        Format::Table | Format::Wide => format!("{}\n", printable::lines(&link.url)),
        format @ (Format::Json | Format::Yaml) => one(&json!(link), format),
    })
}
