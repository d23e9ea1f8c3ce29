// SPDX-License-Identifier: Apache-2.0
//! The answer to a request: its client is identified, its right is checked, then it is served.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::body::AnswerBody;
use super::limits::{OpenStreams, Work, WorkThreads};
use super::request::{Head, Refusal};
use super::response::{Answer, done, json as answer_json, refuse, secure, with_type};
use super::router::{Action, Need, Route};
use super::{downloads, lists, login, shares, streams};
use crate::auth::{
    Credential, FirstUser, Link, LinkState, LoginLimiter, Passwords, Principal, Scope, Sessions,
    ShareLinks, Shown, UsersCache,
};
use crate::{Backend, Hub, NewCamera, PictureBoard, RuleEdit, RulesRequest, WebError};
use jetwatch_config::{WebConfig, WebRole};
use jetwatch_http::Peer;
use jetwatch_telemetry::recent_log;

/// The file of the page that makes the first user.
const FIRST_USER_PAGE: &str = "first.html";

/// Longest body of a request in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// Time in which a body must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// What answers requests.
pub(in super::super) struct Service {
    pub(super) config: WebConfig,
    /// `None`: there are no users.
    pub(super) users: Option<UsersCache>,
    first_user: FirstUser,
    pub(super) sessions: Sessions,
    pub(super) limiter: LoginLimiter,
    pub(super) links: ShareLinks,
    pub(super) link_limiter: LoginLimiter,
    pub(super) passwords: Passwords,
    /// Hashes of passwords that are being computed, and attempts that wait.
    pub(super) hashing: tokio::sync::Semaphore,
    pub(super) hashes_waiting: AtomicUsize,
    pub(super) hub: Arc<Hub>,
    pub(super) pictures: Arc<PictureBoard>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) threads: WorkThreads,
    pub(super) picture_streams: Arc<OpenStreams>,
    /// Streams of messages, which have places of their own: who looks at pictures takes none of them.
    pub(super) message_streams: Arc<OpenStreams>,
    /// Encoded ones, which occupy a thread each.
    pub(super) encoded_streams: Arc<OpenStreams>,
}

