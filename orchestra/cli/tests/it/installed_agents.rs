//! Coding agents that are installed on this machine, against a model server on loopback: each changes a file in a
//! worktree of a pipeline, which is one commit. `ORCHESTRA_REAL_AGENTS=codex,pi` names those in `PATH` that are tested.

#![cfg(target_os = "linux")]

use crate::support::Scratch;
use crate::workspace_support::git;

use orchestra_installed_tests::skip_unrequested;
use orchestra_model_server_tests::{Answer, ModelServer, Request, Wire};
use serde_json::Value;

/// A value that no command of a model may see.
const CANARY: &str = "canary-4711";

/// Returns a server whose model calls a tool in answer to a prompt, and ends after its result.
fn server(tool: &'static str, arguments: &'static str) -> ModelServer {
    let server = ModelServer::start();
    server.respond_with(move |request| {
        if !has_tools(request) {
            return Answer::text("A title");
        }
        if latest_is_result(request) {
            Answer::text("I wrote hello.txt.").tokens(100, 20)
        } else {
            Answer::call(tool, arguments).tokens(100, 20)
        }
    });
    server
}

/// Returns whether a request is one of the work, and not one for the title of a session.
fn has_tools(request: &Request) -> bool {
    let tools = request.body.get("tools").and_then(Value::as_array);
    request.wire.is_some() && tools.is_some_and(|tools| !tools.is_empty())
}

/// Returns whether the last message of a request is the result of a tool.
fn latest_is_result(request: &Request) -> bool {
    let list = |name: &str| request.body.get(name).and_then(Value::as_array);
    let messages = list("messages").or(list("input")).or(list("contents"));
    let last = messages
        .and_then(|messages| messages.last())
        .map(Value::to_string);
    let last = last.unwrap_or_default();
    [
        "tool_result",
        "function_call_output",
        "functionResponse",
        "\"role\":\"tool\"",
    ]
    .iter()
    .any(|mark| last.contains(mark))
}

/// A project with one repository and a home of its own, whose agent is installed.
fn project(agent: &str, files: &[(&str, String)]) -> Scratch {
    let scratch = Scratch::new();
    for (name, text) in files {
        scratch.write(&format!("home/{name}"), text);
    }
    let names = "OPENAI_API_KEY, ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, GEMINI_API_KEY, GOOGLE_GEMINI_BASE_URL, \
                 OPENCODE_CONFIG_CONTENT, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC";
    scratch.write(
        "orchestra.yaml",
        format!(
            "backend: coder\nbackends:\n  coder: {{preset: {agent}, settings: user, timeout: 2m, environment: [{names}]}}\n  \
             critic: {{preset: {agent}, settings: user, access: read, timeout: 2m, environment: [{names}]}}\n\
             workspace: {{repos: {{code: {{path: code}}}}}}\n"
        ),
    );
    scratch.write("code/README", "Hello.\n");
    git(&scratch, "code", &["init", "-q", "-b", "main"]);
    git(&scratch, "code", &["add", "-A"]);
    let user = ["-c", "user.name=me", "-c", "user.email=me@localhost"];
    git(
        &scratch,
        "code",
        &[&user[..], &["commit", "-q", "-m", "start"]].concat(),
    );
    scratch
}

