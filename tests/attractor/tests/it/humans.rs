//! Attractor 11.8: people in the loop. What the console does is shown by the program itself, in
//! `orchestra/cli/tests/it/gates.rs`.

use std::sync::{Arc, Mutex};

use orchestra::engine::{
    AskError, CallbackInterviewer, EventKind, InterviewError, QuestionKind, QuestionOption, QueueInterviewer,
};
use orchestra::graph::Pipeline;
use orchestra::prelude::*;
use orchestra_attractor_tests::{Model, Ran, listening, pipeline};

const GATE: &str = r#"digraph { start -> ask; ask [shape=hexagon, label="Ship it?"]
    ask -> mend [label="[M] Mend"]; ask -> ship [label="[S] Ship"]; mend -> ask; ship -> exit }"#;

/// The choice that is the first of the gate, as its last.
const MEND_LAST: &str = "; ask -> mend [label=\"[M] Mend\"]; mend -> ask";

async fn asking(
    interviewer: impl Interviewer,
    pipeline: Pipeline,
    handlers: impl orchestra::HandlerSet,
) -> Ran {
    let builder = Engine::builder().backend(Model::new()).interviewer(interviewer);
    let (engine, heard) = listening(builder);
    heard.end(engine.start(pipeline, handlers)).await
}

/// Who gave the answers, and which, as the events tell it.
fn answers(ran: &Ran) -> Vec<(&'static str, String)> {
    let answers = ran.events.iter().filter_map(|event| match &event.kind {
        EventKind::InterviewCompleted {
            answered_by, answer, ..
        } => Some((answered_by.word(), answer.clone())),
        _ => None,
    });
    answers.collect()
}

/// A person who mends once and then ships.
#[derive(Clone, Default)]
struct Careful {
    asked: Arc<Mutex<Vec<Question>>>,
}

impl Interviewer for Careful {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        let mut asked = self.asked.lock().unwrap();
        let answer = if asked.is_empty() { "Mend" } else { "S" };
        asked.push(question);
        Ok(Answer::choice(answer))
    }
}

#[tokio::test]
async fn an_interviewer_is_asked_a_question_and_gives_an_answer() {
    let careful = Careful::default();
    let ran = asking(careful.clone(), pipeline(GATE), ()).await;
    ran.succeeds_by("start ask mend ask ship exit");
    let asked = careful.asked.lock().unwrap();
    let questions: Vec<(&str, &str)> = asked
        .iter()
        .map(|question| (&*question.id, &*question.text))
        .collect();
    assert_eq!(questions, [("ask#1/1", "Ship it?"), ("ask#2/1", "Ship it?")]);
    assert_eq!(
        answers(&ran),
        [
            ("person", "[M] Mend".to_owned()),
            ("person", "[S] Ship".to_owned())
        ]
    );
}

/// Asks one question of each kind, and says what was made of the answers.
#[handler("survey")]
async fn survey(stage: StageContext) -> Result<Outcome, AskError> {
    let options = || ["red", "green", "blue"].map(|name| QuestionOption::new(&name[..1], name));
    let mut several = Question::new(QuestionKind::MultiSelect, "Which colours?");
    several.options = options().into();
    let questions = [
        Question::select("Which colour?", options()),
        several,
        Question::new(QuestionKind::FreeText, "Why?"),
        Question::new(QuestionKind::Confirm, "Sure?"),
    ];
    let mut outcome = Outcome::success();
    for question in questions {
        let answer = stage.ask(question.clone()).await?;
        let accepted = question.accept(&answer).unwrap();
        let chosen: Vec<String> = accepted
            .options
            .iter()
            .map(|option| option.label.clone())
            .collect();
        let meant = match accepted.is_yes() {
            Some(yes) => format!("yes: {yes}"),
            None => accepted.text.unwrap_or_else(|| chosen.join("+")),
        };
        outcome = outcome.set(format!("{:?}", question.kind), meant);
    }
    Ok(outcome)
}

#[tokio::test]
async fn questions_are_single_select_multi_select_free_text_and_confirm() {
    // Each kind is answered with nonsense first, and then asked again (rule H2).
    let answers = [
        Answer::choice("grey"),
        Answer::choice("g"),
        Answer::choices(["blue", "grey"]),
        Answer::choices(["blue", "R"]),
        Answer::choice("  "),
        Answer::choice("because"),
        Answer::choice("perhaps"),
        Answer::no(),
    ];
    let queue = QueueInterviewer::new().answers(answers);
    let pipeline = pipeline("digraph { start -> ask -> exit; ask [type=survey] }");
    let ran = asking(queue.clone(), pipeline, survey {}).await;
    ran.succeeds_by("start ask exit");
    let context = &ran.result.context;
    let meant = ["SingleSelect", "MultiSelect", "FreeText", "Confirm"].map(|kind| context.text(kind));
    assert_eq!(meant, ["green", "blue+red", "because", "yes: false"]);
    assert!(queue.is_empty());
}

#[tokio::test]
async fn auto_approve_always_selects_the_first_option() {
    let ship_first = GATE
        .replace("ask -> mend [label=\"[M] Mend\"];", "")
        .replace("; mend -> ask", MEND_LAST);
    let ran = asking(AutoApprove, pipeline(&ship_first), ()).await;
    ran.succeeds_by("start ask ship exit");
    // It is never taken for a person's.
    assert_eq!(answers(&ran), [("automatic", "[S] Ship".to_owned())]);
    assert_eq!(ran.result.context.text("human.gate.answered_by"), "automatic");

    let mend_first = GATE.replace("[shape=hexagon,", "[shape=hexagon, max_visits=3,");
    let ran = asking(AutoApprove, pipeline(&mend_first), ()).await;
    assert_eq!(ran.path(), "start ask mend ask mend ask mend", "always");
}

#[tokio::test]
async fn a_callback_is_asked_in_place_of_a_person() {
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    let callback = CallbackInterviewer::new(move |question: Question| {
        *count.lock().unwrap() += 1;
        let last = question.options.last().unwrap().key.clone();
        async move { Ok(Answer::choice(last)) }
    });
    asking(callback, pipeline(GATE), ())
        .await
        .succeeds_by("start ask ship exit");
    assert_eq!(*asked.lock().unwrap(), 1);

    let broken = CallbackInterviewer::new(|_| async { Err(InterviewError::terminal("the line is dead")) });
    let ran = asking(broken, pipeline(GATE), ()).await;
    assert_eq!(ran.failure(), "stage `ask` failed: the line is dead");
}

#[tokio::test]
async fn a_queue_gives_its_answers_in_turn() {
    let queue = QueueInterviewer::new().answers(["M", "mend", "S", "never asked"]);
    let ran = asking(queue.clone(), pipeline(GATE), ()).await;
    ran.succeeds_by("start ask mend ask mend ask ship exit");
    assert_eq!(queue.len(), 1);

    // Attractor 6.4: an empty queue skips, and a skipped gate fails.
    let empty = asking(QueueInterviewer::new().answers(["M"]), pipeline(GATE), ()).await;
    assert_eq!(empty.path(), "start ask mend ask");
    assert_eq!(
        empty.failure(),
        "stage `ask` failed: the person skipped the question"
    );
}
