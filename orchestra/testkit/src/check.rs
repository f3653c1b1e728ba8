//! Checks a script against its pipeline before anything runs.

use orchestra_engine::{Answer, Outcome, Question, Reply, Script, Status, answer_of};
use orchestra_graph::condition::OUTCOME_WORDS;
use orchestra_graph::{Known, NodeIndex, Pipeline, Role, Stage, did_you_mean, kind, label_text};

use crate::error::{PARALLEL_BLOCK, ScriptError};

/// Maximum number of names in a message.
const MAX_LISTED: usize = 20;

/// Checks the nodes, the outcomes and the answers of gates in a script against its pipeline.
///
/// ```
/// use orchestra_engine::Script;
/// use orchestra_testkit::check_script;
/// # use orchestra_graph::{Source, load};
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label="[S] Ship"] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// check_script(&pipeline, &Script::new().outcomes("ask", ["Ship", "skipped"]))?;
/// let error = check_script(&pipeline, &Script::new().outcomes("ask", ["Shop"])).unwrap_err();
/// assert_eq!(error.to_string(), "the gate `ask` has no choice `Shop`");
/// # Ok::<(), orchestra_testkit::ScriptError>(())
/// ```
///
/// # Errors
///
/// Returns the first entry that does not fit, with a suggestion.
pub fn check_script(pipeline: &Pipeline, script: &Script) -> Result<(), ScriptError> {
    for node in script.nodes() {
        let Some((owner, index)) = find(pipeline, node) else {
            let family = pipeline.family().into_iter();
            let ids: Vec<&str> = family
                .flat_map(|pipeline| pipeline.stages().map(|stage| stage.id()))
                .collect();
            return Err(ScriptError::UnknownNode {
                node: node.to_owned(),
                help: near_or(node, &ids, &format!("its nodes are {}", listed(&ids))),
            });
        };
        let stage = owner.stage(index);
        if let Some(role) = role_without_outcome(stage) {
            return Err(ScriptError::NoOutcome {
                node: node.to_owned(),
                role,
            });
        }
        let outcomes = script.outcomes_of(node);
        match gate_question(pipeline, node) {
            Some(question) => {
                for outcome in outcomes {
                    scripted_answer(&question, outcome)?;
                }
            }
            None => check_outcomes(owner, stage, outcomes)?,
        }
    }
    Ok(())
}

/// Returns a node of the pipeline or of one of its child pipelines. A script may refer to all of them.
fn find<'p>(pipeline: &'p Pipeline, node: &str) -> Option<(&'p Pipeline, NodeIndex)> {
    let mut family = pipeline.family().into_iter();
    family.find_map(|pipeline| Some((pipeline, pipeline.find(node)?)))
}

/// Returns the question of a node of the pipeline or of a child pipeline, or `None` if the node is not a human gate.
///
/// ```
/// use orchestra_testkit::gate_question;
/// # use orchestra_graph::{Source, load};
/// let text = r#"digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label="[S] Ship"] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!(gate_question(&pipeline, "ask").expect("it asks").options[0].key, "S");
/// assert!(gate_question(&pipeline, "exit").is_none());
/// ```
pub fn gate_question(pipeline: &Pipeline, node: &str) -> Option<Question> {
    let gates = pipeline.family().into_iter().filter_map(|pipeline| {
        let index = pipeline.find(node)?;
        let is_gate = pipeline.stage(index).kind() == kind::WAIT_HUMAN;
        is_gate.then(|| Question::of_gate(pipeline, index, String::new()))
    });
    gates.into_iter().next()
}

/// Converts an entry of a script to the answer of a gate.
///
/// # Errors
///
/// Returns an error if the entry is not one of the gate's choices, or sets context values.
pub fn scripted_answer(question: &Question, outcome: &Outcome) -> Result<Answer, ScriptError> {
    if !outcome.context_updates.is_empty() {
        return Err(ScriptError::AnswerSetsContext {
            gate: question.node.clone(),
        });
    }
    let Some(answer) = answer_of(question, outcome) else {
        return Ok(Answer::timed_out());
    };
    check_answer(question, &answer, &["skipped", "timeout"])?;
    Ok(answer)
}

