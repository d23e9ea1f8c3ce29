// SPDX-License-Identifier: Apache-2.0
//! Events of a camera, by a pull point (ONVIF Core, 9.1): the camera keeps messages for a subscription, which asks for them. Blocks: its
//! caller has a thread for it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use roxmltree::Node;

use crate::camera::{client, services};
use crate::connection::{Connect, Interrupt};
use crate::motion::{self, Motion};
use crate::soap::{Addressing, Client, Request, WSA};
use crate::{Login, OnvifError, address, xml};

const EVENTS: &str = "http://www.onvif.org/ver10/events/wsdl";
/// WS-BaseNotification, whose requests end and prolong a subscription.
const NOTIFICATION: &str = "http://docs.oasis-open.org/wsn/b-2";

/// Time for which a subscription is asked for. One that was not ended, as after a power cut, takes one of the camera's few places for
/// so long.
const LEASE_S: i64 = 120;

/// Length of a subscription whose camera does not say it, or says something impossible: the default of the standard.
const USUAL_LEASE: Duration = Duration::from_secs(60);

/// Time for which the camera waits for a message.
const POLL_S: u64 = 2;

/// A subscription to all events of a camera. Ends by [`close`](Self::close): cameras have few places for them.
pub struct Subscription {
    /// The device service of the camera.
    device: String,
    login: Option<Login>,
    ca_file: Option<PathBuf>,
    interrupt: Interrupt,
    client: Client,
    service: String,
    /// Its address: as the camera gives it, and as it is reached from here.
    given: String,
    reached: String,
    /// Elements that the camera wants to have in each request.
    parameters: String,
    renew_at: Instant,
    /// A request was answered at `reached`.
    is_reached: bool,
}

