// SPDX-License-Identifier: Apache-2.0
//! Which files a report is about: folders are searched, and titles shortened to what tells the files apart.

use std::fs;
use std::path::{Path, PathBuf};

use super::{ReportError, Result};

/// Length of a file's name from which titles are shortened, in characters.
const LONG_TITLE: usize = 24;

/// Name of a benchmark's file in a folder that is searched.
const BENCHMARK: &str = "benchmark.json";

/// The files of `paths` in order: a folder stands for all reports in it and below it, in natural order. Of a report and its export
/// in one place only the export is taken, unless the report is newer.
///
/// # Errors
/// A folder cannot be read, or holds no report.
pub fn find_reports(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        search(path, &mut found)?;
        if found.is_empty() {
            return Err(ReportError::NoReports(path.clone()));
        }
        let is_exported = |report: &PathBuf| {
            let export = report.with_extension("sqlite");
            found.contains(&export) && is_newer(&export, report)
        };
        let is_old = |export: &PathBuf| {
            let report = export.with_extension("nsys-rep");
            found.contains(&report) && !is_newer(export, &report)
        };
        let mut chosen: Vec<PathBuf> = (found.iter())
            .filter(|file| match extension(file) {
                "nsys-rep" => !is_exported(file),
                "sqlite" => !is_old(file),
                _ => true,
            })
            .cloned()
            .collect();
        chosen.sort_by_cached_key(|file| natural_order(&file.to_string_lossy()));
        files.append(&mut chosen);
    }
    Ok(files)
}

fn search(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let read = |cause| ReportError::Read(folder.to_owned(), cause);
    for entry in fs::read_dir(folder).map_err(read)? {
        let entry = entry.map_err(read)?;
        let path = entry.path();
        // A link to a folder may lead back up.
        if entry.file_type().map_err(read)?.is_dir() {
            search(&path, found)?;
        } else if matches!(extension(&path), "nsys-rep" | "sqlite")
            || path.file_name().is_some_and(|name| name == BENCHMARK)
        {
            found.push(path);
        }
    }
    Ok(())
}

fn extension(path: &Path) -> &str {
    path.extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default()
}

/// Whether `one` was written after `other`, or at the same time.
fn is_newer(one: &Path, other: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    time(one) >= time(other)
}

/// Sorts numbers in texts by their values: `bs-2` is before `bs-10`; texts that differ in leading zeros alone as they are. A number is
/// a zero with the length and the digits of its value, any other character stands alone.
fn natural_order(text: &str) -> (Vec<(char, usize, String)>, String) {
    let mut parts: Vec<(char, usize, String)> = Vec::new();
    let mut is_in_number = false;
    for c in text.chars() {
        let is_digit = c.is_ascii_digit();
        if !is_digit || !is_in_number {
            parts.push((if is_digit { '0' } else { c }, 0, String::new()));
        }
        is_in_number = is_digit;
        if let Some((_, length, digits)) = parts.last_mut().filter(|_| is_digit)
            && (c != '0' || *length > 0)
        {
            *length += 1;
            digits.push(c);
        }
    }
    (parts, text.to_owned())
}

/// A title for each file: its name, or, where names are equal or long, the part of the path that tells the files apart.
#[must_use]
pub fn titles(files: &[PathBuf]) -> Vec<String> {
    let names = files.iter().map(|file| {
        let name = file.file_name().unwrap_or(file.as_os_str());
        name.to_string_lossy().into_owned()
    });
    let names: Vec<String> = names.collect();
    let is_long = names.iter().any(|name| name.chars().count() > LONG_TITLE);
    if is_distinct(&names) && (!is_long || files.len() < 2) {
        return names;
    }
    let paths = files.iter().map(|file| file.display().to_string());
    let paths: Vec<String> = paths.collect();
    let short = shortened(if is_distinct(&names) { &names } else { &paths });
    match is_distinct(&short) && short.iter().all(|title| !title.is_empty()) {
        true => short,
        false => paths,
    }
}

fn is_distinct(titles: &[String]) -> bool {
    let mut sorted: Vec<&String> = titles.iter().collect();
    sorted.sort();
    sorted.dedup();
    sorted.len() == titles.len()
}

