// SPDX-License-Identifier: Apache-2.0
//! Each state of a cache, and the message for it.

use super::super::ListedState;
use super::super::spec::tests::engine_spec;
use super::*;
use jetwatch_nvidia::tensorrt::Version;

fn cache() -> (tempfile::TempDir, EngineCache) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = EngineCache::new(&folder.path().join("engines"));
    (folder, cache)
}

/// The usual spec with a change.
fn with(change: impl FnOnce(&mut EngineSpec)) -> EngineSpec {
    let mut spec = engine_spec();
    change(&mut spec);
    spec
}

fn lock(cache: &EngineCache) -> Lock {
    let lock = cache.lock(&mut |_| false).expect("the folder is writable");
    lock.expect("no other build runs")
}

fn store(cache: &EngineCache, spec: &EngineSpec, plan: &[u8]) -> PathBuf {
    let manifest = Manifest::new(spec.cache_key_fields(), plan, 1.0, None);
    let stored = cache.store(manifest, plan.to_vec(), &lock(cache));
    stored.expect("there is space").path
}

fn missing(cache: &EngineCache, spec: &EngineSpec) -> String {
    match cache.find(spec).expect("the folder can be read") {
        Lookup::Miss(missing) => missing.to_string(),
        Lookup::Found(found) => panic!("{found:?}"),
    }
}

#[test]
fn a_stored_engine_is_found_with_its_bytes() {
    let (_folder, cache) = cache();
    let spec = engine_spec();
    let path = store(&cache, &spec, b"a plan");
    let Lookup::Found(found) = cache.find(&spec).expect("readable") else {
        panic!("it was just stored");
    };
    let wanted = (path, b"a plan".as_slice());
    assert_eq!((found.path, found.plan.as_slice()), wanted);
    assert_eq!(found.manifest.recipe, spec.cache_key_fields());
    let names: Vec<String> = fs::read_dir(cache.folder())
        .expect("it is there")
        .map(|entry| file_name(&entry.expect("readable").path()))
        .filter(|name| name.ends_with(".partial"))
        .collect();
    assert_eq!(names, Vec::<String>::new());
}

#[test]
fn empty_or_missing_cache_folder_has_no_engines() {
    let (_folder, cache) = cache();
    let message = missing(&cache, &engine_spec());
    assert!(
        message.starts_with("no TensorRT engine of tiny in int8 was built yet (searched ")
            && message.contains("; build it with: jetwatch engine build --model models/tiny --precision int8 --batch 4 --workers 2 --engines "),
        "{message}"
    );
    assert_eq!(cache.list().expect("no folder is no error"), []);
    // Other models and precisions do not count as near.
    let other = with(|spec| spec.model = "large".to_owned());
    store(&cache, &other, b"plan");
    assert!(missing(&cache, &engine_spec()).starts_with("no TensorRT engine of tiny"));
}

/// Each difference alone is tested where they are worded.
#[test]
fn all_differences_to_the_nearest_engine_are_reported() {
    let near = with(|spec| {
        spec.version = Version::new(10, 3, 0);
        spec.contexts = 1;
    });
    // A second one, further away, must not be the one that is reported of.
    let far = EngineSpec {
        batch: 64,
        workspace_mib: Some(1),
        ..near.clone()
    };
    let (_folder, cache) = cache();
    store(&cache, &far, b"far");
    store(&cache, &near, b"near");
    let message = missing(&cache, &engine_spec());
    let start = format!(
        "the engine {} does not fit: it was built by TensorRT 10.3.0, and TensorRT 8.5.2 is here; it was built with \
         detector.workers at 1, and 2 is configured; build it with: ",
        near.file_name()
    );
    assert!(message.starts_with(&start), "{message}");
}

