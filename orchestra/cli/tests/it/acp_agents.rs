//! Coding agents of the Agent Client Protocol through the program, with an agent that says what the test says.

#![cfg(unix)]

use crate::support::{Done, Scratch};

use serde_json::Value;

/// An agent that stores what it reads, and answers each message with the lines that the test has for it.
const AGENT: &str = r#"#!/bin/sh
n=0
while IFS= read -r line; do
    printf '%s\n' "$line" >>asked
    [ -e "play/$n.sh" ] && . "./play/$n.sh"
    n=$((n + 1))
done
"#;

const HELLO: &str = r#"printf '%s\n' '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}'"#;
const OPENED: &str = r#"printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s-1","models":{"currentModelId":"small","availableModels":[{"modelId":"small"},{"modelId":"large"}]}}}'"#;
/// Announces a change of a file and asks for permission.
const ASKS: &str = r#"
printf '%s\n' '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call","toolCallId":"t1","title":"write","kind":"edit","status":"pending"}}}'
printf '%s\n' '{"jsonrpc":"2.0","id":"p1","method":"session/request_permission","params":{"sessionId":"s-1","toolCall":{"toolCallId":"t1","title":"Writing hello.txt","kind":"edit","locations":[{"path":"hello.txt"}],"content":[{"type":"diff","path":"hello.txt","oldText":"","newText":"hi\n"}]},"options":[{"optionId":"always","name":"Allow for this session","kind":"allow_always"},{"optionId":"once","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"Reject","kind":"reject_once"}]}}'
"#;

/// Does what it was allowed to, or not, and answers.
fn acts(response: u32) -> String {
    format!(
        r#"
case $line in
*'"once"'* | *'"always"'*)
    echo hi >hello.txt
    printf '%s\n' '{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s-1","update":{{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed"}}}}}}' ;;
*) printf '%s\n' '{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s-1","update":{{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"failed"}}}}}}' ;;
esac
printf '%s\n' '{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s-1","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"I am "}}}}}}}}'
printf '%s\n' '{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s-1","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"done."}}}}}}}}'
printf '%s\n' '{{"jsonrpc":"2.0","id":{response},"result":{{"stopReason":"end_turn","usage":{{"inputTokens":60,"outputTokens":20,"totalTokens":120,"cachedReadTokens":40}}}}}}'
"#
    )
}

const ONE_STAGE: &str = "digraph { start -> work -> exit; work [prompt=\"Write hello.\"] }";

fn project(settings: &str, pipeline: &str) -> Scratch {
    let scratch = Scratch::new();
    let configuration =
        format!("backend: editor\nbackends: {{editor: {{kind: acp, command: [sh, agent.sh]{settings}}}}}\n");
    scratch
        .write("orchestra.yaml", configuration)
        .write("agent.sh", AGENT)
        .write("p.dot", pipeline);
    plays(&scratch, &[HELLO, OPENED, ASKS, &acts(2)]);
    scratch
}

/// Sets what the agent writes after each message that it reads.
fn plays(scratch: &Scratch, parts: &[&str]) {
    for (at, part) in parts.iter().enumerate() {
        scratch.write(&format!("play/{at}.sh"), part);
    }
}

