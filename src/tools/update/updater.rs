// SPDX-License-Identifier: Apache-2.0
//! Decides what an update does next, over [`System`] and [`Store`].

mod reporting;

use std::path::PathBuf;
use std::time::Duration;

use jetwatch_telemetry::update_status::UpdateState;
use jetwatch_telemetry::with_causes;

use super::gate::{self, Gate};
use super::journal::MODEL_PREFIX;
use super::store::Kept;
use super::{Change, Journal, KeptPackage, Step, Store, System, UpdateError};

/// A version that is not healthy may not end either. Its events are in the spool, which a kill does not harm.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// The package with the program.
const MAIN_PACKAGE: &str = "jetwatch";

/// Why the packages of an interrupted update that are not whole are rolled back.
const INTERRUPTED: &str = "the installation was interrupted";

/// How an update or a roll-back ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing to do; the installed version.
    UpToDate(String),
    /// A newer version is there and was not installed: its number, and why.
    Available(String, String),
    /// The new version is installed and healthy.
    Installed(String),
    /// The earlier version is installed again, and healthy: its number, and why.
    RolledBack(String, String),
}

/// What to install.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstallRequest {
    /// Also a version that was rolled back before.
    pub retry_held: bool,
    /// Also where no daemon runs whose health could be verified.
    pub without_daemon: bool,
}

/// The state machine.
#[derive(Debug)]
pub struct Updater<S> {
    system: S,
    store: Store,
    gate: Gate,
}

impl<S: System> Updater<S> {
    /// Over `system`, with the files in `store`.
    pub fn new(system: S, store: Store, gate: Gate) -> Self {
        Self {
            system,
            store,
            gate,
        }
    }

    /// Looks for a newer version, and changes nothing.
    ///
    /// # Errors
    /// The repository cannot be fetched or trusted, or an earlier update has to be resumed first.
    pub fn check(&mut self) -> Result<Outcome, UpdateError> {
        if self.store.journal()?.is_some() {
            return Err(UpdateError::Refused(
                "an update was interrupted; end it first: jetwatch update resume".to_owned(),
            ));
        }
        self.system.refresh()?;
        let (installed, latest, changes) = self.changes()?;
        match changes.is_empty() {
            true => {
                self.report(UpdateState::UpToDate, &installed, &latest, None)?;
                Ok(Outcome::UpToDate(installed))
            }
            false => {
                self.report(UpdateState::Available, &installed, &latest, None)?;
                Ok(Outcome::Available(
                    latest,
                    "jetwatch update install".to_owned(),
                ))
            }
        }
    }

