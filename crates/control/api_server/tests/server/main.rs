//! The server as its clients see it, with a host that runs nothing.

#[path = "../support/client.rs"]
mod client;
#[path = "../support/fake.rs"]
mod fake;

mod changes;
mod checks;
mod description;
mod document;
mod encrypted;
mod hostile;
mod kept;
mod killed;
mod model;
mod page;
mod rights;
mod running;
mod scrape;
mod socket;
mod streams;
mod timing;

use api_server::{Server, Settings};
use client::Client;
use fake::Fake;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use store::Store;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// A server in this process; it ends when this is dropped, and must end well.
struct Running {
    folder: TempDir,
    fake: Arc<Fake>,
    store: Arc<Store>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Where metrics are given in the clear.
    metrics: Option<std::net::SocketAddr>,
    /// Where browsers find the page.
    page: Option<std::net::SocketAddr>,
}

impl Running {
    fn new() -> Running {
        Running::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Running {
        let folder = tempfile::tempdir().expect("a folder");
        Running::within(folder, store::Settings::default(), change)
    }

    fn within(folder: TempDir, of_store: store::Settings, change: impl FnOnce(&mut Settings)) -> Running {
        let mut settings = Settings::new(folder.path().join("socket"), folder.path().join("audit.jsonl"));
        change(&mut settings);
        let store = Arc::new(Store::open_with(&folder.path().join("state"), of_store).expect("opens"));
        let fake = Arc::new(Fake::default());
        let server = Server::bind(&settings, store.clone(), fake.clone()).expect("binds");
        let (metrics, page) = (server.metrics_address(), server.page_address());
        let (end, ended) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            server
                .serve_until(async {
                    let _ = ended.await;
                })
                .expect("serves");
        });
        Running { folder, fake, store, end: Some(end), thread: Some(thread), metrics, page }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket())
    }

    /// Lines of the audit log.
    fn audit(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.jsonl")).expect("reads");
        // A line without its end is being written.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn begin_end(&mut self) {
        drop(self.end.take());
    }

    fn join(&mut self) {
        self.begin_end();
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the server ended well");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fake.let_all_go();
        }
        self.join();
    }
}
