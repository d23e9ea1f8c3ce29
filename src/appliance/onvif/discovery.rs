// SPDX-License-Identifier: Apache-2.0
//! WS-Discovery: a question to all devices of a network over UDP, which each of them answers. Packets get lost, so it is asked several
//! times; and some cameras answer only to a question for their type, others only to one without a type, so that both are asked.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use percent_encoding::percent_decode_str;
use rustix::net::sockopt;

use crate::soap::random;
use crate::{address, xml};

/// The port of WS-Discovery.
pub const PORT: u16 = 3702;

/// The group that all devices listen to.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 255, 250);

/// When each question is asked, after the first time.
const ROUNDS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// Where Linux lists network interfaces.
const INTERFACES: &str = "/sys/class/net";

/// Flags of an interface: in use; takes packets to groups.
const IFF_UP: u32 = 0x1;
const IFF_MULTICAST: u32 = 0x1000;

/// A camera that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The address of its device service, as it is reached from here.
    pub address: String,
    /// Its name, as set by its owner or its maker.
    pub name: Option<String>,
    /// Its model.
    pub hardware: Option<String>,
}

/// Cameras in the networks of this machine that answer within `wait`, by their addresses.
///
/// # Errors
/// No network can be asked.
pub fn discover(wait: Duration) -> io::Result<Vec<Found>> {
    let mut sockets = Vec::new();
    let mut reason = io::Error::new(
        ErrorKind::NotFound,
        "no network interface takes packets to groups",
    );
    for index in interfaces(Path::new(INTERFACES)) {
        match group_socket(index) {
            Ok(socket) => sockets.push(socket),
            Err(error) => reason = error,
        }
    }
    if sockets.is_empty() {
        return Err(reason);
    }
    ask(&sockets, SocketAddr::from((GROUP, PORT)), wait, usize::MAX)
}

/// The camera that listens at `target`, asked directly, as a network that does not pass on packets to groups needs it. Returns as soon
/// as it has answered.
///
/// # Errors
/// It cannot be asked.
pub fn probe(target: SocketAddr, wait: Duration) -> io::Result<Vec<Found>> {
    let from: IpAddr = match target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    ask(&[UdpSocket::bind((from, 0))?], target, wait, 1)
}

/// Indices of the interfaces that are in use and take packets to groups. Asking each of them is what the system does not do: it
/// would choose one, or none where there is no default route.
fn interfaces(folder: &Path) -> Vec<u32> {
    let read =
        |path: &Path, name: &str| Some(fs::read_to_string(path.join(name)).ok()?.trim().to_owned());
    let usable = |path: &Path| {
        let flags = u32::from_str_radix(read(path, "flags")?.strip_prefix("0x")?, 16).ok()?;
        let is_usable = flags & IFF_UP != 0 && flags & IFF_MULTICAST != 0;
        read(path, "ifindex")?.parse().ok().filter(|_| is_usable)
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<u32> = entries.filter_map(|entry| usable(&entry.path())).collect();
    found.sort_unstable();
    found
}

fn group_socket(interface: u32) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    sockopt::set_ip_multicast_if_with_ifindex(&socket, &GROUP, &Ipv4Addr::UNSPECIFIED, interface)?;
    Ok(socket)
}

/// The cameras that answer at `target` within `wait`; fewer time is needed for `enough` of them.
fn ask(
    sockets: &[UdpSocket],
    target: SocketAddr,
    wait: Duration,
    enough: usize,
) -> io::Result<Vec<Found>> {
    let started = Instant::now();
    let mut by_device = BTreeMap::new();
    let mut buffer = vec![0; 64 << 10];
    for (round, at) in ROUNDS.iter().enumerate() {
        let sent = send_questions(sockets, target);
        if by_device.is_empty() {
            sent?;
        }
        let next = ROUNDS.get(round + 1).map_or(wait, |next| wait.min(*next));
        let until = started + next.max(*at);
        while Instant::now() < until && by_device.len() < enough {
            for socket in sockets {
                receive(socket, &mut buffer, until, sockets.len(), &mut by_device);
            }
        }
        if next == wait || by_device.len() >= enough {
            break;
        }
    }
    let mut found: Vec<Found> = by_device.into_values().collect();
    found.sort_by(|a, b| a.address.cmp(&b.address));
    found.dedup_by(|a, b| a.address == b.address);
    Ok(found)
}

