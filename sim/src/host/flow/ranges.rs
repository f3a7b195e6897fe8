//! A set of numbers that arrive mostly in order, as ranges.

use std::collections::VecDeque;

use crate::packet::Range;

/// A set of numbers: all below a floor, and ranges above it in ascending order, never touching.
///
/// In order everything costs O(1); a newcomer among n ranges costs a search and at most n moves.
#[derive(Debug, Clone, Default)]
pub struct Ranges {
    floor: u64,
    ranges: VecDeque<Range>,
}

impl Ranges {
    /// Adds one number; whether it is new.
    pub fn insert(&mut self, n: u64) -> bool {
        let mut is_new = false;
        self.insert_range((n, n), |_| is_new = true);
        is_new
    }

    /// Adds a range and tells its new parts, the highest first.
    pub fn insert_range(&mut self, (first, last): Range, mut on_new: impl FnMut(Range)) {
        let first = first.max(self.floor);
        if first > last {
            return;
        }
        if first == self.floor && self.ranges.is_empty() {
            self.floor = last + 1;
            return on_new((first, last));
        }
        // Most arrivals lie in or right after the highest range.
        if let Some(top) = self.ranges.back_mut().filter(|top| top.0 <= first && first <= top.1 + 1) {
            let new = (top.1 + 1, last);
            if new.0 <= new.1 {
                top.1 = last;
                on_new(new);
            }
            return;
        }
        self.merge((first, last), on_new);
    }

    /// The general case: the ranges that the new one touches become one.
    fn merge(&mut self, (first, last): Range, mut on_new: impl FnMut(Range)) {
        let begin = self.ranges.partition_point(|range| range.1 + 1 < first);
        let mut end = begin;
        while self.ranges.get(end).is_some_and(|range| range.0 <= last.saturating_add(1)) {
            end += 1;
        }
        let mut merged = (first, last);
        let mut above = last;
        for range in self.ranges.range(begin..end).rev() {
            if range.1 < above {
                on_new((range.1 + 1, above));
            }
            merged = (merged.0.min(range.0), merged.1.max(range.1));
            match range.0.checked_sub(1) {
                Some(below) => above = above.min(below),
                None => unreachable!("a range that starts at zero is below the floor"),
            }
        }
        if first <= above && (begin == end || first < self.ranges[begin].0) {
            on_new((first, above));
        }
        if begin == end {
            self.ranges.insert(begin, merged);
        } else {
            self.ranges[begin] = merged;
            self.ranges.drain(begin + 1..end);
        }
        self.settle();
    }

    /// Takes all numbers below `n` for members.
    pub fn raise_floor(&mut self, n: u64) {
        if n <= self.floor {
            return;
        }
        self.floor = n;
        while self.ranges.front().is_some_and(|range| range.1 < n) {
            self.ranges.pop_front();
        }
        self.settle();
    }

    /// Forgets whole ranges, the lowest first: those that lie below `n`, and all but `most`; never the
    /// highest. What still arrives above a forgotten range makes a range, so that it can be told.
    pub fn forget(&mut self, n: u64, most: usize) {
        while self.ranges.len() > 1 && (self.ranges[0].1 < n || self.ranges.len() > most) {
            // One less than what is known, lest the next number join what is below the floor.
            self.floor = self.ranges[0].1;
            self.ranges.pop_front();
        }
    }

    /// The least number that is missing.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The number above the highest member.
    pub fn end(&self) -> u64 {
        self.ranges.back().map_or(self.floor, |range| range.1 + 1)
    }

    /// Whether numbers are missing below the highest member.
    pub fn has_gaps(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The ranges above the floor, the highest first.
    pub fn descending(&self) -> impl Iterator<Item = Range> + '_ {
        self.ranges.iter().rev().copied()
    }

    /// The range above the floor that holds `n`.
    pub fn around(&self, n: u64) -> Option<Range> {
        let index = self.ranges.partition_point(|range| range.1 < n);
        self.ranges.get(index).copied().filter(|range| range.0 <= n)
    }

    /// The lowest range joins the floor when it touches it.
    fn settle(&mut self) {
        if let Some(&(first, last)) = self.ranges.front()
            && first <= self.floor
        {
            self.floor = last + 1;
            self.ranges.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn members(ranges: &Ranges) -> Vec<Range> {
        let mut all: Vec<Range> = ranges.descending().collect();
        all.reverse();
        all
    }

    #[test]
    fn what_is_in_order_has_no_ranges() {
        let mut ranges = Ranges::default();
        assert!((0..100).all(|n| ranges.insert(n)));
        assert!(!ranges.insert(50));
        assert_eq!((ranges.floor(), ranges.end(), ranges.has_gaps()), (100, 100, false));
    }

    #[test]
    fn a_filled_gap_joins_its_neighbours() {
        let mut ranges = Ranges::default();
        for n in [0, 2, 3, 6] {
            assert!(ranges.insert(n));
        }
        assert_eq!(members(&ranges), [(2, 3), (6, 6)]);
        assert_eq!((ranges.around(3), ranges.around(4)), (Some((2, 3)), None));
        let mut new = Vec::new();
        ranges.insert_range((1, 8), |range| new.push(range));
        assert_eq!(new, [(7, 8), (4, 5), (1, 1)]);
        assert_eq!((ranges.floor(), ranges.has_gaps()), (9, false));
    }

    #[test]
    fn few_ranges_are_kept() {
        let mut ranges = Ranges::default();
        for n in [1, 3, 5, 7] {
            ranges.insert(n);
        }
        ranges.forget(0, 2);
        assert_eq!(members(&ranges), [(5, 5), (7, 7)]);
        ranges.forget(100, 2);
        assert_eq!((members(&ranges), ranges.end()), (vec![(7, 7)], 8));
        // Right above a forgotten range, and told all the same.
        assert!(ranges.insert(6));
        assert_eq!(members(&ranges), [(6, 7)]);
        assert!(!ranges.insert(4));
    }

    #[test]
    fn what_is_below_the_floor_is_known() {
        let mut ranges = Ranges::default();
        for n in [1, 3, 5, 7] {
            ranges.insert(n);
        }
        ranges.raise_floor(5);
        assert_eq!((ranges.floor(), members(&ranges)), (6, vec![(7, 7)]));
    }

    proptest! {
        #[test]
        fn it_is_a_set(ops in prop::collection::vec((0u64..60, 0u64..8, 0u8..12), 0..80)) {
            let mut ranges = Ranges::default();
            let mut set = BTreeSet::new();
            for (first, len, op) in ops {
                if op == 0 {
                    ranges.raise_floor(first);
                    set.extend(0..first);
                } else {
                    let mut new = BTreeSet::new();
                    let mut last_told = u64::MAX;
                    ranges.insert_range((first, first + len), |(low, high)| {
                        assert!(low <= high && high < last_told);
                        last_told = low;
                        new.extend(low..=high);
                    });
                    let expected: BTreeSet<u64> = (first..=first + len).filter(|n| !set.contains(n)).collect();
                    prop_assert_eq!(&new, &expected);
                    set.extend(new);
                }
                let all: BTreeSet<u64> = (0..ranges.floor())
                    .chain(ranges.descending().flat_map(|(low, high)| low..=high))
                    .collect();
                prop_assert_eq!(&all, &set);
                prop_assert!(ranges.descending().all(|(low, _)| low > ranges.floor()));
            }
        }
    }
}
