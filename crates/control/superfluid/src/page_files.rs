//! The page inside the program: what lay in `page/dist` when it was built, compressed. Nothing, where the
//! page had not been built.

use api_server::PageFile;

include!(concat!(env!("OUT_DIR"), "/page.rs"));
