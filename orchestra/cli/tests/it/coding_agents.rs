//! Coding agents through the program: presets with agents that write what the real ones wrote, sessions, and runs that
//! are killed in the middle of an agent's work.

#![cfg(unix)]

use crate::support::{Done, Scratch, Started, copy_program};

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// A program that stores its arguments and its prompt, and then does what the test says.
const AGENT: &str = r#"#!/bin/sh
name=$(basename "$0")
for word in "$@"; do printf '<%s>' "$word"; done >>args
echo >>args
{ cat; printf '\n=====\n'; } >>prompts
. "./play/$name.sh"
"#;

/// A project whose coding agents are programs of the test.
struct Agents {
    scratch: Scratch,
}

impl Agents {
    fn new(configuration: &str, pipeline: &str) -> Agents {
        let scratch = Scratch::new();
        scratch
            .write("orchestra.yaml", configuration)
            .write("agent.txt", AGENT)
            .write("p.dot", pipeline);
        std::fs::create_dir(scratch.path("bin")).unwrap();
        for name in ["codex", "claude", "gemini", "opencode", "pi", "own"] {
            let path = scratch.path(&format!("bin/{name}"));
            copy_program(scratch.path("agent.txt"), &path);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Agents { scratch }
    }

    /// Sets what an agent does.
    fn plays(&self, agent: &str, script: &str) {
        self.scratch.write(&format!("play/{agent}.sh"), script);
    }

    /// Makes an agent write a recording.
    fn records(&self, agent: &str, recording: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/tests/recordings");
        let folder = folder.join(agent);
        let log = folder.join(format!("{recording}.stderr"));
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let output = std::fs::read_to_string(folder.join(format!("{recording}.jsonl"))).unwrap();
        self.scratch.write("play/output", output).write("play/log", log);
        self.plays(agent, "cat play/log >&2; cat play/output");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.scratch.command(args);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.scratch.path("bin").display()));
        command
    }

    fn call(&self, args: &[&str]) -> Done {
        crate::support::done(self.command(args).output().unwrap())
    }

    /// Returns the arguments of each start.
    fn arguments(&self) -> Vec<String> {
        self.scratch.read("args").lines().map(str::to_owned).collect()
    }

    /// Returns the prompt of each start.
    fn prompts(&self) -> Vec<String> {
        let text = self.scratch.read("prompts");
        let mut prompts: Vec<String> = text.split("\n=====\n").map(str::to_owned).collect();
        prompts.pop();
        prompts
    }
}

/// A part of a codex that answers in a session, with the tokens that the session has used.
fn codex(session: &str, answer: &str, input: u64, output: u64) -> String {
    format!(
        r#"echo '{{"type":"thread.started","thread_id":"{session}"}}'
echo '{{"type":"turn.started"}}'
echo '{{"type":"item.completed","item":{{"id":"item_0","type":"agent_message","text":"{answer}"}}}}'
echo '{{"type":"turn.completed","usage":{{"input_tokens":{input},"cached_input_tokens":0,"output_tokens":{output}}}}}'
"#
    )
}

const ONE_STAGE: &str =
    "digraph { start -> work -> exit; work [prompt=\"Write hello.\", llm_model=\"x/m\"] }";

#[test]
fn agents_succeed_and_fail_as_their_events_say() {
    let cases = [
        ("success", 0, ""),
        ("denied", 1, "was denied"),
        ("401", 1, "log in with the agent"),
        ("empty", 1, "empty"),
    ];
    for agent in ["codex", "claude", "gemini", "opencode", "pi"] {
        let configuration = format!("backend: coder\nbackends: {{coder: {{preset: {agent}}}}}\n");
        let agents = Agents::new(&configuration, ONE_STAGE);
        for (recording, code, reason) in cases {
            agents.records(agent, recording);
            let run = agents.call(&["run", "p.dot", "--json"]);
            let text = format!("{agent} {recording}\n{}\n{}", run.stdout, run.stderr);
            assert_eq!(run.code, code, "{text}");
            assert!(run.stdout.contains(reason), "{text}");
            if code == 0 {
                let id = run.result()["run"].as_str().unwrap().to_owned();
                let answer = format!(".orchestra/runs/{id}/work/response.md");
                assert_eq!(
                    agents.scratch.read(&answer).trim(),
                    "I wrote hello.txt.",
                    "{agent}"
                );
            }
        }
    }
}

