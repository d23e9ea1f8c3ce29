// SPDX-License-Identifier: Apache-2.0
//! The assignment of greatest total weight in one rectangular matrix: the Hungarian algorithm in its shortest-augmenting-path
//! form (Jonker and Volgenant 1987), O(rows² · columns) for rows ≤ columns, with buffers that are reused between calls.
//!
//! [`Assigner`](super::Assigner) calls it for each group of tracks and detections that compete.
//!
//! Not from a crate, since it runs for each frame: `pathfinding::kuhn_munkres` needs integer weights and rebuilds its tables
//! on each call, and `lapjv` takes square `ndarray` matrices only and is passively maintained.

/// The column has no row yet.
const FREE: usize = usize::MAX;

/// Finds assignments of greatest total weight. Allocates only when a matrix is larger than any before.
#[derive(Debug, Default)]
pub struct HungarianSolver {
    /// Dual values: for every row and column their sum is at most the pair's cost (its negated weight).
    row_dual: Vec<f64>,
    column_dual: Vec<f64>,
    /// Row of each column; the last entry is the virtual column from which a new row starts.
    row_of_column: Vec<usize>,
    /// Reduced cost of the cheapest path to each column, and the previous column on that path.
    slack: Vec<f64>,
    previous: Vec<usize>,
    visited: Vec<bool>,
    column_of_row: Vec<Option<usize>>,
}

impl HungarianSolver {
    /// Returns the column of each row, such that no column is used twice and the sum of the weights is the greatest possible.
    ///
    /// `weights` is row-major, `rows` × `columns`, every value finite and at least 0; 0 means that the two may not be paired.
    /// Rows may stay without a column.
    ///
    /// # Panics
    /// When `weights` is shorter than `rows * columns`.
    pub fn solve(&mut self, rows: usize, columns: usize, weights: &[f64]) -> &[Option<usize>] {
        assert!(
            weights.len() >= rows * columns,
            "{} weights for {rows} rows of {columns}",
            weights.len()
        );
        let weight = |row: usize, column: usize| weights[row * columns + column];
        self.column_of_row.clear();
        self.column_of_row.resize(rows, None);
        // The algorithm gives each row a column, so the shorter side becomes the rows. Zeros stand for "none": since no
        // weight is negative, an assignment of all rows with zeros has the same greatest sum as one without them.
        if rows <= columns {
            self.augment_all(rows, columns, weight);
            for column in 0..columns {
                let row = self.row_of_column[column];
                if row != FREE && weight(row, column) > 0.0 {
                    self.column_of_row[row] = Some(column);
                }
            }
        } else {
            self.augment_all(columns, rows, |column, row| weight(row, column));
            for row in 0..rows {
                let column = self.row_of_column[row];
                if column != FREE && weight(row, column) > 0.0 {
                    self.column_of_row[row] = Some(column);
                }
            }
        }
        &self.column_of_row
    }

    /// Fills `row_of_column` so that each of the `short` rows has one of the `long` columns. Needs `short <= long`.
    fn augment_all(&mut self, short: usize, long: usize, weight: impl Fn(usize, usize) -> f64) {
        refill(&mut self.row_dual, short, 0.0);
        refill(&mut self.column_dual, long + 1, 0.0);
        refill(&mut self.row_of_column, long + 1, FREE);
        refill(&mut self.previous, long + 1, long);
        for row in 0..short {
            let end = self.shortest_path(row, long, &weight);
            // Along the path each column moves to the row that reached it, which frees that row's old column.
            let mut column = end;
            while column != long {
                let before = self.previous[column];
                self.row_of_column[column] = self.row_of_column[before];
                column = before;
            }
        }
    }

    /// Finds the cheapest alternating path from `row` to a free column, updates the duals, and returns that column.
    fn shortest_path(
        &mut self,
        row: usize,
        long: usize,
        weight: &impl Fn(usize, usize) -> f64,
    ) -> usize {
        refill(&mut self.slack, long + 1, f64::INFINITY);
        refill(&mut self.visited, long + 1, false);
        let mut column = long;
        self.row_of_column[column] = row;
        while self.row_of_column[column] != FREE {
            self.visited[column] = true;
            let from = self.row_of_column[column];
            let (mut step, mut next) = (f64::INFINITY, column);
            for other in 0..long {
                if self.visited[other] {
                    continue;
                }
                let reduced = -weight(from, other) - self.row_dual[from] - self.column_dual[other];
                if reduced < self.slack[other] {
                    self.slack[other] = reduced;
                    self.previous[other] = column;
                }
                if self.slack[other] < step {
                    step = self.slack[other];
                    next = other;
                }
            }
            for other in 0..=long {
                if self.visited[other] {
                    self.row_dual[self.row_of_column[other]] += step;
                    self.column_dual[other] -= step;
                } else {
                    self.slack[other] -= step;
                }
            }
            column = next;
        }
        column
    }
}

/// Sets `list` to `length` times `value`, reusing its memory.
fn refill<T: Clone>(list: &mut Vec<T>, length: usize, value: T) {
    list.clear();
    list.resize(length, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hungarian_solves_known_matrices() {
        let mut solver = HungarianSolver::default();
        assert_eq!(solver.solve(0, 0, &[]), &[]);
        assert_eq!(solver.solve(2, 0, &[]), &[None, None]);
        assert_eq!(solver.solve(1, 1, &[0.0]), &[None]);
        // A greedy choice would take 0.9 and leave the second row unmatched.
        let found = solver.solve(2, 2, &[0.9, 0.8, 0.8, 0.0]);
        assert_eq!(found, &[Some(1), Some(0)]);
        // Here the one good pair outweighs two poor ones.
        assert_eq!(solver.solve(2, 2, &[0.9, 0.4, 0.4, 0.0]), &[Some(0), None]);
        assert_eq!(solver.solve(3, 1, &[0.3, 0.7, 0.5]), &[None, Some(0), None]);
        assert_eq!(solver.solve(1, 3, &[0.3, 0.7, 0.5]), &[Some(1)]);
    }
}
