// SPDX-License-Identifier: Apache-2.0
//! Elements of an answer by their names without namespaces: cameras choose prefixes freely, and some the namespaces, too.

use roxmltree::{Document, Node};

/// The text of a document without what some cameras add before and behind it: a byte order mark, line breaks, zero bytes.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0' || c == '\u{feff}')
        .to_owned()
}

/// Parses an answer.
///
/// # Errors
/// Why it is not XML.
pub(crate) fn parse(text: &str) -> Result<Document<'_>, String> {
    Document::parse(text).map_err(|error| error.to_string())
}

/// All elements below `node` with this name.
pub(crate) fn all<'a, 'input>(
    node: Node<'a, 'input>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.descendants()
        .filter(move |found| found.is_element() && found.tag_name().name() == name)
}

/// The first element below `node` that a path of names leads to, with any elements between them.
pub(crate) fn first<'a, 'input>(
    node: Node<'a, 'input>,
    path: &[&'static str],
) -> Option<Node<'a, 'input>> {
    path.iter()
        .try_fold(node, |node, name| all(node, name).next())
}

/// Its text, trimmed; `None` where it is empty.
pub(crate) fn text<'a>(node: Node<'a, '_>, path: &[&'static str]) -> Option<&'a str> {
    let text = first(node, path)?.text()?.trim();
    (!text.is_empty()).then_some(text)
}

/// `text` as the text of an element or the value of an attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_their_names_whatever_their_prefix() {
        let text = text_of(
            b"\xef\xbb\xbf\r\n<a:A xmlns:a='x' xmlns='y'><B><a:C> 1&amp;2 </a:C><C/></B></a:A>\0\0",
        );
        let document = parse(&text).expect("it is XML");
        let root = document.root();
        assert_eq!(super::text(root, &["A", "C"]), Some("1&2"));
        assert_eq!(super::text(root, &["B", "D"]), None);
        assert_eq!(all(root, "C").count(), 2);
    }

    #[test]
    fn escaped_text_is_read_as_it_was() {
        let password = "<&>'\"ä";
        let text = format!("<p q=\"{0}\">{0}</p>", escape(password));
        let document = parse(&text).expect("it is XML");
        let element = document.root_element();
        assert_eq!(element.text(), Some(password));
        assert_eq!(element.attribute("q"), Some(password));
    }
}
