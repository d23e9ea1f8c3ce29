// SPDX-License-Identifier: Apache-2.0
//! Requests to a service of a camera: SOAP 1.2 over HTTP, with the credentials that the camera accepts.
//!
//! ONVIF has two ways to log in. The older one is in the message (WS-Security's user name token); it depends on the camera's clock. The
//! newer one is Digest of HTTP (RFC 7616), the only one of cameras that are set so. Requests begin with the older one, which all
//! cameras know that know only one, and end with what the camera asks for.

use std::cell::{Cell, RefCell};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gio::glib::{self, Checksum, ChecksumType};
use jetwatch_source::digest::{Challenge, Login};
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;

use crate::connection::{Connect, Interrupt};
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

/// Addresses of a message, which requests for events have.
pub(crate) const WSA: &str = "http://www.w3.org/2005/08/addressing";

/// A request without parameters but those in `body`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Request<'a> {
    /// Name of the operation.
    pub(crate) name: &'static str,
    /// Namespace of the service.
    pub(crate) namespace: &'static str,
    /// The elements within that of the operation, which are in the namespace of the service.
    pub(crate) body: &'a str,
    /// What WS-Addressing says of it; `None` where the service needs none.
    pub(crate) addressing: Option<Addressing<'a>>,
    /// Time that the camera may take beyond the usual: it waits for a message, and an [`Interrupt`](crate::Interrupt) ends it.
    pub(crate) waits: Duration,
    /// It is made without the login.
    pub(crate) is_open: bool,
}

/// Headers of WS-Addressing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addressing<'a> {
    /// The name of what is asked for.
    pub(crate) action: &'static str,
    /// The address as the camera gives it, which is not always the one that it is reached by.
    pub(crate) to: &'a str,
    /// Elements of the camera that it wants to have back.
    pub(crate) parameters: &'a str,
}

/// Asks the services of one camera.
pub(crate) struct Client {
    agent: Agent,
    interrupt: Interrupt,
    /// The address of its device service, for errors.
    address: String,
    login: Option<Login>,
    /// How much the camera's clock is ahead of this machine's.
    pub(crate) skew_s: Cell<i64>,
    /// Digests of HTTP after each other are counted.
    requests: Cell<u32>,
    /// What the camera asked for, so that further requests begin with it: a token that it refuses counts as an attempt to log in.
    challenges: RefCell<Vec<String>>,
}

/// The answer to one attempt.
struct Answer {
    status: u16,
    /// Values of `WWW-Authenticate`.
    challenges: Vec<String>,
    text: String,
}

