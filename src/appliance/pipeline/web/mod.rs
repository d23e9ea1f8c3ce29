// SPDX-License-Identifier: Apache-2.0
//! The page of a run: its server, the sink that feeds it, and the pictures that are drawn for it.
//!
//! It starts before the detector is loaded, which may take minutes, and ends after the sinks.

mod backend;
mod cameras;
mod checks;
mod disks;
mod export;
mod media;
mod media_page;
mod previews;
mod seen;
mod sink;
mod thumbnails;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use jetwatch_config::Config;
use jetwatch_publish::Sink;
use jetwatch_types::Classes;
use jetwatch_web::{Backend, CameraFinder, Hub, PictureBoard, WebServer};

use self::backend::PageBackend;
pub use self::cameras::SUGGESTED_MAX_FPS;
pub(super) use self::previews::{HELD_IMAGES, Previews};
use self::sink::WebSink;
use super::PipelineError;
use super::run_state::RunState;

/// The page of a run; nothing where the configuration has none.
pub(super) struct Web {
    running: Option<Running>,
}

struct Running {
    /// First, so that no request comes to what ends.
    server: WebServer,
    hub: Arc<Hub>,
    backend: Arc<PageBackend>,
    previews: Arc<Previews>,
    pictures: Vec<JoinHandle<()>>,
    device: String,
}

impl Web {
    /// Starts the page of the configuration, which was read from `path`. Its address is written to the first of `files` that can be
    /// written. `check_command` checks the installation, `finder` looks for cameras.
    ///
    /// # Errors
    /// The address cannot be listened on, or a file cannot be used. The daemon runs without a page that the configuration does not name.
    pub(super) fn start(
        config: &Config,
        path: Option<&Path>,
        files: &[PathBuf],
        check_command: &[OsString],
        finder: Option<CameraFinder>,
        run: &Arc<RunState>,
    ) -> Result<Self, PipelineError> {
        let Some(listen) = config.web.listen else {
            return Ok(Self { running: None });
        };
        let hub = Arc::new(Hub::default());
        let board = Arc::new(PictureBoard::default());
        let backend = Arc::new(PageBackend::new(
            config,
            path,
            check_command,
            finder,
            Arc::clone(&hub),
            Arc::clone(run),
        ));
        let server = WebServer::start(
            &config.web,
            listen,
            files,
            jetwatch_config::own_state_folder().as_deref(),
            Arc::clone(&hub),
            Arc::clone(&board),
            Arc::clone(&backend) as Arc<dyn Backend>,
        );
        let server = match server {
            Err(error) if !config.web.candidates.is_empty() => {
                log::warn!("there is no page: {error}; or write web: {{enabled: false}}");
                return Ok(Self { running: None });
            }
            started => started?,
        };
        let (previews, pictures) = Previews::start(
            &config.web.preview,
            board,
            Arc::clone(backend.streams_board()),
            Arc::clone(backend.seen().thumbnails()),
        )?;
        let running = Running {
            server,
            hub,
            backend,
            previews,
            pictures: Vec::from(pictures),
            device: config.device.clone(),
        };
        Ok(Self {
            running: Some(running),
        })
    }

    /// Where the page is; `None`: there is none.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        let running = self.running.as_ref();
        running.map(|running| running.server.local_addr())
    }

    /// Adds the sink that feeds the page to `sinks`.
    pub(super) fn join_sinks(&self, classes: &Classes, sinks: &mut Vec<Box<dyn Sink>>) {
        if let Some(running) = &self.running {
            let (hub, backend) = (Arc::clone(&running.hub), Arc::clone(&running.backend));
            let sink = WebSink::new(hub, backend, &running.device, classes);
            sinks.push(Box::new(sink));
        }
    }

    /// The pictures, where there is a page.
    pub(super) fn previews(&self) -> Option<Arc<Previews>> {
        let running = self.running.as_ref();
        running.map(|running| Arc::clone(&running.previews))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.backend.stop_jobs();
        self.previews.close();
        for thread in self.pictures.drain(..) {
            // It makes one picture at most. A panic has been logged by the panic hook.
            let _ = thread.join();
        }
    }
}