#[test]
fn damaged_engines_and_missing_or_truncated_manifests_are_reported() {
    let (_folder, cache) = cache();
    let spec = engine_spec();
    let path = store(&cache, &spec, b"a plan");
    let file = spec.file_name();

    fs::write(&path, b"a plum").expect("written");
    let message = missing(&cache, &spec);
    assert!(
        message.starts_with(&format!("the engine {file} is damaged: its SHA-256 is ")),
        "{message}"
    );
    fs::write(&path, b"a").expect("written");
    let message = missing(&cache, &spec);
    assert!(
        message.contains("is damaged: it has 1 bytes, expected 6 by its manifest"),
        "{message}"
    );
    fs::write(&path, b"a plan").expect("written");

    let manifest = manifest_of(&path);
    let text = fs::read(&manifest).expect("written above");
    fs::write(&manifest, &text[..40]).expect("written");
    let message = missing(&cache, &spec);
    assert!(
        message.starts_with(&format!("the manifest {file}.json cannot be read: ")),
        "{message}"
    );
    fs::remove_file(&manifest).expect("removed");
    let message = missing(&cache, &spec);
    assert!(
        message.starts_with(&format!("the engine {file} has no manifest")),
        "{message}"
    );

    // Under another engine's name it is not that engine.
    fs::write(&manifest, &text).expect("written");
    let other = EngineSpec { batch: 8, ..spec };
    let renamed = cache.path_of(&other);
    fs::rename(&path, &renamed).expect("renamed");
    fs::rename(&manifest, manifest_of(&renamed)).expect("renamed");
    let message = missing(&cache, &other);
    assert!(
        message.contains("it was built for batches up to 4, and 8 is configured"),
        "{message}"
    );
}

#[test]
fn the_list_has_the_state_of_each_engine() {
    let (_folder, cache) = cache();
    let whole = engine_spec();
    let damaged = with(|spec| spec.batch = 2);
    let orphan = with(|spec| spec.batch = 3);
    let alone = with(|spec| spec.batch = 5);
    for spec in [&whole, &damaged, &orphan, &alone] {
        store(&cache, spec, b"a plan");
    }
    fs::write(cache.path_of(&damaged), b"a plum").expect("written");
    fs::remove_file(manifest_of(&cache.path_of(&orphan))).expect("removed");
    fs::remove_file(cache.path_of(&alone)).expect("removed");
    let list = cache.list().expect("readable");
    let state = |spec: &EngineSpec| {
        let path = cache.path_of(spec);
        let listed = list.iter().find(|listed| listed.path == path);
        listed.expect("it is listed").state.clone()
    };
    assert_eq!(list.len(), 4);
    assert_eq!(state(&whole), ListedState::Whole);
    assert!(matches!(state(&damaged), ListedState::Damaged(what) if what.contains("SHA-256")));
    let wanted = ListedState::Incomplete("it has no manifest".to_owned());
    assert_eq!(state(&orphan), wanted);
    let wanted = ListedState::Incomplete("there is a manifest alone".to_owned());
    assert_eq!(state(&alone), wanted);
}

#[test]
fn only_engines_of_another_version_are_pruned() {
    let (_folder, cache) = cache();
    let kept = engine_spec();
    let old = with(|spec| spec.version = Version::new(8, 5, 1));
    let newer = with(|spec| spec.version = Version::new(10, 3, 0));
    let other = with(|spec| {
        spec.batch = 1;
        spec.version = Version::new(8, 5, 1);
    });
    for spec in [&kept, &old, &newer, &other] {
        store(&cache, spec, b"plan");
    }
    let Lookup::Found(found) = cache.find(&kept).expect("readable") else {
        panic!("it was stored");
    };
    let mut removed = cache.prune(&found.manifest).expect("writable");
    removed.sort();
    assert_eq!(removed, [cache.path_of(&newer), cache.path_of(&old)]);
    for (spec, is_there) in [
        (&kept, true),
        (&old, false),
        (&newer, false),
        (&other, true),
    ] {
        assert_eq!(cache.path_of(spec).exists(), is_there, "{spec:?}");
        assert_eq!(
            manifest_of(&cache.path_of(spec)).exists(),
            is_there,
            "{spec:?}"
        );
    }
}

#[test]
fn timing_cache_is_shared_per_version_and_gpu() {
    let (_folder, cache) = cache();
    let spec = engine_spec();
    assert_eq!(cache.timing_cache(&spec), None);
    cache
        .save_timing_cache(&spec, b"times", &lock(&cache))
        .expect("writable");
    let same = EngineSpec {
        batch: 9,
        ..spec.clone()
    };
    assert_eq!(
        cache.timing_cache(&same).as_deref(),
        Some(b"times".as_slice())
    );
    let other = EngineSpec {
        version: Version::new(8, 6, 1),
        ..spec
    };
    assert_eq!(cache.timing_cache(&other), None);
}
