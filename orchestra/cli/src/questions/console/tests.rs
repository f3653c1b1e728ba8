//! Tests of the console with a fake input and a fake screen.

use std::io::{Cursor, PipeReader, PipeWriter, Write};
use std::sync::PoisonError;

use orchestra_engine::{QuestionOption, Reply};

use super::*;

/// A screen that stores its output.
#[derive(Default)]
struct Paper {
    text: std::sync::Mutex<String>,
}

impl Paper {
    fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the output ends with a text.
    async fn ends_with(&self, text: &str) {
        while !self.text().ends_with(text) {
            tokio::task::yield_now().await;
        }
    }
}

impl Screen for Paper {
    fn open(&self) {
        self.write("<");
    }

    fn write(&self, text: &str) {
        self.text
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_str(text);
    }

    fn shows_answer(&self, _: &str, text: &str) -> bool {
        self.text().contains(text)
    }

    fn end_line(&self) {
        if !self.text().ends_with('\n') {
            self.write("\n");
        }
    }

    fn close(&self) {
        self.write(">");
    }
}

const PLAIN: Terminal = Terminal {
    json: false,
    quiet: false,
    color: false,
};

/// Returns a console that reads these lines from a pipe.
fn piped(input: impl Into<Vec<u8>>) -> (Console, Arc<Paper>) {
    let input: Vec<u8> = input.into();
    let paper = Arc::new(Paper::default());
    let open = move || -> Box<dyn BufRead> { Box::new(Cursor::new(input)) };
    (
        Console::with_input(PLAIN, paper.clone(), false, Box::new(open)),
        paper,
    )
}

/// Returns a console with a person, whose typing is written to the pipe.
fn attended() -> (Console, Arc<Paper>, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let paper = Arc::new(Paper::default());
    let console = Console::with_input(PLAIN, paper.clone(), true, from_pipe(reader));
    (console, paper, writer)
}

fn from_pipe(reader: PipeReader) -> OpenInput {
    Box::new(move || Box::new(std::io::BufReader::new(reader)))
}

fn ship() -> Question {
    let mut options = [
        QuestionOption::new("Y", "[Y] Yes, ship"),
        QuestionOption::new("N", "N) No"),
    ];
    options[1].to = Some("mend".to_owned());
    Question::select("Ship it?", options).node("approve")
}

fn chosen(text: &str) -> Reply {
    Reply::Chosen(vec![text.to_owned()])
}

#[tokio::test]
async fn a_question_shows_its_options_and_takes_a_line() {
    let (console, paper) = piped("y\n");
    let answer = console.ask(ship()).await.unwrap();
    assert_eq!((answer.reply, answer.by), (chosen("y"), AnsweredBy::Prepared));
    assert_eq!(
        paper.text(),
        "<[?] approve: Ship it?\n    [Y] Yes, ship\n    [N] No\n    Select: [Y] Yes, ship\n>"
    );
}

#[tokio::test]
async fn nonsense_is_asked_again_with_the_reason() {
    let (console, paper) = piped("maybe\r\n\nMEND\n");
    assert_eq!(console.ask(ship()).await.unwrap().reply, chosen("MEND"));
    let text = paper.text();
    let reasons = [
        "    Select: \n    the line is not one of the answers: [Y] Yes, ship, [N] No\n    Select: ",
        "    Select: \n    an empty answer is not one of the answers: [Y] Yes, ship, [N] No\n    Select: [N] No\n>",
    ];
    for reason in reasons {
        assert!(text.contains(reason), "{text}");
    }
}

