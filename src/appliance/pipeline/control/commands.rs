// SPDX-License-Identifier: Apache-2.0
//! Executes commands, which add sources from the templates of the configuration and remove them. No command removes or changes a
//! source of the configuration file.

use std::time::Instant;

use jetwatch_config::{Config, MAX_SOURCES};
use jetwatch_publish::{Command, Reply};
use jetwatch_telemetry::LogBudget;

use super::queue::ReceivedCommand;
use crate::labels::unknown_labels_of;
use crate::sources::{FromTemplate, Sources};
use crate::switches::SwitchChange;

/// Executes a command on `sources`, logs the result, and returns the reply.
pub(super) fn execute(
    received: ReceivedCommand,
    sources: &mut Sources,
    config: &Config,
    log: &mut LogBudget,
) -> Reply {
    let mut text = String::new();
    let reply_to = received.reply_to;
    let reply = match received.command {
        Ok((id, command)) => {
            let name = command.name().to_owned();
            text = format!("{} {name}", command.command_name());
            let error = apply(command, sources, config).err();
            let name = Some(name);
            Reply {
                reply_to,
                id,
                name,
                error,
            }
        }
        Err(reply) => Reply { reply_to, ..reply },
    };
    let repeats = log.admit(Instant::now());
    match (repeats, &reply.error) {
        (None, _) => {}
        (Some(repeats), Some(error)) => log::warn!(
            repeats;
            "command refused: {text}{}{error}",
            if text.is_empty() { "" } else { ": " }
        ),
        (Some(repeats), None) => log::info!(repeats; "command carried out: {text}"),
    }
    reply
}

fn apply(command: Command, sources: &mut Sources, config: &Config) -> Result<(), String> {
    match command {
        Command::AddSource {
            name,
            template,
            parameters,
        } => {
            let from_template = FromTemplate {
                template,
                parameters,
            };
            add_from_template(&name, from_template, sources, config)
        }
        Command::RemoveSource { name } => {
            remove_added(&name, sources)?;
            sources.retain_switches(config);
            Ok(())
        }
        Command::SetDetection { name, on } => switch(&name, SwitchChange::Detection(on), sources),
        Command::SetRule { name, rule, on } => {
            check_rule(&name, &rule, sources)?;
            switch(&name, SwitchChange::Rule(rule, on), sources)
        }
        Command::SetScoreThreshold { name, threshold } => {
            let least = sources.score_threshold();
            if !(least..=1.0).contains(&threshold) {
                return Err(format!(
                    "found {threshold}, expected a number from {least} to 1: the detector drops what is below {least}"
                ));
            }
            switch(&name, SwitchChange::ScoreThreshold(threshold), sources)
        }
    }
}

fn switch(name: &str, change: SwitchChange, sources: &mut Sources) -> Result<(), String> {
    match sources.switch(name, change) {
        true => Ok(()),
        false => Err("there is no source of this name".to_owned()),
    }
}

/// The source `name`, if there is one, must have the rule.
fn check_rule(name: &str, rule: &str, sources: &Sources) -> Result<(), String> {
    let mut running = sources.running().iter();
    let Some(source) = running.find(|source| source.config.name == name) else {
        return Ok(());
    };
    let rules: Vec<&str> = source.config.rules.names().collect();
    if rules.contains(&rule) {
        return Ok(());
    }
    Err(match rules.is_empty() {
        true => "the source has no rules".to_owned(),
        false => format!("the source has no such rule; it has: {}", rules.join(", ")),
    })
}

fn add_from_template(
    name: &str,
    from_template: FromTemplate,
    sources: &mut Sources,
    config: &Config,
) -> Result<(), String> {
    if sources.running().len() >= MAX_SOURCES {
        return Err(format!(
            "there are {MAX_SOURCES} sources, which is as many as can be"
        ));
    }
    let source = from_template.source(name, config)?;
    let is_taken = |known: &str| known.eq_ignore_ascii_case(name);
    let mut running = sources.running().iter();
    if running.any(|source| is_taken(&source.config.name)) {
        return Err("there is a source of this name (case is ignored)".to_owned());
    }
    if let Some((key, label)) = unknown_labels_of(&source, sources.classes()).first() {
        return Err(format!("{key}: the model has no label `{label}`"));
    }
    sources
        .add(config, &source)
        .map_err(|error| error.to_string())?;
    sources.set_template(name, from_template);
    Ok(())
}

fn remove_added(name: &str, sources: &mut Sources) -> Result<(), String> {
    let mut running = sources.running().iter();
    let found = running.find(|source| source.config.name == name);
    match found.map(|source| &source.from_template) {
        None => return Err("there is no source of this name".to_owned()),
        Some(None) => {
            return Err(
                "this source is in the configuration file: take it out there and reload".to_owned(),
            );
        }
        Some(Some(_)) => {}
    }
    let late = sources.remove(&[name.to_owned()]);
    match late.is_empty() {
        true => Ok(()),
        false => {
            Err("it does not end; it was left behind, and nothing it gives is taken".to_owned())
        }
    }
}