impl Service {
    pub(in super::super) fn new(
        config: &WebConfig,
        users: Option<UsersCache>,
        first_user: FirstUser,
        links: ShareLinks,
        hub: Arc<Hub>,
        pictures: Arc<PictureBoard>,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, WebError> {
        Ok(Self {
            config: config.clone(),
            users,
            first_user,
            sessions: Sessions::default(),
            limiter: LoginLimiter::default(),
            links,
            link_limiter: LoginLimiter::default(),
            passwords: Passwords::new()?,
            hashing: tokio::sync::Semaphore::new(1),
            hashes_waiting: AtomicUsize::new(0),
            hub,
            pictures,
            backend,
            threads: WorkThreads::default(),
            picture_streams: OpenStreams::new(streams::MAX_STREAMS),
            message_streams: OpenStreams::new(streams::MAX_STREAMS),
            encoded_streams: OpenStreams::new(streams::MAX_ENCODED),
        })
    }

    async fn answer_head(self: &Arc<Self>, head: &Head<'_>, body: Incoming, peer: &Peer) -> Answer {
        let Some(route) = Route::of(head.path) else {
            return refuse(StatusCode::NOT_FOUND, "there is no such page");
        };
        let (endpoint, name) = match route {
            Route::Asset(_) if head.path == "/" && self.first_user().is_some() => {
                return redirect(StatusCode::TEMPORARY_REDIRECT, FIRST_USER_PAGE);
            }
            Route::Asset(asset) if matches!(*head.method, Method::GET | Method::HEAD) => {
                return asset.answer(head);
            }
            Route::Asset(_) => return refuse_method("GET, HEAD"),
            Route::Api(endpoint, name) => (endpoint, name),
        };
        let need = match endpoint.need(head.method) {
            Ok(need) => need,
            Err(methods) => return refuse_method(&methods),
        };
        let link = match need {
            Need::ViewerOrLink => Link::of(head.path, head.query),
            _ => None,
        };
        let shown = link.map_or_else(|| self.shown(head), Shown::Link);
        match &shown {
            Shown::Session(session) => self.sessions.touch(session),
            Shown::Link(link) => {
                if let Some(refusal) = shares::refusal(self, head, link) {
                    return refusal;
                }
            }
            Shown::Nothing | Shown::Token(_) => {}
        }
        let principal = self.principal(&shown);
        if let Some(refusal) = refuse_right(principal.as_ref(), need) {
            return refusal;
        }
        let body = match head.changes_state() {
            true => match read_body(body).await {
                Ok(body) => body,
                Err(refusal) => return *refusal,
            },
            false => Bytes::new(),
        };
        let principal = principal.as_ref();
        let client = match principal {
            Some(principal) if !principal.name.is_empty() => principal.name.clone(),
            _ => head.address.to_string(),
        };
        let mut answer = match endpoint.action() {
            Action::Login => login::log_in(self, head, &body).await,
            Action::FirstUser => login::make_first_user(self, head, &body).await,
            Action::Logout => login::log_out(self, head),
            Action::Session => self.session(principal),
            Action::Password => login::change_password(self, head, principal, &body).await,
            Action::Live => streams::live(self, peer, &client),
            Action::Pictures => streams::pictures(self, head, peer, &client),
            Action::Picture => streams::picture(self, name).await,
            Action::Mjpeg => streams::mjpeg(self, name, peer, &client),
            Action::Stream => streams::encoded(self, name, peer, &client).await,
            Action::Events => lists::events(self, head).await,
            Action::Now => with_type("application/json", join(self.hub.open_tracks())),
            Action::History => answer_json(&json!({ "points": self.hub.points() })),
            Action::Log => answer_json(&log_lines()),
            Action::Info => self.ask(Work::Facts, |backend| Some(backend.info())).await,
            Action::Doctor => self.doctor(head),
            Action::Cameras => self.cameras(head, &body).await,
            Action::CameraPicture => match self.backend.camera_picture() {
                Some(picture) => with_type("image/jpeg", Bytes::from_owner(picture)),
                None => refuse(StatusCode::NOT_FOUND, "no stream was looked at"),
            },
            Action::Support => self.support().await,
            Action::Rules => self.rules(head, name, &body).await,
            Action::Reload => self.reload(),
            Action::Export => downloads::export(self, head, name).await,
            Action::Objects => lists::objects(self, head).await,
            Action::Facets => {
                self.ask(Work::Files, |backend| Some(backend.objects()?.facets()))
                    .await
            }
            Action::Thumbnail => {
                let objects = self.backend.objects();
                match objects.and_then(|objects| objects.picture(name)) {
                    Some(picture) => with_type("image/jpeg", picture),
                    None => refuse(StatusCode::NOT_FOUND, "this object has no picture"),
                }
            }
            Action::Review => lists::review(self, &body).await,
            Action::Activity => lists::activity(self, head).await,
            Action::Media => lists::media(self, head).await,
            Action::Snapshot => downloads::part(self, head, name, false).await,
            Action::Clip => downloads::part(self, head, name, true).await,
            Action::Pin => lists::pin(self, name, &body).await,
            Action::Share => shares::make(self, head, &client, &body).await,
            Action::Revoke => shares::revoke(self, head, &client).await,
        };
        if matches!(shown, Shown::Link(_)) {
            answer = shares::given(head, answer);
        }
        // What goes on ends with the right to it: with the session, the user or the token.
        let service = Arc::clone(self);
        answer.body_mut().end_unless(move || {
            let principal = service.principal(&shown);
            refuse_right(principal.as_ref(), need).is_none()
        });
        answer
    }

    /// What makes the first user, where there is none yet.
    pub(super) fn first_user(&self) -> Option<&FirstUser> {
        if !self.first_user.is_open() {
            return None;
        }
        let cache = self.users.as_ref()?;
        if cache.users().users().is_empty() {
            return Some(&self.first_user);
        }
        // `jetwatch user add` was faster.
        self.first_user.close();
        None
    }

    /// By what a request shows who makes it.
    fn shown(&self, head: &Head<'_>) -> Shown {
        if self.users.is_none() {
            return Shown::Nothing;
        }
        if let Some(token) = head.bearer() {
            return Shown::Token(token.to_owned());
        }
        let session = head.cookie(login::cookie_name(head.is_https));
        session.map_or(Shown::Nothing, |session| Shown::Session(session.to_owned()))
    }

    /// Whose token or session that is; `None`: no one knows.
    fn principal(&self, shown: &Shown) -> Option<Principal> {
        if let Shown::Link(link) = shown {
            let is_valid = self.links.state(link, SystemTime::now()) == LinkState::Valid;
            return is_valid.then(|| Principal {
                name: String::new(),
                role: WebRole::Viewer,
                only_pictures: false,
                by: Credential::Link,
            });
        }
        let Some(cache) = &self.users else {
            return Some(Principal {
                name: String::new(),
                role: self.config.without_users,
                only_pictures: false,
                by: Credential::Local,
            });
        };
        let users = cache.users();
        match shown {
            Shown::Nothing | Shown::Link(_) => None,
            Shown::Token(token) => {
                let (name, scope) = users.token(token)?;
                Some(Principal {
                    name: name.to_owned(),
                    role: match scope {
                        Scope::Control => WebRole::Operator,
                        Scope::Pictures | Scope::Read => WebRole::Viewer,
                    },
                    only_pictures: scope == Scope::Pictures,
                    by: Credential::Token,
                })
            }
            Shown::Session(session) => {
                let (name, password) = self.sessions.find(session)?;
                let (role, now) = users.credentials(&name)?;
                (now == password).then(|| Principal {
                    name: name.clone(),
                    role,
                    only_pictures: false,
                    by: Credential::Session,
                })
            }
        }
    }

    fn session(&self, principal: Option<&Principal>) -> Answer {
        let Some(principal) = principal else {
            let mut answer = refuse(StatusCode::UNAUTHORIZED, "log in first");
            *answer.body_mut() = AnswerBody::whole(json!({"has_users": true}).to_string());
            return answer;
        };
        answer_json(&json!({
            "has_users": self.users.is_some(),
            "name": principal.name,
            "role": principal.role.word(),
            "by_session": principal.by == Credential::Session,
        }))
    }

    /// The answer of the daemon, from a thread that may block.
    pub(super) async fn ask(
        self: &Arc<Self>,
        kind: Work,
        question: impl FnOnce(&dyn Backend) -> Option<Value> + Send + 'static,
    ) -> Answer {
        let service = Arc::clone(self);
        let answered = self.threads.run(kind, move || question(&*service.backend));
        match answered.await {
            Ok(Some(value)) => answer_json(&value),
            Ok(None) => refuse(StatusCode::NOT_FOUND, "there is no such source or item"),
            Err(refusal) => *refusal,
        }
    }

    async fn support(self: &Arc<Self>) -> Answer {
        let mut answer = self
            .ask(Work::Facts, |backend| {
                let mut bundle = backend.support_bundle();
                bundle["log"] = log_lines();
                Some(bundle)
            })
            .await;
        let name = HeaderValue::from_static("attachment; filename=\"jetwatch-support.json\"");
        answer.headers_mut().insert("content-disposition", name);
        answer
    }

    async fn rules(self: &Arc<Self>, head: &Head<'_>, source: &str, body: &Bytes) -> Answer {
        let source = source.to_owned();
        let edit = match *head.method {
            Method::POST => RuleEdit::Check,
            Method::PUT => RuleEdit::Save,
            _ => {
                let rules = self.ask(Work::Facts, move |backend| backend.rules(&source));
                return rules.await;
            }
        };
        let rules: RulesRequest = match parse(body) {
            Ok(rules) => rules,
            Err(refusal) => return *refusal,
        };
        self.ask(Work::Edits, move |backend| {
            backend.rules(&source)?;
            let outcome = backend.edit_rules(&source, &rules, edit);
            serde_json::to_value(outcome).ok()
        })
        .await
    }

    fn reload(&self) -> Answer {
        match self.backend.request_reload() {
            true => done(),
            false => refuse(
                StatusCode::CONFLICT,
                "this run has no configuration file to read again",
            ),
        }
    }

    /// Begins a search for cameras or a test of one, returns what they have found so far, or adds one to the configuration.
    async fn cameras(self: &Arc<Self>, head: &Head<'_>, body: &Bytes) -> Answer {
        match *head.method {
            Method::POST => {
                let started = match parse(body) {
                    Ok(job) => self.backend.start_camera_job(job),
                    Err(refusal) => return *refusal,
                };
                if let Err(reason) = started {
                    return refuse(StatusCode::CONFLICT, &reason);
                }
            }
            Method::PUT => {
                let camera: NewCamera = match parse(body) {
                    Ok(camera) => camera,
                    Err(refusal) => return *refusal,
                };
                let added = self.ask(Work::Edits, move |backend| {
                    serde_json::to_value(backend.add_camera(&camera)).ok()
                });
                return added.await;
            }
            _ => {}
        }
        answer_json(&self.backend.cameras())
    }

    /// Begins checks of the installation, or returns what they have found so far.
    fn doctor(&self, head: &Head<'_>) -> Answer {
        if *head.method == Method::POST
            && let Err(reason) = self.backend.start_checks()
        {
            return refuse(StatusCode::CONFLICT, &reason);
        }
        answer_json(&self.backend.checks())
    }
}

impl jetwatch_http::Service for Service {
    type Body = AnswerBody;

