//! The task of one socket that keeps time for quinn: it wakes connections when they may send, and holds the bursts that
//! may not leave yet.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use quinn::udp::{EcnCodepoint, Transmit};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::socket::Place;
use crate::conn::alarm::Alarm;
use crate::conn::clock;
use crate::conn::driver::{FULL_BUFFER, LEAD};
use crate::conn::drop_in::PaceSlot;
use crate::conn::endpoint::EndpointConfig;
use crate::conn::interface::{Outlet, Outlets, SendClock};
use crate::conn::sizing::Sizing;
use crate::conn::socket::Socket;
use crate::conn::watcher;
use crate::egress::{Deadlines, Flow};
use crate::units::{Bytes, Rate};

/// What the task, the socket and the controllers share.
#[derive(Debug)]
pub(super) struct Keeper {
    socket: Socket,
    outlets: Arc<Outlets>,
    due: Mutex<Due>,
    /// Something is due sooner than the task expects.
    sooner: Arc<Notify>,
}

/// What happens when.
#[derive(Debug, Default)]
struct Due {
    /// When connections are to be woken, by the numbers of their slots.
    wakes: Deadlines,
    slots: Vec<Entry>,
    /// Numbers that are free.
    free: Vec<Flow>,
    of: FxHashMap<SocketAddr, Flow>,
    /// Bursts that are not to leave yet, by the time at which they are handed to the kernel.
    held: BTreeMap<(Instant, u64), Held>,
    /// Bursts that were ever held.
    count: u64,
    /// When the task wakes up.
    alarm: Option<Instant>,
}

#[derive(Debug, Default)]
struct Entry {
    slot: Weak<Slot>,
    wake_at: Option<Instant>,
}

/// A burst.
#[derive(Debug)]
struct Held {
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    src_ip: Option<IpAddr>,
    segment_size: Option<usize>,
    contents: Vec<u8>,
    departure: Instant,
    outlet: Outlet,
}

/// What connections to one peer share.
#[derive(Debug)]
pub(super) struct Slot {
    number: Flow,
    remote: SocketAddr,
    keeper: Weak<Keeper>,
    state: Mutex<SlotState>,
}

#[derive(Debug)]
struct SlotState {
    outlet: Outlet,
    /// The pace of what is sent next; zero while nobody has one.
    rate: Rate,
    burst: Bytes,
    /// The connections that have sent.
    places: Vec<Weak<Place>>,
}

