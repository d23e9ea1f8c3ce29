// SPDX-License-Identifier: Apache-2.0
//! The units of this machine that capture, decode and scale video, and their GStreamer elements, from the machine's model.
//!
//! Whether the elements are installed and have the properties named here is checked with GStreamer in the crate `jetwatch-source`.

use super::{Family, Machine};

jetwatch_types::named_enum! {
    /// A unit for video.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum VideoUnit {
        /// The image signal processor of a Jetson, for CSI cameras.
        Isp = "ISP",
        /// The video decoder.
        Nvdec = "NVDEC",
        /// The JPEG decoder.
        Nvjpg = "NVJPG",
        /// The video image compositor, which crops, scales and converts colors.
        Vic = "VIC",
        /// The GPU, which also runs the network.
        Gpu = "GPU",
        /// Another accelerator, such as the decoder of a graphics card.
        Accelerator = "accelerator",
        /// The CPU.
        Cpu = "CPU",
    }

    /// Name of the unit.
    pub fn name;
}

/// An element and its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitElement {
    /// Factory name of the element.
    pub element: &'static str,
    /// The property that selects the unit, with its value, where the element supports several units.
    pub setting: Option<(&'static str, &'static str)>,
}

/// The elements of this machine's units, or the reason why there is none, one sentence each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VideoUnits {
    /// Captures from CSI cameras.
    pub camera: Result<UnitElement, String>,
    /// Decodes H.264 and H.265.
    pub decoder: Result<UnitElement, String>,
    /// Decode Motion JPEG, best first.
    pub jpeg_decoders: Result<&'static [UnitElement], String>,
    /// Crops, scales and converts colors on the VIC.
    pub vic: Result<UnitElement, String>,
    /// The same on the GPU.
    pub gpu: Result<UnitElement, String>,
}

/// The camera's element: it needs nvargus-daemon, and outputs NVMM only.
const CAMERA: UnitElement = without_setting("nvarguscamerasrc");

/// The decoder's element. For Motion JPEG a property selects the JPEG decoder, but not on Thor ("Decoding of MJPEG format using
/// nvv4l2decoder is not supported in Jetson Thor": Jetson Linux API Reference 38.2, sample 00_video_decode).
const DECODER: UnitElement = without_setting("nvv4l2decoder");
const JPEG_DECODER: UnitElement = without_setting("nvjpegdec");
const JPEG_DECODERS: &[UnitElement] = &[DECODER, JPEG_DECODER];
const JPEG_DECODERS_OF_THOR: &[UnitElement] = &[JPEG_DECODER];

/// The property of `nvvidconv` that selects the unit. Without it the element selects a unit, which may
/// differ between releases; `Default` is therefore never used.
const COMPUTE: &str = "compute-hw";
const VIC: UnitElement = UnitElement {
    element: "nvvidconv",
    setting: Some((COMPUTE, "VIC")),
};
const GPU: UnitElement = UnitElement {
    element: "nvvidconv",
    setting: Some((COMPUTE, "GPU")),
};

const fn without_setting(element: &'static str) -> UnitElement {
    UnitElement {
        element,
        setting: None,
    }
}

impl VideoUnits {
    /// The elements of `machine`. On an unknown Jetson or release of L4T, the documented behavior is not assumed: decoder, VIC
    /// and GPU are not used. The camera element is used nevertheless, as there is no alternative.
    pub fn for_machine(machine: &Machine) -> Self {
        let supported = check_supported(machine);
        let unit = |has: Option<bool>, name: &str, unit: UnitElement| match (&supported, has) {
            (Err(reason), _) => Err(reason.clone()),
            (Ok(()), Some(true)) => Ok(unit),
            (Ok(()), _) => Err(format!("{} has no {name}", machine.family.name())),
        };
        let decoder = unit(machine.units.nvdec, "NVDEC", DECODER);
        Self {
            camera: match machine.is_jetson() {
                true => Ok(CAMERA),
                false => {
                    Err("this machine is not a Jetson: it has no CSI camera connector".to_owned())
                }
            },
            jpeg_decoders: decoder.clone().map(|_| match machine.family {
                Family::Thor => JPEG_DECODERS_OF_THOR,
                _ => JPEG_DECODERS,
            }),
            decoder,
            vic: unit(machine.units.vic, "VIC", VIC),
            gpu: unit(Some(true), "GPU", GPU),
        }
    }
}

