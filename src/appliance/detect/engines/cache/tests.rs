//! Each state of a cache, and the sentence that tells it.

use super::super::recipe::tests::recipe;
use super::super::{Calibration, Gpu, ListedState};
use super::*;
use jetwatch_nvidia::tensorrt::Version;

fn cache() -> (tempfile::TempDir, EngineCache) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = EngineCache::new(&folder.path().join("engines"));
    (folder, cache)
}

fn lock(cache: &EngineCache) -> Lock {
    let lock = cache.lock(&mut |_| false).expect("the folder is writable");
    lock.expect("nobody else builds")
}

fn store(cache: &EngineCache, recipe: &Recipe, plan: &[u8]) -> PathBuf {
    let manifest = Manifest::new(recipe.ingredients(), plan, 1.0, None);
    let stored = cache.store(manifest, plan.to_vec(), &lock(cache));
    stored.expect("there is room").path
}

fn missing(cache: &EngineCache, recipe: &Recipe) -> String {
    match cache.find(recipe).expect("the folder can be read") {
        Lookup::Missing(missing) => missing.to_string(),
        Lookup::Found(found) => panic!("{found:?}"),
    }
}

#[test]
fn a_stored_engine_is_found_with_its_bytes() {
    let (_folder, cache) = cache();
    let recipe = recipe();
    let path = store(&cache, &recipe, b"a plan");
    let Lookup::Found(found) = cache.find(&recipe).expect("readable") else {
        panic!("it was just stored");
    };
    assert_eq!(
        (found.path, found.plan.as_slice()),
        (path, b"a plan".as_slice())
    );
    assert_eq!(found.manifest.recipe, recipe.ingredients());
    let names: Vec<String> = fs::read_dir(cache.folder())
        .expect("it is there")
        .map(|entry| file_name(&entry.expect("readable").path()))
        .filter(|name| name.ends_with(".partial"))
        .collect();
    assert_eq!(names, Vec::<String>::new());
}

#[test]
fn an_empty_cache_and_one_without_a_folder_have_nothing() {
    let (_folder, cache) = cache();
    let said = missing(&cache, &recipe());
    assert!(
        said.starts_with("no TensorRT engine of tiny in int8 was built yet (searched ")
            && said.contains("; build it with: jetwatch engine build --model models/tiny --precision int8 --batch 4 --workers 2 --engines "),
        "{said}"
    );
    assert_eq!(cache.list().expect("no folder is no error"), []);
    // Other models and precisions do not count as near.
    let mut other = recipe();
    other.model = "large".to_owned();
    store(&cache, &other, b"plan");
    assert!(missing(&cache, &recipe()).starts_with("no TensorRT engine of tiny"));
}

#[test]
fn what_the_nearest_engine_differs_in_is_said() {
    let wanted = recipe();
    let cases: [(Recipe, &str); 5] = [
        (
            Recipe {
                version: Version::new(10, 3, 0),
                contexts: 1,
                ..wanted.clone()
            },
            "it was built by TensorRT 10.3.0, and TensorRT 8.5.2 is here; it was built with detector.workers at 1, and 2 is configured",
        ),
        (
            Recipe {
                gpu: Gpu {
                    name: Some("Orin".to_owned()),
                    capability: (8, 7),
                },
                ..wanted.clone()
            },
            "it was built for the GPU Orin (compute capability 8.7), and Xavier (7.2) is wanted",
        ),
        (
            Recipe {
                batch: 1,
                ..wanted.clone()
            },
            "it was built for batches up to 1, and 4 is configured",
        ),
        (
            Recipe {
                calibration: Some(Calibration {
                    path: "c".into(),
                    sha256: Some("f".repeat(64)),
                }),
                ..wanted.clone()
            },
            "it was calibrated, and no calibration is configured",
        ),
        (
            {
                let mut other = wanted.clone();
                other.file.sha256 = "b".repeat(64);
                other
            },
            "it was built of another network (SHA-256 bbbbbbbbbbbb…), and the model's is aaaaaaaaaaaa…",
        ),
    ];
    for (other, text) in cases {
        let (_folder, cache) = cache();
        // A second one, further away, must not be the one that is told of.
        let far = Recipe {
            batch: 64,
            workspace_mib: Some(1),
            ..other.clone()
        };
        store(&cache, &far, b"far");
        store(&cache, &other, b"near");
        let said = missing(&cache, &wanted);
        let file = other.file_name();
        assert!(
            said.starts_with(&format!(
                "the engine {file} does not fit: {text}; build it with: "
            )),
            "{said}"
        );
    }
}

