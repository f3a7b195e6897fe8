//! Reading of topologies: every kind of mistake has its message, and the published schema is the reader's.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use warplink::{Losses, Probability};
use warpsim::topology::text::Text;
use warpsim::topology::{Buffer, Pace, SCHEMA, Topology, Window};
use warpunits::{Bytes, Rate};

const EVERYTHING: &str = include_str!("data/everything.json");

/// What the reader says to the example with `from` replaced by `to`.
fn refusal(from: &str, to: &str) -> (String, String) {
    assert!(EVERYTHING.contains(from), "the example has no {from}");
    let error = Topology::read("t.json", &EVERYTHING.replacen(from, to, 1)).expect_err(to);
    assert!(error.to_string().starts_with("t.json: "), "{error}");
    (error.path().to_owned(), error.to_string())
}

/// In the example, what is replaced by what, the place that is named, and a part of the message.
const MISTAKES: &[(&str, &str, &str, &str)] = &[
    // Quantities.
    (r#""rate": "100 Mbit/s""#, r#""rate": "0 Mbit/s""#, "links.bottleneck.rate", "a rate above zero"),
    (r#""rate": "100 Mbit/s""#, r#""rate": "100""#, "links.bottleneck.rate", "a rate above zero"),
    (r#""rate": "100 Mbit/s""#, r#""rate": 100"#, "links.bottleneck.rate", "integer `100`, expected a rate"),
    (r#""delay": "10 ms""#, r#""delay": "10 km""#, "links.bottleneck.delay", "such as `40 ms`"),
    (r#""delay": "10 ms""#, r#""delay": "-1 ms""#, "links.bottleneck.delay", "such as `40 ms`"),
    (r#""delay": "10 ms""#, r#""delay": "90000 s""#, "links.bottleneck.delay", "at most a day"),
    (r#""buffer": "2 BDP""#, r#""buffer": "2 bdp""#, "links.bottleneck.buffer", "`4 BDP`"),
    (r#""loss": "0.5 %""#, r#""loss": "101 %""#, "links.bottleneck.loss", "from `0 %` to `100 %`"),
    (r#""loss": "0.5 %""#, r#""loss": "1 in 0""#, "links.bottleneck.loss", "`1 in 64`"),
    (r#""loss": "0.5 %""#, r#""loss": 1.5"#, "links.bottleneck.loss", "floating point `1.5`"),
    (r#""bytes": "2 MB""#, r#""bytes": "0 B""#, "flows[0].bytes", "a size above zero"),
    (r#""duration": "2 s""#, r#""duration": "0 s""#, "duration", "no length"),
    (r#""slots": "0.5 ms""#, r#""slots": "0 ms""#, "links.bottleneck.slots", "no length"),
    (r#""slots": "0.5 ms""#, r#""slots": null"#, "links.bottleneck.slots", "null"),
    // Names.
    (r#""fifo" }"#, r#""lifo" }"#, "links.bottleneck.jitter.order", "`fifo` or `reorder`"),
    (r#""queue": "fifo""#, r#""queue": "red""#, "links.bottleneck.queue", "`fifo`"),
    (r#""host": "quic""#, r#""host": "sctp""#, "flows[0].host", "`quic`"),
    (r#""law": "fixed""#, r#""law": "vegas""#, "flows[1].law", "`quinn-bbr`"),
    (r#""law": "fixed""#, r#""law": {"vegas": {}}"#, "flows[1].law", "`quinn-bbr`"),
    (r#""law": "fixed""#, r#""law": {}"#, "flows[1].law", "a law"),
    (r#""rate": "40 Mbit/s""#, r#""rate": "0 %""#, "flows[0].law.fixed.rate", "`97 %`"),
    (r#""window": "2 BDP""#, r#""window": "big""#, "flows[0].law.fixed.window", "`measured`"),
    // Structure.
    (r#""about""#, r#""abuot""#, "abuot", "unknown field `abuot`"),
    (r#""slots""#, r#""slot""#, "links.bottleneck.slot", "unknown field `slot`"),
    (r#""name": "everything","#, "", ".", "missing field `name`"),
    (r#""name": "everything""#, r#""name": """#, "name", "empty"),
    (r#""return": {"#, r#""bottleneck": {"#, "links", "duplicate link `bottleneck`"),
    (r#""name": "noise""#, r#""name": "download""#, "flows[2].name", "duplicate flow `download`"),
    (r#""name": "noise""#, r#""name": "flow1""#, "flows[2].name", "duplicate flow `flow1`"),
    (
        r#""forward": ["bottleneck"]"#,
        r#""forward": ["nowhere"]"#,
        "flows[0].forward[0]",
        "`bottleneck`, `return`",
    ),
    (r#""forward": ["bottleneck"]"#, r#""forward": []"#, "flows[0].forward", "at least one"),
    (r#""reverse": ["return"]"#, r#""reverse": []"#, "flows[0].reverse", "at least one"),
    (r#"["return"]"#, r#"["return", "return"]"#, "flows[0].reverse[1]", "twice"),
    (r#""mtu": 1400"#, r#""mtu": 9000"#, "flows[0].mtu", "1200..=1472"),
    (r#""mtu": 1400"#, r#""mtu": 70000"#, "flows[0].mtu", "u16"),
    (r#""start": "0.1 s""#, r#""start": "2 s""#, "flows[1].start", "duration"),
    // Schedules.
    (r#"{ "at": "1 s","#, r#"{ "at": "0.5 s","#, "links.bottleneck.steps[1].at", "not later"),
    (
        r#"{ "at": "0.5 s", "rate": "50 Mbit/s" }"#,
        r#"{ "at": "0.5 s" }"#,
        "links.bottleneck.steps[0]",
        "`delay`",
    ),
    (r#""loss": "0.5 %" }]"#, r#""loss": "100 %" }]"#, "links.bottleneck.steps[1].loss", "less after it"),
    (
        r#"[{ "at": "0.7 s""#,
        r#"[{ "at": "0.6 s", "for": "1 s" }, { "at": "0.7 s""#,
        "links.bottleneck.outages[1].at",
        "before the end",
    ),
    // What does not fit the kind of host.
    (r#""law": "fixed""#, r#""law": "quinn-cubic""#, "flows[1].law", "a law of warprate's"),
    (r#""law": "fixed","#, "", "flows[1].law", "a law of warprate's"),
    (r#""ack_every": 4"#, r#""ack_every": 0"#, "flows[1].receiver.ack_every", "above zero"),
    (
        r#""receiver": { "batch""#,
        r#""receiver": { "ack_every": 3, "batch""#,
        "flows[0].receiver.ack_every",
        "`quic`",
    ),
    (r#""name": "noise","#, r#""law": "fixed","#, "flows[2].law", "`udp`"),
    (r#""name": "noise","#, r#""bytes": "1 MB","#, "flows[2].bytes", "`udp`"),
    (r#""rate": "10 Mbit/s","#, "", "flows[2].rate", "missing"),
    (r#""mtu": 1400"#, r#""stop": "1 s""#, "flows[0].stop", "`quic`"),
    (r#""client": "receiver""#, r#""client": "server""#, "flows[0].client", "`receiver` or `sender`"),
    (r#""name": "noise","#, r#""client": "sender","#, "flows[2].client", "`udp`"),
    // Yardsticks.
    (r#""rtt": "100 ms""#, r#""rtt": "0.1""#, "yardsticks[1].rtt", "such as `40 ms`"),
    (r#", "rtt": "100 ms""#, "", "yardsticks[1]", "one of `done`, `rtt` and `startup`"),
    (r#""rtt": "100 ms""#, r#""rtt": "1 s", "done": "1 s""#, "yardsticks[1]", "one of `done`"),
    (r#""rtt": "100 ms""#, r#""rtt": "1 s", "since": "1 s""#, "yardsticks[1].since", "beside `done`"),
    (r#""law": "bbr3", "rtt""#, r#""law": "quinn-bbr", "rtt""#, "yardsticks[1].law", "a law of warprate's"),
    (r#""bytes": "2 MB","#, "", "flows[0].bytes", "`yardsticks`"),
    // Exchanges.
    (r#""mtu": 1400"#, r#""request": "1 kB""#, "flows[0].request", "`quic`"),
    (r#""name": "noise","#, r#""request": "1 kB","#, "flows[2].request", "`udp`"),
    (r#""bytes": "5 kB","#, "", "flows[3].bytes", "the answer to `request`"),
    (r#""request": "1 kB""#, r#""request": "0 B""#, "flows[3].request", "a size above zero"),
    (r#""request": "1 kB""#, r#""request": 20"#, "flows[3].request", "integer `20`, expected a size"),
];

#[test]
fn every_mistake_is_named_with_its_place_and_the_form_expected_there() {
    for (from, to, path, message) in MISTAKES {
        let (found, text) = refusal(from, to);
        assert_eq!(found, *path, "{text}");
        assert!(text.contains(message), "{to}: {text}");
    }
}

#[test]
fn a_way_of_more_than_a_day_is_refused() {
    let long = EVERYTHING.replace(r#""delay": "10 ms""#, r#""delay": "1000 min""#);
    assert!(Topology::read("t.json", &long).is_ok());
    let both = long.replacen(r#""forward": ["bottleneck"]"#, r#""forward": ["bottleneck", "return"]"#, 1);
    let error = Topology::read("t.json", &both).unwrap_err();
    assert_eq!(error.path(), "flows[0].forward");
    assert!(error.to_string().contains("at most a day"), "{error}");
}

#[test]
fn what_is_no_json_is_refused() {
    for text in ["", "{", "[]", "null", "5", "{}{}", "\u{0}"] {
        assert!(Topology::read("t.json", text).is_err(), "{text:?}");
    }
    let twice = format!("{EVERYTHING}{EVERYTHING}");
    assert!(Topology::read("t.json", &twice).unwrap_err().to_string().contains("trailing characters"));
    let deep = "[".repeat(100_000);
    assert!(Topology::read("t.json", &deep).is_err());
}

#[test]
fn the_example_is_read_and_runs() {
    let topology = Topology::read("everything.json", EVERYTHING).unwrap();
    let options = warpsim::scenario::Options { seed: 1, ..Default::default() };
    let report = warpsim::scenario::run(&topology, &options).unwrap();
    assert!(report.flows[0].is_finished, "{report:#?}");
    assert!(report.flows[3].exchange_ns.is_some() && report.flows[3].received_bytes == 5_000, "{report:#?}");
    assert!(report.flows.iter().all(|flow| flow.received_bytes > 0), "{report:#?}");
}

/// Every object of the format: its schema and where the example has one.
const OBJECTS: &[(&str, &str)] = &[
    ("", ""),
    ("/$defs/link", "/links/bottleneck"),
    ("/$defs/jitter", "/links/bottleneck/jitter"),
    ("/$defs/step", "/links/bottleneck/steps/0"),
    ("/$defs/outage", "/links/bottleneck/outages/0"),
    ("/$defs/yardstick", "/yardsticks/0"),
    ("/$defs/flow", "/flows/0"),
    ("/$defs/fixed/properties/fixed", "/flows/0/law/fixed"),
    ("/$defs/receiver", "/flows/0/receiver"),
    ("/$defs/on_off", "/flows/2/on_off"),
];

#[test]
fn the_schema_has_the_readers_fields() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for (object, example) in OBJECTS {
        let properties = schema.pointer(&format!("{object}/properties")).unwrap().as_object().unwrap();
        let in_schema: BTreeSet<_> = properties.keys().cloned().collect();
        let mut document: Value = serde_json::from_str(EVERYTHING).unwrap();
        document.pointer_mut(example).unwrap()["no such field"] = json!(0);
        let error = Topology::read("t.json", &document.to_string()).unwrap_err().to_string();
        let (_, expected) = error.split_once("expected ").expect(&error);
        let in_reader: BTreeSet<_> = expected.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert_eq!(in_schema, in_reader, "{object}");
        assert_eq!(schema.pointer(object).unwrap()["additionalProperties"], json!(false), "{object}");
    }
}

#[test]
fn the_schema_requires_what_the_reader_requires() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for (object, example) in OBJECTS {
        let required = &schema.pointer(object).unwrap()["required"];
        let properties = schema.pointer(&format!("{object}/properties")).unwrap().as_object().unwrap();
        for field in properties.keys() {
            let mut document: Value = serde_json::from_str(EVERYTHING).unwrap();
            document.pointer_mut(example).unwrap().as_object_mut().unwrap().remove(field);
            let error = Topology::read("t.json", &document.to_string()).err();
            let is_missed = error.is_some_and(|error| error.to_string().contains("missing field"));
            let is_required = required.as_array().is_some_and(|required| required.contains(&json!(field)));
            assert_eq!(is_missed, is_required, "{object} {field}");
        }
    }
}

#[test]
fn the_schemas_patterns_are_the_readers() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    // The reader takes `5.` for some; the schema need not say so.
    let numbers = ["", "8", "0.5", "12.25", "80", ".5", "-1", "1e3", "1.0000000001"];
    let units = [
        "", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "bps", "Mbps",
        "ns", "us", "µs", "ms", "s", "min", "h", "%", "BDP", "packet", "packets", "measured", "in 64",
        "in 0",
    ];
    type Reads = fn(&str) -> bool;
    let kinds: [(&str, Reads); 8] = [
        ("rate", |text| Rate::from_text(text).is_some()),
        ("size", |text| Bytes::from_text(text).is_some()),
        ("time", |text| std::time::Duration::from_text(text).is_some()),
        ("losses", |text| Losses::from_text(text).is_some()),
        ("probability", |text| Probability::from_text(text).is_some()),
        ("buffer", |text| Buffer::from_text(text).is_some()),
        ("pace", |text| Pace::from_text(text).is_some()),
        ("window", |text| Window::from_text(text).is_some()),
    ];
    for (kind, reads) in kinds {
        let pattern = schema.pointer(&format!("/$defs/{kind}/pattern")).unwrap().as_str().unwrap();
        let pattern = regex::Regex::new(pattern).unwrap();
        for number in numbers {
            for unit in units {
                for text in [format!("{number} {unit}"), format!("{number}{unit}")] {
                    // Parts that are not whole, such as `0.5 packets` or 12 bit/s, are the reader's alone.
                    let is_whole = !text.contains('.') || reads(&text);
                    if text.trim() == text && is_whole {
                        assert_eq!(pattern.is_match(&text), reads(&text), "{kind}: {text:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_schema_and_the_reader_know_the_same_periodic_losses() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let pattern = schema.pointer("/$defs/losses/pattern").unwrap().as_str().unwrap();
    let pattern = regex::Regex::new(pattern).unwrap();
    for text in ["1 in 64", "1 in 1", "1 in 0", "1 in", "2 in 64", "1 in 6.4", "1in 64"] {
        assert_eq!(pattern.is_match(text), Losses::from_text(text).is_some(), "{text:?}");
    }
}

/// Any JSON at all.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[0-9.]{0,12} ?(ms|s|Mbit/s|MB|BDP|%|packets)".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{0,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Every place of a document.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| places(value, &format!("{at}/{key}"), found))
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, value)| places(value, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Topology::read("t.json", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn reading_never_panics_wherever_something_else_stands(json in any_json(), place in any::<prop::sample::Index>()) {
        let mut document: Value = serde_json::from_str(EVERYTHING).unwrap();
        let mut all = Vec::new();
        places(&document, "", &mut all);
        *document.pointer_mut(place.get::<String>(&all)).unwrap() = json;
        if let Ok(topology) = Topology::read("t.json", &document.to_string()) {
            // What is read makes sense to the rest, too.
            for (name, link) in topology.links.iter() {
                prop_assert!(warpsim::scenario::profile(&topology, name, link).is_ok());
            }
        }
    }
}
