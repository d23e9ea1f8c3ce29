// SPDX-License-Identifier: Apache-2.0
//! Class names in the metadata that exporters write. Pure.

/// The names in `text`, a dictionary or list as Python prints it: `{0: 'person', 1: "traffic light"}` or `['a', 'b']`, in
/// the order of their numbers. `None` for anything else, for gaps in the numbers, and for a list without names.
pub(crate) fn parse(text: &str) -> Option<Vec<String>> {
    let mut rest = Cursor(text.trim());
    let is_map = rest.eat('{');
    if !is_map && !rest.eat('[') {
        return None;
    }
    let end = if is_map { '}' } else { ']' };
    let mut names: Vec<(usize, String)> = Vec::new();
    while !rest.eat(end) {
        let number = if is_map { rest.number()? } else { names.len() };
        if is_map && !rest.eat(':') {
            return None;
        }
        names.push((number, rest.quoted()?));
        if !rest.eat(',') && !rest.is_at(end) {
            return None;
        }
    }
    names.sort_by_key(|(number, _)| *number);
    let is_dense = names
        .iter()
        .enumerate()
        .all(|(at, (number, _))| at == *number);
    let names: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
    (is_dense && !names.is_empty() && rest.0.is_empty()).then_some(names)
}

/// The rest of the text.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn is_at(&mut self, wanted: char) -> bool {
        self.0 = self.0.trim_start();
        self.0.starts_with(wanted)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let is_there = self.is_at(wanted);
        if is_there {
            self.0 = self.0[wanted.len_utf8()..].trim_start();
        }
        is_there
    }

    fn number(&mut self) -> Option<usize> {
        self.0 = self.0.trim_start();
        // Keys of JSON are quoted.
        let is_quoted = self.eat('"');
        let end = self.0.find(|c: char| !c.is_ascii_digit())?;
        let number = self.0[..end].parse().ok()?;
        self.0 = &self.0[end..];
        (!is_quoted || self.eat('"')).then_some(number)
    }

    fn quoted(&mut self) -> Option<String> {
        let quote = ['\'', '"'].into_iter().find(|quote| self.is_at(*quote))?;
        let mut name = String::new();
        let mut characters = self.0.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => name.push(characters.next()?.1),
                end if end == quote => {
                    self.0 = &self.0[at + 1..];
                    return Some(name);
                }
                other => name.push(other),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn class_names_are_parsed_from_dicts_and_lists() {
        #[rustfmt::skip]
        let cases = [
            ("{0: 'person', 1: 'bicycle'}", &["person", "bicycle"][..]),
            ("{1: \"driver's seat\", 0: 'a\\'b'}", &["a'b", "driver's seat"]),
            ("{\"0\": \"cat\", \"1\": \"dog\"}", &["cat", "dog"]),
            (" ['a, b', \"c\",] ", &["a, b", "c"]),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(text).expect(text), wanted, "{text}");
        }
    }

    #[test]
    fn other_class_name_texts_give_none() {
        for text in [
            "",
            "person",
            "{}",
            "[]",
            "{0: person}",
            "{0: 'a', 2: 'b'}",
            "{0: 'a'",
            "['a'] x",
            "{0 'a'}",
            "['a' 'b']",
            "['a",
            "{99999999999999999999999: 'a'}",
            "{'a': 'b'}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
