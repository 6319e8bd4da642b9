//! TCP, for clients with a certificate.

use crate::Running;
use api_server::{Page, Tcp};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

struct Signer(CertifiedIssuer<'static, KeyPair>);

impl Signer {
    fn new() -> Signer {
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Signer(CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("signs"))
    }

    /// Certificate and key, as PEM.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        (parameters.signed_by(&key, &self.0).expect("signs").pem(), key.serialize_pem())
    }
}

fn ask(address: SocketAddr, server: &Signer, client: Option<(String, String)>) -> std::io::Result<String> {
    ask_with(address, server, client, "")
}

fn ask_with(
    address: SocketAddr,
    server: &Signer,
    client: Option<(String, String)>,
    headers: &str,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.0.pem().as_bytes()).expect("PEM")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let configuration = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM"),
            )
            .expect("goes together"),
    };
    let name = ServerName::try_from("daemon.example").expect("a name");
    let connection = ClientConnection::new(Arc::new(configuration), name).expect("a connection");
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address)?);
    stream.sock.set_read_timeout(Some(std::time::Duration::from_secs(10)))?;
    let body = r#"{"spec": {"image": "a"}}"#;
    let length = body.len();
    write!(
        stream,
        "PUT /v1/functions/fw HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )?;
    let mut told = String::new();
    stream.read_to_string(&mut told)?;
    Ok(told)
}

#[test]
fn only_those_with_a_certificate_that_is_signed_are_served() {
    let (ours, theirs) = (Signer::new(), Signer::new());
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = ours.sign("daemon.example");
    for (name, text) in [("cert", &certificate), ("key", &key), ("ca", &ours.0.pem())] {
        std::fs::write(folder.path().join(name), text).expect("writes");
    }
    // A port that is free; a process that takes it meanwhile makes the test fail, not pass.
    let address = TcpListener::bind("127.0.0.1:0").and_then(|probe| probe.local_addr()).expect("a port");
    let files = folder.path().to_owned();
    let server = Running::within(folder, store::Settings::default(), |settings| {
        settings.tcp = Some(Tcp {
            listen: address,
            certificate: files.join("cert"),
            key: files.join("key"),
            client_ca: files.join("ca"),
            administrators: Vec::new(),
        });
    });
    let told = ask(address, &ours, Some(ours.sign("alice.example"))).expect("answers");
    assert!(told.starts_with("HTTP/1.1 201 "), "{told}");
    assert_eq!(server.audit()[0]["who"]["names"], serde_json::json!(["alice.example"]));
    assert!(ask(address, &ours, None).is_err(), "no certificate");
    assert!(
        ask(address, &ours, Some(theirs.sign("mallory.example"))).is_err(),
        "signed by another authority"
    );
    let mut clear = TcpStream::connect(address).expect("connects");
    clear.write_all(b"GET /v1/health HTTP/1.1\r\nhost: a\r\n\r\n").expect("writes");
    let mut told = Vec::new();
    let _ = clear.read_to_end(&mut told);
    assert!(!told.starts_with(b"HTTP/"), "nothing is said in the clear");
    assert_eq!(server.store.revision().0, 1);
    assert_eq!(server.client().get("/v1/health").status, 200);
}

#[test]
fn connections_without_a_handshake_keep_no_client_out() {
    let signer = Signer::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = signer.sign("daemon.example");
    for (name, text) in [("cert", &certificate), ("key", &key), ("ca", &signer.0.pem())] {
        std::fs::write(folder.path().join(name), text).expect("writes");
    }
    let address = TcpListener::bind("127.0.0.1:0").and_then(|probe| probe.local_addr()).expect("a port");
    let files = folder.path().to_owned();
    let server = Running::within(folder, store::Settings::default(), |settings| {
        settings.tcp = Some(Tcp {
            listen: address,
            certificate: files.join("cert"),
            key: files.join("key"),
            client_ca: files.join("ca"),
            administrators: Vec::new(),
        });
    });
    // Of two kinds: ones that say nothing, and ones that begin a handshake and never go on.
    let silent: Vec<TcpStream> = (0..300)
        .map(|n| {
            let mut stream = TcpStream::connect(address).expect("connects");
            if n % 2 == 0 {
                // The head of a record of TLS, and the first byte of a hello. It may have been closed for
                // the next already.
                let _ = stream.write_all(&[22, 3, 1, 1, 0, 1]);
            }
            stream
        })
        .collect();
    assert_eq!(server.client().get("/v1/health").status, 200, "the socket has places of its own");
    let told = ask(address, &signer, Some(signer.sign("alice.example"))).expect("answers");
    assert!(told.starts_with("HTTP/1.1 201 "), "{told}");
    drop(silent);
}

