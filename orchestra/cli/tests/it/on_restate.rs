//! `serve-restate` and `--on`: runs on a Restate server, through the program.

#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use orchestra_model_server_tests::{ModelServer, Wire};
use orchestra_restate_server_tests::server_or_skip;
use serde_json::Value;

use crate::agents_support::{KEY, reports};
use crate::support::{Done, Scratch, Started, done, gate};

/// A stage that waits for the file `go` of its run.
pub(crate) const HOLD: &str = r#"digraph hold {
    start -> once -> hold -> exit
    once [shape=parallelogram, tool_command="echo once >> $ORCHESTRA_RUN_ID.once"]
    hold [shape=parallelogram, tool_command="while ! test -f $ORCHESTRA_RUN_ID.go; do sleep 0.02; done; echo went"]
}
"#;

/// A model stage with a parameter.
const WRITE: &str = r#"digraph write {
    inputs="topic: text"
    start -> draft -> exit
    draft [prompt="Write about {{ topic }}"]
}
"#;

/// Kills the worker when this process ends, however it does: its input is closed then.
const GUARD: &str = r#""$@" & worker=$!; cat >/dev/null; kill -9 $worker"#;

/// A server and its worker, for all tests of this file.
pub(crate) struct Server {
    pub(crate) scratch: Scratch,
    pub(crate) on: String,
    pub(crate) admin: String,
    model: ModelServer,
    announced: Value,
    _worker: Child,
}

/// Returns the server; `None` if none is installed.
fn server(test: &str) -> Option<&'static Server> {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let program = server_or_skip(test)?;
    Some(SERVER.get_or_init(|| Server::start(&program)))
}

