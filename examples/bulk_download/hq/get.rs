//! The client: a connection to each server, or two, the second of them resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use rustls::KeyLogFile;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use tokio::task::JoinSet;
use warprate::crypto::rustls::QuicClientConfig;
use warprate::units::Bytes;
use warprate::{
    ClientConfig, Connecting, Connection, ConnectionError, Endpoint, RecvStream, SendStream, VarInt,
    ZeroRttConnection,
};

use super::file::Download;
use super::options::{Get, Server, Trust, Url, law_named};
use super::request::ALPN;
use super::trust::{Direct, authorities};

pub async fn get(options: Get) -> anyhow::Result<()> {
    ensure!(
        options.urls.len() > 1 || !options.is_in_two_parts(),
        "--resume, --0rtt and --key-update need two URLs: the first comes before, the others after"
    );
    let files = destinations(&options.urls, options.output.as_deref())?;
    let total = files.len();
    let mut by_server: BTreeMap<Server, Vec<Download>> = BTreeMap::new();
    for (url, file) in options.urls.iter().cloned().zip(files) {
        by_server.entry(url.server.clone()).or_default().push(Download { url, file });
    }
    let client = Client::new(options)?;
    for (server, downloads) in by_server {
        if let Err(error) = client.visit(&server, downloads).await {
            client.complain(&error.context(server.to_string()));
        }
    }
    client.bar.finish_and_clear();
    let arrived = client.arrived.into_inner();
    ensure!(arrived == total, "{arrived} of {total} files arrived");
    Ok(())
}

/// Where each file goes.
fn destinations(urls: &[Url], output: Option<&Path>) -> anyhow::Result<Vec<PathBuf>> {
    if let ([_], Some(file)) = (urls, output)
        && !file.is_dir()
    {
        let parent = file.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        ensure!(parent.is_dir(), "--output: there is no directory {}", parent.display());
        return Ok(vec![file.to_owned()]);
    }
    let directory = output.unwrap_or(Path::new("."));
    fs::create_dir_all(directory)
        .with_context(|| format!("--output: cannot make the directory {}", directory.display()))?;
    let mut taken = BTreeSet::new();
    let file = |url: &Url| {
        let name = url.file_name().with_context(|| format!("{url} names no file: say where to, --output"))?;
        ensure!(taken.insert(name.to_owned()), "two of the URLs end in {name}: get them one by one");
        Ok(directory.join(name))
    };
    urls.iter().map(file).collect()
}

struct Client {
    config: ClientConfig,
    options: Get,
    bar: ProgressBar,
    /// Files.
    arrived: AtomicUsize,
}

impl Client {
    fn new(options: Get) -> anyhow::Result<Self> {
        let mut config = ClientConfig::new(tls(&options)?);
        config.law(law_named(&options.law));
        let bar = ProgressBar::new_spinner()
            .with_style(ProgressStyle::with_template(TEMPLATE).expect("the template is valid"));
        bar.enable_steady_tick(Duration::from_millis(100));
        Ok(Self { config, options, bar, arrived: AtomicUsize::new(0) })
    }

    /// Downloads from one server.
    async fn visit(&self, server: &Server, mut downloads: Vec<Download>) -> anyhow::Result<()> {
        let address = resolve(server).await?;
        let endpoint = Endpoint::client(unspecified(address))?;
        let connecting = || endpoint.connect_with(self.config.clone(), address, &server.host);
        let connection = connecting()?.await?;
        let rest = if self.options.is_in_two_parts() { downloads.split_off(1) } else { Vec::new() };
        self.fetch(&endpoint, &connection, downloads).await;
        if !rest.is_empty() && self.options.key_update {
            tokio::time::sleep(BETWEEN_UPDATES).await;
            connection.force_key_update();
            self.fetch(&endpoint, &connection, rest).await;
        } else if !rest.is_empty() {
            connection.close(VarInt::from_u32(0), b"");
            self.fetch_resumed(&endpoint, connecting()?, rest).await?;
        }
        endpoint.close(VarInt::from_u32(0), b"");
        endpoint.wait_idle().await;
        Ok(())
    }

    /// Downloads over a connection.
    async fn fetch(&self, endpoint: &Endpoint, connection: &Connection, downloads: Vec<Download>) {
        let results = self.side_by_side(endpoint, &Link::Established(connection.clone()), downloads).await;
        self.report(results);
    }

