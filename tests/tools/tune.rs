// SPDX-License-Identifier: Apache-2.0
//! `jetwatch tune` and the crate `platform` on virtual Jetsons of files, with doubles of JetPack's tools: what is read, what is set,
//! what is refused, and what remains when something fails half-way.

use crate::support::daemon::stdout;
use crate::support::virtual_jetson;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};
use std::thread;

use jetwatch_platform::tune::{
    Clocks, DesiredSettings, Outcome, Setting, StepState, TuneError, apply, plan, reapply, restore,
};
use jetwatch_platform::{
    EngineKind, Family, Machine, PlatformError, PowerModes, SensorSnapshot, SysRoot,
};
use virtual_jetson::VirtualJetson;

const SAVED_STATE: &str = "/var/lib/jetwatch-setup/tune.json";

fn all_settings(power_mode: &str) -> DesiredSettings {
    DesiredSettings {
        perf_event_paranoid: Some(2),
        power_mode: Some(power_mode.to_owned()),
        clocks: Some(Clocks::Max),
        fan_profile: Some("cool".to_owned()),
    }
}

fn states(root: &SysRoot, wanted: &DesiredSettings) -> Vec<StepState> {
    plan(root, wanted)
        .into_iter()
        .map(|step| step.state)
        .collect()
}

#[test]
fn a_xavier_nx_is_read() {
    let jetson = VirtualJetson::xavier_nx();
    let machine = Machine::find(&jetson.root());
    assert_eq!(machine.family, Family::XavierNx);
    assert_eq!(
        machine.describe(),
        "Jetson Xavier NX (p3668-0001), L4T 35.4.1, JetPack 5.1.2"
    );
    let readings = SensorSnapshot::read(&jetson.root(), &machine);
    assert!(readings.unreadable.is_empty(), "{:?}", readings.unreadable);
    assert_eq!(readings.cpus.len(), 6);
    assert_eq!(readings.cpus.iter().filter(|cpu| cpu.is_online).count(), 2);
    assert_eq!(readings.cpus[1].max_khz, Some(1_420_800));
    let engine = |kind| {
        let mut engines = readings.engines.iter();
        engines
            .find(|engine| engine.kind == kind)
            .unwrap_or_else(|| panic!("no {kind:?}"))
    };
    assert_eq!(engine(EngineKind::Gpu).load_percent, Some(42.5));
    assert_eq!(engine(EngineKind::Gpu).hz, Some(803_250_000));
    assert_eq!(engine(EngineKind::Emc).load_percent, Some(5.0));
    assert_eq!(engine(EngineKind::Vic).hz, Some(601_600_000));
    assert_eq!(engine(EngineKind::Nvdec).hz, Some(998_400_000));
    let zones = readings.temperatures.iter().map(|zone| &zone.name);
    let wanted = [
        "AO-therm",
        "GPU-therm",
        "AUX-therm",
        "CPU-therm",
        "thermal-fan-est",
    ];
    assert!(zones.eq(wanted), "{:?}", readings.temperatures);
    let rails = readings.rails.iter().map(|rail| &rail.name);
    assert!(
        rails.eq(["VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"]),
        "{:?}",
        readings.rails
    );
    assert_eq!(readings.rails[0].milliwatts(), Some(9250));
    let found = readings.throttled();
    assert_eq!(found, ["VDD_CPU_GPU_CV draws more current than its limit"]);
    let counters = readings.over_current.iter();
    let counters = counters.map(|counter| (counter.name.as_str(), counter.count));
    assert!(
        counters.eq([("oc1", 0), ("oc3", 4)]),
        "{:?}",
        readings.over_current
    );

    let earlier = readings;
    jetson.write(
        "/proc/stat",
        "cpu0 150 0 50 900 100 0 0 0 0 0\ncpu1 200 0 50 700 50 0 0 0 0 0\n",
    );
    let now = SensorSnapshot::read(&jetson.root(), &machine);
    assert_eq!(now.cpu_loads_since(&earlier), [(0, 25.0)]);
}

