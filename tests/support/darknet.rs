//! The layers of Darknet as plain loops, and a `.weights` file that is drawn while they run.

use jetwatch_types::SplitMix64;

/// A result: channels, rows and columns.
#[derive(Clone)]
pub struct Map {
    pub channels: usize,
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<f64>,
}

impl Map {
    pub fn new(channels: usize, rows: usize, columns: usize) -> Self {
        Self {
            channels,
            rows,
            columns,
            values: vec![0.0; channels * rows * columns],
        }
    }

    /// The value at a place, which may be outside.
    fn at(&self, channel: usize, row: isize, column: isize) -> Option<f64> {
        let row = usize::try_from(row).ok().filter(|row| *row < self.rows)?;
        let column = usize::try_from(column)
            .ok()
            .filter(|column| *column < self.columns)?;
        Some(self.values[(channel * self.rows + row) * self.columns + column])
    }

    pub fn each(mut self, change: impl Fn(f64) -> f64) -> Self {
        self.values
            .iter_mut()
            .for_each(|value| *value = change(*value));
        self
    }

    pub fn plus(mut self, other: &Self) -> Self {
        for (value, other) in self.values.iter_mut().zip(&other.values) {
            *value += other;
        }
        self
    }

    pub fn joined(parts: &[&Self]) -> Self {
        let mut whole = parts[0].clone();
        for part in &parts[1..] {
            whole.values.extend(&part.values);
            whole.channels += part.channels;
        }
        whole
    }

    /// Windows begin `before` cells outside.
    pub fn max_pool(&self, size: usize, stride: usize) -> Self {
        let padding = size - 1;
        let side = |side: usize| (side + padding - size) / stride + 1;
        let mut result = Self::new(self.channels, side(self.rows), side(self.columns));
        let before = (padding / 2) as isize;
        let mut place = 0;
        for channel in 0..self.channels {
            for row in 0..result.rows {
                for column in 0..result.columns {
                    let mut most = f64::NEG_INFINITY;
                    for y in 0..size {
                        for x in 0..size {
                            let row = (row * stride + y) as isize - before;
                            let column = (column * stride + x) as isize - before;
                            most = most.max(self.at(channel, row, column).unwrap_or(most));
                        }
                    }
                    result.values[place] = most;
                    place += 1;
                }
            }
        }
        result
    }

    pub fn upsampled(&self) -> Self {
        let mut result = Self::new(self.channels, self.rows * 2, self.columns * 2);
        let mut place = 0;
        for channel in 0..result.channels {
            for row in 0..result.rows {
                for column in 0..result.columns {
                    let (row, column) = ((row / 2) as isize, (column / 2) as isize);
                    result.values[place] = self.at(channel, row, column).expect("inside");
                    place += 1;
                }
            }
        }
        result
    }
}

/// Shape of a convolution.
pub struct Convolution {
    pub filters: usize,
    pub size: usize,
    pub stride: usize,
    pub pad: usize,
    pub groups: usize,
    pub dilation: usize,
    pub normalizes: bool,
}

pub const POINTWISE: Convolution = Convolution {
    filters: 14,
    size: 1,
    stride: 1,
    pad: 0,
    groups: 1,
    dilation: 1,
    normalizes: false,
};

/// A `.weights` file, whose numbers are drawn while the layers are computed.
pub struct Weights {
    random: SplitMix64,
    pub file: Vec<u8>,
}

impl Weights {
    pub fn new(seed: u64) -> Self {
        let header = [0_i32, 2, 5];
        let mut file: Vec<u8> = header.iter().flat_map(|part| part.to_le_bytes()).collect();
        file.extend(32_013_312_u64.to_le_bytes());
        Self {
            random: SplitMix64::new(seed),
            file,
        }
    }

    /// Numbers between these two, as the file has them.
    fn draw(&mut self, count: usize, from: f32, to: f32) -> Vec<f64> {
        let numbers = (0..count).map(|_| {
            let part = (self.random.next_u64() >> 40) as f32 / (1_u64 << 24) as f32;
            from + (to - from) * part
        });
        let numbers: Vec<f32> = numbers.collect();
        self.file
            .extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        numbers.into_iter().map(f64::from).collect()
    }

    /// The sums of a convolution, before the activation.
    pub fn convolve(&mut self, input: &Map, shape: &Convolution) -> Map {
        let Convolution {
            filters,
            size,
            stride,
            pad,
            groups,
            dilation,
            normalizes,
        } = *shape;
        let biases = self.draw(filters, -0.5, 0.5);
        let normalization = normalizes.then(|| {
            let scales = self.draw(filters, 0.5, 1.5);
            let means = self.draw(filters, -0.3, 0.3);
            (scales, means, self.draw(filters, 0.1, 1.0))
        });
        let inputs = input.channels / groups;
        let weights = self.draw(filters * inputs * size * size, -0.5, 0.5);
        let outside = pad * dilation;
        let reach = (size - 1) * dilation + 1;
        let side = |side: usize| (side + 2 * outside - reach) / stride + 1;
        let mut result = Map::new(filters, side(input.rows), side(input.columns));
        let mut place = 0;
        for filter in 0..filters {
            let first = filter / (filters / groups) * inputs;
            for row in 0..result.rows {
                for column in 0..result.columns {
                    let mut sum = 0.0;
                    for channel in 0..inputs {
                        for y in 0..size {
                            for x in 0..size {
                                let weight = ((filter * inputs + channel) * size + y) * size + x;
                                let row = (row * stride + y * dilation) as isize - outside as isize;
                                let column =
                                    (column * stride + x * dilation) as isize - outside as isize;
                                let value = input.at(first + channel, row, column);
                                sum += weights[weight] * value.unwrap_or(0.0);
                            }
                        }
                    }
                    if let Some((scales, means, variances)) = &normalization {
                        let spread = (variances[filter] + 1e-5).sqrt();
                        sum = (sum - means[filter]) / spread * scales[filter];
                    }
                    result.values[place] = sum + biases[filter];
                    place += 1;
                }
            }
        }
        result
    }
}

pub fn leaky(x: f64) -> f64 {
    if x > 0.0 { x } else { 0.1 * x }
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
