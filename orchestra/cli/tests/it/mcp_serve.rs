//! `mcp serve`: pipelines as tools of a client, whose person answers gates.

#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use orchestra_collector_tests::Collector;
use serde_json::{Value, json};

use crate::support::{SLOW, Scratch, Started};
use crate::telemetry::traced;

const RELEASE: &str = r#"digraph release {
    goal="Release a version"
    inputs="version: text, dry_run: bool?"
    start -> build -> ask
    build [shape=parallelogram, tool_command="echo building"]
    ask [shape=hexagon, label="Ship it?"]
    ask -> ship [label="[Y] Yes"]
    ask -> drop [label="[N] No"]
    ship [shape=parallelogram, tool_command="echo shipped > shipped.txt"]
    drop [shape=parallelogram, tool_command="echo dropped"]
    ship -> exit
    drop -> exit
}
"#;

/// A client of the protocol.
struct Client {
    server: Child,
    input: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
    next: u64,
    /// The results of questions, in order; `None` leaves a question open.
    answers: Vec<Option<Value>>,
    asked: Vec<Value>,
    progress: Vec<Value>,
}

impl Client {
    fn new(scratch: &Scratch, file: &str, answers: Vec<Option<Value>>) -> Client {
        Client::start(scratch.command(&["mcp", "serve", file]), answers)
    }

    fn start(mut command: Command, answers: Vec<Option<Value>>) -> Client {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = piped.stderr(Stdio::null()).spawn().unwrap();
        let mut client = Client {
            input: server.stdin.take(),
            lines: BufReader::new(server.stdout.take().unwrap()),
            server,
            next: 0,
            asked: Vec::new(),
            progress: Vec::new(),
            answers,
        };
        let capabilities = if client.answers.is_empty() {
            json!({})
        } else {
            json!({"elicitation": {}})
        };
        let info = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let begun = client.request("initialize", params);
        assert_eq!(begun["result"]["serverInfo"]["name"], "orchestra");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(
            self.lines.read_line(&mut line).unwrap(),
            0,
            "the server has ended"
        );
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    /// Handles messages until the response to a request, or an open question.
    fn wait(&mut self, id: u64) -> Option<Value> {
        loop {
            let message = self.receive();
            match message["method"].as_str() {
                None if message["id"] == id => return Some(message),
                Some("elicitation/create") => {
                    self.asked.push(message["params"].clone());
                    let result = self.answers.remove(0)?;
                    self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
                }
                Some("notifications/progress") => self.progress.push(message["params"].clone()),
                _ => panic!("{message}"),
            }
        }
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.wait(id).unwrap()
    }

    /// Calls a tool. Returns whether it failed, and its text.
    fn call(&mut self, tool: &str, arguments: Value) -> (bool, String) {
        let response = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &response["result"];
        let text = result["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{response}"));
        (result["isError"] == true, text.to_owned())
    }

