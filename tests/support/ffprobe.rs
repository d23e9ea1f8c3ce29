// SPDX-License-Identifier: Apache-2.0
//! What FFmpeg reads of a file: a reader that is not ours.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

/// A video file as ffprobe reads it.
#[derive(Debug)]
pub struct Probed {
    pub codec: String,
    pub width: u64,
    pub height: u64,
    /// Presentation time of each packet in ticks of the file's clock, in the order of the file.
    pub pts: Vec<i64>,
    pub dts: Vec<i64>,
    /// Places of the keyframes among the packets.
    pub keyframes: Vec<usize>,
    /// Duration that the file states, in seconds.
    pub duration: f64,
}

/// Reads all packets of the file at `path`.
///
/// # Errors
/// What ffprobe writes when it does not read the file.
pub fn probe(path: &Path) -> Result<Probed, String> {
    let output = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-of",
            "json",
            "-show_streams",
            "-show_packets",
            "-show_format",
        ])
        .arg(path)
        .output()
        .expect("ffprobe starts; install it with: apt-get install ffmpeg");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(text);
    }
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let stream = &found["streams"][0];
    let packets = found["packets"].as_array().expect("packets");
    let times = |key: &str| {
        packets
            .iter()
            .map(|p| p[key].as_i64().expect("a time"))
            .collect()
    };
    let is_keyframe = |packet: &Value| {
        packet["flags"]
            .as_str()
            .is_some_and(|flags| flags.starts_with('K'))
    };
    Ok(Probed {
        codec: stream["codec_name"].as_str().unwrap_or_default().to_owned(),
        width: stream["width"].as_u64().unwrap_or_default(),
        height: stream["height"].as_u64().unwrap_or_default(),
        pts: times("pts"),
        dts: times("dts"),
        keyframes: (0..packets.len())
            .filter(|place| is_keyframe(&packets[*place]))
            .collect(),
        duration: found["format"]["duration"]
            .as_str()
            .and_then(|text| text.parse().ok())
            .unwrap_or_default(),
    })
}

/// Makes the file `path` by ffmpeg with `arguments`.
pub fn make(arguments: &[&str], path: &Path) {
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-y"])
        .args(arguments)
        .arg(path)
        .output()
        .expect("ffmpeg starts; install it with: apt-get install ffmpeg");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ffmpeg {arguments:?}: {errors}");
}

/// ffmpeg's option for the times of what it writes: `-fps_mode` since 5.1, and that of before in Ubuntu 22.04.
pub fn times_option() -> &'static str {
    static OPTION: LazyLock<&str> = LazyLock::new(|| {
        let output = Command::new("ffmpeg")
            .args(["-hide_banner", "-h", "long"])
            .output()
            .expect("ffmpeg starts; install it with: apt-get install ffmpeg");
        match String::from_utf8_lossy(&output.stdout).contains("-fps_mode") {
            true => "-fps_mode",
            false => "-vsync",
        }
    });
    &OPTION
}

