"""Runs each peer against ours, as server and as client, and prints which cells pass."""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import certificates
import witness
from witness import Story

HERE = Path(__file__).parent
DEADLINE = 60
# A program's word for what its library cannot do, as in the QUIC interop runner.
CANNOT = 127
MB = 1_000_000
# What the server has sent when the client's address changes.
MOVES_AFTER = 2 * MB


@dataclass
class Program:
    name: str
    version: str
    command: list[str]
    is_ours: bool = False


@dataclass
class Cell:
    name: str
    # Sizes of the files.
    files: list[int]
    check: Callable[[Story], str | None]
    server: tuple[str, ...] = ()
    client: tuple[str, ...] = ()
    rebind_after: int | None = None
    handshakes: int = 1


@dataclass
class Outcome:
    status: str
    note: str = ""
    seconds: float = 0.0


class Failure(Exception):
    """Why a cell fails."""


class Impossible(Exception):
    """Why a cell cannot be run."""


def nothing_more(_: Story) -> str | None:
    return None


def retried(story: Story) -> str | None:
    if not story.retry_tokens:
        return "no Retry was sent"
    # A client whose first flight is two datagrams gets two, and takes up one (RFC 9000 section 17.2.5.2).
    if not set(story.retry_tokens) & set(story.tokens):
        return "the token of the Retry did not come back"
    return None


def resumed(story: Story) -> str | None:
    if story.handshakes[0].is_resumed:
        return "the first handshake was resumed"
    return None if story.handshakes[-1].is_resumed else "the second handshake was not resumed"


def sent_early(story: Story) -> str | None:
    if not story.early_packets:
        return "no 0-RTT packet was sent"
    return None if story.handshakes[-1].took_early_data else "the server refused the early data"


def updated(story: Story) -> str | None:
    # quinn-proto updates once by itself, within its first thousand packets: at our client that will do as well.
    return None if any(story.updates) else "the client made no key update that the server followed"


def moved(story: Story) -> str | None:
    if len(story.server_sent) < 2:
        return "the client came from one address only"
    sent = story.server_sent[-1]
    return None if sent > MB else f"only {sent} bytes went to the new address"


def migrated(story: Story) -> str | None:
    if wrong := moved(story):
        return wrong
    reused = set.intersection(*story.client_uses)
    # RFC 9000 §9.5.
    return "the client used one connection id on both paths" if reused else None


CELLS = [
    Cell("handshake", [1000], nothing_more),
    Cell("20 MB", [20 * MB], nothing_more),
    Cell("retry", [10_000], retried, server=("--retry",)),
    Cell("resumption", [5000, 10_000], resumed, client=("--resume",), handshakes=2),
    Cell("0-RTT", [5000, 10_000], sent_early, client=("--0rtt",), handshakes=2),
    Cell("key update", [2 * MB, 2 * MB], updated, client=("--key-update",)),
    Cell("rebinding", [20 * MB], moved, rebind_after=MOVES_AFTER),
    Cell("migration", [20 * MB], migrated, client=("--migrate",)),
]


NO_RESUMPTION = "s2n-quic does not resume with rustls: aws/s2n-quic issue 2099"

# What a peer of that version fails at with every other end, stock quinn and itself included, so that the failure says
# nothing of ours. A version that can do it passes.
KNOWN = {
    ("quiche", "0.30.0", "serves us", "rebinding"): "quiche's server stops sending after a rebinding: also to quinn's "
    "client and to its own",
    ("quiche", "0.30.0", "gets from us", "migration"): "quiche's client ends with InvalidState at times after it has "
    "moved: with quinn's server in 11 of 15 runs, with ours in 6",
    ("s2n", "1.91.0", "serves us", "resumption"): NO_RESUMPTION,
    ("s2n", "1.91.0", "serves us", "0-RTT"): NO_RESUMPTION,
    ("s2n", "1.91.0", "gets from us", "resumption"): NO_RESUMPTION,
}


