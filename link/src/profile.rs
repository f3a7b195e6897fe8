//! What a link is like, checked once.
//!
//! *What it decides:* which descriptions of a link make sense. *In:* numbers from people and
//! files. *Out:* a [`Profile`] that the link need not doubt, or a [`ProfileError`] that names the
//! field and says what it should be. *May import:* units, `time`, `schedule`.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use warpunits::{Bytes, Rate};

use crate::schedule::{Outage, RateSchedule, Steps};
use crate::time::{Span, Time};

/// One direction of a path: a transmitter behind a queue, then a wire.
///
/// The packet passes, in this order: a byte-limited first-in-first-out buffer, the transmitter at
/// the rate of the moment, random loss, the delay of the moment of departure with its jitter, and
/// the slots in which the far end takes packets. A packet that is lost at random has therefore taken
/// its time on the transmitter, as on a radio link.
///
/// Moments in schedules count from the link's start. Clones are cheap: they share the schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    rates: RateSchedule,
    delays: Steps<Duration>,
    buffer: Bytes,
    losses: Steps<Losses>,
    jitter: Jitter,
    slots: Duration,
}

impl Profile {
    /// A link whose rate and delay do not change, without loss, jitter or slots.
    ///
    /// `rate` counts wire bytes (see [`wire_bytes`](crate::wire_bytes)); [`Rate::MAX`] means that
    /// packets take no time to send and never queue. `delay` is one-way. `buffer` is what may
    /// wait, in wire bytes, not counting the packet in transmission; [`Bytes::MAX`] means no limit and zero
    /// means that a packet which finds the transmitter busy is dropped.
    ///
    /// # Errors
    /// When `rate` is zero (nothing would ever arrive) or `delay` is longer than a day (a mistaken unit).
    pub fn new(rate: Rate, delay: Duration, buffer: Bytes) -> Result<Self, ProfileError> {
        if rate.is_zero() {
            return Err(ProfileError::new("rate", rate, "a rate above zero"));
        }
        let delay = at_most_a_day("delay", delay)?;
        Ok(Self {
            rates: RateSchedule::constant(rate),
            delays: Steps::constant(delay),
            buffer,
            losses: Steps::constant(Losses::Random(Probability::ZERO)),
            jitter: Jitter::NONE,
            slots: Duration::ZERO,
        })
    }

    /// The same link losing packets so: independently with a [`Probability`], or as [`Losses`] say.
    /// Default: none.
    #[must_use]
    pub fn with_loss(self, losses: impl Into<Losses>) -> Self {
        Self { losses: self.losses.with_first(losses.into()), ..self }
    }

    /// The same link whose losses change: each step is a moment since the link's start and the losses
    /// among packets that depart from then on; before the first, they are those of
    /// [`with_loss`](Self::with_loss). These steps replace earlier ones. Default: none.
    ///
    /// A stretch in which everything is lost is a black hole; in an
    /// [outage](Self::with_outages) packets wait instead.
    ///
    /// # Errors
    /// When the moments do not strictly increase or lie beyond 100 days, or when everything is lost from
    /// the last step on (what is sent again then would never arrive).
    pub fn with_loss_steps(self, steps: Vec<(Duration, Losses)>) -> Result<Self, ProfileError> {
        let moments = increasing(LOSS_STEPS, steps.iter().map(|(at, _)| *at))?;
        if let Some((_, last)) = steps.last().filter(|(_, last)| last.share() == Probability::ONE) {
            return Err(ProfileError::new(LOSS_STEPS, last, "a last loss below 100 %"));
        }
        let later = moments.into_iter().zip(steps).map(|(at, (_, losses))| (at, losses)).collect();
        Ok(Self { losses: Steps::new(self.losses.first(), later), ..self })
    }

    /// The same link with this jitter. Default: none.
    #[must_use]
    pub fn with_jitter(self, jitter: Jitter) -> Self {
        Self { jitter, ..self }
    }

    /// The same link with this buffer.
    #[must_use]
    pub fn with_buffer(self, buffer: Bytes) -> Self {
        Self { buffer, ..self }
    }

