//! Reading the configuration again while the chain runs: sources join, leave, or are started anew; whatever else differs
//! needs a restart, and a file that asks for it, or that has a problem, changes nothing. What runs is always what one file
//! says as a whole.

use jetwatch_config::{Config, ConfigError, MAX_SOURCES, Problem, SourceConfig, SourceDiff};
use jetwatch_publish::{ReloadProblem, ReloadState, ReloadStatus};
use jetwatch_telemetry as telemetry;

use super::Pipeline;
use super::analytics::unknown_labels;
use super::control::{FromTemplate, Request};
use super::track::ControlMessage;

/// Reads the configuration once more, as it was read for the start.
pub type ConfigLoader = Box<dyn Fn() -> Result<Config, ConfigError> + Send>;

impl Pipeline {
    /// A function that asks for a reload; it does not wait for it. Several wishes that nobody has looked at are one.
    pub fn reload_request(&self) -> impl Fn() + Send + use<> {
        self.control.reload_request()
    }

    /// Does one thing that was asked for; false: there was none.
    pub(super) fn handle_next(&mut self) -> bool {
        match self.control.next() {
            Some(Request::Reload) => self.reload(),
            Some(Request::Command(sent)) => self.execute(sent),
            None => return false,
        }
        true
    }

    fn reload(&mut self) {
        let Some(reread) = &self.config_loader else {
            log::warn!("this run has no configuration file to read again");
            return;
        };
        self.reload_notice.reloading();
        let status = match reread() {
            Ok(config) => self.apply_config(config),
            Err(error) => refused(problems(&error)),
        };
        log_outcome(&status);
        self.reload_notice.reloaded(summary(&status));
        let _ = self
            .control_messages
            .send(ControlMessage::Reload(Box::new(status)));
    }

    /// Makes the chain what `config` says, or says why that cannot be.
    fn apply_config(&mut self, config: Config) -> ReloadStatus {
        let fixed = self.config.restart_required_keys(&config);
        let fixed = fixed.into_iter().map(|key| needs_restart(&config, key));
        let mut against: Vec<ReloadProblem> = fixed.collect();
        let (wanted, made) = self.desired_sources(&config, &mut against);
        // Sources of commands are no better and no worse than the templates that give them.
        let labels = unknown_labels(&config, &self.source_defaults.labels);
        against.extend(labels.iter().map(with_location));
        if !against.is_empty() {
            return refused(against);
        }
        let running = self.sources.iter().map(|member| &member.config);
        let mut changes = SourceDiff::between(running, &wanted);
        for member in self.sources.iter().filter(|member| member.has_failed()) {
            // What it lacked may be there by now.
            let mut known = wanted.iter();
            if let Some(source) = known.find(|source| source.name == member.config.name) {
                changes.restart(source);
            }
        }
        telemetry::start_logging(config.log.level);
        self.config = config;

        let names = |sources: &[SourceConfig]| -> Vec<String> {
            sources.iter().map(|source| source.name.clone()).collect()
        };
        let (added, changed) = (names(&changes.added), names(&changes.changed));
        let leaving: Vec<String> = changes.removed.iter().chain(&changed).cloned().collect();
        // Even if all of them leave: others join.
        self.batcher.hold_open(true);
        let late = self.remove_sources(&leaving);
        let mut problems: Vec<ReloadProblem> = late
            .iter()
            .map(|name| without_location(format!("source {name} does not end; it was left behind")))
            .collect();
        for source in changes.changed.iter().chain(&changes.added) {
            if let Err(error) = self.add_source(source) {
                problems.push(without_location(format!("source {}: {error}", source.name)));
            }
        }
        self.batcher.hold_open(false);
        for member in &mut self.sources {
            member.from_template = None;
        }
        for (name, made) in made {
            let mut members = self.sources.iter_mut();
            if let Some(member) = members.find(|member| member.config.name == name) {
                member.from_template = Some(made);
            }
        }
        ReloadStatus {
            state: match problems.is_empty() {
                true => ReloadState::Applied,
                false => ReloadState::Incomplete,
            },
            added,
            changed,
            removed: changes.removed,
            unchanged: changes.unchanged,
            problems,
        }
    }

    /// The sources of `config`, and those that commands have added and that its templates still give. A source of the file
    /// takes the place of an added one of its name.
    fn desired_sources(
        &self,
        config: &Config,
        against: &mut Vec<ReloadProblem>,
    ) -> (Vec<SourceConfig>, Vec<(String, FromTemplate)>) {
        let (mut wanted, mut kept) = (config.sources.clone(), Vec::new());
        for member in &self.sources {
            let (name, Some(made)) = (&member.config.name, &member.from_template) else {
                continue;
            };
            let is_taken = |known: &SourceConfig| known.name.eq_ignore_ascii_case(name);
            if config.sources.iter().any(is_taken) {
                log::warn!(source = name.as_str(); "a source of the file takes the place of this one, which a command had added");
                continue;
            }
            match made.source(name, config) {
                Ok(source) => {
                    wanted.push(source);
                    kept.push((name.clone(), made.clone()));
                }
                Err(reason) => {
                    log::warn!(source = name.as_str(); "a command had added it, and it goes: {reason}");
                }
            }
        }
        if wanted.len() > MAX_SOURCES {
            against.push(without_location(format!(
                "{} sources with those that commands have added, expected {MAX_SOURCES} at most; remove some first",
                wanted.len()
            )));
        }
        (wanted, kept)
    }
}

fn refused(problems: Vec<ReloadProblem>) -> ReloadStatus {
    ReloadStatus {
        state: ReloadState::Refused,
        added: Vec::new(),
        changed: Vec::new(),
        removed: Vec::new(),
        unchanged: 0,
        problems,
    }
}

fn problems(error: &ConfigError) -> Vec<ReloadProblem> {
    let located = error.problems();
    if located.is_empty() {
        return vec![without_location(error.to_string())];
    }
    located.iter().map(with_location).collect()
}

fn with_location(problem: &Problem) -> ReloadProblem {
    ReloadProblem {
        file: Some(problem.file.clone()),
        line: problem.line,
        key: (!problem.key.is_empty()).then(|| problem.key.clone()),
        text: problem.to_string(),
    }
}

fn needs_restart(config: &Config, key: &str) -> ReloadProblem {
    let what = "differs and cannot change while the daemon runs".to_owned();
    let hint = "put it back, or restart: systemctl restart jetwatch".to_owned();
    with_location(&config.problem(key, what, Some(hint)))
}

fn without_location(text: String) -> ReloadProblem {
    ReloadProblem {
        file: None,
        line: None,
        key: None,
        text,
    }
}

/// What of a reload has to be known at a glance.
fn summary(status: &ReloadStatus) -> Option<String> {
    let first = status.problems.first()?;
    let more = match status.problems.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let word = status.state.name();
    Some(format!("reload {word}: {}{more}", first.text))
}

fn log_outcome(status: &ReloadStatus) {
    for problem in &status.problems {
        log::error!("reload {}: {}", status.state.name(), problem.text);
    }
    if status.state == ReloadState::Refused {
        log::error!("reload refused: nothing was changed");
        return;
    }
    log::info!(
        "reload {}: {} added, {} changed, {} removed, {} unchanged",
        status.state.name(),
        status.added.len(),
        status.changed.len(),
        status.removed.len(),
        status.unchanged
    );
}