/// Returns ports that nobody uses.
pub(crate) fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// Starts a worker. Returns it with the line with which it announces itself.
pub(crate) fn start_worker(scratch: &Scratch, program: &std::path::Path, args: &[&str]) -> (Child, String) {
    let mut command = Command::new("sh");
    command
        .args(["-c", GUARD, "sh", env!("CARGO_BIN_EXE_orchestra")])
        .args(["serve-restate", "--json", "--listen", "127.0.0.1:0"])
        .args(args)
        .current_dir(scratch.path(""))
        .env("ORCHESTRA_RESTATE_SERVER", program)
        .env("ANTHROPIC_API_KEY", KEY)
        .env("HOME", scratch.path("home"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(scratch.path("worker.log")).unwrap());
    let mut worker = command.spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(worker.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    (worker, line)
}

impl Server {
    pub(crate) fn start(program: &std::path::Path) -> Server {
        let scratch = Scratch::new();
        let model = ModelServer::start();
        let base = model.base(Wire::Anthropic);
        scratch.write(
            "orchestra.yaml",
            format!(
                "providers:\n  anthropic:\n    api_base: {base:?}\n    models: {{smart: claude-sonnet-4-5}}\n"
            ),
        );
        scratch.write("flows/gate.dot", gate(""));
        scratch.write("hold.dot", HOLD);
        scratch.write("write.dot", WRITE);
        scratch.write("draft.dot", "digraph draft { start -> ");
        let [ingress, admin] = free_ports().map(|port| format!("http://127.0.0.1:{port}"));
        let address = ["--with-server", "--on", &ingress, "--admin", &admin];
        let (worker, line) = start_worker(&scratch, program, &address);
        assert!(!line.is_empty(), "{}", scratch.read("worker.log"));
        Server {
            scratch,
            on: ingress,
            admin,
            model,
            announced: serde_json::from_str(&line).unwrap(),
            _worker: worker,
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.scratch.command(args);
        command
            .args(["--on", &self.on])
            .env("HOME", self.scratch.path("home"));
        command
    }

    pub(crate) fn call(&self, args: &[&str]) -> Done {
        done(self.command(args).output().unwrap())
    }

    /// Starts a run that waits, and is followed.
    pub(crate) fn start_run(&self, file: &str, run: &str) -> Started {
        let mut command = self.command(&["run", file, "--run-id", run, "--wait"]);
        // Nothing is said on standard input.
        command.stdin(Stdio::null());
        Started::from_command(command).0
    }

    /// Returns an output with the address of this server replaced.
    fn plain(&self, text: &str) -> String {
        text.replace(&self.on, "SERVER")
    }

    /// Waits until the status of a run has a value.
    fn until_status(&self, run: &str, status: &str) -> Value {
        let begun = Instant::now();
        loop {
            let found = self.call(&["status", run, "--json"]).exits(0).objects().remove(0);
            if found["status"] == status {
                return found;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{found}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_worker_says_what_it_serves() {
    let Some(server) = server("a_worker_says_what_it_serves") else {
        return;
    };
    let announced = &server.announced;
    assert_eq!(announced["schema"], "orchestra.serve_restate/1");
    assert_eq!(announced["server"], *server.on);
    let pipelines = serde_json::json!(["flows/gate.dot", "hold.dot", "write.dot"]);
    assert_eq!(announced["pipelines"], pipelines);
    let log = server.scratch.read("worker.log");
    assert!(
        log.contains("`draft.dot` is left out: draft.dot has 2 errors"),
        "{log}"
    );
}

#[test]
fn a_run_is_started_answered_and_shown() {
    let Some(server) = server("a_run_is_started_answered_and_shown") else {
        return;
    };
    let mut run = server.start_run("./flows/gate.dot", "answered");
    run.until(|object| object["event"] == "InterviewStarted");
    let wrong = server
        .call(&["answer", "answered", "approve", "Perhaps"])
        .exits(2);
    assert_eq!(
        wrong.stderr,
        "error[answer_refused]: `Perhaps` is not one of the answers: [Y] Yes, ship, [N] No\n"
    );
    let nowhere = server.call(&["answer", "answered", "build", "Y"]).exits(2);
    assert_eq!(
        nowhere.stderr,
        "error[no_question]: no question of `build` is open; open are those of approve\n"
    );
    let status = server.call(&["status", "answered"]).exits(0).stdout;
    assert!(status.contains("server      http://127.0.0.1:"), "{status}");
    assert!(
        status.contains("approve waits for an answer: Ship it?"),
        "{status}"
    );
    let answered = server.call(&["answer", "answered", "approve", "No"]).exits(0);
    assert_eq!(
        answered.stdout,
        "answered: the question of `approve` is answered\n"
    );
    run.until(|object| object["event"] == "InterviewStarted");
    let answered = server
        .call(&["answer", "answered", "approve", "Y", "--json"])
        .exits(0);
    let answered = &answered.objects()[0];
    assert_eq!(answered["schema"], "orchestra.control_result/1");
    assert_eq!(
        (&answered["action"], &answered["run"]),
        (&"answer".into(), &"answered".into())
    );
    let run = run.end().exits(0);
    let path = ["start", "build", "approve", "mend", "approve", "ship", "exit"];
    assert_eq!(run.result()["path"], serde_json::json!(path));
    assert_eq!(run.result()["server"], *server.on);
    assert_eq!(
        run.reported("InterviewCompleted", "answered_by"),
        ["person", "person"]
    );
    let late = server.call(&["answer", "answered", "approve", "Y"]).exits(2);
    assert_eq!(
        late.stderr,
        "error[no_question]: run `answered` has ended: success\n"
    );
    let again = server.call(&["attach", "answered"]).exits(0);
    assert_eq!(
        again.stdout,
        "success: start -> build -> approve -> mend -> approve -> ship -> exit\n"
    );
    let status = server.until_status("answered", "success");
    assert_eq!(
        (&status["schema"], &status["folder"]),
        (&"orchestra.session/1".into(), &"".into())
    );
    assert_eq!(status["file"], "flows/gate.dot");
}

#[test]
fn prepared_and_piped_answers_are_given() {
    let Some(server) = server("prepared_and_piped_answers_are_given") else {
        return;
    };
    let gate = "flows/gate.dot";
    let prepared = server.call(&["run", gate, "--answer", "approve=Y"]).exits(0);
    assert_eq!(
        prepared.stdout,
        "success: start -> build -> approve -> ship -> exit\n"
    );
    server.call(&["run", gate, "--auto-approve"]).exits(0);
    let wrong = server
        .call(&["run", gate, "--answer", "approve=Perhaps"])
        .exits(2);
    assert!(
        wrong.stderr.contains("has no choice `Perhaps`"),
        "{}",
        wrong.stderr
    );
    let nobody = server.call(&["run", gate, "--run-id", "nobody"]).exits(5);
    let said = server.plain(&nobody.stderr);
    let said = said.split_once("error").unwrap().1;
    assert_eq!(
        said,
        "[waits_for_human]: `approve` waits for an answer, which nobody gives here: nobody can be asked: standard input is \
         closed; the run goes on elsewhere\n  help: answer it with `orchestra answer nobody approve Y --on SERVER`, or follow \
         the run and answer at a terminal with `orchestra attach nobody --on SERVER`\n"
    );
    server.call(&["answer", "nobody", "approve", "Y"]).exits(0);
    server.until_status("nobody", "success");
}

#[test]
fn a_run_is_paused_and_resumed() {
    let Some(server) = server("a_run_is_paused_and_resumed") else {
        return;
    };
    let mut run = server.start_run("hold.dot", "lunch");
    run.until_stage("hold");
    let paused = server.call(&["pause", "lunch", "--reason", "lunch"]).exits(0);
    assert_eq!(paused.stdout, "lunch: the run is paused\n");
    assert_eq!(
        server.plain(paused.last_line()),
        "resume with: orchestra resume lunch --on SERVER"
    );
    let run = run.end().exits(130);
    assert_eq!(run.result()["status"], "paused");
    assert_eq!(run.result()["failure_reason"], "the run was paused: lunch");
    let still = server.call(&["pause", "lunch"]).exits(2);
    assert!(
        still.stderr.contains("run `lunch` is paused already"),
        "{}",
        still.stderr
    );
    let status = server.until_status("lunch", "paused");
    assert_eq!(
        server.plain(status["resume"].as_str().unwrap()),
        "orchestra resume lunch --on SERVER"
    );
    server.scratch.write("lunch.go", "");
    let resumed = server.call(&["resume", "lunch"]).exits(0);
    assert_eq!(resumed.stdout, "success: start -> once -> hold -> exit\n");
    assert_eq!(server.scratch.lines("lunch.once"), 1);
    let over = server.call(&["pause", "lunch"]).exits(2);
    assert_eq!(over.stderr, "error[wrong_phase]: the run has ended\n");
}

#[test]
fn a_run_is_cancelled() {
    let Some(server) = server("a_run_is_cancelled") else {
        return;
    };
    let mut run = server.start_run("hold.dot", "enough");
    run.until_stage("hold");
    let cancelled = server.call(&["cancel", "enough", "--reason", "enough"]).exits(0);
    assert_eq!(cancelled.stdout, "enough: the run is cancelled\n");
    let run = run.end().exits(130);
    assert_eq!(
        (&run.result()["status"], &run.result()["failure_reason"]),
        (&"cancelled".into(), &"enough".into())
    );
    server.until_status("enough", "cancelled");
    server.call(&["cancel", "enough"]).exits(2);
}

#[test]
fn a_follower_that_is_interrupted_leaves_the_run_alone() {
    let Some(server) = server("a_follower_that_is_interrupted_leaves_the_run_alone") else {
        return;
    };
    let mut run = server.start_run("hold.dot", "left");
    run.until_stage("hold");
    run.signal("INT");
    run.end().exits(130);
    server.until_status("left", "running");
    server.scratch.write("left.go", "");
    server.call(&["attach", "left"]).exits(0);
}

#[test]
fn parameters_are_checked_and_redacted() {
    let Some(server) = server("parameters_are_checked_and_redacted") else {
        return;
    };
    let missing = server.call(&["run", "write.dot"]).exits(2);
    assert!(
        missing.stderr.contains("error[cannot_start]"),
        "{}",
        missing.stderr
    );
    assert!(missing.stderr.contains("topic"), "{}", missing.stderr);
    server.model.push(reports("written"));
    let topic = format!("topic=rivers of {KEY}");
    let mut command = server.command(&["run", "write.dot", "--set", &topic]);
    command.env("ANTHROPIC_API_KEY", KEY);
    done(command.output().unwrap()).exits(0);
    let asked = server.model.requests();
    let asked = asked.last().unwrap().body.to_string();
    assert!(asked.contains("rivers of") && !asked.contains(KEY), "{asked}");
}

#[test]
fn a_run_id_names_one_run() {
    let Some(server) = server("a_run_id_names_one_run") else {
        return;
    };
    let start = [
        "run",
        "flows/gate.dot",
        "--run-id",
        "once-only",
        "--answer",
        "approve=Y",
    ];
    server.call(&start).exits(0);
    // The same start is accepted again, and shows the same run.
    let again = server.call(&start).exits(0);
    assert_eq!(
        again.stdout,
        "success: start -> build -> approve -> ship -> exit\n"
    );
    let other = server.call(&[&start[..], &["--set", "a=1"]].concat()).exits(2);
    assert_eq!(
        other.stderr,
        "error[run_exists]: run `once-only` was started with another pipeline or other parameters; choose another id\n"
    );
    let invalid = server
        .call(&["run", "flows/gate.dot", "--run-id", "../x"])
        .exits(2);
    assert!(invalid.stderr.contains("error[run_id]"), "{}", invalid.stderr);
}

#[test]
fn what_is_not_there_is_named() {
    let Some(server) = server("what_is_not_there_is_named") else {
        return;
    };
    let pipeline = server.call(&["run", "flows/gat.dot"]).exits(2);
    assert_eq!(
        pipeline.stderr,
        "error[unknown_pipeline]: no pipeline `flows/gat.dot` is known; did you mean `flows/gate.dot`?\n  help: start a \
         worker that has it with `orchestra serve-restate`\n"
    );
    for command in ["status", "attach", "pause", "cancel", "resume"] {
        let run = server.call(&[command, "nowhere"]).exits(2);
        assert!(
            run.stderr
                .starts_with("error[unknown_run]: no run `nowhere` is known\n"),
            "{command}: {}",
            run.stderr
        );
    }
    let invalid = server.call(&["run", "draft.dot"]).exits(3);
    assert!(
        invalid.stderr.contains("error[syntax_error]"),
        "{}",
        invalid.stderr
    );
}

#[test]
fn options_without_a_meaning_are_refused() {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    let on = ["--on", "http://127.0.0.1:1"];
    for (command, option) in [
        (&["run", "g.dot"][..], &["--simulate"][..]),
        (&["run", "g.dot"], &["--outcome", "a=fail"]),
        (&["run", "g.dot"], &["--run-dir", "x"]),
        (&["run", "g.dot"], &["--durability", "none"]),
        (&["run", "g.dot"], &["--max-time", "1m"]),
        (&["resume", "r"], &["--retry"]),
        (&["resume", "r"], &["--take-over"]),
        (&["resume", "r"], &["--accept-loss"]),
    ] {
        let refused = scratch.call(&[command, option, &on[..]].concat()).exits(2);
        let expected = format!(
            "error[argument_conflict]: `{}` cannot be used with `--on`\n",
            option[0]
        );
        assert!(refused.stderr.starts_with(&expected), "{}", refused.stderr);
    }
    let blobs = scratch.call(&["status", "r", "--blobs", "x"]).exits(2);
    assert!(blobs.stderr.contains("--on <URL>"), "{}", blobs.stderr);
    let list = scratch.call(&[&["status"][..], &on[..]].concat()).exits(2);
    assert!(
        list.stderr.contains("`status --on` needs the id of a run"),
        "{}",
        list.stderr
    );
    let address = scratch.call(&["status", "r", "--on", "127.0.0.1:8080"]).exits(2);
    assert_eq!(
        address.stderr,
        "error[server_url]: `--on 127.0.0.1:8080` is not the address of a server\n  help: write a complete URL: `--on \
         http://127.0.0.1:8080`\n"
    );
}

#[test]
fn a_worker_announces_itself_once_the_server_reaches_it() {
    let Some(server) = server("a_worker_announces_itself_once_the_server_reaches_it") else {
        return;
    };
    // With every pipeline, because the runs of other tests must be able to go on at this worker.
    let mut command = server.command(&["serve-restate", "--listen", "127.0.0.1:0"]);
    command
        .args(["--admin", &server.admin, "--url", "http://127.0.0.1:1"])
        .args(["flows/gate.dot", "hold.dot", "write.dot"])
        .env("ANTHROPIC_API_KEY", KEY);
    let unreached = done(command.output().unwrap()).exits(1);
    assert_eq!(unreached.stdout, "");
    let expected = "error[worker_unreachable]: the server cannot reach a worker at `http://127.0.0.1:1`: error when calling";
    assert!(unreached.stderr.contains(expected), "{}", unreached.stderr);
    assert!(
        unreached
            .stderr
            .contains("help: `--url http://HOST:PORT` names the address"),
        "{}",
        unreached.stderr
    );
}

#[test]
fn runs_are_exported_and_shown_like_those_of_this_machine() {
    let Some(server) = server("runs_are_exported_and_shown_like_those_of_this_machine") else {
        return;
    };
    let mut run = server.start_run("./flows/gate.dot", "exported");
    run.until(|object| object["event"] == "InterviewStarted");
    let here = |args: &[&str]| done(server.scratch.command(args).output().unwrap());
    let first = server.call(&["export", "exported"]).exits(0).stdout;
    let folder = ".orchestra/runs/exported";
    assert!(
        first.starts_with(&format!("exported: exported to {folder} (")),
        "{first}"
    );
    let again = server.call(&["export", "exported"]).exits(0).stdout;
    assert!(
        again.contains(&format!(
            "nothing has changed since it was exported to {folder} ("
        )),
        "{again}"
    );
    let status = here(&["status", "exported"]).exits(0).stdout;
    assert!(
        status.contains("approve waits for an answer: Ship it?"),
        "{status}"
    );
    for refused in [
        vec!["resume", "exported"],
        vec!["answer", "exported", "approve", "Y"],
    ] {
        let refused = here(&refused).stderr;
        let reason = format!("is a copy: {} executes it", server.on);
        assert!(
            refused.starts_with("error[run_exported]") && refused.contains(&reason),
            "{refused}"
        );
    }
    server.call(&["answer", "exported", "approve", "Y"]).exits(0);
    run.end().exits(0);
    let synced = server
        .call(&["sync", "--admin", &server.admin, "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(synced["schema"], "orchestra.sync_result/1");
    let exported = synced["exported"].as_array().unwrap();
    assert!(exported.contains(&"exported".into()), "{synced}");
    let status = here(&["status", "exported", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(status["status"], "success");
    let last = server
        .call(&["export", "exported", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(last["schema"], "orchestra.export_result/1");
    assert_eq!((&last["changed"], &last["ended"]), (&false.into(), &true.into()));
    let compared = here(&["compare", "exported", "exported"]);
    assert!(compared.stderr.is_empty(), "{}", compared.stderr);
    let replayed = here(&[
        "replay",
        "exported",
        "--checkpoint",
        "cp_000000",
        "--auto-approve",
    ])
    .exits(0);
    assert!(
        replayed.stderr.contains("replay") || replayed.stdout.contains("success"),
        "{}",
        replayed.stderr
    );
    let unknown = server.call(&["export", "nowhere"]).exits(2).stderr;
    assert!(unknown.starts_with("error[unknown_run]"), "{unknown}");
}
