//! Questions on the console (Attractor 6.4): printed to standard error, answered on standard input.

use std::io::{BufRead, ErrorKind, IsTerminal, Read};
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Accepted, Answer, AnsweredBy, ChatTurn, InterviewError, Interviewer, Question, QuestionKind, Reply,
};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::questions::answers::AnswerCommand;
use crate::terminal::format::{indented, long_duration};
use crate::terminal::screen::Screen;
use crate::terminal::{Paint, Terminal};

/// Maximum length of an answer line, in bytes.
const MAX_LINE: usize = 1 << 20;

/// Maximum number of lines that are read ahead of a question.
const LINES_AHEAD: usize = 16;

/// Time without input from a non-terminal, after which a hint names the command that answers from elsewhere.
const HINT_DELAY: Duration = Duration::from_secs(2);

/// Maximum number of consecutive invalid lines from a non-terminal.
const MAX_INVALID_LINES: u32 = 3;

/// Time to discard input that was typed before the first question was shown.
const DISCARD_TIME: Duration = Duration::from_millis(50);

type OpenInput = Box<dyn FnOnce() -> Box<dyn BufRead> + Send>;

/// An interviewer on the console. Simultaneous questions are asked one after the other.
pub(crate) struct Console {
    lines: Mutex<Lines>,
    screen: Arc<dyn Screen>,
    terminal: Terminal,
    /// `true` if the input is a terminal, at which a person answers.
    attended: bool,
    /// `true` if a question that the input cannot answer waits for an answer of another process.
    waits: bool,
    /// The command with which other processes answer.
    answer_command: Option<Arc<AnswerCommand>>,
    hint_delay: Duration,
}

impl Console {
    /// Creates a console that reads standard input from the first question on.
    pub(crate) fn new(terminal: Terminal, screen: Arc<dyn Screen>) -> Console {
        let input = || -> Box<dyn BufRead> { Box::new(std::io::stdin().lock()) };
        let attended = std::io::stdin().is_terminal();
        Console::with_input(terminal, screen, attended, Box::new(input))
    }

    fn with_input(terminal: Terminal, screen: Arc<dyn Screen>, attended: bool, input: OpenInput) -> Console {
        Console {
            lines: Mutex::new(Lines::Unread(Some(input))),
            screen,
            terminal,
            attended,
            waits: false,
            answer_command: None,
            hint_delay: HINT_DELAY,
        }
    }

    /// Sets the command with which other processes answer. With `wait`, a question that the input cannot answer waits
    /// for them.
    pub(crate) fn with_answer_command(mut self, command: Arc<AnswerCommand>, wait: bool) -> Console {
        self.answer_command = Some(command);
        self.waits = wait;
        self
    }

    /// Returns the question with its options.
    fn text(&self, question: &Question, is_shown: bool) -> String {
        let mut text = self.terminal.paint(Paint::Bold, "[?] ");
        if !question.node.is_empty() {
            text.push_str(&format!("{}: ", question.node));
        }
        if question.is_chat() {
            if !is_shown {
                text.push_str(&indented(&question.text));
                text.push_str("\n    ");
            }
            let hint = "answer, or end it with /done, /approve or /reject REASON";
            text.push_str(&format!("{}\n", self.terminal.paint(Paint::Dim, hint)));
            return text;
        }
        text.push_str(&self.terminal.paint(Paint::Bold, &indented(&question.text)));
        text.push('\n');
        for (key, value) in &question.metadata {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let line = indented(&format!("{key}: {value}"));
            text.push_str(&format!("    {}\n", self.terminal.paint(Paint::Dim, &line)));
        }
        for option in &question.options {
            text.push_str(&format!("    {}\n", indented(&option.to_string())));
        }
        for withheld in &question.withheld {
            let line = indented(&format!("withheld: {withheld}"));
            text.push_str(&format!("    {}\n", self.terminal.paint(Paint::Dim, &line)));
        }
        text
    }

