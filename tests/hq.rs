//! `bulk_download serve` and `get`: files over hq-interop on loopback, run as their users run them.
#![cfg(unix)]

mod common;
/// Reading requests has its tests there.
#[path = "../examples/bulk_download/hq/request.rs"]
#[allow(dead_code, reason = "the server's part")]
mod request;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::example::{bulk_download, scratch};
use request::ALPN;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use warprate::crypto::rustls::QuicClientConfig;
use warprate::{ClientConfig, Connection, Endpoint, ReadError, VarInt};

/// A running `serve`, with a folder of its own: `www` is served, `got` is for what comes.
struct Served {
    folder: PathBuf,
    address: SocketAddr,
    pin: String,
    process: Child,
}

impl Served {
    fn new(name: &str) -> Self {
        Self::with(name, &[])
    }

    fn with(name: &str, arguments: &[&str]) -> Self {
        let folder = scratch(name);
        let _ = fs::remove_dir_all(&folder);
        for part in ["www", "got"] {
            fs::create_dir_all(folder.join(part)).expect("the scratch directory exists");
        }
        let certificate = rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()]);
        let certificate = certificate.expect("a name is valid");
        fs::write(folder.join("cert.pem"), certificate.cert.pem()).expect("writable");
        fs::write(folder.join("key.pem"), certificate.signing_key.serialize_pem()).expect("writable");
        let mut process = bulk_download()
            .args(["serve", "www", "--listen", "127.0.0.1:0", "--cert", "cert.pem", "--key", "key.pem"])
            .args(arguments)
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the example starts");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let mut line = || lines.next().expect("`serve` says three lines").expect("UTF-8");
        let address = line().rsplit(' ').next().expect("a word").parse().expect("its address");
        let pin = line().strip_prefix("certificate ").expect("the fingerprint").to_owned();
        line();
        Self { folder, address, pin, process }
    }

    fn file(&self, name: &str, bytes: &[u8]) {
        fs::write(self.folder.join("www").join(name), bytes).expect("writable");
    }

    fn got(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.join("got").join(name)).ok()
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// `get` of these paths into `got`, with the pin.
    fn get(&self, paths: &[&str], arguments: &[&str]) -> Output {
        let urls: Vec<_> = paths.iter().map(|path| self.url(path)).collect();
        let mut command = bulk_download();
        command.arg("get").args(urls).args(["--pin", &self.pin, "--output", "got"]).args(arguments);
        command.current_dir(&self.folder).output().expect("the example starts")
    }

    /// A client that may say anything.
    async fn connect(&self) -> (Endpoint, Connection) {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(self.folder.join("cert.pem")).expect("PEM");
        roots.add(certificate).expect("the certificate was just made");
        let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring speaks TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let config = QuicClientConfig::try_from(tls).expect("ring has a QUIC cipher suite");
        let mut endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).expect("a free port");
        endpoint.set_default_client_config(ClientConfig::new(Arc::new(config)));
        let connection = endpoint.connect(self.address, "localhost").expect("valid").await.expect("accepted");
        (endpoint, connection)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Bytes that differ from place to place.
