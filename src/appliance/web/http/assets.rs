// SPDX-License-Identifier: Apache-2.0
//! The files of the page, which are in the program. Nothing is fetched from elsewhere.

use std::sync::OnceLock;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};

use super::request::Head;
use super::response::{Answer, done, with_type};
use jetwatch_files::Sha256Digest;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A file of the page.
#[derive(Debug, PartialEq)]
pub(super) struct Asset {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($path:literal: $type:expr, $file:literal;)*) => {
        &[$(Asset { path: $path, content_type: $type, bytes: include_bytes!(concat!("../page/", $file)) },)*]
    };
}

static ASSETS: &[Asset] = assets! {
    "/": HTML, "index.html";
    "/first.html": HTML, "first.html";
    "/first.js": SCRIPT, "first.js";
    "/style.css": "text/css; charset=utf-8", "style.css";
    "/icon.svg": "image/svg+xml", "icon.svg";
    "/app.js": SCRIPT, "app.js";
    "/dom.js": SCRIPT, "dom.js";
    "/text.js": SCRIPT, "text.js";
    "/text/en.js": SCRIPT, "text/en.js";
    "/text/de.js": SCRIPT, "text/de.js";
    "/text/es.js": SCRIPT, "text/es.js";
    "/text/fr.js": SCRIPT, "text/fr.js";
    "/text/ja.js": SCRIPT, "text/ja.js";
    "/text/zh.js": SCRIPT, "text/zh.js";
    "/api.js": SCRIPT, "api.js";
    "/store.js": SCRIPT, "store.js";
    "/address.js": SCRIPT, "address.js";
    "/account.js": SCRIPT, "account.js";
    "/live.js": SCRIPT, "live.js";
    "/video.js": SCRIPT, "video.js";
    "/events.js": SCRIPT, "events.js";
    "/filter.js": SCRIPT, "filter.js";
    "/cards.js": SCRIPT, "cards.js";
    "/layer.js": SCRIPT, "layer.js";
    "/pictures.js": SCRIPT, "pictures.js";
    "/player.js": SCRIPT, "player.js";
    "/share.js": SCRIPT, "share.js";
    "/stills.js": SCRIPT, "stills.js";
    "/timeline.js": SCRIPT, "timeline.js";
    "/storage.js": SCRIPT, "storage.js";
    "/cameras.js": SCRIPT, "cameras.js";
    "/checks.js": SCRIPT, "checks.js";
    "/machine.js": SCRIPT, "machine.js";
    "/plot.js": SCRIPT, "plot.js";
    "/rules.js": SCRIPT, "rules.js";
    "/zones.js": SCRIPT, "zones.js";
};

/// The file at `path`.
pub(super) fn asset(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

impl Asset {
    /// The file, or that the browser has it already.
    pub(super) fn answer(&'static self, head: &Head<'_>) -> Answer {
        let tag = self.tag();
        let known = head.headers.get(IF_NONE_MATCH);
        let is_known = known
            .and_then(|known| known.to_str().ok())
            .is_some_and(|known| {
                known
                    .split(',')
                    .any(|known| known.trim().trim_start_matches("W/") == tag)
            });
        let mut answer = match is_known {
            true => {
                let mut answer = done();
                *answer.status_mut() = StatusCode::NOT_MODIFIED;
                answer
            }
            false => with_type(self.content_type, self.bytes),
        };
        let headers = answer.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(tag) {
            headers.insert(ETAG, tag);
        }
        // Asked for each time, so that the page fits the daemon after an update.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        answer
    }

    /// Changes with its content.
    fn tag(&'static self) -> &'static str {
        static TAGS: OnceLock<Vec<String>> = OnceLock::new();
        let tags = TAGS.get_or_init(|| {
            let tag =
                |asset: &Asset| format!("\"{:.16}\"", Sha256Digest::of(asset.bytes).to_string());
            ASSETS.iter().map(tag).collect()
        });
        let index = ASSETS.iter().position(|asset| asset.path == self.path);
        index.map_or("", |index| &tags[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_no_address_of_elsewhere_and_no_inline_script() {
        for asset in ASSETS {
            let text = String::from_utf8_lossy(asset.bytes);
            for (at, _) in text.match_indices("://") {
                let before = &text[..at + 3];
                let is_namespace = text[at..].starts_with("://www.w3.org/");
                assert!(
                    is_namespace,
                    "{}: …{}",
                    asset.path,
                    &before[before.len().saturating_sub(60)..]
                );
            }
            if asset.content_type == HTML {
                assert!(
                    !text.contains("onclick=") && !text.contains("style="),
                    "{}",
                    asset.path
                );
                assert_eq!(
                    text.matches("<script").count(),
                    text.matches("<script type=\"module\" src=").count()
                );
            }
        }
    }

    #[test]
    fn tags_differ() {
        let mut tags: Vec<&str> = ASSETS.iter().map(Asset::tag).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), ASSETS.len());
    }
}