/// Lets an agent write a file by the Agent Client Protocol, and denies it the same.
fn asks_for_permission(agent: &'static str, command: &str, model: &str, tool: &'static str, tokens: u64) {
    if !is_asked_for(agent) {
        let reason = format!("`ORCHESTRA_REAL_AGENTS` does not name {agent}");
        return skip_unrequested(&format!("the installed agent {agent}"), &reason);
    }
    let gemini = r#"{"security":{"auth":{"selectedType":"gemini-api-key"}}}"#.to_owned();
    let scratch = project(agent, &[(".gemini/settings.json", gemini)]);
    let file = scratch.path("hello.txt").display().to_string();
    let arguments = format!(r#"{{"file_path": "{file}", "filePath": "{file}", "content": "hi\n"}}"#);
    let server = server(tool, arguments.leak());
    let open_code = format!(
        r#"{{"permission":{{"edit":"ask"}},"provider":{{"x":{{"npm":"@ai-sdk/openai-compatible","options":{{"baseURL":"{}","apiKey":"{CANARY}"}},"models":{{"m":{{"name":"m"}}}}}}}}}}"#,
        server.base(Wire::OpenAi)
    );
    let run = |permissions: &str| {
        scratch.write(
            "orchestra.yaml",
            format!(
                "backend: editor\nbackends:\n  editor: {{kind: acp, command: {command}, permissions: {permissions}, timeout: 2m, \
                 environment: [GEMINI_API_KEY, GOOGLE_GEMINI_BASE_URL, OPENCODE_CONFIG_CONTENT]}}\n"
            ),
        );
        scratch.write(
            "p.dot",
            format!("digraph {{ start -> work -> exit; work [prompt=\"Write hello.\"{model}] }}"),
        );
        let mut command = scratch.command(&["run", "p.dot", "--json"]);
        command
            .env("HOME", scratch.path("home"))
            .env("TMPDIR", scratch.path("home"))
            .env("GEMINI_API_KEY", CANARY)
            .env("GOOGLE_GEMINI_BASE_URL", server.base(Wire::Anthropic))
            .env("OPENCODE_CONFIG_CONTENT", &open_code);
        crate::support::done(command.output().unwrap())
    };
    let denied = run("deny");
    assert_eq!(denied.code, 1, "{agent}: {}{}", denied.stdout, denied.stderr);
    assert!(
        denied.stdout.contains("permissions: deny"),
        "{agent}: {}",
        denied.stdout
    );
    assert!(!scratch.path("hello.txt").exists(), "{agent}");
    let allowed = run("allow");
    assert_eq!(allowed.code, 0, "{agent}: {}{}", allowed.stdout, allowed.stderr);
    assert_eq!(scratch.read("hello.txt"), "hi\n", "{agent}");
    let used = &allowed.result()["usage"]["input_tokens"];
    assert_eq!(*used, tokens, "{agent}: {}", allowed.stdout);
}

#[test]
fn gemini_asks_for_permission() {
    asks_for_permission("gemini", "[gemini, --acp, -m, m]", "", "write_file", 200);
}

#[test]
fn opencode_asks_for_permission() {
    // It reports the tokens of its last call.
    asks_for_permission("opencode", "[opencode, acp]", ", llm_model=\"x/m\"", "write", 100);
}

struct Installed {
    agent: &'static str,
    model: &'static str,
    tool: &'static str,
    arguments: &'static str,
}

fn is_asked_for(agent: &str) -> bool {
    let named = std::env::var("ORCHESTRA_REAL_AGENTS").unwrap_or_default();
    named.split(',').any(|name| name.trim() == agent)
}

/// Lets an agent write a file in a worktree, try the same with `access: read`, and continue a session.
fn writes_and_is_denied(installed: &Installed) {
    let Installed {
        agent,
        model,
        tool,
        arguments,
    } = *installed;
    if !is_asked_for(agent) {
        let reason = format!("`ORCHESTRA_REAL_AGENTS` does not name {agent}");
        return skip_unrequested(&format!("the installed agent {agent}"), &reason);
    }
    let server = server(tool, arguments);
    let (open_ai, anthropic) = (server.base(Wire::OpenAi), server.base(Wire::Anthropic));
    let open_code = format!(
        r#"{{"provider":{{"x":{{"npm":"@ai-sdk/openai-compatible","options":{{"baseURL":"{open_ai}","apiKey":"{CANARY}"}},"models":{{"m":{{"name":"m"}}}}}}}}}}"#
    );
    let codex = format!(
        "model_provider = \"x\"\n[model_providers.x]\nname = \"x\"\nbase_url = \"{open_ai}\"\nenv_key = \"OPENAI_API_KEY\"\n\
         wire_api = \"responses\"\n"
    );
    let pi = format!(
        r#"{{"providers":{{"x":{{"baseUrl":"{open_ai}","api":"openai-completions","apiKey":"OPENAI_API_KEY","models":[{{"id":"m"}}]}}}}}}"#
    );
    let gemini = r#"{"security":{"auth":{"selectedType":"gemini-api-key"}}}"#.to_owned();
    let scratch = project(
        agent,
        &[
            (".codex/config.toml", codex),
            (".pi/agent/models.json", pi),
            (".gemini/settings.json", gemini),
        ],
    );
    let run = |backend: &str, stages: &str| {
        let pipeline = format!("digraph {{ graph [backend={backend}, llm_model=\"{model}\"]\n{stages} }}");
        scratch.write("p.dot", pipeline);
        let mut command = scratch.command(&["run", "p.dot", "--json"]);
        command
            .env("HOME", scratch.path("home"))
            // A codex that is killed leaves empty folders in the temporary one.
            .env("TMPDIR", scratch.path("home"))
            .env("OPENAI_API_KEY", CANARY)
            .env("ANTHROPIC_API_KEY", CANARY)
            .env("ANTHROPIC_BASE_URL", &anthropic)
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("GEMINI_API_KEY", CANARY)
            .env("GOOGLE_GEMINI_BASE_URL", &anthropic)
            .env("OPENCODE_CONFIG_CONTENT", &open_code);
        crate::support::done(command.output().unwrap())
    };
    let one = "start -> work -> exit; work [prompt=\"Write hello.\"]";
    let written = run("coder", one);
    assert_eq!(written.code, 0, "{agent}: {}{}", written.stdout, written.stderr);
    assert_eq!(
        written.result()["usage"]["input_tokens"],
        200,
        "{agent}: {}",
        written.stdout
    );
    let log = git(&scratch, "code", &["log", "--all", "--name-only", "--format=%H"]);
    let files = log.lines().filter(|line| *line == "hello.txt").count();
    assert_eq!(files, 1, "{agent} made one commit: {log}");
    let head = git(
        &scratch,
        "code",
        &["log", "--all", "--format=%H", "-n", "1", "--", "hello.txt"],
    );
    let text = git(&scratch, "code", &["show", &format!("{}:hello.txt", head.trim())]);
    assert!(!text.is_empty(), "{agent}");
    if agent == "codex" {
        assert!(text.contains("PATH=") && !text.contains(CANARY), "{text}");
    }
    let denied = run("critic", one);
    assert_eq!(denied.code, 1, "{agent}: {}{}", denied.stdout, denied.stderr);
    assert!(denied.stdout.contains("was denied"), "{agent}: {}", denied.stdout);

    let before = server.requests().len();
    let thread = "default_fidelity=full; start -> work -> again -> exit; work [prompt=\"Write hello.\"]; \
                  again [prompt=\"Write it again.\"]";
    let continued = run("coder", thread);
    assert_eq!(
        continued.code, 0,
        "{agent}: {}{}",
        continued.stdout, continued.stderr
    );
    let requests = server.requests().split_off(before);
    // Each call is counted once, also by an agent that reports the tokens of its session.
    let calls = requests.iter().filter(|request| has_tools(request)).count();
    let used = &continued.result()["usage"]["input_tokens"];
    assert!(calls >= 3, "{agent}: {calls}");
    assert_eq!(
        used.as_u64(),
        Some(100 * calls as u64),
        "{agent}: {}",
        continued.stdout
    );
    let mut bodies = requests.iter().map(|request| request.body.to_string());
    let is_continued = |body: String| {
        // A summary of the run does not contain its prompts.
        let texts = ["Write hello.", "I wrote hello.txt.", "Write it again."];
        texts.iter().all(|text| body.contains(text))
    };
    assert!(bodies.any(is_continued), "{agent} did not continue its session");
}

#[test]
fn codex_writes_a_file_and_its_commands_see_no_key() {
    writes_and_is_denied(&Installed {
        agent: "codex",
        model: "gpt-5",
        tool: "exec_command",
        arguments: r#"{"cmd": "env > hello.txt"}"#,
    });
}

#[test]
fn claude_writes_a_file() {
    writes_and_is_denied(&Installed {
        agent: "claude",
        model: "claude-sonnet-4-5",
        tool: "Bash",
        arguments: r#"{"command": "echo hi > hello.txt"}"#,
    });
}

#[test]
fn gemini_writes_a_file() {
    writes_and_is_denied(&Installed {
        agent: "gemini",
        model: "gemini-2.5-pro",
        tool: "write_file",
        arguments: r#"{"file_path": "hello.txt", "content": "hi\n"}"#,
    });
}

#[test]
fn opencode_writes_a_file() {
    writes_and_is_denied(&Installed {
        agent: "opencode",
        model: "x/m",
        tool: "bash",
        arguments: r#"{"command": "echo hi > hello.txt", "description": "Writes a file"}"#,
    });
}

#[test]
fn pi_writes_a_file() {
    writes_and_is_denied(&Installed {
        agent: "pi",
        model: "x/m",
        tool: "write",
        arguments: r#"{"path": "hello.txt", "content": "hi\n"}"#,
    });
}
