//! Interfaces that change or vanish while an endpoint sends. Needs root; elsewhere each test says so and
//! passes.
#![cfg(target_os = "linux")]

mod common;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::configs;
use common::namespace::{in_namespace, run};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;
use tokio::time::timeout;
use warprate::units::{Bytes, Rate};
use warprate::{
    Connection, ConnectionError, Endpoint, EndpointConfig, Law, ServerConfig, TransportConfig, VarInt,
};

const PATIENCE: Duration = Duration::from_secs(10);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A pair of interfaces, `va` here with 10.7.1.1 and `vb` with 10.7.1.2 in the namespace of the thread `other`.
fn connect_namespaces(other: nix::unistd::Pid) {
    run("ip link add va type veth peer name vb");
    run(&format!("ip link set vb netns {other}"));
    run("ip addr add 10.7.1.1/24 dev va");
    run("ip link set va up");
}

fn set_up_vb() {
    run("ip addr add 10.7.1.2/24 dev vb");
    run("ip link set vb up");
}

/// Accepts connections in another namespace and reads what they send, until the channel it returns is closed.
fn start_sink(config: ServerConfig) -> (nix::unistd::Pid, mpsc::Sender<()>) {
    let (tell, told) = mpsc::channel();
    let (command, commands) = mpsc::channel::<()>();
    thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        run("ip link set lo up");
        tell.send(gettid()).unwrap();
        commands.recv().unwrap();
        set_up_vb();
        let runtime = runtime();
        let server =
            runtime.block_on(async { Endpoint::server(config, "0.0.0.0:4433".parse().unwrap()) }).unwrap();
        runtime.spawn(async move {
            while let Some(incoming) = server.accept().await {
                tokio::spawn(async move {
                    let connection = incoming.await?;
                    while let Ok(mut stream) = connection.accept_uni().await {
                        let _ = stream.read_to_end(1 << 30).await;
                    }
                    Ok::<_, ConnectionError>(())
                });
            }
        });
        runtime.block_on(async {
            // Commands come seldom: a look at each millisecond will do.
            loop {
                match commands.try_recv() {
                    Ok(()) => set_up_vb(),
                    Err(mpsc::TryRecvError::Empty) => tokio::time::sleep(Duration::from_millis(1)).await,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
            }
        });
    });
    (told.recv().unwrap(), command)
}

async fn begin(client: &Endpoint) -> Connection {
    let connecting = client.connect("10.7.1.2:4433".parse().unwrap(), "localhost").unwrap();
    timeout(PATIENCE, connecting).await.expect("it answers").expect("it accepts")
}

#[test]
fn an_interface_that_vanishes_ends_its_connections_and_no_endpoint() {
    in_namespace(|| {
        let (server_config, mut client_config) = configs(&Law::fixed(Rate::mbps(50), Bytes::mb(1)));
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(VarInt::from_u32(500).into()));
        client_config.transport_config(Arc::new(transport));
        let (other, command) = start_sink(server_config);
        connect_namespaces(other);
        command.send(()).unwrap();
        runtime().block_on(async {
            let mut client = Endpoint::client("0.0.0.0:0".parse().unwrap()).unwrap();
            client.set_default_client_config(client_config);
            let connection = begin(&client).await;
            let mut stream = connection.open_uni().await.unwrap();
            stream.write_chunk(vec![7; 20_000_000].into()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(connection.stats().path.delivered > Bytes::ZERO);
            run("ip link del va");
            let error = timeout(PATIENCE, connection.closed()).await.expect("it ends");
            assert_eq!(error, ConnectionError::TimedOut);
            // The same endpoint, over an interface with another number.
            connect_namespaces(other);
            command.send(()).unwrap();
            let connection = begin(&client).await;
            connection.close(VarInt::from_u32(0), b"");
            timeout(PATIENCE, client.wait_idle()).await.expect("the peer is told");
        });
    });
}

#[test]
fn an_address_that_no_route_leads_to_is_no_failure_of_the_endpoint() {
    in_namespace(|| {
        runtime().block_on(async {
            let (_, mut client_config) = configs(&Law::default());
            let mut transport = TransportConfig::default();
            transport.max_idle_timeout(Some(VarInt::from_u32(200).into()));
            client_config.transport_config(Arc::new(transport));
            let client = Endpoint::client("0.0.0.0:0".parse().unwrap()).unwrap();
            let connecting =
                client.connect_with(client_config.clone(), "10.8.0.1:1".parse().unwrap(), "localhost");
            let error = timeout(PATIENCE, connecting.unwrap()).await.expect("it ends").unwrap_err();
            assert_eq!(error, ConnectionError::TimedOut);
            assert!(
                client
                    .connect_with(client_config.clone(), "10.8.0.1:1".parse().unwrap(), "localhost")
                    .is_ok()
            );
        });
    });
}

#[test]
fn etf_without_the_privilege_for_it_is_refused_with_its_reason() {
    use nix::libc::{SYS_capset, syscall};
    in_namespace(|| {
        // The thread gives up its capabilities: version 3 of the header, this thread, and three empty sets.
        let (header, sets) = ([0x2008_0522_u32, 0], [0_u32; 6]);
        // SAFETY: both pointers lead to what capset(2) reads for version 3.
        assert_eq!(unsafe { syscall(SYS_capset, header.as_ptr(), sets.as_ptr()) }, 0);
        runtime().block_on(async {
            let socket = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut config = EndpointConfig::default();
            Endpoint::new(config.clone(), None, socket()).expect("fq needs no privilege");
            config.send_clock(warprate::conn::SendClock::Etf);
            let error = Endpoint::new(config, None, socket()).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
            assert!(error.to_string().contains("they need CAP_NET_ADMIN"), "{error}");
        });
    });
}
