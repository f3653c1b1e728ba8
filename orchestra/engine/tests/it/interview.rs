//! Tests of the interviewers that need no person (Attractor 6.4, 11.8).
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use orchestra_engine::{
    Answer, AnsweredBy, AutoApprove, CallbackInterviewer, FailureCategory, InterviewError, Interviewer,
    Question, QuestionKind, QuestionOption, QueueInterviewer, Recording, RecordingInterviewer,
    ReplayInterviewer, Reply, SharedInterviewer, ask_until_accepted,
};

fn ship() -> Question {
    let options = [
        QuestionOption::new("Y", "[Y] Yes"),
        QuestionOption::new("N", "[N] No"),
    ];
    Question::select("Ship it?", options).node("approve")
}

fn of(node: &str) -> Question {
    Question::new(QuestionKind::YesNo, format!("{node}?")).node(node)
}

/// An interviewer that collects messages and says yes.
#[derive(Clone, Default)]
struct Listener {
    reported: Arc<Mutex<Vec<(String, String)>>>,
    together: Arc<AtomicUsize>,
}

impl Interviewer for Listener {
    async fn ask(&self, _: Question) -> Result<Answer, InterviewError> {
        Ok(Answer::yes())
    }

    async fn ask_multiple(&self, questions: Vec<Question>) -> Result<Vec<Answer>, InterviewError> {
        self.together.fetch_add(questions.len(), Ordering::Relaxed);
        Ok(questions.iter().map(|_| Answer::no()).collect())
    }

    async fn inform(&self, message: &str, stage: &str) {
        self.reported
            .lock()
            .unwrap()
            .push((message.to_owned(), stage.to_owned()));
    }
}

#[tokio::test]
async fn auto_approve_says_yes_takes_the_first_option_and_is_always_recorded_as_automatic() {
    let mut several = ship();
    several.kind = QuestionKind::MultiSelect;
    let mut only_text = ship();
    only_text
        .options
        .iter_mut()
        .for_each(|option| option.freeform = true);
    let cases = [
        (Question::new(QuestionKind::YesNo, "Ready?"), "yes"),
        (Question::new(QuestionKind::Confirm, "Delete?"), "yes"),
        (ship(), "Y"),
        (several, "Y"),
        (Question::new(QuestionKind::FreeText, "Why?"), "auto-approved"),
        (only_text, "auto-approved"),
    ];
    for (question, wanted) in cases {
        let answer = AutoApprove.ask(question.clone()).await.unwrap();
        assert_eq!(
            answer,
            Answer::choice(wanted).by(AnsweredBy::Automatic),
            "{question:?}"
        );
        assert!(question.accept(&answer).is_ok(), "{question:?}");
    }
}

