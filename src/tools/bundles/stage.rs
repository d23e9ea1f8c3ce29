//! A bundle on its way into the store: copied and verified in a temporary folder, then unpacked there.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jetwatch_files::Sha256Digest;
use tempfile::TempDir;

use super::error::io;
use super::manifest::Manifest;
use super::unpack::{UnpackError, unpack};
use super::{BundleError, Store, TrustedKeys, signature};

/// Maximum size of a bundle in bytes: 8 GiB.
const MAX_BUNDLE_BYTES: u64 = 8 << 30;

/// Bytes that stay free on the disk.
const RESERVE_BYTES: u64 = 64 << 20;

/// End of the name of a signature behind that of the bundle, as minisign appends it.
pub(crate) const SIGNATURE_END: &str = ".minisig";

/// A verified bundle, unpacked in a temporary folder of the store, which is removed with this value.
#[derive(Debug)]
pub(crate) struct Staged {
    folder: TempDir,
    /// What it holds.
    pub(crate) manifest: Manifest,
    /// SHA-256 of the archive, by which the store names the version.
    pub(crate) sha256: Sha256Digest,
    /// File name of the key that signed it.
    pub(crate) key: String,
    /// The comment that the signature covers.
    pub(crate) comment: String,
}

impl Staged {
    /// The folder with the unpacked files.
    pub(crate) fn content(&self) -> PathBuf {
        self.folder.path().join(CONTENT)
    }
}

/// Name of the folder of the unpacked files.
const CONTENT: &str = "content";

/// Copies the bundle at `path` into a temporary folder of `store`, verifies it with `signature_path` (default: next to it), and unpacks
/// it. No byte of the archive is interpreted before the signature over all of it was verified.
///
/// # Errors
/// A file cannot be read or written, the disk has too little space, no trusted key signed these bytes, or the content is not that of a
/// bundle. Nothing stays behind.
pub(crate) fn stage(
    store: &Store,
    path: &Path,
    signature_path: Option<&Path>,
    keys: &TrustedKeys,
) -> Result<Staged, BundleError> {
    let beside = || {
        let mut name = path.as_os_str().to_owned();
        name.push(SIGNATURE_END);
        PathBuf::from(name)
    };
    let signature_path = signature_path.map_or_else(beside, Path::to_owned);
    let mut source = File::open(path).map_err(io("read", path))?;
    let metadata = source.metadata().map_err(io("read", path))?;
    if !metadata.is_file() || metadata.len() > MAX_BUNDLE_BYTES {
        return Err(BundleError::Content {
            path: path.to_owned(),
            problem: format!("expected a file of {MAX_BUNDLE_BYTES} bytes at most"),
        });
    }
    // The copy and the unpacked files.
    store.check_space(2 * metadata.len() + RESERVE_BYTES)?;
    let signature = signature::read(&signature_path)?;
    let folder = store.temporary()?;
    let copy_path = folder.path().join("archive.tar");
    let mut copy = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&copy_path)
        .map_err(io("create", &copy_path))?;
    let verified = signature::copy_verified(
        path,
        &mut source,
        MAX_BUNDLE_BYTES,
        &signature,
        keys,
        (&copy_path, &mut copy),
    )?;
    let content = folder.path().join(CONTENT);
    fs::create_dir(&content).map_err(io("create", &content))?;
    copy.seek(SeekFrom::Start(0))
        .map_err(io("read", &copy_path))?;
    let manifest =
        unpack(std::io::BufReader::new(&copy), &content).map_err(|error| match error {
            UnpackError::Content(problem) => BundleError::Content {
                path: path.to_owned(),
                problem,
            },
            UnpackError::Io(source) => io("write", &content)(source),
        })?;
    fs::remove_file(&copy_path).map_err(io("remove", &copy_path))?;
    Ok(Staged {
        folder,
        manifest,
        sha256: verified.sha256,
        key: verified.key,
        comment: verified.comment,
    })
}