    /// Calls a tool that succeeds with a JSON object.
    fn report(&mut self, tool: &str, arguments: Value) -> Value {
        let (failed, text) = self.call(tool, arguments);
        assert!(!failed, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn end(mut self) {
        self.input = None;
        let status = self.server.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

fn release() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("release.dot", RELEASE);
    scratch
}

fn accept(choice: &str) -> Option<Value> {
    Some(json!({"action": "accept", "content": {"choice": choice}}))
}

#[test]
fn a_pipeline_is_a_tool_with_its_inputs() {
    let scratch = release();
    let mut client = Client::new(&scratch, "release.dot", Vec::new());
    let listed = client.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["pipeline_release", "run_status", "answer"]);
    assert!(
        tools[0]["description"]
            .as_str()
            .unwrap()
            .contains("Release a version")
    );
    let schema = &tools[0]["inputSchema"];
    assert_eq!(schema["properties"]["version"]["type"], "string");
    assert_eq!(schema["properties"]["dry_run"]["type"], "boolean");
    assert_eq!(schema["required"], json!(["version"]));
    for (arguments, message) in [
        (json!({}), "the input `version` is missing"),
        (json!({"version": 3}), "version"),
        (json!({"version": "1", "verson": "2"}), "unknown input `verson`"),
    ] {
        let (failed, text) = client.call("pipeline_release", arguments);
        assert!(failed && text.contains(message), "{text}");
    }
    let unknown = client.request("tools/call", json!({"name": "pipeline_other", "arguments": {}}));
    assert!(
        unknown["error"]["message"]
            .as_str()
            .unwrap()
            .contains("pipeline_other")
    );
    client.end();
}

#[test]
fn a_listed_choice_that_is_accepted_answers_a_gate() {
    let scratch = release();
    let mut client = Client::new(&scratch, "release.dot", vec![accept("Y")]);
    let params =
        json!({"name": "pipeline_release", "arguments": {"version": "1"}, "_meta": {"progressToken": "p"}});
    let response = client.request("tools/call", params);
    let report: Value =
        serde_json::from_str(response["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(report["status"], "success");
    assert_eq!(report["path"], json!(["start", "build", "ask", "ship", "exit"]));
    assert_eq!(scratch.read("shipped.txt"), "shipped\n");
    let choices = &client.asked[0]["requestedSchema"]["properties"]["choice"]["oneOf"];
    assert_eq!(choices[1]["const"], "N");
    assert!(client.asked[0]["message"].as_str().unwrap().contains("Ship it?"));
    assert!(
        client
            .progress
            .iter()
            .any(|progress| progress["message"] == "stage build")
    );
    client.end();
    // It is a run like any other.
    let status = scratch.status();
    assert_eq!(status["status"], "success");
    let events = scratch.read(&format!(
        ".orchestra/runs/{}/events.jsonl",
        report["run"].as_str().unwrap()
    ));
    let answered = events
        .lines()
        .find(|line| line.contains("InterviewCompleted"))
        .unwrap();
    assert!(answered.contains(r#""answered_by":"person""#), "{answered}");
}

#[test]
fn nothing_but_a_listed_choice_that_is_accepted_is_an_answer() {
    let results = [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {}}),
        json!({"action": "accept", "content": {"choice": "ship"}}),
        json!({"action": "accept", "content": {"choice": ""}}),
        json!({"action": "decline", "content": {"choice": "Y"}}),
    ];
    let scratch = release();
    let answers = results.iter().cloned().map(Some).collect();
    let mut client = Client::new(&scratch, "release.dot", answers);
    for result in results {
        let report = client.report("pipeline_release", json!({"version": "1"}));
        assert_eq!(report["status"], "paused", "{result}");
        assert_eq!(report["question"]["gate"], "ask");
        assert!(!scratch.path("shipped.txt").exists(), "{result}");
    }
    client.end();
}

#[test]
fn a_paused_run_is_answered_by_the_tool_and_goes_on() {
    let scratch = release();
    let mut client = Client::new(&scratch, "release.dot", Vec::new());
    let report = client.report("pipeline_release", json!({"version": "1"}));
    assert_eq!(
        (&report["status"], &report["question"]["text"]),
        (&"paused".into(), &"Ship it?".into())
    );
    assert_eq!(
        report["question"]["choices"][0],
        json!({"key": "Y", "label": "[Y] Yes"})
    );
    let run = report["run"].as_str().unwrap().to_owned();
    let how = report["question"]["how_to_answer"].as_str().unwrap();
    assert!(
        how.contains("`answer`") && how.contains(&format!("orchestra answer {run} ask Y")),
        "{how}"
    );
    let state = client.report("run_status", json!({"run": run}));
    assert_eq!(
        (&state["status"], &state["questions"][0]["gate"]),
        (&"paused".into(), &"ask".into())
    );
    let listed = client.report("run_status", json!({}));
    assert_eq!(listed["runs"][0]["run"], run.as_str());
    for (arguments, message) in [
        (
            json!({"run": run, "gate": "ask", "choice": "maybe"}),
            "`maybe` is not one of the answers",
        ),
        (json!({"run": run, "gate": "build", "choice": "Y"}), "build"),
        (
            json!({"run": "../x", "gate": "ask", "choice": "Y"}),
            "not the id of a run",
        ),
        (json!({"run": "nobody", "gate": "ask", "choice": "Y"}), "nobody"),
        (json!({"run": run, "gate": "ask"}), "`choice` is missing"),
        (
            json!({"run": run, "gate": "ask", "choice": "Y", "by": "me"}),
            "unknown argument `by`",
        ),
    ] {
        let (failed, text) = client.call("answer", arguments);
        assert!(failed && text.contains(message), "{text}");
    }
    let report = client.report("answer", json!({"run": run, "gate": "ask", "choice": "N"}));
    assert_eq!(report["status"], "success");
    assert_eq!(report["path"], json!(["start", "build", "ask", "drop", "exit"]));
    client.end();
    let events = scratch.read(&format!(".orchestra/runs/{run}/events.jsonl"));
    let answered = events.lines().filter(|line| line.contains("answered_by"));
    assert!(
        !answered.collect::<String>().contains(r#""answered_by":"person""#),
        "no person was seen"
    );
}

#[test]
fn a_paused_run_is_answered_by_the_commands_that_its_report_names() {
    let scratch = release();
    let mut client = Client::new(&scratch, "release.dot", Vec::new());
    let report = client.report("pipeline_release", json!({"version": "1"}));
    client.end();
    let run = report["run"].as_str().unwrap();
    scratch.call(&["answer", run, "ask", "Y"]).exits(0);
    scratch.call(&["resume", run]).exits(0);
    assert_eq!(scratch.read("shipped.txt"), "shipped\n");
}

#[test]
fn runs_of_other_pipelines_cannot_be_answered() {
    let scratch = release();
    scratch.write("other.dot", RELEASE.replace("digraph release", "digraph other"));
    scratch
        .call(&["run", "other.dot", "--set", "version=1", "--run-id", "mine"])
        .exits(5);
    let mut client = Client::new(&scratch, "release.dot", Vec::new());
    let (failed, text) = client.call("answer", json!({"run": "mine", "gate": "ask", "choice": "Y"}));
    assert!(
        failed && text.contains("`other.dot`, which is not served here"),
        "{text}"
    );
    client.end();
}

#[test]
fn a_run_is_paused_when_its_client_goes_or_cancels_the_call() {
    let scratch = release();
    let mut client = Client::new(&scratch, "release.dot", vec![None, None]);
    let call = json!({"name": "pipeline_release", "arguments": {"version": "1"}});
    let id = client.begin("tools/call", call.clone());
    assert!(client.wait(id).is_none(), "it asks");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.send(&cancelled);
    scratch.until("the cancelled run is paused", |scratch| {
        scratch.status()["status"] == "paused"
    });
    client.next += 1;
    let id = client.begin("tools/call", call);
    assert!(client.wait(id).is_none(), "it asks");
    client.end();
    let listed = scratch.call(&["status", "--json"]).exits(0).objects();
    let statuses: Vec<&Value> = listed.iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["paused", "paused"]);
}

#[test]
fn a_signal_pauses_the_runs() {
    let scratch = release();
    scratch.write("slow.dot", SLOW);
    let mut client = Client::new(&scratch, "slow.dot", Vec::new());
    client.begin("tools/call", json!({"name": "pipeline_slow", "arguments": {}}));
    scratch.until("the stage waits", |scratch| scratch.lines("wait") == 1);
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&client.server),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(client.server.wait().unwrap().success());
    let status = scratch.status();
    assert_eq!(status["status"], "paused");
    let reason = "the run was paused: the server of the protocol was stopped";
    assert_eq!(status["reason"], reason);
}

#[test]
fn a_run_whose_process_was_killed_is_interrupted() {
    let scratch = release();
    // The journal becomes so large that checkpoints are written during the run.
    let stages: String = (0..3)
        .map(|at| format!("large{at} [shape=parallelogram, tool_command=\"yes | head -c 60000\"]\n"))
        .collect();
    let path: String = (0..3).map(|at| format!("large{at} -> ")).collect();
    let flow = SLOW.replace("start -> ", &format!("{stages} start -> {path}"));
    scratch.write("s.dot", flow);
    let mut run = scratch.start(&["run", "s.dot", "--run-id", "killed"]);
    run.until_stage("wait");
    run.signal("KILL");
    run.end();
    scratch.write("go", "");
    let checkpoint = scratch.read(".orchestra/runs/killed/checkpoint.json");
    let checkpoint: Value = serde_json::from_str(&checkpoint).unwrap();
    assert_eq!(checkpoint["status"], "running");
    let mut client = Client::new(&scratch, "release.dot", Vec::new());
    let state = client.report("run_status", json!({"run": "killed"}));
    assert_eq!(state["status"], "interrupted");
    assert_eq!(
        client.report("run_status", json!({}))["runs"][0]["status"],
        "interrupted"
    );
    client.end();
}

#[test]
fn a_client_names_runs_of_the_folder_by_their_whole_ids() {
    let scratch = release();
    for (id, more) in [
        ("inside", ["--runs", ".orchestra/runs"]),
        ("outside", ["--runs", "."]),
    ] {
        let args = ["run", "release.dot", "--set", "version=1", "--run-id", id];
        scratch.call(&[&args[..], &more].concat()).exits(5);
    }
    let mut client = Client::new(&scratch, "release.dot", Vec::new());
    for name in ["outside", "last", "insid", "../outside", ".", "inside/.", ""] {
        for (tool, arguments) in [
            ("run_status", json!({"run": name})),
            ("answer", json!({"run": name, "gate": "ask", "choice": "N"})),
        ] {
            let (failed, text) = client.call(tool, arguments);
            assert!(failed, "{name}: {text}");
        }
    }
    let (_, text) = client.call("run_status", json!({"run": "outside"}));
    assert_eq!(
        text,
        "there is no run `outside`; `run_status` lists the latest runs"
    );
    assert_eq!(
        client.report("run_status", json!({"run": "inside"}))["status"],
        "paused"
    );
    client.end();
}

#[test]
fn a_process_that_hangs_does_not_delay_other_runs() {
    let scratch = Scratch::new();
    scratch.write(
        "release.dot",
        RELEASE.replace("label=\"Ship it?\"", "label=\"Ship it?\", timeout=1h"),
    );
    let args = ["run", "release.dot", "--set", "version=1", "--run-id", "hangs"];
    let mut command = scratch.command(&args);
    command.stdin(Stdio::piped());
    let (mut run, _input) = Started::from_command(command);
    run.until(|object| object["event"] == "InterviewStarted");
    run.signal("STOP");
    let mut client = Client::new(&scratch, "release.dot", vec![accept("Y")]);
    let answer = json!({"name": "answer", "arguments": {"run": "hangs", "gate": "ask", "choice": "N"}});
    let answer = client.begin("tools/call", answer);
    // The answer is not acknowledged yet: `wait` would not accept its response here.
    let report = client.report("pipeline_release", json!({"version": "2"}));
    assert_eq!(report["status"], "success");
    run.signal("CONT");
    let answered = client.wait(answer).unwrap();
    let text = answered["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("\"answered\": true"), "{text}");
    client.end();
    run.end().exits(0);
}

#[test]
fn runs_are_traced() {
    let (scratch, collector) = (release(), Collector::start().unwrap());
    let command = traced(
        scratch.command(&["mcp", "serve", "release.dot"]),
        &collector.endpoint(),
    );
    let mut client = Client::start(command, vec![accept("Y")]);
    client.report("pipeline_release", json!({"version": "1"}));
    client.end();
    let spans = collector.spans();
    for name in ["invoke_workflow release", "stage build"] {
        assert!(spans.iter().any(|span| span.name == name), "{name}: {spans:#?}");
    }
}

#[test]
fn what_cannot_be_served_is_refused_before_the_protocol_begins() {
    let scratch = release();
    scratch.write("again.dot", RELEASE);
    let same = scratch
        .call(&["mcp", "serve", "release.dot", "again.dot"])
        .exits(2);
    assert!(
        same.stderr.contains("would both be the tool `pipeline_release`"),
        "{}",
        same.stderr
    );
    scratch.write("broken.dot", "digraph { start -> }");
    scratch.call(&["mcp", "serve", "broken.dot"]).exits(3);
    scratch.call(&["mcp", "serve", "missing.dot"]).exits(2);
    let empty = scratch.call_with(&["mcp", "serve", "release.dot"], "").exits(0);
    assert_eq!(empty.stdout, "");
}
