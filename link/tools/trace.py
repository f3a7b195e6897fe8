#!/usr/bin/env python3
"""The link model once more, written from its description: prints the hashes that tests/trace.rs pins.

Two implementations that agree on 20,004 fates to the picosecond are better evidence than a hash
that was copied from the only one.
"""
import hashlib
import math
import pathlib
import re
import struct
from fractions import Fraction

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
SOURCE = pathlib.Path(__file__).parent.parent / "src" / "normal_table.rs"
QUANTILES = [int(n) for n in re.findall(r"\d+", SOURCE.read_text().split("= [")[1])]


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def stream_key(seed, purpose):
    return mix((mix(seed) + purpose * GOLDEN) & MASK)


def draw(key, n):
    return mix((key + (n + 1) * GOLDEN) & MASK)


def standard_normal(bits):
    """In units of 2**-24."""
    tail = bits >> 1
    octave = 63 - tail.bit_length()
    if octave >= 32:
        z = QUANTILES[-1]
    else:
        mantissa = (tail << octave) - 2**62
        step, within = mantissa >> 57, (mantissa >> 25) & (2**32 - 1)
        outer = 32 * octave + 32 - step
        z = QUANTILES[outer] - ((QUANTILES[outer] - QUANTILES[outer - 1]) * within >> 32)
    return -z if bits & 1 else z


MS, US = 10**9, 10**6
BASE_RATE, BASE_DELAY, SIGMA, BUFFER = 12_500_000, 20 * MS, 3 * MS, 50_000
RATES = [(50 * MS, 5_000_000), (80_001 * US, 7_000_001), (120 * MS, 0), (131 * MS, 18_750_000)]
OUTAGES = [(20 * MS, 5 * MS), (118 * MS, 4 * MS), (200_003 * US, 10 * MS)]
DELAYS = [(30 * MS, 35 * MS), (90 * MS, 8 * MS), (170 * MS, 60 * MS)]


def value_at(first, steps, t):
    return [first, *(value for at, value in steps if at <= t)][-1]


def finish(starts, size, rates, outages):
    """Goes from one change to the next and counts the bytes down, as a fraction."""
    changes = sorted({at for at, _ in rates} | {t for at, n in outages for t in (at, at + n)})
    left, now = Fraction(size), starts
    while True:
        out = any(at <= now < at + length for at, length in outages)
        rate = Fraction(0 if out else value_at(BASE_RATE, rates, now), 10**12)
        until = min((t for t in changes if t > now), default=None)
        if rate and (until is None or left <= rate * (until - now)):
            return math.ceil(now + left / rate)
        left, now = left - rate * (until - now), until


def fates(seed, order, slot=0, rates=(), outages=(), delays=()):
    """Loss 5 %, packets in trains of four at 1.2 times the rate; yields (kind, at, departed)."""
    loss, jitter = stream_key(seed, 1), stream_key(seed, 2)
    idle_at, accepted, latest = 0, [], 0
    for n in range(3334):
        now, size = n // 4 * 4 * 80_000 * 1000, 1518 - n % 7 * 100
        starts = max(idle_at, now)
        accepted = [(start, bytes_) for start, bytes_ in accepted if start > now]
        if starts > now and sum(bytes_ for _, bytes_ in accepted) + size > BUFFER:
            yield 1, 0, 0
            continue
        accepted.append((starts, size))
        idle_at = finish(starts, size, rates, outages)
        if draw(loss, n) * 10**9 >> 64 < 50_000_000:
            yield 2, 0, 0
            continue
        product = standard_normal(draw(jitter, n)) * SIGMA if order else 0
        towards_zero = product // 2**24 if product >= 0 else -(-product // 2**24)
        at = idle_at + max(0, value_at(BASE_DELAY, delays, idle_at) + towards_zero)
        if order != "reorder":
            at = latest = max(latest, at)
        yield 0, -(-at // slot) * slot if slot else at, idle_at


def digest(*links):
    trace = b"".join(struct.pack("<BQQ", *fate) for link in links for fate in link)
    return hashlib.sha256(trace).hexdigest()


print("CONSTANT ", digest(fates(0, None), fates(42, "fifo"), fates(MASK, "reorder")))
CHANGES = (RATES, OUTAGES, DELAYS)
print("SCHEDULED", digest(
    fates(7, "fifo", 500 * US, *CHANGES),
    fates(8, "reorder", 333_333_000, *CHANGES),
    fates(9, "reorder", 0, *CHANGES),
))
