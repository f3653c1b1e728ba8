//! Traces and metrics, through the program and over the network.

#![cfg(unix)]

use crate::agents_support::{Project, reports};
use crate::support::{Done, SLOW, Scratch, Started, done, gate};

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orchestra_collector_tests::{Collector, Span};
use orchestra_installed_tests::{find, skip};
use orchestra_model_server_tests::Answer;
use serde_json::json;

/// Returns a command that exports to a collector.
pub(crate) fn traced(mut command: Command, endpoint: &str) -> Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
        command.env_remove(name);
    }
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    command
}

pub(crate) fn call(scratch: &Scratch, endpoint: &str, args: &[&str]) -> Done {
    done(traced(scratch.command(args), endpoint).output().unwrap())
}

/// Waits until the collector has a span.
fn until(collector: &Collector, name: &str) {
    let begun = Instant::now();
    while !collector.spans().iter().any(|span| span.name == name) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no span `{name}`: {:#?}",
            collector.spans()
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the parents of all spans by name. Asserts that they are one trace, in which each span occurs once and all
/// parents exist.
#[track_caller]
pub(crate) fn parents(spans: &[Span]) -> BTreeMap<String, String> {
    let traces: BTreeSet<&String> = spans.iter().map(|span| &span.trace).collect();
    assert_eq!(traces.len(), 1, "{spans:#?}");
    let names: BTreeMap<&str, &str> = spans.iter().map(|span| (&*span.id, &*span.name)).collect();
    assert_eq!(names.len(), spans.len(), "a span came twice: {spans:#?}");
    let parent = |span: &Span| match &*span.parent {
        "" => String::new(),
        parent => names
            .get(parent)
            .unwrap_or_else(|| panic!("no parent of {span:#?}"))
            .to_string(),
    };
    spans
        .iter()
        .map(|span| (span.name.clone(), parent(span)))
        .collect()
}

#[track_caller]
pub(crate) fn span<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let first = found
        .next()
        .unwrap_or_else(|| panic!("no span `{name}`: {spans:#?}"));
    assert!(found.next().is_none(), "several spans `{name}`");
    first
}

/// A project with a model stage that calls a tool, followed by [`SLOW`]'s stage that waits.
fn with_agent() -> Project {
    let project = Project::new(
        "tools: {greet: {command: 'echo hello; echo $TRACEPARENT > greeted', description: Greets.}}\n\
         agents: {host: {tools: [greet]}}\n",
    );
    let flow = SLOW
        .replace("start -> once", "start -> ask -> once")
        .replace("echo $$ >> wait", "echo $TRACEPARENT >> wait")
        .replace(
            "digraph slow {",
            "digraph slow {\n    ask [prompt=\"Say the secret word.\", agent=host]",
        );
    project.scratch.write("s.dot", flow);
    project.server.push(Answer::call("greet", "{}").tokens(100, 10));
    project.server.push(reports("greeted").tokens(200, 20));
    project
}

/// Runs the pipeline of [`with_agent`], kills it while it waits, and resumes it.
fn kill_and_resume(project: &Project, collector: &Collector, endpoint: &str) {
    let command = traced(project.command(&["run", "s.dot"]), endpoint);
    let mut run = Started::from_command(command).0;
    run.until_stage("wait");
    project
        .scratch
        .until("the stage waits", |scratch| scratch.lines("wait") == 1);
    // What ended before the kill has arrived.
    until(collector, "stage once");
    run.signal("KILL");
    run.end();
    project.scratch.write("go", "");
    done(
        traced(project.command(&["resume", "last"]), endpoint)
            .output()
            .unwrap(),
    )
    .exits(0);
}

#[track_caller]
fn is_one_trace(project: &Project, spans: &[Span]) {
    let expected = [
        ("invoke_workflow slow", ""),
        ("stage start", "invoke_workflow slow"),
        ("stage ask", "invoke_workflow slow"),
        ("invoke_agent host", "stage ask"),
        ("chat claude-sonnet-4-5", "invoke_agent host"),
        ("execute_tool greet", "invoke_agent host"),
        ("stage once", "invoke_workflow slow"),
        ("stage wait", "invoke_workflow slow"),
        ("stage exit", "invoke_workflow slow"),
    ];
    let parents = parents(spans);
    for (name, parent) in expected {
        assert_eq!(parents.get(name).map(String::as_str), Some(parent), "{name}");
    }
    // The shell of the tool stages belongs to their stages; there are two of each.
    assert_eq!(spans.len(), expected.len() + 3, "{spans:#?}");
    let wait = span(spans, "stage wait");
    assert_eq!(wait.events, ["interrupted"]);
    let seen = project.scratch.read("wait");
    let own = format!("00-{}-{}-01", wait.trace, wait.id);
    assert_eq!(
        seen.lines().collect::<Vec<_>>(),
        [&*own, &*own],
        "both processes gave the tool its span"
    );
    let ask = span(spans, "stage ask");
    assert_eq!(
        project.scratch.read("greeted").trim(),
        format!("00-{}-{}-01", ask.trace, ask.id)
    );
}

#[test]
fn a_run_that_is_killed_and_resumed_is_one_trace() {
    let (project, collector) = (with_agent(), Collector::start().unwrap());
    kill_and_resume(&project, &collector, &collector.endpoint());
    let spans = collector.spans();
    is_one_trace(&project, &spans);
    let root = span(&spans, "invoke_workflow slow");
    assert!(
        spans
            .iter()
            .all(|span| span.start >= root.start && span.end <= root.end),
        "{spans:#?}"
    );
    assert_eq!(root.get("orchestra.run.status"), "success");
    assert_eq!(root.get("gen_ai.operation.name"), "invoke_workflow");
    assert_eq!(root.get("orchestra.run.id"), project.scratch.runs()[0]);
    assert_eq!(root.service, "orchestra");
    let chats: Vec<&Span> = spans.iter().filter(|span| span.is_client).collect();
    assert_eq!(chats.len(), 2);
    let first = chats[0];
    assert_eq!(first.get("gen_ai.provider.name"), "anthropic");
    assert_eq!(first.get("gen_ai.request.model"), "claude-sonnet-4-5");
    assert_eq!(first.get("gen_ai.response.finish_reasons"), "tool_calls");
    assert_eq!(first.get("gen_ai.usage.input_tokens"), "100");
    assert_eq!(first.get("gen_ai.usage.output_tokens"), "10");
    assert!(!first.get("gen_ai.response.model").is_empty());
    assert!(
        !span(&spans, "execute_tool greet")
            .get("gen_ai.tool.call.id")
            .is_empty()
    );
    let agent = span(&spans, "invoke_agent host");
    assert!(
        agent
            .get("gen_ai.conversation.id")
            .starts_with(root.get("orchestra.run.id"))
    );
    let ask = span(&spans, "stage ask");
    let named = [
        "orchestra.node.id",
        "orchestra.visit",
        "orchestra.attempt",
        "orchestra.outcome",
    ];
    assert_eq!(named.map(|name| ask.get(name)), ["ask", "1", "1", "success"]);
    let shown = format!("{spans:?}");
    assert!(
        !shown.contains("secret word") && !shown.contains("gen_ai.input.messages"),
        "{shown}"
    );
    let metrics = collector.metrics();
    assert_eq!(
        metrics["orchestra.runs{pipeline=slow,status=success}"], 1.0,
        "{metrics:?}"
    );
    assert_eq!(metrics["orchestra.runs.active{}"], 0.0);
    let tokens = "orchestra.model.tokens{model=claude-sonnet-4-5,provider=anthropic,type=input}";
    assert_eq!(
        metrics.get(tokens),
        None,
        "the process that called the model was killed: {metrics:?}"
    );
    assert_eq!(
        metrics["orchestra.stage.duration{node=wait,outcome=success,pipeline=slow}"],
        1.0
    );
}

#[test]
fn messages_are_exported_only_on_request() {
    let (project, collector) = (with_agent(), Collector::start().unwrap());
    project.scratch.write("go", "");
    let mut command = traced(project.command(&["run", "s.dot"]), &collector.endpoint());
    command
        .env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        .env("OTEL_SERVICE_NAME", "releases")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue");
    done(command.output().unwrap()).exits(0);
    let spans = collector.spans();
    let chats: Vec<&Span> = spans.iter().filter(|span| span.is_client).collect();
    let input: serde_json::Value = serde_json::from_str(chats[1].get("gen_ai.input.messages")).unwrap();
    let roles: Vec<&str> = input
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
    assert!(input[1].to_string().contains("Say the secret word."));
    assert_eq!(input[3]["parts"][0]["type"], "tool_call_response");
    let output: serde_json::Value = serde_json::from_str(chats[0].get("gen_ai.output.messages")).unwrap();
    assert_eq!(output[0]["parts"][0]["name"], "greet");
    assert!(spans.iter().all(|span| span.service == "releases"));
    assert!(
        collector
            .headers()
            .iter()
            .any(|header| header.eq_ignore_ascii_case("x-tenant: blue"))
    );
    // The key of the provider is in no message, and no message is in the run folder's events.
    let run = project.scratch.runs().remove(0);
    let events = project
        .scratch
        .read(&format!(".orchestra/runs/{run}/events.jsonl"));
    assert!(events.contains("ModelCallCompleted") && !events.contains("Say the secret word."));
    let metrics = collector.metrics();
    let tokens = "orchestra.model.tokens{model=claude-sonnet-4-5,provider=anthropic,type=input}";
    assert_eq!(metrics[tokens], 300.0, "{metrics:?}");
}

#[test]
fn a_gate_that_was_answered_after_a_pause_waited_for_all_that_time() {
    let (scratch, collector) = (Scratch::new(), Collector::start().unwrap());
    scratch.write("g.dot", gate(""));
    call(&scratch, &collector.endpoint(), &["run", "g.dot"]).exits(5);
    assert!(
        !collector
            .spans()
            .iter()
            .any(|span| span.name.starts_with("invoke")),
        "the run has not ended"
    );
    call(
        &scratch,
        &collector.endpoint(),
        &["resume", "last", "--answer", "approve=Y"],
    )
    .exits(0);
    let spans = collector.spans();
    let parents = parents(&spans);
    assert_eq!(parents["gate approve"], "stage approve");
    let gate = span(&spans, "gate approve");
    assert!(gate.start < span(&spans, "stage ship").start);
    let waited: u64 = gate.get("orchestra.gate.waited_ms").parse().unwrap();
    assert_eq!(waited, (gate.end - gate.start) / 1_000_000);
    assert_eq!(gate.get("orchestra.gate.answer"), "", "answers are contents");
    assert_eq!(collector.metrics().get("orchestra.human.waiting{}"), Some(&0.0));
}

#[test]
fn a_run_that_is_interrupted_and_resumed_is_one_trace() {
    let (scratch, collector) = (Scratch::new(), Collector::start().unwrap());
    scratch.write("s.dot", SLOW);
    let command = traced(scratch.command(&["run", "s.dot"]), &collector.endpoint());
    let mut run = Started::from_command(command).0;
    run.until_stage("wait");
    scratch.until("the stage waits", |scratch| scratch.lines("wait") == 1);
    run.signal("INT");
    run.end().exits(130);
    scratch.write("go", "");
    call(&scratch, &collector.endpoint(), &["resume", "last"]).exits(0);
    let spans = collector.spans();
    let parents = parents(&spans);
    assert_eq!(parents["stage wait"], "invoke_workflow slow");
    assert_eq!(span(&spans, "stage wait").events, ["interrupted"]);
    assert_eq!(span(&spans, "stage wait").get("orchestra.outcome"), "success");
}

#[test]
fn child_runs_and_retries_belong_to_the_trace_of_the_run() {
    let (scratch, collector) = (Scratch::new(), Collector::start().unwrap());
    scratch.write(
        "a.dot",
        "digraph outer { start -> lint -> last -> exit; lint [shape=folder, label=Lint, subpipeline.file=\"lint.dot\"]\n\
         last [shape=parallelogram, tool_command=\"test -f fixed\"] }",
    );
    scratch.write(
        "lint.dot",
        "digraph lint { start -> check -> exit; check [shape=parallelogram, tool_command=true] }",
    );
    call(&scratch, &collector.endpoint(), &["run", "a.dot"]).exits(1);
    scratch.write("fixed", "");
    call(&scratch, &collector.endpoint(), &["resume", "last", "--retry"]).exits(0);
    let spans = collector.spans();
    let traces: BTreeSet<&String> = spans.iter().map(|span| &span.trace).collect();
    let ids: BTreeSet<&String> = spans.iter().map(|span| &span.id).collect();
    assert_eq!((traces.len(), ids.len()), (1, spans.len()), "{spans:#?}");
    let roots: Vec<&Span> = spans
        .iter()
        .filter(|span| span.name == "invoke_workflow outer")
        .collect();
    assert_eq!(roots.len(), 2, "{spans:#?}");
    assert_eq!((roots[0].parent.as_str(), &roots[1].parent), ("", &roots[0].id));
    assert_eq!(
        roots[0].failure.as_deref().map(|reason| reason.contains("last")),
        Some(true),
        "{:?}",
        roots[0]
    );
    assert_eq!(roots[1].failure, None);
    let child = span(&spans, "invoke_workflow lint");
    assert_eq!(child.parent, span(&spans, "stage lint").id);
    assert_eq!(span(&spans, "stage check").parent, child.id);
}

#[test]
fn branches_belong_to_their_fan_out() {
    let (scratch, collector) = (Scratch::new(), Collector::start().unwrap());
    let branches = "digraph p { start -> fan; fan [shape=component]; join [shape=tripleoctagon]\n\
        fan -> left -> join; fan -> right -> join; join -> exit\n\
        left [shape=parallelogram, tool_command=true]; right [shape=parallelogram, tool_command=false] }";
    scratch.write("p.dot", branches);
    call(&scratch, &collector.endpoint(), &["run", "p.dot"]).exits(0);
    let spans = collector.spans();
    let parents = parents(&spans);
    for branch in ["stage left", "stage right"] {
        assert_eq!(parents[branch], "stage fan");
    }
    assert_eq!(parents["stage join"], "invoke_workflow p");
    assert_eq!(span(&spans, "stage right").get("orchestra.outcome"), "fail");
    assert!(span(&spans, "stage right").failure.is_some());
}

#[test]
fn the_metrics_of_the_server_pass_promtool() {
    let project = with_agent();
    project.scratch.write("go", "");
    project.call(&["run", "s.dot"]).exits(0);
    let mut started = project.scratch.start(&["serve", "--listen", "127.0.0.1:0"]);
    let link = started.until(|line| line["schema"] == "orchestra.serve/1")["link"].clone();
    let (address, token) = link.as_str().unwrap().split_once("/ui/#token=").unwrap();
    let text = get(address.trim_start_matches("http://"), token, "/api/v1/metrics");
    for line in [
        "orchestra_runs_total{pipeline=\"slow\",status=\"success\"} 1",
        "orchestra_runs_active 0",
        "orchestra_human_waiting 0",
        "orchestra_model_tokens_total{provider=\"anthropic\",model=\"claude-sonnet-4-5\",type=\"input\"} 300",
        "orchestra_model_tokens_total{provider=\"anthropic\",model=\"claude-sonnet-4-5\",type=\"output\"} 30",
        "orchestra_stage_duration_seconds_count{pipeline=\"slow\",node=\"ask\",outcome=\"success\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
    let cost = text
        .lines()
        .find(|line| line.starts_with("orchestra_model_cost_dollars_total{"));
    assert!(cost.is_some_and(|cost| !cost.ends_with(" 0")), "{text}");
    started.signal("TERM");
    started.end();
    let Some(promtool) = find("promtool") else {
        return skip("the program `promtool` is not installed (Debian package `prometheus`)");
    };
    let mut check = Command::new(promtool);
    let pipes = check
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut check = pipes.spawn().unwrap();
    std::io::Write::write_all(&mut check.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let checked = check.wait_with_output().unwrap();
    let said = [checked.stdout, checked.stderr].concat();
    assert!(
        checked.status.success() && said.is_empty(),
        "{}\n{text}",
        String::from_utf8_lossy(&said)
    );
}

fn get(address: &str, token: &str, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}

/// A running program, which is killed when it goes out of scope.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_collector_receives_and_forwards_the_trace() {
    let named = std::env::var_os("ORCHESTRA_ROTEL").filter(|path| !path.is_empty());
    let Some(rotel) = named.map(PathBuf::from).or_else(|| find("rotel-agent")) else {
        return skip("`ORCHESTRA_ROTEL` does not name the program `rotel-agent` (Python package `rotel`)");
    };
    let (project, collector) = (with_agent(), Collector::start().unwrap());
    let free = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let (http, grpc) = (free(), free());
    let log = std::fs::File::create(project.scratch.path("rotel.log")).unwrap();
    let rotel = Command::new(rotel)
        .args(["start", "--exporter", "otlp", "--otlp-exporter-protocol", "http"])
        .args([
            "--otlp-exporter-endpoint",
            &collector.endpoint(),
            "--otlp-exporter-compression",
            "none",
        ])
        .args([
            "--otlp-http-endpoint",
            &http.to_string(),
            "--otlp-grpc-endpoint",
            &grpc.to_string(),
        ])
        .current_dir(project.scratch.path(""))
        .stdin(Stdio::null())
        .stderr(log.try_clone().unwrap())
        .stdout(log)
        .spawn()
        .unwrap();
    let _rotel = Killed(rotel);
    project.scratch.until("the collector listens", |_| {
        std::net::TcpStream::connect(http).is_ok()
    });
    kill_and_resume(&project, &collector, &format!("http://{http}"));
    until(&collector, "invoke_workflow slow");
    is_one_trace(&project, &collector.spans());
}

#[test]
fn the_runs_of_a_server_are_traced() {
    let (scratch, collector) = (Scratch::new(), Collector::start().unwrap());
    scratch.write("g.dot", gate(""));
    let command = traced(
        scratch.command(&["serve", "--listen", "127.0.0.1:0"]),
        &collector.endpoint(),
    );
    let mut started = Started::from_command(command).0;
    let link = started.until(|line| line["schema"] == "orchestra.serve/1")["link"].clone();
    let (address, token) = link.as_str().unwrap().split_once("/ui/#token=").unwrap();
    let address = address.trim_start_matches("http://");
    post(address, token, "/api/v1/definitions/g.dot/runs", "{}");
    let asked = || get(address, token, "/api/v1/gates");
    scratch.until("the gate asks", |_| asked().contains("\"approve\""));
    let gates: serde_json::Value = serde_json::from_str(&asked()).unwrap();
    let run = gates["gates"][0]["run"].as_str().unwrap();
    let answer = json!({"choice": "Y"}).to_string();
    post(
        address,
        token,
        &format!("/pipelines/{run}/questions/approve/answer"),
        &answer,
    );
    until(&collector, "invoke_workflow gate");
    started.signal("TERM");
    started.end();
    assert_eq!(parents(&collector.spans())["gate approve"], "stage approve");
    assert_eq!(
        collector.metrics()["orchestra.runs{pipeline=gate,status=success}"],
        1.0
    );
}

fn post(address: &str, token: &str, path: &str, body: &str) {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 20"), "{path}: {reply}");
}
