// SPDX-License-Identifier: Apache-2.0
//! A graph as an exporter writes it, whose numbers are constants: the same three objects for each export, in the cells of the
//! network's grids where they belong.
//!
//! A product of the image with zero is added to the constants, so that no runtime computes the network in advance.

use crate::support::onnx_graph::Attribute::{self, Int, Ints, Text};
use crate::support::onnx_graph::{FLOAT, FLOAT16, Graph, INT64};
use crate::support::onnx_message::external_tensor;

/// Input size and grids of a network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grids {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) strides: &'static [usize],
}

/// The usual grids, those with a coarser or a finer one more, and those of small networks.
pub(super) const P5: Grids = Grids::new(&[8, 16, 32]);
pub(super) const P6: Grids = Grids::new(&[8, 16, 32, 64]);
pub(super) const P2: Grids = Grids::new(&[4, 8, 16, 32]);
pub(super) const TINY: Grids = Grids::new(&[16, 32]);
pub(super) const P4: Grids = Grids::new(&[16]);

/// What the image shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object {
    pub(super) class: usize,
    pub(super) score: f32,
    /// In input pixels.
    pub(super) xyxy: [f32; 4],
}

/// The objects of a network with `classes`; they do not overlap.
pub(super) fn objects(classes: usize) -> [Object; 3] {
    [
        (0, 0.9, [16.0, 24.0, 64.0, 120.0]),
        (classes - 1, 0.8, [100.0, 40.0, 180.0, 100.0]),
        (classes / 2, 0.6, [190.0, 110.0, 250.0, 180.0]),
    ]
    .map(|(class, score, xyxy)| Object { class, score, xyxy })
}

impl Object {
    /// Center and size.
    pub(super) fn center(&self) -> [f32; 4] {
        let [left, top, right, bottom] = self.xyxy;
        let (width, height) = (right - left, bottom - top);
        [left + width / 2.0, top + height / 2.0, width, height]
    }

    pub(super) fn edges(&self, grids: Grids, edges: Edges) -> Vec<f32> {
        let [left, top, right, bottom] = self.xyxy;
        let [w, h] = grids.size();
        match edges {
            Edges::Pixels => self.xyxy.to_vec(),
            Edges::Normalized => vec![left / w, top / h, right / w, bottom / h],
            Edges::TopFirst => vec![top / h, left / w, bottom / h, right / w],
        }
    }

    /// Distances from the point `offset` behind the cell's corner to the sides, in strides.
    pub(super) fn sides(&self, cell: &Cell, offset: f32) -> [f32; 4] {
        let [left, top, right, bottom] = self.xyxy.map(|edge| edge / cell.stride);
        let (x, y) = (cell.x + offset, cell.y + offset);
        [x - left, y - top, right - x, bottom - y]
    }

    /// One number for each class: `none`, and `of_score` for the object's.
    pub(super) fn one_hot(&self, classes: usize, of_score: f32, none: f32) -> Vec<f32> {
        let mut numbers = vec![none; classes];
        numbers[self.class] = of_score;
        numbers
    }

    pub(super) fn logits(&self, classes: usize) -> Vec<f32> {
        self.one_hot(classes, logit(self.score), NEVER)
    }
}

/// A logit of nothing.
pub(super) const NEVER: f32 = -9.0;

pub(super) fn logit(share: f32) -> f32 {
    (share / (1.0 - share)).ln()
}

/// Logits of distributions over `bins` whose means are `sides`.
pub(super) fn distributions(sides: [f32; 4], bins: usize) -> Vec<f32> {
    let of_side = |side: f32| {
        let share = move |bin: usize| (1.0 - (side - bin as f32).abs()).max(1e-9);
        (0..bins).map(move |bin| share(bin).ln())
    };
    sides.into_iter().flat_map(of_side).collect()
}

/// Unit and order of a box's edges.
#[derive(Clone, Copy)]
pub(super) enum Edges {
    Pixels,
    Normalized,
    /// Top, left, bottom, right, normalized.
    TopFirst,
}

/// A cell of a grid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) level: usize,
    pub(super) stride: f32,
    pub(super) x: f32,
    pub(super) y: f32,
}

impl Grids {
    const fn new(strides: &'static [usize]) -> Self {
        Self {
            width: 256,
            height: 192,
            strides,
        }
    }

    /// A network of this number of classes with the usual input for one image.
    pub(super) fn net(self, classes: usize) -> Net {
        self.net_of(
            classes,
            &format!("images 1 3 {} {}", self.height, self.width),
        )
    }

