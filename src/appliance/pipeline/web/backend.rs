// SPDX-License-Identifier: Apache-2.0
//! What the page asks of the daemon: what runs where, zones and lines, new cameras, reloads, and the support bundle.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Value, json};

use jetwatch_config::{
    Config, EditedRule, FileRules, RuleEditError, SceneRules, add_sources, edit_rules,
    rules_of_file, rules_yaml,
};
use jetwatch_platform::{Machine, Memory, SysRoot};
use jetwatch_publish::SourceInfo;
use jetwatch_web::{
    Backend, CameraFinder, CameraJob, CameraQuery, Hub, LiveStreams, MediaLibrary, NewCamera,
    ObjectLibrary, RuleEdit, RuleKeys, RuleOutcome, RulesRequest,
};

use super::cameras::{Cameras, item_yaml, source_of};
use super::checks::Checks;
use super::disks::Disks;
use super::media::{Library, StreamBoard};
use super::seen::SeenObjects;
use crate::run_state::RunState;

/// Version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Largest configuration that is edited, in bytes.
const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// The daemon, as the page sees it.
pub(super) struct PageBackend {
    device: String,
    started_at: SystemTime,
    preview_fps: u32,
    stats_interval_s: u64,
    path: Option<PathBuf>,
    disks: Disks,
    /// Whether pictures or video are kept.
    keeps_media: bool,
    hub: Arc<Hub>,
    /// In the order in which they were added.
    sources: Mutex<Vec<SourceInfo>>,
    run: Arc<RunState>,
    library: Library,
    seen: SeenObjects,
    streams: Arc<StreamBoard>,
    checks: Checks,
    cameras: Cameras,
    /// One edit at a time.
    editing: Mutex<()>,
    /// The rules in the file, as it was when they were read: the page asks for those of each source.
    written: Mutex<Option<(FileState, Arc<FileRules>)>>,
}

impl PageBackend {
    pub(super) fn new(
        config: &Config,
        path: Option<&Path>,
        check_command: &[OsString],
        finder: Option<CameraFinder>,
        hub: Arc<Hub>,
        run: Arc<RunState>,
    ) -> Self {
        let mut folders = vec![("system", PathBuf::from("/"))];
        if let Some(mqtt) = &config.publish.mqtt {
            let spool = mqtt.spool.state_folder.clone();
            let spool = spool.unwrap_or_else(|| jetwatch_config::STATE_FOLDER.clone());
            folders.push(("spool", spool));
        }
        // It may be made later.
        if config.has_media() || config.record.folder_path().is_dir() {
            folders.push(("recordings", config.record.folder_path().to_owned()));
        }
        Self {
            device: config.device.clone(),
            started_at: SystemTime::now(),
            preview_fps: config.web.preview.max_fps,
            stats_interval_s: config.publish.stats_interval.as_secs(),
            path: path.map(Path::to_owned),
            disks: Disks::of(folders),
            // Not whether it is open yet: the page asks once.
            keeps_media: config.has_media(),
            hub,
            sources: Mutex::default(),
            library: Library::of(&run),
            seen: SeenObjects::of(&run),
            run,
            streams: Arc::default(),
            checks: Checks::new(check_command),
            cameras: Cameras::new(finder),
            editing: Mutex::default(),
            written: Mutex::default(),
        }
    }

    pub(super) fn source_added(&self, source: &SourceInfo) {
        let mut sources = self.sources.lock();
        match sources.iter_mut().find(|known| known.name == source.name) {
            Some(known) => *known = source.clone(),
            None => sources.push(source.clone()),
        }
    }

    pub(super) fn source_removed(&self, source: &str) {
        self.sources.lock().retain(|known| known.name != source);
    }

    pub(super) fn streams_board(&self) -> &Arc<StreamBoard> {
        &self.streams
    }

    /// Objects that were seen.
    pub(super) fn seen(&self) -> &SeenObjects {
        &self.seen
    }

    /// Ends checks and searches that run.
    pub(super) fn stop_jobs(&self) {
        self.checks.stop();
        self.cameras.stop();
    }