    /// The same link whose rate changes: each step is a moment since the link's start and the rate
    /// from then on; before the first, the rate is that of [`Profile::new`]. These steps replace
    /// earlier ones. Default: none.
    ///
    /// A packet in transmission at a step goes on at the new rate. A rate of zero is an outage, as
    /// in [`with_outages`](Self::with_outages).
    ///
    /// # Errors
    /// When the moments do not strictly increase or lie beyond 100 days, or when the last rate is zero
    /// (what waits then would never arrive).
    pub fn with_rate_steps(self, steps: Vec<(Duration, Rate)>) -> Result<Self, ProfileError> {
        let moments = increasing(RATE_STEPS, steps.iter().map(|(at, _)| *at))?;
        if let Some((_, last)) = steps.last().filter(|(_, last)| last.is_zero()) {
            return Err(ProfileError::new(RATE_STEPS, last, "a last rate above zero"));
        }
        let later = moments.into_iter().zip(steps).map(|(at, (_, rate))| (at, rate)).collect();
        Ok(Self { rates: self.rates.with_steps(later), ..self })
    }

    /// The same link with a transmitter that stands still at times: each outage is a moment since
    /// the link's start and a length. These outages replace earlier ones; they combine with
    /// [rate steps](Self::with_rate_steps) whichever is set first. Default: none.
    ///
    /// During an outage the queue fills and nothing departs; a packet in transmission stays in the
    /// transmitter and goes on at the outage's end, at the rate that holds then. What has
    /// departed is unharmed. An outage without length does nothing.
    ///
    /// # Errors
    /// When an outage begins before the one before it ends, lies beyond 100 days, or is longer than a
    /// day.
    pub fn with_outages(self, outages: Vec<(Duration, Duration)>) -> Result<Self, ProfileError> {
        let mut checked: Vec<Outage> = Vec::with_capacity(outages.len());
        for (at, length) in outages {
            let from = moment(OUTAGES, at)?;
            if checked.last().is_some_and(|before| from < before.until) {
                let at = format!("{at:?}");
                return Err(ProfileError::new(OUTAGES, at, "after the end of the outage before it"));
            }
            let until = from + Span::from(at_most_a_day(OUTAGES, length)?);
            checked.push(Outage { from, until });
        }
        Ok(Self { rates: self.rates.with_outages(checked), ..self })
    }

    /// The same link whose delay changes: each step is a moment since the link's start and the
    /// delay of packets that depart from then on; before the first, the delay is that of
    /// [`Profile::new`]. These steps replace earlier ones. Default: none.
    ///
    /// Where the delay shrinks, [`Order`] decides whether later packets overtake those on their way.
    ///
    /// # Errors
    /// When the moments do not strictly increase or lie beyond 100 days, or a delay is longer than a
    /// day.
    pub fn with_delay_steps(self, steps: Vec<(Duration, Duration)>) -> Result<Self, ProfileError> {
        let moments = increasing(DELAY_STEPS, steps.iter().map(|(at, _)| *at))?;
        let step = |(at, (_, delay))| Ok((at, at_most_a_day(DELAY_STEPS, delay)?));
        let later: Result<Vec<_>, _> = moments.into_iter().zip(steps).map(step).collect();
        Ok(Self { delays: Steps::new(self.delays.first(), later?), ..self })
    }

    /// The same link whose packets reach the far end only at multiples of `period` since the link's
    /// start, all that have come in since the last one together and in their order. Zero means at
    /// any time, which is the default.
    ///
    /// The model for media that send in turns, with the FIFO transmitter before them for their
    /// capacity: about 2 ms for a Wi-Fi transmit opportunity, 1 ms for an LTE subframe, 0.5 ms for a
    /// 5G NR slot at 30 kHz.
    ///
    /// # Errors
    /// When `period` is longer than a day (a mistaken unit).
    pub fn with_slots(self, period: Duration) -> Result<Self, ProfileError> {
        Ok(Self { slots: at_most_a_day("slots", period)?, ..self })
    }

    /// Wire bytes per second that leave the queue before the first rate step, outages aside.
    pub fn rate(&self) -> Rate {
        self.rates.first()
    }

    /// Wire bytes per second that leave the queue at this moment; zero during an outage.
    pub fn rate_at(&self, moment: Time) -> Rate {
        self.rates.at(moment)
    }