/// Asks through each socket with and without a type of device.
fn send_questions(sockets: &[UdpSocket], target: SocketAddr) -> io::Result<()> {
    let mut sent = Err(ErrorKind::NotConnected.into());
    for socket in sockets {
        for types in [NETWORK_VIDEO, ""] {
            let question = question(types, &message_id());
            match socket.send_to(question.as_bytes(), target) {
                Ok(_) => sent = Ok(()),
                // An interface without an address or without a network; others may have one.
                Err(error) => sent = sent.or(Err(error)),
            }
        }
    }
    sent
}

/// Takes what has arrived at `socket`, and returns after the first cameras. Waits until `until`, with several sockets for a short part.
fn receive(
    socket: &UdpSocket,
    buffer: &mut [u8],
    until: Instant,
    sockets: usize,
    by_device: &mut BTreeMap<String, Found>,
) {
    const SHARE: Duration = Duration::from_millis(20);
    let left = until.saturating_duration_since(Instant::now());
    let timeout = if sockets > 1 { left.min(SHARE) } else { left };
    if timeout.is_zero() || socket.set_read_timeout(Some(timeout)).is_err() {
        return;
    }
    match socket.recv_from(buffer) {
        Ok((len, sender)) => {
            for (device, found) in read_answer(&buffer[..len], sender.ip()) {
                by_device.entry(device).or_insert(found);
            }
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
        // Such as that nothing listens there; others may answer.
        Err(error) => log::debug!("no answer to a probe: {error}"),
    }
}

/// A question's type for cameras.
const NETWORK_VIDEO: &str = "<d:Types xmlns:dn=\"http://www.onvif.org/ver10/network/wsdl\">dn:NetworkVideoTransmitter</d:Types>";

fn question(types: &str, message_id: &str) -> String {
    const ADDRESSING: &str = "http://schemas.xmlsoap.org/ws/2004/08/addressing";
    const DISCOVERY: &str = "http://schemas.xmlsoap.org/ws/2005/04/discovery";
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><e:Envelope xmlns:e=\"http://www.w3.org/2003/05/soap-envelope\" xmlns:w=\"{ADDRESSING}\" \
         xmlns:d=\"{DISCOVERY}\"><e:Header><w:MessageID>uuid:{message_id}</w:MessageID><w:To e:mustUnderstand=\"true\">\
         urn:schemas-xmlsoap-org:ws:2005:04:discovery</w:To><w:Action e:mustUnderstand=\"true\">{DISCOVERY}/Probe</w:Action></e:Header>\
         <e:Body><d:Probe>{types}</d:Probe></e:Body></e:Envelope>"
    )
}

