//! Passwords as argon2id hashes. Each takes 19 MiB and some ten milliseconds, so that few run at a time.

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};

use super::users::UserError;

/// Fewest characters of a password.
const MIN_CHARACTERS: usize = 10;

/// Most bytes of a password that is looked at.
const MAX_BYTES: usize = 1024;

/// Compares passwords with hashes; an unknown user takes as long as a known one.
#[derive(Debug)]
pub(in super::super) struct Passwords {
    /// The hash of a password that no one has.
    other: String,
}

impl Passwords {
    /// Hashes once.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(in super::super) fn new() -> Result<Self, UserError> {
        Ok(Self {
            other: hash(&super::random_hex::<32>())?,
        })
    }

    /// Whether `password` is that of `stored`; `None`: there is no such user. Takes 19 MiB and some ten milliseconds.
    pub(in super::super) fn matches(&self, password: &str, stored: Option<&str>) -> bool {
        if password.len() > MAX_BYTES {
            return false;
        }
        let hash = PasswordHash::new(stored.unwrap_or(&self.other));
        let is_equal = hash.is_ok_and(|hash| {
            Argon2::default()
                .verify_password(password.as_bytes(), &hash)
                .is_ok()
        });
        is_equal && stored.is_some()
    }
}

/// The hash of a new password.
///
/// # Errors
/// It is too short or too long.
pub(super) fn checked_hash(password: &str) -> Result<String, UserError> {
    if password.chars().count() < MIN_CHARACTERS || password.len() > MAX_BYTES {
        return Err(UserError::WeakPassword {
            least: MIN_CHARACTERS,
        });
    }
    hash(password)
}

fn hash(password: &str) -> Result<String, UserError> {
    let mut salt = [0_u8; 16];
    let failed = |reason: String| UserError::Hash { reason };
    getrandom::fill(&mut salt).map_err(|error| failed(error.to_string()))?;
    let salt = SaltString::encode_b64(&salt).map_err(|error| failed(error.to_string()))?;
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt);
    Ok(hash.map_err(|error| failed(error.to_string()))?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_of_a_user_matches() {
        let stored = checked_hash("a long password").expect("good");
        assert!(stored.starts_with("$argon2id$v=19$"), "{stored}");
        let other = checked_hash("a long password").expect("good");
        assert_ne!(stored, other, "each has its salt");
        let passwords = Passwords::new().expect("memory");
        assert!(passwords.matches("a long password", Some(&stored)));
        for wrong in ["", "a long passwor", "a long password ", "A long password"] {
            assert!(!passwords.matches(wrong, Some(&stored)), "{wrong}");
        }
        assert!(!passwords.matches("a long password", None));
        assert!(!passwords.matches("a long password", Some("no hash")));
    }

    #[test]
    fn short_and_endless_passwords_are_refused() {
        for password in ["", "123456789", &"x".repeat(MAX_BYTES + 1)] {
            let refused = checked_hash(password);
            assert!(
                matches!(refused, Err(UserError::WeakPassword { .. })),
                "{refused:?}"
            );
        }
    }
}
