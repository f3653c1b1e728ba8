//! The spans of all runs of a program, with their child runs and their earlier processes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use opentelemetry_sdk::trace::SpanData;
use orchestra_engine::{EventKind, RunEvent, RunFolder, RunId};

use crate::ids::{span_id, trace_id, traceparent};
use crate::run_trace::{ParentSpan, RunTrace};

/// The runs in progress.
#[derive(Default)]
pub(crate) struct Traces {
    runs: HashMap<RunId, Followed>,
    contents: bool,
}

struct Followed {
    trace: RunTrace,
    /// The run folder, if it is known.
    folder: Option<PathBuf>,
}

/// What an event changed.
pub(crate) struct Applied {
    /// The name of the pipeline.
    pub(crate) pipeline: String,
    /// The spans that ended.
    pub(crate) ended: Vec<SpanData>,
    /// By how much the number of open questions changed.
    pub(crate) waiting: i64,
    /// By how much the number of runs in progress changed.
    pub(crate) active: i64,
    /// `true` if the event is a copy of one of another run, which was counted there.
    pub(crate) is_copied: bool,
}

impl Traces {
    pub(crate) fn new(contents: bool) -> Traces {
        Traces {
            contents,
            ..Traces::default()
        }
    }

    /// Applies an event. `folders` are those in which the folder of its run may be: run folders, and folders of runs.
    /// Returns `None` if the event was applied before.
    pub(crate) fn apply(&mut self, event: &RunEvent, folders: &[PathBuf]) -> Option<Applied> {
        let is_new = !self.runs.contains_key(&event.run);
        if is_new {
            let followed = self.follow(event, folders);
            self.runs.insert(event.run.clone(), followed);
        }
        let followed = self.runs.get_mut(&event.run)?;
        let mut ended = Vec::new();
        let is_copied = followed.trace.is_copied();
        let before = if is_new { 0 } else { followed.trace.waiting() };
        if !followed.trace.apply(event, &mut ended) {
            return None;
        }
        let stopped = matches!(
            event.kind,
            EventKind::PipelineCompleted { .. }
                | EventKind::PipelineFailed { .. }
                | EventKind::PipelineCancelled { .. }
                | EventKind::PipelinePaused { .. }
        );
        let after = if stopped { 0 } else { followed.trace.waiting() };
        let applied = Applied {
            pipeline: followed.trace.name().to_owned(),
            ended,
            waiting: difference(before, after),
            active: i64::from(is_new) - i64::from(stopped),
            is_copied,
        };
        if stopped {
            // If it is resumed, its events are read again.
            self.runs.remove(&event.run);
        }
        Some(applied)
    }

    /// Returns the trace of a run of which this process sees the first event. Its earlier events, which another process
    /// emitted, are read from its folder; their spans were exported by that process.
    fn follow(&self, event: &RunEvent, folders: &[PathBuf]) -> Followed {
        let run = &event.run;
        let parent = self
            .runs
            .values()
            .find_map(|parent| Some((parent, parent.trace.parent_of(run)?)));
        let folder = match &parent {
            Some((parent, _)) => {
                let children = parent.folder.as_ref().map(RunFolder::children);
                open(children.unwrap_or_default().iter().map(PathBuf::as_path), run)
            }
            None => {
                let inside: Vec<PathBuf> = folders.iter().map(|runs| runs.join(&**run)).collect();
                open(folders.iter().chain(&inside).map(PathBuf::as_path), run)
            }
        };
        let span: Option<ParentSpan> = parent.map(|(_, span)| span);
        let mut trace = RunTrace::new(run.clone(), span, self.contents);
        if let Some(folder) = &folder {
            trace.set_name(&folder.manifest().name);
            if let Some(origin) = &folder.manifest().replayed_from {
                trace.set_origin(origin.clone());
            }
            if event.seq > 1 {
                let mut exported = Vec::new();
                // Without the earlier events, only the spans of this process have the right times and parents.
                let _ = folder.each_event(|line| {
                    if let Some(earlier) = line.event()
                        && earlier.seq < event.seq
                    {
                        trace.apply(&earlier, &mut exported);
                        exported.clear();
                    }
                });
            }
        }
        Followed {
            trace,
            folder: folder.map(|folder| folder.path().to_owned()),
        }
    }

    /// Returns the value of `TRACEPARENT` for the commands of an attempt.
    pub(crate) fn traceparent(&self, run: &RunId, attempt_key: &str) -> String {
        match self.runs.get(run) {
            Some(followed) => followed.trace.traceparent(attempt_key),
            None => traceparent(trace_id(run), span_id(run, 0, "stage", attempt_key)),
        }
    }
}

/// Opens the first of these folders that is the folder of a run.
fn open<'p>(mut folders: impl Iterator<Item = &'p Path>, run: &RunId) -> Option<RunFolder> {
    folders.find_map(|folder| {
        let folder = RunFolder::open(folder).ok()?;
        (folder.manifest().run == **run).then_some(folder)
    })
}

fn difference(before: usize, after: usize) -> i64 {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    number(after) - number(before)
}