/// Whether JetPack's documentation applies to this machine; the reason why not otherwise.
fn check_supported(machine: &Machine) -> Result<(), String> {
    match (machine.family, machine.release) {
        (Family::NoJetson, ..) => Err("this machine is not a Jetson".to_owned()),
        (Family::UnknownJetson, ..) => Err(
            "this version of jetwatch does not know this Jetson, so its units are not used"
                .to_owned(),
        ),
        (_, None) => Err(
            "the release of L4T is not known, so its elements are not used (/etc/nv_tegra_release)"
                .to_owned(),
        ),
        (family, Some(release)) => {
            let known: &[u32] = match family {
                Family::Thor => &[38, 39],
                Family::OrinNano | Family::OrinNx | Family::AgxOrin => &[35, 36, 39],
                _ => &[35, 36],
            };
            match known.contains(&release.major) {
                true => Ok(()),
                false => Err(format!(
                    "this version of jetwatch does not know L4T {release} on {}, so its elements are not used",
                    family.name()
                )),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ComputeUnits, L4tRelease};
    use super::*;

    fn machine(family: Family, release: &str, vic: Option<bool>) -> Machine {
        let release = L4tRelease::read(release);
        Machine {
            family,
            model: None,
            module: None,
            chip: None,
            release,
            jetpack: release.and_then(|release| release.jetpack()),
            units: ComputeUnits {
                dla_cores: None,
                nvdec: vic,
                nvenc: None,
                vic,
            },
            notes: Vec::new(),
        }
    }

    const R35: &str = "# R35 (release), REVISION: 4.1";
    const R36: &str = "# R36 (release), REVISION: 4.3";
    const R38: &str = "# R38 (release), REVISION: 4.0";
    const R39: &str = "# R39 (release), REVISION: 2.0";

    #[test]
    fn known_jetsons_use_hardware_video_units() {
        for family in [
            Family::XavierNx,
            Family::AgxXavier,
            Family::OrinNano,
            Family::OrinNx,
            Family::AgxOrin,
        ] {
            for release in [R35, R36] {
                let units = VideoUnits::for_machine(&machine(family, release, Some(true)));
                assert_eq!(units.camera, Ok(CAMERA));
                assert_eq!(units.decoder, Ok(DECODER));
                assert_eq!(units.jpeg_decoders, Ok(JPEG_DECODERS));
                assert_eq!(
                    units.vic.map(|unit| unit.setting),
                    Ok(Some(("compute-hw", "VIC")))
                );
                assert_eq!(
                    units.gpu.map(|unit| unit.setting),
                    Ok(Some(("compute-hw", "GPU")))
                );
            }
        }
    }

    #[test]
    fn jetpack_7_is_for_orin_from_its_second_release() {
        let units =
            |family, release| VideoUnits::for_machine(&machine(family, release, Some(true)));
        for release in [R38, R39] {
            let thor = units(Family::Thor, release);
            assert_eq!((thor.decoder, thor.camera), (Ok(DECODER), Ok(CAMERA)));
            assert_eq!(thor.jpeg_decoders, Ok(JPEG_DECODERS_OF_THOR));
            assert!(thor.vic.is_ok() && thor.gpu.is_ok());
        }
        for family in [Family::OrinNano, Family::OrinNx, Family::AgxOrin] {
            assert_eq!(units(family, R39).jpeg_decoders, Ok(JPEG_DECODERS));
        }
    }

    #[test]
    fn unknown_machine_uses_no_hardware_units_with_reason() {
        #[rustfmt::skip]
        let cases = [
            (Family::NoJetson, "", Some(false), "is not a Jetson"),
            (Family::UnknownJetson, R35, None, "does not know this Jetson"),
            (Family::OrinNx, "", Some(true), "release of L4T is not known"),
            (Family::OrinNx, "# R99 (release), REVISION: 1.0", Some(true), "does not know L4T 99.1.0"),
            (Family::AgxOrin, "# R38 (release), REVISION: 2.0", Some(true), "does not know L4T 38.2.0"),
            (Family::XavierNx, R39, Some(true), "does not know L4T 39.2.0 on Jetson Xavier NX"),
            (Family::Thor, R36, Some(true), "does not know L4T 36.4.3 on Jetson Thor"),
        ];
        for (family, release, vic, expected) in cases {
            let units = VideoUnits::for_machine(&machine(family, release, vic));
            let reasons = [
                units.decoder.expect_err("no decoder"),
                units.jpeg_decoders.expect_err("no JPEG decoder"),
                units.vic.expect_err("no VIC"),
                units.gpu.expect_err("no GPU"),
            ];
            for reason in reasons {
                assert!(reason.contains(expected), "{family:?}: {reason}");
            }
            assert_eq!(units.camera.is_ok(), family != Family::NoJetson);
        }
    }

    #[test]
    fn missing_video_unit_is_reported() {
        let units = VideoUnits::for_machine(&machine(Family::XavierNx, R35, Some(false)));
        assert_eq!(units.vic, Err("Jetson Xavier NX has no VIC".to_owned()));
        assert_eq!(
            units.decoder,
            Err("Jetson Xavier NX has no NVDEC".to_owned())
        );
        assert!(units.gpu.is_ok());
    }
}
