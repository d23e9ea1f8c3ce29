// SPDX-License-Identifier: Apache-2.0
//! [`System`] on Debian and its descendants: apt, dpkg and systemd.

mod repository;
mod services;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;
use std::time::Duration;

use jetwatch_telemetry::boot_time;

pub use self::repository::Repository;

use super::command::{Tool, both};
use super::journal::MODEL_PREFIX;
use super::{DaemonState, Installed, System, UpdateError};

/// The packages of this project, with the keys of its repository.
pub const PACKAGES: [&str; 3] = [
    "jetwatch",
    "jetwatch-onnxruntime",
    "jetwatch-archive-keyring",
];

/// Folder in which each package with a model has its own.
const MODELS: &str = "usr/share/jetwatch/models";

/// Folder of the package jetwatch-onnxruntime.
const RUNTIME: &str = "usr/lib/jetwatch/onnxruntime";

/// The program of the package.
const PROGRAM: &str = "usr/bin/jetwatch";

/// For how long another package manager is waited for.
const LOCK_TIMEOUT: Duration = Duration::from_secs(300);

/// For how long packages may be installed, with the wait for another package manager, unless something else is asked for.
pub const INSTALL_LIMIT: Duration = Duration::from_secs(900);

/// Folder of packages that apt has installed from a repository.
const APT_ARCHIVES: &str = "/var/cache/apt/archives";

/// The running machine.
#[derive(Debug)]
pub struct Debian {
    repository: Option<Repository>,
    install_limit: Duration,
}

impl Debian {
    /// With packages from `repository`; without one, only what was begun is ended.
    pub fn new(repository: Option<Repository>) -> Self {
        Self {
            repository,
            install_limit: INSTALL_LIMIT,
        }
    }

    /// A package manager that does not end within `limit`, as its maintainer scripts do not, is ended.
    #[must_use]
    pub fn with_install_limit(self, limit: Duration) -> Self {
        Self {
            install_limit: limit,
            ..self
        }
    }

    fn repository(&self) -> Result<&Repository, UpdateError> {
        self.repository.as_ref().ok_or_else(|| {
            let problem = "this command uses none".to_owned();
            UpdateError::Repository { problem }
        })
    }

    /// Runs dpkg, and waits for another one that has the lock.
    fn dpkg(&mut self, what: &str, args: &[&str], files: &[PathBuf]) -> Result<(), UpdateError> {
        let give_up = self.now() + LOCK_TIMEOUT;
        loop {
            let tool = Tool::new("dpkg", what).args(args).args(files);
            let mut tool = tool.limit(self.install_limit);
            let output = tool.output()?;
            if output.status.success() {
                return Ok(());
            }
            if !is_locked(&output) || self.now() >= give_up {
                return Err(tool.failed_with(&output));
            }
            self.sleep(Duration::from_secs(1));
        }
    }
}

fn is_locked(output: &Output) -> bool {
    both(output).contains("lock was locked by another process")
        || both(output).contains("is locked by another process")
}

impl System for Debian {
    fn refresh(&mut self) -> Result<(), UpdateError> {
        self.repository()?.refresh()
    }

    fn packages(&mut self) -> Result<Vec<(String, String)>, UpdateError> {
        let mut names = PACKAGES.map(str::to_owned).to_vec();
        let mut tool = Tool::new("dpkg-query", "list the models").args([
            "--show",
            "--showformat=${Package}\n",
            &format!("{MODEL_PREFIX}*"),
        ]);
        let output = tool.output()?;
        // With 1 there is none.
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(tool.failed_with(&output));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        names.extend(text.lines().map(str::to_owned));
        let mut packages = Vec::new();
        for name in names {
            if let Some(installed) = self.installed(&name)? {
                packages.push((name, installed.version));
            }
        }
        Ok(packages)
    }

    fn candidate(&mut self, package: &str) -> Result<Option<String>, UpdateError> {
        self.repository()?.candidate(package)
    }

