// SPDX-License-Identifier: Apache-2.0
//! Topic names and topic filters.

/// Whether a message can have this topic: it is not empty, and has no wildcard and no NUL.
pub fn is_valid_topic(topic: &str) -> bool {
    !topic.is_empty() && !topic.contains(['+', '#', '\0'])
}

/// Whether `filter` is a topic filter: each wildcard is a level of its own, and `#` the last one.
pub fn is_valid_filter(filter: &str) -> bool {
    let is_level = |level: &str| level == "+" || !level.contains(['+', '#', '\0']);
    match filter.strip_suffix('#') {
        Some("") => true,
        Some(rest) => rest
            .strip_suffix('/')
            .is_some_and(|rest| rest.split('/').all(is_level)),
        None => !filter.is_empty() && filter.split('/').all(is_level),
    }
}

/// Whether a message on `topic` is for a subscription with this valid `filter`. A topic that begins with `$` is not for a filter that
/// begins with a wildcard.
pub fn matches(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut levels = topic.split('/');
    for wanted in filter.split('/') {
        match (wanted, levels.next()) {
            // Also the level above: `a/#` is for `a`.
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (_, Some(level)) if level == wanted => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

/// Whether `filter` has a wildcard.
pub(crate) fn has_wildcard(filter: &str) -> bool {
    filter.contains(['+', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_match_by_levels() {
        // The examples of the standard, sections 4.7.1 and 4.7.2, and some more.
        #[rustfmt::skip]
        let cases = [
            ("sport/tennis/player1/#", "sport/tennis/player1", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
            ("sport/#", "sport", true),
            ("#", "sport/tennis", true),
            ("sport/tennis/+", "sport/tennis/player1", true),
            ("sport/tennis/+", "sport/tennis/player1/ranking", false),
            ("sport/+", "sport", false),
            ("sport/+", "sport/", true),
            ("+/+", "/finance", true),
            ("/+", "/finance", true),
            ("+", "/finance", false),
            ("+/monitor/Clients", "$SYS/monitor/Clients", false),
            ("#", "$SYS/monitor/Clients", false),
            ("$SYS/#", "$SYS/monitor/Clients", true),
            ("$SYS/monitor/+", "$SYS/monitor/Clients", true),
            ("a/b", "a/b", true),
            ("a/b", "a/b/c", false),
            ("a/b/c", "a/b", false),
            ("a/+/c", "a//c", true),
            ("A", "a", false),
        ];
        for (filter, topic, expected) in cases {
            assert_eq!(matches(filter, topic), expected, "{filter} {topic}");
        }
    }

    #[test]
    fn wildcards_are_whole_levels() {
        for (filter, is_filter, is_topic) in [
            ("a/b", true, true),
            ("/", true, true),
            ("$SYS/a", true, true),
            ("", false, false),
            ("#", true, false),
            ("+", true, false),
            ("a/#", true, false),
            ("+/a/+", true, false),
            ("a#", false, false),
            ("a/#/b", false, false),
            ("##", false, false),
            ("a+/b", false, false),
            ("a/b+", false, false),
            ("a+/#", false, false),
            ("a\0b", false, false),
        ] {
            assert_eq!(is_valid_filter(filter), is_filter, "{filter}");
            assert_eq!(is_valid_topic(filter), is_topic, "{filter}");
        }
    }
}
