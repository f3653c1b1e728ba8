//! The program under limits of the system, from tight to loose, so that each moment of a run is met. `MATRIX.md` is what
//! came of it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use orchestra_model_server_tests::{Answer, ModelServer, Wire};

use support::limit::{KINDS, Kind, Limit};
use support::table::{self, Cells, MISSING, NEVER};
use support::{CALLS, Call, Done, Project, RUN, copy_program, open_to_all, template, until, untyped};

/// The table.
const MATRIX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/MATRIX.md");

/// What the program needs beside the limit.
struct Scratch {
    folder: tempfile::TempDir,
    program: PathBuf,
    template: PathBuf,
    _model: ModelServer,
}

impl Scratch {
    fn new() -> Scratch {
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path());
        // Where another user can start it.
        let program = folder.path().join("orchestra");
        copy_program(env!("CARGO_BIN_EXE_orchestra-exhaustion-program"), &program);
        let model = ModelServer::start();
        model.respond_with(|_| Answer::text("Something."));
        let made = folder.path().join("template");
        template(&made, &model.base(Wire::Anthropic));
        Scratch {
            template: made,
            program,
            folder,
            _model: model,
        }
    }

    /// Puts a call under a limit; gives where it failed and by which code, if it did.
    fn try_out(&self, call: Call, limit: Limit) -> Result<Option<(&'static str, String)>, String> {
        let name = format!("{:?}-{:?}-{}", limit.kind, call, limit.value);
        let project = Project::copy(
            &self.template,
            self.folder.path().join(name),
            &self.program,
            limit,
        );
        let ended = self.under_limit(&project, call, limit);
        // Disks are unmounted by then, and many copies would fill this one.
        let folder = project.folder.clone();
        drop(project);
        let _ = std::fs::remove_dir_all(folder);
        ended
    }

    fn under_limit(
        &self,
        project: &Project,
        call: Call,
        limit: Limit,
    ) -> Result<Option<(&'static str, String)>, String> {
        let folder = format!(".orchestra/runs/{RUN}");
        let run = ["run", project.pipeline(call), "--run-dir", &folder, "--json"];
        let answered: Vec<&str> = run.into_iter().chain(["--answer", "gate=Y"]).collect();
        let (done, fine) = match call {
            Call::Run => (project.call(call, &answered, Some(limit)), 0),
            Call::Pause => (project.call(call, &run, Some(limit)), 5),
            Call::Resume => {
                let paused = project.call(call, &run, None);
                assert_eq!(paused.status.code(), Some(5), "{}", paused.stderr);
                let arguments = ["resume", RUN, "--answer", "gate=Y", "--json"];
                (project.call(call, &arguments, Some(limit)), 0)
            }
            Call::Answer => (self.answer(project, limit)?, 0),
        };
        let failed = done.status.code() != Some(fine);
        let met = failed.then(|| table::cell(project, call, &done));
        if failed && let Some(what) = untyped(limit.kind, &done) {
            return Err(format!("{met:?}: {what}"));
        }
        project.recovers(call).map_err(|what| {
            format!(
                "{met:?}: afterwards {what}\nbefore: {} {}",
                done.stderr,
                done.last()
            )
        })?;
        Ok(met)
    }

    /// Answers under the limit the gate of a run that waits, which has none; then without, where that failed.
    fn answer(&self, project: &Project, limit: Limit) -> Result<Done, String> {
        let call = Call::Answer;
        let folder = format!(".orchestra/runs/{RUN}");
        let arguments = ["run", "gate.dot", "--run-dir", &folder, "--wait", "--json"];
        let waiting = project.start(call, &arguments, None);
        let events = project.run_folder(call).join("events.jsonl");
        let asked = until(|| {
            std::fs::read_to_string(&events).is_ok_and(|events| events.contains("InterviewStarted"))
        });
        let arguments = ["answer", RUN, "gate", "Y", "--json"];
        let done = if asked {
            Some(project.call(call, &arguments, Some(limit)))
        } else {
            None
        };
        if done.as_ref().is_none_or(|done| !done.status.success()) {
            let again = project.call(call, &arguments, None);
            // It may have been taken although its sender was not reported so.
            if !again.status.success() {
                println!("{limit:?}: answered again: {}", again.stderr.trim_end());
            }
        }
        let run = project.wait(waiting);
        let done = done.ok_or_else(|| format!("it never asked: {}", run.stderr))?;
        // A disk is full for both of them.
        let full = || limit.kind == Kind::Disk && untyped(limit.kind, &run).is_none();
        if run.status.code() != Some(0) && !full() {
            return Err(format!(
                "the run that waited left with {}: {}",
                run.status, run.stderr
            ));
        }
        Ok(done)
    }
}

