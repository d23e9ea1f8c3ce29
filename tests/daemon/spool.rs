// SPDX-License-Identifier: Apache-2.0
//! No event is lost: the daemon is killed, the broker is away for long, the machine loses its power, the disk is small. What the daemon
//! wrote as JSON lines is the truth; a subscriber that is there all the time is compared with it.

use crate::support;
use crate::support::publish;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use jetwatch_publish::Subscriber;
use publish::mosquitto::{Mosquitto, client};
use publish::proxy::Proxy;
use serde_json::Value;
use support::daemon::{
    Setup, Signal, exits, finish, jetwatch, signal, start, stderr, terminate, wait_for_output,
    wait_until_some,
};

const SCENE: &str = "synthetic://traffic?seed=3&objects=8&width=320&height=180&fps=60";

/// A daemon, a broker behind a proxy, and a subscriber that misses nothing.
struct Site {
    setup: Setup,
    proxy: Proxy,
    subscriber: Subscriber,
    received: Vec<Value>,
    /// In memory: on a busy disk a stop may take too long.
    folders: tempfile::TempDir,
    _broker: Mosquitto,
}

impl Site {
    /// `keys` are those of `publish.mqtt` and of its `spool`.
    fn new(mqtt_keys: &str, spool_keys: &str) -> Self {
        let broker = Mosquitto::start();
        let proxy = Proxy::start(broker.port());
        let subscriber =
            Subscriber::start(&client(broker.port()), "jetwatch/box/#").expect("the broker runs");
        let memory = Path::new("/dev/shm");
        let folders = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let folders = folders.expect("a temporary folder");
        let setup = Setup::new(&format!(
            "device: box\n\
             sources: [{{name: cam, uri: '{SCENE}', zones: [{{name: all, coordinates: '0.2,0.2,0.8,0.2,0.8,0.9,0.2,0.9'}}]}}]\n\
             detector: {{backend: scripted}}\n\
             publish:\n  update_interval_ms: 20\n  stats_interval_s: 1\n  json_lines: {{path: events.jsonl}}\n  mqtt:\n    \
             broker: mqtt://127.0.0.1:{1}\n    {mqtt_keys}\n    \
             spool: {{runtime_folder: '{0}/run', state_folder: '{0}/state'{spool_keys}}}\n",
            folders.path().display(),
            proxy.port()
        ));
        for folder in ["run", "state"] {
            fs::create_dir(folders.path().join(folder)).expect("a new folder");
        }
        Self {
            setup,
            proxy,
            subscriber,
            received: Vec::new(),
            folders,
            _broker: broker,
        }
    }

    fn start(&self) -> Child {
        start(&mut self.setup.command("run"))
    }

    /// What the daemon has published, by its JSON lines. A line that a kill has cut is skipped.
    fn truth(&self) -> Vec<Key> {
        let text = fs::read_to_string(self.setup.path("events.jsonl")).unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines.filter_map(|line: Value| key(&line)).collect()
    }

    fn wait_for_truth(&self, count: usize) {
        wait_until_some("published events", || {
            (self.truth().len() >= count).then_some(())
        });
    }

    /// Takes the messages that are there, and those that come in the next second without a pause.
    fn receive(&mut self) {
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until
            && let Some((topic, payload)) = self.subscriber.recv_timeout(Duration::from_millis(50))
        {
            let is_message = ["/events", "/analytics", "/gap"]
                .iter()
                .any(|end| topic.ends_with(end));
            if is_message {
                self.received
                    .push(serde_json::from_slice(&payload).expect("JSON"));
            }
        }
    }

    fn receive_each(&mut self, of: &BTreeSet<Key>) {
        wait_until_some("every event", || {
            self.receive();
            let received: BTreeSet<Key> = self.received.iter().filter_map(key).collect();
            of.is_subset(&received).then_some(())
        });
    }

    /// What waits in the spool of a daemon that has ended.
    fn waiting(&self) -> BTreeSet<Key> {
        let (code, dumped) = self.spool(&["dump"]);
        assert_eq!(code, Some(0), "{dumped}");
        let lines = dumped
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        lines
            .filter_map(|line: Value| key(&line["payload"]))
            .collect()
    }

    /// Waits for each event of a daemon that has ended, but those that wait in its spool for the next start.
    fn receive_all(&mut self) {
        let waiting = self.waiting();
        let truth = self.truth().into_iter();
        self.receive_each(&truth.filter(|key| !waiting.contains(key)).collect());
    }

