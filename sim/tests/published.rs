//! The reference grid and its presets.

use std::collections::BTreeSet;
use std::path::Path;

use warpsim::published::{WRITTEN, cells, preset};
use warpsim::topology::{LawSpec, Topology};
use warpunits::Bytes;

#[test]
fn the_presets_are_current() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    for cell in cells() {
        let text = std::fs::read_to_string(dir.join(format!("{}.json", cell.id))).unwrap_or_default();
        assert!(text == cell.to_json(), "{} is stale: run `warp sim presets`", cell.id);
    }
}

#[test]
fn every_preset_and_every_documents_example_is_a_topology() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (dir, prefix) in [
        ("scenarios", ""),
        ("scenarios/picoquic", "picoquic/"),
        ("scenarios/bbr2", "bbr2/"),
        ("../docs/topologies", ""),
    ] {
        let paths = std::fs::read_dir(root.join(dir)).unwrap().map(|entry| entry.unwrap().path());
        for path in paths.filter(|path| path.is_file()) {
            let text = std::fs::read_to_string(&path).unwrap();
            let topology = Topology::read(&path.display().to_string(), &text).unwrap();
            assert_eq!(format!("{prefix}{}", path.file_stem().unwrap().to_str().unwrap()), topology.name);
            assert!(prefix.is_empty() || preset(&topology.name).is_some(), "{} is no preset", topology.name);
        }
    }
}

#[test]
fn every_cell_has_its_own_name() {
    let names: BTreeSet<_> = cells().into_iter().map(|cell| cell.id).collect();
    assert_eq!(names.len(), cells().len());
    assert!(WRITTEN.iter().all(|(name, _)| !names.contains(*name)));
}

#[test]
fn presets_outside_the_grid_are_found_by_name() {
    for (name, text) in WRITTEN {
        assert_eq!(preset(name).as_deref(), Some(*text));
    }
    assert_eq!(preset("no-such-preset"), None);
}

#[test]
fn published_figures_stand_beside_their_cells() {
    let figure = |id: &str, law: &str| {
        let cell = cells().into_iter().find(|cell| cell.id == id).unwrap();
        cell.published(&LawSpec::named(law).unwrap()).map(|figure| figure.text)
    };
    assert_eq!(figure("clean-1g-2ms", "quinn-cubic").as_deref(), Some("883"));
    assert_eq!(figure("jitter-1ms-reorder", "quinn-cubic").as_deref(), Some("350"));
    assert_eq!(figure("jitter-5ms-loss-1pct-fifo", "quinn-cubic").as_deref(), Some("< 20"));
    assert_eq!(figure("wireless-lte-30ms", "quinn-bbr").as_deref(), Some("56 to 178"));
    assert_eq!(figure("clean-1g-2ms", "fixed"), None);
    let warprate = |id: &str| {
        let cell = cells().into_iter().find(|cell| cell.id == id).unwrap();
        cell.published_as("warprate").and_then(|figure| figure.mbps)
    };
    assert_eq!((warprate("jitter-200ms-fifo"), warprate("rtt-5ms")), (Some(91.0), None));
    assert_eq!(figure("rtt-5ms", "quinn-cubic"), None);
}

#[test]
fn paths_around_a_cell_are_within_a_factor_of_two_and_follow_from_their_seed() {
    for cell in cells() {
        for n in 0..20 {
            let near = cell.around(7, n);
            assert_eq!(near, cell.around(7, n));
            assert!(near.rtt >= cell.rtt / 2 && near.rtt <= cell.rtt * 2);
            let (rate, base) = (near.rate.as_bits_per_sec(), cell.rate.as_bits_per_sec());
            assert!(rate >= base / 2 - 8 && rate <= base * 2, "{} {}", near.rate, cell.rate);
            assert!(near.sigma_data <= cell.sigma_data * 2);
            assert!(near.bytes.times(2) + Bytes::new(2) >= cell.bytes && near.bytes <= cell.bytes.times(2));
            assert_eq!(near.topology().links.get("bottleneck").unwrap().rate, near.rate);
        }
    }
    let cell = &cells()[0];
    assert_ne!(cell.around(1, 0).rate, cell.around(2, 0).rate);
    assert_ne!(cell.around(1, 0).rate, cell.around(1, 1).rate);
}
