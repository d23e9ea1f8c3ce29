//! Decides what an update does next, over [`System`] and [`Store`].

mod reporting;

use std::path::PathBuf;
use std::time::Duration;

use jetwatch_telemetry::update_status::UpdateState;
use jetwatch_telemetry::with_causes;

use super::gate::{self, Gate};
use super::store::Kept;
use super::{Change, Journal, KeptPackage, Offer, Step, Store, System, UpdateError};

/// A version that is not healthy may not end either. Its events are in the spool, which a kill does not harm.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// The package with the program; its version is that of an update.
const MAIN_PACKAGE: &str = "jetwatch";

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
        let (installed, changes) = self.changes()?;
        let latest = latest(&installed, &changes);
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
        let installed = self.installed_version()?;
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
        let (_, changes) = self.changes()?;
        let latest = latest(installed, &changes);
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
        let baseline = gate::baseline(&self.system.daemons()?);
        if baseline.is_empty() && !request.without_daemon {
            return Err(UpdateError::Refused(
                "no daemon runs, so that the health of the new version could not be verified; start it, or use --without-daemon".to_owned(),
            ));
        }
        let mut journal = Journal::new(Step::Keep, changes);
        self.begin(&mut journal, Step::Keep)?;
        self.store.keep_program()?;
        self.keep(&mut journal)?;
        self.begin(&mut journal, Step::Fetch)?;
        self.fetch(&mut journal)?;
        self.begin(&mut journal, Step::Check)?;
        self.check_configuration(&journal)?;
        self.make_room(&journal)?;
        // Once more: a source may have gone offline during the download.
        journal.baseline = gate::baseline(&self.system.daemons()?);
        self.begin(&mut journal, Step::Install)?;
        let files = self.files(&journal, |change| change.new.as_ref())?;
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
                let (from, to) = journal.versions();
                let (from, to) = (from.to_owned(), to.to_owned());
                let reason = format!("the update was interrupted while {}", journal.step.text());
                self.abandon(&from, &reason)?;
                Ok(Some(Outcome::Available(to, reason)))
            }
            Step::Install | Step::Verify => {
                let repaired = self.system.repair();
                if let Err(error) = &repaired {
                    log::warn!("{}", with_causes(error));
                }
                if self.are_installed(&journal, |change| &change.to)? {
                    return self.verify(journal).map(Some);
                }
                // It says nothing about the new version, which may be tried again.
                journal.hold = false;
                let reason = "the installation was interrupted";
                self.roll_back(journal, reason).map(Some)
            }
            Step::Commit => self.commit(journal).map(Some),
            Step::RollBack => {
                let reason = journal.reason.clone();
                let reason = reason.unwrap_or_else(|| "the roll-back was interrupted".to_owned());
                self.roll_back(journal, &reason).map(Some)
            }
        }
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
        let mut changes = Vec::new();
        for old in kept.previous {
            let Some(present) = self.system.installed(&old.package)? else {
                continue;
            };
            let new = kept.current.iter();
            let new = new.filter(|kept| kept.version == present.version);
            let new = new.clone().find(|kept| kept.package == old.package);
            if present.version != old.version {
                changes.push(Change {
                    package: old.package.clone(),
                    from: old.version.clone(),
                    to: present.version,
                    new: new.cloned(),
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
        let mut journal = Journal::new(Step::RollBack, changes);
        journal.baseline = gate::baseline(&self.system.daemons()?);
        journal.hold = true;
        // Before anything is changed: there may be no way back.
        self.files(&journal, |change| change.old.as_ref())?;
        self.store.keep_program()?;
        self.roll_back(journal, "requested by jetwatch update rollback")
    }

    /// What differs between the installed packages and the repository, with the installed version.
    fn changes(&mut self) -> Result<(String, Vec<Change>), UpdateError> {
        let offers = self.system.offers()?;
        let main = offers.iter().find(|offer| offer.package == MAIN_PACKAGE);
        let installed = main.map(|offer| offer.installed.clone());
        let installed = installed.ok_or_else(|| {
            UpdateError::Refused(format!("{MAIN_PACKAGE} is not installed as a package"))
        })?;
        let mut changes = Vec::new();
        for Offer {
            package,
            installed,
            candidate,
        } in offers
        {
            let Some(to) = candidate else { continue };
            // Never to a lower version: an old index would be a way to one with known holes.
            if self.system.is_newer(&to, &installed)? {
                changes.push(Change {
                    package,
                    from: installed,
                    to,
                    old: None,
                    new: None,
                });
            }
        }
        // The other packages are made with it, and change with it.
        if !changes.iter().any(|change| change.package == MAIN_PACKAGE) {
            changes.clear();
        }
        changes.sort_by_key(|change| change.package != MAIN_PACKAGE);
        Ok((installed, changes))
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

    fn check_configuration(&mut self, journal: &Journal) -> Result<(), UpdateError> {
        let main = journal.changes.iter();
        let main = main.filter(|change| change.package == MAIN_PACKAGE);
        for change in main {
            if let Some(new) = &change.new {
                let (file, scratch) = (self.store.verified(new)?, self.store.scratch()?);
                self.system
                    .check_configuration(&change.to, &file, &scratch)?;
                self.store.scratch()?;
            }
        }
        Ok(())
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
        let baseline = journal.baseline.clone();
        let verdict = self.gate.wait(&mut self.system, &baseline, |problems| {
            log::debug!("waiting for health: {problems}");
        });
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
        let (kept, mut next) = (self.store.kept()?, Kept::default());
        next.current = kept.current;
        for change in &journal.changes {
            next.current.retain(|kept| kept.package != change.package);
            next.current.extend(change.new.clone());
            next.previous.extend(change.old.clone());
        }
        self.store.set_kept(&next)?;
        let packages = names(&journal.changes);
        self.system.hold(&packages, false)?;
        let (_, to) = journal.versions();
        let to = to.to_owned();
        self.finish(UpdateState::Installed, &to, None, &journal)?;
        Ok(Outcome::Installed(to))
    }

    fn roll_back(&mut self, mut journal: Journal, reason: &str) -> Result<Outcome, UpdateError> {
        log::warn!("rolling back: {reason}");
        journal.reason = Some(reason.to_owned());
        self.begin_always(&mut journal, Step::RollBack);
        let result = self.reinstall(&journal);
        if let Err(error) = result {
            let (_, to) = journal.versions();
            let to = to.to_owned();
            let text = format!(
                "the roll-back has failed: {}; it began because: {reason}",
                with_causes(&error)
            );
            self.report(UpdateState::Failed, &to, &to, Some(&text))?;
            // The journal stays: the next resume tries again.
            return Err(UpdateError::Refused(text));
        }
        let packages = names(&journal.changes);
        if journal.hold
            && let Err(error) = self.system.hold(&packages, true)
        {
            log::warn!("{}", with_causes(&error));
        }
        let baseline = journal.baseline.clone();
        let gate = Gate {
            kill_after: Some(KILL_AFTER),
            ..self.gate
        };
        let verdict = gate.wait(&mut self.system, &baseline, |_| ());
        let verdict = verdict.unwrap_or_else(|error| Err(with_causes(&error)));
        let mut text = reason.to_owned();
        if let Err(problem) = verdict {
            text += &format!("; and the earlier version is not healthy either: {problem}");
        }
        let (from, _) = journal.versions();
        let from = from.to_owned();
        self.store.set_kept(&Kept {
            current: journal
                .changes
                .iter()
                .filter_map(|change| change.old.clone())
                .collect(),
            previous: Vec::new(),
        })?;
        self.finish(UpdateState::RolledBack, &from, Some(&text), &journal)?;
        Ok(Outcome::RolledBack(from, text))
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

    fn installed_version(&mut self) -> Result<String, UpdateError> {
        let installed = self.system.installed(MAIN_PACKAGE)?;
        let version = installed.map(|installed| installed.version);
        version.ok_or_else(|| {
            UpdateError::Refused(format!("{MAIN_PACKAGE} is not installed as a package"))
        })
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

/// The newest version: that of the main package where it changes, else that of another one.
fn latest(installed: &str, changes: &[Change]) -> String {
    let main = changes.iter().find(|change| change.package == MAIN_PACKAGE);
    main.map_or(installed, |change| &change.to).to_owned()
}
