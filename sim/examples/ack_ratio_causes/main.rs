//! What a receiver that acknowledges rarely costs CUBIC: one cause after the other, for the validation page.
//!
//! ```text
//! cargo run --release -p warpsim --example ack_ratio_causes            # small buffers, two minutes, one after the other
//! cargo run --release -p warpsim --example ack_ratio_causes -- packets # large buffers, until rest: half an hour of CPU
//! ```
#![allow(missing_docs, reason = "a program, not an interface")]

mod packets;

use std::error::Error;
use std::thread;
use std::time::Instant;

use warprate::cc::cubic::Increase;
use warprate::cc::{Cubic, PathStart, RateLaw};
use warprate::signal::{Ack, Loss, Plan, Sent, Undo, Verdict};
use warpsim::ack_ratio::{Setting, mean_and_deviation, settings};
use warpsim::host::tcp;
use warpsim::laws::Made;
use warpsim::topology::text::Buffer;
use warpunits::Rate;

/// CUBIC with other habits.
#[derive(Debug, Clone)]
struct Changed {
    cubic: Cubic,
    change: Change,
}

#[derive(Debug, Clone, Copy)]
struct Change {
    name: &'static str,
    increase: Increase,
    /// An ACK counts as one segment also in slow start and for the Reno-friendly region.
    per_frame: bool,
    /// Whatever the window allows leaves at once, as from kernels that do not pace.
    unpaced: bool,
}

const fn change(name: &'static str, increase: Increase, per_frame: bool, unpaced: bool) -> Change {
    Change { name, increase, per_frame, unpaced }
}

const CHANGES: [Change; 6] = [
    change("per byte", Increase::PerByte, false, false),
    change("per byte, unpaced", Increase::PerByte, false, true),
    change("literal", Increase::Literal, false, false),
    change("literal, unpaced", Increase::Literal, false, true),
    change("per frame", Increase::Literal, true, false),
    change("per frame, unpaced", Increase::Literal, true, true),
];

impl RateLaw for Changed {
    fn on_sent(&mut self, sent: &Sent) {
        self.cubic.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &Ack) {
        let mut ack = *ack;
        if self.change.per_frame {
            ack.bytes = ack.bytes.min(tcp::MSS);
        }
        self.cubic.on_ack(&ack);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.cubic.on_loss(loss);
    }

    fn on_verdict(&mut self, verdict: &Verdict) {
        self.cubic.on_verdict(verdict);
    }

    fn on_undo(&mut self, undo: &Undo) {
        self.cubic.on_undo(undo);
    }

    fn plan(&self, now: Instant) -> Plan {
        let plan = self.cubic.plan(now);
        if self.change.unpaced { Plan::new(Rate::MAX, plan.window) } else { plan }
    }

    fn state(&self) -> &'static str {
        self.cubic.state()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("packets") => packets::print().map_err(|error| error as Box<dyn Error>)?,
        _ => causes()?,
    }
    Ok(())
}

fn causes() -> Result<(), Box<dyn Error>> {
    println!("share of the other flow in percent, ± of the mean; {SEEDS} seeds");
    let rows: Vec<_> = settings().into_iter().filter(|row| row.increase == Increase::PerByte).collect();
    print!("{:<20}", "buffer; ACK every");
    for row in &rows {
        print!("{:>13}", format!("{}; {}", Buffer::Bdp(row.buffer), row.every));
    }
    println!();
    for change in CHANGES {
        print!("{:<20}", change.name);
        let cells = thread::scope(|scope| {
            let runs: Vec<_> = rows.iter().map(|row| scope.spawn(move || cell(row, change))).collect();
            runs.into_iter().map(|run| run.join().expect("runs do not panic")).collect::<Vec<_>>()
        });
        for cell in cells {
            let (mean, deviation) = cell.map_err(|error| error as Box<dyn Error>)?;
            let of_mean = deviation / (SEEDS as f64).sqrt();
            print!("{:>13}", format!("{:.1} ± {:.1}", mean * 100.0, of_mean * 100.0));
        }
        println!();
    }
    Ok(())
}

fn cell(row: &Setting, change: Change) -> Result<(f64, f64), Box<dyn Error + Send + Sync>> {
    let law = move |start: PathStart| Changed { cubic: Cubic::with_increase(start, change.increase), change };
    let shares = (1..=SEEDS).map(|seed| row.run_law(seed, &Made::own(law))).collect::<Result<Vec<_>, _>>()?;
    Ok(mean_and_deviation(&shares))
}

const SEEDS: u64 = 4;