/// Another for each message, as cameras answer to an identifier once.
fn message_id() -> String {
    let digits: String = random().iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

/// The cameras that an answer names, each with the identifier of its device.
fn read_answer(packet: &[u8], sender: IpAddr) -> Vec<(String, Found)> {
    let text = xml::text_of(packet);
    let Ok(document) = xml::parse(&text) else {
        log::debug!("{sender} answered with something else than XML");
        return Vec::new();
    };
    let cameras = xml::all(document.root(), "ProbeMatch").filter_map(|found| {
        let scopes: Vec<&str> = xml::text(found, &["Scopes"])
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let types = xml::text(found, &["Types"]).unwrap_or_default();
        // Printers and computers answer to questions without a type, too.
        let is_camera = types.contains("NetworkVideoTransmitter")
            || scopes.iter().any(|scope| scope.starts_with("onvif://"));
        let announced: Vec<&str> = xml::text(found, &["XAddrs"])?.split_whitespace().collect();
        let address = address::best_of(&announced, sender).filter(|_| is_camera)?;
        let scope = |kind: &str| {
            let value = scopes.iter().find_map(|scope| scope.split_once(kind))?.1;
            let value = percent_decode_str(value)
                .decode_utf8_lossy()
                .trim()
                .to_owned();
            (!value.is_empty()).then_some(value)
        };
        let device = xml::text(found, &["EndpointReference", "Address"])
            .unwrap_or(&address)
            .to_owned();
        let found = Found {
            address,
            name: scope("onvif.org/name/"),
            hardware: scope("onvif.org/hardware/"),
        };
        Some((device, found))
    });
    cameras.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// An answer as cameras write it; prefixes and what surrounds it differ.
    fn answer(types: &str, scopes: &str, addresses: &str) -> String {
        format!(
            "<SOAP-ENV:Envelope xmlns:SOAP-ENV=\"http://www.w3.org/2003/05/soap-envelope\" \
             xmlns:wsa=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" xmlns:d=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\">\
             <SOAP-ENV:Body><d:ProbeMatches><d:ProbeMatch><wsa:EndpointReference><wsa:Address>urn:uuid:1</wsa:Address>\
             </wsa:EndpointReference><d:Types>{types}</d:Types><d:Scopes>{scopes}</d:Scopes><d:XAddrs>{addresses}</d:XAddrs>\
             </d:ProbeMatch></d:ProbeMatches></SOAP-ENV:Body></SOAP-ENV:Envelope>\n\0"
        )
    }

    #[test]
    fn cameras_are_told_from_other_devices_and_named_by_their_scopes() {
        let scopes = "onvif://www.onvif.org/Profile/Streaming onvif://www.onvif.org/name/Front%20door onvif://www.onvif.org/hardware/DS-2CD";
        let found = |types, scopes, addresses| {
            read_answer(answer(types, scopes, addresses).as_bytes(), SENDER)
        };
        let camera = Found {
            address: "http://127.0.0.1:8000/onvif/device_service".to_owned(),
            name: Some("Front door".to_owned()),
            hardware: Some("DS-2CD".to_owned()),
        };
        let one = found(
            "dn:NetworkVideoTransmitter",
            scopes,
            "http://192.168.1.64:8000/onvif/device_service",
        );
        assert_eq!(one, [("urn:uuid:1".to_owned(), camera.clone())]);
        let untyped = found(
            "tds:Device",
            scopes,
            "http://127.0.0.1:8000/onvif/device_service",
        );
        assert_eq!(untyped[0].1, camera);
        assert_eq!(
            found("wsdp:Device pub:Computer", "", "http://192.168.1.3:5357/x"),
            []
        );
        assert_eq!(found("dn:NetworkVideoTransmitter", "", ""), []);
        assert_eq!(read_answer(b"\xff\0<a", SENDER), []);
    }

    /// openhab/openhab-addons 9022 (cameras that answer to one kind of question), agsh/onvif 100 (packets that get lost).
    #[test]
    fn a_camera_that_answers_to_few_questions_is_found_once() {
        for wanted in [NETWORK_VIDEO, "<d:Probe></d:Probe>"] {
            let camera = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let target = camera.local_addr().expect("it is bound");
            let asked = thread::spawn(move || {
                let mut ids = HashSet::new();
                let mut buffer = [0; 4096];
                let mut fitting = 0;
                // The first fitting question and its answer get lost; the next is answered twice.
                while fitting < 2 {
                    let (len, from) = camera.recv_from(&mut buffer).expect("a question");
                    let question = String::from_utf8_lossy(&buffer[..len]).into_owned();
                    let document = xml::parse(&question).expect("it is XML");
                    let id = xml::text(document.root(), &["MessageID"]).expect("an identifier");
                    assert!(ids.insert(id.to_owned()), "{id} again");
                    fitting += usize::from(question.contains(wanted));
                    if fitting == 2 {
                        let scopes = "onvif://www.onvif.org/name/A";
                        let answer = answer(
                            "dn:NetworkVideoTransmitter",
                            scopes,
                            "http://127.0.0.1:80/d",
                        );
                        for _ in 0..2 {
                            camera.send_to(answer.as_bytes(), from).expect("it is sent");
                        }
                    }
                }
            });
            let found = probe(target, Duration::from_secs(60)).expect("it can be asked");
            asked.join().expect("it was asked as often");
            let addresses: Vec<&str> = found.iter().map(|found| found.address.as_str()).collect();
            assert_eq!(addresses, ["http://127.0.0.1:80/d"]);
        }
    }

    /// mavlink/mavlink-camera-manager 519: a machine without a default route.
    #[test]
    fn each_interface_that_takes_groups_is_asked() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, index, flags) in [
            ("eth0", "2", "0x1003"),
            ("lo", "1", "0x9"),
            ("wlan0", "3", "0x1002"),
            ("eth1", "7", "0x11043"),
        ] {
            let interface = folder.path().join(name);
            fs::create_dir(&interface).expect("a folder");
            fs::write(interface.join("ifindex"), format!("{index}\n")).expect("a file");
            fs::write(interface.join("flags"), format!("{flags}\n")).expect("a file");
        }
        assert_eq!(interfaces(folder.path()), [2, 7]);
        assert!(interfaces(&folder.path().join("none")).is_empty());
    }
}
