//! Tests of the cli backend with real programs that act as agents.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use orchestra_agent::{CliBackend, CliOutput, CliPointers, CliSettings, PromptInput};
use orchestra_engine::{Engine, EventKind, FailureCategory, RunEvent, RunResult, RunStatus};
use orchestra_graph::{Source, load};

/// An agent that reads its prompt, edits a file of the repository and writes its status.
const AGENT: &str = r#"#!/bin/sh
set -eu
prompt=$(cat)
case "$prompt" in
*'Fix the greeting'*) ;;
*) echo "I do not understand: $prompt" >&2; exit 2 ;;
esac
sed -i 's/helo/hello/' greeting.txt
cat >"$ORCHESTRA_STATUS_FILE" <<END
{"outcome": "success", "preferred_label": "Ship", "context_updates": {"fixed_by_$ORCHESTRA_NODE_ID": "${ORCHESTRA_MODEL-any}"}, "notes": "one word"}
END
echo "Working as ${ORCHESTRA_MODEL-any} of ${ORCHESTRA_PROVIDER-any} (${ORCHESTRA_REASONING_EFFORT-any}) on $ORCHESTRA_NODE_ID." >&2
echo "The greeting is right now."
"#;

/// Returns digits that no other process on this machine has in its arguments.
fn token() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!(
        "8{:07}{:05}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Returns the ids of the processes with a text in their arguments.
fn processes_with(token: &str) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(token.len()).any(|part| part == token.as_bytes())
        })
        .collect()
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns a pipeline whose first model stage has these attributes.
fn pipeline(attributes: &str) -> orchestra_graph::Pipeline {
    let text = format!(
        "digraph {{
            goal = \"greetings\"
            start -> fix
            fix [prompt=\"Fix the greeting.\"{attributes}]
            fix -> ship [label=Ship]
            fix -> exit [label=Stop]
            ship [prompt=\"Fix the greeting, again.\"]
            ship -> exit
        }}"
    );
    load(Source::new("a.dot", &text), &Default::default())
        .pipeline()
        .unwrap()
}

/// Runs the pipeline with an agent. Returns the result and the events.
async fn run(settings: CliSettings, attributes: &str) -> (RunResult, Vec<RunEvent>) {
    let engine = Engine::builder()
        .backend(CliBackend::new(settings))
        .build()
        .unwrap();
    let run = engine.start(pipeline(attributes), ()).await.unwrap();
    let mut stream = run.events();
    let result = run.wait().await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = stream.recv().await {
        events.push((*event).clone());
    }
    (result, events)
}

/// Returns the failure reason of the first stage, and its category.
async fn failure(settings: CliSettings, attributes: &str) -> (String, FailureCategory) {
    let (result, events) = run(settings, attributes).await;
    assert_eq!(result.status, RunStatus::Fail, "{result:?}");
    let failed = events.iter().find_map(|event| match &event.kind {
        EventKind::StageFailed { error, category, .. } => Some((error.clone(), *category)),
        _ => None,
    });
    failed.unwrap()
}

fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("greeting.txt"), "helo\n").unwrap();
    fs::write(folder.path().join("agent.sh"), AGENT).unwrap();
    folder
}

fn agent(folder: &Path) -> CliSettings {
    CliSettings::new("sh agent.sh")
        .working_dir(folder)
        .grace(Duration::from_millis(200))
}

#[tokio::test]
async fn a_program_around_whose_tool_calls_no_hook_can_run_is_not_started() {
    let folder = repository();
    let hook = ", \"tool_hooks.pre\"=\"exit 1\"";
    let (error, category) = failure(agent(folder.path()), hook).await;
    assert!(error.contains("`tool_hooks.pre` does not run"), "{error}");
    assert_eq!(category, FailureCategory::Terminal);
    let text = fs::read_to_string(folder.path().join("greeting.txt")).unwrap();
    assert_eq!(text, "helo\n");
}