    async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: Peer) -> Answer {
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, ());
        let (mut answer, is_https) = match Head::read(&request, &peer, &self.config) {
            Ok(head) => (self.answer_head(&head, body, &peer).await, head.is_https),
            Err(refusal) => (refused(refusal, request.uri().path()), peer.is_tls),
        };
        if *request.method() == Method::HEAD && answer.status() == StatusCode::OK {
            *answer.body_mut() = AnswerBody::Whole(None);
        }
        secure(&mut answer, is_https);
        answer
    }
}

fn refused(refusal: Refusal, path: &str) -> Answer {
    match refusal {
        Refusal::Path => refuse(StatusCode::NOT_FOUND, "there is no such page"),
        Refusal::Redirect => {
            let last = path.rsplit('/').next().unwrap_or_default();
            redirect(StatusCode::PERMANENT_REDIRECT, &format!("{last}/"))
        }
        Refusal::Host => refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "this page is not known by that name; add the name to web.hosts",
        ),
        Refusal::Origin => refuse(StatusCode::FORBIDDEN, "the request comes from another site"),
    }
}

/// To a relative address, so that it holds behind any proxy.
fn redirect(status: StatusCode, target: &str) -> Answer {
    let mut answer = done();
    *answer.status_mut() = status;
    if let Ok(target) = HeaderValue::from_str(target) {
        answer.headers_mut().insert(LOCATION, target);
    }
    answer
}

