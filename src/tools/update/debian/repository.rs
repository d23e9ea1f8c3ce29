// SPDX-License-Identifier: Apache-2.0
//! The apt repository: only signed indexes, only by the key that the source names, and not beyond their date.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::UpdateError;
use super::super::command::{Tool, both};

/// Where the entry of the repository is looked for.
const ENTRIES: [&str; 2] = [
    "/etc/apt/sources.list.d/jetwatch.sources",
    "/etc/apt/sources.list.d/jetwatch.list",
];

/// For how long apt may read the index or a package.
const LIMIT: Duration = Duration::from_secs(3600);

/// Options of an entry that take protection away.
const UNSAFE_OPTIONS: [&str; 6] = [
    "trusted",
    "allow-insecure",
    "allow-weak",
    "allow-downgrade-to-insecure",
    "check-valid-until",
    "check-date",
];

/// Settings of apt, whatever its configuration says.
const SETTINGS: [&str; 12] = [
    "APT::Get::List-Cleanup=false",
    "APT::Get::AllowUnauthenticated=false",
    "APT::Update::Error-Mode=any",
    "Acquire::AllowInsecureRepositories=false",
    "Acquire::AllowWeakRepositories=false",
    "Acquire::AllowDowngradeToInsecureRepositories=false",
    "Acquire::Check-Valid-Until=true",
    "Acquire::Check-Date=true",
    "Acquire::Retries=2",
    "Acquire::http::Timeout=30",
    // The caches of all other sources stay as they are.
    "Dir::Cache::pkgcache=",
    "Dir::Cache::srcpkgcache=",
];

/// The repository of this project, which an entry of apt names.
#[derive(Debug, Clone)]
pub struct Repository {
    entry: PathBuf,
}

impl Repository {
    /// The repository in the file `entry`, or in the one of this machine.
    ///
    /// # Errors
    /// There is none, or its options take protection away.
    pub fn open(entry: Option<&Path>) -> Result<Self, UpdateError> {
        let found = ENTRIES
            .into_iter()
            .map(Path::new)
            .find(|path| path.exists());
        let Some(entry) = entry.or(found) else {
            return Err(UpdateError::Repository {
                problem: format!(
                    "none of {} exists; see the page on updates",
                    ENTRIES.join(", ")
                ),
            });
        };
        let text = fs::read_to_string(entry).map_err(UpdateError::file("read", entry))?;
        if let Err(problem) = check_entry(&text) {
            return Err(UpdateError::Repository {
                problem: format!("{}: {problem}", entry.display()),
            });
        }
        Ok(Self {
            entry: entry.to_owned(),
        })
    }

    fn apt(&self, program: &str, what: &str) -> Tool {
        let sources = [
            format!("Dir::Etc::sourcelist={}", self.entry.display()),
            "Dir::Etc::sourceparts=-".to_owned(),
        ];
        let settings = SETTINGS.into_iter().map(str::to_owned).chain(sources);
        let options = settings.flat_map(|setting| ["--option".to_owned(), setting]);
        Tool::new(program, what).limit(LIMIT).args(options)
    }

    /// Fetches the index, and verifies it.
    ///
    /// # Errors
    /// It cannot be fetched, is not signed by the key, or is too old.
    pub(super) fn refresh(&self) -> Result<(), UpdateError> {
        let mut tool = self
            .apt("apt-get", "refresh the repository")
            .args(["--quiet", "update"]);
        let output = tool.output()?;
        let text = both(&output);
        // An older apt goes on with the previous index, and ends with 0.
        if !output.status.success() || text.lines().any(is_problem) {
            return Err(tool.failed_with(&output));
        }
        Ok(())
    }

    /// The version that the index offers; `None`: it has none.
    pub(super) fn candidate(&self, package: &str) -> Result<Option<String>, UpdateError> {
        let tool = self
            .apt("apt-cache", "read the index")
            .args(["madison", package]);
        Ok(newest(&tool.text()?))
    }

    /// Fetches a package into `folder`; apt compares it with the index.
    pub(super) fn fetch(
        &self,
        package: &str,
        version: &str,
        folder: &Path,
    ) -> Result<(), UpdateError> {
        let wanted = format!("{package}={version}");
        let tool = self.apt("apt-get", "fetch the package").args([
            "--quiet",
            "--option",
            "APT::Sandbox::User=root",
            "download",
        ]);
        tool.args([wanted]).folder(folder).text().map(drop)
    }
}

/// The version in the first line of `apt-cache madison`, which sorts them.
fn newest(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find(|line| line.trim_end().ends_with("Packages"))?;
    Some(line.split('|').nth(1)?.trim().to_owned())
}

