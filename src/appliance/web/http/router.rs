// SPDX-License-Identifier: Apache-2.0
//! The paths of the page: which request each serves, by which method, and who may make it. [`ENDPOINTS`] has all of them, but for the
//! files of the page itself.

use hyper::Method;

use super::assets::{Asset, asset};
use jetwatch_config::WebRole;

/// What a request is for. The comments name what the path has in place of `{}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Login,
    /// The first user, by the link that the daemon logs.
    FirstUser,
    Logout,
    /// Who makes the request.
    Session,
    /// One's own password.
    Password,
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
    Picture,
    /// Pictures of a source, as MJPEG.
    Mjpeg,
    /// Zones and lines of a source.
    Rules,
    /// The encoded stream of a source.
    Stream,
    /// A span of time of a source as one video.
    Export,
    /// The list of objects.
    Objects,
    /// What objects differ by.
    Facets,
    /// A small picture of an object.
    Thumbnail,
    /// Which objects are marked as seen.
    Review,
    /// What each source has in a span of time.
    Activity,
    /// The list of kept items.
    Media,
    /// The picture of an item.
    Snapshot,
    /// The video of an item.
    Clip,
    /// Whether an item is kept for good.
    Pin,
    /// A link to one item.
    Share,
    /// The end of all links.
    Revoke,
    Reload,
    /// Checks of the installation.
    Doctor,
    /// Cameras that may become sources.
    Cameras,
    /// The picture of such a camera.
    CameraPicture,
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
    /// A user who has logged in, of any role.
    User,
    /// A viewer, or who has a link to this item.
    ViewerOrLink,
    /// This role or a higher one.
    Role(WebRole),
}

/// A method by which a path is asked for; HEAD goes with GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    /// GET of a stream, which has no HEAD: it has no end.
    Stream,
    Post,
    Put,
}

/// A path below `/api/`; `{}` stands for the name of a source or the id of an item.
#[derive(Debug, PartialEq)]
pub(super) struct Endpoint {
    path: &'static str,
    action: Action,
    needs: &'static [(Verb, Need)],
}

const VIEWER: Need = Need::Role(WebRole::Viewer);
const OPERATOR: Need = Need::Role(WebRole::Operator);
const ADMINISTRATOR: Need = Need::Role(WebRole::Administrator);

/// All paths.
static ENDPOINTS: &[Endpoint] = {
    use Verb::{Get, Post, Put, Stream};
    const fn to(path: &'static str, action: Action, needs: &'static [(Verb, Need)]) -> Endpoint {
        Endpoint {
            path,
            action,
            needs,
        }
    }
    &[
        to("login", Action::Login, &[(Post, Need::Nothing)]),
        to("first-user", Action::FirstUser, &[(Post, Need::Nothing)]),
        to("logout", Action::Logout, &[(Post, Need::Nothing)]),
        to("session", Action::Session, &[(Get, Need::Nothing)]),
        to("password", Action::Password, &[(Post, Need::User)]),
        to("live", Action::Live, &[(Stream, VIEWER)]),
        to("events", Action::Events, &[(Get, VIEWER)]),
        to("now", Action::Now, &[(Get, VIEWER)]),
        to("history", Action::History, &[(Get, VIEWER)]),
        to("log", Action::Log, &[(Get, VIEWER)]),
        to("info", Action::Info, &[(Get, VIEWER)]),
        to("pictures", Action::Pictures, &[(Stream, Need::Pictures)]),
        to(
            "sources/{}/picture.jpg",
            Action::Picture,
            &[(Get, Need::Pictures)],
        ),
        to(
            "sources/{}/mjpeg",
            Action::Mjpeg,
            &[(Stream, Need::Pictures)],
        ),
        to(
            "sources/{}/stream.mp4",
            Action::Stream,
            &[(Stream, Need::Pictures)],
        ),
        to(
            "sources/{}/rules",
            Action::Rules,
            &[(Get, VIEWER), (Post, OPERATOR), (Put, OPERATOR)],
        ),
        to(
            "sources/{}/export.mp4",
            Action::Export,
            &[(Stream, Need::ViewerOrLink)],
        ),
        to("objects", Action::Objects, &[(Get, VIEWER)]),
        to("objects/facets", Action::Facets, &[(Get, VIEWER)]),
        to(
            "objects/{}/picture.jpg",
            Action::Thumbnail,
            &[(Get, VIEWER)],
        ),
        to("objects/reviewed", Action::Review, &[(Post, OPERATOR)]),
        to("activity", Action::Activity, &[(Get, VIEWER)]),
        to("media", Action::Media, &[(Get, VIEWER)]),
        to(
            "media/{}/snapshot.jpg",
            Action::Snapshot,
            &[(Get, Need::ViewerOrLink)],
        ),
        to(
            "media/{}/clip.mp4",
            Action::Clip,
            &[(Get, Need::ViewerOrLink)],
        ),
        to("media/{}/pin", Action::Pin, &[(Post, OPERATOR)]),
        to("share", Action::Share, &[(Post, OPERATOR)]),
        to("share/revoke", Action::Revoke, &[(Post, ADMINISTRATOR)]),
        to("reload", Action::Reload, &[(Post, OPERATOR)]),
        to(
            "doctor",
            Action::Doctor,
            &[(Get, ADMINISTRATOR), (Post, ADMINISTRATOR)],
        ),
        to(
            "cameras",
            Action::Cameras,
            &[
                (Get, ADMINISTRATOR),
                (Post, ADMINISTRATOR),
                (Put, ADMINISTRATOR),
            ],
        ),
        to(
            "cameras/picture.jpg",
            Action::CameraPicture,
            &[(Get, ADMINISTRATOR)],
        ),
        to("support", Action::Support, &[(Get, ADMINISTRATOR)]),
    ]
};

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Route<'p> {
    /// A file of the page itself.
    Asset(&'static Asset),
    /// A path of the table, and the name in it.
    Api(&'static Endpoint, &'p str),
}

