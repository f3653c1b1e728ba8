//! The handlers of the pipelines.

use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra::engine::Usage;
use orchestra::prelude::*;

orchestra::pipeline! {
    /// What the page shows in one run.
    pub(crate) mod release = "release.dot", handlers = Crew;
}

orchestra::pipeline! {
    /// A loop of many attempts.
    pub(crate) mod long = "long.dot", handlers = Crew;
}

/// A file in the working folder: while it exists, publishing fails.
pub(crate) const BROKEN: &str = "registry.broken";

/// What a stage says that comes from outside: markup, and characters that turn the direction of text.
pub(crate) const HOSTILE: &str = "<img src=x onerror=\"window.hacked = 1\"></script><script>window.hacked = 2</script> \u{202e}txt.exe\u{202c} &amp; done";

#[derive(Clone)]
pub(crate) struct Crew {
    folder: PathBuf,
}

impl Crew {
    pub(crate) fn in_folder(folder: &Path) -> Crew {
        Crew {
            folder: folder.to_owned(),
        }
    }
}

#[derive(Attributes)]
struct Check {
    takes: Duration,
}

#[handlers]
impl Crew {
    #[handler("crew.build")]
    async fn build(&self, stage: StageContext) -> Outcome {
        stage.record_usage(Usage {
            input_tokens: 1_200,
            output_tokens: 300,
            cost_micros: 4_500,
        });
        if stage.attempt() == 1 {
            return Outcome::fail("the linker was killed: out of memory");
        }
        Outcome::success()
            .set("artifact", "release-1.4.0.tar.gz")
            .notes("built release-1.4.0.tar.gz")
    }

    #[handler("crew.check")]
    async fn check(&self, check: Check, stage: StageContext) -> Outcome {
        stage.sleep(check.takes).await;
        Outcome::success().notes("no remarks")
    }

    #[handler("crew.rate")]
    async fn rate(&self, stage: StageContext) -> Outcome {
        let risk = match stage.context().text("size").as_ref() {
            "large" => "high",
            _ => "low",
        };
        Outcome::success()
            .set("risk", risk)
            .notes(format!("the risk is {risk}"))
    }

    #[handler("crew.note")]
    async fn note(&self) -> Outcome {
        Outcome::success().notes("inspected by hand")
    }

    #[handler("crew.write")]
    async fn write(&self, stage: StageContext) -> Outcome {
        let drafts = stage.context().get("drafts").and_then(|drafts| drafts.as_u64());
        let draft = drafts.unwrap_or(0) + 1;
        let addition = stage.context().text("addition");
        stage.record_usage(Usage {
            input_tokens: 5_400,
            output_tokens: 900,
            cost_micros: 21_000,
        });
        let note = format!("Draft {draft}: faster, and with a new file format. {addition}");
        let kept = stage
            .keep_prompt("Write the release note.")
            .and_then(|()| stage.keep_response(&note));
        if let Err(error) = kept {
            return Outcome::fail(error.to_string());
        }
        Outcome::success()
            .set("drafts", draft)
            .set("note", note.clone())
            .notes(note)
    }

    #[handler("crew.publish")]
    async fn publish(&self) -> Outcome {
        if self.folder.join(BROKEN).exists() {
            return Outcome::fail("the registry does not answer");
        }
        Outcome::success().notes("published")
    }

    #[handler("crew.count")]
    async fn count(&self, stage: StageContext) -> Outcome {
        let left = stage.context().get("left").and_then(|left| left.as_u64());
        Outcome::success().set("left", left.unwrap_or(1).saturating_sub(1))
    }

    #[handler("crew.look")]
    async fn look(&self) -> Outcome {
        Outcome::success()
    }
}
