//! The tree keeps its shape: who may import whom, and how long a file may grow.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules in import order: each may import those of the rows before it, and of its own row only itself.
const ROWS: &[&[&str]] = &[
    &["units"],
    &["signal"],
    &["loss", "cc", "pacer", "egress", "registry"],
    &["control"],
    &["conn"],
    &["stock", "h3"],
];

/// Where the outer world may be named.
const OUTER_WORLD: &[&str] =
    &["quinn_proto", "quinn_udp", "tokio", "rustls", "rustix", "nix", "netlink_packet_route"];
const OUTER_MODULES: &[&str] = &["conn", "stock", "h3"];

/// The only files that see quinn-proto's congestion controllers.
const CONGESTION_FILES: &[&str] = &["src/conn/tap.rs", "src/conn/drop_in.rs"];

const LONGEST_FILE: usize = 600;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `dir`, with its text.
fn sources(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            found.append(&mut sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path.clone(), fs::read_to_string(&path).unwrap());
        }
    }
    found
}

/// The module of `src/` that a file belongs to: `src/loss/ledger.rs` is `loss`.
fn module_of(path: &Path) -> String {
    let relative = path.strip_prefix(root().join("src")).expect("a file of src");
    let first =
        relative.components().next().expect("not src itself").as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

fn row_of(module: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&module))
}

/// The lines that are code: no comments, no text of the unit tests at the file's bottom, and nothing of
/// a file that is all tests and says so (`#![cfg(test)]`).
fn code(text: &str) -> impl Iterator<Item = &str> {
    let is_test = text.lines().any(|line| line == "#![cfg(test)]");
    let code = text.split("#[cfg(test)]\nmod tests").next().filter(|_| !is_test);
    code.unwrap_or_default().lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// The modules named as `crate::module` in a line.
fn imports(line: &str) -> impl Iterator<Item = &str> {
    line.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

#[test]
fn modules_import_only_from_the_rows_before_them() {
    for (path, text) in sources(&root().join("src")) {
        let module = module_of(&path);
        let Some(row) = row_of(&module) else { continue };
        for imported in code(&text).flat_map(imports) {
            let Some(imported_row) = row_of(imported) else { continue };
            assert!(
                imported_row < row || imported == module,
                "{} imports `{imported}`, which is not before `{module}`",
                path.display()
            );
        }
    }
}

#[test]
fn every_module_has_its_row() {
    for path in sources(&root().join("src")).into_keys() {
        let module = module_of(&path);
        let is_known = row_of(&module).is_some() || ["lib", "test_clock"].contains(&module.as_str());
        assert!(is_known, "{}: give `{module}` a row in tests/layout.rs", path.display());
    }
}

#[test]
fn the_core_does_not_know_the_outer_world() {
    for (path, text) in sources(&root().join("src")) {
        let module = module_of(&path);
        if OUTER_MODULES.contains(&module.as_str()) || module == "lib" {
            continue;
        }
        for name in OUTER_WORLD {
            let is_named = code(&text).any(|line| line.contains(&format!("{name}::")));
            assert!(!is_named, "{} names `{name}`", path.display());
        }
    }
}

#[test]
fn only_the_seam_sees_quinns_controllers() {
    for (path, text) in sources(&root().join("src")) {
        let relative = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let names_it = code(&text).any(|line| line.contains("quinn_proto::congestion"));
        assert!(
            !names_it || CONGESTION_FILES.contains(&relative.as_str()),
            "{relative} names quinn_proto::congestion"
        );
    }
}

#[test]
fn the_library_reads_the_clock_in_one_place() {
    for (path, text) in sources(&root().join("src")) {
        let is_the_clock = path.ends_with("conn/clock.rs") || path.ends_with("test_clock.rs");
        let reads = code(&text).any(|line| line.contains("Instant::now"));
        assert!(is_the_clock || !reads, "{} reads the clock", path.display());
    }
}

#[test]
fn the_leaf_crates_know_nothing_above_them() {
    for (dir, forbidden) in [("units/src", &["warplink", "warprate"][..]), ("link/src", &["warprate"])] {
        for (path, text) in sources(&root().join(dir)) {
            for name in forbidden {
                let is_named = code(&text).any(|line| line.contains(&format!("{name}::")));
                assert!(!is_named, "{} names `{name}`", path.display());
            }
        }
    }
}

#[test]
fn files_stay_short_enough_to_read() {
    for dir in ["src", "units", "link", "sim", "cli", "tests", "benches", "examples"] {
        for (path, text) in sources(&root().join(dir)) {
            let lines = text.lines().count();
            assert!(lines <= LONGEST_FILE, "{} has {lines} lines: split it", path.display());
        }
    }
}