impl Client {
    pub(crate) fn new(address: &str, login: Option<Login>, connect: Connect) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(3)
            // A camera is in a network of its own, not behind the proxy to the world.
            .proxy(None)
            .https_only(address.starts_with("https:"))
            .user_agent(concat!("jetwatch/", env!("CARGO_PKG_VERSION")));
        let interrupt = connect.interrupt.clone();
        let agent = Agent::with_parts(config.build(), connect, DefaultResolver::default());
        Self {
            agent,
            interrupt,
            address: address.to_owned(),
            login,
            skew_s: Cell::new(0),
            requests: Cell::new(0),
            challenges: RefCell::default(),
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
        let Some(login) = self.login.as_ref().filter(|_| !request.is_open) else {
            return self.accept(request, self.post(url, request, None, None)?);
        };
        let known = self.authorization(&self.challenges.borrow(), login, url);
        let token = known.is_none().then(|| self.token(login));
        let mut answer = self.post(url, request, token.as_deref(), known.as_deref())?;
        if answer.status == 401
            && let Some(header) = self.authorization(&answer.challenges, login, url)
        {
            self.challenges.replace(answer.challenges);
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
            addressing,
            waits,
            ..
        } = request;
        let headers = [
            addressing.map(|it| it.headers()).unwrap_or_default(),
            token.unwrap_or_default().to_owned(),
        ]
        .concat();
        let header = match headers.is_empty() {
            true => String::new(),
            false => format!("<s:Header>{headers}</s:Header>"),
        };
        let envelope = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\">{header}<s:Body>\
             <{name} xmlns=\"{namespace}\">{body}</{name}></s:Body></s:Envelope>"
        );
        let action = addressing.map_or_else(
            || format!("{namespace}/{name}"),
            |addressing| addressing.action.to_owned(),
        );
        let kind = format!("application/soap+xml; charset=utf-8; action=\"{action}\"");
        let timeout = TIMEOUT + waits;
        let sent = self.agent.post(url).config();
        let sent = sent.timeout_global(Some(timeout)).build();
        let mut sent = sent.header("Content-Type", kind);
        if let Some(authorization) = authorization {
            sent = sent.header("Authorization", authorization);
        }
        let no_answer = |error: ureq::Error| {
            let address = self.address.clone();
            let reason = match error {
                ureq::Error::Timeout(_) => format!("none within {} s", timeout.as_secs()),
                ureq::Error::HostNotFound => "the host has no address".to_owned(),
                // Of its certificate.
                ureq::Error::Other(error) => {
                    let reason = error.to_string();
                    return OnvifError::Tls { address, reason };
                }
                error => error.to_string(),
            };
            OnvifError::NoAnswer { address, reason }
        };
        let send = || sent.send(envelope.as_bytes()).map_err(no_answer);
        let response = match waits.is_zero() {
            true => send()?,
            false => self.interrupt.waiting(send).unwrap_or_else(|| {
                Err(OnvifError::NoAnswer {
                    address: self.address.clone(),
                    reason: "the wait was ended".to_owned(),
                })
            })?,
        };
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
        let best = Challenge::best(challenges.iter().map(|it| Challenge::parse(it)))?;
        self.requests.set(self.requests.get() + 1);
        best.answer(login, "POST", path_of(url), self.requests.get())
    }
}

impl Addressing<'_> {
    fn headers(&self) -> String {
        let mut id = random();
        // The version of random identities, which some cameras check.
        (id[6], id[8]) = (id[6] & 0x0f | 0x40, id[8] & 0x3f | 0x80);
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let id = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ]
        .join("-");
        format!(
            "<a:Action xmlns:a=\"{WSA}\">{}</a:Action><a:MessageID xmlns:a=\"{WSA}\">urn:uuid:{id}</a:MessageID>\
             <a:To xmlns:a=\"{WSA}\">{}</a:To>{}",
            self.action,
            xml::escape(self.to),
            self.parameters,
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_answer_the_strongest_challenge_with_their_path() {
        let client = Client::new("http://c/d", None, Connect::default());
        let login = Login {
            user: "Mufasa".to_owned(),
            password: "Circle of Life".to_owned(),
        };
        let digest =
            |algorithm: &&str| format!("Digest realm=\"r\", nonce=\"n\", algorithm={algorithm}");
        let header = |algorithms: &[&str]| {
            let challenges: Vec<_> = algorithms.iter().map(digest).collect();
            client.authorization(&challenges, &login, "http://c/d?e")
        };
        let chosen = header(&["MD5", "SHA-512-256", "SHA-256"]).expect("two are known");
        assert!(
            chosen.contains("algorithm=SHA-256") && chosen.contains("uri=\"/d?e\""),
            "{chosen}"
        );
        assert_eq!(header(&["SHA-512-256"]), None);
    }

    /// The example in 6.1.1.3 of ONVIF's programmer's guide.
    #[test]
    fn the_token_has_the_digest_of_the_example_in_the_guide() {
        let nonce = glib::base64_decode("LKqI6G/AikKCQrN0zqZFlg==");
        let digest = token_digest(&nonce, "2010-09-16T07:50:45Z", "userpassword");
        assert_eq!(digest, "tuOSpGlFlIXsozq4HFNeeGeFLEI=");
    }
}