/// Returns the messages that the agent read.
fn asked(scratch: &Scratch) -> Vec<Value> {
    let lines = scratch.read("asked");
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn wrote(scratch: &Scratch) -> bool {
    scratch.path("hello.txt").exists()
}

fn fails(done: Done, reason: &str) {
    let failed = done.exits(1);
    assert!(failed.stderr.contains(reason), "{reason}: {}", failed.stderr);
}

#[test]
fn a_person_allows_and_rejects_what_an_agent_asks_for() {
    let allowed = project("", ONE_STAGE);
    let run = allowed
        .call(&["run", "p.dot", "--answer", "work=Y", "--json"])
        .exits(0);
    assert!(wrote(&allowed));
    let result = run.result();
    assert_eq!(result["usage"]["input_tokens"], 100, "{result}");
    assert_eq!(result["usage"]["output_tokens"], 20, "{result}");
    assert_eq!(run.reported("StageCompleted", "node").len(), 3);
    let asked = asked(&allowed);
    assert_eq!(
        asked[0]["params"]["clientCapabilities"]["fs"]["writeTextFile"],
        false
    );
    assert_eq!(asked[2]["params"]["sessionId"], "s-1");
    let prompt = asked[2]["params"]["prompt"][0]["text"].as_str().unwrap();
    assert!(prompt.ends_with("Write hello."), "{prompt}");
    assert_eq!(asked[3]["result"]["outcome"]["optionId"], "once");

    let rejected = project("", ONE_STAGE);
    fails(
        rejected.call(&["run", "p.dot", "--answer", "work=N"]),
        "`editor` was denied `write` of `hello.txt` and did not overcome it",
    );
    assert!(!wrote(&rejected));
}

#[test]
fn a_question_that_nobody_answers_pauses_the_run_and_shows_the_change() {
    let scratch = project("", ONE_STAGE);
    let paused = scratch.call(&["run", "p.dot"]).exits(5);
    assert!(paused.stderr.contains("Writing hello.txt"), "{}", paused.stderr);
    assert!(!wrote(&scratch));
    let status = scratch.call(&["status", "last"]).exits(0).stdout;
    assert!(status.contains("work waits for an answer"), "{status}");
    scratch.call(&["answer", "last", "work", "Y"]).exits(0);
    // The session is continued, and the agent asks again.
    let loaded = r#"printf '%s\n' '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Said before."}}}}'
printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{}}'"#;
    plays(&scratch, &[HELLO, loaded]);
    scratch.call(&["resume", "last"]).exits(0);
    assert!(wrote(&scratch));
    let asked = asked(&scratch);
    let load = asked
        .iter()
        .find(|message| message["method"] == "session/load")
        .unwrap();
    assert_eq!(load["params"]["sessionId"], "s-1");
    let last = asked
        .iter()
        .rfind(|message| message["method"] == "session/prompt")
        .unwrap();
    let prompt = last["params"]["prompt"][0]["text"].as_str().unwrap();
    assert!(prompt.contains("You were interrupted"), "{prompt}");
    let answer = scratch.read(&format!(".orchestra/runs/{}/work/response.md", scratch.runs()[0]));
    assert!(!answer.contains("Said before."), "{answer}");
}

#[test]
fn an_answer_is_not_given_to_another_request() {
    let scratch = project("", ONE_STAGE);
    scratch.call(&["run", "p.dot"]).exits(5);
    scratch.call(&["answer", "last", "work", "Y"]).exits(0);
    let loaded = r#"printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{}}'"#;
    let other = ASKS.replace("hello.txt", "secret.txt");
    plays(&scratch, &[HELLO, loaded, &other]);
    let paused = scratch.call(&["resume", "last"]).exits(5);
    assert!(paused.stderr.contains("Writing secret.txt"), "{}", paused.stderr);
    assert!(!wrote(&scratch));
}

#[test]
fn a_backend_may_have_the_name_of_its_kind() {
    let scratch = project("", ONE_STAGE);
    scratch.write(
        "orchestra.yaml",
        "backend: acp\nbackends: {acp: {command: [sh, agent.sh]}}\n",
    );
    scratch.call(&["run", "p.dot", "--answer", "work=Y"]).exits(0);
    assert!(wrote(&scratch));
}

#[test]
fn permissions_can_be_decided_in_the_configuration() {
    let allowed = project(", permissions: allow", ONE_STAGE);
    allowed.call(&["run", "p.dot"]).exits(0);
    assert!(wrote(&allowed));
    assert_eq!(asked(&allowed)[3]["result"]["outcome"]["optionId"], "once");

    let denied = project(", permissions: deny", ONE_STAGE);
    fails(denied.call(&["run", "p.dot"]), "`permissions: deny`");
    assert!(!wrote(&denied));
    assert_eq!(asked(&denied)[3]["result"]["outcome"]["optionId"], "no");
}

