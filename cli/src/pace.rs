//! `warp pace`: how fast datagrams may leave by an interface, who keeps their times, and how to do better.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args as ClapArgs;
use warprate::conn::{AnchorSource, Departure, Interface, SendClock, measure_departures};

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
        print!("{}", report(&interface));
        if let Some(address) = address.filter(|_| self.measure) {
            println!("departures  {}", self.measure(address)?);
        }
        for line in advice(&interface) {
            println!("advice      {line}");
        }
        Ok(())
    }

    fn measure(&self, address: SocketAddr) -> anyhow::Result<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let clock = if self.etf { SendClock::Etf } else { SendClock::Fq };
        let measured = runtime.block_on(measure_departures(address, clock, GAP, DATAGRAMS));
        let (clock, departures) =
            measured.with_context(|| format!("cannot measure departures to {address}"))?;
        Ok(summary(clock, &departures))
    }
}

fn report(interface: &Interface) -> String {
    format!(
        "interface   {} (number {})\nanchor      {}\nqdisc       {}\nsend clock  {}\n",
        interface.name,
        interface.index,
        interface.anchor,
        interface.qdisc,
        interface.qdisc.send_clock()
    )
}

/// What was measured, in one line.
fn summary(clock: SendClock, departures: &[Departure]) -> String {
    let mut errors: Vec<Duration> = departures
        .iter()
        .filter_map(|departure| {
            let left = departure.left?;
            Some(left.max(departure.planned) - left.min(departure.planned))
        })
        .collect();
    errors.sort_unstable();
    if errors.is_empty() {
        return format!("by {clock}: the driver tells of none of {}", departures.len());
    }
    let at = |percent: usize| errors[(errors.len() - 1) * percent / 100];
    format!(
        "by {clock}: {} of {} left, error p50 {:.1?}, p99 {:.1?}",
        errors.len(),
        departures.len(),
        at(50),
        at(99)
    )
}

/// What to change for a better send clock or a truer anchor.
fn advice(interface: &Interface) -> Vec<String> {
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
        (SendClock::Timer, _) => advice.push(format!(
            "tc qdisc replace dev {name} root fq    # the kernel then releases datagrams at their time"
        )),
    }
    if interface.anchor.source == AnchorSource::Fallback {
        advice.push("state the line rate if you know it: EndpointConfig::anchor".into());
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

    #[test]
    fn loopback_has_a_timer_a_fallback_and_two_pieces_of_advice() {
        let interface = Interface::named("lo").unwrap();
        let report = report(&interface);
        assert!(report.contains("interface   lo (number 1)\nanchor      10 Gbit/s (fallback"), "{report}");
        assert!(report.ends_with("send clock  timer\n"), "{report}");
        let advice = advice(&interface);
        assert_eq!(advice.len(), 2);
        assert!(advice[0].starts_with("tc qdisc replace dev lo root fq "), "{}", advice[0]);
    }

    #[test]
    fn mq_keeps_its_queues() {
        let mut interface = Interface::named("lo").unwrap();
        interface.qdisc.kind = "mq".into();
        assert!(advice(&interface)[0].contains("default_qdisc=fq && tc qdisc replace dev lo root mq "));
        interface.qdisc.kind = "fq".into();
        assert_eq!(advice(&interface).len(), 1, "the anchor alone");
    }

    #[test]
    fn a_summary_counts_what_left() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let remote = "127.0.0.1:9".parse().unwrap();
        let measured = runtime.block_on(measure_departures(remote, SendClock::Fq, GAP, 10)).unwrap();
        let text = summary(measured.0, &measured.1);
        assert!(text.starts_with("by timer: 10 of 10 left, error p50 "), "{text}");
        let none = [Departure { planned: measured.1[0].planned, left: None }];
        assert_eq!(summary(SendClock::Timer, &none), "by timer: the driver tells of none of 1");
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
