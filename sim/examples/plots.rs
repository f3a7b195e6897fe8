//! Draws runs of WarpRATE over five media into `docs/plots/`: what it sends at and what arrives, and round trips.
//!
//! ```sh
//! cargo run --release -p warpsim --example plots
//! ```
#![allow(missing_docs, reason = "a program, not an interface")]

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use plotters::prelude::*;
use serde_json::Value;
use warpsim::published::preset;
use warpsim::scenario::Options;
use warpsim::topology::{LawSpec, Topology};
use warpsim::trace;

/// Name of the picture, and of a file in `docs/topologies/` or of a preset.
const MEDIA: &[(&str, &str)] = &[
    ("fibre", "fibre"),
    ("wifi", "wireless-wifi-txop-30ms"),
    ("lte", "wireless-lte-30ms"),
    ("5g", "wireless-5gnr-30ms"),
    ("radio", "radio"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    std::fs::create_dir_all(docs.join("plots"))?;
    for (picture, name) in MEDIA {
        let text = match preset(name) {
            Some(text) => text,
            None => std::fs::read_to_string(docs.join("topologies").join(name).with_extension("json"))?,
        };
        let topology = Topology::read(name, &text)?;
        let file = docs.join("plots").join(picture).with_extension("svg");
        let run = Series::of(&topology)?;
        run.draw(&file, &topology.about)?;
        println!("docs/plots/{picture}.svg  {}", topology.about);
    }
    Ok(())
}

/// What becomes of a run: points of time in seconds, and a value.
#[derive(Default)]
struct Series {
    /// Mbit/s.
    pace: Vec<(f64, f64)>,
    /// Mbit/s.
    arrival: Vec<(f64, f64)>,
    /// ms.
    round_trip: Vec<(f64, f64)>,
}

impl Series {
    fn of(topology: &Topology) -> Result<Self, Box<dyn Error>> {
        let lines = Lines::default();
        let options = Options { seed: 1, law: Some(LawSpec::Named("warprate")), ..Options::default() };
        let report = trace::run(topology, &options, Box::new(lines.clone()))?;
        let bytes = std::mem::take(&mut *lines.0.lock().expect("the run is over"));
        let end = report.ended_ns as f64 / 1e9;
        let mut series = Self::default();
        let (mut delivered, mut since) = (0.0, 0.0);
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line)?;
            let number = |name: &str| event[name].as_f64();
            // The receiver runs the law, too, and sends nothing.
            let Some(time) = number("t").filter(|_| event["flow"] == 0 && event["end"].is_null()) else {
                continue;
            };
            let time = time / 1e9;
            match event["event"].as_str() {
                Some("plan") => series.pace.extend(number("rate").map(|rate| (time, rate / 1e6))),
                Some("ack") => {
                    series.round_trip.extend(number("rtt").map(|rtt| (time, rtt / 1e6)));
                    delivered += number("bytes").unwrap_or(0.0);
                    if time - since >= end / POINTS {
                        series.arrival.push((time, delivered * 8.0 / 1e6 / (time - since)));
                        (delivered, since) = (0.0, time);
                    }
                }
                _ => {}
            }
        }
        series.pace = thinned(&series.pace, end);
        series.round_trip = thinned(&series.round_trip, end);
        Ok(series)
    }

    fn draw(&self, file: &Path, about: &str) -> Result<(), Box<dyn Error>> {
        let area = SVGBackend::new(file, (760, 420)).into_drawing_area();
        area.fill(&WHITE)?;
        let (above, below) = area.titled(about, ("sans-serif", 15))?.split_vertically(240);
        let end =
            [&self.pace, &self.round_trip].into_iter().flatten().map(|(time, _)| *time).fold(0.0, f64::max);
        let most = |points: &[(f64, f64)]| points.iter().map(|(_, value)| *value).fold(0.0, f64::max) * 1.05;
        // The start leaves at the interface's rate, far above most paths.
        let top = most(&self.arrival) * 1.5;
        let mut rates = ChartBuilder::on(&above)
            .margin(6)
            .set_label_area_size(LabelAreaPosition::Left, 60)
            .set_label_area_size(LabelAreaPosition::Bottom, 20)
            .build_cartesian_2d(0.0..end, 0.0..top)?;
        rates.configure_mesh().light_line_style(TRANSPARENT).y_desc("Mbit/s").draw()?;
        rates
            .draw_series(LineSeries::new(self.pace.iter().map(|(time, pace)| (*time, pace.min(top))), &RED))?
            .label("sent at")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], RED));
        rates
            .draw_series(LineSeries::new(self.arrival.iter().copied(), &BLUE))?
            .label("delivered")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLUE));
        rates.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
        let mut delays = ChartBuilder::on(&below)
            .margin(6)
            .set_label_area_size(LabelAreaPosition::Left, 60)
            .set_label_area_size(LabelAreaPosition::Bottom, 30)
            .build_cartesian_2d(0.0..end, 0.0..most(&self.round_trip))?;
        delays.configure_mesh().light_line_style(TRANSPARENT).y_desc("RTT, ms").x_desc("s").draw()?;
        delays.draw_series(LineSeries::new(self.round_trip.iter().copied(), &BLACK))?;
        area.present()?;
        Ok(())
    }
}

/// The last point of each part of the time, so that a picture stays small.
fn thinned(points: &[(f64, f64)], end: f64) -> Vec<(f64, f64)> {
    let part = |point: &(f64, f64)| (point.0 / end * 2.0 * POINTS).floor();
    points
        .chunk_by(|a, b| part(a).total_cmp(&part(b)).is_eq())
        .filter_map(|chunk| chunk.last().copied())
        .collect()
}

/// Where a trace goes.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().map_err(|_| io::ErrorKind::Other)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Of deliveries in a picture.
const POINTS: f64 = 150.0;
