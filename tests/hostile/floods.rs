//! Clients that come in great numbers, and do nothing useful: another is served none the less, about as fast
//! as alone, and what the server keeps for them stays within the bounds that its documentation states.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use quinn_proto::{Dir, VarInt};
use warprate::conn::core::{Core, Setup};
use warprate::conn::{Law, TransportConfig};
use warprate::units::{Bytes, Rate};

use crate::common::pair::{ms, us};
use crate::common::tls_made_once;
use crate::crowd::{Application, Crowd, Service, address, idle, sending};

/// What a bystander downloads: 160 ms at the interface's rate.
const DOWNLOAD: usize = 2_000_000;

/// Stated at [`warprate::ServerConfig::max_handshakes`].
const PER_HANDSHAKE: i64 = 64 << 10;

/// Stated at [`TransportConfig`].
const PER_CONNECTION: i64 = 64 << 10;
const PER_STREAM: i64 = 1 << 10;

/// What the application writes at once.
const PIECE: i64 = 64 << 10;

/// What acknowledgements and small answers take of the interface meanwhile, at most.
const WORDS: Bytes = Bytes::kb(250);

/// What so many of them cost in all is no more than stated.
fn assert_cost(of: &str, bytes: i64, count: i64, stated: i64) {
    let each = bytes / count;
    println!("{each} bytes for each {of}");
    assert!(each <= stated, "{each} bytes for each {of}, {stated} stated");
}

fn setup() -> Setup {
    Setup { law: Law::warprate(1), anchor: Rate::mbps(100), transport: TransportConfig::default() }
}

/// A server that is told whom to send the download, and what it does with the others.
struct Scene {
    crowd: Crowd,
    bystander: Rc<Cell<Option<SocketAddr>>>,
}

impl Scene {
    fn new(others: impl Fn() -> Application + 'static) -> Self {
        let bystander = Rc::new(Cell::new(None));
        let favoured = bystander.clone();
        let application = move |client| match favoured.get() == Some(client) {
            true => sending(DOWNLOAD),
            false => others(),
        };
        let tls = tls_made_once().clone();
        let service = Service { config: tls.0.clone(), setup: setup(), application: Box::new(application) };
        Self { crowd: Crowd::new(tls, service), bystander }
    }

    /// How long a bystander waits for its download, which is to come.
    fn serve(&mut self) -> Duration {
        let crowd = &mut self.crowd;
        let start = crowd.now;
        let name = crowd.connect(&setup(), true, idle());
        self.bystander.set(Some(address(name)));
        let is_done = crowd.run_until(ms(20_000), |crowd| {
            crowd.clients.members[name].as_ref().is_some_and(|member| member.finished.is_some())
        });
        let client = crowd.client(name);
        assert!(
            is_done && client.received == DOWNLOAD as u64,
            "{} bytes, {:?}",
            client.received,
            client.lost
        );
        crowd.now - start
    }

    /// The same, which takes no longer than alone, but for a tenth and for what the interface needs to send the
    /// others `entitled`.
    fn serve_as_alone(&mut self, entitled: Bytes) {
        let alone = Self::new(idle).serve();
        let time = self.serve();
        let most = alone.mul_f64(1.1) + entitled / setup().anchor;
        assert!(time <= most, "{time:?} of {most:?}, alone {alone:?}");
    }

    /// Clients that are connected, and do this.
    fn attack(&mut self, clients: usize, is_reader: bool, doing: impl Fn() -> Application) -> Vec<usize> {
        let names: Vec<_> = (0..clients).map(|_| self.crowd.connect(&setup(), is_reader, doing())).collect();
        self.crowd.run(ms(1_000));
        for &name in &names {
            assert!(self.crowd.client(name).is_connected, "{:?}", self.crowd.client(name).lost);
        }
        names
    }
}

/// Does something every `pause` once the handshake is over.
fn again_and_again(pause: Duration, mut deed: impl FnMut(&mut Core) + 'static) -> Application {
    let mut next = None;
    Box::new(move |core, now| {
        if core.inner().is_handshaking() || core.inner().is_closed() {
            return None;
        }
        if next.is_none_or(|next| next <= now) {
            deed(core);
            next = Some(now + pause);
        }
        next
    })
}

