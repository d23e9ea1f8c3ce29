//! Reading the configuration again while the chain runs: sources join, leave, or are started anew; whatever else differs
//! needs a restart, and a file that asks for it, or that has a problem, changes nothing. What runs is always what one file
//! says as a whole.

use crate::config::{Config, ConfigError, SourceChanges};
use crate::detect::DetectError;
use crate::publish::{ReloadProblem, ReloadState, ReloadStatus};
use crate::telemetry;

use super::Pipeline;
use super::follow::News;
use super::scene::unknown_objects;
use super::sieve::Sieve;

/// Reads the configuration once more, as it was read for the start.
pub type Reread = Box<dyn Fn() -> Result<Config, ConfigError> + Send>;

/// What is asked of a running chain from outside.
pub(super) enum Request {
    /// Read the configuration again.
    Reload,
}

impl Pipeline {
    /// A function that asks for a reload; it does not wait for it.
    pub fn reload_request(&self) -> impl Fn() + Send + use<> {
        let asking = self.asking.clone();
        // A request that finds no room stands behind others of its kind, which do the same.
        move || drop(asking.try_send(Request::Reload))
    }

    /// Does what was asked for since the last look.
    pub(super) fn answer(&mut self) {
        while let Ok(Request::Reload) = self.asked.try_recv() {
            self.reload();
        }
    }

    fn reload(&mut self) {
        let Some(reread) = &self.reread else {
            log::warn!("this run has no configuration file to read again");
            return;
        };
        self.notice.reloading();
        let status = match reread() {
            Ok(config) => self.take_over(config),
            Err(error) => refused(problems(&error)),
        };
        tell(&status);
        self.notice.reloaded(trouble(&status));
        let _ = self.news.send(News::Reload(Box::new(status)));
    }

    /// Makes the chain what `config` says, or says why that cannot be.
    fn take_over(&mut self, config: Config) -> ReloadStatus {
        let fixed = self.config.fixed_keys_that_differ(&config);
        let mut against: Vec<ReloadProblem> = fixed.into_iter().map(needs_restart).collect();
        let objects = unknown_objects(&config.sources, &self.inlet.labels);
        against.extend(objects.into_iter().map(plain));
        for source in &config.sources {
            if let Err(error) = Sieve::new(source, &self.inlet.labels) {
                against.push(unknown_label(&source.name, &error));
            }
        }
        if !against.is_empty() {
            return refused(against);
        }
        let running = self.sources.iter().map(|member| &member.config);
        let changes = SourceChanges::between(running, &config.sources);
        telemetry::start_logging(config.log.level);
        self.config = config;

        let names = |sources: &[crate::config::SourceConfig]| -> Vec<String> {
            sources.iter().map(|source| source.name.clone()).collect()
        };
        let (added, changed) = (names(&changes.added), names(&changes.changed));
        let leaving: Vec<String> = changes.removed.iter().chain(&changed).cloned().collect();
        // Even if all of them leave: others join.
        self.lanes.hold(true);
        let late = self.let_go(&leaving);
        let mut problems: Vec<ReloadProblem> = late
            .iter()
            .map(|name| plain(format!("source {name} does not end; it was left behind")))
            .collect();
        for source in changes.changed.iter().chain(&changes.added) {
            if let Err(error) = self.join_source(source) {
                problems.push(plain(format!("source {}: {error}", source.name)));
            }
        }
        self.lanes.hold(false);
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
    let told = error.problems();
    if told.is_empty() {
        return vec![plain(error.to_string())];
    }
    let problem = |problem: &crate::config::Problem| ReloadProblem {
        file: Some(problem.file.clone()),
        line: problem.line,
        key: (!problem.key.is_empty()).then(|| problem.key.clone()),
        text: problem.to_string(),
    };
    told.iter().map(problem).collect()
}

fn needs_restart(key: &str) -> ReloadProblem {
    ReloadProblem {
        key: Some(key.to_owned()),
        ..plain(format!(
            "{key} differs and cannot change while the daemon runs; put it back, or restart: systemctl restart jetwatch"
        ))
    }
}

fn unknown_label(source: &str, error: &DetectError) -> ReloadProblem {
    ReloadProblem {
        key: Some("sources.classes".to_owned()),
        ..plain(format!("source {source}: {error}"))
    }
}

fn plain(text: String) -> ReloadProblem {
    ReloadProblem {
        file: None,
        line: None,
        key: None,
        text,
    }
}

/// What of a reload has to be known at a glance.
fn trouble(status: &ReloadStatus) -> Option<String> {
    let first = status.problems.first()?;
    let more = match status.problems.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let word = status.state.name();
    Some(format!("reload {word}: {}{more}", first.text))
}

fn tell(status: &ReloadStatus) {
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
