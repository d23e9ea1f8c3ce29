// SPDX-License-Identifier: Apache-2.0
//! What the page asks of the daemon: the part that the pipeline's glue implements.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::media::{LiveStreams, MediaLibrary, ObjectLibrary};

/// The daemon, as the page sees it. Methods may read files; they are called on a thread that may block.
pub trait Backend: Send + Sync {
    /// Device, version, model, disks and features, as JSON.
    fn info(&self) -> serde_json::Value;

    /// Zones and lines of a source as they are now, as JSON; `None`: there is no such source.
    fn rules(&self, source: &str) -> Option<serde_json::Value>;

    /// Checks zones and lines as the daemon checks its configuration, and with [`RuleEdit::Save`] writes them and asks for a reload.
    fn edit_rules(&self, source: &str, rules: &RulesRequest, edit: RuleEdit) -> RuleOutcome;

    /// Asks for a reload of the configuration; false: this run has none to read.
    fn request_reload(&self) -> bool;

    /// Begins checks of the installation, where none run. Does not wait for them.
    ///
    /// # Errors
    /// They run already, or cannot be started; what to do.
    fn start_checks(&self) -> Result<(), String>;

    /// What the checks have found so far: `running`, `started_ms`, `lines` with `state` and `text`, and `verdict`, which is null until they
    /// have ended. Does not wait.
    fn checks(&self) -> serde_json::Value;

    /// Begins to look for cameras, or at the stream of one. Does not wait for the end.
    ///
    /// # Errors
    /// Another one runs, or it cannot be started; what to do.
    fn start_camera_job(&self, job: CameraJob) -> Result<(), String>;

    /// What of that runs, and what the last one of each has found. Does not wait.
    fn cameras(&self) -> serde_json::Value;

    /// The JPEG file of the last stream that was looked at.
    fn camera_picture(&self) -> Option<Arc<[u8]>>;

    /// Writes a camera into the configuration, and its password into a file of its own, and asks for a reload.
    fn add_camera(&self, camera: &NewCamera) -> RuleOutcome;

    /// What support needs to know of this installation, as JSON without secrets.
    fn support_bundle(&self) -> serde_json::Value;

    /// The kept snapshots and clips; `None`: none are kept.
    fn media(&self) -> Option<&dyn MediaLibrary> {
        None
    }

    /// The objects that were seen; `None`: they cannot be read yet.
    fn objects(&self) -> Option<&dyn ObjectLibrary> {
        None
    }

    /// The encoded streams of the sources; `None`: they are not offered.
    fn streams(&self) -> Option<&dyn LiveStreams> {
        None
    }
}

/// What is wanted to know of cameras that are not in the configuration.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CameraJob {
    /// Which there are.
    Find(CameraQuery),
    /// What the stream of one shows.
    Test(NewCamera),
}

/// A search for cameras.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CameraQuery {
    /// Host or address of the one camera to ask; `None`: all that answer in the networks of this machine.
    pub address: Option<String>,
    /// User of the cameras.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// PEM file of the certificates to trust over TLS; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
}

/// Looks for ONVIF cameras; the answer is what `jetwatch discover --json` prints. May take minutes.
pub type CameraFinder = Arc<dyn Fn(&CameraQuery) -> serde_json::Value + Send + Sync>;

/// A camera that may become a source.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewCamera {
    /// The name of the source.
    pub name: String,
    /// The address of its stream, without user and password.
    pub uri: String,
    /// User of the camera.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// PEM file of the certificates to trust over TLS; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// Frames per second at most.
    pub max_fps: Option<f32>,
    /// Its motion is followed; `None`: it is not.
    pub motion: Option<CameraMotion>,
}

/// Where a camera reports its motion.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CameraMotion {
    /// Its ONVIF.
    pub address: String,
    /// Of a recorder: the video input.
    pub input: Option<String>,
}

/// Keys of a rule that a user has changed, with their names in the configuration; null: left out. `coordinates` are points, as shares
/// of the image's width and height; `was` is the rule's name of before, where it got another one.
pub type RuleKeys = serde_json::Map<String, serde_json::Value>;

/// Rules that a user has drawn or changed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesRequest {
    /// All zones that the source is to have.
    pub zones: Vec<RuleKeys>,
    /// All its lines.
    pub lines: Vec<RuleKeys>,
    /// All its directions; `None`: they stay as they are.
    pub directions: Option<Vec<RuleKeys>>,
    /// When an object is at rest: one rule or none; `None`: it stays as it is.
    pub stationary: Option<Vec<RuleKeys>>,
}

/// Whether an edit is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleEdit {
    /// It is only checked.
    Check,
    /// It is written, and the configuration is read again.
    Save,
}

/// What became of an edit.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RuleOutcome {
    /// Whether the daemon accepts the rules.
    pub accepted: bool,
    /// Whether they are in the file, and a reload has been requested.
    pub saved: bool,
    /// The rules as they stand in a configuration.
    pub yaml: String,
    /// What is wrong with them, one problem each.
    pub problems: Vec<String>,
    /// Why they were not written, and what to do.
    pub reason: Option<String>,
    /// The file of before, where it was written.
    pub previous: Option<String>,
}