#[test]
fn a_certificate_that_is_no_administrators_needs_a_token() {
    let signer = Signer::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = signer.sign("daemon.example");
    for (name, text) in [("cert", &certificate), ("key", &key), ("ca", &signer.0.pem())] {
        std::fs::write(folder.path().join(name), text).expect("writes");
    }
    let (named, known) = (signer.sign("ops.example"), signer.sign("other.example"));
    let known_der = CertificateDer::from_pem_slice(known.0.as_bytes()).expect("PEM");
    let digest: String = Sha256::digest(&known_der).iter().map(|byte| format!("{byte:02x}")).collect();
    let address = TcpListener::bind("127.0.0.1:0").and_then(|probe| probe.local_addr()).expect("a port");
    let files = folder.path().to_owned();
    let server = Running::within(folder, store::Settings::default(), |settings| {
        settings.tcp = Some(Tcp {
            listen: address,
            certificate: files.join("cert"),
            key: files.join("key"),
            client_ca: files.join("ca"),
            administrators: vec![
                "ops.example".parse().expect("a name"),
                format!("sha256:{digest}").parse().expect("a digest"),
            ],
        });
    });
    for administrator in [named, known] {
        let told = ask(address, &signer, Some(administrator)).expect("answers");
        assert!(told.starts_with("HTTP/1.1 20"), "{told}");
    }
    let mallory = || Some(signer.sign("mallory.example"));
    let told = ask(address, &signer, mallory()).expect("answers");
    assert!(
        told.starts_with("HTTP/1.1 401 ") && told.to_lowercase().contains("www-authenticate: bearer"),
        "{told}"
    );
    let made = server.client().post("/v1/tokens", r#"{"name": "t", "tenant": "default"}"#).json();
    let shown = format!("authorization: Bearer {}\r\n", made["secret"].as_str().expect("a secret"));
    let told = ask_with(address, &signer, mallory(), &shown).expect("answers");
    // Without tenants all is the default one's.
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    let audit = server.audit();
    let mut mallorys = audit.iter().filter(|line| line["who"]["names"][0] == "mallory.example");
    assert_eq!(mallorys.next().map(|line| &line["status"]), Some(&401.into()), "{audit:?}");
    assert_eq!(mallorys.next().map(|line| &line["who"]["token"]), Some(&"t".into()), "{audit:?}");
}

/// A request of a browser over TLS; it shows no certificate.
fn browse(address: SocketAddr, server: &Signer, request: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.0.pem().as_bytes()).expect("PEM")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let configuration = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("daemon.example").expect("a name");
    let connection = ClientConnection::new(Arc::new(configuration), name).expect("a connection");
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address).expect("connects"));
    stream.sock.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("a time limit");
    stream.write_all(request.as_bytes()).expect("writes");
    let mut told = Vec::new();
    // The end of TLS may be missing.
    let _ = stream.read_to_end(&mut told);
    String::from_utf8(told).expect("text")
}

#[test]
fn off_loopback_the_page_is_encrypted_and_known_by_its_certificates_names_alone() {
    let signer = Signer::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = signer.sign("daemon.example");
    for (name, text) in [("cert", &certificate), ("key", &key)] {
        std::fs::write(folder.path().join(name), text).expect("writes");
    }
    let files = (folder.path().join("cert"), folder.path().join("key"));
    let server = Running::within(folder, store::Settings::default(), |settings| {
        settings.page = Some(Page::new(SocketAddr::from(([0, 0, 0, 0], 0)), Some(files), &[]));
    });
    let port = server.page.expect("it listens").port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let link = server.client().post("/v1/page-links", "").json();
    let url = link["url"].as_str().expect("an address");
    let secret = url.strip_prefix(&format!("https://daemon.example:{port}/#link=")).expect("by its name");
    let open = |host: &str, origin: &str| {
        let body = format!("{{\"link\": \"{secret}\"}}");
        let length = body.len();
        let request = format!(
            "POST /session HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        browse(address, &signer, &request)
    };
    let own = format!("daemon.example:{port}");
    // A loopback name is another host's here, and so is the same name in the clear.
    for (host, origin) in [
        ("localhost", "https://localhost".to_owned()),
        ("evil.example", "https://evil.example".to_owned()),
        (own.as_str(), format!("http://{own}")),
    ] {
        let told = open(host, &origin);
        assert!(told.starts_with("HTTP/1.1 403 "), "{host}: {told}");
    }
    let told = open(&own, &format!("https://{own}"));
    assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    let cookie = told.lines().find(|line| line.starts_with("set-cookie: ")).expect("a cookie");
    assert!(
        cookie.contains(&format!("__Host-superfluid-{port}=")) && cookie.contains("; Secure"),
        "{cookie}"
    );
    let mut clear = TcpStream::connect(address).expect("connects");
    clear.write_all(format!("GET / HTTP/1.1\r\nhost: {own}\r\n\r\n").as_bytes()).expect("writes");
    let mut told = Vec::new();
    let _ = clear.read_to_end(&mut told);
    assert!(!told.starts_with(b"HTTP/"), "nothing is said in the clear");
}
