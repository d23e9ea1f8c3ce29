//! What the integration tests share. Each test binary uses a part of it.
#![allow(dead_code)]

pub mod clips;
pub mod collector;
pub mod daemon;
pub mod rtsp;