/// A line of `apt-get update` about an index that was not taken.
fn is_problem(line: &str) -> bool {
    let begins = [
        "E:",
        "Err:",
        "W: GPG error",
        "W: Failed to fetch",
        "W: An error occurred",
        "W: Some index files",
    ];
    begins.iter().any(|begin| line.starts_with(begin))
}

/// What is wrong with an entry of apt, in either of its two forms.
fn check_entry(text: &str) -> Result<(), String> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let (mut entries, mut signed) = (0, 0);
    for line in lines {
        let line = line.trim();
        let (options, is_entry) = match line.split_once(char::is_whitespace) {
            Some(("deb", rest)) => {
                let options = rest.trim_start().strip_prefix('[');
                let options = options.and_then(|rest| rest.split_once(']'));
                let options = options.map_or("", |(options, _)| options);
                let names = options.split_whitespace();
                let names = names.filter_map(|option| option.split_once('='));
                // As in `trusted+=yes`.
                let names = names.map(|(name, _)| name.trim_end_matches(['+', '-']));
                let names: Vec<_> = names.map(str::to_ascii_lowercase).collect();
                (names, true)
            }
            _ => {
                let name = line
                    .split_once(':')
                    .map(|(name, _)| name.trim_end().to_ascii_lowercase());
                let is_entry = name.as_deref() == Some("uris");
                (name.into_iter().collect(), is_entry)
            }
        };
        entries += usize::from(is_entry);
        if let Some(name) = options
            .iter()
            .find(|name| UNSAFE_OPTIONS.contains(&name.as_str()))
        {
            return Err(format!(
                "the option {name} is not allowed: it takes protection away; remove it"
            ));
        }
        signed += usize::from(options.iter().any(|name| name == "signed-by"));
    }
    match (entries, signed) {
        (0, _) => Err("it has no entry for binary packages (deb)".to_owned()),
        (entries, signed) if signed < entries => {
            Err("signed-by is missing: any key that apt trusts could sign; name the file of the repository's key".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_with_their_own_key_are_taken() {
        let good = [
            "# Packages.\ndeb [arch=arm64 signed-by=/usr/share/keyrings/jetwatch.gpg] https://a.example/apt stable main\n",
            "Types: deb\nURIs: https://a.example/apt\nSuites: stable\nComponents: main\nSigned-By: /usr/share/keyrings/jetwatch.gpg\n",
        ];
        for text in good {
            assert_eq!(check_entry(text), Ok(()), "{text}");
        }
        let bad = [
            "deb https://a.example/apt stable main\n => signed-by is missing",
            "deb [trusted=yes signed-by=/k] https://a.example/apt stable main\n => the option trusted",
            "deb [signed-by=/k Check-Valid-Until=no] https://a.example/apt stable main\n => check-valid-until",
            "URIs: https://a.example/apt\nSigned-By: /k\nTrusted: yes\n => trusted",
            "URIs: https://a.example/apt\nSigned-By: /k\nTrusted : yes\n => trusted",
            "deb\t[trusted=yes signed-by=/k] https://a.example/apt stable main\n => the option trusted",
            "deb [signed-by=/k allow-weak+=yes] https://a.example/apt stable main\n => allow-weak",
            "URIs: https://a.example/apt\n => signed-by",
            "deb [signed-by=/k] https://a.example/a b c\ndeb https://a.example/b b c\n => signed-by",
            "# deb [signed-by=/k] https://a.example/apt stable main\n => no entry",
        ];
        for case in bad {
            let (text, problem) = case.split_once(" => ").expect("an entry and its problem");
            let found = check_entry(text).expect_err(text);
            assert!(found.contains(problem), "{found}");
        }
    }

    #[test]
    fn newest_version_is_read_from_madison() {
        let text = " jetwatch | 1:1.2~rc1-1 | https://a.example/apt stable/main amd64 Packages\n jetwatch | 1.1 | https://a.example/apt stable/main amd64 Packages\n";
        assert_eq!(newest(text).as_deref(), Some("1:1.2~rc1-1"));
        assert_eq!(newest(""), None);
    }

    #[test]
    fn index_problems_are_found_in_the_output() {
        assert!(is_problem(
            "W: GPG error: file:/r stable InRelease: The following signatures were invalid"
        ));
        assert!(is_problem(
            "E: Release file for file:/r/InRelease is expired"
        ));
        assert!(!is_problem("W: Key is stored in legacy keyring"));
        assert!(!is_problem("Get:1 file:/r stable InRelease"));
    }
}
