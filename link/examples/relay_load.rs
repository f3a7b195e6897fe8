//! Loads a relay on loopback in both directions and prints what it did.
//!
//! `cargo run --release -p warplink --example relay_load -- "100 Mbit/s" 5` sends 1452-byte
//! datagrams at that wire rate each way for five seconds, over a path with that rate and an RTT of
//! 40 ms, and prints the relay's statistics and the CPU time of its thread.

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    unix::main()
}

#[cfg(not(unix))]
fn main() {
    println!("the relay needs Unix");
}

#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
mod unix {
    use std::io::IoSliceMut;
    use std::net::{SocketAddr, UdpSocket};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
    use warplink::{DirectionStats, PathProfile, UdpRelay, wire_bytes};
    use warpunits::{Bytes, Rate};

    const DATAGRAM: usize = 1452;

    pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
        let mut args = std::env::args().skip(1);
        let rate: Rate = args.next().as_deref().unwrap_or("100 Mbit/s").parse()?;
        let seconds: u64 = args.next().as_deref().unwrap_or("5").parse()?;
        let length = Duration::from_secs(seconds);

        let (client, server) = (Peer::new()?, Peer::new()?);
        let path = PathProfile::symmetric(rate, Duration::from_millis(40))?;
        let relay = UdpRelay::start("127.0.0.1:0".parse()?, server.addr, &path, 1)?;
        client.io.send_to(b"hello", relay.local_addr())?;
        let (_, client_at_server) = server.io.recv_from(&mut [0; 9])?;

        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| client.receive(&stop));
            scope.spawn(|| server.receive(&stop));
            let up = scope.spawn(|| client.send(relay.local_addr(), rate, length));
            let down = scope.spawn(|| server.send(client_at_server, rate, length));
            let sent = (up.join(), down.join());
            std::thread::sleep(Duration::from_millis(100));
            stop.store(true, Ordering::Relaxed);
            println!("sent to server, to client: {sent:?}");
        });
        let stats = relay.stats();
        let got = (server.got.load(Ordering::Relaxed), client.got.load(Ordering::Relaxed));
        report("to server", &stats.to_server, got.0, length);
        report("to client", &stats.to_client, got.1, length);
        if let Some(busy) = relay_cpu_seconds() {
            println!("relay thread: {busy:.2} s of CPU, {:.0} % of a core", busy / seconds as f64 * 100.0);
        }
        Ok(())
    }

    fn report(name: &str, stats: &DirectionStats, received: u64, length: Duration) {
        let wire = wire_bytes(Bytes::of_len(DATAGRAM), false).times(stats.delivered);
        println!("{name}: {} on the wire, {received} received\n  {stats:?}", wire / length);
    }

    struct Peer {
        io: UdpSocket,
        state: UdpSocketState,
        addr: SocketAddr,
        got: AtomicU64,
    }

    impl Peer {
        fn new() -> std::io::Result<Self> {
            let io = UdpSocket::bind("127.0.0.1:0")?;
            let state = UdpSocketState::new((&io).into())?;
            io.set_nonblocking(false)?;
            io.set_read_timeout(Some(Duration::from_secs(1)))?;
            state.set_recv_buffer_size((&io).into(), 4 << 20)?;
            let addr = io.local_addr()?;
            Ok(Self { io, state, addr, got: AtomicU64::new(0) })
        }

        /// Sends on time in trains of what has fallen due, at most one GSO unit at a time.
        fn send(&self, to: SocketAddr, rate: Rate, length: Duration) -> u64 {
            let contents = vec![7; DATAGRAM * 44];
            let wire = wire_bytes(Bytes::of_len(DATAGRAM), false).get();
            let (start, mut sent) = (Instant::now(), 0);
            while start.elapsed() < length {
                let due = (rate * start.elapsed()).get() / wire;
                let train = usize::try_from((due - sent).min(44)).expect("at most 44");
                if train == 0 {
                    std::thread::sleep(Duration::from_micros(20));
                    continue;
                }
                let transmit = Transmit {
                    destination: to,
                    ecn: None,
                    contents: &contents[..train * DATAGRAM],
                    segment_size: (train > 1).then_some(DATAGRAM),
                    src_ip: None,
                };
                if self.state.try_send((&self.io).into(), &transmit).is_ok() {
                    sent += train as u64;
                }
            }
            sent
        }

        fn receive(&self, stop: &AtomicBool) {
            let mut storage = vec![0; 65_536];
            while !stop.load(Ordering::Relaxed) {
                let mut meta = [RecvMeta::default()];
                let mut buffers = [IoSliceMut::new(&mut storage)];
                if self.state.recv((&self.io).into(), &mut buffers, &mut meta).is_ok() {
                    self.got.fetch_add((meta[0].len / DATAGRAM) as u64, Ordering::Relaxed);
                }
            }
        }
    }

    /// User and system time of the thread named `warplink-relay`, in seconds; Linux only.
    fn relay_cpu_seconds() -> Option<f64> {
        for task in std::fs::read_dir("/proc/self/task").ok()? {
            let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
            if let Some((_, rest)) = stat.split_once("(warplink-relay) ") {
                let ticks: Vec<f64> =
                    rest.split(' ').skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
                return Some(ticks.iter().sum::<f64>() / 100.0);
            }
        }
        None
    }
}