#[test]
fn an_orin_nx_is_read() {
    let jetson = VirtualJetson::orin_nx();
    let machine = Machine::find(&jetson.root());
    let found = (machine.family, machine.units.dla_cores);
    assert_eq!(found, (Family::OrinNx, Some(1)));
    assert_eq!(machine.jetpack, Some("6.0"));
    let readings = SensorSnapshot::read(&jetson.root(), &machine);
    let load = |kind| {
        let mut engines = readings.engines.iter();
        engines
            .find(|engine| engine.kind == kind)
            .map(|engine| engine.load_percent)
    };
    assert_eq!(load(EngineKind::Gpu), Some(Some(100.0)));
    assert_eq!(load(EngineKind::Emc), Some(Some(5.0)));
    assert_eq!(load(EngineKind::Vic), Some(None));
    assert_eq!(load(EngineKind::Nvdec), Some(None));
    // The engine of this zone is off.
    assert_eq!(readings.temperatures[2].celsius, None);
    assert_eq!(readings.temperatures[3].celsius, Some(48.5));
    let found = readings.throttled();
    assert_eq!(found, ["gpu-throttle-alert is at step 1: too hot"]);
    let counters = readings.over_current.iter().map(|counter| counter.count);
    assert!(counters.eq([0, 1, 2]), "{:?}", readings.over_current);
    assert_eq!(readings.rails.len(), 3);
}

/// What users of other monitors found on such machines: no file with the GPU's load, clocks that belong to no node of the device tree
/// (rbonghi/jetson_stats#885, #820), the whole power at an INA238 (rbonghi/jetson_stats#900), a machine that they do not know (#711).
#[test]
fn a_thor_is_read() {
    let jetson = VirtualJetson::thor();
    let machine = Machine::find(&jetson.root());
    let found = machine.describe();
    assert_eq!(found, "Jetson Thor (p3834-0008), L4T 38.4.0, JetPack 7.1");
    assert_eq!(machine.units.dla_cores, Some(0));
    assert!(machine.notes.is_empty(), "{:?}", machine.notes);
    let readings = SensorSnapshot::read(&jetson.root(), &machine);
    assert!(readings.unreadable.is_empty(), "{:?}", readings.unreadable);
    let clocks = readings.engines.iter();
    let clocks = clocks.map(|engine| (engine.kind, engine.load_percent, engine.max_hz));
    assert!(
        clocks.eq([
            (EngineKind::Emc, None, Some(4_266_000_000)),
            (EngineKind::Gpu, None, Some(1_386_000_000)),
            (EngineKind::Nvdec, None, Some(1_692_000_000)),
        ]),
        "{:?}",
        readings.engines
    );
    let gpu = readings.temperatures[3].clone();
    assert_eq!((gpu.name.as_str(), gpu.celsius), ("gpu-thermal", None));
    assert_eq!(readings.throttles.len(), 3, "{:?}", readings.throttles);
    assert!(readings.throttled().is_empty());
    let rails = readings.rails.iter();
    let rails = rails.map(|rail| (rail.name.as_str(), rail.milliwatts()));
    assert!(
        rails.eq([
            ("VDD_GPU", Some(1956)),
            ("VDD_CPU_SOC_MSS", Some(5880)),
            ("VIN_SYS_5V0", Some(5635)),
            ("VIN", Some(19_780)),
        ]),
        "{:?}",
        readings.rails
    );
    assert_eq!(readings.over_current, []);
    let modes = PowerModes::read(&jetson.root()).expect("modes");
    let found = (modes.default, modes.find("90w").expect("a mode").id);
    assert_eq!(found, (Some(1), 2));
}

/// The answer "no" ends nvpmodel with exit code 0 (almond-bot/axol#107).
#[test]
fn a_thor_is_tuned_and_its_reboot_is_left_to_the_user() {
    let jetson = VirtualJetson::thor();
    let root = jetson.root();
    let before = jetson.settings();
    let wanted = all_settings("0");
    apply(&root, &wanted).expect("applied");
    assert_eq!(states(&root, &wanted), vec![StepState::Right; 4]);
    let clock = |file: &str| jetson.text(&format!("/sys/class/devfreq/gpu-gpc-0/{file}"));
    assert_eq!(clock("min_freq"), clock("max_freq"));
    restore(&root).expect("restored");
    assert_eq!(jetson.text("/var/lib/nvpmodel/status"), "pmode:0001");
    assert_ne!(clock("min_freq"), clock("max_freq"));
    // 90 W and 70 W switch parts of the GPU off, which takes effect at a start only.
    let refused = apply(&root, &all_settings("2")).expect_err("a reboot is needed");
    assert_has!(refused.to_string() => "only with a reboot");
    assert_eq!(jetson.settings(), before);
}

