// SPDX-License-Identifier: Apache-2.0
//! Names of two compared configuration files, and of folders.

use std::path::Path;

/// Names of two configuration files, as folders and in tables: their names without extension, or with the folders above them
/// where these are the same.
pub(super) fn file_labels(files: [&Path; 2]) -> [String; 2] {
    let tail = |path: &Path, length: usize| {
        let path = path.with_extension("");
        let parts: Vec<String> = path
            .iter()
            .map(|part| plain(&part.to_string_lossy()))
            .collect();
        parts[parts.len().saturating_sub(length)..].join("_")
    };
    let longest = files.map(|file| file.iter().count()).into_iter().max();
    let labels = (1..=longest.unwrap_or(0)).map(|length| files.map(|file| tail(file, length)));
    let mut distinct =
        labels.filter(|[one, other]| one != other && !one.is_empty() && !other.is_empty());
    distinct.next().unwrap_or(["a", "b"].map(str::to_owned))
}

/// `text` as the name of a folder.
pub(super) fn plain(text: &str) -> String {
    text.replace(|c: char| !c.is_alphanumeric() && !"=,._-".contains(c), "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compared_files_are_named_by_what_differs() {
        for (files, wanted) in [
            (["a/now.yaml", "b/new one.yaml"], ["now", "new_one"]),
            (["old/box.yaml", "new/box.yaml"], ["old_box", "new_box"]),
            (["box.yaml", "box.yaml"], ["a", "b"]),
            (["box.yaml", "../box.yaml"], ["box", ".._box"]),
        ] {
            assert_eq!(file_labels(files.map(Path::new)), wanted);
        }
    }
}
