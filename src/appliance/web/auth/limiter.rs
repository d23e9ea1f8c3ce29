// SPDX-License-Identifier: Apache-2.0
//! Limits attempts to log in, by address and by user, and those to open links, by address. Failures count; after too many, further
//! attempts wait without a look at the password.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time in which failures are counted, and after which they are forgotten.
const WINDOW: Duration = Duration::from_secs(300);

/// Failures of one address in that time.
const MAX_OF_ADDRESS: u32 = 10;

/// Failures for one user in that time, from all addresses.
const MAX_OF_USER: u32 = 20;

/// Most addresses and users that are remembered; the one with the fewest failures makes room, so that an address is not forgotten by trying
/// many names.
const MAX_ENTRIES: usize = 4096;

/// Counts failures.
#[derive(Debug, Default)]
pub(in super::super) struct LoginLimiter {
    failures: Mutex<HashMap<Key, Failures>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Address(IpAddr),
    User(String),
}

#[derive(Debug)]
struct Failures {
    since: Instant,
    count: u32,
}

impl LoginLimiter {
    /// The time that an attempt has to wait; `None`: it may be made.
    pub(in super::super) fn wait(
        &self,
        address: IpAddr,
        user: Option<&str>,
        now: Instant,
    ) -> Option<Duration> {
        let failures = self.failures.lock();
        keys(address, user)
            .filter_map(|(key, max)| {
                let found = failures.get(&key)?;
                let until = found.since + WINDOW;
                (found.count >= max && now < until).then(|| until - now)
            })
            .max()
    }

    /// An attempt has failed.
    pub(in super::super) fn failed(&self, address: IpAddr, user: Option<&str>, now: Instant) {
        let mut failures = self.failures.lock();
        for (key, _) in keys(address, user) {
            if failures.len() >= MAX_ENTRIES && !failures.contains_key(&key) {
                make_room(&mut failures, now);
            }
            let found = failures.entry(key).or_insert(Failures {
                since: now,
                count: 0,
            });
            if now.duration_since(found.since) >= WINDOW {
                *found = Failures {
                    since: now,
                    count: 0,
                };
            }
            found.count += 1;
        }
    }

    /// An attempt has succeeded: the failures of this address are forgotten.
    pub(in super::super) fn succeeded(&self, address: IpAddr) {
        self.failures
            .lock()
            .remove(&Key::Address(network_of(address)));
    }
}

fn keys(address: IpAddr, user: Option<&str>) -> impl Iterator<Item = (Key, u32)> {
    let user = user.map(|user| (Key::User(user.chars().take(64).collect()), MAX_OF_USER));
    let address = (Key::Address(network_of(address)), MAX_OF_ADDRESS);
    [address].into_iter().chain(user)
}

/// One customer of a provider has a whole /64 of IPv6 addresses.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address => address,
    }
}

fn make_room(failures: &mut HashMap<Key, Failures>, now: Instant) {
    failures.retain(|_, found| now.duration_since(found.since) < WINDOW);
    if failures.len() >= MAX_ENTRIES
        && let Some((least, _)) = failures
            .iter()
            .min_by_key(|(_, found)| (found.count, found.since))
    {
        let least = least.clone();
        failures.remove(&least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn failures_of_an_address_make_it_wait() {
        let limiter = LoginLimiter::default();
        let (now, here) = (Instant::now(), address("192.0.2.1"));
        for user in 0..MAX_OF_ADDRESS {
            assert_eq!(limiter.wait(here, Some("x"), now), None);
            limiter.failed(here, Some(&user.to_string()), now);
        }
        assert_eq!(limiter.wait(here, Some("x"), now), Some(WINDOW));
        assert_eq!(limiter.wait(address("192.0.2.2"), Some("x"), now), None);
        assert_eq!(limiter.wait(here, Some("x"), now + WINDOW), None);
        limiter.succeeded(here);
        assert_eq!(limiter.wait(here, Some("x"), now), None);
    }

    #[test]
    fn failures_for_a_user_count_from_all_addresses() {
        let limiter = LoginLimiter::default();
        let now = Instant::now();
        for last in 0..MAX_OF_USER {
            limiter.failed(IpAddr::from([192, 0, 2, last as u8]), Some("anna"), now);
        }
        let other = address("198.51.100.1");
        assert!(limiter.wait(other, Some("anna"), now).is_some());
        assert_eq!(limiter.wait(other, Some("bert"), now), None);
    }

    #[test]
    fn networks_of_ipv6_are_one_address_and_memory_is_bounded() {
        let limiter = LoginLimiter::default();
        let now = Instant::now();
        for last in 0..MAX_ENTRIES as u128 + 500 {
            let address = IpAddr::from((0x2001_0db8_u128 << 96 | last).to_be_bytes());
            limiter.failed(address, Some(&last.to_string()), now);
        }
        assert!(
            limiter
                .wait(address("2001:db8::ffff"), Some("x"), now)
                .is_some()
        );
        assert!(limiter.failures.lock().len() <= MAX_ENTRIES);
    }
}