#[test]
fn an_orin_with_jetpack_7_is_read() {
    let jetson = VirtualJetson::agx_orin();
    let machine = Machine::find(&jetson.root());
    assert_eq!(
        machine.describe(),
        "Jetson AGX Orin (p3701-0005), L4T 39.2.0, JetPack 7.2"
    );
    assert_eq!(machine.units.dla_cores, Some(2));
    let readings = SensorSnapshot::read(&jetson.root(), &machine);
    assert!(readings.unreadable.is_empty(), "{:?}", readings.unreadable);
    let loads = readings.engines.iter();
    let loads: Vec<_> = loads
        .map(|engine| (engine.kind, engine.load_percent))
        .collect();
    for wanted in [(EngineKind::Gpu, Some(25.0)), (EngineKind::Vic, None)] {
        assert!(loads.contains(&wanted), "{loads:?}");
    }
}

#[test]
fn missing_or_unreadable_sensor_hides_no_other() {
    let jetson = VirtualJetson::xavier_nx();
    let machine = Machine::find(&jetson.root());
    jetson.write("/sys/class/thermal/thermal_zone4/temp", "warm");
    jetson.remove("/sys/class/devfreq/17000000.gv11b/device/load");
    jetson.remove("/sys/kernel/debug/bpmp/debug/clk/emc/rate");
    let readings = SensorSnapshot::read(&jetson.root(), &machine);
    assert_eq!(readings.engines[0].load_percent, None);
    assert!(
        readings
            .engines
            .iter()
            .all(|engine| engine.kind != EngineKind::Emc)
    );
    assert_eq!(readings.temperatures[3].celsius, None);
    assert_eq!(readings.temperatures[1].celsius, Some(40.0));
    assert_eq!(readings.unreadable.len(), 1, "{:?}", readings.unreadable);
    assert!(readings.unreadable[0].reason.contains("found \"warm\""));

    let empty = tempfile::tempdir().expect("a temporary folder");
    let root = SysRoot::new(empty.path());
    let nothing = SensorSnapshot::read(&root, &Machine::find(&root));
    assert_eq!(nothing, SensorSnapshot::default());
}

#[test]
fn rail_reports_exceeded_limit() {
    let jetson = VirtualJetson::orin_nx();
    let machine = Machine::find(&jetson.root());
    let monitor = (0..9)
        .map(|number| format!("/sys/class/hwmon/hwmon{number}"))
        .find(|folder| {
            let name = jetson.root().text(&format!("{folder}/name"));
            name.expect("readable").as_deref() == Some("ina3221")
        })
        .expect("it has one");
    let set = |file: &str, number: &str| jetson.write(&format!("{monitor}/{file}"), number);
    let rail = || {
        let readings = SensorSnapshot::read(&jetson.root(), &machine);
        assert!(readings.unreadable.is_empty(), "{:?}", readings.unreadable);
        let rail = readings.rails[0].clone();
        (rail.milliamperes, rail.limit_milliamperes, rail.alarm)
    };
    for (file, number) in [
        ("curr1_input", "2600"),
        ("curr1_max", "2500"),
        ("curr1_max_alarm", "1"),
        ("curr1_crit", "3000"),
        ("curr1_crit_alarm", "0"),
    ] {
        set(file, number);
    }
    assert_eq!(rail(), (Some(2600), Some(2500), Some(true)));
    set("curr1_crit_alarm", "1");
    assert_eq!(rail(), (Some(2600), Some(3000), Some(true)));
    // Idle, it may measure slightly below zero.
    for (file, number) in [
        ("curr1_input", "-8"),
        ("curr1_max_alarm", "0"),
        ("curr1_crit_alarm", "0"),
    ] {
        set(file, number);
    }
    assert_eq!(rail(), (Some(0), Some(2500), Some(false)));
}

