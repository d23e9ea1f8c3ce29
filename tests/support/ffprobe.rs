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
