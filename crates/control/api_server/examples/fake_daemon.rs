//! The server with a host that runs nothing: for tests that end the whole process, and to try a client or a
//! fuzzer on.
//!
//! `fake_daemon FOLDER [ADDRESS]` serves on `FOLDER/socket` with its state in `FOLDER/state`. With an
//! address, clients that know no UNIX sockets can be tried: what comes by TCP is carried to the socket, in
//! the clear and for any client.

#[path = "../tests/support/fake.rs"]
mod fake;

use api_server::{Server, Settings};
use std::error::Error;
use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::Store;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: fake_daemon FOLDER [ADDRESS]")?);
    let store = Arc::new(Store::open(&folder.join("state"))?);
    let settings = Settings::new(folder.join("socket"), folder.join("audit.jsonl"));
    let server = Server::bind(&settings, store, Arc::new(fake::Fake::default()))?;
    if let Some(address) = arguments.next() {
        let listener = TcpListener::bind(address.to_str().ok_or("the address is no text")?)?;
        let socket = folder.join("socket");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let socket = socket.clone();
                std::thread::spawn(move || carry(stream, &socket));
            }
        });
    }
    server.serve(|| false)?;
    Ok(())
}

/// Carries bytes both ways until one side ends.
fn carry(mut tcp: TcpStream, socket: &Path) -> std::io::Result<()> {
    let mut unix = UnixStream::connect(socket)?;
    let (mut back_from, mut back_to) = (unix.try_clone()?, tcp.try_clone()?);
    let back = std::thread::spawn(move || {
        let _ = copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(Shutdown::Both);
    });
    let _ = copy(&mut tcp, &mut unix);
    let _ = unix.shutdown(Shutdown::Write);
    let _ = back.join();
    Ok(())
}