/// Checks that an answer is one of a gate's choices. `words` are other answers to suggest.
///
/// # Errors
///
/// Returns an error if the answer is not one of them.
pub fn check_answer(question: &Question, answer: &Answer, words: &[&str]) -> Result<(), ScriptError> {
    let Reply::Chosen(choice) = &answer.reply else {
        return Ok(());
    };
    if question.accept(answer).is_ok() {
        return Ok(());
    }
    let choice = choice.join(", ");
    let options = question.options.iter();
    let names: Vec<&str> = options
        .flat_map(|option| [Some(label_text(&option.label)), option.to.as_deref()])
        .flatten()
        .chain(words.iter().copied())
        .collect();
    let choices: Vec<String> = question.options.iter().map(ToString::to_string).collect();
    Err(ScriptError::UnknownChoice {
        gate: question.node.clone(),
        help: near_or(
            &choice,
            &names,
            &format!("its choices are {}", choices.join(", ")),
        ),
        choice,
    })
}

/// Returns the question of a gate that has an answer in the script.
///
/// # Errors
///
/// Returns an error if the node does not exist or is not a gate.
pub fn answered_gate(pipeline: &Pipeline, node: &str) -> Result<Question, ScriptError> {
    if let Some(question) = gate_question(pipeline, node) {
        return Ok(question);
    }
    let family = pipeline.family();
    let ids = family
        .iter()
        .flat_map(|pipeline| pipeline.stages().map(|stage| stage.id()));
    let gates: Vec<&str> = ids.filter(|id| gate_question(pipeline, id).is_some()).collect();
    let help = if gates.is_empty() {
        "the pipeline has no human gates".to_owned()
    } else {
        near_or(node, &gates, &format!("its human gates are {}", listed(&gates)))
    };
    let node = node.to_owned();
    Err(match find(pipeline, &node) {
        Some(_) => ScriptError::NoGate { node, help },
        None => ScriptError::UnknownNode { node, help },
    })
}

/// Returns the role of a node whose outcome cannot be scripted, or `None` for other nodes.
fn role_without_outcome(stage: Stage<'_>) -> Option<&'static str> {
    match stage.row().role {
        Role::Start if stage.kind() == kind::START => Some("the start"),
        Role::Exit if stage.kind() == kind::EXIT => Some("the exit"),
        Role::Routing => Some("a routing node"),
        _ if stage.row().fan_out.is_some() => Some(PARALLEL_BLOCK),
        _ => None,
    }
}

/// Rejects outcomes that a node with declared outcomes does not declare. For other nodes, rejects outcomes that
/// resemble a known outcome and appear in no condition: a custom outcome counts as a success, so a typo would silently
/// succeed.
fn check_outcomes(pipeline: &Pipeline, stage: Stage<'_>, outcomes: &[Outcome]) -> Result<(), ScriptError> {
    let declared = stage.text(Known::Outcomes.name()).unwrap_or_default();
    let declared: Vec<&str> = declared
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    for outcome in outcomes {
        let Status::Custom(word) = &outcome.status else {
            continue;
        };
        let word = word.as_ref();
        if declared.contains(&word) || OUTCOME_WORDS.contains(&word) {
            continue;
        }
        let known: Vec<&str> = OUTCOME_WORDS.iter().chain(&declared).copied().collect();
        let near = did_you_mean(word, known.iter().copied());
        let named = || {
            pipeline
                .conditions()
                .any(|condition| condition.text().contains(word))
        };
        if declared.is_empty() && (near.is_none() || named()) {
            continue;
        }
        return Err(ScriptError::UnknownOutcome {
            node: stage.id().to_owned(),
            word: word.to_owned(),
            help: near_or(
                word,
                &known,
                &format!("it gives {}, or a built-in word", declared.join(", ")),
            ),
        });
    }
    Ok(())
}

fn near_or(word: &str, known: &[&str], otherwise: &str) -> String {
    match did_you_mean(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => otherwise.to_owned(),
    }
}

fn listed(names: &[&str]) -> String {
    match names.split_at_checked(MAX_LISTED) {
        Some((first, rest)) if !rest.is_empty() => format!("{} and {} more", first.join(", "), rest.len()),
        _ => names.join(", "),
    }
}