#[tokio::test]
async fn a_callback_is_asked_whether_it_is_asynchronous_or_not() {
    let asynchronous = CallbackInterviewer::new(async |question: Question| {
        tokio::task::yield_now().await;
        Ok(Answer::choice(question.options[1].key.clone()))
    });
    assert_eq!(asynchronous.ask(ship()).await.unwrap(), Answer::choice("N"));
    let plain = CallbackInterviewer::blocking(|question| Ok(Answer::choice(question.node)));
    assert_eq!(plain.ask(ship()).await.unwrap(), Answer::choice("approve"));
    let nobody = CallbackInterviewer::blocking(|_| Err(InterviewError::unavailable("it is night")));
    assert!(nobody.ask(ship()).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn a_queue_gives_its_answers_in_turn_and_then_skips() {
    let queue = QueueInterviewer::new()
        .answers(["Y", "N"])
        .answers([Answer::skipped()]);
    let mut given = Vec::new();
    while !queue.is_empty() {
        given.push(queue.ask(ship()).await.unwrap());
    }
    let prepared = |answer: Answer| answer.by(AnsweredBy::Prepared);
    assert_eq!(
        given,
        [Answer::choice("Y"), Answer::choice("N"), Answer::skipped()].map(prepared)
    );
    assert_eq!(queue.ask(ship()).await.unwrap(), prepared(Answer::skipped()));
}

#[tokio::test]
async fn a_queue_keeps_the_answers_of_a_node_for_it() {
    let queue = QueueInterviewer::new()
        .answers(["any"])
        .answers_for("a", ["a1", "a2"])
        .answers_for("b", ["b1"]);
    assert_eq!(queue.len(), 4);
    let mut given = Vec::new();
    for node in ["b", "a", "c", "a", "a"] {
        given.push(queue.ask(of(node)).await.unwrap().reply);
    }
    let chosen = |text: &str| Reply::Chosen(vec![text.to_owned()]);
    assert_eq!(
        given,
        [
            chosen("b1"),
            chosen("a1"),
            chosen("any"),
            chosen("a2"),
            Reply::Skipped
        ]
    );
}

#[tokio::test]
async fn several_questions_are_asked_one_after_the_other_unless_the_interviewer_knows_better() {
    let queue = QueueInterviewer::new().answers(["yes", "no"]);
    let answers = queue.ask_multiple(vec![of("a"), of("b")]).await.unwrap();
    assert_eq!(
        answers
            .iter()
            .map(|answer| of("x").accept(answer).unwrap().is_yes())
            .collect::<Vec<_>>(),
        [Some(true), Some(false)]
    );
    let nobody = CallbackInterviewer::new(async |question: Question| match question.node.as_str() {
        "a" => Ok(Answer::yes()),
        _ => Err(InterviewError::retryable("the line is dead")),
    });
    let error = nobody
        .ask_multiple(vec![of("a"), of("b"), of("a")])
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "the line is dead");
    AutoApprove.inform("nobody hears this", "a").await;
}

#[tokio::test]
async fn a_shared_interviewer_and_a_recording_one_pass_everything_on() {
    let listener = Listener::default();
    let shared = SharedInterviewer::new(RecordingInterviewer::new(SharedInterviewer::new(
        listener.clone(),
    )));
    assert_eq!(shared.ask(ship()).await.unwrap(), Answer::yes());
    assert_eq!(
        shared.ask_multiple(vec![of("a"), of("b")]).await.unwrap(),
        [Answer::no(), Answer::no()]
    );
    shared.inform("lunch", "a").await;
    assert_eq!(listener.together.load(Ordering::Relaxed), 2);
    assert_eq!(
        *listener.reported.lock().unwrap(),
        [("lunch".to_owned(), "a".to_owned())]
    );
}

#[tokio::test]
async fn a_refused_answer_is_asked_again_with_the_reason_and_never_taken_for_the_first_choice() {
    let listener = Listener::default();
    // `yes` from the listener names the first option, `no` the second, `maybe` none.
    let answers = QueueInterviewer::new().answers(["maybe", "", "no"]);
    let reported = listener.reported.clone();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    struct Both<A, B>(A, B);
    impl<A: Interviewer, B: Interviewer> Interviewer for Both<A, B> {
        async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
            self.0.ask(question).await
        }
        async fn inform(&self, message: &str, stage: &str) {
            self.1.inform(message, stage).await;
        }
    }
    let counted = CallbackInterviewer::new(move |question| {
        count.fetch_add(1, Ordering::Relaxed);
        let answers = answers.clone();
        async move { answers.ask(question).await }
    });
    let answer = ask_until_accepted(&Both(counted, listener), &ship())
        .await
        .unwrap();
    assert_eq!(
        (answer.reply, asked.load(Ordering::Relaxed)),
        (Reply::Chosen(vec!["no".to_owned()]), 3)
    );
    let reported = reported.lock().unwrap();
    assert_eq!(
        reported[0],
        (
            "`maybe` is not one of the answers: [Y] Yes, [N] No".to_owned(),
            "approve".to_owned()
        )
    );
    assert_eq!(reported.len(), 2);
}

#[tokio::test]
async fn an_interviewer_that_only_gives_nonsense_is_given_up() {
    let stubborn = QueueInterviewer::new().answers(["a", "b", "c", "Y"]);
    let error = ask_until_accepted(&stubborn, &ship()).await.unwrap_err();
    let InterviewError::Failed { category, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*category, FailureCategory::Terminal);
    assert!(
        error
            .to_string()
            .contains("`c` is not one of the answers: [Y] Yes, [N] No"),
        "{error}"
    );
    assert_eq!(stubborn.len(), 1, "it is asked three times");
}

#[tokio::test]
async fn a_skipped_question_is_not_asked_again() {
    let queue = QueueInterviewer::new()
        .answers([Answer::skipped()])
        .answers(["Y"]);
    assert_eq!(
        ask_until_accepted(&queue, &ship()).await.unwrap().reply,
        Reply::Skipped
    );
    assert_eq!(queue.len(), 1);
}

#[tokio::test]
async fn a_recording_holds_pairs_in_the_order_of_the_answers_and_survives_being_written() {
    // The first question is answered last.
    let gate = Arc::new(tokio::sync::Notify::new());
    let waits = gate.clone();
    let recorder = RecordingInterviewer::new(CallbackInterviewer::new(move |question: Question| {
        let waits = waits.clone();
        async move {
            if question.node == "slow" {
                waits.notified().await;
            }
            Ok(Answer::yes())
        }
    }));
    let clone = recorder.clone();
    let (slow, ()) = tokio::join!(clone.ask(of("slow")), async {
        recorder.ask(of("fast")).await.unwrap();
        gate.notify_one();
    });
    slow.unwrap();
    let recording = recorder.recording();
    let nodes: Vec<&str> = recording
        .entries
        .iter()
        .map(|entry| entry.question.node.as_str())
        .collect();
    assert_eq!(nodes, ["fast", "slow"]);
    assert_eq!(recording.entries[0].answer, Some(Answer::yes()));
    let text = serde_json::to_string(&recording).unwrap();
    assert!(
        text.starts_with(
            r#"{"schema":"orchestra.interviews/1","entries":[{"question":{"id":"","node":"fast""#
        ),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Recording>(&text).unwrap(), recording);
}

