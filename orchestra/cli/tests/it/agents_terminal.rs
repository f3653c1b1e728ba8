//! The text of a model that a person sees before being asked, on a terminal and elsewhere (rule F13).

#![cfg(unix)]

use crate::agents_support;

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agents_support::Project;
use orchestra_model_server_tests::Answer;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// A program on a terminal with a person who reads and types.
struct Seated {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
}

impl Seated {
    fn at(mut command: Command) -> Seated {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(OpenptFlags::NOCTTY.bits() as i32);
        let terminal = options.open(name.to_str().unwrap()).unwrap();
        command
            .env("NO_COLOR", "1")
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal);
        let child = command.spawn().unwrap();
        // Close the program's side of the terminal here, so that end of file is detected.
        drop(command);
        let keyboard = File::from(master);
        let mut output = keyboard.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let shown = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown
                    .lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Seated {
            child,
            keyboard,
            screen,
        }
    }

    fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    fn shows(&self, text: &str) {
        let begun = Instant::now();
        while !self.screen().contains(text) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "no `{text}` in\n{}",
                self.screen()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the screen shows a text `times` times.
    #[track_caller]
    fn shows_times(&self, text: &str, times: usize) {
        let begun = Instant::now();
        while self.screen().matches(text).count() < times {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", self.screen());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn types(&mut self, line: &str) {
        self.keyboard.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn ends(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        // Clean up after a failed test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const TALK: &str = "digraph {\n    start -> talk -> exit\n    \
    talk [prompt=\"Write a draft.\", \"agent.mode\"=interactive]\n}\n";

fn talk(answers: impl IntoIterator<Item = Answer>) -> Project {
    let project = Project::new("");
    project.scratch.write("t.dot", TALK).write("a.txt", "tea");
    answers.into_iter().for_each(|answer| project.server.push(answer));
    project
}

#[test]
fn whoever_attaches_reads_what_they_are_asked_about() {
    let project = talk([Answer::text("Leaves fall.\nThe end.")]);
    let run = Seated::at(project.command(&["run", "t.dot"]));
    run.shows("/approve");
    let shown = run.screen();
    assert_eq!(
        shown.matches("Leaves fall.").count(),
        1,
        "it is not shown a second time:\n{shown}"
    );
    let mut attached = Seated::at(project.command(&["attach", "last"]));
    attached.shows("/approve");
    let shown = attached.screen();
    assert!(
        shown.contains("Leaves fall.") && shown.contains("The end."),
        "{shown}"
    );
    let status = project.call(&["status", "last"]).exits(0).stdout;
    assert!(
        status.contains("Leaves fall.") && status.contains("The end."),
        "{status}"
    );
    attached.types("/approve");
    assert_eq!((attached.ends(), run.ends()), (0, 0));
}

#[test]
fn answers_that_follow_each_other_stand_on_lines_of_their_own() {
    let project = talk([
        Answer::text("draft 1").and_call("read_file", r#"{"path": "a.txt"}"#),
        Answer::text("draft 2").and_call("read_file", r#"{"path": "a.txt"}"#),
        Answer::text("draft 3"),
    ]);
    let run = project.call_with(&["run", "t.dot"], "/done\n").exits(0);
    for draft in ["talk: draft 1\n", "talk: draft 2\n", "talk: draft 3\n"] {
        assert!(run.stderr.contains(draft), "{draft}:\n{}", run.stderr);
    }
}

#[test]
fn what_was_not_streamed_is_shown_with_the_question() {
    let project = talk([Answer::text("Leaves fall.")]);
    let paused = project.call(&["run", "t.dot", "--quiet"]).exits(5);
    assert!(paused.stderr.contains("Leaves fall."), "{}", paused.stderr);
    let resumed = project.call_with(&["resume", "last"], "/done\n").exits(0);
    assert!(resumed.stderr.contains("Leaves fall."), "{}", resumed.stderr);
}

#[test]
fn a_mistyped_command_of_a_conversation_is_asked_again_and_the_model_does_not_see_it() {
    let project = talk([Answer::text("Leaves fall."), Answer::text("Understood.")]);
    let mut run = Seated::at(project.command(&["run", "t.dot"]));
    run.shows_times("    > ", 1);
    run.types("/aprove");
    run.shows("unknown command `/aprove`; did you mean `/approve`? (`//aprove` sends it as text)");
    run.types("/approve but longer");
    run.shows("`/approve` takes no text; send the text first, then `/approve` alone");
    run.types("//done is a command");
    run.shows("Understood.");
    // The prompt after each rejected line, and that of the second turn.
    run.shows_times("    > ", 4);
    run.types("/approve");
    assert_eq!(run.ends(), 0);
    let requests = project.server.requests();
    assert_eq!(requests.len(), 2);
    let last = requests[1].body.to_string();
    assert!(
        last.contains("/done is a command") && !last.contains("//done"),
        "{last}"
    );
    assert!(!last.contains("aprove") && !last.contains("but longer"), "{last}");
    // Commands in `--answer` are checked before the run starts.
    let given = project
        .call(&["run", "t.dot", "--answer", "talk=/aprove"])
        .exits(2);
    assert!(
        given.stderr.contains("did you mean `/approve`?"),
        "{}",
        given.stderr
    );
}
