// SPDX-License-Identifier: Apache-2.0
//! What differs from device to device: its name, its client id, its user, its files, and the order of its brokers.

use std::path::{Path, PathBuf};

use jetwatch_config::{MqttConfig, Secret};

use super::{Options, SimulateError};

/// Stands for the name of the device.
const PLACEHOLDER: &str = "{device}";

/// Name of device `number`, which begins at 0.
pub(crate) fn device(options: &Options, number: usize) -> String {
    format!("{}{:05}", options.device_prefix, number + 1)
}

/// The settings of this device. The list of brokers is turned by its number, so that all of them are used.
pub(crate) fn config(options: &Options, number: usize, name: &str) -> MqttConfig {
    let mut config = options.mqtt.clone();
    let mut brokers = vec![config.broker];
    brokers.append(&mut config.alternatives);
    let turn = number % brokers.len();
    brokers.rotate_left(turn);
    config.broker = brokers.remove(0);
    config.alternatives = brokers;
    // As that of a daemon.
    config.client_id = format!("jetwatch-{name}");
    if let Some(credentials) = &mut config.credentials {
        credentials.user = credentials.user.replace(PLACEHOLDER, name);
    }
    for (_, path) in files(&mut config) {
        *path = path_of(path, name);
    }
    config
}

/// The files that may have the name of a device in their paths, with their options.
fn files(config: &mut MqttConfig) -> impl Iterator<Item = (&'static str, &mut PathBuf)> {
    let password = config.credentials.as_mut();
    let password = password.and_then(|credentials| match &mut credentials.password {
        Secret::File(path) => Some(path),
        _ => None,
    });
    let tls = &mut config.tls;
    [
        ("--password-file", password),
        ("--cert-file", tls.cert_file.as_mut()),
        ("--key-file", tls.key_file.as_mut()),
    ]
    .into_iter()
    .filter_map(|(option, path)| Some((option, path?)))
}

fn path_of(path: &Path, name: &str) -> PathBuf {
    match path.to_str() {
        Some(text) => text.replace(PLACEHOLDER, name).into(),
        None => path.to_owned(),
    }
}

/// Whether each device has the files that its settings name: without this, it would only never be connected.
///
/// # Errors
/// The first that cannot be read.
pub(crate) fn check_files(options: &Options) -> Result<(), SimulateError> {
    let is_same_for_all = |path: &Path| !path.to_string_lossy().contains(PLACEHOLDER);
    for number in 0..options.boxes {
        let device = device(options, number);
        for (option, path) in files(&mut options.mqtt.clone()) {
            if number > 0 && is_same_for_all(path) {
                continue;
            }
            let path = path_of(path, &device);
            if let Err(source) = std::fs::File::open(&path) {
                return Err(SimulateError::File {
                    option,
                    device,
                    path,
                    source,
                });
            }
        }
    }
    Ok(())
}
