// SPDX-License-Identifier: Apache-2.0
//! Collects the facts of this machine. Cameras that a program uses are not opened; nothing is changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::statvfs;

use jetwatch_detect::engines::{device, open_library};
use jetwatch_detect::ort_library;
use jetwatch_platform::{Machine, Memory, Process, Processor, SysRoot};
use jetwatch_source::{ELEMENTS, ElementState, gst, inspect_element};

use super::{
    Camera, Disk, Element, Facts, GStreamer, Gpu, Library, MemoryFacts, OnnxRuntime, User, VERSION,
};
use crate::cameras::{CSI_MODULES, DAEMON_USER, v4l2_devices};

/// Kinds of file systems that hold no files of programs.
const PSEUDO: [&str; 3] = ["squashfs", "devtmpfs", "efivarfs"];

/// ONNX Runtime's provider for CUDA.
const CUDA_PROVIDER: &str = "libonnxruntime_providers_cuda.so";

impl Facts {
    /// The facts of this machine, whose files are below `root`; `collected_at` is the time.
    #[must_use]
    pub fn collect(root: &SysRoot, collected_at: String) -> Self {
        let mut notes = Vec::new();
        let memory = Memory::read(root).unwrap_or_else(|error| {
            notes.push(error.to_string());
            None
        });
        let text = |path: &str| {
            root.text(path)
                .ok()
                .flatten()
                .filter(|text| !text.is_empty())
        };
        let csi_cameras = root.names(CSI_MODULES).unwrap_or_default();
        let csi_cameras = csi_cameras.iter();
        Self {
            version: VERSION,
            jetwatch: env!("CARGO_PKG_VERSION").to_owned(),
            collected_at,
            hostname: text("/proc/sys/kernel/hostname"),
            architecture: std::env::consts::ARCH.to_owned(),
            kernel: text("/proc/sys/kernel/osrelease"),
            machine: Machine::find(root),
            cpu: Processor::find(root),
            memory: memory.map(|memory| MemoryFacts {
                total_bytes: memory.total,
                available_bytes: memory.available,
            }),
            gpu: gpu().into(),
            tensorrt: tensorrt().into(),
            onnxruntime: onnxruntime().into(),
            gstreamer: gstreamer().into(),
            cameras: cameras(root),
            csi_cameras: csi_cameras
                .filter_map(|module| text(&format!("{CSI_MODULES}/{module}/badge")))
                .collect(),
            disks: disks(root, &mut notes),
            user: user(root),
            notes,
        }
    }
}

fn gpu() -> Result<Gpu, String> {
    let device = device().map_err(|error| error.to_string())?;
    let cuda = device.driver_version();
    Ok(Gpu {
        name: device.name().to_owned(),
        cuda: format!("{}.{}", cuda.major, cuda.minor),
        compute_capability: device.compute_capability(),
    })
}

fn tensorrt() -> Result<Library, String> {
    let library = open_library(None).map_err(|error| error.to_string())?;
    Ok(Library {
        version: library.version().to_string(),
        path: library.path().to_owned(),
    })
}

fn onnxruntime() -> Result<OnnxRuntime, String> {
    let path = ort_library::find(None).map_err(|error| error.to_string())?;
    ort_library::open(&path).map_err(|error| error.to_string())?;
    let path = fs::canonicalize(&path).unwrap_or(path);
    Ok(OnnxRuntime {
        has_cuda: path.with_file_name(CUDA_PROVIDER).is_file(),
        path,
    })
}

fn gstreamer() -> Result<GStreamer, String> {
    gst::init("*:1").map_err(|error| error.to_string())?;
    let mut elements = BTreeMap::new();
    for spec in ELEMENTS {
        if let ElementState::Present {
            version,
            properties,
            wrong,
        } = inspect_element(spec)
        {
            let properties = properties.into_iter();
            let element = Element {
                version,
                properties: properties.map(|(name, _)| name.to_owned()).collect(),
                wrong,
            };
            elements.insert(spec.name.to_owned(), element);
        }
    }
    let encoders = gst::h264_encoders().into_iter();
    Ok(GStreamer {
        version: gst::version().unwrap_or_default(),
        elements,
        h264_encoders: encoders.map(str::to_owned).collect(),
    })
}