    /// Returns the prompt before the answer.
    fn prompt(&self, question: &Question, deadline: Option<Instant>) -> String {
        let mut text = String::new();
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = match left.as_secs_f64().ceil() as u64 {
                seconds @ ..60 => format!("{seconds} s"),
                seconds => long_duration(Duration::from_secs(seconds)),
            };
            let then = question.default.as_ref().map_or_else(String::new, |default| {
                let option = question.options.iter().find(|option| option.key == *default);
                let shown = option.map_or_else(|| default.clone(), ToString::to_string);
                format!(", then `{}` is taken", indented(&shown))
            });
            let line = format!("{left} left to answer{then}");
            text.push_str(&format!("    {}\n", self.terminal.paint(Paint::Dim, &line)));
        }
        text.push_str(match question.kind {
            QuestionKind::YesNo | QuestionKind::Confirm => "    [Y/N]: ",
            QuestionKind::SingleSelect => "    Select: ",
            QuestionKind::MultiSelect => "    Select, with commas between: ",
            _ => "    > ",
        });
        text
    }

    /// Waits for the next line without a time limit. The caller drops the future when the question times out.
    async fn line(
        &self,
        lines: &mut Lines,
        question: &Question,
        shown: &mut ShownQuestion<'_>,
    ) -> Result<Line, InterviewError> {
        if !self.attended {
            if let Ok(line) = tokio::time::timeout(self.hint_delay, lines.next()).await {
                return line;
            }
            shown.hint(&self.hint(question, "no line of standard input yet"));
        }
        lines.next().await
    }

    /// Returns the hint that the question waits, and how it can be answered.
    fn hint(&self, question: &Question, why: &str) -> String {
        let mut hint = format!("    {}; the run waits\n", indented(why));
        let command = self.answer_command.as_ref();
        if let Some(command) = command.and_then(|command| command.for_question(question)) {
            let command = self.terminal.paint(Paint::Bold, &command);
            hint.push_str(&format!("    answer with: {command}\n"));
        }
        hint
    }

    /// Shows a question and reads lines until one is an answer, or until the input cannot provide one.
    async fn ask_here(&self, question: &Question) -> Result<Answer, InterviewError> {
        let deadline = question
            .timeout
            .and_then(|timeout| Instant::now().checked_add(timeout));
        let mut lines = self.lines.lock().await;
        let text = || self.text(question, self.screen.shows_answer(&question.node, &question.text));
        if let Err(nobody) = lines.begin(self.attended).await {
            if self.waits {
                ShownQuestion::new(&*self.screen).write(&text());
            }
            return Err(nobody);
        }
        let text = text();
        let mut shown = ShownQuestion::new(&*self.screen);
        shown.write(&text);
        let by = if self.attended {
            AnsweredBy::Person
        } else {
            AnsweredBy::Prepared
        };
        let mut invalid_lines = 0;
        loop {
            shown.ask(&self.prompt(question, deadline));
            let refused = match self.line(&mut lines, question, &mut shown).await? {
                Line::Text(line) => {
                    let answer = Answer::choice(line).by(by);
                    match question.accept(&answer) {
                        Ok(accepted) => {
                            shown.answered((!self.attended).then(|| echo(question, &answer, &accepted)));
                            return Ok(answer);
                        }
                        Err(refused) if self.attended => {
                            shown.answered(None);
                            refused.to_string()
                        }
                        // Piped input may be secret.
                        Err(refused) => {
                            shown.answered(Some(String::new()));
                            refused.without_answer()
                        }
                    }
                }
                Line::TooLong => {
                    shown.answered((!self.attended).then(String::new));
                    format!("a line of more than {MAX_LINE} bytes is not an answer")
                }
            };
            shown.write(&format!(
                "    {}\n",
                self.terminal.paint(Paint::Warn, &indented(&refused))
            ));
            invalid_lines += 1;
            if invalid_lines == MAX_INVALID_LINES && !self.attended {
                let reason = format!(
                    "{MAX_INVALID_LINES} lines of standard input are not answers; the last: {refused}"
                );
                return Err(InterviewError::unavailable(reason));
            }
        }
    }
}

impl Interviewer for Console {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        match self.ask_here(&question).await {
            Err(InterviewError::Unavailable { reason, .. }) if self.waits => {
                // An answer from elsewhere or the timeout drops this future.
                self.screen.write(&self.hint(&question, &reason));
                std::future::pending().await
            }
            asked => asked,
        }
    }

    async fn inform(&self, message: &str, stage: &str) {
        // Nothing is shown between a question and its answer.
        let _lines = self.lines.lock().await;
        self.screen
            .write(&format!("    {stage}: {}\n", indented(message)));
    }
}

/// A question on the screen, until it is dropped.
struct ShownQuestion<'s> {
    screen: &'s dyn Screen,
    /// `true` if the cursor is after a prompt.
    waiting: bool,
    /// The indentation of a line that is echoed because nobody typed it.
    margin: &'static str,
}

impl<'s> ShownQuestion<'s> {
    fn new(screen: &'s dyn Screen) -> ShownQuestion<'s> {
        screen.open();
        ShownQuestion {
            screen,
            waiting: false,
            margin: "",
        }
    }

    fn write(&self, text: &str) {
        self.screen.write(text);
    }

    fn ask(&mut self, prompt: &str) {
        self.write(prompt);
        self.waiting = true;
        self.margin = "";
    }

    /// Shows lines below the prompt while waiting for the answer.
    fn hint(&mut self, lines: &str) {
        self.screen.end_line();
        self.write(lines);
        self.waiting = false;
        self.margin = "    ";
    }

    /// Handles the arrival of a line. Echoes it if nobody typed it.
    fn answered(&mut self, line: Option<String>) {
        self.waiting = false;
        if let Some(line) = line {
            self.write(&format!("{}{}\n", self.margin, indented(&line)));
        }
    }
}

impl Drop for ShownQuestion<'_> {
    fn drop(&mut self) {
        if self.waiting {
            self.screen.end_line();
        }
        self.screen.close();
    }
}