#[tokio::test]
async fn an_agent_reads_its_prompt_works_and_writes_its_status() {
    let folder = repository();
    let attributes = ", llm_model=small, llm_provider=acme, reasoning_effort=low";
    let (result, _) = run(agent(folder.path()), attributes).await;
    assert_eq!(result.status, RunStatus::Success, "{result:?}");
    assert_eq!(
        fs::read_to_string(folder.path().join("greeting.txt")).unwrap(),
        "hello\n"
    );
    assert_eq!(result.context.text("fixed_by_fix"), "small");
    assert_eq!(result.context.text("fixed_by_ship"), "any");
    assert_eq!(result.context.text("last_response"), "The greeting is right now.");
    assert!(
        result.path.iter().any(|node| node == "ship"),
        "the label that the agent prefers is followed"
    );
}

#[tokio::test]
async fn the_prompt_may_come_in_a_file_and_says_nothing_to_the_shell() {
    let folder = repository();
    let settings = CliSettings::new(r#"cat "$ORCHESTRA_PROMPT_FILE"; cat"#).input(PromptInput::File);
    let text = r#"digraph { start -> say -> exit; say [prompt="$(touch planted) `touch planted` ; touch planted"] }"#;
    let pipeline = load(Source::new("a.dot", text), &Default::default())
        .pipeline()
        .unwrap();
    let backend = CliBackend::new(settings.working_dir(folder.path()));
    let engine = Engine::builder().backend(backend).build().unwrap();
    let result = engine.start(pipeline, ()).await.unwrap().wait().await.unwrap();
    assert_eq!(
        result.context.text("last_response"),
        "$(touch planted) `touch planted` ; touch planted"
    );
    assert!(!folder.path().join("planted").exists());
}

#[tokio::test]
async fn json_gives_the_answer_and_what_it_took() {
    let pointers = || CliPointers {
        result: "/answer/text".to_owned(),
        is_error: Some("/is_error".to_owned()),
        input_tokens: Some("/usage/in".to_owned()),
        output_tokens: Some("/usage/out".to_owned()),
        cost: Some("/cost".to_owned()),
    };
    let json = |text: &str| {
        CliSettings::new(format!("cat >/dev/null; cat <<'END'\n{text}\nEND"))
            .output(CliOutput::Json(pointers()))
    };
    let reported = r#"{"event": "begins"}
{"answer": {"text": "Done."}, "usage": {"in": 1000, "out": 50}, "cost": 0.0123}"#;
    let (result, events) = run(json(reported), "").await;
    assert_eq!(result.status, RunStatus::Success);
    assert_eq!(result.context.text("last_response"), "Done.");
    let usages: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::StageCompleted { usage, .. } => usage.clone().filter(|usage| !usage.is_empty()),
            _ => None,
        })
        .map(|usage| (usage.input_tokens, usage.output_tokens, usage.cost_micros))
        .collect();
    assert_eq!(usages, [(1_000, 50, 12_300)]);

    for (text, reported) in [
        (
            "no JSON at all",
            "the program was to write JSON, and did not: no JSON at all",
        ),
        (
            r#"{"answer": {}}"#,
            "the JSON of the program has no answer at `/answer/text`: {\"answer\": {}}",
        ),
        (
            r#"{"answer": {"text": "out of credit"}, "is_error": true}"#,
            "the program says that it failed: out of credit",
        ),
    ] {
        assert_eq!(
            failure(json(text), "").await,
            (reported.to_owned(), FailureCategory::Retryable)
        );
    }
}

#[tokio::test]
async fn what_a_failed_agent_used_counts() {
    let pointers = CliPointers {
        input_tokens: Some("/in".to_owned()),
        ..CliPointers::default()
    };
    let settings =
        CliSettings::new(r#"echo '{"in": 7}'; echo 'no luck' >&2; exit 4"#).output(CliOutput::Json(pointers));
    let (result, events) = run(settings, "").await;
    assert_eq!(result.status, RunStatus::Fail);
    let used: u64 = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::StageFailed { usage, .. } => usage.clone(),
            _ => None,
        })
        .map(|usage| usage.input_tokens)
        .sum();
    assert_eq!(used, 7);
}

