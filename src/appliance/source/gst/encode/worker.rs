// SPDX-License-Identifier: Apache-2.0
//! The thread of an encoder: opens its pipeline with the first image, and again where the format changes or the time goes back.
//! Where an encoder does not start, the next one of the table is taken.

use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::super::encoded::EncodedCapture;
use super::RawImage;
use super::pipeline::{EncoderPipeline, in_nvmm};
use crate::h264_encoders::{H264Encoder, installed};

/// Wait before encoders that all have failed are tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

pub(super) struct Worker {
    name: String,
    capture: EncodedCapture,
    open: Option<EncoderPipeline>,
    /// Encoders in use: those before this one do not start.
    first: usize,
    retry_at: Option<Instant>,
    /// The last error in the log.
    logged: String,
}

impl Worker {
    pub(super) fn new(name: &str, capture: EncodedCapture) -> Self {
        Self {
            name: name.to_owned(),
            capture,
            open: None,
            first: 0,
            retry_at: None,
            logged: String::new(),
        }
    }

    /// Runs until there are no more images, or no encoder.
    pub(super) fn run(mut self, images: &Receiver<RawImage>) {
        for image in images {
            if self.retry_at.is_some_and(|at| Instant::now() < at) {
                continue;
            }
            let encoders = match installed(in_nvmm(&image.caps)) {
                Ok(encoders) => encoders,
                Err(reason) => {
                    log::error!(source = self.name.as_str(); "nothing of it is recorded: it brings no H.264 or H.265, and {reason}");
                    return;
                }
            };
            if let Err(reason) = self.encode(image, &encoders) {
                self.fail(&reason, encoders.len());
            }
        }
        if let Some(open) = self.open.take() {
            open.finish();
        }
    }

    fn encode(&mut self, image: RawImage, encoders: &[&'static H264Encoder]) -> Result<(), String> {
        let continues = |open: &EncoderPipeline| open.continues(&image.caps, image.pts);
        if let Some(ended) = self.open.take_if(|open| !continues(open)) {
            ended.finish();
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let encoder = encoders[self.first.min(encoders.len() - 1)];
                let opened =
                    EncoderPipeline::open(encoder, &image.caps, &self.capture, &self.name)?;
                self.open.insert(opened)
            }
        };
        open.push(image)?;
        if open.has_output() && self.retry_at.take().is_some() {
            log::info!(source = self.name.as_str(); "its video is encoded again");
            self.logged.clear();
        }
        Ok(())
    }

    fn fail(&mut self, reason: &str, encoders: usize) {
        let had_output = self.open.take().is_some_and(|open| open.has_output());
        let source = self.name.as_str();
        if !had_output && self.first + 1 < encoders {
            log::warn!(source; "{reason}: the next encoder is tried");
            self.first += 1;
            return;
        }
        if self.logged != reason {
            log::error!(
                source;
                "its video is not encoded, so nothing of it is recorded: {reason}; detection goes on, it is tried again every {} s",
                RETRY_INTERVAL.as_secs()
            );
            reason.clone_into(&mut self.logged);
        }
        self.first = 0;
        self.retry_at = Some(Instant::now() + RETRY_INTERVAL);
    }
}
