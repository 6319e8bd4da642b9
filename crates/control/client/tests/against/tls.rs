//! TCP with certificates on both sides.

use client::{Address, Client, ClientError, Settings, SettingsError, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

struct Signer(CertifiedIssuer<'static, KeyPair>);

impl Signer {
    fn new() -> Signer {
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Signer(CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("signs"))
    }

    /// Writes a certificate and its key, `NAME.pem` and `NAME.key`.
    fn sign(&self, folder: &Path, name: &str) {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let certificate = parameters.signed_by(&key, &self.0).expect("signs");
        std::fs::write(folder.join(format!("{name}.pem")), certificate.pem()).expect("written");
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).expect("written");
    }
}

/// A server that answers with a health document to clients that show a certificate of this signer; its port.
fn serve(folder: &Path, signer: &Signer) -> u16 {
    let provider = || Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(signer.0.pem().as_bytes()).expect("PEM")).expect("a root");
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let certificate = CertificateDer::from_pem_file(folder.join("localhost.pem")).expect("PEM");
    let key = PrivateKeyDer::from_pem_file(folder.join("localhost.key")).expect("PEM");
    let configuration = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(vec![certificate], key)
        .expect("goes together");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("an address").port();
    let configuration = Arc::new(configuration);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(configuration.clone()).expect("a connection");
            let mut stream = StreamOwned::new(connection, stream);
            let body = r#"{"healthy":true,"troubles":[],"version":"1","started":"","objects":0,"revision":0,"durable":0}"#;
            let length = body.len();
            // A client that is not trusted is gone by now.
            let _ = stream.read(&mut [0; 4096]).and_then(|_| {
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
            });
        }
    });
    port
}

#[test]
fn both_sides_must_be_trusted() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (ours, theirs) = (Signer::new(), Signer::new());
    std::fs::write(at("ours.pem"), ours.0.pem()).expect("written");
    std::fs::write(at("theirs.pem"), theirs.0.pem()).expect("written");
    ours.sign(folder.path(), "localhost");
    ours.sign(folder.path(), "operator");
    theirs.sign(folder.path(), "stranger");
    let port = serve(folder.path(), &ours);
    let tls = |host: &str, ca: &str, who: &str| Tls {
        host: format!("{host}:{port}"),
        ca: at(ca),
        certificate: at(&format!("{who}.pem")),
        key: at(&format!("{who}.key")),
    };
    let client = |tls| Client::new(Settings::new(Address::Tls(tls)));
    let ask = |tls| client(tls).expect("a client").health();

    assert!(ask(tls("localhost", "ours.pem", "operator")).expect("answered").healthy);
    let error = ask(tls("localhost", "theirs.pem", "operator")).expect_err("not their daemon");
    assert!(matches!(error, ClientError::Tls { .. }), "{error:?}");
    let error = ask(tls("127.0.0.1", "ours.pem", "operator")).expect_err("another name");
    assert!(matches!(error, ClientError::Tls { .. }), "{error:?}");
    // The daemon ends the connection; whether that is seen before its reason is chance.
    let error = ask(tls("localhost", "ours.pem", "stranger")).expect_err("a stranger");
    assert!(matches!(error, ClientError::Tls { .. } | ClientError::Died { .. }), "{error:?}");

    let refused = |tls| client(tls).expect_err("refused");
    for host in ["", "localhost", "localhost:0", "localhost:x", "a b:1", ":1", "u@h:1", "h/x:1"] {
        let error = refused(Tls { host: host.to_owned(), ..tls("localhost", "ours.pem", "operator") });
        assert!(matches!(error, SettingsError::Host(_)), "{host}: {error}");
    }
    let error = refused(tls("localhost", "none.pem", "operator")).to_string();
    assert!(error.contains("none.pem: No such file"), "{error}");
    let error = refused(tls("localhost", "operator.key", "operator")).to_string();
    assert!(error.contains("operator.key: there is none in it; allowed: certificates in PEM"), "{error}");
    let key = Tls { key: at("operator.pem"), ..tls("localhost", "ours.pem", "operator") };
    assert!(refused(key).to_string().contains("allowed: a private key in PEM"));
}
