// SPDX-License-Identifier: Apache-2.0
//! Cameras: devices, their formats, processes that use them, and permissions of the daemon.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use super::check_report::CheckReport;
use super::context::DoctorContext;
use jetwatch_config::{SourceConfig, SourceUri};
use jetwatch_platform::{Process, SysRoot};
use jetwatch_source::gst::camera_offers;

/// The daemon's user, which the package creates.
pub(super) const DAEMON_USER: &str = "jetwatch";

/// CSI cameras in the device tree.
pub(super) const CSI_MODULES: &str = "/proc/device-tree/tegra-camera-platform/modules";

/// Devices of a Jetson that the daemon opens, where the machine has them; those of the GPU are of other drivers on Thor.
const UNITS: [&str; 8] = [
    "/dev/nvmap",
    "/dev/nvhost-ctrl-gpu",
    "/dev/nvidia0",
    "/dev/nvidiactl",
    "/dev/nvhost-vic",
    "/dev/v4l2-nvdec",
    "/dev/dri/renderD128",
    "/dev/dri/renderD129",
];

pub(super) fn run(context: &DoctorContext, report: &mut CheckReport) {
    let devices = v4l2_devices(&context.root);
    if devices.is_empty() {
        report.ok("V4L2 cameras", "none: there is no /dev/video*");
    }
    for device in &devices {
        v4l2(context, report, device);
    }
    if context.machine.is_jetson() {
        argus(context, report);
        for device in UNITS {
            if let Ok(metadata) = fs::metadata(context.root.path(device)) {
                check_permission(context, report, device, &metadata);
            }
        }
    }
    check_configured(context, report, &devices);
}

/// The device nodes `/dev/video*`.
pub(super) fn v4l2_devices(root: &SysRoot) -> Vec<String> {
    let names = root.names("/dev").unwrap_or_default();
    let is_camera = |name: &&String| {
        let number = name.strip_prefix("video");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let cameras = names.iter().filter(is_camera);
    cameras.map(|name| format!("/dev/{name}")).collect()
}

fn v4l2(context: &DoctorContext, report: &mut CheckReport, device: &str) {
    let what = format!("camera {device}");
    let path = context.root.path(device);
    let name = device.trim_start_matches("/dev/");
    let name = context
        .root
        .text(&format!("/sys/class/video4linux/{name}/name"));
    let name = name.ok().flatten().unwrap_or_else(|| "unnamed".to_owned());
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) => {
            context.unreadable(report, &what, &error.to_string());
            return;
        }
    };
    check_permission(context, report, device, &metadata);
    let holders = Process::open_file_owners(&context.root, Path::new(device)).unwrap_or_default();
    if !holders.processes.is_empty() {
        let users = holders.processes.iter();
        let users: Vec<String> = users
            .map(|process| format!("{} (process {})", process.name, process.id))
            .collect();
        report.ok(
            &what,
            &format!("{name}, in use by {}: not opened", users.join(", ")),
        );
        return;
    }
    if !context.daemons.is_empty() && !holders.is_complete {
        context.unreadable(
            report,
            &what,
            &format!("{name}; the daemon runs and may use it: not opened"),
        );
        return;
    }
    if !metadata.file_type().is_char_device() {
        report.unknown(
            &what,
            &format!("{name}; {device} is no device: its formats are not queried"),
        );
        return;
    }
    match camera_offers(device) {
        Ok(offers) => report.ok(&what, &format!("{name}, {offers}")),
        Err(error) => context.unreadable(report, &what, &format!("{name}: {error}")),
    }
}

