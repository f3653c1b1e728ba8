//! Copies of runs as run folders, which the index, the commands and the page read like those of the engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use orchestra_core::SharedPipeline;
use orchestra_engine::{ExportedCopy, ExportedPhase, ExportedRun, PinnedPipeline, RunId, StoreError};
use orchestra_graph::Transform;
use serde::de::DeserializeOwned;

use crate::admin::Admin;
use crate::blobs::BlobError;
use crate::client::Client;
use crate::client_error::ClientError;
use crate::ingress::Backoff;
use crate::packing::{Packed, UnpackError};
use crate::state::{PROTOCOL, Phase, RunState};
use crate::wire::{ExportedParts, ExportedSources};

/// The number of runs that are exported at once.
const CONCURRENT: usize = 4;
/// The number of looks at a run that changes so fast that its state is replaced before it is read.
const LOOKS: u32 = 20;
/// The number of failures of the server in a row after which a sync gives up.
const SERVER_FAILURES: usize = 2 * CONCURRENT;

/// Exports runs: writes copies of them as run folders.
///
/// ```
/// use orchestra_engine::RunId;
/// use orchestra_restate::{Admin, Client, ExportError, Exporter};
/// async fn copy(client: Client, admin: &Admin, run: &RunId) -> Result<(), ExportError> {
///     let exporter = Exporter::new(client);
///     let exported = exporter.export(run, ".orchestra/runs/nightly-7").await?;
///     println!("{} events", exported.events);
///     let report = exporter.sync(admin, ".orchestra/runs").await?;
///     println!("{} runs have changed", report.exported.len());
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Exporter {
    client: Client,
    transforms: Vec<Arc<dyn Transform>>,
}

/// The copy of a run.
///
/// ```
/// fn line(exported: &orchestra_restate::Exported) -> String {
///     format!("{}: {} events", exported.folder.display(), exported.events)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// The run folder.
    pub folder: PathBuf,
    /// `true` if the folder was changed; `false` if the run has not changed since the last export.
    pub changed: bool,
    /// The number of events.
    pub events: u64,
    /// `true` if the run has ended, so that the copy is final.
    pub has_ended: bool,
}

/// The result of a sync.
///
/// ```
/// fn is_complete(report: &orchestra_restate::SyncReport) -> bool {
///     report.failed.is_empty()
/// }
/// assert!(is_complete(&orchestra_restate::SyncReport::default()));
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SyncReport {
    /// The runs that have changed, in alphabetical order.
    pub exported: Vec<RunId>,
    /// The number of runs that have not.
    pub unchanged: u64,
    /// The runs that could not be exported, in alphabetical order. Their earlier copies are unchanged.
    pub failed: Vec<(RunId, ExportError)>,
}

/// An error of an export.
///
/// ```
/// # fn print(error: orchestra_restate::ExportError) {
/// use orchestra_restate::{BlobError, ClientError, ExportError};
/// if let ExportError::Client(ClientError::Blob(BlobError::Missing { name, .. })) = &error {
///     println!("restore {name} from a backup");
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The run cannot be read.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The stored pipeline does not result in the one that the run follows.
    #[error(
        "this program does not load the pipeline of run `{run}` as its worker did; export the run by the program of the \
         worker"
    )]
    Pipeline {
        /// The run.
        run: RunId,
    },
    /// The state of the run cannot be read.
    #[error("the state of run `{run}` cannot be read: {reason}")]
    State {
        /// The run.
        run: RunId,
        /// The reason.
        reason: String,
    },
    /// The run changed faster than it could be read.
    #[error("run `{run}` changed each time that it was read; try again")]
    Unsettled {
        /// The run.
        run: RunId,
    },
    /// The run folder cannot be written.
    #[error(transparent)]
    Folder(#[from] StoreError),
}

impl From<BlobError> for ExportError {
    fn from(error: BlobError) -> ExportError {
        ExportError::Client(error.into())
    }
}

impl Client {
    /// Writes a copy of a run as a run folder, as an [`Exporter`] without transforms does.
    ///
    /// # Errors
    /// The run or one of its blobs cannot be read, or the folder cannot be written.
    pub async fn export(&self, run: &RunId, folder: impl AsRef<Path>) -> Result<Exported, ExportError> {
        Exporter::new(self.clone()).export(run, folder).await
    }
}

