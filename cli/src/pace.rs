//! `warp pace`: how fast datagrams may leave by an interface, who keeps their times, and how to do better.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args as ClapArgs;
use warprate::conn::{
    AnchorSource, Departure, Histogram, Interface, SOCKET_BUFFERS, SendClock, measure_departures,
};
use warprate::units::Bytes;

/// Arguments of `warp pace`.
#[derive(ClapArgs)]
pub struct Args {
    /// An interface, such as `eth0`, or an address that it leads to, such as 192.0.2.1.
    #[arg(value_name = "IFACE|ADDRESS")]
    target: String,
    /// Send 200 datagrams of 1200 bytes, a millisecond apart, to the address, and tell when they left. The
    /// host there gets them on port 9, the discard service.
    #[arg(long)]
    measure: bool,
    /// Measure with `etf` where the interface has it; needs CAP_NET_ADMIN.
    #[arg(long, requires = "measure")]
    etf: bool,
}

impl Args {
    /// Carries the command out.
    pub fn run(self) -> anyhow::Result<()> {
        let address = self.target.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, DISCARD));
        if self.measure && address.is_none() {
            bail!(
                "--measure sends datagrams: `{}` must be an address to send to, not an interface",
                self.target
            );
        }
        let interface = match address {
            Some(address) => Interface::towards(address, None)?,
            None => Interface::named(&self.target)?,
        };
        let limits = Buffers::read()?;
        print!("{}", report(&interface, limits));
        if let Some(address) = address.filter(|_| self.measure) {
            for line in self.measure(address)? {
                println!("departures  {line}");
            }
        }
        for line in advice(&interface, limits) {
            println!("advice      {line}");
        }
        Ok(())
    }

    fn measure(&self, address: SocketAddr) -> anyhow::Result<Vec<String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let clock = if self.etf { SendClock::Etf } else { SendClock::Fq };
        let measured = runtime.block_on(measure_departures(address, clock, GAP, DATAGRAMS));
        let (clock, departures) =
            measured.with_context(|| format!("cannot measure departures to {address}"))?;
        Ok(summary(clock, &departures))
    }
}

fn report(interface: &Interface, limits: Buffers) -> String {
    format!(
        "interface   {} (number {})\nanchor      {}\nqdisc       {}\nsend clock  {}\n\
         buffers     up to {} to send, {} to receive\n",
        interface.name,
        interface.index,
        interface.anchor,
        interface.qdisc,
        interface.qdisc.send_clock(),
        limits.send,
        limits.receive,
    )
}

/// What was measured, a line each.
fn summary(clock: SendClock, departures: &[Departure]) -> Vec<String> {
    let apart = |a: Instant, b: Instant| a.max(b) - a.min(b);
    let errors: Histogram =
        departures.iter().filter_map(|departure| Some(apart(departure.left?, departure.planned))).collect();
    if errors.count() == 0 {
        return vec![format!("by {clock}: the driver tells of none of {}", departures.len())];
    }
    let gap_error = |pair: &[Departure]| Some(apart(pair[1].left?, pair[0].left? + GAP));
    let gaps: Histogram = departures.windows(2).filter_map(gap_error).collect();
    let line = |what: &str, times: &Histogram| {
        let at = |share| times.quantile(share).unwrap_or_default();
        format!("{what} p50 {:.1?}, p99 {:.1?}", at(0.5), at(0.99))
    };
    vec![
        format!("by {clock}: {} of {} left", errors.count(), departures.len()),
        line("distance from the plan", &errors),
        line("error of the gaps     ", &gaps),
    ]
}

/// The largest buffers that the system grants to a socket.
#[derive(Debug, Clone, Copy)]
struct Buffers {
    send: Bytes,
    receive: Bytes,
}

impl Buffers {
    fn read() -> anyhow::Result<Self> {
        let limit = |name: &str| {
            let path = format!("/proc/sys/net/core/{name}");
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
            let size = text.trim().parse().map_err(|_| anyhow!("{path} is no number: `{}`", text.trim()))?;
            anyhow::Ok(Bytes::new(size))
        };
        Ok(Self { send: limit("wmem_max")?, receive: limit("rmem_max")? })
    }
}