    /// A network with this input: name, type of the elements, and axes.
    pub(super) fn net_of(self, classes: usize, input: &str) -> Net {
        self.net_behind(
            classes,
            input,
            &format!("Cast {} to={FLOAT}", tensor(input).0),
        )
    }

    /// The same, with this operation on the input.
    pub(super) fn net_behind(self, classes: usize, input: &str, operation: &str) -> Net {
        let mut net = Net {
            grids: self,
            classes,
            graph: Graph::default(),
            outputs: Vec::new(),
            opset: 13,
            producer: "pytorch",
            metadata: Vec::new(),
        }
        .input(input);
        net.ops(&format!(
            "pixels = {operation}
            mean = ReduceMean pixels axes=1,2,3 keepdims=0
            zeros = Mul mean (0)"
        ));
        // Centers of the cells and their strides.
        let cells = self.all_cells();
        let x = cells.iter().map(|cell| cell.x + 0.5);
        let anchors: Vec<f32> = x.chain(cells.iter().map(|cell| cell.y + 0.5)).collect();
        net.floats("anchors", &[1, 2, cells.len()], &anchors);
        let strides: Vec<f32> = cells.iter().map(|cell| cell.stride).collect();
        net.floats("strides", &[1, cells.len()], &strides);
        net
    }

    /// Width and height of the input.
    pub(super) fn size(&self) -> [f32; 2] {
        [self.width as f32, self.height as f32]
    }

    /// Height and width of a grid.
    pub(super) fn sides(&self, stride: usize) -> [usize; 2] {
        [self.height / stride, self.width / stride]
    }

    pub(super) fn cells(&self) -> usize {
        let cells = |stride: &usize| self.sides(*stride).iter().product::<usize>();
        self.strides.iter().map(cells).sum()
    }

    /// Every cell, grid by grid.
    pub(super) fn all_cells(&self) -> Vec<Cell> {
        let of_level = |(level, stride): (usize, &usize)| {
            let ([rows, columns], stride) = (self.sides(*stride), *stride as f32);
            (0..rows * columns).map(move |cell| Cell {
                level,
                stride,
                x: (cell % columns) as f32,
                y: (cell / columns) as f32,
            })
        };
        self.strides.iter().enumerate().flat_map(of_level).collect()
    }
}

/// Name, type and axes from `NAME AXES`, or from `NAME@TYPE AXES` without floats.
pub(super) fn tensor(text: &str) -> (&str, u64, &str) {
    let (name, axes) = text.split_once(' ').expect("axes");
    match name.split_once('@') {
        Some((name, element)) => (name, element.parse().expect("a number"), axes),
        None => (name, FLOAT, axes),
    }
}

/// The numbers of a cell for an object.
type Row<'a> = &'a dyn Fn(&Cell, &Object) -> Vec<f32>;

/// A network under construction.
pub(super) struct Net {
    pub(super) grids: Grids,
    pub(super) classes: usize,
    graph: Graph,
    /// Name, type and axes.
    outputs: Vec<(String, u64, String)>,
    /// Version of the operator set.
    pub(super) opset: u64,
    producer: &'static str,
    metadata: Vec<(&'static str, String)>,
}

impl Net {
    /// Adds operators, one a line: `OUTPUTS = OPERATOR INPUTS KEY=NUMBERS`, or an output of the network: `> NAME@TYPE AXES`.
    /// An input `[1,2]` is a constant of whole numbers, `(0.5)` of one float. Whole numbers may be sums of products, in which `C`
    /// is the number of classes, and `N` of cells. With `#`, the lines are repeated for each grid: its stride; `H` and `W` are its
    /// sides, and its cells are those from `F` to before `L`.
    pub(super) fn ops(&mut self, lines: &str) {
        let (grids, mut first) = (self.grids, 0);
        let count = if lines.contains('#') {
            grids.strides.len()
        } else {
            1
        };
        for stride in &grids.strides[..count] {
            let [h, w] = grids.sides(*stride);
            let last = first + h * w;
            let sizes = [self.classes, grids.cells(), h, w, first, last];
            for line in lines.replace('#', &stride.to_string()).lines() {
                self.op(line.trim(), sizes);
            }
            first = last;
        }
    }

    pub(super) fn and(mut self, lines: &str) -> Self {
        self.ops(lines);
        self
    }