impl Keeper {
    /// Takes over a socket and starts the task, which ends with the last user of the keeper.
    pub fn start(config: &EndpointConfig, socket: UdpSocket) -> io::Result<Arc<Self>> {
        config.check()?;
        let sizes = Sizing::new(clock::now(), config.socket_buffer).asked();
        let socket = Socket::new(socket, sizes, config.send_clock)?;
        let outlets = Arc::new(Outlets::new(socket.local_addr()?.ip(), config.anchor, socket.clock()));
        let sooner = Arc::new(Notify::new());
        let keeper = Arc::new(Self { socket, outlets, due: Mutex::default(), sooner: sooner.clone() });
        let watched = Arc::downgrade(&keeper);
        let look_up = move |outlets: &Outlets| match watched.upgrade() {
            Some(keeper) => {
                keeper.look_up(outlets);
                true
            }
            None => false,
        };
        tokio::spawn(watcher::watch(keeper.outlets.clone(), look_up));
        tokio::spawn(keep(Arc::downgrade(&keeper), sooner, Alarm::new()?));
        Ok(keeper)
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The slot of a peer, which lives as long as its connections' controllers do.
    pub fn slot(self: &Arc<Self>, remote: SocketAddr) -> Arc<Slot> {
        let remote = canonical(remote);
        if let Some(slot) = self.due().known(remote) {
            return slot;
        }
        let outlet = self.outlets.towards(remote);
        let (rate, burst, places) = (Rate::ZERO, Bytes::ZERO, Vec::new());
        let state = Mutex::new(SlotState { outlet, rate, burst, places });
        let mut due = self.due();
        if let Some(slot) = due.known(remote) {
            // Another thread was faster.
            return slot;
        }
        let number = due.free.pop().unwrap_or(due.slots.len());
        let slot = Arc::new(Slot { number, remote, keeper: Arc::downgrade(self), state });
        let entry = Entry { slot: Arc::downgrade(&slot), wake_at: None };
        if number == due.slots.len() {
            due.slots.push(entry);
        } else {
            due.slots[number] = entry;
        }
        due.of.insert(remote, number);
        slot
    }

    /// Sends a batch: its first burst at once, the others when their time comes.
    pub fn send(&self, batch: &Transmit<'_>, sender: Option<&Arc<Place>>) -> io::Result<()> {
        let Some(slot) = sender.and_then(|sender| self.slot_of(sender, batch.destination)) else {
            let release = self.outlets.release_for_stranger(batch.destination, clock::now());
            return self.socket.send(batch, release);
        };
        let (outlet, rate, burst) = slot.pace();
        let now = clock::now();
        for (wait, contents) in bursts(batch, rate, burst) {
            let departure = now + wait;
            let segment_size = batch.segment_size.filter(|size| *size < contents.len());
            let transmit = Transmit { contents, segment_size, ..*batch };
            let at = hand_over(&outlet, departure, now);
            if at > now {
                self.hold(at, Held::new(&transmit, departure, outlet));
                continue;
            }
            match self.socket.send(&transmit, outlet.release_if_kept(departure)) {
                Ok(()) => {}
                // quinn keeps a batch of which nothing has left.
                Err(error) if wait.is_zero() || error.kind() != io::ErrorKind::WouldBlock => {
                    return Err(error);
                }
                Err(_) => self.hold(now + FULL_BUFFER, Held::new(&transmit, departure, outlet)),
            }
        }
        Ok(())
    }

    /// The slot of whoever sends; it stays that when the peer moves to another address.
    fn slot_of(&self, sender: &Arc<Place>, destination: SocketAddr) -> Option<Arc<Slot>> {
        if let Some(slot) = sender.slot.get() {
            return slot.upgrade();
        }
        let slot = self.due().known(canonical(destination))?;
        sender.slot.get_or_init(|| Arc::downgrade(&slot));
        slot.join(sender);
        Some(slot)
    }

    fn hold(&self, at: Instant, held: Held) {
        let mut due = self.due();
        let number = due.count;
        due.count += 1;
        due.held.insert((at, number), held);
        self.expect(due, at);
    }

    /// The task wakes up at `at` at the latest.
    fn expect(&self, mut due: MutexGuard<'_, Due>, at: Instant) {
        if due.alarm.is_none_or(|alarm| at < alarm) {
            due.alarm = Some(at);
            drop(due);
            self.sooner.notify_one();
        }
    }

    /// Does what is due; when more will be.
    fn turn(&self) -> Option<Instant> {
        let now = clock::now();
        let (slots, bursts) = self.due().take(now);
        for slot in slots.iter().filter_map(Weak::upgrade) {
            slot.wake();
        }
        for held in bursts {
            match self.socket.send(&held.transmit(), held.outlet.release_if_kept(held.departure)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.hold(now + FULL_BUFFER, held),
                // Lost on the way, as it might be a hop further on.
                Err(error) => tracing::debug!(%error, "a burst was not sent"),
                Ok(()) => {}
            }
        }
        let mut due = self.due();
        due.alarm = due.next();
        due.alarm
    }

    /// Looks up anew where every slot's datagrams leave.
    fn look_up(&self, outlets: &Outlets) {
        let slots: Vec<_> = self.due().slots.iter().map(|entry| entry.slot.clone()).collect();
        for slot in slots.iter().filter_map(Weak::upgrade) {
            slot.state().outlet = outlets.towards(slot.remote);
        }
    }

    fn due(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The task looks for us once more.
        self.sooner.notify_one();
    }
}

/// The task.
async fn keep(keeper: Weak<Keeper>, sooner: Arc<Notify>, mut alarm: Alarm) {
    loop {
        let Some(next) = keeper.upgrade().map(|keeper| keeper.turn()) else { return };
        let mut notified = pin!(sooner.notified());
        let waited = poll_fn(|cx| match (notified.as_mut().poll(cx), next) {
            (Poll::Ready(()), _) => Poll::Ready(Ok(())),
            (Poll::Pending, Some(next)) => alarm.poll(cx, clock::now(), next),
            (Poll::Pending, None) => Poll::Pending,
        });
        if let Err(error) = waited.await {
            tracing::error!(%error, "the paced socket's timer failed");
            return;
        }
    }
}

impl Due {
    fn known(&self, remote: SocketAddr) -> Option<Arc<Slot>> {
        self.of.get(&remote).and_then(|number| self.slots[*number].slot.upgrade())
    }

    /// What is due now. (Slots are not upgraded here: the last of one takes our lock when it goes.)
    fn take(&mut self, now: Instant) -> (Vec<Weak<Slot>>, Vec<Held>) {
        let mut slots = Vec::new();
        while let Some(number) = self.wakes.take_due(now) {
            self.slots[number].wake_at = None;
            slots.push(self.slots[number].slot.clone());
        }
        let mut bursts = Vec::new();
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= now) {
            bursts.push(entry.remove());
        }
        (slots, bursts)
    }

    fn next(&self) -> Option<Instant> {
        let burst = self.held.first_key_value().map(|(&(at, _), _)| at);
        self.wakes.next().into_iter().chain(burst).min()
    }
}

impl Held {
    fn new(transmit: &Transmit<'_>, departure: Instant, outlet: Outlet) -> Self {
        Self {
            destination: transmit.destination,
            ecn: transmit.ecn,
            src_ip: transmit.src_ip,
            segment_size: transmit.segment_size,
            contents: transmit.contents.to_vec(),
            departure,
            outlet,
        }
    }