/// Whether the daemon's user may open a device.
fn check_permission(
    context: &DoctorContext,
    report: &mut CheckReport,
    device: &str,
    of: &Metadata,
) {
    let what = format!("permission {device}");
    let text = |path| context.root.text(path).ok().flatten().unwrap_or_default();
    let users = text("/etc/passwd");
    let fields = |line: &str| -> Vec<String> { line.split(':').map(str::to_owned).collect() };
    let user = users
        .lines()
        .map(fields)
        .find(|fields| fields[0] == DAEMON_USER);
    let Some(user) = user else {
        report.unknown(
            &what,
            &format!("there is no user {DAEMON_USER}: the package is not installed"),
        );
        return;
    };
    let number = |place: usize| {
        user.get(place)
            .and_then(|number| number.parse::<u32>().ok())
    };
    let groups: Vec<Vec<String>> = text("/etc/group").lines().map(fields).collect();
    let is_in = |group: &Vec<String>| {
        let members = group.get(3).map(String::as_str).unwrap_or_default();
        members.split(',').any(|member| member == DAEMON_USER)
    };
    let group_of = |id: u32| {
        let is_it =
            |group: &&Vec<String>| group.get(2).is_some_and(|number| *number == id.to_string());
        groups.iter().find(is_it)
    };
    let group = group_of(of.gid());
    let group_name = group.map_or_else(|| of.gid().to_string(), |group| group[0].clone());
    let mode = of.permissions().mode();
    let is_member = number(3) == Some(of.gid()) || group.is_some_and(is_in);
    let may = match number(2) == Some(of.uid()) {
        true => mode & 0o600 == 0o600,
        false if is_member => mode & 0o060 == 0o060,
        false => mode & 0o006 == 0o006,
    };
    let rights = format!("group {group_name}, mode {:o}", mode & 0o777);
    if may {
        report.ok(
            &what,
            &format!("{DAEMON_USER} may read and write it ({rights})"),
        );
    } else if is_member {
        report.failed(&what, &format!("{DAEMON_USER} may not read and write it ({rights}), although it is in that group; expected mode 660: sudo chmod 660 {device}, and find the udev rule that sets another one"));
    } else {
        report.failed(&what, &format!("{DAEMON_USER} may not read and write it ({rights}): sudo usermod -aG {group_name} {DAEMON_USER} && sudo systemctl restart jetwatch"));
    }
}

/// CSI cameras, and the service that delivers their images.
fn argus(context: &DoctorContext, report: &mut CheckReport) {
    let modules = context.root.names(CSI_MODULES).unwrap_or_default();
    let badges: Vec<String> = modules
        .iter()
        .filter_map(|module| {
            context
                .root
                .text(&format!("{CSI_MODULES}/{module}/badge"))
                .ok()?
        })
        .collect();
    match badges.is_empty() {
        true => report.ok("CSI cameras", "none in the device tree; a connected camera needs its device tree overlay (sudo /opt/nvidia/jetson-io/jetson-io.py)"),
        false => report.ok("CSI cameras", &format!("in the device tree: {}", badges.join(", "))),
    }
    const WHAT: &str = "nvargus-daemon";
    let unit = match context.unit("nvargus-daemon.service") {
        Ok(unit) => unit,
        Err(error) => return context.unreadable(report, WHAT, &error),
    };
    let text = match unit.is_known {
        false => {
            "not installed; CSI cameras need it: sudo apt install nvidia-l4t-camera".to_owned()
        }
        true if unit.active == "active" => {
            let text = format!("active, restarted {} times by systemd", unit.restarts);
            return report.ok(WHAT, &text);
        }
        true => format!(
            "{} ({}): sudo systemctl restart nvargus-daemon, and journalctl -u nvargus-daemon",
            unit.active, unit.sub
        ),
    };
    let is_csi = |source: &SourceConfig| matches!(source.uri, SourceUri::Csi { .. });
    match context.config() {
        Some(config) if config.sources.iter().any(is_csi) => report.failed(WHAT, &text),
        // Only machines with CSI cameras need it.
        Some(_) => report.ok(WHAT, "not running, and no source is a CSI camera"),
        None => report.unknown(WHAT, &text),
    }
}

/// Cameras of the configuration that this machine does not have.
fn check_configured(context: &DoctorContext, report: &mut CheckReport, devices: &[String]) {
    for source in context
        .config()
        .map(|config| config.sources.as_slice())
        .unwrap_or_default()
    {
        let what = format!("source {}", source.name);
        match &source.uri {
            SourceUri::V4l2 { device, .. } => {
                let device = device.display().to_string();
                let is_there = devices.contains(&device) || context.root.exists(&device);
                match is_there {
                    true => report.ok(&what, &format!("{device} is present")),
                    false => report.failed(&what, &format!("{device} is missing: plug the camera in; `v4l2-ctl --list-devices` lists the connected ones")),
                }
            }
            SourceUri::Csi { .. } if !context.machine.is_jetson() => {
                report.failed(&what, "csi:// needs a Jetson");
            }
            _ => {}
        }
    }
}