#[test]
fn root_only_sensors_are_read_from_copies() {
    let jetson = VirtualJetson::xavier_nx();
    let machine = Machine::find(&jetson.root());
    let emc = |readings: &SensorSnapshot| {
        let mut engines = readings.engines.iter();
        engines
            .find(|engine| engine.kind == EngineKind::Emc)
            .map(|engine| (engine.hz, engine.load_percent))
    };
    let rate = "/sys/kernel/debug/bpmp/debug/clk/emc/rate";
    let activity = "/sys/kernel/debug/cactmon/mc_all";
    // Permissions do not stop root, as which this may run: a folder in place of a file does.
    for path in [rate, activity] {
        jetson.remove(path);
        fs::create_dir(jetson.path(path)).expect("created");
    }
    let readings = SensorSnapshot::read(&jetson.root(), &machine);
    assert_eq!(emc(&readings), None);
    assert!(
        readings.unreadable[0].reason.contains(rate),
        "{:?}",
        readings.unreadable
    );
    jetson.write(&format!("/run/jetwatch-readings{rate}"), "800000000\n");
    let readings = SensorSnapshot::read(&jetson.root(), &machine);
    assert_eq!(emc(&readings), Some((Some(800_000_000), None)));
    assert!(readings.unreadable.is_empty(), "{:?}", readings.unreadable);
    jetson.write(&format!("/run/jetwatch-readings{activity}"), "8000000\n");
    let readings = SensorSnapshot::read(&jetson.root(), &machine);
    assert_eq!(emc(&readings), Some((Some(800_000_000), Some(10.0))));
}

#[test]
fn settings_are_applied_verified_and_restored() {
    for jetson in [VirtualJetson::xavier_nx(), VirtualJetson::orin_nx()] {
        let root = jetson.root();
        let before = jetson.settings();
        let wanted = all_settings("1");
        assert_eq!(states(&root, &wanted), vec![StepState::Differs; 4]);
        let steps = apply(&root, &wanted).expect("applied");
        assert!(
            steps.iter().all(|step| step.state == StepState::Differs),
            "{steps:?}"
        );
        assert_eq!(states(&root, &wanted), vec![StepState::Right; 4]);
        assert_eq!(jetson.text("/proc/sys/kernel/perf_event_paranoid"), "2");
        assert_eq!(jetson.text("/double/fan"), "cool");
        let max = jetson.text("/sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq");
        let min = jetson.text("/sys/devices/system/cpu/cpu1/cpufreq/scaling_min_freq");
        assert_eq!((min.as_str(), min.as_str()), (max.as_str(), "1267200"));

        // Once more, as when the unit is started twice.
        let calls = |start| jetson.calls(start).len();
        let made = (
            calls("nvpmodel -m"),
            calls("jetson_clocks"),
            calls("systemctl"),
        );
        assert_eq!(made, (1, 2, 2));
        let steps = apply(&root, &wanted).expect("applied");
        assert!(
            steps.iter().all(|step| step.state == StepState::Right),
            "{steps:?}"
        );
        let found = (
            calls("nvpmodel -m"),
            calls("jetson_clocks"),
            calls("systemctl"),
        );
        assert_eq!(found, made);

        let restored = restore(&root).expect("given back");
        assert!(
            restored
                .iter()
                .all(|setting| setting.outcome == Outcome::GivenBack)
        );
        assert_eq!(restored.len(), 4);
        assert_eq!(jetson.settings(), before);
        assert!(!root.exists("/var/lib/jetwatch-setup"), "something is left");
        assert!(restore(&root).expect("nothing to do").is_empty());
    }
}

#[test]
fn unset_settings_are_not_changed() {
    let jetson = VirtualJetson::xavier_nx();
    let before = jetson.settings();
    assert!(
        apply(&jetson.root(), &DesiredSettings::default())
            .expect("nothing to do")
            .is_empty()
    );
    let wanted = DesiredSettings {
        perf_event_paranoid: Some(1),
        ..DesiredSettings::default()
    };
    apply(&jetson.root(), &wanted).expect("applied");
    let after = jetson.settings();
    assert_eq!(
        after,
        before.replacen("perf_event_paranoid: 3", "perf_event_paranoid: 1", 1)
    );
    assert!(jetson.calls("").is_empty());
}