    /// When the last bit of a packet of `size` wire bytes has left whose first bit leaves at
    /// `starts`, rounded up to 1 ps.
    ///
    /// Later starts and larger sizes never finish earlier, and nothing finishes during an outage.
    /// [`Time::NEVER`] where 64 bits end.
    pub fn finish(&self, starts: Time, size: Bytes) -> Time {
        self.rates.finish(starts, size)
    }

    /// The one-way delay after the transmitter before the first delay step, without jitter.
    pub fn delay(&self) -> Duration {
        self.delays.first()
    }

    /// The one-way delay, without jitter, of a packet that leaves the transmitter at this moment.
    pub fn delay_at(&self, departed: Time) -> Duration {
        self.delays.at(departed)
    }

    /// The least one-way delay, without jitter, that ever holds: a bound for who looks ahead.
    pub fn least_delay(&self) -> Duration {
        self.delays.values().min().unwrap_or_default()
    }

    /// Wire bytes that may wait, not counting the packet in transmission.
    pub fn buffer(&self) -> Bytes {
        self.buffer
    }

    /// The share of packets that is lost after the transmitter before the first loss step.
    pub fn loss(&self) -> Probability {
        self.losses.first().share()
    }

    /// Which of the packets that leave the transmitter at this moment are lost.
    pub fn losses_at(&self, departed: Time) -> Losses {
        self.losses.at(departed)
    }

    /// How the delay varies.
    pub fn jitter(&self) -> Jitter {
        self.jitter
    }

    /// The time between two moments at which packets reach the far end; zero when they do so at any
    /// time.
    pub fn slots(&self) -> Duration {
        self.slots
    }
}

/// Which packets a link loses after its transmitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    /// Each independently with this probability.
    Random(Probability),
    /// The n-th, the 2n-th and so on of all packets offered to the link.
    Every(NonZeroU32),
}

impl Losses {
    /// The share of packets that is lost, to the next billionth.
    pub fn share(self) -> Probability {
        match self {
            Self::Random(probability) => probability,
            Self::Every(n) => Probability(Probability::BILLION.div_ceil(n.get())),
        }
    }
}

impl From<Probability> for Losses {
    fn from(probability: Probability) -> Self {
        Self::Random(probability)
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(probability) => probability.fmt(f),
            Self::Every(n) => write!(f, "1 in {n}"),
        }
    }
}

/// A probability, in whole billionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Probability(u32);

impl Probability {
    /// It never happens.
    pub const ZERO: Self = Self(0);
    /// It always happens.
    pub const ONE: Self = Self(Self::BILLION);

    pub(crate) const BILLION: u32 = 1_000_000_000;

    /// `n` hundredths, for literals: `Probability::percent(5)`.
    ///
    /// # Panics
    /// When `n` is above 100; in a `const` that is a compile error.
    pub const fn percent(n: u32) -> Self {
        assert!(n <= 100, "a probability is at most 100 percent");
        Self(n * (Self::BILLION / 100))
    }

    /// `n` billionths.
    ///
    /// # Errors
    /// When `n` is more than a billion.
    pub fn parts_per_billion(n: u32) -> Result<Self, ProfileError> {
        if n > Self::BILLION {
            return Err(ProfileError::new("loss", n, "at most 1000000000 billionths"));
        }
        Ok(Self(n))
    }

    /// The probability nearest to `fraction`, which 0.01 means one percent.
    ///
    /// # Errors
    /// When `fraction` is negative, above 1, or not a number.
    pub fn fraction(fraction: f64) -> Result<Self, ProfileError> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(ProfileError::new("loss", fraction, "a fraction from 0 to 1, such as 0.01"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        let billionths = (fraction * f64::from(Self::BILLION)).round() as u32;
        Ok(Self(billionths))
    }

    /// The probability in billionths.
    pub const fn as_parts_per_billion(self) -> u32 {
        self.0
    }

    /// The probability as a fraction, for reports only: decisions use integers.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::BILLION)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.as_f64() * 100.0)
    }
}

impl fmt::Debug for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Gaussian jitter: each packet's delay gets its own independent N(0, sigma), and the sum is
/// clipped at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter {
    sigma: Duration,
    order: Order,
}