    /// Installs what the repository has newer, and rolls back where that is not healthy.
    ///
    /// # Errors
    /// The update was refused before anything was changed, or the roll-back has failed.
    pub fn install(&mut self, request: &InstallRequest) -> Result<Outcome, UpdateError> {
        self.resume()?;
        self.store.clean()?;
        let installed = in_words(&self.packages()?);
        let refused = match self.try_install(request, &installed) {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        // What had changed packages was rolled back, or has reported its failure.
        if self
            .store
            .journal()?
            .is_none_or(|journal| !journal.step.has_changed_packages())
        {
            self.abandon(&installed, &with_causes(&refused))?;
        }
        Err(refused)
    }

    fn try_install(
        &mut self,
        request: &InstallRequest,
        installed: &str,
    ) -> Result<Outcome, UpdateError> {
        self.system.refresh()?;
        let (_, latest, changes) = self.changes()?;
        if changes.is_empty() {
            self.report(UpdateState::UpToDate, installed, &latest, None)?;
            return Ok(Outcome::UpToDate(installed.to_owned()));
        }
        let held = self.store.status()?.and_then(|status| status.held);
        if held.as_deref() == Some(&latest) && !request.retry_held {
            let reason = "it was rolled back before; install it all the same: --retry-held";
            self.report(UpdateState::Available, installed, &latest, Some(reason))?;
            return Ok(Outcome::Available(latest, reason.to_owned()));
        }
        let is_running = self.system.daemons()?.iter().any(|daemon| daemon.is_active);
        if !is_running && !request.without_daemon {
            return Err(UpdateError::Refused(
                "no daemon runs, so that the health of the new version could not be verified; start it, or use --without-daemon".to_owned(),
            ));
        }
        let mut journal = Journal::new(Step::Keep, installed.to_owned(), latest, changes);
        self.begin(&mut journal, Step::Keep)?;
        self.store.keep_program()?;
        self.keep(&mut journal)?;
        self.begin(&mut journal, Step::Fetch)?;
        self.fetch(&mut journal)?;
        self.begin(&mut journal, Step::Check)?;
        let files = self.files(&journal, |change| change.new.as_ref())?;
        self.check_networks(&journal, &files)?;
        self.make_room(&journal)?;
        // After the download, during which a source may go offline.
        journal.baseline = match journal.models().is_empty() {
            true => gate::baseline(&self.system.daemons()?),
            false => gate::measured_baseline(&mut self.system, self.gate.settle)?,
        };
        self.begin(&mut journal, Step::Install)?;
        if let Err(error) = self.system.install(&files) {
            journal.hold = true;
            return self.roll_back(journal, &with_causes(&error));
        }
        self.verify(journal)
    }

    /// Ends what an interrupted updater has begun: with the new version where that is installed and healthy, else with the earlier one.
    /// `None`: nothing was interrupted.
    ///
    /// # Errors
    /// The roll-back has failed.
    pub fn resume(&mut self) -> Result<Option<Outcome>, UpdateError> {
        let Some(mut journal) = self.store.journal()? else {
            return Ok(None);
        };
        log::info!(
            "resuming an update that was interrupted while {}",
            journal.step.text()
        );
        match journal.step {
            Step::Keep | Step::Fetch | Step::Check => {
                let reason = format!("the update was interrupted while {}", journal.step.text());
                self.abandon(&journal.from, &reason)?;
                Ok(Some(Outcome::Available(journal.to, reason)))
            }
            Step::Install | Step::Verify => {
                if self.is_repaired(&journal)? {
                    return self.verify(journal).map(Some);
                }
                // It says nothing about the new version, which may be tried again.
                journal.hold = false;
                self.roll_back(journal, INTERRUPTED).map(Some)
            }
            Step::Commit => self.commit(journal).map(Some),
            Step::RollBack => {
                let reason = journal.reason.clone();
                let reason = reason.unwrap_or_else(|| "the roll-back was interrupted".to_owned());
                self.roll_back(journal, &reason).map(Some)
            }
        }
    }

    /// Makes packages whole that an interruption has left half installed, before the daemons start: the new ones where that is possible,
    /// else the earlier ones. What was begun stays to be resumed.
    ///
    /// # Errors
    /// The earlier packages cannot be installed.
    pub fn repair(&mut self) -> Result<(), UpdateError> {
        let Some(mut journal) = self.store.journal()? else {
            return Ok(());
        };
        match journal.step {
            Step::Keep | Step::Fetch | Step::Check | Step::Commit => return Ok(()),
            Step::Install | Step::Verify => {
                if self.is_repaired(&journal)? {
                    return Ok(());
                }
                journal.hold = false;
                journal.reason = Some(INTERRUPTED.to_owned());
                self.begin_always(&mut journal, Step::RollBack);
            }
            Step::RollBack => {}
        }
        self.reinstall(&journal)
    }

    /// Ends what the package manager has begun; whether the new packages are whole.
    fn is_repaired(&mut self, journal: &Journal) -> Result<bool, UpdateError> {
        if let Err(error) = self.system.repair() {
            log::warn!("{}", with_causes(&error));
        }
        self.are_installed(journal, |change| &change.to)
    }

    /// Returns to the version before the present one, and holds the present one.
    ///
    /// # Errors
    /// No earlier version is kept, or the roll-back has failed.
    pub fn return_to_previous(&mut self) -> Result<Outcome, UpdateError> {
        if let Some(outcome) = self.resume()? {
            log::info!("before this, an interrupted update was ended: {outcome:?}");
        }
        let kept = self.store.kept()?;
        let present = self.packages()?;
        let mut before = present.clone();
        let mut changes = Vec::new();
        for old in kept.previous {
            let found = before.iter_mut().find(|(name, _)| *name == old.package);
            let Some((_, version)) = found else {
                continue;
            };
            let to = std::mem::replace(version, old.version.clone());
            let new = kept.current.iter();
            let new = new.filter(|kept| kept.version == to);
            let new = new.clone().find(|kept| kept.package == old.package);
            if to != old.version {
                changes.push(Change {
                    package: old.package.clone(),
                    from: old.version.clone(),
                    new: new.cloned(),
                    to,
                    old: Some(old),
                });
            }
        }
        if changes.is_empty() {
            return Err(UpdateError::Refused(
                "no earlier version is kept: only an update by jetwatch update install keeps one"
                    .to_owned(),
            ));
        }
        let (from, to) = (in_words(&before), in_words(&present));
        let mut journal = Journal::new(Step::RollBack, from, to, changes);
        journal.baseline = gate::baseline(&self.system.daemons()?);
        journal.hold = true;
        // Before anything is changed: there may be no way back.
        self.files(&journal, |change| change.old.as_ref())?;
        self.store.keep_program()?;
        self.roll_back(journal, "requested by jetwatch update rollback")
    }

    /// The installed and the newest version, in words, and what differs between the installed packages and the repository.
    fn changes(&mut self) -> Result<(String, String, Vec<Change>), UpdateError> {
        let installed = self.packages()?;
        let mut latest = installed.clone();
        let mut changes = Vec::new();
        for (package, version) in &mut latest {
            let Some(to) = self.system.candidate(package)? else {
                continue;
            };
            // Never to a lower version: an old index would be a way to one with known holes.
            if self.system.is_newer(&to, version)? {
                let from = std::mem::replace(version, to.clone());
                changes.push(Change {
                    package: package.clone(),
                    from,
                    to,
                    old: None,
                    new: None,
                });
            }
        }
        // The other packages are made with it, and change with it; models have versions of their own.
        if !changes.iter().any(|change| change.package == MAIN_PACKAGE) {
            changes.retain(Change::is_model);
        }
        changes.sort_by_key(|change| change.package != MAIN_PACKAGE);
        Ok((in_words(&installed), in_words(&latest), changes))
    }

    /// The installed packages of this project with their versions.
    fn packages(&mut self) -> Result<Vec<(String, String)>, UpdateError> {
        let packages = self.system.packages()?;
        match packages.iter().any(|(package, _)| package == MAIN_PACKAGE) {
            true => Ok(packages),
            false => Err(UpdateError::Refused(format!(
                "{MAIN_PACKAGE} is not installed as a package"
            ))),
        }
    }

    /// A file of each present version, for the way back.
    fn keep(&mut self, journal: &mut Journal) -> Result<(), UpdateError> {
        let kept = self.store.kept()?.current;
        for change in &mut journal.changes {
            let is_it =
                |kept: &&KeptPackage| kept.package == change.package && kept.version == change.from;
            if let Some(found) = kept.iter().find(is_it)
                && self.store.verified(found).is_ok()
            {
                change.old = Some(found.clone());
                continue;
            }
            let incoming = self.store.incoming()?;
            let (package, version) = (change.package.as_str(), change.from.as_str());
            let file = match self.system.fetch(package, version, &incoming) {
                Ok(file) => file,
                Err(error) => {
                    log::debug!("{package} {version} is not in the repository: {error}");
                    self.system
                        .keep_without_repository(package, version, &incoming)?
                }
            };
            change.old = Some(self.store.adopt(&file, package, version)?);
        }
        self.store.set_journal(journal)
    }

    fn fetch(&mut self, journal: &mut Journal) -> Result<(), UpdateError> {
        for change in &mut journal.changes {
            let incoming = self.store.incoming()?;
            let file = self.system.fetch(&change.package, &change.to, &incoming)?;
            change.new = Some(self.store.adopt(&file, &change.package, &change.to)?);
        }
        self.store.set_journal(journal)
    }

    /// Checks the configurations and their networks with the packages `files`; none: as they are installed.
    fn check_networks(&mut self, journal: &Journal, files: &[PathBuf]) -> Result<(), UpdateError> {
        let scratch = self.store.scratch()?;
        self.system
            .check(&journal.to, files, &journal.models(), &scratch)?;
        self.store.scratch().map(drop)
    }

    /// Room for both versions, of which that for the way back stays taken.
    fn make_room(&mut self, journal: &Journal) -> Result<(), UpdateError> {
        let old = self.files(journal, |change| change.old.as_ref())?;
        let new = self.files(journal, |change| change.new.as_ref())?;
        let back = self.system.space_needed(&old);
        self.store.reserve(back + self.system.space_needed(&new))?;
        self.store.release_reserve()?;
        self.store.reserve(back)
    }

    fn verify(&mut self, mut journal: Journal) -> Result<Outcome, UpdateError> {
        self.begin_always(&mut journal, Step::Verify);
        let verdict = match self.check_networks(&journal, &[]) {
            Ok(()) => {
                let (baseline, has_models) = (&journal.baseline, !journal.models().is_empty());
                self.gate
                    .wait(&mut self.system, baseline, has_models, |problems| {
                        log::debug!("waiting for health: {problems}");
                    })
            }
            Err(error @ UpdateError::Configuration { .. }) => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        };
        match verdict {
            Ok(Ok(())) => self.commit(journal),
            Ok(Err(reason)) => {
                journal.hold = true;
                self.roll_back(journal, &reason)
            }
            Err(error) => self.roll_back(journal, &with_causes(&error)),
        }
    }

    fn commit(&mut self, mut journal: Journal) -> Result<Outcome, UpdateError> {
        self.begin_always(&mut journal, Step::Commit);
        let previous = journal.changes.iter();
        let previous = previous.filter_map(|change| change.old.clone());
        self.store.set_kept(&Kept {
            current: self.kept_with(&journal, |change| change.new.clone())?,
            previous: previous.collect(),
            previous_version: Some(journal.from.clone()),
        })?;
        let packages = names(&journal.changes);
        self.system.hold(&packages, false)?;
        self.finish(UpdateState::Installed, &journal.to, None, &journal)?;
        Ok(Outcome::Installed(journal.to))
    }

    fn roll_back(&mut self, mut journal: Journal, reason: &str) -> Result<Outcome, UpdateError> {
        log::warn!("rolling back: {reason}");
        journal.reason = Some(reason.to_owned());
        self.begin_always(&mut journal, Step::RollBack);
        let result = self.reinstall(&journal);
        if let Err(error) = result {
            let text = format!(
                "the roll-back has failed: {}; it began because: {reason}",
                with_causes(&error)
            );
            self.report(UpdateState::Failed, &journal.to, &journal.to, Some(&text))?;
            // The journal stays: the next resume tries again.
            return Err(UpdateError::Refused(text));
        }
        let packages = names(&journal.changes);
        if journal.hold
            && let Err(error) = self.system.hold(&packages, true)
        {
            log::warn!("{}", with_causes(&error));
        }
        let gate = Gate {
            kill_after: Some(KILL_AFTER),
            ..self.gate
        };
        let has_models = !journal.models().is_empty();
        let verdict = gate.wait(&mut self.system, &journal.baseline, has_models, |_| ());
        let verdict = verdict.unwrap_or_else(|error| Err(with_causes(&error)));
        let mut text = reason.to_owned();
        if let Err(problem) = verdict {
            text += &format!("; and the earlier version is not healthy either: {problem}");
        }
        self.store.set_kept(&Kept {
            current: self.kept_with(&journal, |change| change.old.clone())?,
            ..Kept::default()
        })?;
        self.finish(
            UpdateState::RolledBack,
            &journal.from,
            Some(&text),
            &journal,
        )?;
        Ok(Outcome::RolledBack(journal.from, text))
    }

    /// The kept files of the installed versions, with those of the packages that have changed.
    fn kept_with(
        &self,
        journal: &Journal,
        installed: impl Fn(&Change) -> Option<KeptPackage>,
    ) -> Result<Vec<KeptPackage>, UpdateError> {
        let mut current = self.store.kept()?.current;
        let is_changed = |kept: &KeptPackage| {
            let mut changes = journal.changes.iter();
            changes.any(|change| change.package == kept.package)
        };
        current.retain(|kept| !is_changed(kept));
        current.extend(journal.changes.iter().filter_map(installed));
        Ok(current)
    }

    fn reinstall(&mut self, journal: &Journal) -> Result<(), UpdateError> {
        // The space of both is for the earlier version.
        self.store.release_reserve()?;
        for new in journal
            .changes
            .iter()
            .filter_map(|change| change.new.as_ref())
        {
            self.store.discard(new)?;
        }
        let files = self.files(journal, |change| change.old.as_ref())?;
        self.system.reinstall(&files)?;
        match self.are_installed(journal, |change| &change.from)? {
            true => Ok(()),
            false => Err(UpdateError::Refused(
                "the package manager reports success, but the earlier version is not installed"
                    .to_owned(),
            )),
        }
    }

    fn files(
        &self,
        journal: &Journal,
        of: impl Fn(&Change) -> Option<&KeptPackage>,
    ) -> Result<Vec<PathBuf>, UpdateError> {
        let kept = journal.changes.iter().filter_map(of);
        kept.map(|kept| self.store.verified(kept)).collect()
    }

    fn are_installed(
        &mut self,
        journal: &Journal,
        version: impl Fn(&Change) -> &String,
    ) -> Result<bool, UpdateError> {
        for change in &journal.changes {
            let installed = self.system.installed(&change.package)?;
            if !installed.is_some_and(|found| found.is_whole && found.version == *version(change)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The machine, for tests.
    #[cfg(test)]
    pub(crate) fn system(&mut self) -> &mut S {
        &mut self.system
    }
}

fn names(changes: &[Change]) -> Vec<&str> {
    changes
        .iter()
        .map(|change| change.package.as_str())
        .collect()
}

/// The version of the program, and those of the models: `1.1.0, street 8`.
fn in_words(packages: &[(String, String)]) -> String {
    let versions =
        packages.iter().filter_map(
            |(package, version)| match package.strip_prefix(MODEL_PREFIX) {
                Some(model) => Some(format!("{model} {version}")),
                None => (package == MAIN_PACKAGE).then(|| version.clone()),
            },
        );
    versions.collect::<Vec<_>>().join(", ")
}
