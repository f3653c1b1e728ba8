//! Questions and warnings as rows.

use orchestra_engine::{QuestionKind, QuestionOption, RunId, Timestamp, UnansweredQuestion, WithheldOption};
use serde::Serialize;

/// A question that waits for an answer.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::SessionIndex;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = "digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// let run = engine.start(pipeline, ()).run_id("nightly").await?;
/// # while run.questions().is_empty() { tokio::task::yield_now().await }
/// let questions = SessionIndex::open(runs_dir)?.run("nightly")?.questions();
/// assert_eq!((questions[0].node.as_str(), questions[0].options[0].key.as_str()), ("ask", "S"));
/// # run.cancel("over");
/// # run.wait().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct QuestionRow {
    /// The run through which the question is answered.
    pub run: RunId,
    /// The child run that asks; missing if the run itself asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<RunId>,
    /// The stage of the run whose child run asks; missing if the run itself asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_stage: Option<String>,
    /// The id of the question.
    pub id: String,
    /// The stage that asks.
    pub node: String,
    /// The branch of a parallel block; `None` on the main path.
    pub branch: Option<String>,
    /// The question.
    pub text: String,
    /// The form of the answer.
    pub kind: QuestionKind,
    /// `true` if the question is part of a conversation with a model.
    pub chat: bool,
    /// The choices.
    pub options: Vec<QuestionOption>,
    /// The choices that are not offered now, each with the conditions that do not hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<WithheldOption>,
    /// The key of the choice that is taken at the deadline.
    pub default: Option<String>,
    /// The time at which the question was first asked.
    pub asked: Timestamp,
    /// The time at which the question times out.
    pub deadline: Option<Timestamp>,
}

impl QuestionRow {
    pub(crate) fn new(open: &UnansweredQuestion) -> QuestionRow {
        let question = &open.question;
        let parent = open.parent_stage();
        QuestionRow {
            run: parent.map_or(&open.run, |(run, _)| run).clone(),
            child: parent.map(|_| open.run.clone()),
            parent_stage: parent.map(|(_, stage)| stage.to_string()),
            id: question.id.clone(),
            node: open.node.to_string(),
            branch: open.branch.clone(),
            text: question.text.clone(),
            kind: question.kind,
            chat: question.is_chat(),
            options: question.options.clone(),
            withheld: question.withheld.clone(),
            default: question.default.clone(),
            asked: open.asked,
            deadline: open.deadline(),
        }
    }

    /// Returns the choice that is taken at the deadline.
    pub fn default_option(&self) -> Option<&QuestionOption> {
        let key = self.default.as_ref()?;
        self.options.iter().find(|option| option.key == *key)
    }
}

/// A warning of a run or of one of its stages.
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_graph::{Source, load};
/// use orchestra_sessions::{Page, SessionIndex};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("hello.dot", text), &Default::default()).pipeline().expect("sound");
/// # let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// # engine.start(pipeline, ()).run_id("nightly").await?.wait().await?;
/// let warnings = SessionIndex::open(runs_dir)?.warnings_in("nightly", Page::Last { most: 10 })?;
/// assert!(warnings.is_empty());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct WarningRow {
    /// The sequence number of the event.
    pub seq: u64,
    /// The time.
    pub time: Timestamp,
    /// The stage; `None` for a warning of the run.
    pub node: Option<String>,
    /// The branch of a parallel block; `None` on the main path.
    pub branch: Option<String>,
    /// The machine-readable kind.
    pub code: String,
    /// The message.
    pub message: String,
    /// The context keys that it is about.
    pub keys: Vec<String>,
}