/// The calls that a limit is tried on, with its values.
fn cases(all: bool) -> (Vec<(Call, Limit)>, Vec<Kind>) {
    let (mut cases, mut missing) = (Vec::new(), Vec::new());
    for kind in KINDS {
        if let Some(why) = kind.missing() {
            println!("{}: {MISSING}: {why}", kind.name());
            missing.push(kind);
            continue;
        }
        for call in CALLS {
            for value in kind.values(call, all) {
                cases.push((call, Limit { kind, value }));
            }
        }
    }
    (cases, missing)
}

#[test]
fn each_limit_at_each_moment_is_a_typed_failure_of_a_run_that_goes_on() {
    let all = std::env::var("ORCHESTRA_EXHAUSTION").is_ok_and(|wanted| wanted == "all");
    let update = std::env::var_os("UPDATE").is_some();
    assert!(
        all || !update,
        "`UPDATE=1` needs `ORCHESTRA_EXHAUSTION=all`, which tries every value"
    );
    let only = std::env::var("ORCHESTRA_EXHAUSTION_ONLY").ok();
    let scratch = Scratch::new();
    let (mut cases, missing) = cases(all);
    cases.retain(|(call, limit)| {
        let name = format!("{:?}-{call:?}-{}", limit.kind, limit.value);
        only.as_ref().is_none_or(|only| name.starts_with(only.as_str()))
    });
    let (next, cells, failures) = (
        AtomicUsize::new(0),
        Mutex::new(Cells::new()),
        Mutex::new(Vec::new()),
    );
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((call, limit)) = cases.get(next.fetch_add(1, Ordering::SeqCst)) {
                    match scratch.try_out(*call, *limit) {
                        Ok(Some((moment, code))) => {
                            let mut cells = cells.lock().unwrap();
                            cells.entry((limit.kind.name(), moment)).or_default().insert(code);
                        }
                        Ok(None) => {}
                        Err(what) => failures
                            .lock()
                            .unwrap()
                            .push(format!("{call:?} under {limit:?}: {what}")),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let text = table::markdown(&cells.lock().unwrap(), &missing);
    println!("{} calls\n{text}", cases.len());
    assert!(
        failures.is_empty(),
        "{} of {} calls:\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n\n")
    );
    let mut cells = cells.into_inner().unwrap();
    if update {
        // Which moment a value meets first differs from run to run, so what earlier runs met stays in the table.
        table::add(&mut cells, &std::fs::read_to_string(MATRIX).unwrap_or_default());
        std::fs::write(MATRIX, table::markdown(&cells, &missing)).unwrap();
    } else {
        holds(Path::new(MATRIX), &cells);
    }
}

/// What was seen stands in the table.
fn holds(matrix: &Path, cells: &Cells) {
    let known = table::parse(&std::fs::read_to_string(matrix).unwrap());
    for ((limit, moment), codes) in cells {
        let cell = known.get(&((*limit).to_owned(), (*moment).to_owned()));
        let cell = cell.map_or(NEVER, String::as_str);
        for code in codes {
            assert!(
                cell.contains(&format!("`{code}`")) || cell == MISSING,
                "{limit}, {moment}: `{code}` is not in the table ({cell}); `UPDATE=1 ORCHESTRA_EXHAUSTION=all` makes it anew"
            );
        }
    }
}
