//! Duels keep to theory where it says something, and to the snapshot. `warp sim duels` runs all of them.

use std::time::Duration;

use warpsim::duels::{self, Duel, Figures};
use warpsim::laws;
use warpsim::topology::text::Multiple;

/// Our laws against each other at one BDP: those whose runs repeat.
fn ours() -> Vec<Duel> {
    let is_ours = |name: &&str| laws::find(name).is_some_and(|law| !law.is_foreign());
    let names: Vec<_> = duels::contenders().into_iter().filter(is_ours).collect();
    let at_one_bdp = |duel: &Duel| duel.buffer == Multiple::millionths(1_000_000);
    duels::all(&names).into_iter().filter(at_one_bdp).collect()
}

fn assert_expected(duels: &[Duel]) {
    let snapshot = duels::snapshot();
    for duel in duels {
        let found = duel.run().expect("it runs");
        let departures = duel.departures(&found, &snapshot);
        assert!(departures.is_empty(), "{}: {departures:?}", duel.name());
    }
}

#[test]
fn our_laws_share_with_themselves_as_expected() {
    let duels: Vec<_> = ours().into_iter().filter(|duel| duel.laws[0] == duel.laws[1]).collect();
    assert_expected(&duels);
}

#[test]
fn our_laws_share_with_each_other_as_in_the_snapshot() {
    let duels: Vec<_> = ours().into_iter().filter(|duel| duel.laws[0] != duel.laws[1]).collect();
    assert_expected(&duels);
}

#[test]
fn the_snapshot_has_every_duel() {
    let snapshot = duels::snapshot();
    for duel in duels::all(&duels::contenders()) {
        let name = duel.name();
        assert!(snapshot.contains_key(&name), "`{name}` is not in the snapshot: run `warp sim duels --json`");
    }
}

#[test]
fn laws_meet_at_equal_and_unequal_round_trips() {
    // Of two laws: each with itself, equal and unequal, and each other, equal and unequal either way.
    let names = |duels: Vec<Duel>| duels.iter().map(Duel::name).collect::<Vec<_>>();
    let duels = names(duels::all(&["cubic", "bbr3"]));
    assert_eq!(duels.len(), 3 * (2 + 2 + 3));
    for name in
        ["cubic 10ms, bbr3 100ms, 0.5 BDP", "cubic 100ms, bbr3 10ms, 4 BDP", "bbr3 40ms, bbr3 40ms, 1 BDP"]
    {
        assert!(duels.contains(&name.to_owned()), "{name}");
    }
    assert!(!duels::contenders().contains(&"fixed"));
}

#[test]
fn newreno_is_expected_between_one_and_two_powers_of_the_round_trip() {
    let duel = Duel {
        laws: ["newreno"; 2],
        rtts: [Duration::from_millis(10), Duration::from_millis(100)],
        buffer: Multiple::millionths(1_000_000),
    };
    let found = |share| Figures {
        share,
        jain: 0.0,
        utilisation: 1.0,
        queue_ms: 20.0,
        queue_p95_ms: 100.0,
        loss: [0.0; 2],
    };
    // 30 and 120 ms with the queue: from 4 : 1 to 16 : 1.
    let departs = |share| !duel.departures(&found(share), &duels::Snapshot::new()).is_empty();
    assert_eq!([0.79, 0.81, 0.93, 0.95].map(departs), [true, false, false, true]);
}
