// SPDX-License-Identifier: Apache-2.0
//! Video units of this machine, as GStreamer offers them: a unit counts only when its elements exist and accept their settings.

use crate::convert_plan::ScalerAvailability;
use crate::elements::require_element;
use jetwatch_config::DecoderChoice;
use jetwatch_platform::{Machine, UnitElement, VideoUnit, VideoUnits};
use jetwatch_types::Size;

/// The usable elements of a Jetson, or the reason why there is none.
#[derive(Debug, Clone)]
pub(super) struct VideoHardware {
    /// Captures from CSI cameras.
    pub(super) camera: Result<UnitElement, String>,
    /// Decodes H.264 and H.265.
    pub(super) decoder: Result<UnitElement, String>,
    /// Decodes Motion JPEG.
    pub(super) jpeg_decoder: Result<UnitElement, String>,
    vic: Result<UnitElement, String>,
    gpu: Result<UnitElement, String>,
}

/// Says whether a machine has an element, with a property that accepts the given text if there is one; the reason why not.
pub type ElementCheck<'c> =
    dyn Fn(&'static str, Option<(&'static str, &'static str)>) -> Result<(), String> + 'c;

impl VideoHardware {
    /// Checks which elements GStreamer has for `machine`. Cheap enough for every session: the registry is in memory.
    pub(super) fn detect(machine: &Machine) -> Self {
        Self::detect_with(machine, &require_element)
    }

    /// The same for the elements that `require_element` knows, such as those of another machine.
    pub(super) fn detect_with(machine: &Machine, require_element: &ElementCheck<'_>) -> Self {
        let units = VideoUnits::for_machine(machine);
        let usable = |unit: Result<UnitElement, String>| {
            let unit = unit?;
            require_element(unit.element, unit.setting).map(|()| unit)
        };
        let (vic, gpu) = (usable(units.vic), usable(units.gpu));
        // Decoded images are in NVMM, and only the converter copies them out.
        let nvmm_export = match (&vic, &gpu) {
            (Err(reason), Err(_)) => Err(reason.clone()),
            _ => Ok(()),
        };
        let decoder = nvmm_export
            .clone()
            .and(usable(units.decoder))
            .and_then(|unit| {
                require_element("h264parse", None)?;
                require_element("h265parse", None)?;
                Ok(unit)
            });
        let jpeg_decoder = nvmm_export.and(units.jpeg_decoders).and_then(|decoders| {
            let mut tried = decoders.iter().map(|unit| match unit.element {
                "nvjpegdec" => usable(Ok(*unit)),
                // The video decoder supports JPEG when it has this property.
                element => require_element(element, Some(("mjpeg", "true")))
                    .and_then(|()| require_element("jpegparse", None))
                    .map(|()| *unit),
            });
            let best = tried.next().unwrap_or_else(|| Err("no decoder".to_owned()));
            best.or_else(|reason| tried.find_map(Result::ok).ok_or(reason))
        });
        Self {
            camera: usable(units.camera),
            decoder,
            jpeg_decoder,
            vic,
            gpu,
        }
    }

    /// The units that can scale.
    pub(super) fn scalers(&self) -> ScalerAvailability {
        let available = |unit: &Result<UnitElement, String>| unit.clone().map(|_| ());
        ScalerAvailability {
            vic: available(&self.vic),
            gpu: available(&self.gpu),
        }
    }

    /// The element that scales on a unit of the Jetson.
    pub(super) fn scaler(&self, unit: VideoUnit) -> Result<UnitElement, String> {
        match unit {
            VideoUnit::Vic => self.vic.clone(),
            VideoUnit::Gpu => self.gpu.clone(),
            other => Err(format!("{} has no converter", other.name())),
        }
    }

    /// The decoder for a media type, as far as the configuration accepts it; `None`: the CPU.
    pub(super) fn decoder_for(
        &self,
        media_type: &str,
        choice: DecoderChoice,
    ) -> Option<UnitElement> {
        if choice == DecoderChoice::Software {
            return None;
        }
        match media_type {
            "video/x-h264" | "video/x-h265" => self.decoder.clone().ok(),
            "image/jpeg" => self.jpeg_decoder.clone().ok(),
            _ => None,
        }
    }
}

/// Checks that NVDEC decodes images of this bit depth, chroma format and size, as given by the stream's parser: H.264 with 8 bits, from
/// 48×16 to 4096×4096 pixels, H.265 with 8, 10 or 12, from 144×144 to 8192×8192, both with 4:2:0 chroma only. Source: NVDEC Video Decoder
/// API Programming Guide, "Video Decoder Capabilities".
pub(super) fn nvdec_supports(
    media_type: &str,
    chroma: Option<&str>,
    bits: Option<u32>,
    size: Option<Size>,
) -> Result<(), String> {
    let (name, max, least, most) = match media_type {
        "video/x-h264" => ("H.264", 8, Size::new(48, 16), Size::new(4096, 4096)),
        _ => ("H.265", 12, Size::new(144, 144), Size::new(8192, 8192)),
    };
    match (chroma, bits, size) {
        (Some(chroma), ..) if chroma != "4:2:0" => Err(format!(
            "NVDEC decodes {name} with 4:2:0 chroma only, this is {chroma}"
        )),
        (_, Some(bits), _) if bits > max => Err(format!(
            "NVDEC decodes {name} with up to {max} bits, this has {bits}"
        )),
        (.., Some(size)) if !fits(size, least, most) => Err(format!(
            "NVDEC decodes {name} from {least} to {most} pixels, this has {size}"
        )),
        _ => Ok(()),
    }
}

fn fits(size: Size, least: Size, most: Size) -> bool {
    (least.width..=most.width).contains(&size.width)
        && (least.height..=most.height).contains(&size.height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ELEMENTS;

    #[test]
    fn nvdec_gets_only_supported_streams() {
        #[rustfmt::skip]
        let cases = [
            ("video/x-h264", Some("4:2:0"), Some(8), None),
            ("video/x-h264", None, None, None),
            ("video/x-h264", Some("4:2:2"), Some(8), Some("this is 4:2:2")),
            ("video/x-h264", Some("4:2:0"), Some(10), Some("this has 10")),
            ("video/x-h265", Some("4:2:0"), Some(10), None),
            ("video/x-h265", Some("4:4:4"), Some(8), Some("this is 4:4:4")),
        ];
        // frigate#8377, frigate#5678: cameras with two lenses.
        let large = |media, width, height| {
            nvdec_supports(media, None, None, Some(Size::new(width, height)))
        };
        assert_eq!(large("video/x-h264", 4096, 1536), Ok(()));
        assert_eq!(large("video/x-h265", 7680, 2160), Ok(()));
        for (media, width, height) in [
            ("video/x-h264", 4608, 1728),
            ("video/x-h264", 32, 32),
            ("video/x-h265", 128, 160),
        ] {
            let reason = large(media, width, height).expect_err("beyond its limits");
            assert!(
                reason.contains(&format!("this has {width}×{height}")),
                "{reason}"
            );
        }
        for (media, chroma, bits, expected) in cases {
            let found = nvdec_supports(media, chroma, bits, None);
            match expected {
                None => assert_eq!(found, Ok(())),
                Some(expected) => assert!(found.is_err_and(|reason| reason.contains(expected))),
            }
        }
    }

    #[test]
    fn every_element_of_a_jetson_is_in_the_table() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::write(path, text).expect("written");
        };
        write(
            "proc/device-tree/compatible",
            "nvidia,p3668-0000\0nvidia,tegra194",
        );
        write("etc/nv_tegra_release", "# R35 (release), REVISION: 4.1");
        let machine = Machine::find(&jetwatch_platform::SysRoot::new(folder.path()));
        let units = VideoUnits::for_machine(&machine);
        let jpeg = units.jpeg_decoders.expect("a known Jetson");
        for unit in [
            units.camera.expect("a known Jetson"),
            units.decoder.expect("a known Jetson"),
            units.vic.expect("a known Jetson"),
            units.gpu.expect("a known Jetson"),
        ]
        .iter()
        .chain(jpeg)
        {
            let entry = ELEMENTS
                .iter()
                .find(|entry| entry.name == unit.element)
                .unwrap_or_else(|| panic!("{} is not in the table", unit.element));
            assert!(entry.is_from_l4t());
            if let Some((property, _)) = unit.setting {
                assert!(entry.properties.contains(&property), "{property}");
            }
        }
    }
}