/// The answer "no" ends nvpmodel with exit code 0 (almond-bot/axol#107).
#[test]
fn reboot_prompt_is_reported_as_error() {
    let jetson = VirtualJetson::xavier_nx();
    jetson.write("/double/reboot_modes", "8\n");
    let before = jetson.settings();
    let error = apply(&jetson.root(), &all_settings("20W_6CORE")).expect_err("it needs a reboot");
    let TuneError::Failed {
        setting,
        cause: PlatformError::RebootRequired { mode, id },
        not_undone,
    } = &error
    else {
        panic!("{error:?}")
    };
    let found = (*setting, mode.as_str(), *id);
    assert_eq!(found, (Setting::PowerMode, "8 MODE_20W_6CORE", 8));
    assert!(not_undone.is_empty());
    assert_has!(error.to_string() => "run `sudo nvpmodel -m 8` by hand");
    assert!(!jetson.root().exists("/double/rebooted"));
    assert_eq!(jetson.settings(), before);
    assert!(!jetson.root().exists(SAVED_STATE));
    assert_eq!(jetson.calls("nvpmodel -m"), ["nvpmodel -m 8"]);
}

/// The file of the setting `perf_event_paranoid`.
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

#[test]
fn what_fails_leaves_the_settings_as_they_were() {
    const READ_ONLY: &str = "/sys/kernel/uevent_seqnum";
    type Fault = fn(&VirtualJetson);
    #[rustfmt::skip]
    let cases: [(&str, Fault, &str, &str); 4] = [
        (
            "8",
            // No user may create a file there, not even root, as which tests may run.
            |jetson| {
                fs::remove_dir(jetson.path("/run")).expect("removed");
                symlink("/sys", jetson.path("/run")).expect("linked");
            },
            "nothing was changed: cannot write",
            "run it as root (sudo)",
        ),
        ("8", |jetson| jetson.write("/double/fan_does_not_start", ""), "fan_profile: `systemctl --job-mode=ignore-dependencies start", "earlier changes were undone"),
        (
            "7",
            |jetson| jetson.write("/double/clocks_stop_at", "gpu\n"),
            "clocks: it was set, but reads back differently: found free, expected max (17000000.gv11b ranges from ",
            "earlier changes were undone",
        ),
        (
            "8",
            |jetson| {
                jetson.remove(PARANOID);
                symlink(READ_ONLY, jetson.path(PARANOID)).expect("linked");
            },
            "perf_event_paranoid: cannot write",
            "earlier changes were undone",
        ),
    ];
    for (mode, fault, start, end) in cases {
        let is_number = |text: String| text.trim().parse::<i32>().is_ok();
        let has_read_only = fs::read_to_string(READ_ONLY).is_ok_and(is_number);
        if start.starts_with("perf_event") && !has_read_only {
            eprintln!("skipped: this system has no {READ_ONLY} to stand for a read-only setting");
            continue;
        }
        let jetson = VirtualJetson::xavier_nx();
        fault(&jetson);
        // The system may count on in the file that stands for a setting.
        let settings = || {
            let all = jetson.settings();
            let lines = all.lines().filter(|line| !line.starts_with(PARANOID));
            lines.collect::<Vec<_>>().join("\n")
        };
        let before = settings();
        let error = apply(&jetson.root(), &all_settings(mode)).expect_err(start);
        let text = error.to_string();
        // Root may not write there either, and is told so.
        let is_advised =
            text.ends_with(end) || (end.contains("root") && text.contains("read only"));
        assert!(text.starts_with(start) && is_advised, "{text}");
        assert_eq!(settings(), before, "{text}");
        assert!(!jetson.root().exists("/var/lib/jetwatch-setup"), "{text}");
    }
}