/// Returns the echo of a choice from a pipe. Free text is not shown.
fn echo(question: &Question, answer: &Answer, accepted: &Accepted) -> String {
    const TEXT: &str = "(a text, which is not shown)";
    if let Some(yes) = accepted.is_yes() {
        return if yes { "yes" } else { "no" }.to_owned();
    }
    if question.is_chat() {
        let Reply::Chosen(words) = &answer.reply else {
            return TEXT.to_owned();
        };
        return match ChatTurn::parse(&words.concat()) {
            Ok(ChatTurn::Done) => "/done".to_owned(),
            Ok(ChatTurn::Approve) => "/approve".to_owned(),
            Ok(ChatTurn::Reject("")) => "/reject".to_owned(),
            Ok(ChatTurn::Reject(_)) => format!("/reject {TEXT}"),
            _ => TEXT.to_owned(),
        };
    }
    let options: Vec<String> = accepted.options.iter().map(ToString::to_string).collect();
    match &accepted.text {
        Some(_) => TEXT.to_owned(),
        None => options.join(", "),
    }
}

/// A line of the input.
#[derive(Debug, PartialEq)]
enum Line {
    Text(String),
    TooLong,
}

/// The lines of the input. A separate thread reads them, because a blocking read cannot be cancelled.
enum Lines {
    /// Nothing was asked yet, so the input is not read.
    Unread(Option<OpenInput>),
    Read(mpsc::Receiver<std::io::Result<Line>>),
    /// No more input will come.
    Ended(String),
}

impl Lines {
    /// Starts to read. Discards terminal input that was typed before the question was visible.
    async fn begin(&mut self, attended: bool) -> Result<(), InterviewError> {
        if let Lines::Unread(input) = self {
            let input = input.take();
            let (sender, receiver) = mpsc::channel(LINES_AHEAD);
            let reader = std::thread::Builder::new().name("standard-input".to_owned());
            let spawned = reader.spawn(move || {
                if let Some(input) = input {
                    forward(&mut *input(), &sender);
                }
            });
            *self = match spawned {
                Ok(_) => Lines::Read(receiver),
                Err(error) => Lines::failed(&error),
            };
            if attended {
                tokio::time::sleep(DISCARD_TIME).await;
            }
        }
        while let Lines::Read(receiver) = self
            && attended
        {
            match receiver.try_recv() {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => *self = Lines::failed(&error),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => *self = Lines::closed(),
            }
        }
        match self {
            Lines::Ended(reason) => Err(InterviewError::unavailable(reason.clone())),
            _ => Ok(()),
        }
    }

    async fn next(&mut self) -> Result<Line, InterviewError> {
        if let Lines::Read(receiver) = self {
            match receiver.recv().await {
                Some(Ok(line)) => return Ok(line),
                Some(Err(error)) => *self = Lines::failed(&error),
                None => *self = Lines::closed(),
            }
        }
        Err(InterviewError::unavailable(match self {
            Lines::Ended(reason) => reason.as_str(),
            _ => "standard input is not read",
        }))
    }

    fn failed(error: &std::io::Error) -> Lines {
        Lines::Ended(format!("standard input cannot be read: {error}"))
    }

    fn closed() -> Lines {
        Lines::Ended("standard input is closed".to_owned())
    }
}

/// Sends the lines of an input until it ends, or until the receiver is dropped.
fn forward(input: &mut dyn BufRead, sender: &mpsc::Sender<std::io::Result<Line>>) {
    loop {
        let line = match read_line(input) {
            Ok(Some(line)) => Ok(line),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let failed = line.is_err();
        if sender.blocking_send(line).is_err() || failed {
            return;
        }
    }
}

/// Returns the next line without its line ending, or `None` at the end.
fn read_line(input: &mut dyn BufRead) -> std::io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    let mut limited = (&mut *input).take(MAX_LINE as u64 + 1);
    if limited.read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    } else if bytes.len() > MAX_LINE {
        skip_line(input)?;
        return Ok(Some(Line::TooLong));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(Line::Text(text.trim_end_matches('\r').to_owned())))
}

/// Discards the rest of a line.
fn skip_line(input: &mut dyn BufRead) -> std::io::Result<()> {
    loop {
        let (length, ended) = match input.fill_buf() {
            Ok([]) => return Ok(()),
            Ok(bytes) => match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (bytes.len(), false),
            },
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        input.consume(length);
        if ended {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
