// SPDX-License-Identifier: Apache-2.0
//! Passwords as argon2id hashes. Each takes 19 MiB and some ten milliseconds, so that one runs at a time, in memory that is kept: what is
//! freed, the C library would not give to the next one whole, and the daemon would grow with each attempt to log in.

use argon2::password_hash::{Error, Output, PasswordHash, SaltString};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use parking_lot::Mutex;

use super::users::UserError;

/// The memory of the one hash that is computed. Empty until there is one.
static MEMORY: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// Fewest characters of a password.
const MIN_CHARACTERS: usize = 10;

/// Most bytes of a password that is looked at.
const MAX_BYTES: usize = 1024;

/// Compares passwords with hashes; an unknown user takes as long as a known one.
#[derive(Debug)]
pub(in super::super) struct Passwords {
    /// A hash that no password is known for.
    other: String,
}

impl Passwords {
    /// Computes no hash, whose memory is taken at the first attempt to log in.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(in super::super) fn new() -> Result<Self, UserError> {
        let other = Output::init_with(Params::DEFAULT_OUTPUT_LEN, |out| {
            getrandom::fill(out).map_err(|_| Error::Crypto)
        });
        let other = other.and_then(|other| encoded(&Argon2::default(), &new_salt()?, other));
        Ok(Self {
            other: other.map_err(failed)?,
        })
    }

    /// Whether `password` is that of `stored`; `None`: there is no such user. Takes 19 MiB and some ten milliseconds.
    pub(in super::super) fn matches(&self, password: &str, stored: Option<&str>) -> bool {
        if password.len() > MAX_BYTES {
            return false;
        }
        let hash = PasswordHash::new(stored.unwrap_or(&self.other));
        let is_equal = hash.is_ok_and(|hash| is_equal(password, &hash).unwrap_or(false));
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
    let context = Argon2::default();
    let hashed = || -> Result<String, Error> {
        let salt = new_salt()?;
        let mut buffer = [0; 64];
        let output = output(&context, password, salt.as_salt().decode_b64(&mut buffer)?)?;
        encoded(&context, &salt, output)
    };
    hashed().map_err(failed)
}

fn failed(error: Error) -> UserError {
    UserError::Hash {
        reason: error.to_string(),
    }
}

fn new_salt() -> Result<SaltString, Error> {
    let mut salt = [0_u8; 16];
    getrandom::fill(&mut salt).map_err(|_| Error::Crypto)?;
    SaltString::encode_b64(&salt)
}

/// A hash as it is stored, with the parameters that it was computed with.
fn encoded(context: &Argon2<'_>, salt: &SaltString, output: Output) -> Result<String, Error> {
    let hash = PasswordHash {
        algorithm: Algorithm::default().ident(),
        version: Some(Version::default().into()),
        params: context.params().try_into()?,
        salt: Some(salt.as_salt()),
        hash: Some(output),
    };
    Ok(hash.to_string())
}

/// Whether `hash` is that of `password`; compared in constant time.
fn is_equal(password: &str, hash: &PasswordHash<'_>) -> Result<bool, Error> {
    let (Some(salt), Some(wanted)) = (hash.salt, hash.hash) else {
        return Ok(false);
    };
    let algorithm = Algorithm::try_from(hash.algorithm)?;
    let version = hash
        .version
        .map_or(Ok(Version::default()), Version::try_from)?;
    let context = Argon2::new(algorithm, version, Params::try_from(hash)?);
    let mut buffer = [0; 64];
    let found = output(&context, password, salt.decode_b64(&mut buffer)?)?;
    Ok(found == wanted)
}

fn output(context: &Argon2<'_>, password: &str, salt: &[u8]) -> Result<Output, Error> {
    let params = context.params();
    let length = params.output_len().unwrap_or(Params::DEFAULT_OUTPUT_LEN);
    let mut memory = MEMORY.lock();
    if memory.len() < params.block_count() {
        memory.resize(params.block_count(), Block::default());
    }
    Output::init_with(length, |out| {
        let blocks = &mut memory[..params.block_count()];
        Ok(context.hash_password_into_with_memory(password.as_bytes(), salt, out, blocks)?)
    })
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
    fn hashes_are_those_of_the_library() {
        use argon2::password_hash::{PasswordHasher, PasswordVerifier};
        let password = b"a long password";
        let ours = checked_hash("a long password").expect("good");
        let parsed = PasswordHash::new(&ours).expect("a hash");
        assert_eq!(Argon2::default().verify_password(password, &parsed), Ok(()));
        // Of another program, which takes more or less memory and time.
        let salt = SaltString::encode_b64(b"some salt or other").expect("a salt");
        let passwords = Passwords::new().expect("memory");
        for (memory, rounds, parallel) in [(256, 3, 1), (32 * 1024, 1, 4)] {
            let params = Params::new(memory, rounds, parallel, Some(32)).expect("valid");
            let context = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
            let theirs = context.hash_password(password, &salt).expect("memory");
            let theirs = theirs.to_string();
            assert!(passwords.matches("a long password", Some(&theirs)));
            assert!(!passwords.matches("a long passwort", Some(&theirs)));
        }
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