/// Characters at which names are cut.
const SEPARATORS: [char; 2] = ['/', '-'];

/// The texts without what all of them begin and end with, cut at separators. Words stay whole: of `bs-batch1` and `bs-batch2`
/// `batch1` and `batch2` are left.
fn shortened(texts: &[String]) -> Vec<String> {
    let Some((first, others)) = texts.split_first() else {
        return Vec::new();
    };
    let is_separator = |c: char| SEPARATORS.contains(&c);
    // Ends of words in the first text that all texts begin with.
    let starts = first.char_indices().filter(|(_, c)| is_separator(*c));
    let start = starts
        .map(|(at, c)| at + c.len_utf8())
        .rfind(|at| others.iter().all(|other| other.starts_with(&first[..*at])))
        .unwrap_or(0);
    let rest = &first[start..];
    let folders = rest.match_indices('/').map(|(at, _)| at);
    let end = folders
        .chain(rest.rfind('.'))
        .map(|at| &rest[at..])
        .find(|end| others.iter().all(|other| other[start..].ends_with(*end)))
        .map_or(0, str::len);
    texts
        .iter()
        .map(|text| text[start..text.len() - end].to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_value() {
        let mut names = [
            "bs16", "bs2", "bs", "bs10-a2", "bs10-a10", "bs1", "bs01", "b",
        ];
        names.sort_by_cached_key(|name| natural_order(name));
        assert_eq!(
            names,
            [
                "b", "bs", "bs01", "bs1", "bs2", "bs10-a2", "bs10-a10", "bs16"
            ]
        );
    }

    #[test]
    fn titles_hold_what_tells_files_apart() {
        let of = |files: &[&str]| titles(&files.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(
            of(&["x/one.sqlite", "y/other.sqlite"]),
            ["one.sqlite", "other.sqlite"]
        );
        assert_eq!(
            of(&[
                "out/batch_size=1/benchmark.json",
                "out/batch_size=16/benchmark.json"
            ]),
            ["batch_size=1", "batch_size=16"]
        );
        assert_eq!(
            of(&[
                "out/proc_0_gpu_0/benchmark.json",
                "out/proc_1_gpu_0/benchmark.json"
            ]),
            ["proc_0_gpu_0", "proc_1_gpu_0"]
        );
        assert_eq!(
            of(&[
                "p/a-long-name-of-a-profile-batch01.sqlite",
                "p/a-long-name-of-a-profile-batch16.sqlite"
            ]),
            ["batch01", "batch16"]
        );
        assert_eq!(
            of(&["a/b.sqlite", "a/b.sqlite"]),
            ["a/b.sqlite", "a/b.sqlite"]
        );
        assert_eq!(of(&["a/benchmark.json"]), ["benchmark.json"]);
        assert_eq!(of(&[]), Vec::<String>::new());
    }

    #[test]
    fn folders_stand_for_the_reports_below_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            fs::write(&path, name).expect("written");
            path
        };
        let report = write("p-batch10.nsys-rep");
        write("p-batch10.stats.json");
        write("bench/series.json");
        write("bench/benchmark_mean.json");
        let expected = [
            "bench/n=2/benchmark.json",
            "bench/n=10/benchmark.json",
            "p-batch2.sqlite",
            "p-batch10.sqlite",
        ]
        .map(write);
        let paths = [folder.path().to_owned(), PathBuf::from("single.json")];
        let found = find_reports(&paths).expect("reports");
        assert_eq!(found[..4], expected);
        assert_eq!(found[4..], [PathBuf::from("single.json")]);
        // An export that is older than its report is not of it.
        let old = std::time::SystemTime::UNIX_EPOCH;
        let export = fs::File::options()
            .write(true)
            .open(&expected[3])
            .expect("opened");
        export.set_modified(old).expect("dated");
        assert_eq!(find_reports(&paths[..1]).expect("reports")[3], report);
        let empty = tempfile::tempdir().expect("a folder");
        let error = find_reports(&[empty.path().to_owned()]).expect_err("nothing in it");
        assert!(error.to_string().contains("holds no report"), "{error}");
    }
}