impl Subscription {
    /// Subscribes to the events of the camera whose device service is at `device`; `ca_file` as for
    /// [`Camera::describe`](crate::Camera::describe). `interrupt` ends a [`pull`](Self::pull).
    ///
    /// # Errors
    /// The camera does not answer, has a certificate that is not trusted, refuses the login or the subscription, or has no events.
    pub fn open(
        device: &str,
        login: Option<&Login>,
        ca_file: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<Self, OnvifError> {
        let ca_file = ca_file.map(Path::to_owned);
        let connect = Connect {
            ca_file: ca_file.clone(),
            interrupt: interrupt.clone(),
        };
        let (client, _) = client(device, login, connect)?;
        let service = services(&client, device)?.events;
        let service = service.ok_or_else(|| OnvifError::NoEvents {
            address: device.to_owned(),
        })?;
        let create = |body| {
            let request = Request {
                name: "CreatePullPointSubscription",
                namespace: EVENTS,
                body,
                addressing: Some(Addressing {
                    action: "http://www.onvif.org/ver10/events/wsdl/EventPortType/CreatePullPointSubscriptionRequest",
                    to: &service,
                    parameters: "",
                }),
                ..Request::default()
            };
            client.call(&service, request)
        };
        let lease = format!("<InitialTerminationTime>PT{LEASE_S}S</InitialTerminationTime>");
        let answer = match create(lease.as_str()) {
            // Some cameras take no length of time.
            Err(OnvifError::Fault { .. } | OnvifError::Answer { .. }) => create("")?,
            answer => answer?,
        };
        let document = xml::parse(&answer).expect("it was parsed before");
        let reference = xml::first(document.root(), &["SubscriptionReference"]);
        let given = reference.and_then(|reference| xml::text(reference, &["Address"]));
        // An address that is not one of HTTP is a name for the subscription, which is asked for at the service.
        let reached = given.filter(|given| given.starts_with("http"));
        let parameters = reference
            .and_then(|reference| xml::first(reference, &["ReferenceParameters"]))
            .map(|found| found.children().filter(Node::is_element).map(parameter));
        Ok(Self {
            device: device.to_owned(),
            login: login.cloned(),
            ca_file,
            interrupt: interrupt.clone(),
            given: given.unwrap_or(&service).to_owned(),
            reached: reached.map_or_else(|| service.clone(), |at| address::service(at, &service)),
            parameters: parameters.map(Iterator::collect).unwrap_or_default(),
            renew_at: Instant::now() + lease_of(document.root()) / 2,
            is_reached: false,
            client,
            service,
        })
    }

    /// Waits about two seconds for messages; returns what they say of motion, which may be nothing. Prolongs the subscription in time.
    ///
    /// # Errors
    /// The camera does not answer, does not know the subscription any more, or the wait was ended.
    pub fn pull(&mut self) -> Result<Vec<Motion>, OnvifError> {
        if Instant::now() >= self.renew_at {
            self.renew()?;
        }
        let mut pulled = self.pull_at(&self.reached);
        if matches!(pulled, Err(OnvifError::NoAnswer { .. })) && !self.interrupt.is_requested() {
            // Some cameras give a port that nothing listens at; others close an idle connection just now.
            if !self.is_reached {
                self.reached = address::at_host_of(&self.reached, &self.service);
            }
            pulled = self.pull_at(&self.reached);
        }
        let answer = pulled?;
        self.is_reached = true;
        let document = xml::parse(&answer).expect("it was parsed before");
        Ok(motion::messages(document.root()))
    }

    fn pull_at(&self, url: &str) -> Result<String, OnvifError> {
        let body = format!("<Timeout>PT{POLL_S}S</Timeout><MessageLimit>100</MessageLimit>");
        let action =
            "http://www.onvif.org/ver10/events/wsdl/PullPointSubscription/PullMessagesRequest";
        let request = self.request("PullMessages", EVENTS, action, &body);
        let waits = Duration::from_secs(POLL_S);
        self.client.call(url, Request { waits, ..request })
    }

    /// Prolongs the subscription: by a length of time, else to a time of the camera's clock, else by another subscription. Cameras differ
    /// in which of them they take, and in whether they prolong it themselves at each pull.
    fn renew(&mut self) -> Result<(), OnvifError> {
        let end = jiff::Timestamp::now().as_second() + self.client.skew_s.get() + LEASE_S;
        let end = jiff::Timestamp::from_second(end).unwrap_or_default();
        for time in [format!("PT{LEASE_S}S"), end.to_string()] {
            let body = format!("<TerminationTime>{time}</TerminationTime>");
            let action = "http://docs.oasis-open.org/wsn/bw-2/SubscriptionManager/RenewRequest";
            let request = self.request("Renew", NOTIFICATION, action, &body);
            match self.client.call(&self.reached, request) {
                Ok(answer) => {
                    let document = xml::parse(&answer).expect("it was parsed before");
                    self.renew_at = Instant::now() + lease_of(document.root()) / 2;
                    return Ok(());
                }
                Err(error @ OnvifError::NoAnswer { .. }) => return Err(error),
                Err(error) => log::debug!("{error}"),
            }
        }
        self.close();
        let (login, ca_file) = (self.login.as_ref(), self.ca_file.as_deref());
        *self = Self::open(&self.device, login, ca_file, &self.interrupt)?;
        Ok(())
    }

    /// Ends the subscription at the camera, if it answers.
    pub fn close(&self) {
        let action = "http://docs.oasis-open.org/wsn/bw-2/SubscriptionManager/UnsubscribeRequest";
        let request = self.request("Unsubscribe", NOTIFICATION, action, "");
        if let Err(error) = self.client.call(&self.reached, request) {
            log::debug!("{error}");
        }
    }

    fn request<'a>(
        &'a self,
        name: &'static str,
        namespace: &'static str,
        action: &'static str,
        body: &'a str,
    ) -> Request<'a> {
        Request {
            name,
            namespace,
            body,
            addressing: Some(Addressing {
                action,
                to: &self.given,
                parameters: &self.parameters,
            }),
            ..Request::default()
        }
    }
}

/// How long a subscription lasts, by an answer of the camera: both times are of its own clock.
fn lease_of(answer: Node<'_, '_>) -> Duration {
    let time = |name| xml::text(answer, &[name])?.parse::<jiff::Timestamp>().ok();
    let lease = time("TerminationTime").zip(time("CurrentTime"));
    let lease = lease.and_then(|(end, now)| Duration::try_from(end.duration_since(now)).ok());
    lease
        .filter(|lease| !lease.is_zero())
        .unwrap_or(USUAL_LEASE)
}

/// An element of a reference as a header of a request.
fn parameter(found: Node<'_, '_>) -> String {
    format!(
        "<p:{0} xmlns:p=\"{1}\" xmlns:a=\"{WSA}\" a:IsReferenceParameter=\"true\">{2}</p:{0}>",
        found.tag_name().name(),
        xml::escape(found.tag_name().namespace().unwrap_or_default()),
        xml::escape(found.text().unwrap_or_default()),
    )
}
