// SPDX-License-Identifier: Apache-2.0
//! Shared by the integration tests. Each test binary uses a part of it.
#![allow(dead_code, unused_macros)]

/// Fails where a text lacks one of these parts: `assert_has!(log => "online", "offline")`.
macro_rules! assert_has {
    ($text:expr => $($part:expr),+ $(,)?) => {{
        let text = &$text;
        let text: &str = text.as_ref();
        $({
            let part: &str = $part;
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        })+
    }};
}

/// Fails where a text does not have each of these parts exactly once.
macro_rules! assert_once {
    ($text:expr => $($part:expr),+ $(,)?) => {{
        let text = &$text;
        let text: &str = text.as_ref();
        $({
            let part: &str = $part;
            assert_eq!(text.matches(part).count(), 1, "`{part}` in:\n{text}");
        })+
    }};
}

/// Ends a test that needs ONNX Runtime where there is none, with a message.
macro_rules! needs_onnx_runtime {
    () => {
        if $crate::support::onnx_runtime::library_is_missing() {
            return;
        }
    };
}

pub mod bench;
pub mod child;
pub mod classifier;
pub mod clips;
pub mod collector;
pub mod cuda;
pub mod daemon;
pub mod ffprobe;
pub mod file_server;
pub mod generated;
pub mod http_camera;
pub mod http_endpoint;
pub mod jetson_elements;
pub mod nsys_export;
pub mod onnx_file;
pub mod onnx_graph;
pub mod onnx_message;
pub mod onnx_runtime;
pub mod onvif_camera;
pub mod page;
pub mod picture;
pub mod pipeline_timeline;
pub mod ports;
pub mod project;
pub mod publish;
pub mod report;
pub mod rtsp;
pub mod rtsp_camera;
mod rtsp_output;
pub mod schema;
pub mod stream_capture;
pub mod tensorrt;
pub mod virtual_jetson;