/// Decodes the whole file with ffmpeg; returns the number of images and what it complains about.
pub fn decode(path: &Path) -> (usize, String) {
    let output = Command::new("ffmpeg")
        .args(["-v", "warning", "-i"])
        .arg(path)
        .args([times_option(), "passthrough", "-f", "framemd5", "-"])
        .output()
        .expect("ffmpeg starts; install it with: apt-get install ffmpeg");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let images = text.lines().filter(|line| !line.starts_with('#')).count();
    (images, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// How many frames ffmpeg shows of the video track `track` of the file at `path`.
pub fn count_frames(path: &Path, track: u32) -> usize {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-count_frames", "-of", "csv=p=0"])
        .args(["-select_streams", &format!("v:{track}")])
        .args(["-show_entries", "stream=nb_read_frames"])
        .arg(path)
        .output()
        .expect("ffprobe starts; install it with: apt-get install ffmpeg");
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.split(['\n', ',']).next().unwrap_or_default();
    first
        .parse()
        .unwrap_or_else(|_| panic!("{}: {text}", path.display()))
}

/// Makes `path` by ffmpeg with `arguments`, separated by blanks.
pub fn ffmpeg(arguments: &str, path: &Path) {
    make(&arguments.split_whitespace().collect::<Vec<_>>(), path);
}

/// Matrix and range of a clip of one color.
#[derive(Debug, Clone, Copy)]
pub struct Colors {
    matrix: &'static str,
    /// As ffmpeg names them for the stream: space, primaries, transfer.
    told: [&'static str; 3],
    range: &'static str,
}

impl std::fmt::Display for Colors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{}", self.matrix, self.told[2], self.range)
    }
}

impl Colors {
    /// Each matrix with each range.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::in_each_range([
            ("bt601", ["smpte170m", "smpte170m", "smpte170m"]),
            ("bt709", ["bt709", "bt709", "bt709"]),
            ("bt2020", ["bt2020nc", "bt2020", "bt709"]),
        ])
    }

    /// The same with other transfers, which do not change pixels.
    pub fn of_other_transfers() -> impl Iterator<Item = Self> {
        Self::in_each_range([
            ("bt601", ["bt470bg", "bt470bg", "gamma28"]),
            ("bt709", ["bt709", "bt709", "iec61966-2-1"]),
            ("bt2020", ["bt2020nc", "bt2020", "bt2020-10"]),
        ])
    }

    fn in_each_range(
        matrices: [(&'static str, [&'static str; 3]); 3],
    ) -> impl Iterator<Item = Self> {
        matrices.into_iter().flat_map(|(matrix, told)| {
            ["tv", "pc"].map(|range| Self {
                matrix,
                told,
                range,
            })
        })
    }

    /// Makes a clip of five images of 320×240 pixels.
    pub fn make(self, pixels: &str, codec: &str, path: &Path) {
        let Self {
            matrix,
            told: [space, primaries, transfer],
            range,
        } = self;
        ffmpeg(
            &format!(
                "-f lavfi -i color=c=0xC83C78:s=320x240:r=5:d=1 \
                 -vf format=rgb24,scale=out_color_matrix={matrix}:out_range={range},format={pixels} \
                 -colorspace {space} -color_primaries {primaries} -color_trc {transfer} -color_range {range} -c:v {codec}"
            ),
            path,
        );
    }

    /// Where a color (blue, green, red) of an image of the clip, of which `pixels` is ffmpeg's format, is more than `most` levels from the
    /// definition of its matrix.
    pub fn differences(
        self,
        path: &Path,
        pixels: &str,
        found: [f32; 3],
        most: f32,
    ) -> Option<String> {
        let raw = path.with_extension("raw");
        ffmpeg(
            &format!("-i {} -frames:v 1 -f rawvideo", path.display()),
            &raw,
        );
        let bytes = std::fs::read(raw).expect("an image");
        let (depth, bytes_per_value) = if pixels.ends_with("10le") {
            (4.0, 2)
        } else {
            (1.0, 1)
        };
        let chroma = match pixels {
            _ if pixels.contains("444") => 320 * 240,
            _ if pixels.contains("422") => 320 * 240 / 2,
            _ => 320 * 240 / 4,
        };
        let [luma, blue, red] = [0, 320 * 240, 320 * 240 + chroma].map(|index| {
            let high = bytes
                .get(index * bytes_per_value + 1)
                .filter(|_| depth > 1.0);
            let low = bytes[index * bytes_per_value];
            f32::from(u16::from(low) | u16::from(*high.unwrap_or(&0)) << 8)
        });
        let (black, white, spread) = match self.range {
            "pc" if depth > 1.0 => (0.0, 1023.0, 1023.0),
            "pc" => (0.0, 255.0, 255.0),
            _ => (16.0 * depth, 219.0 * depth, 224.0 * depth),
        };
        let (of_red, of_blue) = match self.matrix {
            "bt601" => (0.299, 0.114),
            "bt709" => (0.2126, 0.0722),
            _ => (0.2627, 0.0593),
        };
        let luma = (luma - black) / white;
        let color = |value: f32, weight: f32| {
            luma + (value - 128.0 * depth) / spread * 2.0 * (1.0 - weight)
        };
        let (blue, red) = (color(blue, of_blue), color(red, of_red));
        let green = (luma - of_blue * blue - of_red * red) / (1.0 - of_blue - of_red);
        let wanted = [blue, green, red].map(|value| 255.0 * value.clamp(0.0, 1.0));
        let apart = [0, 1, 2].map(|channel| found[channel] - wanted[channel]);
        let is_wrong = apart.iter().any(|level| level.abs() > most);
        is_wrong.then(|| {
            let name = path.file_name().unwrap_or_default().display();
            format!("{name}: {apart:.1?}")
        })
    }
}
