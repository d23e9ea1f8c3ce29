// SPDX-License-Identifier: Apache-2.0
//! Applies a new configuration while the pipeline runs: sources are added, removed, or restarted. Any other difference needs a
//! restart. A file with such a difference, or with a problem, changes nothing: the running configuration always corresponds to
//! exactly one file.

use std::time::SystemTime;

use jetwatch_config::{
    Config, ConfigError, MAX_SOURCES, Problem, SourceConfig, SourceDiff, restart_required_keys,
};
use jetwatch_publish::{ReloadProblem, ReloadState, ReloadStatus, Utc};
use jetwatch_telemetry as telemetry;

use crate::labels::{renamed_labels, unknown_labels};
use crate::sources::{FromTemplate, Sources};

/// Replaces the configuration `running` by `config` and changes `sources` accordingly, or returns why that is not possible.
pub(super) fn apply(config: Config, running: &mut Config, sources: &mut Sources) -> ReloadStatus {
    let fixed = restart_required_keys(running, &config);
    let fixed = fixed.into_iter().map(|key| needs_restart(&config, key));
    let mut problems: Vec<ReloadProblem> = fixed.collect();
    let (desired, templates) = desired_sources(sources, &config, &mut problems);
    // Labels in templates are checked, too, so that sources of commands are valid when they are added.
    let labels = unknown_labels(&config, sources.classes());
    problems.extend(labels.iter().map(with_location));
    if !problems.is_empty() {
        return refused(problems);
    }
    let configs = sources.running().iter().map(|source| &source.config);
    let mut changes = SourceDiff::between(configs, &desired);
    for failed in sources
        .running()
        .iter()
        .filter(|source| source.has_failed() || source.is_refused())
    {
        // Its cause may be gone by now: passwords are in files of their own.
        let mut desired = desired.iter();
        if let Some(source) = desired.find(|source| source.name == failed.config.name) {
            changes.restart(source);
        }
    }
    telemetry::start_logging(config.log.level);
    if let Some(renamed) = renamed_labels(&config, sources.classes()) {
        log::info!("{renamed}");
    }
    *running = config;

    sources.reschedule(&changes.rescheduled, SystemTime::now());
    let names = |sources: &[SourceConfig]| -> Vec<String> {
        sources.iter().map(|source| source.name.clone()).collect()
    };
    let (added, changed) = (names(&changes.added), names(&changes.changed));
    let leaving: Vec<String> = changes.removed.iter().chain(&changed).cloned().collect();
    let joining = changes.changed.iter().chain(&changes.added);
    let problems = sources.replace(running, &leaving, joining);
    let problems: Vec<ReloadProblem> = problems.into_iter().map(without_location).collect();
    sources.retain_switches(running);
    sources.clear_templates();
    for (name, template) in templates {
        sources.set_template(&name, template);
    }
    ReloadStatus {
        state: match problems.is_empty() {
            true => ReloadState::Applied,
            false => ReloadState::Incomplete,
        },
        added,
        changed,
        removed: changes.removed,
        unchanged: changes.unchanged + changes.rescheduled.len(),
        problems,
        at: Utc(SystemTime::now()),
    }
}

/// The sources of `config`, and those that commands added and that its templates still define. A source of the file replaces an
/// added one of its name.
fn desired_sources(
    sources: &Sources,
    config: &Config,
    problems: &mut Vec<ReloadProblem>,
) -> (Vec<SourceConfig>, Vec<(String, FromTemplate)>) {
    let (mut wanted, mut kept) = (config.sources.clone(), Vec::new());
    for source in sources.running() {
        let (name, Some(template)) = (&source.config.name, &source.from_template) else {
            continue;
        };
        let is_taken = |known: &SourceConfig| known.name.eq_ignore_ascii_case(name);
        if config.sources.iter().any(is_taken) {
            log::warn!(source = name.as_str(); "replaced by a source of the configuration file; a command had added it");
            continue;
        }
        match template.source(name, config) {
            Ok(source) => {
                wanted.push(source);
                kept.push((name.clone(), template.clone()));
            }
            Err(reason) => {
                log::warn!(source = name.as_str(); "removed; a command had added it: {reason}");
            }
        }
    }
    if wanted.len() > MAX_SOURCES {
        problems.push(without_location(format!(
            "{} sources with those that commands have added, expected {MAX_SOURCES} at most; remove some first",
            wanted.len()
        )));
    }
    (wanted, kept)
}

pub(super) fn refused(problems: Vec<ReloadProblem>) -> ReloadStatus {
    ReloadStatus {
        state: ReloadState::Refused,
        added: Vec::new(),
        changed: Vec::new(),
        removed: Vec::new(),
        unchanged: 0,
        problems,
        at: Utc(SystemTime::now()),
    }
}

pub(super) fn problems(error: &ConfigError) -> Vec<ReloadProblem> {
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
    let text = "differs and cannot change while the daemon runs".to_owned();
    let hint = "put it back, or restart: systemctl restart jetwatch".to_owned();
    with_location(&config.problem(key, text, Some(hint)))
}

fn without_location(text: String) -> ReloadProblem {
    ReloadProblem {
        file: None,
        line: None,
        key: None,
        text,
    }
}

/// The first problem of a reload, for the status line of systemd; `None` where there is none.
pub(super) fn summary(status: &ReloadStatus) -> Option<String> {
    let first = status.problems.first()?;
    let more = match status.problems.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let word = status.state.name();
    Some(format!("reload {word}: {}{more}", first.text))
}

pub(super) fn log_outcome(status: &ReloadStatus) {
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
