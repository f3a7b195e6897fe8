//! What the user may ask for. Everything is checked here, before anything runs: an error names the
//! option and says what it should look like.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, ValueEnum};
use warplink::{Jitter, Order, PathProfile, Probability, ProfileError};
use warprate::units::{Bytes, Rate};

use crate::hq;

/// Downloads the same bytes over the same impaired path under several congestion controllers, and
/// shows them side by side; or, with a command, serves and gets files.
#[derive(Debug, Parser)]
#[command(name = "bulk_download", after_long_help = MEASUREMENT, args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    hq: Option<hq::Command>,

    #[command(flatten)]
    comparison: Options,
}

/// What the program is to do.
pub enum Task {
    Compare(Options),
    Files(hq::Command),
}

impl Task {
    /// Reads the command line; ends the process if it asks for help or makes no sense.
    pub fn from_command_line() -> Self {
        let matches = CommandLine::command().get_matches();
        let line = CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        match line.hq {
            Some(command) => Self::Files(command),
            None => Self::Compare(Options { given: given(&matches), ..line.comparison }),
        }
    }
}

/// What is compared.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Bytes to download, such as `10 MB` or `64 KiB`.
    #[arg(long, default_value = "10 MB", allow_hyphen_values = true, value_parser = bytes)]
    pub bytes: Bytes,

    /// Rate of the link in each direction, counting whole Ethernet frames, such as `100 Mbit/s`.
    #[arg(long, default_value = "100 Mbit/s", allow_hyphen_values = true, value_parser = rate)]
    pub rate: Rate,

    /// Two-way delay of the empty path, such as `40ms`.
    #[arg(long, value_name = "TIME", default_value = "40ms", allow_hyphen_values = true, value_parser = delay)]
    pub rtt: Duration,

    /// Share of the data packets that the link loses at random, such as `1%` or `0.01`.
    #[arg(long, value_name = "SHARE", default_value = "1%", allow_hyphen_values = true, value_parser = share)]
    pub loss: Probability,

    /// Share of the acknowledgements that the link loses at random.
    #[arg(long, value_name = "SHARE", default_value = "0%", allow_hyphen_values = true, value_parser = share)]
    pub ack_loss: Probability,

    /// Gaussian jitter in each direction: its standard deviation, then `,reorder` if packets may
    /// overtake each other (`,fifo` if not, the default), such as `2ms` or `2ms,reorder`.
    #[arg(long, value_name = "SIGMA[,ORDER]", default_value = "0ms", allow_hyphen_values = true, value_parser = jitter)]
    pub jitter: Jitter,

    /// Buffer before the link in each direction, such as `1 BDP` or `500 kB`.
    #[arg(long, value_name = "SIZE", default_value = "1 BDP", allow_hyphen_values = true)]
    pub buffer: Buffer,

    /// Rows of the table, in this order.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LAW,...",
        default_value = "warprate,fixed,cubic,bbr3,quinn-cubic,quinn-newreno,quinn-bbr,quinn",
        allow_hyphen_values = true
    )]
    pub law: Vec<LawName>,

    /// Decides which packets are lost and how jitter falls, in the order in which they reach the link.
    #[arg(long, value_name = "NUMBER", default_value = "1", allow_hyphen_values = true, value_parser = seed)]
    pub seed: u64,

    /// Writes the table to this file as JSON, too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// The options that were given, as they were given.
    #[arg(skip)]
    pub given: Vec<String>,
}

impl Options {
    /// The path, seen by the download: `forward` carries the data.
    pub fn path(&self) -> Result<PathProfile, ProfileError> {
        Ok(PathProfile::symmetric(self.rate, self.rtt)?
            .with_data_loss(self.loss)
            .with_ack_loss(self.ack_loss)
            .with_jitter(self.jitter)
            .with_buffer(self.buffer.bytes(warplink::bdp(self.rate, self.rtt))))
    }
}

/// Which congestion controller sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LawName {
    /// WarpRATE, the library's default
    #[value(name = "warprate")]
    WarpRate,
    /// An explicit rate of 95 % of the link, in our driver
    Fixed,
    /// CUBIC (RFC 9438)
    Cubic,
    /// NewReno (RFC 9002)
    #[value(name = "newreno")]
    NewReno,
    /// BBRv3 (draft-ietf-ccwg-bbr-06)
    #[value(name = "bbr3")]
    Bbr3,
    /// quinn's CUBIC in our driver
    QuinnCubic,
    /// quinn's NewReno in our driver
    #[value(name = "quinn-newreno")]
    QuinnNewReno,
    /// quinn's BBR in our driver
    QuinnBbr,
    /// The crate `quinn` as it is, with its default controller (CUBIC)
    Quinn,
}

impl fmt::Display for LawName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no law is hidden");
        f.pad(value.get_name())
    }
}

/// A buffer's size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Buffer {
    /// So many times what the path holds without a queue, in thousandths.
    Bdp(u64),
    /// So many bytes.
    Bytes(Bytes),
}

