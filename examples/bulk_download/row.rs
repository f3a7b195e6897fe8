//! One row: a thread of its own with a relay, a server and a client, and what came of it.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use warplink::{DirectionStats, PathProfile, RelayStats, UdpRelay};
use warprate::units::{Bytes, Rate};

use crate::options::LawName;
use crate::pattern::Pattern;
use crate::rtt::{Samples, Summary};
use crate::tls::Tls;
use crate::{driver, stock};

/// What a row is to do.
#[derive(Clone)]
pub struct Job {
    pub law: LawName,
    pub bytes: u64,
    /// Seen by the download: `forward` carries the data.
    pub path: PathProfile,
    pub seed: u64,
    pub tls: Tls,
    pub pattern: Pattern,
    pub deadline: Duration,
    /// Stream bytes that have arrived.
    pub received: Arc<AtomicU64>,
}

/// What a row came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub bytes: u64,
    pub goodput: Rate,
    pub time: Duration,
    pub connect: Duration,
    pub lost: u64,
    pub sent: u64,
    pub rtt: Summary,
    pub cpu: Duration,
    /// Why the figures say more about the machine than about the law, if they do.
    pub disturbance: Option<String>,
}

/// The sender's own account of its packets.
pub struct Counts {
    pub lost: u64,
    pub sent: u64,
}

impl Job {
    /// Runs the row on the present thread, until its deadline at most.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a tokio runtime")?;
        runtime.block_on(async {
            match tokio::time::timeout(self.deadline, self.download()).await {
                Ok(outcome) => outcome,
                Err(_) => bail!("{} when its {:.0?} were over", self.arrived(), self.deadline),
            }
        })
    }

    async fn download(&self) -> anyhow::Result<Outcome> {
        let meter = Meter::new(self);
        let samples = Samples::default();
        let (counts, relay) = match self.law {
            LawName::Quinn => stock::download(self, &meter, &samples).await,
            _ => driver::download(self, &meter, &samples).await,
        }
        .with_context(|| self.arrived())?;
        let cpu = thread_cpu() - meter.cpu_before.get();
        let time = meter.time().context("the download ended before it began")?;
        Ok(Outcome {
            bytes: self.bytes,
            goodput: Bytes::new(self.bytes) / time,
            time,
            connect: meter.connect_time().context("no connection was made")?,
            lost: counts.lost,
            sent: counts.sent,
            rtt: samples.summary().context("no packet was acknowledged")?,
            cpu,
            disturbance: disturbance(&relay.stats(), &self.path),
        })
    }

    /// Starts the relay in front of `server`.
    pub fn relay(&self, server: SocketAddr) -> anyhow::Result<UdpRelay> {
        // The relay's `forward` is what clients send. In a download those are the acknowledgements.
        let path = PathProfile { forward: self.path.reverse.clone(), reverse: self.path.forward.clone() };
        UdpRelay::start(localhost(), server, &path, self.seed).context("cannot start the row's relay")
    }

    fn arrived(&self) -> String {
        let received = Bytes::new(self.received.load(Ordering::Relaxed));
        format!("{received} of {} had arrived", Bytes::new(self.bytes))
    }
}

/// Notes when things happened, in the same places of every row.
pub struct Meter<'a> {
    job: &'a Job,
    connecting: Cell<Option<Instant>>,
    connected: Cell<Option<Instant>>,
    first_write: Cell<Option<Instant>>,
    last_byte: Cell<Option<Instant>>,
    cpu_before: Cell<Duration>,
}

impl<'a> Meter<'a> {
    fn new(job: &'a Job) -> Self {
        Self {
            job,
            connecting: Cell::default(),
            connected: Cell::default(),
            first_write: Cell::default(),
            last_byte: Cell::default(),
            cpu_before: Cell::default(),
        }
    }

    /// The client is about to begin the connection.
    pub fn connecting(&self) {
        self.cpu_before.set(thread_cpu());
        self.connecting.set(Some(Instant::now()));
    }

    /// The client's handshake is complete.
    pub fn connected(&self) {
        self.connected.set(Some(Instant::now()));
    }

    /// The server is about to write for the first time. Nothing of it is in flight then and no pacer
    /// holds it back, so that the first datagram with stream data leaves within microseconds.
    pub fn first_write(&self) {
        self.first_write.set(Some(Instant::now()));
    }

    /// A chunk is readable at the client.
    pub fn arrived(&self, offset: u64, chunk: &[u8]) -> anyhow::Result<()> {
        ensure!(
            self.job.pattern.matches(offset, chunk),
            "the bytes at offset {offset} are not what was sent"
        );
        let added = chunk.len() as u64;
        let received = self.job.received.fetch_add(added, Ordering::Relaxed) + added;
        if received == self.job.bytes {
            self.last_byte.set(Some(Instant::now()));
        }
        Ok(())
    }

    /// The stream has ended at the client.
    pub fn ended(&self) -> anyhow::Result<()> {
        let received = self.job.received.load(Ordering::Relaxed);
        ensure!(received == self.job.bytes, "the stream ended after {received} bytes");
        Ok(())
    }

    fn time(&self) -> Option<Duration> {
        Some(self.last_byte.get()? - self.first_write.get()?)
    }

    fn connect_time(&self) -> Option<Duration> {
        Some(self.connected.get()? - self.connecting.get()?)
    }
}

/// What the relay could not do as the links wanted it.
fn disturbance(relay: &RelayStats, path: &PathProfile) -> Option<String> {
    let kernel = |direction: &DirectionStats| direction.kernel_refused + direction.receive_drops.unwrap_or(0);
    let dropped = kernel(&relay.to_client) + kernel(&relay.to_server);
    let late = relay.to_client.lateness.p99.max(relay.to_server.lateness.p99);
    let tolerable = MOST_LATE.max(path.rtt() / 20);
    let mut found = Vec::new();
    if dropped > 0 {
        found.push(format!("the kernel dropped {dropped} packets that the path did not lose"));
    }
    if late > tolerable {
        found.push(format!("the relay was {late:.1?} late (p99)"));
    }
    (!found.is_empty()).then(|| found.join("; "))
}

pub fn localhost() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// CPU time of the present thread so far.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.try_into().expect("CPU time is not negative")
}

/// Congestion controllers mistake longer delays for queues.
const MOST_LATE: Duration = Duration::from_millis(2);
