//! What each step changes, and its note where it cannot.

use super::*;

/// Two sources, a model in two precisions, and a secondary network.
fn config() -> Config {
    let mut config = Config::for_source_with(
        "synthetic://traffic?seed=1",
        None,
        &[("detector.workers".to_owned(), "3".to_owned())],
    )
    .expect("it is sound");
    let mut second = config.sources[0].clone();
    second.name = "second".to_owned();
    second.interval = Some(Interval::Frames(4));
    config.sources.push(second);
    config
}

fn with_secondary(mut config: Config) -> Config {
    config.secondary = vec![jetwatch_config::SecondaryConfig {
        name: "light".to_owned(),
        model: "light".into(),
        precision: None,
        on: None,
        classes: Vec::new(),
        batch_size: 1,
        batch_timeout: std::time::Duration::from_millis(10),
        workers: 2,
        min_object: jetwatch_types::Size::new(16, 16),
        reinfer_interval: 30,
        vote_frames: 5,
        threshold: None,
    }];
    config
}

fn capabilities() -> Capabilities {
    Capabilities {
        primary: Some(vec!["fp32".to_owned(), "int8".to_owned()]),
        secondary: vec![vec!["fp32".to_owned()]],
        is_batch_one_only: false,
        runs_on_cpu: false,
        recording_error: None,
    }
}

/// What a step runs, in a line: workers, batch, precision, interval, crops, workers of the secondary network.
fn summary(config: &Config) -> String {
    let detector = &config.detector;
    let network = &config.secondary[0];
    format!(
        "{} {} {:?} {:?} {:?}, {} {}",
        detector.workers,
        detector.batch_size,
        detector.precision.as_deref().unwrap_or("-"),
        detector.interval,
        config.sources[1].interval,
        network.batch_size,
        network.workers
    )
}

#[test]
fn each_ablation_step_changes_one_thing() {
    let config = with_secondary(config());
    let lines = AblationStep::ALL.map(|step| summary(&step.apply(&config, &capabilities()).config));
    let wanted = [
        "1 1 \"fp32\" Frames(0) None, 1 1",
        "3 1 \"fp32\" Frames(0) None, 1 2",
        "3 1 \"fp32\" Frames(0) None, 1 2",
        "3 1 \"fp32\" Frames(0) None, 1 2",
        "3 2 \"fp32\" Frames(0) None, 8 2",
        "3 2 \"int8\" Frames(0) None, 8 2",
        "3 2 \"int8\" Frames(3) Some(Frames(4)), 8 2",
    ];
    assert_eq!(lines, wanted);
    assert_eq!(
        AblationStep::ALL.map(AblationStep::renders),
        [true, true, false, false, false, false, false]
    );
    assert_eq!(
        AblationStep::ALL.map(AblationStep::scales_in_worker),
        [true, true, true, false, false, false, false]
    );
    assert_eq!(
        AblationStep::ALL.map(|step| AblationStep::by_number(step.number())),
        AblationStep::ALL.map(Some)
    );
    assert_eq!(
        (AblationStep::by_number(0), AblationStep::by_number(8)),
        (None, None)
    );
    for step in AblationStep::ALL {
        for source in &step.apply(&config, &capabilities()).config.sources {
            assert!(source.loop_at_end && !source.uri.is_live(), "{step:?}");
        }
    }
}

#[test]
fn ablation_step_without_effect_has_note() {
    let mut config = config();
    config.sources.truncate(1);
    let capabilities = Capabilities {
        primary: Some(vec!["fp16".to_owned()]),
        recording_error: Some("no encoder".to_owned()),
        ..Capabilities::default()
    };
    let notes = AblationStep::ALL.map(|step| step.apply(&config, &capabilities).notes.join("; "));
    let wanted = [
        "nothing is drawn: no encoder; this model has no FP32: its first precision in its place",
        "",
        "same as before: nothing was drawn",
        "a drawn scene is drawn in the size that is asked for: part of this gain is its own",
        "same as before: one source gives single frames, and no secondary network",
        "this model has no INT8",
        "inference on every 4th frame",
    ];
    assert_eq!(notes, wanted);
    let capabilities = Capabilities {
        is_batch_one_only: true,
        ..self::capabilities()
    };
    let single = AblationStep::Batched.apply(&with_secondary(self::config()), &capabilities);
    assert_eq!(single.config.detector.batch_size, 1, "two sources");
    assert_eq!(
        single.notes,
        ["8 crops of light; the network takes one frame at a time"]
    );
    let scripted = AblationStep::Int8.apply(&config, &Capabilities::default());
    assert!(
        scripted.notes[0].contains("scripted"),
        "{:?}",
        scripted.notes
    );
}