#[tokio::test]
async fn a_pipe_that_only_gives_nonsense_is_given_up() {
    let (console, _) = piped("a\nb\nc\nY\n");
    let error = console.ask(ship()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(
        error
            .to_string()
            .contains("the last: the line is not one of the answers"),
        "{error}"
    );
}

#[tokio::test]
async fn a_closed_input_is_nobody_at_once_and_for_ever() {
    let (console, paper) = piped("");
    for _ in 0..2 {
        let error = console.ask(ship()).await.unwrap_err();
        assert_eq!(error.to_string(), "nobody can be asked: standard input is closed");
    }
    let (open, closed) = (
        paper.text().matches('<').count(),
        paper.text().matches('>').count(),
    );
    assert_eq!(
        (open, closed),
        (1, 1),
        "a question that nobody can answer is shown once"
    );
    // The last line may lack a line ending.
    let (console, _) = piped("Y");
    assert_eq!(console.ask(ship()).await.unwrap().reply, chosen("Y"));
    assert!(console.ask(ship()).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn an_open_pipe_that_says_nothing_is_waited_for_and_says_so() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let paper = Arc::new(Paper::default());
    let mut console = Console::with_input(PLAIN, paper.clone(), false, from_pipe(reader));
    console.hint_delay = Duration::from_millis(10);
    let late = async {
        paper
            .ends_with("Select: \n    no line of standard input yet; the run waits\n")
            .await;
        writer.write_all(b"Y\n").unwrap();
    };
    let (answer, ()) = tokio::join!(console.ask(ship()), late);
    assert_eq!(answer.unwrap().reply, chosen("Y"));
    assert!(
        paper.text().ends_with("waits\n    [Y] Yes, ship\n>"),
        "{}",
        paper.text()
    );
    // Input between questions is accepted too; end of file is final.
    writer.write_all(b"N\n").unwrap();
    drop(writer);
    assert_eq!(console.ask(ship()).await.unwrap().reply, chosen("N"));
    assert!(console.ask(ship()).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn a_console_that_waits_shows_each_question_and_gives_none_up() {
    let (mut console, paper) = piped("");
    console.waits = true;
    for _ in 0..2 {
        let waits = paper.ends_with(">    standard input is closed; the run waits\n");
        tokio::select! {
            answer = console.ask(ship()) => panic!("{answer:?}"),
            () = waits => {}
        }
        let text = std::mem::take(&mut *paper.text.lock().unwrap_or_else(PoisonError::into_inner));
        assert!(text.contains("[Y] Yes") || text.contains("Ship"), "{text}");
    }
}

#[tokio::test]
async fn an_input_that_breaks_is_nobody_with_the_reason() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the cable is cut"))
        }
    }
    let open = || -> Box<dyn BufRead> { Box::new(std::io::BufReader::new(Broken)) };
    let console = Console::with_input(PLAIN, Arc::new(Paper::default()), true, Box::new(open));
    let error = console.ask(ship()).await.unwrap_err();
    assert!(
        error.is_unavailable() && error.to_string().contains("the cable is cut"),
        "{error}"
    );
}

#[tokio::test]
async fn yes_and_no_texts_and_several_options_are_asked_for_in_their_way() {
    let (console, paper) = piped("perhaps\nYES\nBecause it is\ttime.\nl, Docs\n\n");
    let confirm = Question::new(QuestionKind::Confirm, "Delete it?");
    assert_eq!(console.ask(confirm).await.unwrap().reply, chosen("YES"));
    let why = Question::new(QuestionKind::FreeText, "Why?");
    assert_eq!(
        console.ask(why).await.unwrap().reply,
        chosen("Because it is\ttime.")
    );
    let mut several = Question::select(
        "Which?",
        [QuestionOption::new("L", "Lint"), QuestionOption::new("D", "Docs")],
    );
    several.kind = QuestionKind::MultiSelect;
    let answer = console.ask(several.clone()).await.unwrap();
    let keys: Vec<String> = several
        .accept(&answer)
        .unwrap()
        .options
        .into_iter()
        .map(|option| option.key)
        .collect();
    assert_eq!(keys, ["L", "D"]);
    let text = paper.text();
    for part in [
        "<[?] Delete it?\n    [Y/N]: \n    the line is not one of the answers: yes, no\n    [Y/N]: yes\n>",
        "<[?] Why?\n    > (a text, which is not shown)\n>",
        "    [L] Lint\n    [D] Docs\n    Select, with commas between: [L] Lint, [D] Docs\n>",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn an_edge_for_any_text_is_offered_as_such() {
    let (console, paper) = piped("Add a test\n");
    let mut question = ship();
    question.options[1] = QuestionOption::new("C", "Comment");
    question.options[1].freeform = true;
    let answer = console.ask(question.clone()).await.unwrap();
    assert_eq!(
        question.accept(&answer).unwrap().text.as_deref(),
        Some("Add a test")
    );
    assert!(
        paper
            .text()
            .contains("    [Y] Yes, ship\n    any text: Comment\n"),
        "{}",
        paper.text()
    );
}

#[tokio::test]
async fn the_time_left_and_what_happens_then_are_shown() {
    let (console, paper) = piped("x\nY\nN\nN\n");
    let timed = ship().timeout(Duration::from_secs(90)).default_answer("N");
    console.ask(timed).await.unwrap();
    let line = "    1:30 min left to answer, then `[N] No` is taken\n    Select: ";
    assert_eq!(paper.text().matches(line).count(), 2, "{}", paper.text());
    console
        .ask(ship().timeout(Duration::from_secs(20)))
        .await
        .unwrap();
    assert!(
        paper
            .text()
            .contains("    20 s left to answer\n    Select: [N] No"),
        "{}",
        paper.text()
    );
    console
        .ask(ship().timeout(Duration::from_secs(2 * 86_400)))
        .await
        .unwrap();
    let line = "    2 d 0 h left to answer\n";
    assert!(paper.text().contains(line), "{}", paper.text());
}

#[tokio::test]
async fn further_lines_of_a_question_stand_under_the_first() {
    let (console, paper) = piped("Y\n");
    let mut question = ship().metadata("diff", "+1\n-1").metadata("files", 3);
    question.text = "Ship\nall of it?".to_owned();
    console.ask(question).await.unwrap();
    let text = paper.text();
    assert!(text.starts_with("<[?] approve: Ship\n    all of it?"), "{text:?}");
    assert!(text.contains("    diff: +1\n    -1\n    files: 3\n"), "{text:?}");
}

#[tokio::test]
async fn what_is_no_utf_8_and_what_is_too_long_does_no_harm() {
    let mut input = b"\xff\xfe\n".to_vec();
    input.extend(std::iter::repeat_n(b'Y', MAX_LINE + 1));
    input.extend(b"\nN\n");
    let (console, paper) = piped(input);
    assert_eq!(console.ask(ship()).await.unwrap().reply, chosen("N"));
    assert!(
        paper
            .text()
            .contains("a line of more than 1048576 bytes is not an answer")
    );
    assert!(paper.text().len() < 2_000, "the long line is not shown");
}

#[tokio::test]
async fn what_was_typed_before_a_question_was_shown_does_not_answer_it() {
    let (console, paper, mut keys) = attended();
    keys.write_all(b"Y\n").unwrap();
    let (answer, ()) = tokio::join!(console.ask(ship()), async {
        paper.ends_with("Select: ").await;
        keys.write_all(b"N\n").unwrap();
    });
    let answer = answer.unwrap();
    assert_eq!((answer.reply, answer.by), (chosen("N"), AnsweredBy::Person));
    assert!(
        paper.text().ends_with("Select: >"),
        "the terminal itself shows what is typed"
    );
}

#[tokio::test]
async fn questions_at_the_same_time_are_asked_one_after_the_other() {
    let (console, paper, mut keys) = attended();
    let (first, second, ()) = tokio::join!(
        console.ask(ship().node("a")),
        console.ask(ship().node("b")),
        async {
            paper.ends_with("Select: ").await;
            assert!(!paper.text().contains("b: Ship it?"));
            keys.write_all(b"Y\n").unwrap();
            while !paper.text().contains("b: Ship it?") {
                tokio::task::yield_now().await;
            }
            keys.write_all(b"N\n").unwrap();
        }
    );
    assert_eq!(
        (first.unwrap().reply, second.unwrap().reply),
        (chosen("Y"), chosen("N"))
    );
}

#[tokio::test]
async fn a_withdrawn_question_leaves_the_console_to_the_next() {
    let (console, paper, mut keys) = attended();
    tokio::select! {
        answer = console.ask(ship().node("late")) => panic!("{answer:?}"),
        () = paper.ends_with("Select: ") => {}
    }
    assert!(paper.text().ends_with("Select: \n>"), "{}", paper.text());
    let (answer, ()) = tokio::join!(console.ask(ship().node("next")), async {
        paper.ends_with("Select: ").await;
        keys.write_all(b"Y\n").unwrap();
    });
    assert_eq!(answer.unwrap().reply, chosen("Y"));
}

#[tokio::test]
async fn a_person_who_closes_the_input_is_gone() {
    let (console, paper, keys) = attended();
    let (answer, ()) = tokio::join!(console.ask(ship()), async {
        paper.ends_with("Select: ").await;
        drop(keys);
    });
    assert!(answer.unwrap_err().is_unavailable());
    console.inform("bye", "approve").await;
    assert!(
        paper.text().ends_with("Select: \n>    approve: bye\n"),
        "{}",
        paper.text()
    );
}
