//! The interviewers of a run, in this order: answers of the command line, automatic approval (`--auto-approve`), and a
//! person.

use std::path::Path;
use std::sync::OnceLock;

use orchestra_engine::{
    Answer, AutoApprove, ChatTurn, InterviewError, Interviewer, Question, QuestionKind, QueueInterviewer,
};
use orchestra_graph::{Pipeline, kind};
use orchestra_testkit::{answered_gate, check_answer, gate_question};

use crate::error::CliError;
use crate::project::asking::AskingStages;
use crate::runs::Runs;

/// Answers the questions of a run that its script does not answer. Silence never approves.
pub(crate) struct Answers<C> {
    pub(crate) given: QueueInterviewer,
    pub(crate) approve: bool,
    pub(crate) console: C,
}

impl<C: Interviewer> Interviewer for Answers<C> {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        if let Some(answer) = self.given.take_for(&question.node) {
            return Ok(answer);
        }
        if self.approve {
            return AutoApprove.ask(question).await;
        }
        self.console.ask(question).await
    }

    async fn inform(&self, message: &str, stage: &str) {
        self.console.inform(message, stage).await;
    }
}

/// Parses the answers of `--answer NODE=CHOICE`, in order.
pub(crate) fn parse_answers(
    pairs: &[String],
    pipeline: &Pipeline,
    asking: &AskingStages,
) -> Result<QueueInterviewer, CliError> {
    let mut queue = QueueInterviewer::new();
    for pair in pairs {
        let (node, choice) = split_answer(pair)?;
        let answer = Answer::choice(choice);
        // Text for a model may be anything.
        if may_merge(pipeline, node) {
            if !is_merge_choice(choice) {
                let message = format!("`{}` does not finish a merge", choice.escape_debug());
                return Err(CliError::usage("unknown_choice", message).help(MERGE_CHOICES));
            }
        } else if asking.talking.iter().any(|stage| stage == node) {
            ChatTurn::parse(choice).map_err(|refused| CliError::usage("unknown_command", refused))?;
        } else if !asking.permitting.iter().any(|stage| stage == node) {
            let question = answered_gate(pipeline, node)?;
            check_answer(&question, &answer, &[])?;
        }
        queue = queue.answers_for(node, [answer]);
    }
    Ok(queue)
}

/// Splits `NODE=CHOICE`.
pub(crate) fn split_answer(pair: &str) -> Result<(&str, &str), CliError> {
    pair.split_once('=')
        .filter(|(node, choice)| !node.is_empty() && !choice.trim().is_empty())
        .ok_or_else(|| CliError::usage("answer_form", format!("`{pair}` is not of the form NODE=CHOICE")))
}

/// The command with which another process answers a question of a run.
pub(crate) struct AnswerCommand(OnceLock<Command>);

/// Returns the command for a gate and a choice.
type Command = Box<dyn Fn(&str, &str) -> String + Send + Sync>;

impl AnswerCommand {
    /// Creates the command for a run that has not started.
    pub(crate) fn new() -> AnswerCommand {
        AnswerCommand(OnceLock::new())
    }