/// A path and method of the page, and who may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSummary {
    /// The method: `GET`, `POST` or `PUT`.
    pub method: &'static str,
    /// The path, with `{}` for the name of a source or the id of an item.
    pub path: String,
    /// Who may use it: `everyone`, `pictures`, `user`, the word of the lowest role, or `viewer, or a link`.
    pub need: &'static str,
}

/// All paths and methods, but for the files of the page itself.
pub fn endpoints() -> Vec<EndpointSummary> {
    let of = |endpoint: &'static Endpoint| {
        endpoint.needs.iter().map(|(verb, need)| EndpointSummary {
            method: verb.word(),
            path: format!("/api/{}", endpoint.path),
            need: match need {
                Need::Nothing => "everyone",
                Need::Pictures => "pictures",
                Need::User => "user",
                Need::ViewerOrLink => "viewer, or a link",
                Need::Role(role) => role.word(),
            },
        })
    };
    ENDPOINTS.iter().flat_map(of).collect()
}

impl<'p> Route<'p> {
    /// The route of a path without the base path; `None`: there is none.
    pub(super) fn of(path: &'p str) -> Option<Self> {
        let Some(path) = path.strip_prefix("/api/") else {
            return asset(path).map(Self::Asset);
        };
        ENDPOINTS.iter().find_map(|endpoint| {
            let name = endpoint.name_in(path)?;
            Some(Self::Api(endpoint, name))
        })
    }
}

impl Endpoint {
    /// The name in `path`; `None`: it is another path.
    fn name_in<'p>(&self, path: &'p str) -> Option<&'p str> {
        let Some((before, after)) = self.path.split_once("{}") else {
            return (path == self.path).then_some("");
        };
        let name = path.strip_prefix(before)?.strip_suffix(after)?;
        is_name(name).then_some(name)
    }

    pub(super) fn action(&self) -> Action {
        self.action
    }

    /// Who may make a request by `method`.
    ///
    /// # Errors
    /// It does not answer this method; the error has those that it answers.
    pub(super) fn need(&self, method: &Method) -> Result<Need, String> {
        let found = self.needs.iter().find(|(verb, _)| verb.accepts(method));
        found.map(|(_, need)| *need).ok_or_else(|| {
            let words: Vec<&str> = self.needs.iter().map(|(verb, _)| verb.words()).collect();
            words.join(", ")
        })
    }
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Self::Get | Self::Stream => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }

    /// With the methods that go along.
    fn words(self) -> &'static str {
        match self {
            Self::Get => "GET, HEAD",
            other => other.word(),
        }
    }

    fn accepts(self, method: &Method) -> bool {
        *method == self.word() || (self == Self::Get && *method == Method::HEAD)
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
            "/api/sources/{}/rules/x",
            "/api/media/..%2f/clip.mp4",
            "/api/media/.hidden/clip.mp4",
            "/api/sources/a/rules/",
            "/api/sources//rules",
            "/api/sources/rules",
            "/api/media/a/b/clip.mp4",
            "/app.js/",
            "/page/app.js",
            "/api/login/x",
        ] {
            assert_eq!(Route::of(path), None, "{path}");
        }
        for (path, action, wanted) in [
            ("/api/sources/gate-1/rules", Action::Rules, "gate-1"),
            ("/api/media/a.b:1/clip.mp4", Action::Clip, "a.b:1"),
            ("/api/media", Action::Media, ""),
        ] {
            let Some(Route::Api(endpoint, name)) = Route::of(path) else {
                panic!("{path} has no route");
            };
            assert_eq!((endpoint.action(), name), (action, wanted), "{path}");
        }
        assert!(matches!(Route::of("/"), Some(Route::Asset(_))));
    }

    #[test]
    fn each_path_has_one_endpoint_and_each_method_one_need() {
        for endpoint in ENDPOINTS {
            let path = format!("/api/{}", endpoint.path.replace("{}", "a"));
            let Some(Route::Api(found, _)) = Route::of(&path) else {
                panic!("{path} has no route");
            };
            assert_eq!(found, endpoint);
            for (index, (verb, _)) in endpoint.needs.iter().enumerate() {
                let before = &endpoint.needs[..index];
                assert!(before.iter().all(|(other, _)| other != verb), "{path}");
            }
        }
    }

    #[test]
    fn methods_that_are_not_answered_are_told() {
        let Some(Route::Api(rules, _)) = Route::of("/api/sources/a/rules") else {
            panic!("it has a route");
        };
        assert_eq!(rules.need(&Method::HEAD), Ok(VIEWER));
        assert_eq!(rules.need(&Method::PUT), Ok(OPERATOR));
        let all = "GET, HEAD, POST, PUT".to_owned();
        assert_eq!(rules.need(&Method::DELETE), Err(all));
        for stream in ["/api/live", "/api/sources/a/mjpeg"] {
            let Some(Route::Api(stream, _)) = Route::of(stream) else {
                panic!("{stream} has no route");
            };
            assert_eq!(stream.need(&Method::HEAD), Err("GET".to_owned()));
        }
    }
}
