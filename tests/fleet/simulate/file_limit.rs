// SPDX-License-Identifier: Apache-2.0
//! The limit of file descriptors, raised as far as this process may.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::SimulateError;

/// File descriptors beside the connections.
const OTHERS: u64 = 64;

/// Makes room for `boxes` of so many file descriptors each.
///
/// # Errors
/// The hard limit is too low.
pub(crate) fn raise(boxes: usize, per_box: u64) -> Result<(), SimulateError> {
    let needed = (boxes as u64).saturating_mul(per_box) + OTHERS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` is no limit.
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let limit = maximum.unwrap_or(u64::MAX);
    let raised = Rlimit {
        current: maximum.or(Some(needed)),
        maximum,
    };
    if limit < needed || setrlimit(Resource::Nofile, raised).is_err() {
        return Err(SimulateError::FileLimit {
            boxes,
            needed,
            limit,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_that_is_too_low_is_an_error_with_the_remedy() {
        assert!(raise(1, 5).is_ok());
        let maximum = getrlimit(Resource::Nofile).maximum;
        if maximum.is_some_and(|limit| limit < 1 << 40) {
            let error = raise(1 << 40, 1).expect_err("beyond the hard limit");
            assert!(error.to_string().contains("ulimit -Hn"), "{error}");
        }
    }
}