impl Buffer {
    fn bytes(self, bdp: Bytes) -> Bytes {
        match self {
            Self::Bdp(thousandths) => Bytes::new(bdp.times(thousandths).get() / 1000),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl FromStr for Buffer {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (number, unit) = text.split_at(text.len() - text.len().min(3));
        let parsed = if unit.eq_ignore_ascii_case("bdp") {
            thousandths(number.trim()).map(Self::Bdp)
        } else {
            text.parse().ok().map(Self::Bytes)
        };
        parsed.ok_or_else(|| "expected a size such as `1 BDP`, `0.5 BDP` or `500 kB`".to_owned())
    }
}

fn bytes(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>() {
        Ok(bytes) if !bytes.is_zero() => Ok(bytes),
        _ => Err("expected at least one byte, such as `10 MB` or `64 KiB`".to_owned()),
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    match text.parse::<Rate>() {
        Ok(rate) if rate >= LEAST_RATE => Ok(rate),
        Ok(_) => Err(format!("expected at least {LEAST_RATE}: less moves next to nothing")),
        Err(_) => Err("expected a rate with its unit, such as `100 Mbit/s`".to_owned()),
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text.trim()) {
        Ok(delay) if delay <= LONGEST_DELAY => Ok(delay),
        Ok(_) => Err(format!("expected at most {}", humantime::format_duration(LONGEST_DELAY))),
        Err(_) => Err("expected a time of zero or more with its unit, such as `40ms`".to_owned()),
    }
}

fn share(text: &str) -> Result<Probability, String> {
    let text = text.trim();
    let fraction = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    let share = fraction.ok().and_then(|fraction| Probability::fraction(fraction).ok());
    match share {
        Some(Probability::ONE) => Err("expected less than 100 %: nothing would arrive".to_owned()),
        Some(share) => Ok(share),
        None => Err("expected a share from 0 to 1, such as `1%` or `0.01`".to_owned()),
    }
}

fn jitter(text: &str) -> Result<Jitter, String> {
    let (sigma, order) = text.split_once(',').unwrap_or((text, "fifo"));
    let order = match order.trim() {
        "fifo" => Order::Fifo,
        "reorder" => Order::Reorder,
        _ => return Err("expected `fifo` or `reorder` after the comma, such as `2ms,reorder`".to_owned()),
    };
    Jitter::new(delay(sigma)?, order).map_err(|error| error.to_string())
}

fn seed(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}

/// A decimal number in thousandths.
fn thousandths(number: &str) -> Option<u64> {
    // `Bytes` reads decimals exactly; a thousandth of a kilobyte is a byte.
    format!("{number} kB").parse::<Bytes>().ok().map(Bytes::get)
}

/// `--name value` for each option on the command line.
fn given(matches: &ArgMatches) -> Vec<String> {
    let set = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    let show = |id: &clap::Id| {
        let values = matches.get_raw(id.as_str()).into_iter().flatten();
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        let value = values.join(",");
        let quote = if value.contains(' ') { "'" } else { "" };
        format!("--{} {quote}{value}{quote}", id.as_str().replace('_', "-"))
    };
    matches.ids().filter(|id| id.as_str() != "Options").filter(set).map(show).collect()
}

/// A 1452-byte datagram takes 12 s.
const LEAST_RATE: Rate = Rate::kbps(1);

/// Handshakes over longer ones run into the idle timeout.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

const MEASUREMENT: &str = "\
How it measures:
  Each row has a relay, a server and a client of its own; server and client share one thread. All
  rows use datagrams of 1452 bytes from the start, the same flow-control windows, and the same
  certificate under ring. Rows run side by side only where the speeds expected of them sum up to at
  most 60 Mbit/s.

  goodput    stream bytes / time
  time       from the departure of the first datagram with stream data until the last byte is
             readable. The departure is taken as the instant before the server's first write: the
             connection is idle then, so the datagram leaves within microseconds of it.
  connect    from the client's first call until its handshake is complete
  of oracle  goodput divided by that of a sender that paces at the link's rate from the first
             instant and repairs each lost packet one round trip after it was sent (mean over
             many draws of losses)
  lost, sent packets by the sender's own account, handshake included; one that only came late
             counts as lost
  RTT        one sample per ACK frame: its arrival minus the departure of the newest packet that it
             acknowledges, ack delay not removed; every law is listened to from inside its
             controller
  CPU        of the thread with server and client, from connecting to the last acknowledgement;
             the relay's thread is not counted

Laws:
  `warprate` is the library's default. `fixed` sends at 95 % of the link's rate (counted on the wire) and yields to nobody. `cubic`,
  `newreno` and `bbr3` are ours; those that begin with `quinn-` are quinn-proto's controllers,
  paced by our driver. `quinn` is the crate quinn 0.11 as it is, with its default controller, CUBIC.

The exit status is 1 if a row failed and 2 if an option made no sense.";
