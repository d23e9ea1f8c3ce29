//! Bundles that are not signed, and signed ones that are hostile: none is installed, and nothing of it stays behind.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use jetwatch_files::Sha256Digest;
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use crate::stage::stage;
use crate::test_bundles::{Publisher, Signer};
use crate::{BundleError, Store, TrustedKeys};

/// A machine that trusts one publisher.
struct Box {
    publisher: Publisher,
    keys: TrustedKeys,
    folder: TempDir,
    store: Store,
}

impl Box {
    fn new() -> Self {
        let publisher = Publisher::new();
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self {
            keys: publisher.signer.trusted(),
            store: Store::open(&folder.path().join("models")).expect("a store"),
            publisher,
            folder,
        }
    }

    /// The error of the bundle at `path`, of which nothing stays behind in or beside the store.
    fn refusal(&self, path: &Path) -> BundleError {
        let error = stage(&self.store, path, None, &self.keys).expect_err("refused");
        let mut names = Vec::new();
        collect(self.folder.path(), &mut names);
        names.sort();
        assert_eq!(
            names,
            ["models", "models/.lock", "models/.state"],
            "{error}"
        );
        error
    }

    /// The error of a signed archive with these bytes.
    fn refusal_of(&self, archive: &[u8]) -> String {
        let path = self.publisher.folder().join("street-9.tar");
        fs::write(&path, archive).expect("written");
        self.publisher.signer.sign(&path);
        match self.refusal(&path) {
            BundleError::Content { problem, .. } => problem,
            other => panic!("{other}"),
        }
    }
}

fn collect(folder: &Path, names: &mut Vec<String>) {
    fn below(root: &Path, folder: &Path, names: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            let name = path.strip_prefix(root).expect("below the root");
            names.push(name.display().to_string());
            if path.is_dir() {
                below(root, &path, names);
            }
        }
    }
    below(folder, folder, names);
}

/// The text of a manifest with these files of three bytes (`abc`).
fn manifest(paths: &[&str]) -> String {
    let sha256 = Sha256Digest::of(b"abc");
    let files: Vec<_> = ["models/model/model.yaml"]
        .iter()
        .chain(paths)
        .map(|path| serde_json::json!({"path": path, "bytes": 3, "sha256": sha256}))
        .collect();
    serde_json::json!({
        "format": 1, "name": "street", "serial": 9,
        "created": "2026-01-01T00:00:00Z", "expires": "2200-01-01T00:00:00Z",
        "min_jetwatch": "0.1.0", "models": [{"folder": "model"}], "files": files,
    })
    .to_string()
}

/// An archive that is written without any check.
#[derive(Default)]
struct RawArchive(Vec<u8>);

impl RawArchive {
    /// With the manifest of these files, and the first of them.
    fn with(paths: &[&str]) -> Self {
        let mut archive = Self::default();
        archive.file("manifest.json", manifest(paths).as_bytes());
        archive.file("models/model/model.yaml", b"abc");
        archive
    }

    fn file(&mut self, name: &str, content: &[u8]) -> &mut Self {
        self.entry(
            name,
            EntryType::Regular,
            None,
            content.len() as u64,
            content,
        )
    }

    fn entry(
        &mut self,
        name: &str,
        kind: EntryType,
        link: Option<&str>,
        bytes: u64,
        content: &[u8],
    ) -> &mut Self {
        let mut header = Header::new_ustar();
        // Written as bytes: the crate itself refuses such paths.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        if let Some(link) = link {
            header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        }
        header.set_entry_type(kind);
        header.set_mode(0o6777);
        header.set_size(bytes);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        bytes.resize(bytes.len() + 1024, 0);
        bytes
    }
}

#[test]
fn bundle_that_was_changed_is_not_verified() {
    let machine = Box::new();
    let packed = machine.publisher.publish(&machine.publisher.options(1));
    stage(&machine.store, &packed.path, None, &machine.keys).expect("untouched, it is accepted");
    let good = fs::read(&packed.path).expect("readable");
    let mut changed_byte = good.clone();
    changed_byte[700] ^= 1;
    let cases = [
        ("one byte changed", changed_byte),
        ("one byte more", [good.as_slice(), b"\0"].concat()),
        ("one byte less", good[..good.len() - 1].to_vec()),
        ("half of it", good[..good.len() / 2].to_vec()),
        ("nothing", Vec::new()),
    ];
    for (what, bytes) in cases {
        fs::write(&packed.path, bytes).expect("written");
        let error = machine.refusal(&packed.path).to_string();
        assert!(error.contains("not over these"), "{what}: {error}");
    }
}

