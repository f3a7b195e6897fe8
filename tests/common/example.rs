//! The example `bulk_download`, which `cargo test` builds together with the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Runs it as its users do.
pub fn bulk_download() -> Command {
    let test = std::env::current_exe().expect("tests have a path");
    let profile = test.ancestors().nth(2).expect("tests lie in target/<profile>/deps");
    let example = profile.join("examples/bulk_download");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/bulk_download");
    assert!(
        modified(&example) >= newest(&sources),
        "{example:?} is missing or old: cargo build --example bulk_download (plain `cargo test` does so)"
    );
    Command::new(example)
}

/// A path of this test process only.
pub fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

fn modified(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|metadata| metadata.modified()).ok()
}

fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = folder.read_dir().expect("the example is a folder");
    let newest = |path: PathBuf| if path.is_dir() { newest(&path) } else { modified(&path) };
    entries.map(|entry| newest(entry.expect("readable").path())).max().flatten()
}