    fn is_newer(&mut self, a: &str, b: &str) -> Result<bool, UpdateError> {
        let mut tool =
            Tool::new("dpkg", "compare versions").args(["--compare-versions", a, "gt", b]);
        let output = tool.output()?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(tool.failed_with(&output)),
        }
    }

    fn installed(&mut self, package: &str) -> Result<Option<Installed>, UpdateError> {
        let format = "${Version}\t${db:Status-Status}\t${db:Status-Eflag}";
        let mut tool = Tool::new("dpkg-query", "read the installed version").args([
            "--show",
            "--showformat",
            format,
            package,
        ]);
        let output = tool.output()?;
        match output.status.code() {
            Some(0) => Ok(parse_installed(&String::from_utf8_lossy(&output.stdout))),
            // No package of this name is known.
            Some(1) => Ok(None),
            _ => Err(tool.failed_with(&output)),
        }
    }

    fn fetch(
        &mut self,
        package: &str,
        version: &str,
        folder: &Path,
    ) -> Result<PathBuf, UpdateError> {
        self.repository()?.fetch(package, version, folder)?;
        only_package(folder, package, version)
    }

    fn keep_without_repository(
        &mut self,
        package: &str,
        version: &str,
        folder: &Path,
    ) -> Result<PathBuf, UpdateError> {
        let architecture = Tool::new("dpkg", "read the architecture")
            .args(["--print-architecture"])
            .text()?;
        let archived = [architecture.trim(), "all"].map(|name| archived(package, version, name));
        if let Some(archived) = archived.into_iter().find(|path| path.is_file()) {
            let path = folder.join(archived.file_name().unwrap_or_default());
            fs::copy(&archived, &path).map_err(UpdateError::file("copy", archived))?;
            return only_package(folder, package, version);
        }
        let repacked = Tool::new("dpkg-repack", "make a package of the installed files")
            .args([package])
            .folder(folder)
            .text();
        if let Err(error) = repacked {
            return Err(UpdateError::Refused(format!(
                "there would be no way back: {package} {version} is neither in the repository nor in {APT_ARCHIVES}, and {error}; install \
                 dpkg-repack, or keep earlier versions in the repository"
            )));
        }
        only_package(folder, package, version)
    }

    fn check(
        &mut self,
        version: &str,
        files: &[PathBuf],
        models: &[&str],
        scratch: &Path,
    ) -> Result<(), UpdateError> {
        for file in files {
            Tool::new("dpkg-deb", "unpack the new version")
                .args([Path::new("--extract"), file, scratch])
                .text()?;
        }
        let root = Path::new("/");
        let unpacked = scratch.join(PROGRAM);
        let program = match unpacked.exists() {
            true => unpacked,
            false => root.join(PROGRAM),
        };
        let new_models = fs::read_dir(scratch.join(MODELS)).into_iter().flatten();
        let names = new_models.flatten().map(|entry| entry.file_name());
        let folders = names.map(|name| Path::new(MODELS).join(name));
        // What is not installed yet is in no configuration.
        let is_replaced =
            |folder: &PathBuf| scratch.join(folder).is_dir() && root.join(folder).is_dir();
        let folders = folders.chain([PathBuf::from(RUNTIME)]).filter(is_replaced);
        let check = services::Check {
            version,
            program: &program,
            replaced: folders
                .map(|folder| (scratch.join(&folder), root.join(&folder)))
                .collect(),
            required: models
                .iter()
                .filter_map(|package| package.strip_prefix(MODEL_PREFIX))
                .map(|name| root.join(MODELS).join(name))
                .collect(),
        };
        services::units()?
            .iter()
            .try_for_each(|unit| check.run(unit))
    }

    fn install(&mut self, files: &[PathBuf]) -> Result<(), UpdateError> {
        let options = [
            "--yes",
            "--quiet",
            "--no-remove",
            "--allow-change-held-packages",
            // Changed configuration files stay as they are.
            "--option=Dpkg::Options::=--force-confdef",
            "--option=Dpkg::Options::=--force-confold",
            // The files are root's own.
            "--option=APT::Sandbox::User=root",
        ];
        let lock = format!("--option=DPkg::Lock::Timeout={}", LOCK_TIMEOUT.as_secs());
        let tool = Tool::new("apt-get", "install the new version").args(options);
        let tool = tool.args([lock.as_str(), "install"]).args(files);
        // From a web server, apt would fetch the same version again, and keep it: it prefers the repository to a file.
        let lent: Vec<PathBuf> = files.iter().filter_map(|file| lend_to_apt(file)).collect();
        let installed = tool.limit(self.install_limit).text();
        for path in lent {
            if let Err(error) = fs::remove_file(&path) {
                log::debug!("cannot remove {}: {error}", path.display());
            }
        }
        installed.map(drop)
    }

    fn reinstall(&mut self, files: &[PathBuf]) -> Result<(), UpdateError> {
        let options = [
            "--force-downgrade",
            "--force-confdef",
            "--force-confold",
            "--install",
        ];
        self.dpkg("install the earlier version again", &options, files)
    }

    fn repair(&mut self) -> Result<(), UpdateError> {
        take_back_from_apt(Path::new(APT_ARCHIVES));
        let options = [
            "--force-confdef",
            "--force-confold",
            "--configure",
            "--pending",
        ];
        self.dpkg("end the interrupted installation", &options, &[])
    }

    fn hold(&mut self, packages: &[&str], hold: bool) -> Result<(), UpdateError> {
        let word = if hold { "hold" } else { "unhold" };
        Tool::new("apt-mark", "hold the version")
            .args([word])
            .args(packages)
            .text()
            .map(drop)
    }

    fn daemons(&mut self) -> Result<Vec<DaemonState>, UpdateError> {
        services::units()?
            .iter()
            .map(|unit| services::state(unit))
            .collect()
    }

    fn restart(&mut self, unit: &str) -> Result<(), UpdateError> {
        services::restart(unit)
    }

    fn kill(&mut self, unit: &str) -> Result<(), UpdateError> {
        services::kill(unit)
    }

    fn space_needed(&mut self, files: &[PathBuf]) -> u64 {
        let size = |file: &PathBuf| {
            let field = Tool::new("dpkg-deb", "read the size").args([
                Path::new("--field"),
                file,
                Path::new("Installed-Size"),
            ]);
            let kib = field
                .text()
                .ok()
                .and_then(|text| text.trim().parse::<u64>().ok());
            // Without the field: what compression makes of the file at most.
            let packed = fs::metadata(file).map_or(0, |found| found.len());
            kib.map_or(packed * 4, |kib| kib * 1024)
        };
        // The package manager's own files on top.
        files.iter().map(size).sum::<u64>() * 5 / 4 + (8 << 20)
    }

    fn now(&self) -> Duration {
        boot_time()
    }

    fn sleep(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

/// Where apt has the package file of a version that it has fetched.
fn archived(package: &str, version: &str, architecture: &str) -> PathBuf {
    let version = version.replace(':', "%3a");
    Path::new(APT_ARCHIVES).join(format!("{package}_{version}_{architecture}.deb"))
}

/// Puts a package file where apt has what it has fetched, unless it is there; the new file. Without it, apt fetches the package itself.
fn lend_to_apt(file: &Path) -> Option<PathBuf> {
    let show = Path::new("--showformat=${Package}\t${Version}\t${Architecture}");
    let fields = Tool::new("dpkg-deb", "read the package").args([Path::new("--show"), show, file]);
    let fields = fields.text().ok()?;
    let mut fields = fields.trim().split('\t');
    let path = archived(fields.next()?, fields.next()?, fields.next()?);
    if path.exists() {
        return None;
    }
    let lent = fs::hard_link(file, &path).or_else(|_| {
        // Another file system. A half copy must not look like a package.
        let partial = Path::new(APT_ARCHIVES)
            .join("partial")
            .join(path.file_name().unwrap_or_default());
        let copied = fs::copy(file, &partial).and_then(|_| fs::rename(&partial, &path));
        copied.inspect_err(|_| drop(fs::remove_file(&partial)))
    });
    lent.is_ok().then_some(path)
}

/// Removes the files that an interrupted installation has lent: those of this project with a second name elsewhere. What apt has
/// fetched itself has one name.
fn take_back_from_apt(archives: &Path) {
    for entry in fs::read_dir(archives).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.to_string_lossy().starts_with("jetwatch");
        let is_lent = entry.metadata().is_ok_and(|found| found.nlink() > 1);
        if is_ours && is_lent {
            // Fails where apt removes it, too.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The output of dpkg-query; `None`: the package is not installed.
fn parse_installed(text: &str) -> Option<Installed> {
    let mut fields = text.trim_end().split('\t');
    let (version, status, flag) = (fields.next()?, fields.next()?, fields.next()?);
    let is_there = !matches!(status, "not-installed" | "config-files");
    (is_there && !version.is_empty()).then(|| Installed {
        version: version.to_owned(),
        is_whole: status == "installed" && flag == "ok",
    })
}

/// The one package file in `folder`, which is that version of that package.
fn only_package(folder: &Path, package: &str, version: &str) -> Result<PathBuf, UpdateError> {
    let entries = fs::read_dir(folder).map_err(UpdateError::file("read", folder))?;
    let files = entries.flatten().map(|entry| entry.path());
    let files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "deb"))
        .collect();
    let [file] = files.as_slice() else {
        return Err(UpdateError::Corrupt {
            path: folder.to_owned(),
            problem: format!("it has {} package files, expected one", files.len()),
        });
    };
    let format = "${Package}\t${Version}\n";
    let show = format!("--showformat={format}");
    let found = Tool::new("dpkg-deb", "read the package")
        .args([Path::new("--show"), Path::new(&show), file])
        .text()?;
    let wanted = format!("{package}\t{version}");
    if found.trim() != wanted {
        return Err(UpdateError::Corrupt {
            path: file.clone(),
            problem: format!("it holds {:?}, expected {wanted:?}", found.trim()),
        });
    }
    Ok(file.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_lent_to_apt_are_taken_back_and_its_own_stay() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let archives = folder.path().join("archives");
        fs::create_dir(&archives).expect("made");
        let kept = folder.path().join("jetwatch_1.1.0_amd64.deb");
        fs::write(&kept, "a package").expect("written");
        fs::hard_link(&kept, archives.join("jetwatch_1.1.0_amd64.deb")).expect("linked");
        fs::write(archives.join("jetwatch_1.0.0_amd64.deb"), "apt's").expect("written");
        fs::write(archives.join("other_1.0_amd64.deb"), "apt's").expect("written");
        take_back_from_apt(&archives);
        let entries = fs::read_dir(&archives).expect("readable").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["jetwatch_1.0.0_amd64.deb", "other_1.0_amd64.deb"]);
        assert!(kept.is_file());
    }

    #[test]
    fn half_installed_packages_are_not_whole() {
        let cases = [
            ("1.0-1\tinstalled\tok", Some(true)),
            ("1.0-1\tinstalled\treinstreq", Some(false)),
            ("1.0-1\tunpacked\tok", Some(false)),
            ("1.0-1\thalf-configured\tok", Some(false)),
            ("1.0-1\tconfig-files\tok", None),
            ("\tnot-installed\tok", None),
            ("", None),
        ];
        for (text, whole) in cases {
            let found = parse_installed(text);
            assert_eq!(found.map(|found| found.is_whole), whole, "{text}");
        }
    }
}
