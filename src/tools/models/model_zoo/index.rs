//! Where a package index of Python has a file: the address of the index as pip is configured, and its page of a project.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Download, FetchError, Progress, RetryPolicy, download};

/// PyPI, which pip asks unless it is configured otherwise.
const DEFAULT_INDEX: &str = "https://pypi.org/simple";

/// pip's configuration of the machine.
const GLOBAL_CONFIG: &str = "/etc/pip.conf";

/// Address of the package index: `PIP_INDEX_URL`, else `index-url` of pip's configuration files, else PyPI.
#[must_use]
pub fn index_url() -> String {
    let given = env::var("PIP_INDEX_URL").ok();
    given
        .filter(|url| !url.trim().is_empty())
        .map(|url| url.trim().to_owned())
        .or_else(|| config_files().iter().find_map(|path| configured(path)))
        .unwrap_or_else(|| DEFAULT_INDEX.to_owned())
}

/// pip's configuration files, the first with a value wins: as pip reads them, from the most specific on.
fn config_files() -> Vec<PathBuf> {
    let folder = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = folder("HOME");
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let mut files: Vec<PathBuf> = env::var_os("PIP_CONFIG_FILE")
        .map(PathBuf::from)
        .into_iter()
        .collect();
    files.extend(config.map(|config| config.join("pip/pip.conf")));
    files.extend(home.map(|home| home.join(".pip/pip.conf")));
    files.push(GLOBAL_CONFIG.into());
    files
}

fn configured(path: &Path) -> Option<String> {
    parse_config(&fs::read_to_string(path).ok()?)
}

/// `index-url` in the section `global`.
fn parse_config(text: &str) -> Option<String> {
    let mut is_global = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            is_global = section == "global";
        } else if is_global
            && let Some((key, value)) = line.split_once(['=', ':'])
            && key.trim().replace('_', "-") == "index-url"
        {
            found = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        }
    }
    found
}

/// Address of `file` of the project `package`, out of the index's page of the project. The page is written to `scratch` and removed.
///
/// # Errors
/// The page cannot be fetched, or has no such file.
pub fn find_file(
    index: &str,
    (package, file): (&str, &str),
    scratch: &Path,
    policy: &RetryPolicy,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<String, FetchError> {
    let page_url = format!("{}/{}/", index.trim_end_matches('/'), normalize(package));
    let page = Download {
        url: &page_url,
        bytes: None,
        sha256: None,
        path: scratch,
    };
    download(&page, policy, &mut |progress| {
        // A page of some kilobytes needs no bar.
        if matches!(progress, Progress::Waiting { .. }) {
            on_progress(progress);
        }
    })?;
    let text = fs::read(scratch).map_err(|source| FetchError::Write {
        path: scratch.to_owned(),
        source,
    })?;
    let _ = fs::remove_file(scratch);
    let text = String::from_utf8_lossy(&text);
    let link = links(&text).find(|link| {
        let path = link.split(['#', '?']).next().unwrap_or_default();
        path.rsplit('/').next() == Some(file)
    });
    link.map(|link| join(&page_url, link.split('#').next().unwrap_or_default()))
        .ok_or_else(|| FetchError::NotInIndex {
            url: page_url.clone(),
            file: file.to_owned(),
        })
}

/// A project's name in addresses: lower case, `-` for each run of `-`, `_` and `.`.
fn normalize(package: &str) -> String {
    let words: Vec<String> = package
        .split(['-', '_', '.'])
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words.join("-")
}

/// The addresses of the links of a page, with the entities that addresses have.
fn links(page: &str) -> impl Iterator<Item = String> {
    page.split("<a ").skip(1).filter_map(|tag| {
        let tag = tag.split('>').next()?;
        let (_, value) = tag.split_once("href=")?;
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let address = value[1..].split(quote).next()?;
        Some(address.replace("&amp;", "&"))
    })
}

/// `link` as an address, as seen from the page at `base`.
fn join(base: &str, link: &str) -> String {
    let Some((scheme, rest)) = base.split_once("://") else {
        return link.to_owned();
    };
    if link.contains("://") {
        return link.to_owned();
    }
    if let Some(other_host) = link.strip_prefix("//") {
        return format!("{scheme}://{other_host}");
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut folders: Vec<&str> = path.split('/').collect();
    folders.pop();
    if link.starts_with('/') {
        folders.clear();
    }
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                folders.pop();
            }
            part => folders.push(part),
        }
    }
    format!("{scheme}://{host}/{}", folders.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pip_configuration_names_the_index() {
        let text = "[install]\nindex-url = https://no\n[global]\ntimeout = 9\nindex_url : https://m.example/simple\n";
        assert_eq!(
            parse_config(text).as_deref(),
            Some("https://m.example/simple")
        );
        assert_eq!(parse_config("[global]\ncert = /x\n"), None);
    }

    #[test]
    fn links_of_a_page_become_addresses() {
        let page = "<a href=\"../../files/a-1.whl#sha256=0\">a</a><a data-x='1' href='/b.whl?x=1&amp;y=2'>b</a><a name=c>";
        let base = "https://host:8/root/simple/a/";
        let found: Vec<String> = links(page).map(|link| join(base, &link)).collect();
        assert_eq!(
            found,
            [
                "https://host:8/root/files/a-1.whl#sha256=0",
                "https://host:8/b.whl?x=1&y=2"
            ]
        );
        assert_eq!(join(base, "https://o/x"), "https://o/x");
        assert_eq!(join(base, "//o/x"), "https://o/x");
        assert_eq!(join(base, "x.whl"), "https://host:8/root/simple/a/x.whl");
        assert_eq!(normalize("Paddle_Label.-ML"), "paddle-label-ml");
    }
}
