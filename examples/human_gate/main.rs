//! A person decides: publish, shorten, add a sentence in their own words, or discard.
//!
//! `cargo run -p human_gate -- run human_gate` writes an announcement and asks what to do with it. A choice can be
//! answered by its key, such as `P`, by its label, or by the name of its target node. Any other answer is asked
//! again. The second gate accepts any text, because one of its edges has `freeform=true`. If nobody answers within
//! five minutes, the gate takes its default, which discards the announcement: silence never publishes.
//!
//! Without a terminal, answers come from the command line or from a pipe. If nobody can be asked, the program exits
//! with code 5, names the gate, and prints the command that resumes the run.
//!
//! `cargo run -p human_gate -- run human_gate --answer review=Shorten --answer review=Publish`
//! `cargo run -p human_gate -- run human_gate --set product=Kettle --set version=2.1`
//! `cargo run -p human_gate -- resume last --answer review=Publish`

use std::path::PathBuf;

use orchestra::prelude::*;

orchestra::pipeline! {
    /// Writes an announcement and does with it what a person decides.
    pub mod human_gate = "human_gate.dot", handlers = Desk;
}

orchestra::main!(human_gate);

/// The reason why a stage fails.
#[derive(Debug, thiserror::Error)]
enum DeskError {
    #[error("there is no announcement to {0}")]
    Nothing(&'static str),
    #[error("nobody said what to add")]
    NothingToAdd,
    #[error("the stage has no folder")]
    Folder(#[from] orchestra::engine::StoreError),
    #[error("cannot write `{}`", .0.display())]
    Write(PathBuf, #[source] std::io::Error),
}

/// The handlers of the pipeline. The announcement is in the context, one sentence per entry.
#[derive(Default)]
struct Desk;

#[handlers]
impl Desk {
    #[handler("announcement.write")]
    async fn write(&self, stage: StageContext) -> Outcome {
        let said = |key: &str, otherwise: &str| match stage.context().text(key) {
            text if text.is_empty() => otherwise.to_owned(),
            text => text,
        };
        let (product, version) = (said("product", "Lantern"), said("version", "1.4"));
        let sentences = vec![
            format!("{product} {version} is here."),
            "It starts twice as fast and needs half of the memory.".to_owned(),
            "The old file format is still read, but no longer written.".to_owned(),
        ];
        show(&stage, sentences)
    }

    #[handler("announcement.shorten")]
    async fn shorten(&self, stage: StageContext) -> Outcome {
        let mut sentences = announcement(&stage);
        if sentences.len() < 2 {
            stage.log("a single sentence cannot be shorter");
        } else {
            sentences.pop();
        }
        show(&stage, sentences)
    }

    #[handler("announcement.amend")]
    async fn amend(&self, stage: StageContext) -> Result<Outcome, DeskError> {
        let text = stage.context().text("human.gate.text");
        if text.trim().is_empty() {
            return Err(DeskError::NothingToAdd);
        }
        let mut sentences = announcement(&stage);
        sentences.push(text.trim().to_owned());
        Ok(show(&stage, sentences))
    }

    #[handler("announcement.publish")]
    async fn publish(&self, stage: StageContext) -> Result<Outcome, DeskError> {
        let sentences = announcement(&stage);
        if sentences.is_empty() {
            return Err(DeskError::Nothing("publish"));
        }
        let path = stage.stage_dir()?.join("announcement.md");
        std::fs::write(&path, sentences.join(" ") + "\n")
            .map_err(|error| DeskError::Write(path.clone(), error))?;
        Ok(Outcome::success().notes(format!("published as {}", path.display())))
    }

    #[handler("announcement.discard")]
    async fn discard(&self, stage: StageContext) -> Outcome {
        let by = match stage.context().text("human.gate.answered_by").as_str() {
            "default" => "because nobody answered in time",
            _ => "on request",
        };
        Outcome::success()
            .set("announcement", Vec::<String>::new())
            .notes(format!("discarded, {by}"))
    }
}

/// Stores an announcement and shows it to the person who decides.
fn show(stage: &StageContext, sentences: Vec<String>) -> Outcome {
    stage.log(format!("\"{}\"", sentences.join(" ")));
    Outcome::success().set("announcement", sentences)
}

fn announcement(stage: &StageContext) -> Vec<String> {
    human_gate::keys::ANNOUNCEMENT
        .get(stage.context())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