    fn op(&mut self, line: &str, sizes: [usize; 6]) {
        let factor = |text: &str| {
            let size = || Some(sizes["CNHWFL".find(text)?] as i64);
            text.parse().ok().or_else(size)
        };
        let product = |text: &str| text.split('*').map(factor).product::<Option<i64>>();
        let number = |text: &str| text.split('+').map(product).sum::<Option<i64>>();
        let numbers = |text: &str| -> Vec<i64> {
            let each = text.split(',');
            each.map(|text| number(text).expect("a number")).collect()
        };
        if let Some(output) = line.strip_prefix("> ") {
            let (name, element, axes) = tensor(output);
            let axis = |axis: &str| number(axis).map_or(axis.to_owned(), |len| len.to_string());
            let axes: Vec<String> = axes.split(' ').map(axis).collect();
            self.outputs
                .push((name.to_owned(), element, axes.join(" ")));
            return;
        }
        let Some((outputs, operation)) = line.split_once(" = ") else {
            return;
        };
        let (mut inputs, mut attributes) = (Vec::new(), Vec::new());
        for word in operation.split(' ').skip(1) {
            let within = |ends: [char; 2]| word.strip_prefix(ends[0])?.strip_suffix(ends[1]);
            let constant = format!("{}/{word}", outputs.replace(' ', "+"));
            if let Some((key, values)) = word.split_once('=') {
                let each = values.split(',').filter_map(number);
                attributes.push((key, values, each.map(|value| value as u64).collect()));
                continue;
            }
            if let Some(values) = within(['[', ']']) {
                let values = numbers(values);
                let shape = [values.len() as i64];
                let to_bytes = i64::to_le_bytes;
                self.graph
                    .constant(&constant, INT64, &shape, &values, to_bytes);
            } else if let Some(value) = within(['(', ')']) {
                self.floats(&constant, &[], &[value.parse().expect("a number")]);
            } else {
                inputs.push(word.to_owned());
                continue;
            }
            inputs.push(constant);
        }
        let attributes: Vec<Attribute<'_>> = attributes
            .iter()
            .map(|(key, text, values): &(&str, &str, Vec<u64>)| match *key {
                "axes" | "perm" | "kernel_shape" => Ints(key, values),
                "activation" => Text(key, text),
                _ => Int(key, values[0]),
            })
            .collect();
        let operator = operation.split(' ').next().expect("an operator");
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let outputs: Vec<&str> = outputs.split(' ').collect();
        self.graph.nodes(operator, &inputs, &outputs, &attributes);
    }

    pub(super) fn floats(&mut self, name: &str, shape: &[usize], numbers: &[f32]) {
        let shape: Vec<i64> = shape.iter().map(|len| *len as i64).collect();
        self.graph
            .constant(name, FLOAT, &shape, numbers, f32::to_le_bytes);
    }

    /// Numbers of each image, of this shape.
    pub(super) fn raw(&mut self, name: &str, shape: &[usize], numbers: &[f32]) {
        let ones = ",1".repeat(shape.len());
        self.floats(
            &format!("{name}/constant"),
            &[&[1], shape].concat(),
            numbers,
        );
        self.ops(&format!(
            "{name}/zeros = Reshape zeros [-1{ones}]
            {name} = Add {name}/constant {name}/zeros"
        ));
    }

    /// A row for each cell: that of an object where it is, `filler` elsewhere. The objects are on different grids; the cell to
    /// the right of an object's has it too, with a lower score.
    fn numbers(&self, filler: &[f32], row: Row<'_>) -> Vec<f32> {
        let cells = self.grids.all_cells();
        let mut rows = filler.repeat(cells.len());
        for (index, object) in objects(self.classes).into_iter().enumerate() {
            let level = index % self.grids.strides.len();
            let [x, y, ..] = object.center();
            let is_here = |cell: &Cell| {
                let place = [x, y].map(|at| (at / cell.stride).floor());
                cell.level == level && place == [cell.x, cell.y]
            };
            let at = cells.iter().position(is_here).expect("inside of the image");
            let weaker = Object {
                score: object.score - 0.15,
                ..object
            };
            for (at, object) in [(at, object), (at + 1, weaker)] {
                let row = row(&cells[at], &object);
                rows[at * filler.len()..][..filler.len()].copy_from_slice(&row);
            }
        }
        rows
    }

    /// `[N, cells, numbers]` of [`numbers`](Self::numbers).
    pub(super) fn rows(&mut self, name: &str, filler: &[f32], row: Row<'_>) {
        let numbers = self.numbers(filler, row);
        self.raw(name, &[self.grids.cells(), filler.len()], &numbers);
    }