/// What to change for a better send clock or a truer anchor.
fn advice(interface: &Interface, limits: Buffers) -> Vec<String> {
    let name = &interface.name;
    let mut advice = Vec::new();
    match (interface.qdisc.send_clock(), interface.qdisc.kind.as_str()) {
        (SendClock::Fq, _) => {}
        (SendClock::Etf, _) => {
            advice.push("`etf` is used on request only: EndpointConfig::send_clock(SendClock::Etf)".into());
        }
        (SendClock::Timer, "mq") => advice.push(format!(
            "sysctl -w net.core.default_qdisc=fq && tc qdisc replace dev {name} root mq    \
             # each hardware queue then keeps release times"
        )),
        (SendClock::Timer, "mqprio") => advice.push(format!(
            "tc qdisc replace dev {name} parent HANDLE:QUEUE fq    # for each queue of priority 0"
        )),
        (SendClock::Timer, _) => advice.push(format!(
            "tc qdisc replace dev {name} root fq    # the kernel then releases datagrams at their time"
        )),
    }
    if interface.anchor.source == AnchorSource::Fallback {
        advice.push("state the line rate if you know it: EndpointConfig::anchor".into());
    }
    let most = SOCKET_BUFFERS.end();
    for (limit, size) in [("wmem_max", limits.send), ("rmem_max", limits.receive)] {
        if size < *SOCKET_BUFFERS.start() {
            advice.push(format!(
                "sysctl -w net.core.{limit}={}    # so that a busy host loses no datagrams",
                most.get()
            ));
        }
    }
    advice
}

const GAP: Duration = Duration::from_millis(1);
const DATAGRAMS: u32 = 200;

/// RFC 863.
const DISCARD: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    const AMPLE: Buffers = Buffers { send: Bytes::mib(16), receive: Bytes::mib(16) };

    #[test]
    fn loopback_has_a_timer_a_fallback_and_two_pieces_of_advice() {
        let interface = Interface::named("lo").unwrap();
        let report = report(&interface, AMPLE);
        assert!(report.contains("interface   lo (number 1)\nanchor      10 Gbit/s (fallback"), "{report}");
        assert!(report.contains("\nsend clock  timer\nbuffers     up to "), "{report}");
        let advice = advice(&interface, AMPLE);
        assert_eq!(advice.len(), 2);
        assert!(advice[0].starts_with("tc qdisc replace dev lo root fq "), "{}", advice[0]);
    }

    #[test]
    fn small_limits_are_to_be_raised() {
        let interface = Interface::named("lo").unwrap();
        let limits = Buffers { receive: Bytes::new(212_992), ..AMPLE };
        let advice = advice(&interface, limits);
        assert!(advice[2].starts_with("sysctl -w net.core.rmem_max=16777216 "), "{}", advice[2]);
        assert_eq!(advice.len(), 3);
        assert!(!Buffers::read().unwrap().send.is_zero());
    }

    #[test]
    fn queues_below_mq_and_mqprio_are_advised_upon() {
        let mut interface = Interface::named("lo").unwrap();
        interface.qdisc.kind = "mq".into();
        assert!(
            advice(&interface, AMPLE)[0].contains("default_qdisc=fq && tc qdisc replace dev lo root mq ")
        );
        interface.qdisc.kind = "mqprio".into();
        assert!(advice(&interface, AMPLE)[0].starts_with("tc qdisc replace dev lo parent HANDLE:QUEUE fq "));
        interface.qdisc.kind = "fq".into();
        assert_eq!(advice(&interface, AMPLE).len(), 1, "the anchor alone");
    }

    #[test]
    fn a_summary_counts_what_left() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let remote = "127.0.0.1:9".parse().unwrap();
        let measured = runtime.block_on(measure_departures(remote, SendClock::Fq, GAP, 10)).unwrap();
        let lines = summary(measured.0, &measured.1);
        assert_eq!(lines[0], "by timer: 10 of 10 left");
        let what =
            ["distance from the plan p50 ", "error of the gaps      p50 ", "time in the queue      p50 "];
        for (line, what) in lines[1..].iter().zip(what) {
            assert!(line.starts_with(what), "{line}");
        }
        let none = [Departure { planned: measured.1[0].planned, left: None }];
        assert_eq!(summary(SendClock::Timer, &none), ["by timer: the driver tells of none of 1"]);
    }

    #[test]
    fn only_an_address_can_be_sent_to() {
        let args = |target: &str, measure| Args { target: target.into(), measure, etf: false };
        let error = args("lo", true).run().unwrap_err().to_string();
        assert!(error.contains("`lo` must be an address"), "{error}");
        let error = args("nosuch0", false).run().unwrap_err().to_string();
        assert!(error.contains("no network interface `nosuch0`"), "{error}");
    }
}
