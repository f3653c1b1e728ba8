//! The commands that resume, retry or replay a stopped run.

use std::path::{Path, PathBuf};

use orchestra_engine::{Durability, Question, ReplayPoints, RunFolder, RunHandle, UnansweredQuestions};

use crate::runs::Runs;

/// A stopped run: its folder, and the commands for it.
pub(crate) struct StoppedRun<'s> {
    pub(crate) runs: &'s Runs,
    /// `None` if the run is not stored.
    folder: Option<PathBuf>,
}

impl<'s> StoppedRun<'s> {
    pub(crate) fn new(runs: &'s Runs, handle: &RunHandle) -> StoppedRun<'s> {
        StoppedRun::in_folder(runs, handle.run_dir())
    }

    pub(crate) fn in_folder(runs: &'s Runs, folder: Option<&Path>) -> StoppedRun<'s> {
        StoppedRun {
            runs,
            folder: folder.map(Path::to_owned),
        }
    }

    /// Returns the command that resumes the run.
    pub(crate) fn resume(&self) -> Option<String> {
        let folder = self.folder.as_deref()?;
        Some(self.runs.command("resume", folder, &[]))
    }

    /// Returns the command that retries the run after a failure with this code (rule D9).
    pub(crate) fn retry(&self, code: Option<&str>) -> Option<String> {
        let folder = self.folder.as_deref()?;
        let options: &[&str] = match code {
            Some(code) if NEEDS_CHANGE.contains(&code) => &["--retry", "--accept-changes"],
            _ => &["--retry"],
        };
        Some(self.runs.command("resume", folder, options))
    }

    /// Returns the command that replays the run from before its failure, which is given by its code and its node.
    pub(crate) fn replay(&self, code: Option<&str>, node: Option<&str>) -> Option<String> {
        let folder = self.folder.as_deref()?;
        let run = RunFolder::open(folder).ok()?;
        // Without a journal there is no checkpoint to replay from.
        if run.manifest().durability == Durability::None {
            return None;
        }
        let mut points = ReplayPoints::default();
        run.each_event(|line| points.apply_line(line)).ok()?;
        let checkpoint = points.before_failure(code, node)?;
        Some(self.runs.command("replay", folder, &["--checkpoint", checkpoint]))
    }

    /// Returns the question of a waiting gate as it was asked.
    pub(crate) fn pending_question(&self, gate: &str) -> Option<Question> {
        let run = RunFolder::open(self.folder.as_deref()?).ok()?;
        let mut waiting = UnansweredQuestions::default();
        run.each_event(|line| waiting.apply_line(line)).ok()?;
        let mut open = waiting.iter().filter(|open| open.node == gate);
        open.next().map(|open| open.question.clone())
    }
}

/// The failures that a retry repeats until the pipeline is changed.
const NEEDS_CHANGE: [&str; 7] = [
    "no_matching_edge",
    "dead_end",
    "busy_loop",
    "circular_pipeline",
    "max_restarts",
    "branch_reentry",
    "invalid_transition",
];