#[test]
fn signature_must_be_one_of_a_trusted_key_over_this_bundle() {
    let machine = Box::new();
    let packed = machine.publisher.publish(&machine.publisher.options(1));
    let signature = fs::read_to_string(&packed.signature).expect("readable");
    let refusal = |text: &str| {
        fs::write(&packed.signature, text).expect("written");
        machine.refusal(&packed.path).to_string()
    };
    let error = refusal("");
    assert!(error.contains("is no signature"), "{error}");
    let error = refusal(&signature[..signature.len() / 2]);
    assert!(error.contains("is no signature"), "{error}");
    let error = refusal(&"a".repeat(10_000));
    assert!(error.contains("too long"), "{error}");
    // The comment says which version it is, to people who read it.
    let error = refusal(&signature.replace("a test", "a tess"));
    assert!(error.contains("not over these"), "{error}");
    let other = machine.publisher.publish(&machine.publisher.options(2));
    let error = refusal(&fs::read_to_string(other.signature).expect("readable"));
    assert!(error.contains("not over these"), "{error}");
    machine.publisher.signer.sign_legacy(&packed.path);
    let error = machine.refusal(&packed.path).to_string();
    assert!(error.contains("minisign -S"), "{error}");
    Signer::new().sign(&packed.path);
    let error = machine.refusal(&packed.path).to_string();
    assert!(error.contains("by another key than"), "{error}");
    fs::remove_file(&packed.signature).expect("removed");
    let error = machine.refusal(&packed.path).to_string();
    assert!(error.contains("cannot read the signature"), "{error}");
}

#[test]
fn any_of_several_trusted_keys_counts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (old, new) = (Publisher::new(), Publisher::new());
    for (publisher, name) in [(&old, "old.pub"), (&new, "new.pub")] {
        fs::copy(publisher.signer.public(), folder.path().join(name)).expect("copied");
    }
    let keys = TrustedKeys::read(folder.path()).expect("two keys");
    let store = Store::open(&folder.path().join("models")).expect("a store");
    for (publisher, key) in [(&old, "old.pub"), (&new, "new.pub")] {
        let packed = publisher.publish(&publisher.options(1));
        let staged = stage(&store, &packed.path, None, &keys).expect("trusted");
        assert_eq!(
            (staged.key.as_str(), staged.comment.as_str()),
            (key, "a test")
        );
    }
}