impl Exporter {
    /// Creates an exporter of the runs of a client.
    pub fn new(client: Client) -> Exporter {
        Exporter {
            client,
            transforms: Vec::new(),
        }
    }

    /// Sets the transforms with which workers load pipelines. Those of compiled pipelines are not loaded again.
    #[must_use]
    pub fn transforms(mut self, transforms: impl IntoIterator<Item = Arc<dyn Transform>>) -> Exporter {
        self.transforms.extend(transforms);
        self
    }

    /// Writes a copy of a run as a run folder. The earlier copy in the folder is replaced as a whole if the run has changed
    /// since, so an interruption loses nothing. The run itself is not changed. See
    /// [`ExportedRun`](orchestra_engine::ExportedRun) for what can be done with the copy.
    ///
    /// # Errors
    /// The run or one of its blobs cannot be read, the folder holds something else than a copy of the run, or it cannot be
    /// written.
    pub async fn export(&self, run: &RunId, folder: impl AsRef<Path>) -> Result<Exported, ExportError> {
        let folder = folder.as_ref().to_owned();
        let mut backoff = Backoff::new();
        let mut missing = None;
        let mut last = ExportError::Unsettled { run: run.clone() };
        for _ in 0..LOOKS {
            let parts = self.client.exported_parts(run).await?;
            let blob = parts.state.root_blob();
            let state = match self.unpacked::<RunState>(run, &parts.state).await {
                // The blob of a state is removed some turns later. If the state is still the same, the blob is lost.
                Err(ExportError::Client(ClientError::Blob(BlobError::Missing { .. })))
                    if blob.is_some() && missing != blob =>
                {
                    missing = blob;
                    backoff.wait().await;
                    continue;
                }
                read => read?,
            };
            if state.protocol != PROTOCOL {
                return Err(ExportError::State {
                    run: run.clone(),
                    reason: format!(
                        "it has version {}, and this program reads version {PROTOCOL}",
                        state.protocol
                    ),
                });
            }
            let mut exported = Exported {
                folder: folder.clone(),
                changed: false,
                events: state.events,
                has_ended: matches!(state.phase, Phase::Ended(_)),
            };
            let is_same = |copy: &ExportedCopy| copy.events == state.events && copy.time == state.now;
            if present(&folder).await?.is_some_and(|copy| is_same(&copy)) {
                return Ok(exported);
            }
            if let Some(copy) = self.copy(run, parts, state).await? {
                match blocking(&folder, move |folder| copy.write(folder)).await {
                    Err(error) if is_written_here(&error) => last = error,
                    Err(error) => return Err(error),
                    Ok(changed) => {
                        exported.changed = changed;
                        return Ok(exported);
                    }
                }
            }
            backoff.wait().await;
        }
        Err(last)
    }

    /// Reads the rest of a run. Returns `None` if its events are not those of the state.
    async fn copy(
        &self,
        run: &RunId,
        parts: ExportedParts,
        state: RunState,
    ) -> Result<Option<ExportedRun>, ExportError> {
        let events = self.client.events_of(run, parts.events, 0).await?;
        if events.last().map_or(0, |event| event.seq) != state.events || events.len() as u64 != state.events {
            return Ok(None);
        }
        let pipeline = self.pipeline(run, parts.sources).await?;
        let server = without_user(self.client.url());
        let mut copy = ExportedRun::new(run.clone(), server, pipeline, state.machine);
        copy.params = self.unpacked(run, &parts.params).await?;
        copy.budget = state.budget;
        (copy.started, copy.time, copy.executed) = (state.began, state.now, state.executed);
        copy.phase = match state.phase {
            Phase::Running => ExportedPhase::Running,
            Phase::Paused(failure) => ExportedPhase::Paused(failure),
            Phase::Ended(failure) => ExportedPhase::Ended(failure),
        };
        copy.events = events;
        copy.texts = self.client.blobs().all_texts(run).await?;
        Ok(Some(copy))
    }

