// SPDX-License-Identifier: Apache-2.0
//! Credentials for servers that ask for them: Digest (RFC 7616) with MD5 or SHA-256, and Basic. The relay of RTSP sessions and the requests
//! of ONVIF use it.

use gstreamer::glib::{self, Checksum, ChecksumType};

/// User and password.
#[derive(Clone)]
pub struct Login {
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
}

/// How credentials are sent, the weakest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Not known here.
    #[default]
    Other,
    /// Basic.
    Basic,
    /// Digest with MD5.
    Md5,
    /// Digest with SHA-256.
    Sha256,
}

/// A demand for credentials: the value of one `WWW-Authenticate`.
#[derive(Clone, Default)]
pub struct Challenge {
    /// What it demands.
    pub scheme: Scheme,
    /// The credentials were right, but too old.
    pub is_stale: bool,
    /// As the server wrote it, to be repeated.
    algorithm: Option<String>,
    realm: String,
    nonce: String,
    opaque: Option<String>,
    /// `qop=auth` is offered: the answer has a count and a nonce of the client.
    has_qop: bool,
}

impl Challenge {
    /// Reads a value of `WWW-Authenticate`.
    #[must_use]
    pub fn parse(value: &str) -> Self {
        let (scheme, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
        let mut challenge = Self::default();
        if scheme.eq_ignore_ascii_case("basic") {
            challenge.scheme = Scheme::Basic;
        }
        if !scheme.eq_ignore_ascii_case("digest") {
            return challenge;
        }
        challenge.scheme = Scheme::Md5;
        for (name, value) in parameters(rest) {
            match name.to_ascii_lowercase().as_str() {
                "algorithm" => {
                    challenge.scheme = match value.to_ascii_uppercase().as_str() {
                        "MD5" => Scheme::Md5,
                        "SHA-256" => Scheme::Sha256,
                        _ => Scheme::Other,
                    };
                    challenge.algorithm = Some(value);
                }
                "realm" => challenge.realm = value,
                "nonce" => challenge.nonce = value,
                "opaque" => challenge.opaque = Some(value),
                "stale" => challenge.is_stale = value.eq_ignore_ascii_case("true"),
                "qop" => {
                    let mut kinds = value.split(',');
                    challenge.has_qop = kinds.any(|kind| kind.trim().eq_ignore_ascii_case("auth"));
                }
                _ => {}
            }
        }
        challenge
    }

    /// The strongest of these that is known.
    #[must_use]
    pub fn best(challenges: impl IntoIterator<Item = Self>) -> Option<Self> {
        let known = challenges
            .into_iter()
            .filter(|it| it.scheme != Scheme::Other);
        known.max_by_key(|it| it.scheme)
    }

    /// The value of `Authorization` for a request, the `count`th with this challenge; `None`: the scheme is not known.
    #[must_use]
    pub fn answer(&self, login: &Login, method: &str, uri: &str, count: u32) -> Option<String> {
        let client_nonce = glib::uuid_string_random().replace('-', "");
        self.answer_with(login, method, uri, count, &client_nonce)
    }

    fn answer_with(
        &self,
        login: &Login,
        method: &str,
        uri: &str,
        count: u32,
        client_nonce: &str,
    ) -> Option<String> {
        let (Login { user, password }, Self { realm, nonce, .. }) = (login, self);
        let algorithm = match self.scheme {
            Scheme::Other => return None,
            Scheme::Basic => {
                let both = glib::base64_encode(format!("{user}:{password}").as_bytes());
                return Some(format!("Basic {both}"));
            }
            Scheme::Md5 => ChecksumType::Md5,
            Scheme::Sha256 => ChecksumType::Sha256,
        };
        let hash = |text: String| {
            let mut sum = Checksum::new(algorithm).expect("GLib has it");
            sum.update(text.as_bytes());
            sum.string().expect("it was not read before").to_string()
        };
        let secret = hash(format!("{user}:{realm}:{password}"));
        let what = hash(format!("{method}:{uri}"));
        let counted = format!("{count:08x}:{client_nonce}:auth");
        let response = match self.has_qop {
            true => hash(format!("{secret}:{nonce}:{counted}:{what}")),
            false => hash(format!("{secret}:{nonce}:{what}")),
        };
        let user = user.replace('\\', "\\\\").replace('"', "\\\"");
        let mut header = format!(
            "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", response=\"{response}\""
        );
        if let Some(algorithm) = &self.algorithm {
            header += &format!(", algorithm={algorithm}");
        }
        if let Some(opaque) = &self.opaque {
            header += &format!(", opaque=\"{opaque}\"");
        }
        if self.has_qop {
            header += &format!(", qop=auth, nc={count:08x}, cnonce=\"{client_nonce}\"");
        }
        Some(header)
    }
}

/// The parameters of a challenge, `name=value` or `name="value"`, with commas between them.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_at(after.find(',').unwrap_or(after.len())),
        };
        let name = name.trim_matches(|c: char| c == ',' || c.is_whitespace());
        found.push((name.to_owned(), value.trim().to_owned()));
        rest = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login {
        Login {
            user: "Mufasa".to_owned(),
            password: "Circle of Life".to_owned(),
        }
    }

    /// Answers to the challenges of RFC 7616, 3.9.1; those for a POST, and the one without `qop`, were computed with Python's hashlib.
    #[test]
    fn answers_are_those_of_the_standard() {
        let realm = "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", \
                     nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";
        let client_nonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let answer = |challenge: &str, method: &str| {
            let challenge = Challenge::parse(challenge);
            let answer =
                challenge.answer_with(&login(), method, "/dir/index.html", 1, client_nonce);
            answer.expect("it is known")
        };
        let md5_of_get = "8ca523f5e9506fed4657c9700eebdbec";
        let md5_of_post = "6f31d8ff6361bb27783b6ac62b999535";
        let sha256_of_get = "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1";
        let sha256_of_post = "b85bfcaae378db6f6d75b1706062ac3d66fec2dd3d0082d77885522866488dac";
        for (algorithm, method, response) in [
            ("MD5", "GET", md5_of_get),
            ("MD5", "POST", md5_of_post),
            ("SHA-256", "GET", sha256_of_get),
            ("SHA-256", "POST", sha256_of_post),
        ] {
            let header = answer(&format!("{realm}, algorithm={algorithm}"), method);
            for wanted in [
                &format!("response=\"{response}\""),
                &format!("algorithm={algorithm}"),
                "qop=auth, nc=00000001, cnonce=",
                "opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"",
            ] {
                assert!(header.contains(wanted), "{header}");
            }
        }
        let old = answer("digest realm=\"r\",nonce=\"n\"", "POST");
        assert!(
            old.contains("response=\"9cfb3c982a513c1449b00622ca4824bc\""),
            "{old}"
        );
        assert!(!old.contains("qop") && !old.contains("algorithm"), "{old}");
        // rvi/ONVIFCameraAndroid 14: a camera that takes Basic alone.
        let basic = answer("Basic realm=\"gSOAP Web Service\"", "POST");
        assert_eq!(basic, "Basic TXVmYXNhOkNpcmNsZSBvZiBMaWZl");
    }

    #[test]
    fn the_strongest_challenge_that_is_known_is_answered() {
        let best = |challenges: &[&str]| {
            let challenges = challenges.iter().map(|it| Challenge::parse(it));
            Challenge::best(challenges).map(|it| it.scheme)
        };
        let digest =
            |algorithm: &str| format!("Digest realm=\"r\", nonce=\"n\", algorithm={algorithm}");
        let (md5, sha256, other) = (digest("MD5"), digest("SHA-256"), digest("SHA-512-256"));
        assert_eq!(
            best(&[&md5, &other, &sha256, "Basic realm=\"r\""]),
            Some(Scheme::Sha256)
        );
        assert_eq!(
            best(&[&other, "Basic realm=\"r\"", &md5]),
            Some(Scheme::Md5)
        );
        assert_eq!(best(&[&other, "Negotiate"]), None);
    }

    #[test]
    fn challenges_are_read_as_cameras_write_them() {
        let parse = Challenge::parse;
        assert_eq!(parse("Basic realm=\"x\"").scheme, Scheme::Basic);
        let scheme = parse("Digest realm=\"a, b=c\", nonce=\"1\"").scheme;
        assert_eq!(scheme, Scheme::Md5);
        let camera = parse("Digest realm=\"a, b=c\",nonce=\"1\",stale=TRUE,algorithm=\"SHA-256\"");
        assert_eq!((camera.scheme, camera.is_stale), (Scheme::Sha256, true));
        assert_eq!(
            (camera.realm.as_str(), camera.nonce.as_str()),
            ("a, b=c", "1")
        );
        assert_eq!(parse("Negotiate").scheme, Scheme::Other);
    }
}
