//! Traces and metrics of the runs of this process, if the environment requests them.

use std::path::PathBuf;

use orchestra_engine::{Begin, Engine};

use crate::terminal::Terminal;

/// The telemetry of this process. It is off unless the environment names a collector.
#[derive(Clone, Default)]
pub(crate) struct RunTelemetry {
    #[cfg(feature = "otel")]
    telemetry: Option<orchestra_telemetry::Telemetry>,
}

impl RunTelemetry {
    /// Reads the environment. If it requests what is not supported, prints a warning and switches telemetry off: the
    /// variables may be set for other programs.
    #[cfg(feature = "otel")]
    pub(crate) fn from_environment(terminal: &Terminal) -> RunTelemetry {
        let telemetry = orchestra_telemetry::Telemetry::from_environment();
        RunTelemetry {
            telemetry: telemetry.unwrap_or_else(|error| {
                let help = error.help();
                warn(
                    terminal,
                    error.code(),
                    &format!("{error}; the run is not traced; {help}"),
                );
                None
            }),
        }
    }

    /// Returns telemetry that is off, because this program is built without it.
    #[cfg(not(feature = "otel"))]
    pub(crate) fn from_environment(_: &Terminal) -> RunTelemetry {
        RunTelemetry::default()
    }

    /// Returns the engine with observers of its runs, one of which may be in one of these folders.
    #[cfg(feature = "otel")]
    pub(crate) fn observe(&self, engine: Engine, run_folders: Vec<PathBuf>) -> Engine {
        match &self.telemetry {
            Some(telemetry) => telemetry.observe_in(&engine, run_folders),
            None => engine,
        }
    }

    /// Returns the engine.
    #[cfg(not(feature = "otel"))]
    pub(crate) fn observe(&self, engine: Engine, _: Vec<PathBuf>) -> Engine {
        engine
    }

    /// Exports what is left. Prints a warning if the collector did not receive everything.
    #[cfg(feature = "otel")]
    pub(crate) fn finish(self, terminal: &Terminal) {
        if let Some(failure) = self.telemetry.and_then(|telemetry| telemetry.finish()) {
            warn(
                terminal,
                failure.code(),
                &format!("{failure}; the run itself is not harmed"),
            );
        }
    }

    /// Does nothing.
    #[cfg(not(feature = "otel"))]
    pub(crate) fn finish(self, _: &Terminal) {}
}

/// Returns the folder in which a run continues or is requested to be, if there is one.
pub(crate) fn run_folders(begin: &Begin) -> Vec<PathBuf> {
    let folder = match begin {
        Begin::Start(settings) => settings.run_dir.clone(),
        Begin::Resume { folder, .. } => Some(folder.clone()),
        Begin::Replay { run_dir, .. } => run_dir.clone(),
    };
    folder.into_iter().collect()
}

#[cfg(feature = "otel")]
fn warn(terminal: &Terminal, code: &str, message: &str) {
    let mark = terminal.paint(crate::terminal::Paint::Warn, &format!("warning[{code}]"));
    terminal.progress(&format!("{mark}: {message}"));
}