    /// Loads the pipeline that a run follows.
    async fn pipeline(&self, run: &RunId, sources: ExportedSources) -> Result<SharedPipeline, ExportError> {
        let pinned: Option<PinnedPipeline> = match sources {
            ExportedSources::Blob(name) => {
                serde_json::from_slice(&self.client.blobs().sources(&name).await?).ok()
            }
            ExportedSources::Child(pinned) => Some(*pinned),
        };
        // A compiled pipeline was loaded without transforms.
        let loaded = pinned.and_then(|pinned| {
            let load = |transforms: &[_]| pinned.load(transforms).filter(|loaded| pinned.is_of(loaded));
            load(&self.transforms).or_else(|| load(&[]))
        });
        loaded.ok_or_else(|| ExportError::Pipeline { run: run.clone() })
    }

    async fn unpacked<T: DeserializeOwned>(&self, run: &RunId, packed: &Packed) -> Result<T, ExportError> {
        packed
            .unpack(self.client.blobs(), run)
            .await
            .map_err(|error| match error {
                UnpackError::Blob(error) => error.into(),
                UnpackError::Json(error) => ExportError::State {
                    run: run.clone(),
                    reason: error.to_string(),
                },
            })
    }

    /// Exports the runs of the server that are new or have changed to a folder of runs. Runs whose copies are final are not
    /// requested again. Child runs are left out, because the usage of a run contains that of its children;
    /// [`export`](Exporter::export) copies each of them by its id.
    ///
    /// # Errors
    /// The administration cannot be reached, or the server does not answer. The copies so far are complete.
    pub async fn sync(&self, admin: &Admin, runs_dir: impl AsRef<Path>) -> Result<SyncReport, ExportError> {
        let runs_dir = runs_dir.as_ref();
        let mut report = SyncReport::default();
        let mut after = String::new();
        let mut failures = 0;
        loop {
            let listed = admin.runs_after(&after).await?;
            let Some(last) = listed.last() else { break };
            after.clone_from(&last.id);
            let runs = listed.into_iter().filter(|run| !run.is_child);
            // Only the requests of this crate make runs, so every key is the id of a run.
            let runs = runs.filter_map(|run| RunId::new(run.id).ok());
            let mut exports = stream::iter(runs)
                .map(async |run| {
                    let exported = self.export_unless_final(&run, runs_dir.join(&*run)).await;
                    (run, exported)
                })
                .buffer_unordered(CONCURRENT);
            while let Some((run, exported)) = exports.next().await {
                let is_server = matches!(&exported, Err(ExportError::Client(ClientError::Server(_))));
                failures = if is_server { failures + 1 } else { 0 };
                match exported {
                    Ok(true) => report.exported.push(run),
                    Ok(false) => report.unchanged += 1,
                    Err(error) if failures >= SERVER_FAILURES => return Err(error),
                    Err(error) => report.failed.push((run, error)),
                }
            }
        }
        report.exported.sort();
        report.failed.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(report)
    }

    /// Exports a run unless its copy is final. Returns whether the copy was changed.
    async fn export_unless_final(&self, run: &RunId, folder: PathBuf) -> Result<bool, ExportError> {
        if present(&folder).await?.is_some_and(|copy| copy.has_ended) {
            return Ok(false);
        }
        Ok(self.export(run, folder).await?.changed)
    }
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

async fn present(folder: &Path) -> Result<Option<ExportedCopy>, ExportError> {
    blocking(folder, |folder| ExportedCopy::read(folder)).await
}

/// Returns whether an export of this process writes the same copy. One that was dropped goes on until it has written.
fn is_written_here(error: &ExportError) -> bool {
    matches!(error, ExportError::Folder(StoreError::Owned { by: Some(owner), .. }) if owner.pid == std::process::id())
}

/// Uses a folder outside of the threads that send requests.
async fn blocking<T: Send + 'static>(
    folder: &Path,
    act: impl FnOnce(&Path) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ExportError> {
    let path = folder.to_owned();
    let done = tokio::task::spawn_blocking(move || act(&path)).await;
    let done = done.unwrap_or_else(|error| {
        Err(StoreError::Io {
            action: "use",
            path: folder.to_owned(),
            source: std::io::Error::other(error),
        })
    });
    Ok(done?)
}

/// Returns an address without the user and the password, which are not for everybody who reads run folders.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_reaches_a_run_folder() {
        for (url, shown) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("https://me:secret@host/in/a@b", "https://host/in/a@b"),
            ("elsewhere", "elsewhere"),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }
}
