//! Merges that a person finishes.

use orchestra_engine::{
    Answer, AnsweredBy, Outcome, Question, QuestionOption, Reply, StageEnd, WorkspaceStage,
};

use crate::attempt::AttemptIds;
use crate::blocking::{blocking, failed};
use crate::join::Report;
use crate::merge::Favour;
use crate::session::Session;

/// Maximum number of conflicting files in a question.
const MAX_LISTED_FILES: usize = 20;

impl Session {
    /// Asks a person how to finish an open merge until it is finished.
    pub(crate) async fn ask(
        &self,
        stage: &WorkspaceStage,
        mut report: Report,
    ) -> Result<Report, Box<StageEnd>> {
        let context = stage.stage();
        let cancelled = context.cancellation();
        let mut left = report.open_files.clone();
        let mut again = false;
        loop {
            let question = self.question(stage, &left, again);
            let answer = tokio::select! {
                biased;
                () = cancelled.cancelled() => return Err(Box::new(Outcome::fail("cancelled").into())),
                // Without an answer nothing is merged: a person must decide.
                answer = context.require_answer(question) => answer.map_err(|error| Box::new(error.into()))?,
            };
            let (worktrees, ids) = (self.worktrees().clone(), AttemptIds::from_stage(stage.stage()));
            let name = stage.path_id().to_owned();
            let done = match chosen_key(&answer) {
                "d" => {
                    let message = ids.message("merge, finished by a person");
                    let done = blocking(move || worktrees.commit(&worktrees.of_path(&name), &message)).await;
                    done.map(|committed| committed.left)
                }
                "o" | "t" => {
                    let favour = match chosen_key(&answer) {
                        "o" => Favour::Ours,
                        _ => Favour::Theirs,
                    };
                    let done = blocking(move || worktrees.favour(&worktrees.of_path(&name), favour, &ids));
                    done.await.map(|()| Vec::new())
                }
                _ => {
                    let refused = report.conflict_outcome();
                    let aborted = self.abort_merge(stage).await;
                    let outcome = aborted.map_or_else(|error| error.outcome(), |()| refused);
                    return Err(Box::new(outcome.into()));
                }
            };
            left = done.map_err(failed)?;
            if left.is_empty() {
                return Ok(report.finished());
            }
            // After a prepared answer somebody may be there to ask; a program may give the same one forever.
            if again && answer.by != AnsweredBy::Person {
                report.open_files = left;
                return Ok(report);
            }
            again = true;
        }
    }

    fn question(&self, stage: &WorkspaceStage, left: &[String], again: bool) -> Question {
        let worktrees = self.worktrees();
        let folder = worktrees.root(&worktrees.of_path(stage.path_id()));
        let mut text = if again {
            "Conflict markers are still left in".to_owned()
        } else {
            format!("Branches conflict before `{}` in", stage.stage().node().id())
        };
        for file in left.iter().take(MAX_LISTED_FILES) {
            text.push_str(&format!("\n  {file}"));
        }
        if left.len() > MAX_LISTED_FILES {
            text.push_str(&format!("\n  and {} more", left.len() - MAX_LISTED_FILES));
        }
        text.push_str(&format!(
            "\nThe files are in {}, with the conflicts marked. How is the merge to be finished?",
            folder.display()
        ));
        let option = |key: &str, label: &str| QuestionOption::new(key, label);
        Question::select(
            text,
            [
                option("D", "Done: I have edited the files, and no marker is left"),
                option(
                    "O",
                    "Ours: in conflicts, keep what the run had and what was merged first",
                ),
                option("T", "Theirs: in conflicts, take what the later branch has"),
                option("R", "Refuse: merge nothing"),
            ],
        )
        // The files in which markers are left change while a person edits them.
        .about("how to finish the merge")
    }
}

/// Returns the key of the chosen option, or an empty string if there is none.
fn chosen_key(answer: &Answer) -> &'static str {
    let Reply::Chosen(texts) = &answer.reply else {
        return "";
    };
    let first = texts
        .first()
        .map(|text| text.trim().to_lowercase())
        .unwrap_or_default();
    ["d", "o", "t", "r"]
        .into_iter()
        .find(|key| first.starts_with(key))
        .unwrap_or_default()
}