    /// `[N, numbers, cells]`.
    pub(super) fn planes(&mut self, name: &str, filler: &[f32], row: Row<'_>) {
        self.rows(&format!("{name}/rows"), filler, row);
        self.ops(&format!("{name} = Transpose {name}/rows perm=0,2,1"));
    }

    /// `[N, numbers, h, w]` for each grid, by names that end with the stride, from a convolution.
    pub(super) fn maps(&mut self, name: &str, filler: &[f32], row: Row<'_>) {
        let len = filler.len();
        self.planes(name, filler, row);
        self.floats(&format!("{name}/ones"), &[len, 1, 1, 1], &vec![1.0; len]);
        self.ops(&format!(
            "{name}#/own = Slice {name} [F] [L] [2]
            {name}#/map = Reshape {name}#/own [-1,{len},H,W]
            {name}# = Conv {name}#/map {name}/ones group={len}"
        ));
    }

    /// `[N, count, numbers]`, of which three rows anywhere are those of the objects.
    pub(super) fn queries(
        &mut self,
        name: &str,
        count: usize,
        filler: &[f32],
        row: &dyn Fn(&Object) -> Vec<f32>,
    ) {
        let mut rows = filler.repeat(count);
        let places = [5, count / 2, count - 1];
        for (at, object) in places.into_iter().zip(objects(self.classes)) {
            rows[at * filler.len()..][..filler.len()].copy_from_slice(&row(&object));
        }
        self.raw(name, &[count, filler.len()], &rows);
    }

    /// Logits of nothing.
    pub(super) fn none(&self) -> Vec<f32> {
        vec![NEVER; self.classes]
    }

    /// An input, as an output in [`ops`](Self::ops).
    pub(super) fn input(mut self, text: &str) -> Self {
        let (name, element, axes) = tensor(text);
        self.graph.input_of(name, element, axes);
        self
    }

    /// Leaves all axes of the outputs open.
    pub(super) fn open(mut self) -> Self {
        for (name, _, axes) in &mut self.outputs {
            let open = axes
                .split(' ')
                .enumerate()
                .map(|(at, _)| format!("{name}_axis{at}"));
            *axes = open.collect::<Vec<_>>().join(" ");
        }
        self
    }

    /// Gives the outputs this first axis.
    pub(super) fn batch(mut self, images: &str) -> Self {
        for (_, _, axes) in &mut self.outputs {
            let rest = axes.split_once(' ').map_or("", |(_, rest)| rest);
            *axes = format!("{images} {rest}");
        }
        self
    }

    /// Adds a weight of this name.
    pub(super) fn weight(mut self, name: &str) -> Self {
        self.floats(name, &[1], &[0.0]);
        self
    }

    /// Adds a float of 16 bits.
    pub(super) fn half(mut self, name: &str, bits: u16) -> Self {
        let to_bytes = u16::to_le_bytes;
        self.graph.constant(name, FLOAT16, &[], &[bits], to_bytes);
        self
    }

    /// Adds a weight of a file that is not there.
    pub(super) fn missing_weight(mut self, file: &str) -> Self {
        let weight = external_tensor("elsewhere", FLOAT, &[1], file, 0, None);
        self.graph.weight(weight);
        self
    }

    pub(super) fn by(mut self, producer: &'static str) -> Self {
        self.producer = producer;
        self
    }

    pub(super) fn note(mut self, key: &'static str, value: &str) -> Self {
        self.metadata.push((key, value.to_owned()));
        self
    }

    /// Notes names of the classes.
    pub(super) fn named(self) -> Self {
        let name = |class: usize| format!("{class}: 'thing {class}'");
        let names: Vec<String> = (0..self.classes).map(name).collect();
        self.note("names", &format!("{{{}}}", names.join(", ")))
    }

    /// What Ultralytics notes.
    pub(super) fn ultralytics(self, task: &str) -> Self {
        let size = format!("[{}, {}]", self.grids.height, self.grids.width);
        self.note("author", "Ultralytics")
            .note("task", task)
            .note("imgsz", &size)
            .named()
    }

    /// The bytes of the file.
    pub(super) fn bytes(mut self) -> Vec<u8> {
        for (name, element, axes) in &self.outputs {
            self.graph.output_of(name, *element, axes);
        }
        self.graph
            .bytes_by(self.opset, self.producer, &self.metadata)
    }
}