#[test]
fn a_failure_is_reported_with_its_reason() {
    let cases = [
        (
            r#"printf '%s\n' '{"jsonrpc":"2.0","id":2,"error":{"code":401,"message":"{\"error\":{\"message\":\"API key not valid.\"}}"}}'"#,
            "API key not valid.; log in with the agent",
        ),
        (
            r#"printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}'"#,
            "`editor` gave an empty answer",
        ),
        (
            r#"printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"stopReason":"refusal"}}'"#,
            "the model declined to answer",
        ),
        ("echo 'out of memory' >&2; exit 3", "exit code 3: out of memory"),
        ("exit 0", "it ended without the event that ends its work"),
    ];
    for (part, reason) in cases {
        let scratch = project("", ONE_STAGE);
        plays(&scratch, &[HELLO, OPENED, part]);
        fails(scratch.call(&["run", "p.dot"]), reason);
    }
    let missing = project("", ONE_STAGE);
    missing.write(
        "orchestra.yaml",
        "backend: editor\nbackends: {editor: {kind: acp, command: [no-such-agent]}}\n",
    );
    fails(missing.call(&["run", "p.dot"]), "no-such-agent");
    let old = project("", ONE_STAGE);
    plays(
        &old,
        &[r#"printf '%s\n' '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2}}'"#],
    );
    fails(
        old.call(&["run", "p.dot"]),
        "speaks version 2 of the Agent Client Protocol",
    );
}

#[test]
fn an_agent_that_neither_answers_nor_ends_is_ended() {
    let scratch = project(", timeout: 1s", ONE_STAGE);
    plays(&scratch, &[HELLO, OPENED, "sleep 600 & echo $! >pid; wait"]);
    fails(scratch.call(&["run", "p.dot"]), "did not end within 1s");
    assert!(!crate::support::lives(scratch.read("pid").trim()));
}

#[test]
fn a_question_of_an_agent_that_has_ended_is_withdrawn() {
    for (settings, ends, reason) in [
        (", timeout: 2s", "", "did not end within 2s"),
        ("", "sleep 1; exit 3", "exit code 3"),
    ] {
        let scratch = project(settings, ONE_STAGE);
        plays(&scratch, &[HELLO, OPENED, &format!("{ASKS}{ends}")]);
        fails(scratch.call(&["run", "p.dot", "--wait"]), reason);
    }
}

#[test]
fn a_thread_continues_the_session_without_what_was_said_before() {
    let pipeline = "digraph { graph [default_fidelity=full]; start -> work -> again -> exit; \
                    work [prompt=\"Write hello.\"]; again [prompt=\"Say what you did.\"] }";
    let scratch = project(", permissions: allow", pipeline);
    let says = |text: &str, id: u32| {
        format!(
            r#"printf '%s\n' '{{"jsonrpc":"2.0","method":"session/update","params":{{"update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}}}}}' '{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"end_turn"}}}}'"#
        )
    };
    // The agent opens a session when it is asked for one, and loads it when it is asked for that.
    let opens = format!(
        "case $line in *session/load*) {} ;; *) {OPENED} ;; esac",
        says("Said before.", 1)
    );
    plays(&scratch, &[HELLO, &opens, &says("Said now.", 2)]);
    scratch.call(&["run", "p.dot"]).exits(0);
    let answer = scratch.read(&format!(
        ".orchestra/runs/{}/again/response.md",
        scratch.runs()[0]
    ));
    assert_eq!(answer.trim(), "Said now.");
    let loads = asked(&scratch)
        .into_iter()
        .filter(|message| message["method"] == "session/load");
    assert_eq!(loads.count(), 1);
}

#[test]
fn a_model_is_chosen_among_those_that_the_agent_offers() {
    let pipeline = |model: &str| {
        format!("digraph {{ start -> work -> exit; work [prompt=\"Write hello.\", llm_model={model}] }}")
    };
    let scratch = project(", permissions: allow", &pipeline("large"));
    let chosen = r#"printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{}}'"#;
    plays(&scratch, &[HELLO, OPENED, chosen, ASKS, &acts(3)]);
    scratch.call(&["run", "p.dot"]).exits(0);
    let asked = asked(&scratch);
    assert_eq!(asked[2]["method"], "session/set_model");
    assert_eq!(asked[2]["params"]["modelId"], "large");

    let unknown = project("", &pipeline("huge"));
    fails(
        unknown.call(&["run", "p.dot"]),
        "`editor` does not offer the model `huge`: it offers small, large",
    );
}

#[test]
fn files_and_terminals_of_this_client_are_refused() {
    let scratch = project("", ONE_STAGE);
    let reads = r#"printf '%s\n' '{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}'"#;
    plays(&scratch, &[HELLO, OPENED, reads, &acts(2)]);
    scratch.call(&["run", "p.dot"]).exits(0);
    let answered = &asked(&scratch)[3];
    assert_eq!(
        (&answered["id"], &answered["error"]["code"]),
        (&7.into(), &(-32601).into())
    );
}

#[test]
fn mistakes_in_the_configuration_are_located() {
    for (backend, expected) in [
        ("{kind: acp}", "the backend `editor` has no command"),
        (
            "{kind: acp, command: gemini --acp}",
            "is a list, which no shell reads",
        ),
        ("{kind: acp, command: []}", "the command of `editor` is empty"),
        (
            "{kind: acp, command: [a], access: read}",
            "`access` means nothing to a backend of the kind `acp`",
        ),
        ("{kind: cli, command: [a]}", "is a text, which the shell reads"),
        (
            "{kind: cli, command: a, permissions: ask}",
            "`permissions` means nothing to a backend of the kind `cli`",
        ),
        ("{kind: acp, command: [a], permissions: maybe}", "permissions"),
    ] {
        let scratch = project("", ONE_STAGE);
        scratch.write(
            "orchestra.yaml",
            format!("backend: editor\nbackends: {{editor: {backend}}}\n"),
        );
        let refused = scratch.call(&["check", "p.dot"]).exits(3);
        assert!(
            refused.stderr.contains(expected),
            "{expected}: {}",
            refused.stderr
        );
        assert!(refused.stderr.contains("orchestra.yaml:2:"), "{}", refused.stderr);
    }
}
