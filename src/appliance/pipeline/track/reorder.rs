// SPDX-License-Identifier: Apache-2.0
//! Restores the order of the results of one source, which come from several workers.

use std::collections::VecDeque;

/// Results of one source that arrived early. Holds at most as many as the workers process at once.
#[derive(Debug)]
pub(super) struct ReorderBuffer<T> {
    next: u64,
    /// `early[i]` is the result with order `next + 1 + i`.
    early: VecDeque<Option<T>>,
}

impl<T> Default for ReorderBuffer<T> {
    fn default() -> Self {
        Self {
            next: 0,
            early: VecDeque::new(),
        }
    }
}

impl<T> ReorderBuffer<T> {
    /// Order of the next result: also the number of results emitted so far.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Takes a result; `emit` receives it and those behind it that are now due, in order. An order that was emitted before is
    /// ignored.
    pub(super) fn push(&mut self, order: u64, result: T, mut emit: impl FnMut(T)) {
        if order > self.next {
            // The gap is at most the number of frames that the workers hold.
            let place = (order - self.next - 1) as usize;
            if self.early.len() <= place {
                self.early.resize_with(place + 1, || None);
            }
            self.early[place] = Some(result);
            return;
        }
        if order < self.next {
            return;
        }
        emit(result);
        self.next += 1;
        // The front is the result with order `next` now.
        while let Some(front) = self.early.pop_front() {
            match front {
                Some(due) => {
                    emit(due);
                    self.next += 1;
                }
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_arrival_emits_the_same_order() {
        // All 120 orders of five results.
        let mut orders = vec![vec![]];
        for n in 0..5_u64 {
            orders = orders
                .iter()
                .flat_map(|order: &Vec<u64>| {
                    (0..=order.len()).map(move |at| {
                        let mut longer = order.clone();
                        longer.insert(at, n);
                        longer
                    })
                })
                .collect();
        }
        assert_eq!(orders.len(), 120);
        for order in orders {
            let mut reorder = ReorderBuffer::default();
            let mut emitted = Vec::new();
            for place in &order {
                reorder.push(*place, *place, |result| emitted.push(result));
            }
            assert_eq!(emitted, [0, 1, 2, 3, 4], "arrived as {order:?}");
            assert_eq!(reorder.next(), 5);
        }
    }

    #[test]
    fn nothing_is_emitted_before_its_turn() {
        let mut reorder = ReorderBuffer::default();
        reorder.push(1, 'b', |_| panic!("a is missing"));
        reorder.push(1, 'x', |_| panic!("a is missing"));
        let mut emitted = String::new();
        reorder.push(0, 'a', |result| emitted.push(result));
        assert_eq!(emitted, "ax", "the later of two results with one order");
        reorder.push(0, 'z', |_| panic!("a was emitted"));
    }
}
