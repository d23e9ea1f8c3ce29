// SPDX-License-Identifier: Apache-2.0
//! Requests to a service of a camera: SOAP 1.2 over HTTP, with the credentials that the camera accepts.
//!
//! ONVIF has two ways to log in. The older one is in the message (WS-Security's user name token); it depends on the camera's clock. The
//! newer one is Digest of HTTP (RFC 7616), the only one of cameras that are set so. Requests begin with the older one, which all
//! cameras know that know only one, and end with what the camera asks for.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gio::glib::{self, Checksum, ChecksumType};
use ureq::Agent;

use crate::{OnvifError, xml};

/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of an answer in bytes. The profiles of a recorder with 64 channels take half a megabyte.
const ANSWER_BYTES: u64 = 4 << 20;

const WSSE: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd";
const WSU: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd";
const TOKEN: &str = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0#PasswordDigest";
const BASE64: &str = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#Base64Binary";

/// User and password.
#[derive(Clone)]
pub struct Login {
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
}

/// A request without parameters but those in `body`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    /// Name of the operation.
    pub(crate) name: &'static str,
    /// Namespace of the service.
    pub(crate) namespace: &'static str,
    /// The elements within that of the operation, which are in the namespace of the service.
    pub(crate) body: &'a str,
}

/// Asks the services of one camera.
pub(crate) struct Client {
    agent: Agent,
    /// The address of its device service, for errors.
    address: String,
    login: Option<Login>,
    /// How much the camera's clock is ahead of this machine's.
    pub(crate) skew_s: Cell<i64>,
    /// Digests of HTTP after each other are counted.
    requests: Cell<u32>,
}

/// The answer to one attempt.
struct Answer {
    status: u16,
    /// Values of `WWW-Authenticate`.
    challenges: Vec<String>,
    text: String,
}

impl Client {
    pub(crate) fn new(address: &str, login: Option<Login>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(3)
            .timeout_global(Some(TIMEOUT))
            // A camera is in a network of its own, not behind the proxy to the world.
            .proxy(None)
            .user_agent(concat!("jetwatch/", env!("CARGO_PKG_VERSION")));
        Self {
            agent: config.build().into(),
            address: address.to_owned(),
            login,
            skew_s: Cell::new(0),
            requests: Cell::new(0),
        }
    }

    pub(crate) fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// The answer of the service at `url`, as text of an XML document with the answer's element.
    ///
    /// # Errors
    /// There is no answer, it is a fault, or it is something else.
    pub(crate) fn call(&self, url: &str, request: Request<'_>) -> Result<String, OnvifError> {
        let token = self.login.as_ref().map(|login| self.token(login));
        let mut answer = self.post(url, request, token.as_deref(), None)?;
        if answer.status == 401
            && let Some(login) = &self.login
            && let Some(header) = self.authorization(&answer.challenges, login, url)
        {
            answer = self.post(url, request, None, Some(&header))?;
        }
        self.accept(request, answer)
    }

    fn accept(&self, request: Request<'_>, answer: Answer) -> Result<String, OnvifError> {
        let address = self.address.clone();
        let is_unauthorized = |fault: &str| answer.status == 401 || is_about_login(fault);
        let parsed = xml::parse(&answer.text);
        let fault = parsed.as_ref().ok().and_then(|document| {
            let fault = xml::first(document.root(), &["Body", "Fault"])?;
            let codes: Vec<&str> = xml::all(fault, "Value")
                .filter_map(|code| code.text())
                .collect();
            // SOAP 1.2, then 1.1.
            let reason =
                xml::text(fault, &["Reason", "Text"]).or(xml::text(fault, &["faultstring"]));
            Some(format!(
                "{} ({})",
                reason.unwrap_or("no reason"),
                codes.join(", ")
            ))
        });
        if is_unauthorized(fault.as_deref().unwrap_or_default()) {
            return Err(match &self.login {
                None => OnvifError::NeedsLogin { address },
                Some(_) => OnvifError::Refused {
                    address,
                    skew_s: self.skew_s.get(),
                },
            });
        }
        if let Some(reason) = fault {
            return Err(OnvifError::Fault {
                address,
                request: request.name,
                reason,
            });
        }
        let reason = match parsed {
            Ok(document) if xml::first(document.root(), &["Envelope", "Body"]).is_some() => None,
            _ if answer.status != 200 => Some(format!("HTTP status {}", answer.status)),
            Ok(document) => Some(format!(
                "it is a document of `{}`",
                document.root_element().tag_name().name()
            )),
            Err(error) => Some(error),
        };
        reason.map_or(Ok(answer.text), |reason| {
            Err(OnvifError::Answer {
                address,
                request: request.name,
                reason,
            })
        })
    }