#[test]
fn signed_archive_holds_the_listed_files_and_nothing_else() {
    let machine = Box::new();
    let (a, b) = ("models/model/a", "models/model/b");
    let regular = EntryType::Regular;
    let link = |kind, to| {
        let mut archive = RawArchive::with(&[a]);
        archive.entry(a, kind, Some(to), 0, b"").bytes()
    };
    let other = |kind| {
        RawArchive::with(&[a])
            .entry(a, kind, None, 3, b"abc")
            .bytes()
    };
    let named = |name: &str| RawArchive::with(&[a]).file(name, b"abc").bytes();
    let manifest_of = |path: &str| RawArchive::with(&[path]).file(path, b"abc").bytes();
    let mut without_manifest = RawArchive::default();
    without_manifest.file(a, b"abc");
    let mut large_manifest = RawArchive::default();
    large_manifest.entry("manifest.json", regular, None, 1 << 40, b"{}");
    #[rustfmt::skip]
    let cases = [
        ("traversal in the manifest", manifest_of("models/model/../../../../x"), "found the path"),
        ("absolute in the manifest", manifest_of("/etc/cron.d/x"), "found the path"),
        ("hidden in the manifest", manifest_of("models/model/.x"), "found the path"),
        ("the state in the manifest", manifest_of(".state/street.json"), "found the path"),
        ("another folder", manifest_of("models/other/x"), "a file of a model folder"),
        ("twice in the manifest", manifest_of("models/model/model.yaml"), "is there twice"),
        ("traversal", named("models/model/../../../../x"), "expected the file models/model/a"),
        ("absolute", named("/etc/cron.d/x"), "expected the file"),
        ("not listed", named(b), "expected the file"),
        ("twice", named("models/model/model.yaml"), "expected the file"),
        ("a folder's name", named("models/model/a/"), "expected the file"),
        ("symbolic link", link(EntryType::Symlink, "/etc/passwd"), "of the type Symlink"),
        ("hard link", link(EntryType::Link, "/etc/passwd"), "of the type Link"),
        ("folder", link(EntryType::Directory, ""), "of the type Directory"),
        ("pipe", link(EntryType::Fifo, ""), "of the type Fifo"),
        ("character device", link(EntryType::Char, ""), "of the type Char"),
        ("block device", link(EntryType::Block, ""), "of the type Block"),
        ("sparse", other(EntryType::GNUSparse), "of the type GNUSparse"),
        ("long name", other(EntryType::GNULongName), "of the type GNULongName"),
        ("long link", other(EntryType::GNULongLink), "of the type GNULongLink"),
        ("extension", other(EntryType::XHeader), "of the type XHeader"),
        ("global extension", other(EntryType::XGlobalHeader), "of the type XGlobalHeader"),
        ("missing", RawArchive::with(&[a]).bytes(), "ends where models/model/a"),
        ("one more", RawArchive::with(&[]).file(b, b"abc").bytes(), "behind the last file"),
        ("other bytes", RawArchive::with(&[a]).file(a, b"abd").bytes(), "has the SHA-256"),
        ("longer", RawArchive::with(&[a]).file(a, b"abcd").bytes(), "has 4 bytes, expected 3"),
        ("a huge file", RawArchive::with(&[a]).entry(a, regular, None, 1 << 50, b"abc").bytes(), "expected 3 as in"),
        ("the archive ends in a file", RawArchive::with(&[]).bytes()[..1536 + 2].to_vec(), "ends after 2 of 3 bytes"),
        ("no manifest", without_manifest.bytes(), "expected the file manifest.json"),
        ("a huge manifest", large_manifest.bytes(), "expected 1048576 at most"),
        ("no archive", b"PK\x03\x04".repeat(400), "no complete tar archive"),
        ("nothing", RawArchive::default().bytes(), "ends where manifest.json is expected"),
    ];
    for (what, archive, expected) in cases {
        let problem = machine.refusal_of(&archive);
        assert!(problem.contains(expected), "{what}: {problem}");
    }
    let good = RawArchive::with(&[a]).file(a, b"abc").bytes();
    let path = machine.publisher.folder().join("street-9.tar");
    fs::write(&path, good).expect("written");
    machine.publisher.signer.sign(&path);
    let staged = stage(&machine.store, &path, None, &machine.keys).expect("the same way, valid");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(staged.content().join(a))
            .expect("there")
            .permissions(),
    );
    assert_eq!(mode & 0o7777, 0o644, "the archive says 6777");
}

#[test]
fn huge_size_in_the_manifest_writes_only_what_is_there() {
    let machine = Box::new();
    let text = manifest(&["models/model/a"]).replace("\"bytes\":3", "\"bytes\":1099511627776");
    let mut archive = RawArchive::default();
    archive.file("manifest.json", text.as_bytes());
    archive.entry(
        "models/model/model.yaml",
        EntryType::Regular,
        None,
        1 << 40,
        b"abc",
    );
    let problem = machine.refusal_of(&archive.bytes());
    assert!(problem.contains("ends after"), "{problem}");
}

#[test]
fn bundle_is_a_file_and_fits_the_disk() {
    let machine = Box::new();
    let folder = machine.publisher.folder().join("street-1.tar");
    fs::create_dir(&folder).expect("created");
    let error = machine.refusal(&folder).to_string();
    assert!(error.contains("expected a file"), "{error}");
    let path: PathBuf = machine.publisher.folder().join("street-2.tar");
    let file = File::create(&path).expect("created");
    file.set_len(9 << 30).expect("sparse");
    let error = machine.refusal(&path).to_string();
    assert!(error.contains("8589934592 bytes at most"), "{error}");
    let error = machine.store.check_space(u64::MAX).expect_err("too much");
    assert!(
        error.to_string().contains("bytes free, expected"),
        "{error}"
    );
}

#[test]
fn archives_of_other_programs_are_read_where_they_are_plain() {
    let machine = Box::new();
    let path = machine.publisher.folder().join("street-9.tar");
    let mut builder = Builder::new(File::create(&path).expect("created"));
    let text = manifest(&[]);
    for (name, content) in [
        ("manifest.json", text.as_str()),
        ("models/model/model.yaml", "abc"),
    ] {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        builder
            .append_data(&mut header, name, content.as_bytes())
            .expect("written");
    }
    let mut file = builder.into_inner().expect("written");
    file.flush().expect("written");
    machine.publisher.signer.sign(&path);
    stage(&machine.store, &path, None, &machine.keys).expect("plain files");
}