/// Opens all streams that it may and writes a byte on each now and then; none ever ends.
fn slow_loris() -> Application {
    let mut streams = Vec::new();
    again_and_again(ms(100), move |core| {
        for dir in [Dir::Uni, Dir::Bi] {
            while let Some(id) = core.inner().streams().open(dir) {
                streams.push(id);
            }
        }
        for &id in &streams {
            let _ = core.inner().send_stream(id).write(&[0]);
        }
    })
}

/// Opens streams, says a word on each, and takes it back; stops what it is sent.
fn resetting() -> Application {
    again_and_again(ms(1), move |core| {
        let code = VarInt::from_u32(0);
        for dir in [Dir::Uni, Dir::Bi] {
            while let Some(id) = core.inner().streams().open(dir) {
                let _ = core.inner().send_stream(id).write(&[0]);
                let _ = core.inner().send_stream(id).reset(code);
                if dir == Dir::Bi {
                    let _ = core.inner().recv_stream(id).stop(code);
                }
            }
        }
    })
}

#[test]
fn clients_that_say_one_word_are_given_up_in_time() {
    let mut scene = Scene::new(idle);
    let before = scene.crowd.held;
    // As many as are let in before they must prove their address.
    for _ in 0..1000 {
        let name = scene.crowd.connect(&setup(), false, idle());
        scene.crowd.run(us(1));
        scene.crowd.vanish(name);
    }
    scene.crowd.run(ms(11));
    assert_eq!(scene.crowd.served(), 1000);
    assert_cost("handshake", scene.crowd.most_held - before, 1000, PER_HANDSHAKE);
    // Each has sent one datagram, and gets three times as much (RFC 9000 §8.1).
    scene.serve_as_alone(Bytes::new(1000 * 3 * 1200));
    // 30 s, and three probe timeouts of a second in which to tell (RFC 9000 §10.2, RFC 9002 §6.2.2).
    scene.crowd.run(ms(33_000));
    assert!(scene.crowd.served() <= 1, "all but the bystander");
}

#[test]
fn streams_that_never_end_cost_little() {
    let mut scene = Scene::new(idle);
    let before = scene.crowd.held;
    scene.attack(50, false, slow_loris);
    scene.crowd.run(ms(10_000));
    assert_cost("connection", scene.crowd.held - before, 50, PER_CONNECTION + 200 * PER_STREAM);
    scene.serve_as_alone(WORDS);
}

#[test]
fn streams_that_are_reset_leave_nothing_behind() {
    let mut scene = Scene::new(idle);
    let before = scene.crowd.held;
    scene.attack(50, true, resetting);
    scene.serve_as_alone(WORDS);
    scene.crowd.run(ms(5_000));
    let resets = scene.crowd.server.members[0].as_mut().expect("it goes on").core.stats().proto.frame_rx;
    assert!(resets.reset_stream > 1000 && resets.stop_sending > 1000, "{resets:?}");
    assert_cost("connection", scene.crowd.held - before, 50, PER_CONNECTION + 200 * PER_STREAM);
}

#[test]
fn peers_that_vanish_hold_what_was_written_until_they_time_out() {
    let mut scene = Scene::new(|| sending(10_000_000));
    let before = scene.crowd.held;
    let names = scene.attack(20, true, idle);
    for name in names {
        scene.crowd.vanish(name);
    }
    scene.crowd.run(ms(500));
    assert_eq!(scene.crowd.served(), 20, "none has all");
    // At the interface's rate and 20 ms a law wants less than a quarter of the least send window.
    assert_cost("connection", scene.crowd.most_held - before, 20, PER_CONNECTION + (1 << 20) + PIECE);
    scene.serve_as_alone(WORDS);
    scene.crowd.run(ms(60_000));
    assert_eq!(scene.crowd.served(), 0);
    assert_cost("place", scene.crowd.held - before, 20, PER_CONNECTION);
}

#[test]
fn ten_thousand_idle_connections_cost_what_is_stated() {
    let mut scene = Scene::new(idle);
    let before = scene.crowd.held;
    for _ in 0..100 {
        scene.attack(100, true, || again_and_again(ms(10_000), |core| core.inner().ping()));
    }
    scene.serve_as_alone(WORDS);
    assert!(scene.crowd.served() >= 10_000);
    assert_cost("connection", scene.crowd.held - before, 10_000, PER_CONNECTION);
}