#[tokio::test]
async fn a_replay_gives_the_recorded_answers_as_prepared_ones_whatever_the_order_of_the_nodes() {
    let recorder = RecordingInterviewer::new(QueueInterviewer::new().answers(["yes", "no", "no"]));
    for node in ["a", "b", "a"] {
        recorder.ask(of(node)).await.unwrap();
    }
    let replay = ReplayInterviewer::new(recorder.recording()).unwrap();
    let mut given = Vec::new();
    for node in ["b", "a", "a"] {
        given.push(replay.ask(of(node)).await.unwrap());
    }
    let prepared = |answer: Answer| answer.by(AnsweredBy::Prepared);
    assert_eq!(
        given,
        [Answer::choice("no"), Answer::choice("yes"), Answer::choice("no")].map(prepared)
    );
    let error = replay.ask(of("a")).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
}

#[tokio::test]
async fn a_question_that_differs_from_the_recorded_one_is_an_error() {
    let recorder = RecordingInterviewer::new(AutoApprove);
    recorder.ask(ship()).await.unwrap();
    let replay = ReplayInterviewer::new(recorder.recording()).unwrap();
    let mut visit = ship();
    visit.id = "approve#2/1".to_owned();
    let mut kind = ship();
    kind.kind = QuestionKind::MultiSelect;
    let mut options = ship();
    options.options.swap(0, 1);
    let mut text = ship();
    text.text = "Really?".to_owned();
    for (other, what) in [
        (visit, "name"),
        (kind, "kind"),
        (options, "choice"),
        (text, "text"),
        (ship().default_answer("N"), "default"),
    ] {
        let error = replay.ask(other).await.unwrap_err();
        let InterviewError::Failed { category, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(*category, FailureCategory::Terminal);
        assert!(error.to_string().contains(&format!("its {what} was")), "{error}");
    }
    let later = ship().timeout(Duration::from_secs(1)).metadata("diff", "+1");
    assert_eq!(
        replay.ask(later).await.unwrap().by,
        AnsweredBy::Prepared,
        "how long it waits may change"
    );
}

#[tokio::test]
async fn a_withdrawn_question_is_recorded_as_such_and_withdrawn_again() {
    let answers = QueueInterviewer::new().answers(["Y"]);
    let recorder = RecordingInterviewer::new(CallbackInterviewer::new(move |question: Question| {
        let answers = answers.clone();
        async move {
            match question.id.as_str() {
                "approve#1/1" => pending().await,
                _ => answers.ask(question).await,
            }
        }
    }));
    let visit = |visit: u32| {
        let mut question = ship().timeout(Duration::from_secs(1));
        question.id = format!("approve#{visit}/1");
        question
    };
    assert!(is_pending(recorder.ask(visit(1))), "and dropped");
    recorder.ask(visit(2)).await.unwrap();
    let recording = recorder.recording();
    assert_eq!(
        recording
            .entries
            .iter()
            .map(|entry| entry.answer.is_some())
            .collect::<Vec<_>>(),
        [false, true]
    );

    let replay = ReplayInterviewer::new(recording.clone()).unwrap();
    assert!(
        is_pending(replay.ask(visit(1))),
        "its time is up again, as it was"
    );
    assert_eq!(
        replay.ask(visit(2)).await.unwrap(),
        Answer::choice("Y").by(AnsweredBy::Prepared)
    );

    let replay = ReplayInterviewer::new(recording).unwrap();
    let mut endless = visit(1);
    endless.timeout = None;
    assert!(
        replay.ask(endless).await.unwrap_err().is_unavailable(),
        "it would wait for ever"
    );
}

#[tokio::test]
async fn nobody_there_is_not_recorded_as_an_answer() {
    let recorder = RecordingInterviewer::new(CallbackInterviewer::blocking(|_| {
        Err(InterviewError::unavailable("night"))
    }));
    recorder.ask(ship()).await.unwrap_err();
    recorder.ask_multiple(vec![ship(), ship()]).await.unwrap_err();
    assert_eq!(recorder.recording().entries, []);
}

#[tokio::test]
async fn a_recording_of_another_form_is_refused() {
    let other = r#"{"schema": "orchestra.interviews/9", "entries": []}"#;
    let error = ReplayInterviewer::new(serde_json::from_str(other).unwrap()).unwrap_err();
    assert!(error.to_string().contains("orchestra.interviews/9"), "{error}");
}

#[test]
fn an_error_names_its_cause() {
    let error =
        InterviewError::retryable("the chat does not answer").caused_by(std::io::Error::other("reset"));
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "reset");
}

/// Returns whether a future is pending after one poll. Drops the future.
fn is_pending<F: Future>(future: F) -> bool {
    let mut future = pin!(future);
    matches!(
        future.as_mut().poll(&mut Context::from_waker(Waker::noop())),
        Poll::Pending
    )
}