#[test]
fn impossible_settings_are_rejected_before_any_change() {
    let jetson = VirtualJetson::xavier_nx();
    let before = jetson.settings();
    let mut wanted = all_settings("MAXN");
    wanted.fan_profile = Some("silent".to_owned());
    let error = apply(&jetson.root(), &wanted)
        .expect_err("no such mode and profile")
        .to_string();
    assert!(error.starts_with("nothing was changed"), "{error}");
    assert_has!(error => "power_mode: found no power mode \"MAXN\", expected one of 0 MODE_15W_2CORE");
    assert_has!(error => "fan_profile: found no fan profile \"silent\", expected one of cool, quiet");

    jetson.remove("/usr/bin/jetson_clocks");
    let error = apply(&jetson.root(), &all_settings("8"))
        .expect_err("a tool is missing")
        .to_string();
    assert_has!(error => "clocks: the tool jetson_clocks is not installed");
    assert_eq!(jetson.settings(), before);
    assert!(jetson.calls("nvpmodel -m").is_empty());

    let pc = tempfile::tempdir().expect("a temporary folder");
    let error = apply(&SysRoot::new(pc.path()), &all_settings("8"))
        .expect_err("no Jetson")
        .to_string();
    assert_has!(error =>
        "power_mode: the tool nvpmodel is not installed", "clocks: the tool jetson_clocks is not installed",
        "fan_profile: the tool nvfancontrol is not installed", "perf_event_paranoid is missing");
}

#[test]
fn restore_keeps_values_changed_by_others() {
    let jetson = VirtualJetson::xavier_nx();
    let wanted = DesiredSettings {
        perf_event_paranoid: Some(2),
        power_mode: Some("8".to_owned()),
        ..DesiredSettings::default()
    };
    apply(&jetson.root(), &wanted).expect("applied");
    jetson.write("/proc/sys/kernel/perf_event_paranoid", "0\n");
    let restored = restore(&jetson.root()).expect("given back");
    let outcomes: Vec<_> = restored
        .iter()
        .map(|one| (one.setting, one.outcome))
        .collect();
    assert_eq!(
        outcomes,
        [
            (Setting::PerfEventParanoid, Outcome::ChangedSince),
            (Setting::PowerMode, Outcome::GivenBack)
        ]
    );
    assert_eq!(jetson.text("/proc/sys/kernel/perf_event_paranoid"), "0");
}

#[test]
fn clocks_are_reapplied_after_mode_change() {
    let jetson = VirtualJetson::xavier_nx();
    let root = jetson.root();
    let before = jetson.settings();
    apply(&root, &all_settings("8")).expect("applied");
    // Manually: the clocks are released.
    let tool = jetson.path("/usr/sbin/nvpmodel");
    let by_hand = Command::new(tool)
        .args(["-m", "1"])
        .status()
        .expect("it starts");
    assert!(by_hand.success());
    jetson.write("/sys/class/devfreq/17000000.gv11b/min_freq", "114750000\n");
    jetson.write(
        "/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked",
        "0\n",
    );
    let first_two = [StepState::Differs, StepState::Differs];
    assert_eq!(states(&root, &all_settings("8"))[..2], first_two);
    apply(&root, &all_settings("8")).expect("applied");
    assert_eq!(states(&root, &all_settings("8")), vec![StepState::Right; 4]);

    // By configuration: restored, changed, held again.
    apply(&root, &all_settings("7")).expect("applied");
    assert_eq!(states(&root, &all_settings("7")), vec![StepState::Right; 4]);
    restore(&root).expect("given back");
    assert_eq!(jetson.settings(), before);
}