#[test]
fn an_agent_that_is_not_installed_says_how_to_install_it() {
    let agents = Agents::new("backend: coder\nbackends: {coder: {preset: pi}}\n", ONE_STAGE);
    std::fs::remove_file(agents.scratch.path("bin/pi")).unwrap();
    let mut command = agents.command(&["run", "p.dot"]);
    command.env(
        "PATH",
        format!("{}:/usr/bin:/bin", agents.scratch.path("bin").display()),
    );
    let run = crate::support::done(command.output().unwrap()).exits(1);
    let text = run.stdout + &run.stderr;
    assert!(
        text.contains("npm install -g @mariozechner/pi-coding-agent"),
        "{text}"
    );
}

#[test]
fn no_shell_reads_the_name_of_a_model() {
    let pipeline = "digraph { start -> work -> exit; work [prompt=\"Go.\", llm_model=\"m; touch broken $(touch broken)\"] }";
    let agents = Agents::new("backend: coder\nbackends: {coder: {preset: codex}}\n", pipeline);
    agents.plays("codex", &codex("0a-1", "Done.", 1, 1));
    agents.call(&["run", "p.dot"]).exits(0);
    let arguments = agents.arguments();
    assert!(
        arguments[0].contains("<-m><m; touch broken $(touch broken)>"),
        "{arguments:?}"
    );
    assert!(!agents.scratch.path("broken").exists());
}

#[test]
fn a_thread_continues_the_session_of_each_agent() {
    let pipeline = r#"digraph {
        default_fidelity = full
        start -> one -> two -> look -> three -> exit
        one [prompt="First."]
        two [prompt="Second."]
        look [prompt="Look at it.", backend=critic]
        three [prompt="Third."]
    }"#;
    let configuration =
        "backend: coder\nbackends: {coder: {preset: codex}, critic: {preset: claude, access: read}}\n";
    let agents = Agents::new(configuration, pipeline);
    agents.plays(
        "codex",
        &format!(
            "case $(grep -c '<exec>' args) in\n1) {};;\n2) {};;\n*) {};;\nesac\n",
            codex("0a-1", "One.", 100, 10),
            codex("0a-1", "Two.", 250, 30),
            codex("0a-1", "Three.", 300, 45),
        ),
    );
    agents.plays(
        "claude",
        r#"echo '{"type":"system","subtype":"init","session_id":"0b-1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"The door is crooked.","usage":{"input_tokens":5,"cache_read_input_tokens":2,"output_tokens":3},"total_cost_usd":0}'
"#,
    );
    let run = agents.call(&["run", "p.dot", "--json"]).exits(0);
    let arguments = agents.arguments();
    let resumed: Vec<bool> = arguments
        .iter()
        .map(|line| line.contains("<resume><0a-1>"))
        .collect();
    assert_eq!(resumed, [false, true, false, true], "{arguments:#?}");
    let prompts = agents.prompts();
    assert!(!prompts[1].contains("One."), "the session has it: {}", prompts[1]);
    assert!(prompts[3].contains("The door is crooked."), "{}", prompts[3]);
    // The tokens of the sessions, each counted once.
    let used = &run.result()["usage"];
    assert_eq!(
        (&used["input_tokens"], &used["output_tokens"]),
        (&307.into(), &48.into()),
        "{used}"
    );
}

#[test]
fn a_session_that_is_gone_is_begun_anew() {
    let pipeline = r#"digraph {
        default_fidelity = full
        start -> one -> two -> exit
        one [prompt="First."]
        two [prompt="Second."]
    }"#;
    let agents = Agents::new("backend: coder\nbackends: {coder: {preset: codex}}\n", pipeline);
    agents.plays(
        "codex",
        &format!(
            "case \"$*\" in *resume*) echo 'Error: no rollout found' >&2; exit 1;; esac\n{}",
            codex("0a-1", "One.", 10, 1)
        ),
    );
    agents.call(&["run", "p.dot"]).exits(0);
    let prompts = agents.prompts();
    assert_eq!(prompts.len(), 3);
    assert!(
        prompts[2].contains("One.") && prompts[2].contains("Second."),
        "{}",
        prompts[2]
    );
    assert!(!agents.arguments()[2].contains("resume"));
}

