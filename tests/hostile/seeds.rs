//! What the fuzzers keep (`fuzz/seeds`), without a fuzzer.

use std::fs;
use std::path::PathBuf;

use arbitrary::{Arbitrary, Unstructured};

use crate::{established, feedback, strangers};

/// The seeds of a target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let files = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let seeds: Vec<_> = files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(!seeds.is_empty());
    seeds
}

/// As libFuzzer's target reads them.
fn read<T: for<'a> Arbitrary<'a>>(seed: &[u8]) -> Option<T> {
    T::arbitrary_take_rest(Unstructured::new(seed)).ok()
}

#[test]
fn established_connections_bear_them() {
    seeds("established").iter().for_each(|seed| established::meet(&established::payloads(seed)));
}

#[test]
fn endpoints_bear_them() {
    seeds("strangers").iter().filter_map(|seed| read(seed)).for_each(|all: Vec<_>| strangers::meet(&all));
}

#[test]
fn the_control_loop_bears_them() {
    seeds("feedback").iter().filter_map(|seed| read(seed)).for_each(|steps: Vec<_>| feedback::feed(&steps));
}