class Run:
    """One cell: a server, a client, and the relay between them."""

    def __init__(self, cell: Cell, server: Program, client: Program, folder: Path):
        self.cell, self.server, self.client = cell, server, client
        self.folder = folder
        self.keys = folder / "keys.log"
        for name in ("www", "got"):
            (folder / name).mkdir()
        self.names = [f"{number}-{size}.bin" for number, size in enumerate(cell.files)]
        for name, size in zip(self.names, cell.files):
            (folder / "www" / name).write_bytes(random.Random(size).randbytes(size))
        certificates.write(folder)

    def outcome(self) -> Outcome:
        begun = time.monotonic()
        try:
            self._run()
            return Outcome("pass", seconds=time.monotonic() - begun)
        except Impossible as why:
            return Outcome("-", str(why))
        except Failure as why:
            return Outcome("FAIL", str(why), time.monotonic() - begun)

    def _run(self) -> None:
        server = self._start(
            self.server,
            "serve", self.folder / "www", "--listen", "127.0.0.1:0",
            "--cert", self.folder / "cert.pem", "--key", self.folder / "key.pem", *self.cell.server,
        )  # fmt: skip
        relay = None
        try:
            relay = witness.Relay(self._address(server), self.cell.rebind_after)
            relay.start()
            self._get(relay.address)
        finally:
            server.kill()
            server.wait()
            datagrams = relay.stop() if relay else []
            (self.folder / "datagrams.log").write_text("".join(f"{datagram}\n" for datagram in datagrams))
        self._check(datagrams)

    def _start(self, program: Program, *arguments) -> subprocess.Popen:
        environment = os.environ | ({"SSLKEYLOGFILE": str(self.keys)} if program.is_ours else {})
        return subprocess.Popen(
            program.command + [str(argument) for argument in arguments],
            stdout=subprocess.PIPE,
            stderr=(self.folder / f"{program.name}.log").open("w"),
            text=True,
            env=environment,
        )

    def _address(self, server: subprocess.Popen) -> tuple[str, int]:
        """From the first line, which ends in it; a server that cannot serve ends without one."""
        found = re.search(r" ([0-9.]+):(\d+)$", server.stdout.readline().rstrip())
        if found:
            return found[1], int(found[2])
        if server.wait(DEADLINE) == CANNOT:
            raise Impossible(self._last_words(self.server))
        raise Failure(f"the server does not start: {self._last_words(self.server)}")

    def _get(self, address: tuple[str, int]) -> None:
        host, port = address
        client = self._start(
            self.client,
            "get", *(f"https://{host}:{port}/{name}" for name in self.names),
            "--ca", self.folder / "ca.pem", "--output", self.folder / "got", *self.cell.client,
        )  # fmt: skip
        try:
            client.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            client.kill()
            client.wait()
            raise Failure(f"not done after {DEADLINE} s") from None
        if client.returncode == CANNOT:
            raise Impossible(self._last_words(self.client))
        if client.returncode:
            raise Failure(f"the client failed: {self._last_words(self.client)}")

    def _last_words(self, program: Program) -> str:
        words = (self.folder / f"{program.name}.log").read_text().strip().splitlines()
        return "; ".join(words[-2:]) or "without a word"

    def _check(self, datagrams: list[witness.Datagram]) -> None:
        for name in self.names:
            sent, got = (self.folder / folder / name for folder in ("www", "got"))
            if not got.exists() or got.read_bytes() != sent.read_bytes():
                raise Failure(f"{name} did not arrive as it was sent")
        story = witness.read(datagrams, self.keys.read_text() if self.keys.exists() else "")
        if {connection.version for connection in story.handshakes} != {1}:
            raise Failure("not QUIC version 1")
        if len(story.handshakes) != self.cell.handshakes:
            raise Failure(f"{len(story.handshakes)} handshakes where {self.cell.handshakes} were due")
        if wrong := self.cell.check(story):
            raise Failure(wrong)


def programs(target: Path) -> tuple[Program, dict[str, Program]]:
    """Ours, and the peers by name."""
    ours = Program("warprate", "", [str(target / "debug/examples/bulk_download")], is_ours=True)
    lock = tomllib.loads((HERE / "rust/Cargo.lock").read_text())
    locked = {package["name"]: package["version"] for package in lock["package"]}
    peers = [Program("aioquic", version("aioquic"), [sys.executable, str(HERE / "aioquic_peer.py")])]
    for name, crate in (("quinn", "quinn"), ("s2n", "s2n-quic"), ("quiche", "quiche")):
        peers.append(Program(name, locked[crate], [str(target / f"peers/debug/peer-{name}")]))
    return ours, {peer.name: peer for peer in peers}


def run_cell(cell: Cell, server: Program, client: Program, keep: Path) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="peers-"))
    outcome = Run(cell, server, client, folder).outcome()
    if outcome.status == "FAIL":
        kept = keep / f"{server.name}-{client.name}-{cell.name.replace(' ', '-')}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept, ignore=shutil.ignore_patterns("*.bin"))
        outcome.note += f" (logs: {kept})"
    shutil.rmtree(folder)
    return outcome


def table(rows: list[tuple[str, dict[str, Outcome]]], cells: list[Cell]) -> str:
    """With a footnote for each cell that did not pass."""
    notes: list[str] = []

    def text(outcome: Outcome) -> str:
        if outcome.status == "pass":
            return "pass"
        if outcome.note not in notes:
            notes.append(outcome.note)
        return f"{outcome.status} [{notes.index(outcome.note) + 1}]"

    lines = [["", *(cell.name for cell in cells)]]
    lines += [[label, *(text(outcomes[cell.name]) for cell in cells)] for label, outcomes in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    printed = ["  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in lines]
    return "\n".join([*printed, *(f"[{number}] {note}" for number, note in enumerate(notes, 1))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cell", action="append", choices=[cell.name for cell in CELLS])
    parser.add_argument("peers", nargs="+")
    options = parser.parse_args()
    ours, peers = programs(options.target)
    cells = [cell for cell in CELLS if not options.cell or cell.name in options.cell]
    keep = options.target / "peers/logs"
    rows, report = [], []
    for peer in (peers[name] for name in options.peers):
        for role, server, client in (("serves us", peer, ours), ("gets from us", ours, peer)):
            outcomes = {}
            for cell in cells:
                outcome = run_cell(cell, server, client, keep)
                if outcome.status == "FAIL" and (known := KNOWN.get((peer.name, peer.version, role, cell.name))):
                    outcome = Outcome("-", known)
                outcomes[cell.name] = outcome
                print(
                    f"{peer.name} {role}, {cell.name}: {outcome.status} {outcome.note} {outcome.seconds:.1f} s",
                    file=sys.stderr,
                )
            rows.append((f"{peer.name} {peer.version} {role}", outcomes))
            report.append(
                {
                    "peer": peer.name,
                    "version": peer.version,
                    "role": "server" if server is peer else "client",
                    "cells": {name: vars(outcome) for name, outcome in outcomes.items()},
                }
            )
    print(table(rows, cells))
    path = options.json or options.target / "peers/matrix.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    outcomes = [outcome for _, row in rows for outcome in row.values()]
    failed = sum(outcome.status == "FAIL" for outcome in outcomes)
    passed = sum(outcome.status == "pass" for outcome in outcomes)
    print(f"\n{passed} passed, {failed} failed, {len(outcomes) - passed - failed} skipped", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