impl Jitter {
    /// Every packet takes exactly the link's delay.
    pub const NONE: Self = Self { sigma: Duration::ZERO, order: Order::Fifo };

    /// Jitter with the standard deviation `sigma`.
    ///
    /// # Errors
    /// When `sigma` is longer than a day (a mistaken unit).
    pub fn new(sigma: Duration, order: Order) -> Result<Self, ProfileError> {
        Ok(Self { sigma: at_most_a_day("jitter sigma", sigma)?, order })
    }

    /// The standard deviation of a packet's extra delay, before clipping and ordering.
    pub fn sigma(&self) -> Duration {
        self.sigma
    }

    /// Whether packets may overtake each other.
    pub fn order(&self) -> Order {
        self.order
    }
}

/// What happens when a packet's jitter would let it overtake an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It arrives together with the latest packet before it, as radio links and schedulers
    /// mostly have it. Lost packets hold nobody up.
    Fifo,
    /// It overtakes.
    Reorder,
}

/// A description of a link that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: `{value}` is not {expected}")]
pub struct ProfileError {
    field: &'static str,
    value: String,
    expected: &'static str,
}

impl ProfileError {
    fn new(field: &'static str, value: impl fmt::Display, expected: &'static str) -> Self {
        Self { field, value: value.to_string(), expected }
    }

