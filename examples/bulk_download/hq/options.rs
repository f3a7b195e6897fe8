//! The command lines of `serve` and `get`, checked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use http::Uri;
use warprate::Law;

use super::trust::Fingerprint;

#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Serves the files of a directory over hq-interop (HTTP/0.9 over QUIC)
    Serve(Serve),
    /// Downloads files over hq-interop (HTTP/0.9 over QUIC)
    Get(Get),
}

/// Serves the files of a directory over hq-interop (HTTP/0.9 over QUIC).
///
/// Prints where it listens and the fingerprint of its certificate, and serves until it is ended. Nothing outside
/// of the directory can be reached. A request that gets no file has its stream reset with the code that HTTP
/// has for it: 400, 403, 404, 408, 414 or 500. TLS keys go to the file SSLKEYLOGFILE, if that is set.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// What is served.
    pub directory: PathBuf,

    /// Address and port; port 0 lets the system choose.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4433")]
    pub listen: SocketAddr,

    /// Certificates in PEM, the server's own first. Default: a self-signed one, new at each start.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,

    /// The private key in PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,

    /// Lets clients prove their address by a Retry before anything is kept of them (RFC 9000 §8.1.2).
    #[arg(long)]
    pub retry: bool,

    /// Which congestion controller sends.
    #[arg(long, default_value = LAWS[0].0, value_parser = law())]
    pub law: String,
}

/// Downloads files over hq-interop (HTTP/0.9 over QUIC).
///
/// What comes from one server comes over one connection, side by side. The exit status is 1 if a file did not arrive
/// and 2 if an option made no sense. TLS keys go to the file SSLKEYLOGFILE, if that is set.
#[derive(Debug, Clone, Args)]
pub struct Get {
    /// Files, such as `https://localhost:4433/file`.
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,

    /// Where to: a file, or a directory, which several files need. Default: the present directory, under the
    /// names in the URLs.
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub trust: Trust,

    /// Gets the first file on a connection of its own, whose ticket begins a second one for the others.
    #[arg(long)]
    pub resume: bool,

    /// Sends the requests of the second connection with its first datagrams, before the handshake. Whoever records
    /// them can send them again: fit for requests that change nothing, as these. Means `--resume`.
    #[arg(long = "0rtt")]
    pub early: bool,

    /// Gets the first file, updates the keys, and gets the others (RFC 9001 §6).
    #[arg(long, conflicts_with_all = ["resume", "early"])]
    pub key_update: bool,

    /// Moves to another local port after two megabytes (RFC 9000 §9).
    #[arg(long)]
    pub migrate: bool,

    /// Which congestion controller sends what the client sends.
    #[arg(long, default_value = LAWS[0].0, value_parser = law())]
    pub law: String,
}

impl Get {
    /// Whether the first file comes before something that the others come after.
    pub fn is_in_two_parts(&self) -> bool {
        self.resume || self.early || self.key_update
    }
}

/// How the server is known. One is needed.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct Trust {
    /// By the SHA-256 of its certificate, which `serve` prints.
    #[arg(long, value_name = "SHA256")]
    pub pin: Option<Fingerprint>,

    /// By authorities, certificates in PEM.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Not at all: anyone on the path can read and change everything.
    #[arg(long)]
    pub insecure: bool,
}

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub server: Server,
    /// Percent-encoded, from the first slash on.
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Server {
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            || "expected `https://HOST:PORT/PATH`, with anything unusual in PATH percent-encoded".to_owned();
        let uri: Uri = text.parse().map_err(|_| form())?;
        let host = uri.host().filter(|host| !host.is_empty() && uri.scheme_str() == Some("https"));
        let host = host.ok_or_else(form)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let path = uri.path_and_query().ok_or_else(form)?.as_str();
        let server = Server { host: host.to_owned(), port: uri.port_u16().unwrap_or(HTTPS) };
        Ok(Self { server, path: path.to_owned() })
    }
}

impl Url {
    /// The last part of the path, if it names anything.
    pub fn file_name(&self) -> Option<&str> {
        self.path.rsplit('/').next().filter(|name| !["", ".", ".."].contains(name))
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "https://{}{}", self.server, self.path)
    }
}

/// The law of that name.
pub fn law_named(name: &str) -> Law {
    let (_, make) = LAWS.iter().find(|(known, _)| *known == name).expect("the command line was checked");
    make()
}

fn law() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(LAWS.iter().map(|(name, _)| *name))
}

type MakeLaw = fn() -> Law;

/// By the names that the comparison has, the default first. (`fixed` would need a rate.)
const LAWS: [(&str, MakeLaw); 7] = [
    ("warprate", Law::default),
    ("cubic", Law::cubic),
    ("newreno", Law::new_reno),
    ("bbr3", || Law::bbr3(SEED)),
    ("quinn-cubic", Law::quinn_cubic),
    ("quinn-newreno", Law::quinn_new_reno),
    ("quinn-bbr", Law::quinn_bbr),
];

/// Spreads BBR's probes; the default law draws its own.
const SEED: u64 = 1;

/// RFC 9110 §4.2.2.
const HTTPS: u16 = 443;
