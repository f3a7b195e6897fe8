//! The example `bulk_download`, run as its users run it.
#![cfg(unix)]

mod common;

use std::process::Output;

use common::example::{self, scratch};
use serde_json::Value;

fn bulk_download(arguments: &[&str]) -> Output {
    example::bulk_download().args(arguments).output().expect("the example starts")
}

/// The exit status, and what was said on stderr.
fn refusal(arguments: &[&str]) -> (Option<i32>, String) {
    let output = bulk_download(arguments);
    assert!(output.stdout.is_empty(), "{arguments:?} ran");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn nonsense_is_refused_by_its_option_and_the_expected_form() {
    let cases = [
        ("--bytes", "lots", "`10 MB`"),
        ("--bytes", "0", "at least one byte"),
        ("--bytes", "-1", "at least one byte"),
        ("--rate", "100", "`100 Mbit/s`"),
        ("--rate", "0 Mbit/s", "at least 1 kbit/s"),
        ("--rate", "-1 Mbit/s", "`100 Mbit/s`"),
        ("--rtt", "40", "`40ms`"),
        ("--rtt", "-40ms", "`40ms`"),
        ("--rtt", "3days", "at most 10s"),
        ("--loss", "1.5", "from 0 to 1"),
        ("--loss", "101%", "from 0 to 1"),
        ("--loss", "-1%", "from 0 to 1"),
        ("--loss", "NaN", "from 0 to 1"),
        ("--loss", "some", "`1%` or `0.01`"),
        ("--loss", "100%", "nothing would arrive"),
        ("--ack-loss", "2", "from 0 to 1"),
        ("--jitter", "2", "`40ms`"),
        ("--jitter", "-2ms", "`40ms`"),
        ("--jitter", "2ms,sideways", "`2ms,reorder`"),
        ("--buffer", "much", "`1 BDP`"),
        ("--buffer", "-1 BDP", "`1 BDP`"),
        (
            "--law",
            "vegas",
            "warprate, fixed, cubic, newreno, bbr3, quinn-cubic, quinn-newreno, quinn-bbr, quinn",
        ),
        ("--law", "", "warprate, fixed, cubic, newreno, bbr3, quinn-cubic, quinn-newreno, quinn-bbr, quinn"),
        ("--seed", "-1", "whole number"),
    ];
    for (option, value, expected) in cases {
        let (status, message) = refusal(&[option, value]);
        assert_eq!(status, Some(2), "{option} {value}: {message}");
        assert!(message.contains(option) && message.contains(expected), "{option} {value}: {message}");
    }
}

#[test]
fn options_that_do_not_exist_are_refused() {
    let (status, message) = refusal(&["--speed", "fast"]);
    assert_eq!(status, Some(2));
    assert!(message.contains("--speed"), "{message}");
}

#[test]
fn a_file_that_cannot_be_written_is_reported_before_anything_runs() {
    let (status, message) = refusal(&["--json", "/nonexistent/results.json"]);
    assert_eq!(status, Some(1));
    assert!(message.contains("--json") && message.contains("/nonexistent/results.json"), "{message}");
}

#[test]
fn a_download_fills_its_json_row() {
    let file = scratch("results.json");
    // Longer than what is to come: nothing of it may remain.
    std::fs::write(&file, "x".repeat(10_000)).expect("the scratch directory exists");
    let name = file.to_str().expect("cargo's path is UTF-8");
    let output = bulk_download(&["--bytes", "1 MB", "--law", "fixed", "--loss", "2%", "--json", name]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("options given: --bytes '1 MB' --law fixed --loss 2% --json"), "{stdout}");

    let rows: Value = serde_json::from_slice(&std::fs::read(&file).expect("it was written")).expect("JSON");
    std::fs::remove_file(&file).expect("it is ours");
    let [row] = rows.as_array().expect("an array").as_slice() else { panic!("not one row: {rows}") };
    assert_eq!(row.as_object().expect("an object").len(), 12, "{row}");
    let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("no number `{key}` in {row}"));
    assert_eq!(row["law"], "fixed");
    assert_eq!(row["bytes"], 1_000_000);
    // 1 MB at 95 % of 100 Mbit/s, repairs and half a round trip take about 150 ms.
    assert!((0.1..5.0).contains(&number("seconds")), "{row}");
    let goodput = number("goodput_mbps");
    assert!((goodput - 8.0 / number("seconds")).abs() < 0.01, "{row}");
    assert!((0.02..2.0).contains(&number("oracle_ratio")), "{row}");
    assert!((40.0..2000.0).contains(&number("connect_ms")), "{row}");
    assert!(number("sent_packets") >= 700.0 && number("lost_packets") < number("sent_packets"), "{row}");
    assert!(number("rtt_min_ms") >= 40.0, "{row}");
    assert!(number("rtt_mean_ms") >= number("rtt_min_ms"), "{row}");
    assert!(number("rtt_p95_ms") >= number("rtt_min_ms"), "{row}");
    assert!((0.0..5.0).contains(&number("cpu_seconds")), "{row}");
}

#[test]
fn all_laws_appear_in_the_table_in_the_order_asked_for() {
    let output = bulk_download(&[
        "--bytes",
        "200 kB",
        "--loss",
        "0",
        "--law",
        "quinn,quinn-bbr,bbr3,newreno,cubic,fixed",
    ]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("│ "));
    let laws: Vec<_> = lines.filter_map(|line| line.split_whitespace().next()).skip(2).collect();
    assert_eq!(laws, ["quinn", "quinn-bbr", "bbr3", "newreno", "cubic", "fixed"], "{stdout}");
}

#[test]
#[ignore = "takes as long as the idle timeout, 30 s"]
fn a_row_that_fails_is_shown_and_sets_the_exit_status() {
    // The handshake has next to no chance before the idle timeout.
    let file = scratch("failed.json");
    let name = file.to_str().expect("cargo's path is UTF-8");
    let arguments = ["--loss", "99.9%", "--ack-loss", "99.9%", "--law", "fixed", "--json", name];
    let output = bulk_download(&arguments);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("failed") && stdout.contains("0 B of 10 MB had arrived"), "{stdout}");
    let rows: Value = serde_json::from_slice(&std::fs::read(&file).expect("it was written")).expect("JSON");
    std::fs::remove_file(&file).expect("it is ours");
    assert!(rows[0]["error"].is_string(), "{rows}");
}
