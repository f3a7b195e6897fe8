//! The other namespace: a stock quinn that takes whatever comes, a socket for plain datagrams, and the capture.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::capture::{Arrival, Capture};
use super::namespace::run;
use super::senders::Sender;

pub const SENDER: Ipv4Addr = Ipv4Addr::new(10, 7, 1, 1);
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 7, 1, 2);
const QUIC: u16 = 4433;
const PLAIN: u16 = 4434;

/// What the acknowledgements are delayed by.
const DELAY: Duration = Duration::from_millis(10);

enum Command {
    /// Answers when what comes from now on counts.
    Begin(mpsc::Sender<()>),
    /// Answers with the arrivals since the beginning.
    End(mpsc::Sender<Vec<Arrival>>),
}

pub struct Receiver {
    commands: mpsc::Sender<Command>,
    pub certificate: CertificateDer<'static>,
}

impl Receiver {
    /// Makes the two interfaces and starts the receiver in a namespace of its own.
    pub fn start() -> Self {
        let certified =
            rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a name is valid");
        let certificate = certified.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let config = quinn::ServerConfig::with_single_cert(vec![certificate.clone()], key.into())
            .expect("the key belongs to the certificate");
        let (tell, told) = mpsc::channel();
        let (go, gone) = mpsc::channel();
        let (commands, orders) = mpsc::channel();
        thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("the first one was allowed");
            tell.send(gettid()).expect("it waits");
            gone.recv().expect("it goes on");
            run("ip link set lo up");
            run("ip addr add 10.7.1.2/24 dev vb");
            run("ip link set vb up");
            thread::spawn(move || serve(config));
            let _plain = UdpSocket::bind((RECEIVER, PLAIN)).expect("a free port");
            let capture = Capture::new().expect("root may capture");
            tell.send(gettid()).expect("it waits");
            take_orders(&capture, &orders);
        });
        let other = told.recv().expect("it starts");
        run("ip link set lo up");
        run("ip link add va type veth peer name vb");
        run(&format!("ip link set vb netns {other}"));
        run("ip addr add 10.7.1.1/24 dev va");
        run("ip link set va up");
        go.send(()).expect("it waits");
        told.recv().expect("it is up");
        // The interfaces' neighbours are found out, and the links' other business is over.
        thread::sleep(Duration::from_millis(500));
        Self { commands, certificate }
    }

    pub fn begin(&self) {
        let (answer, begun) = mpsc::channel();
        self.commands.send(Command::Begin(answer)).expect("it runs");
        begun.recv().expect("it answers");
    }

    /// Arrivals since the beginning.
    pub fn end(&self) -> Vec<Arrival> {
        let (answer, arrivals) = mpsc::channel();
        self.commands.send(Command::End(answer)).expect("it runs");
        arrivals.recv().expect("it answers")
    }

    pub fn address(&self, sender: Sender) -> SocketAddr {
        (RECEIVER, if sender == Sender::Tokio { PLAIN } else { QUIC }).into()
    }
}

fn take_orders(capture: &Capture, orders: &mpsc::Receiver<Command>) {
    let mut arrivals = Vec::new();
    loop {
        capture.read(&mut arrivals);
        match orders.try_recv() {
            Ok(Command::Begin(answer)) => {
                arrivals.clear();
                answer.send(()).expect("it waits");
            }
            Ok(Command::End(answer)) => answer.send(std::mem::take(&mut arrivals)).expect("it waits"),
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => return,
        }
    }
}

/// Reads and drops whatever comes.
fn serve(mut config: quinn::ServerConfig) {
    let mut transport = quinn::TransportConfig::default();
    transport
        .stream_receive_window((64_u32 << 20).into())
        .receive_window((64_u32 << 20).into())
        .initial_mtu(1452);
    config.transport_config(Arc::new(transport));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async move {
        let socket = Arc::new(Delayed::new((RECEIVER, QUIC).into()).expect("a free port"));
        let endpoint = quinn::Endpoint::new_with_abstract_socket(
            quinn::EndpointConfig::default(),
            Some(config),
            socket,
            Arc::new(TokioRuntime),
        )
        .expect("an endpoint");
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(async move {
                let connection = incoming.await?;
                let mut stream = connection.accept_uni().await?;
                while let Ok(Some(_)) = stream.read_chunk(usize::MAX, false).await {}
                Ok::<_, quinn::ConnectionError>(())
            });
        }
    });
}

/// quinn's socket, whose datagrams leave [`DELAY`] later.
struct Delayed {
    inner: Arc<dyn AsyncUdpSocket>,
    outbox: mpsc::Sender<(Instant, SocketAddr, Vec<u8>)>,
}

impl Delayed {
    fn new(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        let out = socket.try_clone()?;
        let (outbox, waiting) = mpsc::channel::<(Instant, SocketAddr, Vec<u8>)>();
        thread::spawn(move || {
            for (due, to, datagram) in waiting {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                // What cannot be sent is lost.
                let _ = out.send_to(&datagram, to);
            }
        });
        Ok(Self { inner: TokioRuntime.wrap_udp_socket(socket)?, outbox })
    }
}

impl fmt::Debug for Delayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delayed").finish_non_exhaustive()
    }
}

impl AsyncUdpSocket for Delayed {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let due = Instant::now() + DELAY;
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for datagram in transmit.contents.chunks(segment) {
            let _ = self.outbox.send((due, transmit.destination, datagram.to_vec()));
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}
