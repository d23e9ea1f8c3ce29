// SPDX-License-Identifier: Apache-2.0
//! The assignment of greatest total weight where few pairs are allowed: shortest augmenting paths over lists of edges.
//!
//! The result has the same sum as that of [`HungarianSolver`](super::HungarianSolver), which visits every row and column of a
//! matrix. In a crowd of a thousand, each track is near some dozens of detections, and most paths visit only a few of them.
//! [`Assigner`](super::Assigner) uses it for large groups.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No row or column.
const NONE: usize = usize::MAX;

/// Finds assignments of greatest total weight. Allocates only when a problem is larger than any before.
#[derive(Debug, Default)]
pub(super) struct SparseAssignment {
    /// Dual values: for every row and column their sum is at most the pair's cost (its negated weight).
    row_dual: Vec<f64>,
    column_dual: Vec<f64>,
    row_of_column: Vec<usize>,
    column_of_row: Vec<usize>,
    /// Length of the shortest path found to each column, and the previous row on that path.
    distance: Vec<f64>,
    previous: Vec<usize>,
    visited: Vec<bool>,
    /// Columns whose distance is set, and columns whose shortest path is final.
    reached: Vec<usize>,
    settled: Vec<usize>,
    /// Columns by distance. Distances are not negative, so their bits have the same order.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
}

/// End of a path: a free column, or a row that is better left without a column.
enum End {
    Column(usize),
    Row(usize),
}

impl SparseAssignment {
    /// Returns the column of each row, `usize::MAX` for none, such that no column is used twice and the sum of the weights is
    /// the greatest possible. The edges of a row are `edges[starts[row]..starts[row + 1]]`, columns with weights above 0.
    pub(super) fn solve(
        &mut self,
        starts: &[usize],
        edges: &[(usize, f64)],
        columns: usize,
    ) -> &[usize] {
        let rows = starts.len().saturating_sub(1);
        refill(&mut self.row_dual, rows, 0.0);
        refill(&mut self.column_of_row, rows, NONE);
        refill(&mut self.column_dual, columns, 0.0);
        refill(&mut self.row_of_column, columns, NONE);
        refill(&mut self.distance, columns, f64::INFINITY);
        refill(&mut self.previous, columns, NONE);
        refill(&mut self.visited, columns, false);
        let of_row = |row: usize| &edges[starts[row]..starts[row + 1]];
        for row in 0..rows {
            self.row_dual[row] = of_row(row)
                .iter()
                .map(|(column, weight)| -weight - self.column_dual[*column])
                .fold(0.0, f64::min);
            let (end, length) = self.shortest_path(row, &of_row);
            self.move_duals(row, length);
            self.augment(row, &end);
            for column in self.reached.drain(..) {
                self.distance[column] = f64::INFINITY;
                self.visited[column] = false;
            }
        }
        &self.column_of_row
    }

    /// Finds the cheapest alternating path from `row`; leaving a row without a column costs nothing.
    fn shortest_path<'e>(
        &mut self,
        row: usize,
        of_row: &impl Fn(usize) -> &'e [(usize, f64)],
    ) -> (End, f64) {
        self.queue.clear();
        self.settled.clear();
        let (mut from, mut length) = (row, 0.0);
        let mut unmatched = (f64::INFINITY, row);
        loop {
            let offset = length - self.row_dual[from];
            if offset < unmatched.0 {
                unmatched = (offset, from);
            }
            for (column, weight) in of_row(from) {
                let column = *column;
                let reduced_cost = (offset - weight - self.column_dual[column]).max(length);
                if !self.visited[column] && reduced_cost < self.distance[column] {
                    if self.distance[column] == f64::INFINITY {
                        self.reached.push(column);
                    }
                    self.distance[column] = reduced_cost;
                    self.previous[column] = from;
                    self.queue.push(Reverse((reduced_cost.to_bits(), column)));
                }
            }
            let next = loop {
                match self.queue.pop() {
                    Some(Reverse((_, column))) if self.visited[column] => {}
                    other => break other,
                }
            };
            let Some(Reverse((bits, column))) = next else {
                return (End::Row(unmatched.1), unmatched.0);
            };
            let path_length = f64::from_bits(bits);
            if unmatched.0 <= path_length {
                return (End::Row(unmatched.1), unmatched.0);
            }
            length = path_length;
            if self.row_of_column[column] == NONE {
                return (End::Column(column), length);
            }
            self.visited[column] = true;
            self.settled.push(column);
            from = self.row_of_column[column];
        }
    }

    /// Updates the duals so that the pairs along the path have reduced cost 0 and no other pair has a negative one.
    fn move_duals(&mut self, row: usize, length: f64) {
        self.row_dual[row] += length;
        for column in &self.settled {
            let step = length - self.distance[*column];
            self.row_dual[self.row_of_column[*column]] += step;
            self.column_dual[*column] -= step;
        }
    }

    /// Assigns to each row on the path the column that it reached, which frees its old one for the previous row.
    fn augment(&mut self, row: usize, end: &End) {
        let mut column = match end {
            End::Column(column) => *column,
            End::Row(last) => std::mem::replace(&mut self.column_of_row[*last], NONE),
        };
        // Without a column to pass on, the new row stays unmatched.
        while column != NONE {
            let owner = self.previous[column];
            self.row_of_column[column] = owner;
            column = std::mem::replace(&mut self.column_of_row[owner], column);
            if owner == row {
                break;
            }
        }
    }
}

/// Sets `list` to `length` times `value`, reusing its memory.
fn refill<T: Clone>(list: &mut Vec<T>, length: usize, value: T) {
    list.clear();
    list.resize(length, value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::HungarianSolver;
    use super::*;

    proptest! {
        #[test]
        fn sparse_assignment_sum_equals_full_matrix(
            (rows, columns, weights) in (0..=20_usize, 1..=20_usize).prop_flat_map(|(rows, columns)| {
                let weight = prop_oneof![4 => Just(0.0), 1 => Just(0.5), 3 => 0.001..=1.0];
                (Just(rows), Just(columns), prop::collection::vec(weight, rows * columns))
            })
        ) {
            let mut starts = vec![0];
            let mut edges = Vec::new();
            for row in weights.chunks(columns).take(rows) {
                edges.extend(row.iter().copied().enumerate().filter(|(_, weight)| *weight > 0.0));
                starts.push(edges.len());
            }
            let mut solver = SparseAssignment::default();
            // An earlier problem must not influence the result.
            solver.solve(&[0, 2, 3], &[(0, 0.9), (1, 0.8), (0, 0.8)], 2);
            let found = solver.solve(&starts, &edges, columns).to_vec();
            let mut used = vec![false; columns];
            let mut sum = 0.0;
            for (row, column) in found.iter().enumerate().filter(|(_, column)| **column != NONE) {
                prop_assert!(!std::mem::replace(&mut used[*column], true), "column {} twice", column);
                prop_assert!(weights[row * columns + column] > 0.0, "a forbidden pair");
                sum += weights[row * columns + column];
            }
            let best = HungarianSolver::default().solve(rows, columns, &weights).iter().enumerate()
                .filter_map(|(row, column)| column.map(|column| weights[row * columns + column])).sum::<f64>();
            prop_assert!((sum - best).abs() < 1e-9, "{} instead of {}", sum, best);
        }
    }
}