    /// Creates the command from a function of the gate and the choice.
    #[cfg(feature = "restate")]
    pub(crate) fn with(command: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> AnswerCommand {
        AnswerCommand(OnceLock::from(Box::new(command) as Command))
    }

    /// Sets the folder of the run after it has started.
    pub(crate) fn set_folder(&self, runs: &Runs, folder: &Path) {
        let (runs, folder) = (runs.clone(), folder.to_owned());
        self.0
            .get_or_init(|| Box::new(move |gate, choice| runs.command("answer", &folder, &[gate, choice])));
    }

    /// Returns the command that answers a question, with its first choice as the example.
    pub(crate) fn for_question(&self, question: &Question) -> Option<String> {
        Some((self.0.get()?)(&question.node, example(question)))
    }
}

/// Returns an example answer: the first choice that is not free text.
pub(crate) fn example(question: &Question) -> &str {
    let fixed = question.options.iter().find(|option| !option.freeform);
    match question.kind {
        QuestionKind::YesNo | QuestionKind::Confirm => "Y",
        _ => fixed.map_or("TEXT", |option| &option.key),
    }
}

/// The ways in which a person can finish a merge.
const MERGE_CHOICES: &str = "choose D (done: the files are edited), O (ours), T (theirs) or R (refuse)";

fn is_merge_choice(choice: &str) -> bool {
    ["D", "O", "T", "R"]
        .iter()
        .any(|key| choice.trim().eq_ignore_ascii_case(key))
}

/// Returns whether a node asks a person how to finish a conflicting merge. Also finds nodes of child pipelines.
fn may_merge(pipeline: &Pipeline, node: &str) -> bool {
    pipeline.family().into_iter().any(|pipeline| {
        let index = pipeline.find(node);
        index.is_some_and(|index| pipeline.stage(index).text("on_conflict") == Some("human"))
    })
}

/// Returns the choices of a gate as text.
fn choices(question: &Question) -> String {
    let choices: Vec<String> = question.options.iter().map(ToString::to_string).collect();
    choices.join(", ")
}

/// Returns how to answer a gate for which nobody was present. The gate may be in a child pipeline of the node. If
/// given, the question as it was `asked` provides the offered choices.
pub(crate) fn how_to_answer(pipeline: &Pipeline, node: &str, asked: Option<Question>) -> String {
    if may_merge(pipeline, node) {
        return format!("edit the files and answer it with `--answer {node}=D`; {MERGE_CHOICES}");
    }
    // A model asks in a conversation; its tools and its agent ask for one answer.
    let single = asked.as_ref().filter(|question| !question.is_chat());
    if let Some(question) = single.filter(|_| is_model_stage(pipeline, node)) {
        let of = match choices(question) {
            choices if choices.is_empty() => String::new(),
            choices => format!(" (of {choices})"),
        };
        return format!("answer it with `--answer {node}={}`{of}", example(question));
    }
    let automatic =
        "approve everything with `--auto-approve`, or let the run wait for an answer with `--wait`";
    let waiting: Vec<Question> = match gate_question(pipeline, node) {
        Some(question) => vec![asked.unwrap_or(question)],
        None => gates_within(pipeline, node),
    };
    if waiting.is_empty() && is_model_stage(pipeline, node) {
        let answer = format!("`--answer {node}=TEXT`");
        return format!("say something by {answer} and end it by `--answer {node}=/approve`, {automatic}");
    }
    let [question] = &waiting[..] else {
        let gates: Vec<&str> = waiting.iter().map(|question| question.node.as_str()).collect();
        let gates = if gates.is_empty() {
            String::new()
        } else {
            format!(" (of {})", gates.join(", "))
        };
        return format!("answer it with `--answer GATE=CHOICE`{gates}, {automatic}");
    };
    let example = example(question);
    let of = match choices(question) {
        choices if choices.is_empty() => String::new(),
        choices => format!(" (of {choices})"),
    };
    let gate = &question.node;
    format!("answer it with `--answer {gate}={example}`{of}, {automatic}")
}

/// Returns whether a node is a model stage, which may have asked a question of its model.
fn is_model_stage(pipeline: &Pipeline, node: &str) -> bool {
    let index = pipeline.find(node);
    index.is_some_and(|index| pipeline.stage(index).kind() == kind::CODERGEN)
}

/// Returns the questions of the gates in the child pipeline of a node, each gate once.
fn gates_within(pipeline: &Pipeline, node: &str) -> Vec<Question> {
    let row = pipeline
        .find(node)
        .and_then(|index| pipeline.nodes.get(index.at()));
    let mut questions: Vec<Question> = Vec::new();
    if let Some(child) = row.and_then(|row| pipeline.child(row)) {
        let family = child.pipeline.family();
        for stage in family.iter().flat_map(|pipeline| pipeline.stages()) {
            let question = gate_question(&child.pipeline, stage.id());
            questions.extend(question.filter(|new| questions.iter().all(|known| known.node != new.node)));
        }
    }
    questions
}