#[test]
fn cpu_uses_its_own_int8_model() {
    let kinds = ["fp32", "int8", "int8_cpu"].map(str::to_owned).to_vec();
    let mut capabilities = Capabilities {
        primary: Some(kinds.clone()),
        secondary: vec![kinds],
        ..capabilities()
    };
    let mut found = Vec::new();
    for runs_on_cpu in [false, true] {
        capabilities.runs_on_cpu = runs_on_cpu;
        let light = AblationStep::Int8
            .apply(&with_secondary(config()), &capabilities)
            .config;
        found.push(light.detector.precision);
        found.push(light.secondary[0].precision.clone());
    }
    let wanted = ["int8", "int8", "int8_cpu", "int8_cpu"];
    assert_eq!(found, wanted.map(|kind| Some(kind.to_owned())));
    capabilities.primary = Some(vec!["fp32".to_owned(), "int8".to_owned()]);
    let light = AblationStep::Int8.apply(&config(), &capabilities).config;
    assert_eq!(light.detector.precision.as_deref(), Some("int8"));
}

#[test]
fn dla_is_used_only_in_last_steps() {
    let mut config = config();
    config.detector.tensorrt.dla = Some(1);
    let layouts = AblationStep::ALL.map(|step| step.apply(&config, &capabilities()));
    let dla = |layout: &StepConfig| layout.config.detector.tensorrt.dla;
    assert_eq!(
        layouts.each_ref().map(dla),
        [None, None, None, None, None, Some(1), Some(1)]
    );
    assert_eq!(
        layouts[0].notes,
        ["on the GPU up to the last step: a DLA has no FP32"]
    );
    assert!(
        layouts[5]
            .notes
            .contains(&"on DLA 1, as configured".to_owned()),
        "{:?}",
        layouts[5].notes
    );
    // Without FP32 it runs as it is configured.
    let capabilities = Capabilities {
        primary: Some(vec!["fp16".to_owned()]),
        ..Capabilities::default()
    };
    let first = AblationStep::Naive.apply(&config, &capabilities);
    assert_eq!(dla(&first), Some(1));
}

#[test]
fn configured_settings_are_the_last_step() {
    let mut config = with_secondary(config());
    config.detector.batch_size = 6;
    config.detector.interval = Interval::Frames(1);
    config.secondary[0].batch_size = 5;
    let best = AblationStep::Interval
        .apply(&config, &capabilities())
        .config;
    assert_eq!(
        summary(&best),
        "3 6 \"int8\" Frames(1) Some(Frames(4)), 5 2"
    );
    // INT8 of another kind.
    config.detector.precision = Some("int8_cpu".to_owned());
    let precision = |step: AblationStep| {
        step.apply(&config, &capabilities())
            .config
            .detector
            .precision
    };
    assert_eq!(precision(AblationStep::Batched).as_deref(), Some("fp32"));
    assert_eq!(precision(AblationStep::Int8).as_deref(), Some("int8_cpu"));
    config.detector.precision = None;
    // INT8 that TensorRT makes by a calibration.
    config.detector.tensorrt.calibration = Some("calibration.cache".into());
    let capabilities = Capabilities {
        primary: Some(vec!["fp32".to_owned()]),
        ..capabilities()
    };
    let calibrated = |step: AblationStep| {
        let detector = step.apply(&config, &capabilities).config.detector;
        (detector.precision, detector.tensorrt.calibration.is_some())
    };
    assert_eq!(
        calibrated(AblationStep::Batched),
        (Some("fp32".to_owned()), false)
    );
    assert_eq!(calibrated(AblationStep::Int8), (None, true));
}

#[test]
fn settings_of_a_step_make_its_configuration() {
    let mut config = with_secondary(config());
    config.detector.precision = Some("fp16".to_owned());
    config.detector.tensorrt.calibration = Some("calibration.cache".into());
    config.detector.interval = Interval::Frames(2);
    for step in AblationStep::ALL {
        let applied = step.apply(&config, &capabilities()).config;
        let settings = changed_settings(&config, &applied);
        let mut again = config.clone();
        for (key, value) in &settings {
            set(&mut again, key, value);
        }
        assert_eq!(again.detector, applied.detector, "{step:?}: {settings:?}");
        assert_eq!(again.secondary, applied.secondary, "{step:?}: {settings:?}");
        let intervals = |config: &Config| -> Vec<_> {
            config
                .sources
                .iter()
                .map(|source| source.interval)
                .collect()
        };
        assert_eq!(intervals(&again), intervals(&applied), "{step:?}");
        assert_eq!(changed_settings(&applied, &applied), []);
    }
}

/// Sets a key of the steps.
fn set(config: &mut Config, key: &str, value: &str) {
    let text = || (value != "null").then(|| value.to_owned());
    let number = || value.parse::<usize>().expect("a number");
    let interval = || value.parse::<u32>().ok().map(Interval::Frames);
    let (detector, secondary) = (&mut config.detector, &mut config.secondary);
    match key {
        "detector.workers" => detector.workers = number(),
        "detector.batch_size" => detector.batch_size = number(),
        "detector.precision" => detector.precision = text(),
        "detector.interval" => detector.interval = interval().expect("a number"),
        "detector.tensorrt.calibration" => {
            detector.tensorrt.calibration = text().map(|path| path.trim_matches('"').into());
        }
        "sources[1].interval" => config.sources[1].interval = interval(),
        "secondary[0].workers" => secondary[0].workers = number(),
        "secondary[0].batch_size" => secondary[0].batch_size = number(),
        "secondary[0].precision" => secondary[0].precision = text(),
        other => panic!("{other}"),
    }
}