    fn post(
        &self,
        url: &str,
        request: Request<'_>,
        token: Option<&str>,
        authorization: Option<&str>,
    ) -> Result<Answer, OnvifError> {
        let Request {
            name,
            namespace,
            body,
        } = request;
        let header =
            token.map_or_else(String::new, |token| format!("<s:Header>{token}</s:Header>"));
        let envelope = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\">{header}<s:Body>\
             <{name} xmlns=\"{namespace}\">{body}</{name}></s:Body></s:Envelope>"
        );
        let kind = format!("application/soap+xml; charset=utf-8; action=\"{namespace}/{name}\"");
        let mut sent = self.agent.post(url).header("Content-Type", kind);
        if let Some(authorization) = authorization {
            sent = sent.header("Authorization", authorization);
        }
        let no_answer = |error: ureq::Error| OnvifError::NoAnswer {
            address: self.address.clone(),
            reason: match error {
                ureq::Error::Timeout(_) => format!("none within {} s", TIMEOUT.as_secs()),
                ureq::Error::HostNotFound => "the host has no address".to_owned(),
                error => error.to_string(),
            },
        };
        let response = sent.send(envelope.as_bytes()).map_err(no_answer)?;
        let challenges = response.headers().get_all("www-authenticate").iter();
        let challenges = challenges.filter_map(|value| Some(value.to_str().ok()?.to_owned()));
        let (status, challenges) = (response.status().as_u16(), challenges.collect());
        let body = response.into_body().into_with_config().limit(ANSWER_BYTES);
        let text = xml::text_of(&body.read_to_vec().map_err(no_answer)?);
        log::debug!("{url}: {name}: status {status}, {} bytes", text.len());
        Ok(Answer {
            status,
            challenges,
            text,
        })
    }

    /// WS-Security's user name token, of now by the camera's clock.
    fn token(&self, login: &Login) -> String {
        let nonce = random();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let seconds = i64::try_from(now.as_secs())
            .unwrap_or(i64::MAX)
            .saturating_add(self.skew_s.get());
        let created = jiff::Timestamp::from_second(seconds)
            .unwrap_or_default()
            .to_string();
        let digest = token_digest(&nonce, &created, &login.password);
        format!(
            "<Security s:mustUnderstand=\"1\" xmlns=\"{WSSE}\"><UsernameToken><Username>{}</Username><Password Type=\"{TOKEN}\">{digest}\
             </Password><Nonce EncodingType=\"{BASE64}\">{}</Nonce><Created xmlns=\"{WSU}\">{created}</Created></UsernameToken></Security>",
            xml::escape(&login.user),
            glib::base64_encode(&nonce),
        )
    }

    /// The header that answers the best of these challenges; `None` if none is known.
    fn authorization(&self, challenges: &[String], login: &Login, url: &str) -> Option<String> {
        let digests = challenges
            .iter()
            .filter_map(|challenge| Challenge::parse(challenge));
        // SHA-256 before MD5.
        let best = digests.max_by_key(|challenge| challenge.algorithm == ChecksumType::Sha256);
        if let Some(challenge) = best {
            self.requests.set(self.requests.get() + 1);
            let client_nonce: String = random().iter().map(|byte| format!("{byte:02x}")).collect();
            return Some(challenge.answer(login, path_of(url), &client_nonce, self.requests.get()));
        }
        let is_basic = |challenge: &String| scheme_of(challenge).0.eq_ignore_ascii_case("basic");
        challenges.iter().any(is_basic).then(|| {
            let both = format!("{}:{}", login.user, login.password);
            format!("Basic {}", glib::base64_encode(both.as_bytes()))
        })
    }
}

/// Whether a fault is about user, password or the time of the token: by the codes of ONVIF and of WS-Security (`NotAuthorized`,
/// `FailedAuthentication`, `InvalidSecurity`, `FailedCheck`), else by the words of cameras that give none.
fn is_about_login(fault: &str) -> bool {
    let fault = fault.to_ascii_lowercase();
    let words = [
        "authoriz",
        "authentic",
        "security",
        "failedcheck",
        "time check",
    ];
    words.iter().any(|word| fault.contains(word))
}

/// 16 unpredictable bytes.
pub(crate) fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

/// Base64 of SHA-1 of nonce, time and password.
fn token_digest(nonce: &[u8], created: &str, password: &str) -> String {
    let mut sum = Checksum::new(ChecksumType::Sha1).expect("GLib has SHA-1");
    for part in [nonce, created.as_bytes(), password.as_bytes()] {
        sum.update(part);
    }
    glib::base64_encode(&sum.digest()).to_string()
}

/// Path and query of an address.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// A challenge's scheme, and the rest.
fn scheme_of(challenge: &str) -> (&str, &str) {
    challenge
        .trim()
        .split_once(' ')
        .unwrap_or((challenge.trim(), ""))
}

/// A demand for Digest credentials (RFC 7616).
struct Challenge {
    algorithm: ChecksumType,
    /// As the camera wrote it, to be repeated.
    named_algorithm: Option<String>,
    realm: String,
    nonce: String,
    opaque: Option<String>,
    /// Whether the answer has a count and a nonce of the client.
    has_qop: bool,
}