    /// Changes the text of the file by `change`, which gets its path and its text; `save`: it is written. The path of the file of before,
    /// where it was.
    fn edit(
        &self,
        save: bool,
        change: impl FnOnce(&Path, &str) -> Result<String, EditFailure>,
    ) -> Result<Option<PathBuf>, EditFailure> {
        let path = self.path.as_deref().ok_or_else(|| {
            EditFailure::NotSaved("this run has no configuration file".to_owned())
        })?;
        let _one_at_a_time = self.editing.lock();
        let failed = |error: io::Error| {
            EditFailure::NotSaved(format!("cannot read {}: {error}", path.display()))
        };
        // The file itself changes, where its name is a link.
        let path = &*jetwatch_files::target_of(path).map_err(failed)?;
        let size = fs::metadata(path).map_err(failed)?.len();
        if size > MAX_CONFIG_BYTES {
            let reason = format!("{} is too large to be edited", path.display());
            return Err(EditFailure::NotSaved(reason));
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        let edited = change(path, &text)?;
        if !save || edited == text {
            return Ok(None);
        }
        let previous = jetwatch_files::replace_text(path, &text, &edited).map_err(|error| {
            let cause = std::error::Error::source(&error);
            let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
            EditFailure::NotSaved(format!(
                "{error}{cause}; paste the lines below into the file"
            ))
        })?;
        Ok(Some(previous))
    }

    /// The rules in the file; `None`: it cannot be read.
    fn written_rules(&self) -> Option<Arc<FileRules>> {
        let path = self.path.as_deref()?;
        let found = fs::metadata(path).ok()?;
        let now = (found.modified().ok(), found.ino(), found.len());
        let mut written = self.written.lock();
        if let Some((before, rules)) = &*written
            && *before == now
        {
            return Some(Arc::clone(rules));
        }
        let rules = Arc::new(rules_of_file(&fs::read_to_string(path).ok()?));
        *written = Some((now, Arc::clone(&rules)));
        Some(rules)
    }

    /// What became of an edit, whose lines are `yaml`.
    fn outcome(&self, yaml: String, edited: Result<Option<PathBuf>, EditFailure>) -> RuleOutcome {
        let mut outcome = RuleOutcome {
            yaml,
            ..RuleOutcome::default()
        };
        match edited {
            Ok(previous) => {
                outcome.accepted = true;
                outcome.saved = previous.is_some();
                outcome.previous = previous.map(|path| path.display().to_string());
                if outcome.saved && !self.request_reload() {
                    outcome.reason = Some("restart the daemon to apply it".to_owned());
                }
            }
            Err(EditFailure::Problems(problems)) => outcome.problems = problems,
            Err(EditFailure::NotSaved(reason)) => {
                outcome.accepted = true;
                outcome.reason = Some(reason);
            }
        }
        outcome
    }
}

/// What a file had when it was read: when it was changed, which it is, and its length.
type FileState = (Option<SystemTime>, u64, u64);

/// Why an edit is not in the file.
enum EditFailure {
    /// The daemon does not accept it.
    Problems(Vec<String>),
    /// It is accepted, as far as that is known.
    NotSaved(String),
}

impl From<RuleEditError> for EditFailure {
    fn from(error: RuleEditError) -> Self {
        match error {
            RuleEditError::Problems(problems) => Self::Problems(problems),
            RuleEditError::Form { reason } => Self::NotSaved(reason),
        }
    }
}

impl Backend for PageBackend {
    fn info(&self) -> Value {
        let started = self.started_at.duration_since(UNIX_EPOCH);
        let sources: Vec<Value> = self
            .sources
            .lock()
            .iter()
            .map(|source| {
                json!({
                    "name": source.name,
                    "labels": source.labels,
                    "rules": source.rules.names().collect::<Vec<_>>(),
                })
            })
            .collect();
        let loaded = self.run.loaded.get();
        let memory = Memory::read(&SysRoot::default()).ok().flatten();
        json!({
            "device": self.device,
            "version": VERSION,
            "memory": memory.map(|memory| json!({
                "total_bytes": memory.total,
                "available_bytes": memory.available,
            })),
            "started_ms": started.map_or(0, |since| since.as_millis() as u64),
            "detector": loaded.map(|loaded| loaded.detector.describe()),
            "model": Machine::find(&SysRoot::default()).model,
            "preview_fps": self.preview_fps,
            "stats_interval_s": self.stats_interval_s,
            "can_edit": self.path.is_some(),
            "has_media": self.keeps_media,
            "streams": self.streams.names(),
            "sources": sources,
            "disks": self.disks.figures(),
        })
    }