#[tokio::test]
async fn an_agent_that_fails_is_a_failure_with_its_last_words() {
    let many = "for at in 1 2 3 4 5 6 7; do echo \"line $at\" >&2; done; echo out; exit 3";
    for (command, reported) in [
        (
            many,
            "the program failed: exit code 3: line 3\nline 4\nline 5\nline 6\nline 7",
        ),
        (
            "echo only out; exit 1",
            "the program failed: exit code 1: only out",
        ),
        ("exit 9", "the program failed: exit code 9"),
        ("kill -s KILL $$", "the program was killed by signal 9"),
    ] {
        assert_eq!(
            failure(CliSettings::new(command), "").await,
            (reported.to_owned(), FailureCategory::Retryable)
        );
    }
    let (reported, category) = failure(CliSettings::new("no-such-agent-anywhere --print"), "").await;
    assert!(
        reported.starts_with("the program cannot be run: exit code 127: "),
        "{reported}"
    );
    assert_eq!(category, FailureCategory::Terminal);
    let missing = CliSettings::new("true").working_dir("/no/such/folder");
    let (reported, category) = failure(missing, "").await;
    assert!(
        reported.starts_with("cannot run in the directory /no/such/folder"),
        "{reported}"
    );
    assert_eq!(category, FailureCategory::Terminal);
}

#[tokio::test]
async fn the_environment_is_an_allow_list() {
    let secret = std::env::var("CARGO_PKG_DESCRIPTION").unwrap();
    let (closed, _) = run(CliSettings::new("env | grep CARGO_PKG || echo none"), "").await;
    assert_eq!(closed.context.text("last_response"), "none");
    let open = CliSettings::new("echo $CARGO_PKG_DESCRIPTION").inherit_env(["CARGO_PKG_DESCRIPTION"]);
    let (open, _) = run(open, "").await;
    assert_eq!(open.context.text("last_response"), secret);
}

/// Agents that resist termination. `@` is replaced by a sleep of half an hour with the token in its arguments.
const HOSTILE: [(&str, &str); 5] = [
    ("hangs", "echo ready >ready; @"),
    ("ignores TERM", "trap '' TERM; echo ready >ready; @; @"),
    ("forks", "@ & (trap '' TERM; @; @) & echo ready >ready; @"),
    (
        "opens a session",
        "setsid sh -c 'trap \"\" TERM; echo ready >ready; @; @' & @",
    ),
    (
        "forks twice",
        "(setsid sh -c '(trap \"\" TERM; @; @) & echo ready >ready' &); @",
    ),
];

#[tokio::test]
async fn out_of_time_nothing_of_an_agent_is_left() {
    for (name, script) in HOSTILE {
        let (folder, token) = (repository(), token());
        let command = script.replace('@', &format!("sleep 1800.{token}"));
        // Either limit ends the program: that of the backend, and that of the node.
        for (limit, attributes, reported) in [
            (
                Some(Duration::from_millis(500)),
                "",
                "the program did not end within 500ms",
            ),
            (None, ", timeout=500ms", "timed out after 500ms"),
        ] {
            let mut settings = CliSettings::new(&command)
                .working_dir(folder.path())
                .grace(Duration::from_millis(100));
            if let Some(limit) = limit {
                settings = settings.timeout(limit);
            }
            let (reason, category) = failure(settings, attributes).await;
            assert!(reason.contains(reported), "{name}: {reason}");
            assert_eq!(category, FailureCategory::Retryable, "{name}");
            eventually(name, || processes_with(&token).is_empty()).await;
        }
    }
}

#[tokio::test]
async fn cancelled_nothing_of_an_agent_is_left() {
    for (name, script) in HOSTILE {
        let (folder, token) = (repository(), token());
        let command = script.replace('@', &format!("sleep 1800.{token}"));
        let settings = CliSettings::new(command)
            .working_dir(folder.path())
            .grace(Duration::from_millis(100));
        let engine = Engine::builder()
            .backend(CliBackend::new(settings))
            .build()
            .unwrap();
        let run = engine.start(pipeline(""), ()).await.unwrap();
        let canceller = run.canceller();
        let ready = folder.path().join("ready");
        let (result, ()) = tokio::join!(run.wait(), async {
            eventually(name, || ready.exists() && !processes_with(&token).is_empty()).await;
            canceller.cancel("no longer wanted");
        });
        assert_eq!(result.unwrap().status, RunStatus::Cancelled, "{name}");
        eventually(name, || processes_with(&token).is_empty()).await;
    }
}
