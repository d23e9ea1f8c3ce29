//! FLOOR 2: pixels in: GStreamer pipelines, their supervisor, and the synthetic scene.

pub mod scene;