fn refuse_method(methods: &str) -> Answer {
    let mut answer = refuse(
        StatusCode::METHOD_NOT_ALLOWED,
        "this method is not answered",
    );
    if let Ok(methods) = HeaderValue::from_str(methods) {
        answer.headers_mut().insert(ALLOW, methods);
    }
    answer
}

fn refuse_right(principal: Option<&Principal>, need: Need) -> Option<Answer> {
    let is_allowed = |principal: &Principal| match need {
        Need::Nothing | Need::Pictures => true,
        Need::User => principal.by == Credential::Session,
        Need::ViewerOrLink => !principal.only_pictures,
        Need::Role(role) => {
            principal.role >= role && !principal.only_pictures && principal.by != Credential::Link
        }
    };
    match (principal, need) {
        (_, Need::Nothing) => None,
        (None, _) => {
            let mut answer = refuse(StatusCode::UNAUTHORIZED, "log in first");
            let scheme = HeaderValue::from_static("Bearer realm=\"jetwatch\"");
            answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            Some(answer)
        }
        (Some(principal), _) if is_allowed(principal) => None,
        (Some(_), _) => Some(refuse(
            StatusCode::FORBIDDEN,
            "your role does not allow this",
        )),
    }
}

async fn read_body(body: Incoming) -> Result<Bytes, Box<Answer>> {
    let limited = Limited::new(body, MAX_BODY_BYTES);
    let collected = tokio::time::timeout(BODY_TIMEOUT, limited.collect()).await;
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err(Box::new(refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is too long, or was cut off",
        ))),
        Err(_) => Err(Box::new(refuse(
            StatusCode::REQUEST_TIMEOUT,
            "the body did not arrive in time",
        ))),
    }
}

/// A body of JSON.
pub(super) fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Box<Answer>> {
    serde_json::from_slice(body).map_err(|error| {
        let reason = format!("the body is not what this path takes: {error}");
        Box::new(refuse(StatusCode::BAD_REQUEST, &reason))
    })
}

/// JSON values as a list.
fn join(values: Vec<Bytes>) -> String {
    let texts: Vec<_> = values
        .iter()
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .collect();
    format!("[{}]", texts.join(","))
}

/// Warnings and errors, the newest last.
fn log_lines() -> Value {
    let lines = recent_log::lines().into_iter().map(|line| {
        json!({
            "at": jiff::Timestamp::try_from(line.at).map_or_else(|_| String::new(), |at| at.to_string()),
            "level": line.level.as_str().to_ascii_lowercase(),
            "source": line.source,
            "text": line.text,
        })
    });
    Value::Array(lines.collect())
}

pub(super) fn failed() -> Answer {
    refuse(StatusCode::SERVICE_UNAVAILABLE, "the daemon ends")
}