#[test]
fn damage_and_missing_or_torn_manifests_are_told() {
    let (_folder, cache) = cache();
    let recipe = recipe();
    let path = store(&cache, &recipe, b"a plan");
    let file = recipe.file_name();

    fs::write(&path, b"a plum").expect("written");
    let said = missing(&cache, &recipe);
    assert!(
        said.starts_with(&format!("the engine {file} is damaged: its SHA-256 is ")),
        "{said}"
    );
    fs::write(&path, b"a").expect("written");
    let said = missing(&cache, &recipe);
    assert!(
        said.contains("is damaged: it has 1 bytes, and its manifest says 6"),
        "{said}"
    );
    fs::write(&path, b"a plan").expect("written");

    let manifest = manifest_of(&path);
    let text = fs::read(&manifest).expect("written above");
    fs::write(&manifest, &text[..40]).expect("written");
    let said = missing(&cache, &recipe);
    assert!(
        said.starts_with(&format!("the manifest {file}.json cannot be read: ")),
        "{said}"
    );
    fs::remove_file(&manifest).expect("removed");
    let said = missing(&cache, &recipe);
    assert!(
        said.starts_with(&format!("the engine {file} has no manifest beside it")),
        "{said}"
    );

    // Under another engine's name it is not that engine.
    fs::write(&manifest, &text).expect("written");
    let other = Recipe { batch: 8, ..recipe };
    let renamed = cache.path_of(&other);
    fs::rename(&path, &renamed).expect("renamed");
    fs::rename(&manifest, manifest_of(&renamed)).expect("renamed");
    let said = missing(&cache, &other);
    assert!(
        said.contains("it was built for batches up to 4, and 8 is configured"),
        "{said}"
    );
}

#[test]
fn the_list_tells_the_state_of_each() {
    let (_folder, cache) = cache();
    let whole = recipe();
    let damaged = Recipe {
        batch: 2,
        ..recipe()
    };
    let orphan = Recipe {
        batch: 3,
        ..recipe()
    };
    let alone = Recipe {
        batch: 5,
        ..recipe()
    };
    for recipe in [&whole, &damaged, &orphan, &alone] {
        store(&cache, recipe, b"a plan");
    }
    fs::write(cache.path_of(&damaged), b"a plum").expect("written");
    fs::remove_file(manifest_of(&cache.path_of(&orphan))).expect("removed");
    fs::remove_file(cache.path_of(&alone)).expect("removed");
    let list = cache.list().expect("readable");
    let state = |recipe: &Recipe| {
        let path = cache.path_of(recipe);
        let listed = list.iter().find(|listed| listed.path == path);
        listed.expect("it is listed").state.clone()
    };
    assert_eq!(list.len(), 4);
    assert_eq!(state(&whole), ListedState::Whole);
    assert!(matches!(state(&damaged), ListedState::Damaged(what) if what.contains("SHA-256")));
    assert_eq!(
        state(&orphan),
        ListedState::Incomplete("it has no manifest".to_owned())
    );
    assert_eq!(
        state(&alone),
        ListedState::Incomplete("there is a manifest alone".to_owned())
    );
}

#[test]
fn only_engines_of_another_version_are_pruned() {
    let (_folder, cache) = cache();
    let kept = recipe();
    let old = Recipe {
        version: Version::new(8, 5, 1),
        ..recipe()
    };
    let newer = Recipe {
        version: Version::new(10, 3, 0),
        ..recipe()
    };
    let other = Recipe {
        batch: 1,
        version: Version::new(8, 5, 1),
        ..recipe()
    };
    for recipe in [&kept, &old, &newer, &other] {
        store(&cache, recipe, b"plan");
    }
    let Lookup::Found(found) = cache.find(&kept).expect("readable") else {
        panic!("it was stored");
    };
    let mut removed = cache.prune(&found.manifest).expect("writable");
    removed.sort();
    assert_eq!(removed, [cache.path_of(&newer), cache.path_of(&old)]);
    for (recipe, is_there) in [
        (&kept, true),
        (&old, false),
        (&newer, false),
        (&other, true),
    ] {
        assert_eq!(cache.path_of(recipe).exists(), is_there, "{recipe:?}");
        assert_eq!(
            manifest_of(&cache.path_of(recipe)).exists(),
            is_there,
            "{recipe:?}"
        );
    }
}

#[test]
fn kernel_times_are_shared_by_engines_of_one_version_and_gpu() {
    let (_folder, cache) = cache();
    let recipe = recipe();
    assert_eq!(cache.timing_cache(&recipe), None);
    cache
        .keep_timing_cache(&recipe, b"times", &lock(&cache))
        .expect("writable");
    let same = Recipe {
        batch: 9,
        ..recipe.clone()
    };
    assert_eq!(
        cache.timing_cache(&same).as_deref(),
        Some(b"times".as_slice())
    );
    let other = Recipe {
        version: Version::new(8, 6, 1),
        ..recipe
    };
    assert_eq!(cache.timing_cache(&other), None);
}