#[test]
fn restore_keeps_cpus_and_limits_of_custom_mode() {
    let jetson = VirtualJetson::xavier_nx();
    let root = jetson.root();
    let clocks = DesiredSettings {
        clocks: Some(Clocks::Max),
        ..DesiredSettings::default()
    };
    let by_hand = |mode: &str| {
        let tool = jetson.path("/usr/sbin/nvpmodel");
        let status = Command::new(tool).args(["-m", mode]).status();
        assert!(status.expect("it starts").success());
    };
    let online = |cpu: u32| jetson.text(&format!("/sys/devices/system/cpu/cpu{cpu}/online"));
    let lower = || jetson.text("/sys/devices/system/cpu/cpu1/cpufreq/scaling_min_freq");
    let memory = || jetson.text("/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked");
    by_hand("0");
    assert_eq!((online(1), online(5)), ("1".to_owned(), "0".to_owned()));
    for holds_again in [false, true] {
        by_hand("0");
        apply(&root, &clocks).expect("applied");
        // The desktop's menu, while the clocks are held.
        by_hand("8");
        jetson.write(
            "/sys/devices/system/cpu/cpu1/cpufreq/scaling_min_freq",
            "729600\n",
        );
        assert_eq!(states(&root, &clocks), [StepState::Differs]);
        if holds_again {
            let step = reapply(&root).expect("held").expect("they were held");
            assert_eq!(step.state, StepState::Differs);
            assert_eq!(states(&root, &clocks), [StepState::Right]);
            assert_eq!(lower(), "1804800");
            let step = reapply(&root).expect("held").expect("they are held");
            assert_eq!(step.state, StepState::Right);
        }
        restore(&root).expect("given back");
        assert_eq!(online(5), "1", "the new mode has six processors");
        assert_eq!(lower(), "729600", "the new mode's limit");
        assert_eq!(memory(), "0");
        assert!(!root.exists("/var/lib/jetwatch-setup"), "something is left");
        assert_eq!(reapply(&root).expect("nothing to do"), None);
        assert_eq!(lower(), "729600");
    }
}

#[test]
fn reboot_clears_saved_clocks() {
    let jetson = VirtualJetson::xavier_nx();
    let root = jetson.root();
    apply(&root, &all_settings("8")).expect("applied");
    // The mode and the fan's profile stay, the rest is reset at boot.
    jetson.write("/proc/sys/kernel/random/boot_id", "another\n");
    jetson.write("/proc/sys/kernel/perf_event_paranoid", "4\n");
    jetson.write("/sys/class/devfreq/17000000.gv11b/min_freq", "114750000\n");
    jetson.write(
        "/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked",
        "0\n",
    );
    for cpu in ["cpu0", "cpu1"] {
        let path = format!("/sys/devices/system/cpu/{cpu}/cpufreq/scaling_min_freq");
        jetson.write(&path, "192000\n");
    }
    let before = jetson.settings();
    apply(&root, &all_settings("8")).expect("applied");
    assert_eq!(states(&root, &all_settings("8")), vec![StepState::Right; 4]);
    restore(&root).expect("given back");
    assert_eq!(jetson.text("/proc/sys/kernel/perf_event_paranoid"), "4");
    assert_ne!(
        jetson.settings(),
        before,
        "mode and fan are those before the first start"
    );
    assert_eq!(jetson.text("/var/lib/nvpmodel/status"), "pmode:0002");
    assert_eq!(jetson.text("/double/fan"), "quiet");
}

#[test]
fn concurrent_tune_commands_are_serialized() {
    let jetson = VirtualJetson::xavier_nx();
    thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| apply(&jetson.root(), &all_settings("8"))));
        for one in both {
            one.join().expect("no panic").expect("applied");
        }
    });
    assert_eq!(jetson.calls("nvpmodel -m").len(), 1);
    assert_eq!(jetson.calls("jetson_clocks --store").len(), 1);
}

#[test]
fn damaged_saved_state_is_error() {
    let jetson = VirtualJetson::xavier_nx();
    jetson.write(SAVED_STATE, "{\"settings\":");
    let error = restore(&jetson.root()).expect_err("damaged").to_string();
    assert!(error.contains("tune.json:1: found"), "{error}");
    assert!(apply(&jetson.root(), &all_settings("8")).is_err());
    assert_eq!(jetson.text("/var/lib/nvpmodel/status"), "pmode:0002");
}