    /// Repeats have the same number, numbers are not used twice, and the messages of a track are in order.
    fn check_numbers(&self) {
        let mut by_number: BTreeMap<(String, u64), Key> = BTreeMap::new();
        let mut number_of: HashMap<Key, (String, u64)> = HashMap::new();
        let mut last_of_track: HashMap<String, u64> = HashMap::new();
        for message in &self.received {
            let Some(key) = key(message) else { continue };
            let spool = message["spool"].as_str().expect("a spool").to_owned();
            let seq = message["seq"].as_u64().expect("a number");
            let number = (spool, seq);
            let before = by_number.insert(number.clone(), key.clone());
            assert!(
                before.as_ref().is_none_or(|before| *before == key),
                "{message}"
            );
            let other = number_of.insert(key, number.clone());
            assert!(
                other.as_ref().is_none_or(|other| *other == number),
                "{message}"
            );
            if before.is_some() {
                continue;
            }
            if let Some(track) = message["id"].as_str() {
                let last = last_of_track.insert(track.to_owned(), seq);
                assert!(last.is_none_or(|last| last < seq), "{message}");
            }
        }
    }

    fn gaps(&self) -> Vec<&Value> {
        let gaps = self.received.iter();
        gaps.filter(|message| message["kind"] == "gap").collect()
    }

    fn spool(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = jetwatch();
        command.arg("spool").args(arguments);
        let output = finish(command.arg("--config").arg(&self.setup.config));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text + &stderr(&output))
    }
}

/// What identifies an event whatever its number.
type Key = (String, String, String, u64);

fn key(message: &Value) -> Option<Key> {
    let is_event = message["kind"] == "event" || message["kind"] == "analytics";
    is_event.then(|| {
        (
            message["id"].to_string(),
            message["type"].to_string(),
            message["name"].to_string(),
            message["frame"]["seq"].as_u64().expect("a frame"),
        )
    })
}

#[test]
fn kills_of_the_daemon_lose_no_event() {
    let mut site = Site::new("", "");
    for round in 1..=4 {
        // A signal that comes before the pipeline runs ends the process at once.
        let before = site.truth().len();
        let child = site.start();
        site.wait_for_truth(before + 100);
        // With a backlog once: the broker is away at the second kill.
        match round {
            2 => site.proxy.block(),
            _ => site.proxy.open(),
        }
        site.wait_for_truth(before + 200);
        signal(
            &child,
            if round == 4 {
                Signal::TERM
            } else {
                Signal::KILL
            },
        );
        let output = wait_for_output(child);
        let found = output.status.code();
        assert_eq!(found, (round == 4).then_some(0), "{}", stderr(&output));
        site.receive();
    }
    site.receive_all();
    site.check_numbers();
    assert_eq!(site.gaps(), Vec::<&Value>::new());
    // The numbering goes on over kills, without a hole.
    let spools: BTreeSet<_> = site
        .received
        .iter()
        .map(|message| message["spool"].to_string())
        .collect();
    assert_eq!(spools.len(), 1, "{spools:?}");
    let seqs: BTreeSet<_> = site
        .received
        .iter()
        .filter_map(|message| message["seq"].as_u64())
        .collect();
    assert_eq!(seqs.first(), Some(&1));
    assert_eq!(seqs.last(), Some(&(seqs.len() as u64)));
}

/// With this key of the order in which late events are sent.
fn check_outage(replay: &str) {
    let mut site = Site::new(
        "queue_messages: 50",
        &format!(", sync_ms: 100, max_per_s: 40, replay: {replay}"),
    );
    site.proxy.block();
    let child = site.start();
    site.wait_for_truth(400);
    site.proxy.open();
    let is_live = |message: &Value| message["late_ms"].is_null() && message["seq"].is_u64();
    wait_until_some("an event that is not late", || {
        site.receive();
        site.received.iter().any(is_live).then_some(())
    });
    site.receive_each(&site.truth().into_iter().collect());
    terminate(child);
    site.receive_all();
    site.check_numbers();
    assert_eq!(site.gaps(), Vec::<&Value>::new());
    let late = |message: &&Value| message["late_ms"].as_u64().is_some();
    assert!(site.received.iter().filter(late).count() > 200);
    let first_live = site.received.iter().position(is_live);
    let first_live = first_live.expect("some are not late");
    match replay {
        "ordered" => {
            let seqs = site
                .received
                .iter()
                .filter_map(|message| message["seq"].as_u64());
            assert!(seqs.is_sorted(), "all in the order in which they were made");
        }
        _ => {
            let last_late = site.received.iter().rposition(|message| late(&message));
            // Live events do not wait for the backlog.
            assert!(Some(first_live) < last_late);
        }
    }
}

#[test]
fn outage_longer_than_the_memory_queue_loses_no_event() {
    std::thread::scope(|scope| {
        for replay in ["ordered", "newest_first"] {
            scope.spawn(move || check_outage(replay));
        }
    });
}