fn cameras(root: &SysRoot) -> Vec<Camera> {
    let daemons = Process::running(root, "jetwatch", "run").unwrap_or_default();
    let devices = v4l2_devices(root).into_iter();
    let one = |device: String| {
        let name = device.trim_start_matches("/dev/");
        let name = root.text(&format!("/sys/class/video4linux/{name}/name"));
        Camera {
            name: name.ok().flatten().unwrap_or_else(|| "unnamed".to_owned()),
            modes: modes(root, &device, !daemons.is_empty()).into(),
            device: device.into(),
        }
    };
    devices.map(one).collect()
}

/// What a camera offers, unless a program may use it.
fn modes(root: &SysRoot, device: &str, is_daemon_running: bool) -> Result<Vec<String>, String> {
    let metadata = fs::metadata(root.path(device)).map_err(|error| error.to_string())?;
    if !metadata.file_type().is_char_device() {
        return Err(format!("{device} is no device"));
    }
    let holders = Process::open_file_owners(root, Path::new(device)).unwrap_or_default();
    if let Some(holder) = holders.processes.first() {
        return Err(format!(
            "in use by {} (process {}): stop it, or take the facts as before",
            holder.name, holder.id
        ));
    }
    if is_daemon_running && !holders.is_complete {
        return Err("the daemon runs and may use it: run jetwatch facts as root".to_owned());
    }
    gst::camera_caps(device)
}

/// File systems that hold files, by their mounts.
fn disks(root: &SysRoot, notes: &mut Vec<String>) -> Vec<Disk> {
    let mounts = root.text("/proc/mounts").unwrap_or_else(|error| {
        notes.push(error.to_string());
        None
    });
    let mut disks: Vec<Disk> = Vec::new();
    for line in mounts.unwrap_or_default().lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(mount), Some(kind)) = (fields.next(), fields.next()) else {
            continue;
        };
        // The kernel writes a space as \040; no folder of the daemon has one.
        let is_of_kernel = ["/sys", "/proc"]
            .iter()
            .any(|folder| Path::new(mount).starts_with(folder));
        if PSEUDO.contains(&kind) || is_of_kernel || mount.contains('\\') {
            continue;
        }
        let Ok(space) = statvfs(root.path(mount)) else {
            continue;
        };
        // The kernel's own file systems have no size.
        if space.f_blocks == 0 || disks.iter().any(|disk| disk.mount == Path::new(mount)) {
            continue;
        }
        disks.push(Disk {
            mount: mount.into(),
            kind: kind.to_owned(),
            total_bytes: space.f_blocks * space.f_frsize,
            free_bytes: space.f_bavail * space.f_frsize,
        });
    }
    disks.sort_by(|a, b| a.mount.cmp(&b.mount));
    disks
}

/// The daemon's user and its groups.
fn user(root: &SysRoot) -> Option<User> {
    let text = |path| root.text(path).ok().flatten().unwrap_or_default();
    let passwd = text("/etc/passwd");
    let mut users = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let fields = users.find(|fields| fields[0] == DAEMON_USER)?;
    let primary = fields.get(3).copied();
    let all = text("/etc/group");
    let groups = all.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let is_in = |group: &Vec<&str>| {
        let mut members = group.get(3).map(|members| members.split(','));
        let is_member = members
            .as_mut()
            .is_some_and(|m| m.any(|m| m == DAEMON_USER));
        is_member || (primary.is_some() && group.get(2).copied() == primary)
    };
    let mut groups: Vec<String> = groups
        .filter(is_in)
        .map(|group| group[0].to_owned())
        .collect();
    groups.sort();
    Some(User {
        name: DAEMON_USER.to_owned(),
        groups,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_daemons_user_are_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        assert_eq!(user(&root), None);
        fs::create_dir_all(root.path("/etc")).expect("created");
        let passwd = "root:x:0:0::/root:/bin/sh\njetwatch:x:998:997::/:/usr/sbin/nologin\n";
        fs::write(root.path("/etc/passwd"), passwd).expect("written");
        let group = "video:x:44:gdm,jetwatch\njetwatch:x:997:\nrender:x:109:other\naudio:x:29:\n";
        fs::write(root.path("/etc/group"), group).expect("written");
        let found = user(&root).expect("the user");
        assert_eq!(found.groups, ["jetwatch", "video"]);
    }
}
