// SPDX-License-Identifier: Apache-2.0
//! `jetwatch doctor`: on this machine, and on virtual Jetsons of files, intact or with one fault each.

use crate::support;
use crate::support::jetson_elements;
use crate::support::publish;
use crate::support::virtual_jetson as jetson;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use jetson::VirtualJetson;
use jetson_elements::JetsonElements;
use publish::mosquitto::Mosquitto;
use serde_json::Value;
use support::daemon::{Setup, wait_for_output};
use support::schema::Schema;

/// A folder with the test clip of the package. Every test process writes the same bytes to it.
static TEST_CLIP: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("test-clip");
    let output = make_test_clip(&folder, &[]);
    assert!(output.status.success(), "{output:?}");
    folder
});

/// Runs `jetwatch test-clip` with some environment variables.
fn make_test_clip(folder: &Path, environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jetwatch"))
        .args(["test-clip", "--out"])
        .arg(folder)
        .envs(environment.iter().copied())
        .output()
        .expect("the binary starts")
}

/// Output of the doctor.
struct Report {
    code: Option<i32>,
    lines: Vec<(String, String, String)>,
    text: String,
}

impl Report {
    /// Runs some checks on a machine below `root`.
    fn of(
        parts: &str,
        root: &Path,
        config: Option<&Path>,
        elements: Option<&JetsonElements>,
    ) -> Self {
        let clip = parts.contains("scaling").then(|| TEST_CLIP.as_path());
        Self::with_clip(parts, root, config, elements, clip)
    }