#[test]
fn a_stop_and_a_power_cut_while_the_broker_is_away_lose_no_event() {
    let mut site = Site::new("", ", max_per_s: 5000");
    site.proxy.block();
    let child = site.start();
    site.wait_for_truth(300);
    let (code, text) = site.spool(&["drop", "--yes"]);
    assert_eq!(code, Some(1), "{text}");
    assert_has!(text => "a daemon uses");
    let log = terminate(child);
    assert_has!(log => "wait in the spool");
    let lost = log.lines().find(|line| line.contains("messages were lost"));
    // States are not kept for a broker that is away: the next start publishes them anew.
    assert!(lost.is_none_or(|line| line.contains(" waited=0 ")), "{log}");
    // What is on tmpfs is gone.
    fs::remove_dir_all(site.folders.path().join("run")).expect("removable");
    fs::create_dir(site.folders.path().join("run")).expect("a new folder");
    let truth: BTreeSet<Key> = site.truth().into_iter().collect();
    assert_eq!(site.waiting(), truth);
    let (_, status) = site.spool(&["status", "--json"]);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["messages"], truth.len(), "{status}");
    assert_eq!(site.spool(&["drop"]).0, Some(1));
    let (_, status) = site.spool(&["status"]);
    assert_has!(status => &format!("{} messages wait", truth.len()));
    site.proxy.open();
    let child = site.start();
    site.receive_each(&truth);
    terminate(child);
    site.receive_all();
    site.check_numbers();
    let of_first_run = site
        .received
        .iter()
        .filter(|message| key(message).is_some_and(|key| truth.contains(&key)));
    for message in of_first_run {
        assert!(message["late_ms"].is_u64(), "{message}");
    }
    let (_, text) = site.spool(&["status", "--json"]);
    let status: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        status["messages"], 0,
        "an empty spool is empty after the end: {text}"
    );
}

#[test]
fn full_spool_drops_updates_and_announces_it() {
    let mut site = Site::new(
        "queue_messages: 50",
        ", sync_ms: 50, max_bytes: 1MiB, max_per_s: 5000",
    );
    site.proxy.block();
    let child = site.start();
    site.wait_for_truth(2000);
    site.proxy.open();
    let essential = |truth: Vec<Key>| -> BTreeSet<Key> {
        truth
            .into_iter()
            .filter(|(_, kind, ..)| kind != "\"update\"")
            .collect()
    };
    let truth = essential(site.truth());
    assert!(truth.len() < 700, "{} fit into the spool", truth.len());
    site.receive_each(&truth);
    let log = terminate(child);
    assert_has!(log => "messages in the spool are dropped");
    site.receive();
    site.check_numbers();
    let seqs: BTreeSet<_> = site
        .received
        .iter()
        .filter_map(|message| message["seq"].as_u64())
        .collect();
    let missing: Vec<_> = (1..=*seqs.last().expect("some"))
        .filter(|seq| !seqs.contains(seq))
        .collect();
    let gaps = site.gaps();
    assert!(!gaps.is_empty() && !missing.is_empty());
    let announced: u64 = gaps
        .iter()
        .map(|gap| gap["messages"].as_u64().expect("a number"))
        .sum();
    assert!(
        announced >= missing.len() as u64,
        "{announced} of {}",
        missing.len()
    );
    for gap in &gaps {
        let found = (&gap["reason"], &gap["messages"]);
        assert_eq!(found, (&"full".into(), &gap["updates"]), "{gap}");
    }
    for seq in missing {
        let is_within =
            |gap: &&Value| gap["from"].as_u64() <= Some(seq) && Some(seq) <= gap["to"].as_u64();
        assert!(gaps.iter().any(is_within), "{seq}: {gaps:?}");
    }
}

#[test]
fn nothing_is_written_to_the_device_while_the_broker_is_there() {
    let mut site = Site::new("", "");
    let child = site.start();
    site.wait_for_truth(600);
    site.receive();
    let state = site.folders.path().join("state").join("jetwatch-box");
    let mut files: Vec<_> = fs::read_dir(&state)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    files.sort();
    assert_eq!(files, ["cursor", "lock", "reserve"]);
    assert_eq!(fs::read(state.join("cursor")).expect("readable"), [0; 8192]);
    terminate(child);
    site.receive_all();
    site.check_numbers();
}

#[test]
fn check_makes_the_named_folders_as_the_daemon_does() {
    let site = Site::new("", "");
    for folder in ["run", "state"] {
        fs::remove_dir(site.folders.path().join(folder)).expect("an empty folder");
    }
    let printed = exits(0, &mut site.setup.command("check")).out;
    assert_has!(printed => "ok     spool: ");
}

#[test]
fn a_spool_that_cannot_be_used_does_not_keep_the_daemon_from_starting() {
    let mut site = Site::new("", "");
    for folder in ["run", "state"] {
        let client = site.folders.path().join(folder).join("jetwatch-box");
        fs::write(client, "a file in the place of the folder").expect("written");
    }
    let printed = exits(1, &mut site.setup.command("check")).out;
    assert_has!(printed => "wrong  spool: ");
    let child = site.start();
    site.wait_for_truth(50);
    let log = terminate(child);
    assert_has!(log => "MQTT messages wait in memory only");
    site.receive_all();
    site.check_numbers();
}
