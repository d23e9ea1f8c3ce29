//! Networks for the detector: the [`catalog`] and its downloads.

pub mod model_zoo;