fn pattern(len: u32) -> Vec<u8> {
    (0..len).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// The exit status is 1, and every one of `words` is in what was said.
#[track_caller]
fn fails(output: &Output, words: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
}

#[test]
fn files_of_no_byte_of_one_and_of_twenty_megabytes_arrive_as_they_are() {
    let served = Served::new("sizes");
    let files = [("none", vec![]), ("one", vec![7]), ("large", pattern(20_000_000))];
    for (name, bytes) in &files {
        served.file(name, bytes);
    }
    succeeds(&served.get(&["/none", "/one", "/large"], &[]));
    for (name, bytes) in files {
        assert!(served.got(name) == Some(bytes), "{name}");
    }
}

#[test]
fn more_files_than_streams_are_allowed_at_a_time_arrive_as_they_are() {
    let served = Served::new("many");
    let names: Vec<_> = (0..300).map(|i| format!("/file-{i}")).collect();
    for (i, name) in (0..).zip(&names) {
        served.file(&name[1..], &pattern(100 * i));
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    succeeds(&served.get(&names, &[]));
    for (i, name) in (0..).zip(&names) {
        assert!(served.got(&name[1..]) == Some(pattern(100 * i)), "{name}");
    }
}

#[test]
fn a_missing_file_is_named_and_leaves_nothing_behind_and_the_others_arrive() {
    let served = Served::new("missing");
    served.file("there", b"there");
    fs::create_dir(served.folder.join("www/folder")).unwrap();
    for path in ["/missing", "/folder", "/there/below"] {
        let output = served.get(&["/there", path], &[]);
        fails(&output, &[&served.url(path), "code 404", "1 of 2 files"]);
        assert_eq!(served.got(path.rsplit('/').next().unwrap()), None);
        assert_eq!(served.got("there").as_deref(), Some(&b"there"[..]));
    }
}

#[test]
fn nothing_outside_of_the_directory_is_served() {
    let served = Served::new("traversal");
    let (www, secret) = (served.folder.join("www"), served.folder.join("secret"));
    fs::write(&secret, b"secret").unwrap();
    fs::create_dir(www.join("folder")).unwrap();
    symlink(&secret, www.join("absolute-link")).unwrap();
    symlink("../secret", www.join("link")).unwrap();
    symlink("..", www.join("folder-link")).unwrap();
    for path in [
        "/../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/folder/../../secret",
        "/folder/%2E%2E/%2E%2E/secret",
        &format!("/{}", secret.display()),
        &format!("/%2f{}", &secret.to_str().unwrap()[1..]),
        "/absolute-link",
        "/link",
        "/folder-link/secret",
    ] {
        fails(&served.get(&[path], &[]), &["code 403"]);
        assert_eq!(served.folder.join("got").read_dir().unwrap().count(), 0, "{path}");
    }
    fails(&served.get(&["/file%00"], &[]), &["code 400"]);
}

#[test]
fn links_that_stay_in_the_directory_are_followed() {
    let served = Served::new("links");
    served.file("file", b"within");
    symlink("file", served.folder.join("www/link")).unwrap();
    served.file("two words%", b"escaped");
    succeeds(&served.get(&["/link", "/two%20words%25"], &[]));
    assert_eq!(served.got("link").as_deref(), Some(&b"within"[..]));
    assert_eq!(served.got("two%20words%25").as_deref(), Some(&b"escaped"[..]));
}

/// What the server answers to `request`.
async fn ask(connection: &Connection, request: &[u8]) -> Result<Vec<u8>, VarInt> {
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    // The server may have refused it before it is complete.
    let _ = send.write_all(request).await;
    let _ = send.finish();
    let mut answer = Vec::new();
    loop {
        match receive.read_chunk(usize::MAX, true).await {
            Ok(Some(chunk)) => answer.extend_from_slice(&chunk.bytes),
            Ok(None) => return Ok(answer),
            Err(ReadError::Reset(code)) => return Err(code),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_request_that_makes_no_sense_ends_only_its_stream() {
    let served = Served::new("nonsense");
    served.file("file", b"file");
    let (_endpoint, connection) = served.connect().await;
    let long = [&b"GET /"[..], &[b'a'; 5000]].concat();
    let unnameable = [&b"GET /"[..], &[b'a'; 300]].concat();
    for (request, code) in [
        (&b"POST /file\r\n"[..], 400),
        (b"", 400),
        (b"\xff\xfe\x00", 400),
        (b"GET /file HTTP/1.1\r\n\r\n", 400),
        (&long, 414),
        (&unnameable, 404),
        (b"GET /\r\n", 404),
    ] {
        let code = VarInt::from_u32(code);
        assert_eq!(ask(&connection, request).await, Err(code), "{:?}", text(request));
        assert_eq!(ask(&connection, b"GET /file\r\n").await.as_deref(), Ok(&b"file"[..]));
    }
}

#[tokio::test]
async fn a_client_that_stops_listening_costs_the_others_nothing() {
    let served = Served::new("stopped");
    served.file("large", &pattern(20_000_000));
    served.file("file", b"file");
    let (_endpoint, connection) = served.connect().await;
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(b"GET /large").await.unwrap();
    send.finish().unwrap();
    receive.read_chunk(usize::MAX, true).await.unwrap();
    receive.stop(VarInt::from_u32(0)).unwrap();
    assert_eq!(ask(&connection, b"GET /file").await.as_deref(), Ok(&b"file"[..]));
}

#[tokio::test]
#[ignore = "takes as long as the server's patience, 10 s"]
async fn an_unfinished_request_is_given_up() {
    let served = Served::new("unfinished");
    let (_endpoint, connection) = served.connect().await;
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(b"GET /fi").await.unwrap();
    let read = tokio::time::timeout(Duration::from_secs(20), receive.read_chunk(1, true)).await;
    assert_eq!(read.unwrap().unwrap_err(), ReadError::Reset(VarInt::from_u32(408)));
}

#[test]
fn the_server_is_known_by_its_pin_or_by_an_authority() {
    let served = Served::new("trust");
    served.file("file", b"file");
    let url = served.url("/file");
    let get = |trust: &[&str]| {
        let mut command = bulk_download();
        command.args(["get", &url, "--output", "got"]).args(trust);
        command.current_dir(&served.folder).output().expect("the example starts")
    };
    let colons: Vec<_> = served.pin.as_bytes().chunks(2).map(text).collect();
    let colons = colons.join(":").to_uppercase();
    for trust in [&["--pin", &served.pin][..], &["--pin", &colons], &["--ca", "cert.pem"], &["--insecure"]] {
        succeeds(&get(trust));
        fs::remove_file(served.folder.join("got/file")).expect("it has arrived");
    }

    let wrong = "0".repeat(64);
    fails(&get(&["--pin", &wrong]), &[&served.pin, "not the pinned one"]);
    fails(&get(&["--ca", "missing.pem"]), &["--ca", "missing.pem"]);
    fails(&get(&["--ca", "key.pem"]), &["--ca", "key.pem", "no certificate"]);
    assert_eq!(served.got("file"), None);
}

#[test]
fn another_authority_vouches_for_nothing() {
    let served = Served::new("stranger");
    served.file("file", b"file");
    let stranger = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    fs::write(served.folder.join("stranger.pem"), stranger.cert.pem()).unwrap();
    let mut command = bulk_download();
    command.args(["get", &served.url("/file"), "--output", "got", "--ca", "stranger.pem"]);
    fails(&command.current_dir(&served.folder).output().unwrap(), &["invalid peer certificate"]);
    assert_eq!(served.got("file"), None);
}

#[test]
fn a_certificate_of_its_own_is_pinned_by_the_line_that_serve_prints() {
    let folder = scratch("self-signed");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("FILE"), b"file").unwrap();
    let mut server = bulk_download()
        .args(["serve", ".", "--listen", "127.0.0.1:0", "--law", "cubic"])
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = BufReader::new(server.stdout.take().unwrap()).lines().nth(2).unwrap().unwrap();
    let arguments = line.strip_prefix("bulk_download ").unwrap().split(' ');
    let output = bulk_download().args(arguments).args(["--output", "copy"]).current_dir(&folder).output();
    server.kill().unwrap();
    server.wait().unwrap();
    succeeds(&output.unwrap());
    assert_eq!(fs::read(folder.join("copy")).unwrap(), b"file");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_happens() {
    for (arguments, words) in [
        (&["get", "https://localhost/file"][..], &["--pin", "--ca", "--insecure"][..]),
        (&["get", "http://localhost/file", "--insecure"], &["https://HOST:PORT/PATH"]),
        (&["get", "localhost", "--insecure"], &["https://HOST:PORT/PATH"]),
        (&["get", "https://localhost/file", "--pin", "12ab"], &["--pin", "64 hexadecimal digits"]),
        (&["get", "https://localhost/file", "--insecure", "--law", "fixed"], &["--law", "warprate, cubic"]),
        (&["serve"], &["DIRECTORY"]),
        (&["serve", ".", "--listen", "4433"], &["--listen"]),
        (&["serve", ".", "--cert", "cert.pem"], &["--key"]),
        (&["serve", ".", "--loss", "1%"], &["--loss"]),
        (&["--loss", "1%", "serve", "."], &["serve"]),
    ] {
        let output = bulk_download().args(arguments).output().expect("the example starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{arguments:?}: no `{word}` in: {said}");
        }
    }
    for (arguments, words) in [
        (&["serve", "/nonexistent"][..], &["/nonexistent"][..]),
        (&["serve", "Cargo.toml"], &["Cargo.toml"]),
        (&["serve", ".", "--cert", "Cargo.toml", "--key", "Cargo.toml"], &["Cargo.toml", "no certificate"]),
        (&["get", "https://localhost/", "--insecure"], &["https://localhost:443/", "--output"]),
        (
            &["get", "https://localhost/a/file", "https://localhost/b/file", "--insecure"],
            &["two of the URLs", "file"],
        ),
        (&["get", "https://localhost/file", "--insecure", "-o", "/nonexistent/file"], &["/nonexistent"]),
        (&["get", "https://localhost/file", "--insecure", "--0rtt"], &["--0rtt", "two URLs"]),
    ] {
        fails(&bulk_download().args(arguments).output().expect("the example starts"), words);
    }
}

/// What `get` says and that two files arrived, with these options.
fn two_files(served: &Served, arguments: &[&str]) -> String {
    let (small, large) = (pattern(5000), pattern(5_000_000));
    served.file("small", &small);
    served.file("large", &large);
    let output = served.get(&["/small", "/large"], arguments);
    succeeds(&output);
    assert!(served.got("small") == Some(small) && served.got("large") == Some(large));
    text(&output.stdout)
}

#[test]
fn a_server_that_wants_proof_of_the_address_serves_all_the_same() {
    two_files(&Served::with("retry", &["--retry"]), &[]);
}

#[test]
fn a_second_connection_is_resumed_and_its_requests_are_sent_early() {
    let served = Served::new("resumed");
    two_files(&served, &["--resume"]);
    assert!(two_files(&served, &["--0rtt"]).contains("0-RTT accepted"));
    two_files(&Served::with("resumed-retry", &["--retry"]), &["--0rtt"]);
}

#[test]
fn a_transfer_survives_new_keys_and_a_new_port() {
    let served = Served::new("upset");
    two_files(&served, &["--key-update"]);
    two_files(&served, &["--migrate"]);
    two_files(&served, &["--key-update", "--migrate"]);
}