#[test]
fn an_agent_that_is_killed_with_its_run_continues_its_session() {
    let pipeline = "digraph { start -> work -> exit; work [prompt=\"Write hello.\"] }";
    let agents = Agents::new("backend: coder\nbackends: {coder: {preset: codex}}\n", pipeline);
    let first = r#"echo '{"type":"thread.started","thread_id":"0a-1"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"ls","exit_code":0,"status":"completed"}}'
echo half >half
sleep 600
"#;
    agents.plays("codex", first);
    let (mut run, _) = Started::from_command(agents.command(&["run", "p.dot"]));
    // The session is durable before the tool call is reported.
    run.until(|object| object["event"] == "ToolCallCompleted");
    run.signal("KILL");
    drop(run);
    agents.plays("codex", &codex("0a-1", "I finished it.", 70, 7));
    let resumed = agents.call(&["resume", "last", "--json"]).exits(0);
    let arguments = agents.arguments();
    assert_eq!(arguments.len(), 2);
    assert!(arguments[1].contains("<resume><0a-1>"), "{arguments:?}");
    let prompt = &agents.prompts()[1];
    assert!(
        prompt.contains("interrupted") && prompt.contains("Write hello."),
        "{prompt}"
    );
    assert_eq!(resumed.result()["usage"]["input_tokens"], 70);
}

#[test]
fn any_agent_with_events_has_sessions() {
    let pipeline = r#"digraph {
        default_fidelity = full
        start -> one -> two -> exit
        one [prompt="First."]
        two [prompt="Second."]
    }"#;
    let configuration = r#"backend: own
backends:
  own:
    kind: cli
    command: own --continue "${ORCHESTRA_SESSION_ID-}"
    output: json-lines
    final: {type: result}
    result_pointer: /text
    session_pointer: /session
    input_tokens_pointer: /in
"#;
    let agents = Agents::new(configuration, pipeline);
    agents.plays(
        "own",
        "echo noise; echo '{\"type\":\"init\",\"session\":\"s1\"}'\necho '{\"type\":\"result\",\"text\":\"Done.\",\"in\":4}'\n",
    );
    let run = agents.call(&["run", "p.dot", "--json"]).exits(0);
    assert_eq!(agents.arguments(), ["<--continue><>", "<--continue><s1>"]);
    assert_eq!(run.result()["usage"]["input_tokens"], 8);
    // A line that ends the work is required.
    agents.plays("own", "echo '{\"type\":\"init\",\"session\":\"s1\"}'\n");
    let run = agents.call(&["run", "p.dot", "--json"]).exits(1);
    assert!(
        run.stdout.contains("without the event that ends its work"),
        "{}",
        run.stdout
    );
}

#[test]
fn wrong_settings_are_reported_where_they_are() {
    for (backend, message) in [
        ("{preset: codx}", "did you mean `codex`"),
        (
            "{preset: codex, command: codex}",
            "`command` means nothing with `preset: codex`",
        ),
        (
            "{kind: cli, command: x, access: read}",
            "`access` means nothing without a `preset`",
        ),
        (
            "{kind: agent, preset: codex}",
            "`preset` means nothing to a backend of the kind `agent`",
        ),
        (
            "{kind: cli, command: x, output: json-lines}",
            "no event is named that ends the work",
        ),
        (
            "{kind: cli, command: x, final: {type: a}}",
            "`final` means nothing without `output: json-lines`",
        ),
        ("{preset: opencode}", "no model is named for `work`"),
    ] {
        let configuration = format!("backend: coder\nbackends:\n  coder: {backend}\n");
        let pipeline = "digraph { start -> work -> exit; work [prompt=\"Go.\"] }";
        let agents = Agents::new(&configuration, pipeline);
        let checked = agents.call(&["check", "p.dot"]);
        assert_ne!(checked.code, 0, "{backend}");
        let text = checked.stdout + &checked.stderr;
        assert!(text.contains(message), "{backend}: {text}");
    }
}
