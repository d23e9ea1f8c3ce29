//! The paths of the page: which request each serves, by which method, and who may make it.

use hyper::Method;

use super::assets::{Asset, asset};
use jetwatch_config::WebRole;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Route<'p> {
    /// A file of the page itself.
    Asset(&'static Asset),
    Login,
    Logout,
    /// Who makes the request.
    Session,
    /// Messages as they come.
    Live,
    /// The list of events.
    Events,
    /// Tracks of now.
    Now,
    /// Figures of the last hour.
    History,
    /// Warnings and errors of the log.
    Log,
    /// What runs where.
    Info,
    /// Pictures of several sources in one stream.
    Pictures,
    /// One picture of a source.
    Picture(&'p str),
    /// Pictures of a source, as MJPEG.
    Mjpeg(&'p str),
    /// Zones and lines of a source.
    Rules(&'p str),
    /// The encoded stream of a source.
    Stream(&'p str),
    /// The list of kept items.
    Media,
    Snapshot(&'p str),
    Clip(&'p str),
    Pin(&'p str),
    Reload,
    /// The support bundle.
    Support,
}

/// Who may make a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Everyone who reaches the page.
    Nothing,
    /// Also a token for pictures.
    Pictures,
    /// This role or a higher one.
    Role(WebRole),
}

impl<'p> Route<'p> {
    /// The route of a path without the base path; `None`: there is none.
    pub(super) fn of(path: &'p str) -> Option<Self> {
        let Some(api) = path.strip_prefix("/api/") else {
            return asset(path).map(Self::Asset);
        };
        let (first, rest) = api.split_once('/').unwrap_or((api, ""));
        let (name, last) = rest.split_once('/').unwrap_or((rest, ""));
        let has_name = is_name(name);
        Some(match (first, name, last) {
            ("login", "", "") => Self::Login,
            ("logout", "", "") => Self::Logout,
            ("session", "", "") => Self::Session,
            ("live", "", "") => Self::Live,
            ("events", "", "") => Self::Events,
            ("now", "", "") => Self::Now,
            ("history", "", "") => Self::History,
            ("log", "", "") => Self::Log,
            ("info", "", "") => Self::Info,
            ("pictures", "", "") => Self::Pictures,
            ("media", "", "") => Self::Media,
            ("reload", "", "") => Self::Reload,
            ("support", "", "") => Self::Support,
            ("sources", name, "picture.jpg") if has_name => Self::Picture(name),
            ("sources", name, "mjpeg") if has_name => Self::Mjpeg(name),
            ("sources", name, "rules") if has_name => Self::Rules(name),
            ("sources", name, "stream.mp4") if has_name => Self::Stream(name),
            ("media", id, "snapshot.jpg") if has_name => Self::Snapshot(id),
            ("media", id, "clip.mp4") if has_name => Self::Clip(id),
            ("media", id, "pin") if has_name => Self::Pin(id),
            _ => return None,
        })
    }

    /// Whether it answers `method`; the second are the methods that it answers.
    pub(super) fn accepts(self, method: &Method) -> Result<(), &'static str> {
        let (is_accepted, all) = match self {
            Self::Login | Self::Logout | Self::Reload | Self::Pin(_) => {
                (*method == Method::POST, "POST")
            }
            Self::Rules(_) => (
                matches!(*method, Method::GET | Method::POST | Method::PUT),
                "GET, POST, PUT",
            ),
            _ => (matches!(*method, Method::GET | Method::HEAD), "GET, HEAD"),
        };
        is_accepted.then_some(()).ok_or(all)
    }

    /// Who may make it by `method`.
    pub(super) fn need(self, method: &Method) -> Need {
        match self {
            Self::Asset(_) | Self::Login | Self::Logout | Self::Session => Need::Nothing,
            Self::Pictures | Self::Picture(_) | Self::Mjpeg(_) | Self::Stream(_) => Need::Pictures,
            Self::Reload | Self::Pin(_) => Need::Role(WebRole::Operator),
            Self::Rules(_) if *method == Method::PUT => Need::Role(WebRole::Operator),
            Self::Support => Need::Role(WebRole::Administrator),
            _ => Need::Role(WebRole::Viewer),
        }
    }
}

/// Names of sources, and ids of items, which have dots and colons too.
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    !text.is_empty() && text.len() <= 160 && !text.starts_with('.') && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_out_of_the_page_have_no_route() {
        for path in [
            "",
            "/..",
            "/../etc/passwd",
            "/api",
            "/api/",
            "/api/sources/",
            "/api/sources/../rules",
            "/api/sources/%2e%2e/rules",
            "/api/media/..%2f/clip.mp4",
            "/api/media/.hidden/clip.mp4",
            "/api/sources/a/rules/",
            "/api/sources//rules",
            "/api/media/a/b/clip.mp4",
            "/app.js/",
            "/page/app.js",
            "/api/login/x",
        ] {
            assert_eq!(Route::of(path), None, "{path}");
        }
        assert_eq!(
            Route::of("/api/sources/gate-1/rules"),
            Some(Route::Rules("gate-1"))
        );
        assert_eq!(
            Route::of("/api/media/a.b:1/clip.mp4"),
            Some(Route::Clip("a.b:1"))
        );
        assert!(matches!(Route::of("/"), Some(Route::Asset(_))));
    }

    #[test]
    fn each_change_needs_an_operator() {
        let rules = Route::Rules("a");
        assert_eq!(rules.need(&Method::GET), Need::Role(WebRole::Viewer));
        assert_eq!(rules.need(&Method::PUT), Need::Role(WebRole::Operator));
        assert_eq!(
            Route::Reload.need(&Method::POST),
            Need::Role(WebRole::Operator)
        );
        assert_eq!(
            Route::Pin("a").need(&Method::POST),
            Need::Role(WebRole::Operator)
        );
        assert_eq!(
            Route::Support.need(&Method::GET),
            Need::Role(WebRole::Administrator)
        );
        for route in [
            Route::Live,
            Route::Events,
            Route::Info,
            Route::Log,
            Route::Clip("a"),
        ] {
            assert_eq!(
                route.need(&Method::GET),
                Need::Role(WebRole::Viewer),
                "{route:?}"
            );
            assert_eq!(route.accepts(&Method::POST), Err("GET, HEAD"), "{route:?}");
        }
    }
}