    fn rules(&self, source: &str) -> Option<Value> {
        let sources = self.sources.lock();
        let known = sources.iter().find(|known| known.name == source)?;
        let mut rules = rules_json(&known.rules);
        drop(sources);
        if let Some(file) = self.written_rules() {
            add_from_file(&mut rules, &file, source);
        }
        Some(rules)
    }

    fn edit_rules(&self, source: &str, rules: &RulesRequest, edit: RuleEdit) -> RuleOutcome {
        let edited_rules = |rules: &Vec<RuleKeys>| rules.iter().cloned().map(edited_rule).collect();
        let sections = [
            ("zones", Some(&rules.zones)),
            ("lines", Some(&rules.lines)),
            ("directions", rules.directions.as_ref()),
            ("stationary", rules.stationary.as_ref()),
        ];
        let sections: Vec<(&str, Vec<EditedRule>)> = sections
            .into_iter()
            .filter_map(|(key, rules)| Some((key, edited_rules(rules?))))
            .collect();
        let mut yaml = rules_yaml(&sections);
        let edited = self.edit(edit == RuleEdit::Save, |path, text| {
            let edited;
            (yaml, edited) = edit_rules(&path.display().to_string(), text, source, &sections);
            Ok(edited?)
        });
        if let Ok(Some(previous)) = &edited {
            log::info!(source; "rules were changed on the page; the file of before is {}", previous.display());
        }
        self.outcome(yaml, edited)
    }

    fn start_camera_job(&self, mut job: CameraJob) -> Result<(), String> {
        let (CameraJob::Find(CameraQuery { ca_file, .. })
        | CameraJob::Test(NewCamera { ca_file, .. })) = &mut job;
        // As in the configuration.
        if let (Some(file), Some(path)) = (ca_file, &self.path) {
            *file = path.with_file_name(&*file);
        }
        match job {
            CameraJob::Find(query) => self.cameras.find(query),
            CameraJob::Test(camera) => self.cameras.test(&camera),
        }
    }

    fn cameras(&self) -> Value {
        self.cameras.to_json()
    }

    fn camera_picture(&self) -> Option<Arc<[u8]>> {
        self.cameras.picture()
    }

    fn add_camera(&self, camera: &NewCamera) -> RuleOutcome {
        if let Err(problem) = source_of(camera) {
            return self.outcome(String::new(), Err(EditFailure::Problems(vec![problem])));
        }
        let password_file = Path::new("secrets").join(&camera.name);
        let item = item_yaml(camera, &password_file.display().to_string());
        let mut stored = None;
        let edited = self.edit(true, |path, text| {
            let edited = add_sources(&path.display().to_string(), text, &item)?;
            if camera.user.is_some() {
                let file = path.with_file_name(&password_file);
                let password = camera.password.as_deref().unwrap_or_default();
                let is_new = jetwatch_files::store_secret(&file, password).map_err(|error| {
                    let cause = error.source.to_string();
                    EditFailure::NotSaved(format!("{error}: {cause}; write the password into that file, or choose another name"))
                })?;
                stored = is_new.then_some(file);
            }
            Ok(edited)
        });
        match &edited {
            Ok(Some(previous)) => {
                log::info!(source = camera.name.as_str(); "the source was added on the page; the file of before is {}", previous.display());
            }
            // Without the source, its password has no use.
            _ => {
                let removed = stored.map(fs::remove_file);
                log::debug!("the source was not added; its password: {removed:?}");
            }
        }
        self.outcome(item, edited)
    }

    fn request_reload(&self) -> bool {
        let (Some(_), Some(loaded)) = (&self.path, self.run.loaded.get()) else {
            return false;
        };
        (loaded.reload)();
        true
    }