    fn transmit(&self) -> Transmit<'_> {
        Transmit {
            destination: self.destination,
            ecn: self.ecn,
            src_ip: self.src_ip,
            segment_size: self.segment_size,
            contents: &self.contents,
        }
    }
}

impl Slot {
    /// Whoever sends is woken from now on.
    fn join(&self, sender: &Arc<Place>) {
        let places = &mut self.state().places;
        places.retain(|place| place.strong_count() > 0);
        places.push(Arc::downgrade(sender));
    }

    fn wake(&self) {
        let places: Vec<_> = self.state().places.iter().filter_map(Weak::upgrade).collect();
        places.iter().for_each(|place| place.wake());
    }

    fn pace(&self) -> (Outlet, Rate, Bytes) {
        let state = self.state();
        (state.outlet, state.rate, state.burst)
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PaceSlot for Slot {
    fn now(&self) -> Instant {
        clock::now()
    }

    fn anchor(&self) -> Rate {
        self.state().outlet.anchor
    }

    fn follow(&self, rate: Rate, burst: Bytes) {
        let mut state = self.state();
        (state.rate, state.burst) = (rate, burst);
    }

    fn is_served(&self) -> bool {
        let places = &self.state().places;
        // Before its first datagram nobody is known.
        places.is_empty() || places.iter().any(|place| place.strong_count() > 0)
    }

    fn wake_at(&self, at: Instant) {
        let Some(keeper) = self.keeper.upgrade() else { return };
        let mut due = keeper.due();
        let wake_at = &mut due.slots[self.number].wake_at;
        if wake_at.is_none_or(|earlier| at < earlier) {
            *wake_at = Some(at);
            due.wakes.set(self.number, Some(at));
            keeper.expect(due, at);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(keeper) = self.keeper.upgrade() else { return };
        let mut due = keeper.due();
        due.wakes.set(self.number, None);
        due.free.push(self.number);
        // Its peer may have another one by now.
        if due.of.get(&self.remote) == Some(&self.number) {
            due.of.remove(&self.remote);
        }
    }
}

/// A batch in bursts of whole datagrams, and how long each waits for those before it; all at once if there is no pace.
fn bursts<'a>(
    batch: &Transmit<'a>,
    rate: Rate,
    burst: Bytes,
) -> impl Iterator<Item = (Duration, &'a [u8])> + use<'a> {
    let datagram = batch.segment_size.unwrap_or(batch.contents.len()).max(1);
    let whole = (burst.as_len() / datagram).max(1) * datagram;
    let size = if rate.is_zero() { batch.contents.len().max(1) } else { whole };
    let contents = batch.contents.chunks(size);
    contents.enumerate().map(move |(i, contents)| {
        let before = Bytes::of_len(i * size);
        (if before == Bytes::ZERO { Duration::ZERO } else { before / rate }, contents)
    })
}

/// When the kernel gets a burst: where it keeps release times, within the lead.
fn hand_over(outlet: &Outlet, departure: Instant, now: Instant) -> Instant {
    match outlet.clock {
        SendClock::Timer => departure,
        _ if departure <= now + LEAD => now,
        _ => departure - LEAD / 2,
    }
}

/// On a dual-stack socket quinn writes IPv4 addresses as IPv6.
fn canonical(remote: SocketAddr) -> SocketAddr {
    SocketAddr::new(remote.ip().to_canonical(), remote.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{t0, us};

    fn split(len: usize, rate: Rate, burst: u64) -> Vec<(Duration, usize)> {
        let contents = vec![0; len];
        let destination = "192.0.2.1:1".parse().unwrap();
        let batch =
            Transmit { destination, ecn: None, contents: &contents, segment_size: Some(1200), src_ip: None };
        bursts(&batch, rate, Bytes::new(burst)).map(|(wait, contents)| (wait, contents.len())).collect()
    }

    #[test]
    fn a_batch_leaves_in_bursts_of_whole_datagrams_at_the_rate() {
        // 2400 bytes take 1.92 ms at 10 Mbit/s.
        let expected = vec![(us(0), 2400), (us(1920), 2400), (us(3840), 700)];
        assert_eq!(split(5500, Rate::mbps(10), 3000), expected);
        assert_eq!(split(2000, Rate::mbps(10), 1), vec![(us(0), 1200), (us(960), 800)]);
        assert_eq!(split(5500, Rate::gbps(1), 31_250), vec![(us(0), 5500)]);
        assert_eq!(split(5500, Rate::ZERO, 0), vec![(us(0), 5500)], "nobody has a pace yet");
    }

    #[test]
    fn the_kernel_gets_a_burst_within_the_lead_and_the_timer_when_it_is_due() {
        let timer = Outlet::unknown(None);
        let fq = Outlet { clock: SendClock::Fq, ..timer };
        assert_eq!(hand_over(&timer, t0() + us(100), t0()), t0() + us(100));
        assert_eq!(hand_over(&fq, t0() + LEAD, t0()), t0());
        assert_eq!(hand_over(&fq, t0() + us(5000), t0()), t0() + us(4000));
    }
}
