// SPDX-License-Identifier: Apache-2.0
//! Errors with their causes as one text, for commands and reports.

use std::error::Error;

/// An error with its causes; a cause that the text before it already contains is not repeated.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text += &format!(": {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Outer(&'static str, io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn causes_are_printed_once() {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no such file");
        let named = "cannot read box.yaml: no such file; name it with --config";
        assert_eq!(with_causes(&Outer(named, missing())), named);
        let silent = Outer("no result", missing());
        assert_eq!(with_causes(&silent), "no result: no such file");
    }
}