    fn start_checks(&self) -> Result<(), String> {
        self.checks.start()
    }

    fn checks(&self) -> Value {
        self.checks.to_json()
    }

    fn media(&self) -> Option<&dyn MediaLibrary> {
        self.library.is_open().then_some(&self.library)
    }

    fn objects(&self) -> Option<&dyn ObjectLibrary> {
        self.seen.is_ready().then_some(&self.seen)
    }

    fn streams(&self) -> Option<&dyn LiveStreams> {
        Some(&*self.streams)
    }

    fn support_bundle(&self) -> Value {
        let messages: Vec<Value> = self
            .hub
            .retained()
            .iter()
            .filter_map(|message| serde_json::from_slice(message).ok())
            .collect();
        let config = self.path.as_deref().map(Config::redacted_yaml);
        let config = config.map(|text| text.unwrap_or_else(|error| error.to_string()));
        let environment: BTreeMap<&str, String> = ["ORT_DYLIB_PATH", "GST_DEBUG", "RUST_LOG"]
            .into_iter()
            .filter_map(|name| Some((name, std::env::var(name).ok()?)))
            .collect();
        json!({
            "what": "Support bundle of jetwatch, without passwords, tokens and other secrets",
            "info": self.info(),
            "checks": self.checks(),
            "configuration": config,
            "environment": environment,
            "messages": messages,
        })
    }
}

fn edited_rule(mut keys: RuleKeys) -> EditedRule {
    let was = keys.remove("was");
    let was = was.and_then(|was| was.as_str().map(str::to_owned));
    EditedRule { was, keys }
}

/// Adds to `rules` what only the file says: its schedules by name, and which zones may overlap.
fn add_from_file(rules: &mut Value, file: &FileRules, source: &str) {
    let add = |rule: &mut Value, written: &[Value]| {
        let written = written
            .iter()
            .find(|written| written["name"] == rule["name"]);
        for key in ["schedule", "allow_overlap"] {
            if let Some(value) = written.and_then(|written| written.get(key)) {
                rule[key] = value.clone();
            }
        }
    };
    let written = file.sources.get(source).into_iter().flatten();
    for (section, written) in written {
        match &mut rules[section] {
            Value::Array(rules) => rules.iter_mut().for_each(|rule| add(rule, written)),
            Value::Null => {}
            rule => add(rule, written),
        }
    }
    rules["schedules"] = json!(file.schedules);
    rules["groups"] = file.groups.clone();
}

fn rules_json(rules: &SceneRules) -> Value {
    let seconds = |time: Duration| time.as_secs();
    let zones = rules.zones.iter().map(|zone| {
        json!({
            "name": zone.name,
            "coordinates": zone.area.points(),
            "objects": zone.objects,
            "inertia_frames": zone.inertia_frames,
            "loitering_time_s": zone.loitering.map(seconds),
            "object_threshold": zone.object_threshold,
            "has_schedule": zone.schedule.is_some(),
        })
    });
    let lines = rules.lines.iter().map(|line| {
        json!({
            "name": line.name,
            "coordinates": [line.line.from, line.line.to],
            "objects": line.objects,
            "inertia_frames": line.inertia_frames,
            "has_schedule": line.schedule.is_some(),
        })
    });
    let directions = rules.directions.iter().map(|direction| {
        json!({
            "name": direction.name,
            "coordinates": [direction.line.from, direction.line.to],
            "tolerance_degrees": direction.tolerance_degrees,
            "min_distance": direction.min_distance,
            "has_schedule": direction.schedule.is_some(),
        })
    });
    let stationary = rules.stationary.as_ref().map(|rule| {
        json!({
            "threshold_s": seconds(rule.after),
            "min_iou": rule.min_iou,
            "inertia_frames": rule.inertia_frames,
            "objects": rule.objects,
            "has_schedule": rule.schedule.is_some(),
        })
    });
    json!({
        "zones": zones.collect::<Vec<_>>(),
        "lines": lines.collect::<Vec<_>>(),
        "directions": directions.collect::<Vec<_>>(),
        "stationary": stationary,
    })
}
