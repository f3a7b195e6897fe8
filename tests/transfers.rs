//! 200 transfers over random paths on real sockets: sizes from nothing to 5 MB, both directions at
//! once, loss up to 10 %, jitter with and without reordering. Every byte arrives as it was sent.

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::configs;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use warplink::{Jitter, Order, PathProfile, Probability, UdpRelay};
use warprate::units::{Bytes, Rate};
use warprate::{Connection, Endpoint, Law, RecvStream, SendStream};

const PATHS: u64 = 40;
const TRANSFERS_PER_PATH: usize = 5;
const PATHS_AT_ONCE: usize = 4;

/// A random path and the rate of the flows on it.
struct Cell {
    seed: u64,
    path: PathProfile,
    law: Law,
    sizes: Vec<(usize, usize)>,
}

impl Cell {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let rate = Rate::mbps(rng.random_range(50..400));
        let rtt = Duration::from_micros(rng.random_range(200..30_000));
        let loss = Probability::parts_per_billion(rng.random_range(0..=100_000_000)).expect("at most 10 %");
        let sigma = Duration::from_micros(rng.random_range(0..2_000));
        let order = if rng.random() { Order::Fifo } else { Order::Reorder };
        let path = PathProfile::symmetric(rate, rtt)
            .expect("positive rate")
            .with_data_loss(loss)
            .with_ack_loss(loss)
            .with_jitter(Jitter::new(sigma, order).expect("a short jitter"))
            .with_buffer(Bytes::mb(1));
        let law = match rng.random_range(0..4) {
            0 => Law::quinn_cubic(),
            1 => Law::quinn_bbr(),
            _ => Law::fixed(Rate::mbps(20), Bytes::mb(2)),
        };
        // Small sizes are as likely as large ones; the ends of the range are always among them.
        let mut size = || match rng.random_range(0..8) {
            0 => 0,
            1 => 5_000_000,
            2 => rng.random_range(0..=5_000_000),
            _ => {
                let most = 1usize << rng.random_range(1..22);
                rng.random_range(0..most)
            }
        };
        let sizes = (0..TRANSFERS_PER_PATH).map(|_| (size(), size())).collect();
        Self { seed, path, law, sizes }
    }

    async fn run(self) {
        let (server_config, client_config) = configs(&self.law);
        let localhost: SocketAddr = ([127, 0, 0, 1], 0).into();
        let server = Endpoint::server(server_config, localhost).expect("a free port");
        let relay = UdpRelay::start(localhost, server.local_addr().expect("bound"), &self.path, self.seed)
            .expect("a relay");
        let mut client = Endpoint::client(localhost).expect("a free port");
        client.set_default_client_config(client_config);

        let mut transfers = tokio::task::JoinSet::new();
        for &(up, down) in &self.sizes {
            let connecting = client.connect(relay.local_addr(), "localhost").expect("valid");
            let seed = self.seed;
            transfers.spawn(async move {
                let connection = connecting.await.unwrap_or_else(|error| panic!("path {seed}: {error}"));
                let (mut send, recv) = connection.open_bi().await.expect("open");
                // The server learns of the stream, and of what is wanted, by its first bytes.
                let sizes = [down as u64, up as u64].map(u64::to_le_bytes).concat();
                send.write_all(&sizes).await.expect("writable");
                exchange(send, recv, up, down, seed).await;
            });
        }
        let serving = tokio::spawn(serve(server, self.sizes.len(), self.seed));
        while let Some(transfer) = transfers.join_next().await {
            transfer.expect("a transfer does not panic");
        }
        client.wait_idle().await;
        serving.await.expect("the server does not panic");
    }
}

async fn serve(server: Endpoint, connections: usize, seed: u64) {
    let mut serving = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let incoming = server.accept().await.expect("open");
        serving.spawn(async move {
            let connection: Connection =
                incoming.await.unwrap_or_else(|error| panic!("path {seed}: {error}"));
            let (send, mut recv) = connection.accept_bi().await.expect("a stream");
            let mut sizes = [[0; 8]; 2];
            recv.read_exact(sizes.as_flattened_mut()).await.expect("sixteen bytes");
            let [down, up] = sizes.map(|size| usize::try_from(u64::from_le_bytes(size)).expect("small"));
            exchange(send, recv, down, up, seed).await;
        });
    }
    while let Some(served) = serving.join_next().await {
        served.expect("the server does not panic");
    }
}

/// Sends `outward` bytes while it receives `inward`.
async fn exchange(mut send: SendStream, mut recv: RecvStream, outward: usize, inward: usize, seed: u64) {
    let sending = async {
        for start in (0..outward).step_by(100_000) {
            let chunk: Vec<u8> = (start..outward.min(start + 100_000)).map(pattern).collect();
            send.write_chunk(chunk.into()).await.expect("the peer reads");
        }
        send.finish().expect("open");
    };
    let receiving = async {
        let mut received = 0;
        let mut buf = vec![0; 70_000];
        while let Some(read) =
            recv.read(&mut buf).await.unwrap_or_else(|error| panic!("path {seed}: {error}"))
        {
            for (i, &byte) in buf[..read].iter().enumerate() {
                assert_eq!(byte, pattern(received + i), "path {seed}, offset {}", received + i);
            }
            received += read;
        }
        received
    };
    let ((), received) = tokio::join!(sending, receiving);
    assert_eq!(received, inward, "path {seed}");
}

/// A byte that tells its offset.
fn pattern(offset: usize) -> u8 {
    (offset ^ (offset >> 8) ^ (offset >> 16)).to_le_bytes()[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_transfers_over_random_paths_arrive_unharmed() {
    let mut running = tokio::task::JoinSet::new();
    for seed in 0..PATHS {
        if running.len() == PATHS_AT_ONCE {
            running.join_next().await.expect("one runs").expect("a path does not panic");
        }
        let limit = Duration::from_secs(120);
        running.spawn(async move {
            tokio::time::timeout(limit, Cell::new(seed).run())
                .await
                .unwrap_or_else(|_| panic!("path {seed} is stuck"));
        });
    }
    while let Some(path) = running.join_next().await {
        path.expect("a path does not panic");
    }
}