    /// The same with the test clip of a folder, or of `root`.
    fn with_clip(
        parts: &str,
        root: &Path,
        config: Option<&Path>,
        elements: Option<&JetsonElements>,
        clip: Option<&Path>,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let json = folder.path().join("report.json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
        command
            .args(["doctor", "--only", parts, "--root"])
            .arg(root)
            .arg("--json")
            .arg(&json)
            .env_remove("RUST_LOG")
            .env_remove("GST_DEBUG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        if let Some(clip) = clip {
            command.arg("--test-clip").arg(clip);
        }
        if let Some(elements) = elements {
            command.envs(elements.environment());
        }
        let output = wait_for_output(command.spawn().expect("the binary starts"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        let report: Value = fs::read(&json).map_or(Value::Null, |bytes| {
            serde_json::from_slice(&bytes).expect("JSON")
        });
        let word = |line: &Value, key: &str| line[key].as_str().expect("a text").to_owned();
        let lines = report["lines"].as_array().expect(&text);
        let lines = lines
            .iter()
            .map(|line| (word(line, "state"), word(line, "what"), word(line, "text")));
        Self {
            code: output.status.code(),
            lines: lines.collect(),
            text,
        }
    }

    /// Asserts that there is a line with this state, about this, and with all these texts: `STATE | WHAT | TEXT | TEXT`.
    #[track_caller]
    fn assert_line(&self, wanted: &str) {
        let words: Vec<&str> = wanted.split(" | ").collect();
        let is_it = |(state, what, text): &(String, String, String)| {
            state == words[0]
                && what == words[1]
                && words[2..].iter().all(|word| text.contains(word))
        };
        assert!(self.lines.iter().any(is_it), "{wanted}:\n{}", self.text);
    }

    #[track_caller]
    fn assert_lines(&self, wanted: &[&str]) {
        wanted.iter().for_each(|line| self.assert_line(line));
    }

    /// The checks that are `wrong`.
    fn wrong(&self) -> Vec<&str> {
        let lines = self.lines.iter().filter(|(state, ..)| state == "wrong");
        lines.map(|(_, what, _)| what.as_str()).collect()
    }
}

#[test]
fn doctor_runs_on_machine_without_jetson() {
    let report = Report::of(
        "elements,scaling,service,profiling,power",
        Path::new("/"),
        None,
        None,
    );
    report.assert_lines(&[
        "ok | element videoscale | add-borders (gboolean)",
        "n/a | element nvvidconv | not a Jetson",
        "ok | scaling by the CPU | ms per image",
        "n/a | scaling by the VIC | not a Jetson",
        "ok | decoding by the CPU | 12 images | every sample as expected",
        "n/a | decoding by NVDEC | not a Jetson",
    ]);
    let inapplicable = report.text.lines().filter(|line| line.starts_with("n/a"));
    let inapplicable: Vec<&str> = inapplicable.collect();
    assert_eq!(inapplicable.len(), 1, "{}", report.text);
    assert_has!(inapplicable[0] => "element nvvidconv, ");
    assert_eq!(report.wrong(), Vec::<&str>::new(), "{}", report.text);
    assert_eq!(report.code, Some(0), "{}", report.text);
    assert!(report.text.contains("verdict: "), "{}", report.text);
}

#[test]
fn jetsons_scale_and_decode_in_hardware() {
    for (jetson, name) in [
        (VirtualJetson::xavier_nx(), "Jetson Xavier NX"),
        (VirtualJetson::orin_nx(), "Jetson Orin NX"),
        (VirtualJetson::agx_orin(), "Jetson AGX Orin"),
        (VirtualJetson::thor(), "Jetson Thor"),
    ] {
        let elements = JetsonElements::new();
        let root = jetson.path("/");
        let report = Report::of("platform,elements,scaling", &root, None, Some(&elements));
        report.assert_line(&format!("ok | machine | {name} | JetPack"));
        report.assert_lines(&[
            "ok | element nvvidconv | bl-output (gboolean)",
            "ok | scaling by the VIC | mean difference",
            "ok | scaling by the GPU | mean difference",
            "ok | decoding by NVDEC | 12 images | every sample as expected",
            "ok | rotating by the VIC | mean difference",
            "ok | cutting by the VIC | mean difference",
            "ok | decoding by NVJPG | mean difference",
            "ok | pictures by NVJPG | mean difference",
            "ok | encoding by NVENC | mean difference",
        ]);
        let of_elements = |what: &&str| what.starts_with("element") || what.contains("ing by");
        let wrong = report.wrong();
        assert!(!wrong.iter().any(of_elements), "{}", report.text);
        // The selected units are those that were used.
        let work = elements.activity();
        let did = |engine: &str, element: &str| {
            work.iter()
                .any(|work| work.engine == engine && work.element == element && work.frames > 0)
        };
        assert!(
            did("VIC", "nvvidconv") && did("GPU", "nvvidconv"),
            "{work:?}"
        );
        assert!(did("NVDEC", "nvv4l2decoder"), "{work:?}");
    }
}

#[test]
fn report_of_each_jetson_follows_its_schema_and_says_what_was_shown() {
    let mut schema = Schema::of_file("doctor-report");
    let setup = Setup::new(
        "sources: [{name: cam, uri: 'synthetic://traffic'}]\ndetector: {backend: scripted}\npublish: {mqtt: {broker: embedded, listen: '127.0.0.1:0'}}\n",
    );
    for (jetson, family, jetpack) in [
        (VirtualJetson::xavier_nx(), "xavier_nx", "5.1.2"),
        (VirtualJetson::orin_nx(), "orin_nx", "6.0"),
        (VirtualJetson::agx_orin(), "agx_orin", "7.2"),
        (VirtualJetson::thor(), "thor", "7.1"),
    ] {
        let path = jetson.path("/box.json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
        command
            .arg("doctor")
            .args([Path::new("--root"), &jetson.path("/")])
            .args([Path::new("--config"), &setup.config])
            .args([Path::new("--test-clip"), TEST_CLIP.as_path()])
            .args([Path::new("--report"), &path])
            .envs(JetsonElements::new().environment())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = wait_for_output(command.spawn().expect("the binary starts"));
        let printed = String::from_utf8_lossy(&output.stdout);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}: {printed}"));
        let mut report: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(report["facts"]["machine"]["family"], family);
        assert_eq!(report["facts"]["machine"]["jetpack"], jetpack);
        let state = |promise: &str| {
            let mut all = report["acceptance"].as_array().expect("a list").iter();
            let one = all.find(|one| {
                one["promise"]
                    .as_str()
                    .is_some_and(|text| text.contains(promise))
            });
            one.unwrap_or_else(|| panic!("{promise}"))["state"].clone()
        };
        for promise in [
            "NVDEC",
            "scaled on the VIC",
            "upright",
            "cut by",
            "Motion JPEG",
            "nvjpegenc",
            "NVENC",
        ] {
            assert_eq!(state(promise), "ok", "{family}, {promise}: {printed}");
        }
        // No double has a GPU.
        assert_ne!(state("TensorRT finds"), "ok");
        assert_eq!(state("events reach"), "ok", "{printed}");
        assert_has!(printed => "ok      H.264 is decoded on NVDEC");
        schema.accepts(&report);
        report["lines"][0]["state"] = "fine".into();
        schema.refuses(&report);
    }
    schema.check();
}

#[test]
fn missing_test_clip_is_unknown_and_a_damaged_one_is_wrong() {
    let jetson = VirtualJetson::xavier_nx();
    let elements = JetsonElements::new();
    let decoders = ["decoding by the CPU", "decoding by NVDEC"];
    let report = || Report::with_clip("scaling", &jetson.path("/"), None, Some(&elements), None);
    let assert_lines = |state: &str, words: &[&str]| {
        let report = report();
        for decoder in decoders {
            report.assert_line(&[&[state, decoder], words].concat().join(" | "));
        }
    };
    let remedy = "jetwatch doctor --test-clip DIR";
    assert_lines("unknown", &["/usr/share/jetwatch", remedy]);

    let (video, index) = ("test-clip.h264", "test-clip.json");
    let path = |name: &str| jetson.path(&format!("/usr/share/jetwatch/{name}"));
    fs::create_dir_all(path("")).expect("created");
    for name in [video, index] {
        fs::copy(TEST_CLIP.join(name), path(name)).expect("copied");
    }
    assert_lines("ok", &["every sample as expected"]);

    let text = fs::read_to_string(path(index)).expect("readable");
    let mut description: Value = serde_json::from_str(&text).expect("JSON");
    let images = description["images"].as_array_mut().expect("a list");
    images.swap(2, 7);
    fs::write(path(index), description.to_string()).expect("written");
    assert_lines("wrong", &["not the expected images: 3, 8"]);
    fs::write(path(index), text).expect("written");

    let mut bytes = fs::read(path(video)).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path(video), bytes).expect("written");
    assert_lines("wrong", &["the test clip is damaged", video, "SHA-256"]);
}

#[test]
fn test_clip_is_small_and_what_is_missing_for_it_is_named() {
    let bytes = |name: &str| fs::read(TEST_CLIP.join(name)).expect("readable");
    let video = bytes("test-clip.h264");
    assert!((5_000..60_000).contains(&video.len()), "{}", video.len());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("new");
    let empty = folder.path().to_str().expect("UTF-8");
    let plugins = [
        ("GST_PLUGIN_SYSTEM_PATH_1_0", empty),
        ("GST_PLUGIN_PATH_1_0", empty),
        ("GST_REGISTRY_1_0", &format!("{empty}/registry")),
    ];
    for (environment, package) in [
        (&plugins[..], "apt-get install "),
        (&[("PATH", empty)], "apt-get install gstreamer1.0-tools"),
    ] {
        let output = make_test_clip(&out, environment);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert_has!(error => "is missing; install it with", package);
        assert!(!out.exists(), "nothing is written");
    }
}

#[test]
fn doctor_names_packages_for_missing_libraries() {
    let jetson = VirtualJetson::xavier_nx();
    let report = Report::of("libraries,elements,scaling", &jetson.path("/"), None, None);
    report.assert_lines(&[
        "wrong | libnvbufsurface | nvidia-l4t-multimedia",
        "wrong | element nvvidconv | sudo apt install nvidia-l4t-gstreamer",
        "wrong | scaling by the VIC | nvvidconv | nvidia-l4t-gstreamer",
        "wrong | decoding by NVDEC | nvv4l2decoder",
        "ok | element videoscale",
    ]);
    assert_eq!(report.code, Some(1), "{}", report.text);
    jetson.write(
        "/usr/lib/aarch64-linux-gnu/tegra/libnvbufsurface.so.1.0.0",
        "",
    );
    let report = Report::of("libraries", &jetson.path("/"), None, None);
    report.assert_line("ok | libnvbufsurface | aarch64-linux-gnu/tegra");
}

#[test]
fn doctor_shows_camera_users_and_permissions() {
    let jetson = VirtualJetson::xavier_nx();
    let camera = "/dev/video0";
    jetson.write(camera, "");
    jetson.write("/dev/nvmap", "");
    jetson.write("/sys/class/video4linux/video0/name", "HD Webcam\n");
    jetson.write(
        "/proc/device-tree/tegra-camera-platform/modules/module0/badge",
        "imx219_front\0",
    );
    let group = fs::metadata(jetson.path(camera))
        .expect("it is there")
        .gid();
    jetson.write(
        "/etc/passwd",
        "root:x:0:0::/root:/bin/sh\njetwatch:x:64001:64001::/nonexistent:/bin/false\n",
    );
    let member = |of: &str| {
        jetson.write(
            "/etc/group",
            &format!("video:x:{group}:{of}\njetwatch:x:64001:\n"),
        );
    };
    let mode = |mode| {
        fs::set_permissions(jetson.path(camera), fs::Permissions::from_mode(mode)).expect("set");
    };
    member("other");
    mode(0o660);
    let report = Report::of("cameras", &jetson.path("/"), None, None);
    report.assert_lines(&[
        "wrong | permission /dev/video0 | group video, mode 660 | usermod -aG video jetwatch",
        "unknown | camera /dev/video0 | HD Webcam | no device",
        "ok | CSI cameras | imx219_front",
        "unknown | nvargus-daemon | nvidia-l4t-camera",
    ]);
    for (uri, state, words) in [
        ("csi://0", "wrong", "nvidia-l4t-camera"),
        ("rtsp://127.0.0.1/x", "ok", "no source is a CSI camera"),
    ] {
        let setup = Setup::new(&format!(
            "sources: [{{name: gate, uri: '{uri}'}}]\ndetector: {{model: {}/models/street-nano}}\n",
            env!("CARGO_MANIFEST_DIR")
        ));
        let report = Report::of("cameras", &jetson.path("/"), Some(&setup.config), None);
        report.assert_line(&format!("{state} | nvargus-daemon | {words}"));
    }
    report.assert_line("wrong | permission /dev/nvmap | usermod -aG video jetwatch");
    fs::set_permissions(jetson.path("/dev/nvmap"), fs::Permissions::from_mode(0o660)).expect("set");

    member("other,jetwatch");
    mode(0o600);
    let report = Report::of("cameras", &jetson.path("/"), None, None);
    report.assert_line("wrong | permission /dev/video0 | sudo chmod 660 /dev/video0");

    mode(0o660);
    jetson.write("/proc/77/comm", "ffmpeg\n");
    fs::create_dir_all(jetson.path("/proc/77/fd")).expect("created");
    symlink(camera, jetson.path("/proc/77/fd/3")).expect("linked");
    let unit = "LoadState=loaded\nActiveState=active\nSubState=running\nNRestarts=1\n";
    jetson.write("/double/units/nvargus-daemon.service", unit);
    let report = Report::of("cameras", &jetson.path("/"), None, None);
    report.assert_lines(&[
        "ok | permission /dev/video0 | may read and write it",
        "ok | camera /dev/video0 | in use by ffmpeg (process 77)",
        "ok | nvargus-daemon | active",
    ]);
    assert_eq!(report.wrong(), Vec::<&str>::new(), "{}", report.text);

    let setup = Setup::new(&format!(
        "sources: [{{name: gate, uri: 'v4l2:///dev/video5'}}]\ndetector: {{model: {}/models/street-nano}}\n",
        env!("CARGO_MANIFEST_DIR")
    ));
    let report = Report::of("cameras", &jetson.path("/"), Some(&setup.config), None);
    report.assert_line("wrong | source gate | /dev/video5 is missing");
}

#[test]
fn doctor_compares_settings_with_config() {
    let jetson = VirtualJetson::xavier_nx();
    let setup = Setup::new(
        "sources: [{name: cam, uri: 'synthetic://traffic'}]\ndetector: {backend: scripted}\ntune: {power_mode: '8', perf_event_paranoid: 3}\n",
    );
    let report = Report::of(
        "power,profiling",
        &jetson.path("/"),
        Some(&setup.config),
        None,
    );
    report.assert_lines(&[
        "wrong | setting power_mode | wanted 8 | sudo jetwatch tune apply",
        "ok | setting perf_event_paranoid | 3",
        "wrong | throttling | VDD_CPU_GPU_CV draws more current",
        "unknown | over-current oc3 | 4 times",
        "unknown | nsys | nsight-systems-cli",
    ]);

    let orin = VirtualJetson::orin_nx();
    orin.write("/sys/class/thermal/cooling_device0/cur_state", "0\n");
    orin.write(
        "/opt/nvidia/nsight-systems/2024.5.1/bin/nsys",
        "#!/bin/sh\necho; echo NVIDIA Nsight Systems version 2024.5.1\n",
    );
    let nsys = orin.path("/opt/nvidia/nsight-systems/2024.5.1/bin/nsys");
    fs::set_permissions(&nsys, fs::Permissions::from_mode(0o755)).expect("set");
    let report = Report::of("power,profiling", &orin.path("/"), None, None);
    report.assert_lines(&[
        "ok | throttling | nothing slows the machine down",
        "ok | clock of the GPU | held at 612 MHz | 918 MHz",
        "ok | nsys | 2024.5.1",
    ]);
}

#[test]
fn doctor_checks_unit_and_journal() {
    let jetson = VirtualJetson::xavier_nx();
    let report = Report::of("service", &jetson.path("/"), None, None);
    report.assert_lines(&[
        "unknown | systemd | not running",
        "unknown | journal | journald does not run",
    ]);
    fs::create_dir_all(jetson.path("/run/systemd/system")).expect("created");
    jetson.write("/run/systemd/journal/socket", "");
    let unit = "LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=watchdog\nNRestarts=3\nWatchdogUSec=30s\n";
    jetson.write("/double/units/jetwatch.service", unit);
    jetson.write(
        "/etc/systemd/journald.conf",
        "[Journal]\n#Storage=auto\nRateLimitBurst=500\n",
    );
    let report = Report::of("service", &jetson.path("/"), None, None);
    report.assert_lines(&[
        "wrong | jetwatch.service | failed | because of watchdog | journalctl -u jetwatch",
        "ok | watchdog | 30s",
        "unknown | journal | sudo mkdir -p /var/log/journal",
        "ok | rate of the journal | 500 lines",
    ]);
    fs::create_dir_all(jetson.path("/var/log/journal")).expect("created");
    jetson.write(
        "/double/units/jetwatch.service",
        "LoadState=loaded\nActiveState=active\nSubState=running\n",
    );
    let report = Report::of("service", &jetson.path("/"), None, None);
    report.assert_lines(&[
        "ok | jetwatch.service | active (running)",
        "ok | journal | kept",
        "wrong | watchdog | off",
    ]);
}

#[test]
fn doctor_checks_broker_round_trip() {
    let broker = Mosquitto::start();
    let config = |broker: &str| {
        Setup::new(&format!(
            "device: box\nsources: [{{name: cam, uri: 'synthetic://traffic'}}]\ndetector: {{backend: scripted}}\npublish: {{mqtt: {{{broker}}}}}\n"
        ))
    };
    let setup = config(&format!("broker: 'mqtt://127.0.0.1:{}'", broker.port()));
    let report = Report::of("config,broker", Path::new("/"), Some(&setup.config), None);
    report.assert_lines(&[
        "ok | configuration | 1 source(s), device box",
        "ok | broker | speaks MQTT 5.0",
        "ok | message to the broker and back | ms",
    ]);
    assert_eq!(report.code, Some(0), "{}", report.text);

    let setup = config("broker: embedded, listen: '127.0.0.1:0'");
    let report = Report::of("broker", Path::new("/"), Some(&setup.config), None);
    report.assert_lines(&[
        "ok | broker | embedded, its address is free",
        "ok | message to the broker and back | ms",
    ]);

    let setup = config("broker: 'mqtt://127.0.0.1:1'");
    let report = Report::of("broker", Path::new("/"), Some(&setup.config), None);
    report.assert_line("wrong | broker | cannot connect to MQTT broker 127.0.0.1:1");
    assert_eq!(report.code, Some(1), "{}", report.text);
}

#[test]
fn doctor_continues_with_invalid_config() {
    let setup = Setup::new("sources: []\nsuorces: 3\n");
    let report = Report::of(
        "config,platform,broker",
        Path::new("/"),
        Some(&setup.config),
        None,
    );
    report.assert_lines(&[
        "wrong | configuration | suorces",
        "ok | machine",
        "unknown | broker | the configuration is wrong",
    ]);
    assert_eq!(report.code, Some(1), "{}", report.text);
}
