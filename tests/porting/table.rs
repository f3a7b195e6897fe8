//! Reads what quinn offers out of its sources, and holds `docs/porting.md` against it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The platform that this is compiled on.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("rustc writes text");
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
}

/// Where a package's sources are, as cargo resolves it.
fn sources_of(package: &str) -> PathBuf {
    let output = Command::new(env!("CARGO"))
        // What other platforms need may never have been fetched.
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &host()])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("a list");
    let manifest = packages
        .iter()
        .find(|found| {
            found["name"] == package
                && found["version"].as_str().is_some_and(|version| version.starts_with("0.11."))
        })
        .unwrap_or_else(|| panic!("{package} 0.11 is a dependency"))["manifest_path"]
        .as_str()
        .expect("a path");
    Path::new(manifest).parent().expect("a file").join("src")
}

/// Types of quinn-proto that are quinn's and ours alike, so that their methods are the same.
const SHARED: &[&str] = &["ConfigError", "FrameStats", "UdpStats", "ValidationTokenConfig"];

fn read(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The word that `text` begins with.
fn word(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

/// The names that a crate's root re-exports.
fn reexports(root: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for statement in root.split(';') {
        let Some(list) = statement.split("\npub use ").nth(1) else { continue };
        let list = list.rsplit_once("::{").map_or(list, |(_, list)| list);
        let list = list.rsplit_once("::").filter(|_| !list.contains(',')).map_or(list, |(_, name)| name);
        for name in list.split(|c| !is_word(c)).filter(|name| !name.is_empty()) {
            names.insert(name.to_owned());
        }
    }
    names
}

/// What the types of a file offer: `Type::function`, `Type::Variant`, and `Type::field` where that is public.
fn members(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut of = None;
    let mut is_enum = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("pub struct ") {
            of = Some(word(rest));
        } else if let Some(rest) = line.strip_prefix("pub enum ") {
            (of, is_enum) = (Some(word(rest)), true);
        } else if let Some(rest) = line.strip_prefix("impl") {
            let rest =
                rest.strip_prefix('<').and_then(|rest| rest.split_once("> ")).map_or(rest, |(_, rest)| rest);
            of = Some(word(rest.trim_start())).filter(|_| !rest.contains(" for "));
        } else if line == "}" || line.starts_with("mod tests") {
            (of, is_enum) = (None, false);
        }
        let variant =
            line.strip_prefix("    ").filter(|item| is_enum && item.starts_with(char::is_uppercase));
        if let Some((of, variant)) = of.zip(variant) {
            names.insert(format!("{of}::{}", word(variant)));
        }
        let Some((of, item)) = of.zip(line.strip_prefix("    pub ")) else { continue };
        let item = item.trim_start_matches("async ").trim_start_matches("const ");
        let name = word(item.strip_prefix("fn ").unwrap_or(item));
        let is_member = item.starts_with("fn ") || item[name.len()..].starts_with(':');
        if is_member {
            names.insert(format!("{of}::{name}"));
        }
    }
    names
}

/// Everything that quinn offers: the names of its root, and what the types behind them do.
fn quinns() -> BTreeSet<String> {
    let (quinn, proto) = (sources_of("quinn"), sources_of("quinn-proto"));
    let roots = reexports(&read(quinn.join("lib.rs")));
    let files = ["endpoint", "connection", "incoming", "send_stream", "recv_stream"];
    let files = files.map(|name| quinn.join(name).with_extension("rs"));
    let mut names: BTreeSet<String> = files.into_iter().flat_map(|path| members(&read(path))).collect();
    // Of quinn-proto's types those that are not ours, too.
    for file in ["config/mod.rs", "config/transport.rs", "connection/stats.rs"] {
        names.extend(members(&read(proto.join(file))));
    }
    let is_public = |of: &str| roots.contains(of) && !SHARED.contains(&of);
    names.retain(|name| is_public(name.split("::").next().expect("a type")));
    names.extend(roots);
    for known in ["Written", "Endpoint::accept", "ReadError::Reset", "TransportConfig::send_window"] {
        assert!(names.contains(known), "{known} is not found: does this test still read quinn's sources?");
    }
    names
}

/// What we offer under the same names: from all of `src/conn`.
fn ours() -> BTreeSet<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut names = reexports(&read(src.join("lib.rs")));
    for path in files_below(&src.join("conn")) {
        names.extend(members(&read(path)));
    }
    names
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("readable").path();
        match path.is_dir() {
            true => files.append(&mut files_below(&path)),
            false => files.push(path),
        }
    }
    files
}

/// The rows of the table: quinn's name, and the cells beside it.
fn rows() -> Vec<(String, String, String)> {
    let text = read(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/porting.md"));
    let cells = |line: &str| -> Option<(String, String, String)> {
        let cells: Vec<_> =
            line.strip_prefix("| `")?.strip_suffix('|')?.split(" | ").map(str::trim).collect();
        let [name, ours, differs] = cells[..] else { panic!("{line}: three cells make a row") };
        Some((name.trim_end_matches('`').to_owned(), ours.to_owned(), differs.to_owned()))
    };
    text.lines().filter_map(cells).collect()
}

#[test]
fn everything_that_quinn_offers_has_a_row() {
    let rows: Vec<_> = rows().into_iter().map(|(name, ..)| name).collect();
    let names: BTreeSet<_> = rows.iter().cloned().collect();
    assert_eq!(rows.len(), names.len(), "a name has two rows");
    let quinns = quinns();
    let missing: Vec<_> = quinns.difference(&names).collect();
    let unknown: Vec<_> = names.difference(&quinns).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:#?}, not quinn's: {unknown:#?}");
}

#[test]
fn what_is_said_to_be_the_same_is_there_and_what_differs_says_why() {
    let ours = ours();
    let (same, different): (Vec<_>, Vec<_>) = rows().into_iter().partition(|(_, here, _)| here == "the same");
    let absent: Vec<_> = same.iter().map(|(name, ..)| name).filter(|name| !ours.contains(*name)).collect();
    assert!(absent.is_empty(), "not ours: {absent:#?}");
    let unexplained: Vec<_> = different.iter().filter(|(.., differs)| differs.is_empty()).collect();
    assert!(unexplained.is_empty(), "without a reason: {unexplained:#?}");
}