impl Challenge {
    fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = scheme_of(header);
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let values = parameters(rest);
        let value = |wanted: &str| {
            let found = values
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.clone())
        };
        let named_algorithm = value("algorithm");
        let algorithm = match named_algorithm.as_deref() {
            None => ChecksumType::Md5,
            Some(name) if name.eq_ignore_ascii_case("MD5") => ChecksumType::Md5,
            Some(name) if name.eq_ignore_ascii_case("SHA-256") => ChecksumType::Sha256,
            Some(_) => return None,
        };
        let qop = value("qop");
        let has_auth = |qop: &String| {
            qop.split(',')
                .any(|kind| kind.trim().eq_ignore_ascii_case("auth"))
        };
        Some(Self {
            algorithm,
            named_algorithm,
            realm: value("realm")?,
            nonce: value("nonce")?,
            opaque: value("opaque"),
            has_qop: qop.is_some_and(|qop| has_auth(&qop)),
        })
    }

    fn answer(&self, login: &Login, path: &str, client_nonce: &str, count: u32) -> String {
        let hash = |text: String| {
            let mut sum = Checksum::new(self.algorithm).expect("GLib has it");
            sum.update(text.as_bytes());
            sum.string().expect("it was not read before").to_string()
        };
        let Self { realm, nonce, .. } = self;
        let who = hash(format!("{}:{realm}:{}", login.user, login.password));
        let what = hash(format!("POST:{path}"));
        let counted = format!("{count:08x}:{client_nonce}:auth");
        let response = match self.has_qop {
            true => hash(format!("{who}:{nonce}:{counted}:{what}")),
            false => hash(format!("{who}:{nonce}:{what}")),
        };
        let user = login.user.replace('\\', "\\\\").replace('"', "\\\"");
        let mut header = format!(
            "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{path}\", response=\"{response}\""
        );
        if let Some(algorithm) = &self.named_algorithm {
            header += &format!(", algorithm={algorithm}");
        }
        if let Some(opaque) = &self.opaque {
            header += &format!(", opaque=\"{opaque}\"");
        }
        if self.has_qop {
            header += &format!(", qop=auth, nc={count:08x}, cnonce=\"{client_nonce}\"");
        }
        header
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

    /// Answers to the challenge of RFC 7616, 3.9.1, for a POST, computed with Python's hashlib.
    #[test]
    fn challenges_of_digest_are_answered_with_the_strongest_algorithm_known() {
        let realm = "realm=\"http-auth@example.org\", qop=\"auth, auth-int\", nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
                     opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";
        let md5 = format!("Digest {realm}, algorithm=MD5");
        let sha256 = format!("Digest {realm}, algorithm=SHA-256");
        let other = format!("Digest {realm}, algorithm=SHA-512-256");
        let client_nonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let answer = |challenge: &str| {
            let challenge = Challenge::parse(challenge).expect("it is known");
            challenge.answer(&login(), "/dir/index.html", client_nonce, 1)
        };
        for (challenge, response) in [(&md5, MD5_ANSWER), (&sha256, SHA256_ANSWER)] {
            let header = answer(challenge);
            assert!(
                header.contains(&format!("response=\"{response}\"")),
                "{header}"
            );
            assert!(
                header.contains("qop=auth, nc=00000001, cnonce="),
                "{header}"
            );
            assert!(header.contains("opaque=\"FQhe/"), "{header}");
        }
        assert!(Challenge::parse(&other).is_none());
        let old = answer("digest realm=\"r\",nonce=\"n\"");
        assert!(
            old.contains(&format!("response=\"{OLD_ANSWER}\"")) && !old.contains("qop"),
            "{old}"
        );
        let client = Client::new("http://c/d", None);
        let header = |challenges: &[&String]| {
            let challenges: Vec<_> = challenges.iter().map(|it| (*it).clone()).collect();
            client.authorization(&challenges, &login(), "http://c/d?e")
        };
        let chosen = header(&[&md5, &other, &sha256]).expect("two are known");
        assert!(
            chosen.contains("algorithm=SHA-256") && chosen.contains("uri=\"/d?e\""),
            "{chosen}"
        );
        assert_eq!(header(&[&other]), None);
        // rvi/ONVIFCameraAndroid 14: a camera that takes Basic alone.
        let basic = header(&[&"Basic realm=\"gSOAP Web Service\"".to_owned()]);
        assert_eq!(basic.as_deref(), Some("Basic TXVmYXNhOkNpcmNsZSBvZiBMaWZl"));
    }

    const MD5_ANSWER: &str = "6f31d8ff6361bb27783b6ac62b999535";
    const SHA256_ANSWER: &str = "b85bfcaae378db6f6d75b1706062ac3d66fec2dd3d0082d77885522866488dac";
    const OLD_ANSWER: &str = "9cfb3c982a513c1449b00622ca4824bc";

    /// The example in 6.1.1.3 of ONVIF's programmer's guide.
    #[test]
    fn the_token_has_the_digest_of_the_example_in_the_guide() {
        let nonce = glib::base64_decode("LKqI6G/AikKCQrN0zqZFlg==");
        let digest = token_digest(&nonce, "2010-09-16T07:50:45Z", "userpassword");
        assert_eq!(digest, "tuOSpGlFlIXsozq4HFNeeGeFLEI=");
    }
}
