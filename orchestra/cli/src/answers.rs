//! Who answers the questions of a run: the script, the command line, nobody (`--auto-approve`), a person; in this order.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use orchestra_engine::{
    Answer, AnsweredBy, AutoApprove, InterviewError, Interviewer, Outcome, Question, QueueInterviewer, Reply,
    answer_of,
};
use orchestra_graph::{NodeIndex, Pipeline, did_you_mean, kind};

use crate::error::CliError;

/// Answers the questions of a run; silence never approves.
pub(crate) struct Answers<C> {
    pub(crate) scripted: Scripted,
    pub(crate) given: QueueInterviewer,
    pub(crate) approve: bool,
    pub(crate) console: C,
}

impl<C: Interviewer> Interviewer for Answers<C> {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        if let Some(answer) = self.scripted.next(&question.node) {
            return Ok(answer);
        }
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

/// The answers of a simulation's script: in turn, and the last again and again.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    gates: Mutex<BTreeMap<String, (usize, Vec<Answer>)>>,
}

impl Scripted {
    /// Takes the entries of gates out of a script.
    pub(crate) fn of_script(
        script: &mut BTreeMap<String, Vec<Outcome>>,
        pipeline: &Pipeline,
    ) -> Result<Scripted, CliError> {
        let mut gates = BTreeMap::new();
        for (node, outcomes) in script.extract_if(.., |node, _| gate(pipeline, node).is_some()) {
            let Some(question) = gate(pipeline, &node) else {
                continue;
            };
            let answers: Result<Vec<Answer>, CliError> = outcomes
                .iter()
                .map(|outcome| scripted(&question, outcome))
                .collect();
            gates.insert(node, (0, answers?));
        }
        Ok(Scripted {
            gates: Mutex::new(gates),
        })
    }

    fn next(&self, node: &str) -> Option<Answer> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let (turn, answers) = gates.get_mut(node)?;
        let answer = answers.get(*turn).or(answers.last()).cloned();
        *turn += 1;
        answer
    }
}

/// The question of a node that is a human gate, of the pipeline or of one that it runs.
fn gate(pipeline: &Pipeline, node: &str) -> Option<Question> {
    let question = |pipeline: &Pipeline| question(pipeline, pipeline.find(node)?);
    family(pipeline).into_iter().find_map(question)
}

fn question(pipeline: &Pipeline, node: NodeIndex) -> Option<Question> {
    let is_gate = pipeline.stage(node).kind() == kind::WAIT_HUMAN;
    is_gate.then(|| Question::of_gate(pipeline, node, String::new()))
}

/// The names of all human gates, those of children behind the pipeline's own.
fn gates(pipeline: &Pipeline) -> Vec<String> {
    let mut gates: Vec<String> = Vec::new();
    for pipeline in family(pipeline) {
        let nodes = (0..pipeline.nodes.len()).filter_map(|at| u32::try_from(at).ok());
        let questions = nodes.filter_map(|at| question(pipeline, NodeIndex(at)));
        gates.extend(questions.map(|question| question.node));
    }
    gates
}

/// A pipeline and all that it runs, each once.
fn family(pipeline: &Pipeline) -> Vec<&Pipeline> {
    let mut family = vec![pipeline];
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        for child in parent.children.iter() {
            let child: &Pipeline = &child.pipeline;
            if !family.iter().any(|known| std::ptr::eq(*known, child)) {
                family.push(child);
            }
        }
        at += 1;
    }
    family
}

/// The answer that an entry of a script stands for.
fn scripted(question: &Question, outcome: &Outcome) -> Result<Answer, CliError> {
    if !outcome.context_updates.is_empty() {
        let message = format!(
            "`{}` is a human gate, whose answer sets no context",
            question.node
        );
        let error = CliError::usage("script_answer", message);
        return Err(error.help("leave `context` out, or set it by another node"));
    }
    let choice = outcome.preferred_label.as_ref();
    let choice = choice.or(outcome.suggested_next_ids.first());
    let word = outcome.status.word();
    // A choice that is called `skipped`, `fail` or `retry` comes before the meaning of the word.
    let by_word = Answer::choice(word).by(AnsweredBy::Prepared);
    if choice.is_none()
        && question
            .accept(&by_word)
            .is_ok_and(|accepted| accepted.text.is_none())
    {
        return Ok(by_word);
    }
    let Some(answer) = answer_of(question, outcome) else {
        return Ok(Answer::timed_out());
    };
    if matches!(answer.reply, Reply::Chosen(_)) && question.accept(&answer).is_err() {
        let choice = choice.map_or(word, String::as_str);
        return Err(unknown_choice(question, choice, &["skipped", "timeout"]));
    }
    Ok(answer)
}

/// The answers of `--answer NODE=CHOICE`, in turn.
pub(crate) fn given(pairs: &[String], pipeline: &Pipeline) -> Result<QueueInterviewer, CliError> {
    let mut queue = QueueInterviewer::new();
    for pair in pairs {
        let (node, choice) = pair
            .split_once('=')
            .filter(|(node, choice)| !node.is_empty() && !choice.trim().is_empty())
            .ok_or_else(|| {
                CliError::usage("answer_form", format!("`{pair}` is not of the form NODE=CHOICE"))
            })?;
        let Some(question) = gate(pipeline, node) else {
            return Err(no_gate(pipeline, node));
        };
        let answer = Answer::choice(choice);
        if question.accept(&answer).is_err() {
            return Err(unknown_choice(&question, choice, &[]));
        }
        queue = queue.answers_for(node, [answer]);
    }
    Ok(queue)
}

fn no_gate(pipeline: &Pipeline, node: &str) -> CliError {
    let gates = gates(pipeline);
    let error = match pipeline.find(node) {
        Some(_) => CliError::usage(
            "no_gate",
            format!("`{node}` is no human gate, so it asks nothing"),
        ),
        None => CliError::usage("unknown_node", format!("the pipeline has no node `{node}`")),
    };
    match (did_you_mean(node, gates.iter().map(String::as_str)), &gates[..]) {
        (Some(near), _) => error.help(format!("did you mean `{near}`?")),
        (None, []) => error.help("the pipeline has no human gates"),
        (None, gates) => error.help(format!("its human gates are {}", gates.join(", "))),
    }
}

fn unknown_choice(question: &Question, choice: &str, words: &[&str]) -> CliError {
    let message = format!("the gate `{}` has no choice `{choice}`", question.node);
    let error = CliError::usage("unknown_choice", message);
    let options = &question.options;
    let names = options
        .iter()
        .flat_map(|option| [Some(&option.label), option.to.as_ref()].into_iter().flatten());
    match did_you_mean(choice, names.map(String::as_str).chain(words.iter().copied())) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help(format!("its choices are {}", choices(question))),
    }
}

/// The choices of a gate in words.
fn choices(question: &Question) -> String {
    let choices: Vec<String> = question.options.iter().map(ToString::to_string).collect();
    choices.join(", ")
}

/// How a gate that nobody was there to answer can be answered.
pub(crate) fn how_to_answer(pipeline: &Pipeline, node: &str) -> String {
    let Some(question) = gate(pipeline, node) else {
        return format!("run it where somebody can be asked, or answer with `--answer {node}=CHOICE`");
    };
    let fixed = question.options.iter().find(|option| !option.freeform);
    let example = fixed.map_or("TEXT", |option| option.key.as_str());
    let of = match choices(&question) {
        choices if choices.is_empty() => String::new(),
        choices => format!(" (of {choices})"),
    };
    format!("answer it with `--answer {node}={example}`{of}, or approve everything with `--auto-approve`")
}