    /// The field that is wrong.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

fn at_most_a_day(field: &'static str, time: Duration) -> Result<Duration, ProfileError> {
    if time > LONGEST_DELAY {
        return Err(ProfileError::new(field, format!("{time:?}"), "at most a day"));
    }
    Ok(time)
}

/// The moment `since_start`, if links live that long.
fn moment(field: &'static str, since_start: Duration) -> Result<Time, ProfileError> {
    if since_start > LONGEST_RUN {
        return Err(ProfileError::new(field, format!("{since_start:?}"), "within 100 days of the start"));
    }
    Ok(since_start.into())
}

fn increasing(
    field: &'static str,
    since_start: impl Iterator<Item = Duration>,
) -> Result<Vec<Time>, ProfileError> {
    let mut moments: Vec<Time> = Vec::new();
    for at in since_start {
        let next = moment(field, at)?;
        if moments.last().is_some_and(|last| next <= *last) {
            return Err(ProfileError::new(field, format!("{at:?}"), "later than the step before it"));
        }
        moments.push(next);
    }
    Ok(moments)
}

const RATE_STEPS: &str = "rate steps";
const OUTAGES: &str = "outages";
const DELAY_STEPS: &str = "delay steps";
const LOSS_STEPS: &str = "loss steps";

/// Light crosses the orbit of Neptune in less; a longer delay is a number in the wrong unit.
const LONGEST_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Less than half of what [`Time`] holds, so that what waits at the last step still has a time to end.
const LONGEST_RUN: Duration = Duration::from_secs(100 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: fmt::Debug>(result: Result<T, ProfileError>) -> String {
        result.expect_err("must be refused").to_string()
    }

    #[test]
    fn a_zero_rate_is_refused() {
        let result = Profile::new(Rate::ZERO, Duration::ZERO, Bytes::MAX);
        assert_eq!(message(result), "rate: `0 bit/s` is not a rate above zero");
    }

    #[test]
    fn impossible_probabilities_are_refused() {
        for wrong in [-0.01, 1.01, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let found = message(Probability::fraction(wrong));
            assert_eq!(found, format!("loss: `{wrong}` is not a fraction from 0 to 1, such as 0.01"));
        }
        assert!(Probability::parts_per_billion(1_000_000_001).is_err());
    }

    #[test]
    fn delays_in_the_wrong_unit_are_refused() {
        let days = Duration::from_secs(90_000);
        assert_eq!(
            message(Profile::new(Rate::MAX, days, Bytes::MAX)),
            "delay: `90000s` is not at most a day"
        );
        assert_eq!(message(Jitter::new(days, Order::Fifo)), "jitter sigma: `90000s` is not at most a day");
    }

    #[test]
    fn probabilities_say_what_they_are() {
        let p = Probability::fraction(0.0125).expect("a probability");
        assert_eq!(p.as_parts_per_billion(), 12_500_000);
        assert_eq!(p.to_string(), "1.25 %");
        assert_eq!(Probability::percent(100), Probability::ONE);
        assert_eq!(Probability::fraction(1.0), Ok(Probability::ONE));
    }

    fn link() -> Profile {
        Profile::new(Rate::mbps(10), Duration::from_millis(20), Bytes::MAX).expect("valid")
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn schedules_that_run_backwards_are_refused() {
        let rates = vec![(ms(5), Rate::mbps(1)), (ms(5), Rate::mbps(2))];
        assert_eq!(
            message(link().with_rate_steps(rates)),
            "rate steps: `5ms` is not later than the step before it"
        );
        let delays = vec![(ms(5), ms(1)), (ms(4), ms(1))];
        assert_eq!(
            message(link().with_delay_steps(delays)),
            "delay steps: `4ms` is not later than the step before it"
        );
        assert_eq!(
            message(link().with_outages(vec![(ms(5), ms(10)), (ms(14), ms(1))])),
            "outages: `14ms` is not after the end of the outage before it"
        );
        assert!(link().with_outages(vec![(ms(5), ms(10)), (ms(15), ms(1))]).is_ok());
    }

    #[test]
    fn a_schedule_that_never_ends_is_refused() {
        let dead = vec![(ms(5), Rate::ZERO)];
        assert_eq!(
            message(link().with_rate_steps(dead)),
            "rate steps: `0 bit/s` is not a last rate above zero"
        );
        let revived = vec![(ms(5), Rate::ZERO), (ms(6), Rate::mbps(1))];
        assert!(link().with_rate_steps(revived).is_ok());
        let hole = vec![(ms(5), Probability::ONE.into())];
        assert_eq!(
            message(link().with_loss_steps(hole)),
            "loss steps: `100 %` is not a last loss below 100 %"
        );
    }

    #[test]
    fn schedules_in_the_wrong_unit_are_refused() {
        let (years, days) = (Duration::from_secs(100_000_000), Duration::from_secs(90_000));
        assert_eq!(
            message(link().with_rate_steps(vec![(years, Rate::MAX)])),
            "rate steps: `100000000s` is not within 100 days of the start"
        );
        assert_eq!(
            message(link().with_delay_steps(vec![(ms(1), days)])),
            "delay steps: `90000s` is not at most a day"
        );
        assert_eq!(
            message(link().with_outages(vec![(ms(1), days)])),
            "outages: `90000s` is not at most a day"
        );
        assert_eq!(message(link().with_slots(days)), "slots: `90000s` is not at most a day");
    }

    #[test]
    fn losses_have_a_share_and_a_name() {
        let every = |n| Losses::Every(NonZeroU32::new(n).expect("not zero"));
        assert_eq!(every(64).share().as_parts_per_billion(), 15_625_000);
        assert_eq!((every(1).share(), every(64).to_string()), (Probability::ONE, "1 in 64".to_owned()));
        let steps = vec![(ms(5), every(2)), (ms(6), Probability::ZERO.into())];
        let lossy = link().with_loss_steps(steps).expect("valid").with_loss(Probability::ONE);
        let found = [4, 5, 6].map(|at| lossy.losses_at(Time::from(ms(at))).share());
        assert_eq!(found, [Probability::ONE, Probability::percent(50), Probability::ZERO]);
        assert_eq!(lossy.loss(), Probability::ONE);
    }

    #[test]
    fn the_least_delay_is_that_of_any_step() {
        assert_eq!(link().least_delay(), ms(20));
        let steps = vec![(ms(5), ms(30)), (ms(6), ms(10)), (ms(7), ms(15))];
        assert_eq!(link().with_delay_steps(steps).expect("valid").least_delay(), ms(10));
    }

    #[test]
    fn a_schedule_replaces_the_one_before_it() {
        let first = link().with_rate_steps(vec![(ms(5), Rate::mbps(1))]).expect("valid");
        let second = first.with_rate_steps(vec![(ms(7), Rate::mbps(2))]).expect("valid");
        assert_eq!(second.rate_at(Time::from(ms(6))), Rate::mbps(10));
        assert_eq!(second.rate_at(Time::from(ms(7))), Rate::mbps(2));
        assert_eq!(second.with_rate_steps(Vec::new()), Ok(link()));
    }
}
