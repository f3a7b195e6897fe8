//! Which rows may run side by side, how long each may take, and what the oracle would reach.

use std::time::Duration;

use warplink::{PathProfile, Transfer, oracle};
use warprate::units::{Bytes, Rate};

use crate::options::LawName;
use crate::tls::DATAGRAM;

/// Splits `laws` into groups that run one after another, by their index. Within a group the speeds
/// expected sum up to so little that rows, relays and all, do not disturb each other.
pub fn groups(laws: &[LawName], path: &PathProfile) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Rate, Vec<usize>)> = Vec::new();
    for (index, law) in laws.iter().enumerate() {
        let speed = expected_speed(*law, path);
        match groups.iter_mut().find(|(sum, _)| *sum + speed <= UNDISTURBED) {
            Some((sum, rows)) => {
                *sum = *sum + speed;
                rows.push(index);
            }
            None => groups.push((speed, vec![index])),
        }
    }
    groups.into_iter().map(|(_, rows)| rows).collect()
}

/// A time that no row needs unless something is wrong: ten times what the slowest law should.
pub fn deadline(bytes: Bytes, path: &PathProfile) -> Duration {
    let slowest = expected_speed(LawName::NewReno, path);
    (bytes / slowest).saturating_mul(10).saturating_add(ROUND_TRIPS * path.rtt()).saturating_add(GRACE)
}

/// The oracle's speed: the mean over many seeds, since on short transfers the fate of the last
/// packets moves a single draw by several percent, and no row meets the very losses of one draw.
pub fn oracle_speed(bytes: Bytes, path: &PathProfile, seed: u64) -> Rate {
    let transfer = Transfer {
        bytes,
        datagram: Bytes::new(DATAGRAM.into()),
        stream_per_datagram: Bytes::new(u64::from(DATAGRAM) - OVERHEAD),
    };
    let datagrams = bytes.get() / transfer.stream_per_datagram.get() + 1;
    let draws = u32::try_from(ORACLE_WORK / datagrams).unwrap_or(u32::MAX).clamp(1, MOST_DRAWS);
    let times = (0..draws).map(|draw| oracle(path, &transfer, seed.wrapping_add(draw.into())));
    bytes / (times.sum::<Duration>() / draws)
}

/// The link's rate, or what random loss leaves to the laws that take it for congestion.
fn expected_speed(law: LawName, path: &PathProfile) -> Rate {
    let link = path.forward.rate();
    match law {
        LawName::WarpRate | LawName::Fixed | LawName::Bbr3 | LawName::QuinnBbr => link,
        LawName::Cubic | LawName::NewReno | LawName::QuinnCubic | LawName::QuinnNewReno | LawName::Quinn => {
            link.min(loss_limited_speed(path))
        }
    }
}

/// Mathis et al. 1997: √1.5 · datagram / (RTT · √p).
fn loss_limited_speed(path: &PathProfile) -> Rate {
    let loss = path.forward.loss().as_f64();
    let datagrams_per_round = (1.5 / loss).sqrt();
    let round = path.rtt().as_secs_f64();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and saturates")]
    let bytes_per_sec = (datagrams_per_round * f64::from(DATAGRAM) / round) as u64;
    Rate::bytes_per_sec(bytes_per_sec)
}

/// Measured on two cores: 50 and 60 Mbit/s in sum leave every row's goodput the same within 0.3 %,
/// while 500 Mbit/s cost `fixed`, the most sensitive one, 17 % of its own.
const UNDISTURBED: Rate = Rate::mbps(60);

/// The slowest starts, handshake included.
const ROUND_TRIPS: u32 = 200;
/// Nothing but patience: paths with tiny buffers or deep reordering slow some laws a hundredfold.
const GRACE: Duration = Duration::from_secs(120);

/// Short header 1, connection id 8, packet number 2, tag 16, STREAM frame's type, id and offset 6.
const OVERHEAD: u64 = 1 + 8 + 2 + 16 + 6;

/// Datagrams that the oracle may send in all: about a second of work.
const ORACLE_WORK: u64 = 10_000_000;
const MOST_DRAWS: u32 = 100;
