// SPDX-License-Identifier: Apache-2.0
//! A network that gives fixed rows, shifted by the mean of its input, as a tiny ONNX file.
//!
//! ```text
//!   images [B, 3, H, W] ── ReduceMean ── Reshape [B, 1, 1] ── Mul mask ── Add rows ── output [B, cells, row_len]
//! ```

#![allow(dead_code)]

pub use super::onnx_graph;
use super::onnx_graph::{FLOAT, Graph, INT64};

/// Cells in the output of YOLOX for 96×64 pixels.
pub const CELLS: usize = 126;
/// Numbers of a cell for two classes.
pub const ROW: usize = 7;

/// A network to write.
#[derive(Clone)]
pub struct TinyNetwork {
    /// Name of the input.
    pub input: &'static str,
    /// Its shape; an axis of `None` is left open.
    pub input_shape: [Option<i64>; 4],
    /// Name of the output.
    pub output: &'static str,
    /// Rows and row length of the output.
    pub output_shape: [i64; 2],
    /// The output where the input's mean is 0.
    pub rows: Vec<f32>,
    /// Added to the output per unit of the input's mean.
    pub mask: Vec<f32>,
    /// An input that nothing uses.
    pub second_input: bool,
}

impl TinyNetwork {
    /// A YOLOX for 96×64 pixels and two classes that gives these cells, whatever the image shows.
    pub fn yolox(batch: Option<i64>, cells: &[(usize, [f32; ROW])]) -> Self {
        let mut rows = vec![0.0; CELLS * ROW];
        for (cell, numbers) in cells {
            rows[cell * ROW..][..ROW].copy_from_slice(numbers);
        }
        Self {
            input: "images",
            input_shape: [batch, Some(3), Some(64), Some(96)],
            output: "output",
            output_shape: [CELLS as i64, ROW as i64],
            rows,
            mask: vec![0.0; CELLS * ROW],
            second_input: false,
        }
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes_behind(|_| self.input)
    }

    /// The same for the mean of what `front` adds and names.
    pub fn bytes_behind(&self, front: impl FnOnce(&mut Graph) -> &'static str) -> Vec<u8> {
        let [rows, row_len] = self.output_shape;
        let mut graph = Graph::default();
        let measured = front(&mut graph);
        graph.mean(measured, &[1, 2, 3]);
        graph.node("Reshape", &["mean", "column"], "mean3", &[]);
        graph.node("Mul", &["mean3", "mask"], "shift", &[]);
        graph.node("Add", &["rows", "shift"], self.output, &[]);
        let shape = [1, rows, row_len];
        graph.constant("rows", FLOAT, &shape, &self.rows, f32::to_le_bytes);
        graph.constant("mask", FLOAT, &shape, &self.mask, f32::to_le_bytes);
        graph.constant("column", INT64, &[3], &[-1_i64, 1, 1], i64::to_le_bytes);
        graph.input(self.input, FLOAT, &self.input_shape);
        if self.second_input {
            graph.input("unused", FLOAT, &[Some(1)]);
        }
        let shape = [self.input_shape[0], Some(rows), Some(row_len)];
        graph.output(self.output, FLOAT, &shape);
        graph.bytes()
    }
}