/// Runs `jetwatch tune` with a configuration whose section `tune` is this.
fn command(jetson: &VirtualJetson, arguments: &[&str], tune: &str) -> Output {
    let sources = "sources: [{name: a, uri: synthetic://traffic}]\ndetector: {backend: scripted}\n";
    jetson.write(
        "/etc/jetwatch/jetwatch.yaml",
        &format!("{sources}tune: {tune}\n"),
    );
    Command::new(env!("CARGO_BIN_EXE_jetwatch"))
        .arg("tune")
        .args(arguments)
        .arg("--config")
        .arg(jetson.path("/etc/jetwatch/jetwatch.yaml"))
        .arg("--root")
        .arg(jetson.path("/"))
        .stdin(Stdio::null())
        .output()
        .expect("jetwatch starts")
}

#[test]
fn tune_command_plans_applies_and_restores() {
    let jetson = VirtualJetson::xavier_nx();
    let tune = "{power_mode: \"8\", clocks: max, fan_profile: cool, perf_event_paranoid: 2}";
    let status = command(&jetson, &["status"], tune);
    assert_eq!(status.status.code(), Some(1), "{status:?}");
    let text = stdout(&status);
    assert!(
        text.starts_with("machine: Jetson Xavier NX (p3668-0001), L4T 35.4.1, JetPack 5.1.2\n")
    );
    let row = text.lines().find(|line| line.starts_with("power_mode "));
    let words = row.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "));
    let wanted = "power_mode 8 MODE_20W_6CORE 2 MODE_15W_6CORE differs";
    assert_eq!(words.as_deref(), Some(wanted), "{text}");
    assert_has!(text => "throttled: VDD_CPU_GPU_CV draws", "since the start of the machine: oc3 occurred 4 times");

    let plan = command(&jetson, &["plan"], tune);
    assert!(plan.status.success(), "{plan:?}");
    let applied = command(&jetson, &["apply"], tune);
    assert!(applied.status.success(), "{applied:?}");
    assert!(stdout(&applied).contains("power_mode: 8 MODE_20W_6CORE, was 2 MODE_15W_6CORE\n"));

    let status = command(&jetson, &["status", "--json"], tune);
    assert!(status.status.success(), "{status:?}");
    let json: serde_json::Value = serde_json::from_str(&stdout(&status)).expect("JSON");
    assert_eq!(json["machine"]["family"], "xavier_nx");
    assert_eq!(json["machine"]["release"], "35.4.1");
    assert_eq!(json["settings"][1]["setting"], "clocks");
    assert_eq!(json["settings"][1]["state"], "right");
    assert_eq!(json["readings"]["rails"][0]["name"], "VDD_IN");

    let kept = command(&jetson, &["restore", "--on-stop"], tune);
    assert!(
        kept.status.success() && jetson.text("/double/fan") == "cool",
        "{kept:?}"
    );
    let restored = command(&jetson, &["restore"], tune);
    assert!(restored.status.success(), "{restored:?}");
    assert!(stdout(&restored).contains("fan_profile: restored to quiet"));

    let stopping = "{fan_profile: cool, restore_on_stop: true}";
    assert!(command(&jetson, &["apply"], stopping).status.success());
    assert_eq!(jetson.text("/double/fan"), "cool");
    assert!(
        command(&jetson, &["restore", "--on-stop"], stopping)
            .status
            .success()
    );
    assert_eq!(jetson.text("/double/fan"), "quiet");
}

#[test]
fn tune_command_reports_impossible_settings() {
    let jetson = VirtualJetson::orin_nx();
    jetson.write("/double/reboot_modes", "0\n");
    let refused = command(&jetson, &["plan"], "{power_mode: 40W}");
    assert_eq!(refused.status.code(), Some(1));
    assert!(stdout(&refused).contains("expected one of 0 MAXN, 1 10W, 2 15W, 3 25W"));
    let asked = command(&jetson, &["apply"], "{power_mode: MAXN}");
    assert_eq!(asked.status.code(), Some(1));
    let text = String::from_utf8_lossy(&asked.stderr);
    assert_has!(text => "nvpmodel changes to mode 0 MAXN only with a reboot");
    let wrong = command(&jetson, &["apply"], "{power_mode: 8, clocks: high}");
    assert_eq!(wrong.status.code(), Some(78), "{wrong:?}");
    let nothing = command(&jetson, &["apply"], "");
    assert!(nothing.status.success(), "{nothing:?}");
    assert!(stdout(&nothing).contains("nothing to do"));
}