    /// The same over a second connection, with requests that do not wait for its handshake if that was asked for
    /// and the server takes them.
    async fn fetch_resumed(
        &self,
        endpoint: &Endpoint,
        connecting: Connecting,
        downloads: Vec<Download>,
    ) -> anyhow::Result<()> {
        if !self.options.early {
            self.fetch(endpoint, &connecting.await?, downloads).await;
            return Ok(());
        }
        let (early, accepted) = match connecting.into_0rtt() {
            Ok(early) => early,
            Err(connecting) => {
                self.say("no ticket for 0-RTT");
                self.fetch(endpoint, &connecting.await?, downloads).await;
                return Ok(());
            }
        };
        let results = self.side_by_side(endpoint, &Link::Early(early.clone()), downloads.clone()).await;
        if accepted.await {
            self.say("0-RTT accepted");
            self.report(results);
        } else {
            self.say("0-RTT refused: asking again");
            self.fetch(endpoint, &early.established().await?, downloads).await;
        }
        Ok(())
    }

    async fn side_by_side(
        &self,
        endpoint: &Endpoint,
        link: &Link,
        downloads: Vec<Download>,
    ) -> Vec<anyhow::Result<String>> {
        let session = Arc::new(Session {
            link: link.clone(),
            endpoint: endpoint.clone(),
            migrates: self.options.migrate,
            received: AtomicU64::new(0),
            bar: self.bar.clone(),
        });
        let mut tasks = JoinSet::new();
        for download in downloads {
            let session = session.clone();
            tasks.spawn(async move { download.fetch(&session).await });
        }
        let mut results = Vec::new();
        while let Some(result) = tasks.join_next().await {
            results.push(result.unwrap_or_else(|error| Err(anyhow!("{error}"))));
        }
        results
    }

    /// Says what came of the downloads.
    fn report(&self, results: Vec<anyhow::Result<String>>) {
        for result in results {
            match result {
                Ok(line) => {
                    self.say(&line);
                    self.arrived.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => self.complain(&error),
            }
        }
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(std::io::stdout(), "{line}");
        });
    }

    fn complain(&self, error: &anyhow::Error) {
        self.bar.suspend(|| {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
        });
    }
}

/// A connection, before or after its handshake.
#[derive(Clone)]
enum Link {
    Early(ZeroRttConnection),
    Established(Connection),
}

/// What the downloads of one connection share.
pub struct Session {
    link: Link,
    endpoint: Endpoint,
    migrates: bool,
    received: AtomicU64,
    bar: ProgressBar,
}

impl Session {
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        match &self.link {
            Link::Early(connection) => connection.open_bi().await,
            Link::Established(connection) => connection.open_bi().await,
        }
    }

    /// So much more has arrived. Once that is enough, the connection moves if that was asked for.
    pub fn on_received(&self, bytes: Bytes) -> anyhow::Result<()> {
        self.bar.inc(bytes.get());
        let before = self.received.fetch_add(bytes.get(), Ordering::Relaxed);
        let has_passed = before < MOVES_AFTER.get() && before + bytes.get() >= MOVES_AFTER.get();
        if self.migrates && has_passed {
            let socket = UdpSocket::bind(unspecified(self.endpoint.local_addr()?));
            self.endpoint.rebind(socket.context("--migrate: no other port")?).context("--migrate")?;
        }
        Ok(())
    }
}

fn tls(options: &Get) -> anyhow::Result<Arc<QuicClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier(&options.trust, provider)?)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.enable_early_data = options.early;
    // It writes only where the environment asks for it.
    tls.key_log = Arc::new(KeyLogFile::new());
    Ok(Arc::new(QuicClientConfig::try_from(tls)?))
}

fn verifier(trust: &Trust, provider: Arc<CryptoProvider>) -> anyhow::Result<Arc<dyn ServerCertVerifier>> {
    match &trust.ca {
        Some(file) => authorities(file, &provider).context("--ca"),
        None => Ok(Arc::new(Direct { pin: trust.pin, provider })),
    }
}

/// The first address that the name has.
async fn resolve(server: &Server) -> anyhow::Result<SocketAddr> {
    let mut addresses = tokio::net::lookup_host((server.host.as_str(), server.port))
        .await
        .context("cannot resolve the name")?;
    addresses.next().context("the name has no address")
}

fn unspecified(towards: SocketAddr) -> SocketAddr {
    match towards {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

const TEMPLATE: &str = "{spinner} {bytes} at {bytes_per_sec}";

/// In the midst of a transfer.
const MOVES_AFTER: Bytes = Bytes::mb(2);

/// An update that follows another, such as quinn-proto makes by itself within its first thousand packets, waits for
/// three probe timeouts (RFC 9001 §6.5), or is not made at all.
const BETWEEN_UPDATES: Duration = Duration::from_secs(1);
