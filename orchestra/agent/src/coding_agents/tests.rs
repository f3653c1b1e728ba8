//! The parsers, with recorded outputs of the agents.

use std::fs;
use std::path::Path;

use orchestra_config::{Access, AgentSettings, Preset, ReasoningEffort};
use orchestra_engine::FailureCategory;
use orchestra_engine::process::OutputStream;
use serde_json::json;

use crate::coding_agents::event::AgentParser;
use crate::coding_agents::invocation::StartRequest;
use crate::coding_agents::json_lines::{LineParser, LinePointers};
use crate::coding_agents::listener::OutputPart;
use crate::coding_agents::presets::{invocation, parser};
use crate::coding_agents::runner::read_line;
use crate::coding_agents::transcript::Transcript;
use crate::model::TokenUsage;

const ALL: [Preset; 5] = [
    Preset::Codex,
    Preset::Claude,
    Preset::Gemini,
    Preset::OpenCode,
    Preset::Pi,
];

fn read(parser: &mut dyn AgentParser, transcript: &mut Transcript, stream: OutputStream, text: &str) {
    for part in text.lines().flat_map(|line| read_line(parser, stream, line)) {
        match part {
            OutputPart::Event(event) => transcript.apply(event),
            OutputPart::Line(line) => transcript.complain(line),
        }
    }
}

/// Returns what an agent did in recordings of its output and error output.
fn transcript(preset: Preset, files: &[&str]) -> Transcript {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let (mut parser, mut transcript) = (parser(preset), Transcript::default());
    for file in files {
        let text = fs::read_to_string(folder.join(preset.word()).join(file)).unwrap();
        let stream = if file.ends_with(".stderr") {
            OutputStream::Stderr
        } else {
            OutputStream::Stdout
        };
        read(&mut *parser, &mut transcript, stream, &text);
    }
    transcript
}

/// Returns the code and the message of the failure in a recording.
fn failure(preset: Preset, files: &[&str]) -> (String, String, FailureCategory) {
    let transcript = transcript(preset, files);
    let failed = transcript.failure(preset.word());
    let error = failed.or_else(|| {
        transcript
            .answer(preset.word(), "its backend has `access: read`")
            .err()
    });
    let error = error.unwrap_or_else(|| panic!("{preset} {files:?} is no failure"));
    (
        error.code.clone().unwrap_or_default(),
        error.message,
        error.category,
    )
}

#[test]
fn an_edit_is_a_success_with_its_answer_session_and_tokens() {
    for preset in ALL {
        let transcript = transcript(preset, &["success.jsonl"]);
        assert!(transcript.failure("x").is_none(), "{preset}");
        let answer = transcript.answer("x", "help").unwrap();
        assert_eq!(answer, "I wrote hello.txt.", "{preset}");
        assert!(transcript.session.is_some(), "{preset}");
        let (tokens, cost, _) = transcript.usage(TokenUsage::default()).unwrap();
        // Two calls of 100 tokens, of which 40 are cached, and 20 tokens of output. Anthropic does not count the 45 cached
        // ones among the 100.
        let input = if preset == Preset::Claude { 290 } else { 200 };
        assert_eq!(
            (tokens.input, tokens.output, tokens.cached_input),
            (input, 40, 80),
            "{preset}"
        );
        let has_cost = matches!(preset, Preset::Claude | Preset::OpenCode | Preset::Pi);
        assert_eq!(cost.is_some(), has_cost, "{preset}");
    }
}

#[test]
fn a_patch_is_an_edit() {
    let transcript = transcript(Preset::Codex, &["denied-patch.stderr", "patch.jsonl"]);
    let denied = transcript.answer("codex", "help").unwrap_err();
    assert!(denied.message.contains("`apply_patch`"), "{}", denied.message);
}

#[test]
fn a_denied_edit_is_a_failure_that_names_it() {
    for (preset, files, names) in [
        (
            Preset::Codex,
            &["denied.stderr", "denied.jsonl"][..],
            ["`exec_command`", "`echo hi > hello.txt`"],
        ),
        (
            Preset::Codex,
            &["denied-patch.stderr", "denied.jsonl"],
            ["`apply_patch`", "read-only sandbox"],
        ),
        (
            Preset::Claude,
            &["denied.jsonl"],
            ["`Write`", "`/project/hello.txt`"],
        ),
        (
            Preset::Claude,
            &["denied-outside.jsonl"],
            ["`Write`", "`/etc/hello.txt`"],
        ),
        (Preset::Gemini, &["denied.jsonl"], ["`write_file`", "`hello.txt`"]),
        (
            Preset::OpenCode,
            &["denied.jsonl"],
            ["`write`", "`/project/hello.txt`"],
        ),
        (
            Preset::OpenCode,
            &["denied-shell.jsonl"],
            ["`bash`", "unavailable tool"],
        ),
        (Preset::Pi, &["denied.jsonl"], ["`write`", "`hello.txt`"]),
    ] {
        let (code, message, category) = failure(preset, files);
        assert_eq!(
            (code.as_str(), category),
            ("cli_denied", FailureCategory::Terminal),
            "{message}"
        );
        assert!(names.iter().all(|name| message.contains(name)), "{message}");
        assert!(message.contains("access: read"), "{message}");
    }
}

#[test]
fn a_denial_is_reported_once() {
    // Claude Code lists a denied call again in its last event.
    let transcript = transcript(Preset::Claude, &["denied-outside.jsonl"]);
    assert_eq!(format!("{transcript:?}").matches("Denied(").count(), 1);
}

#[test]
fn rejected_credentials_are_a_terminal_failure() {
    for preset in ALL {
        let (code, message, category) = failure(preset, &["401.jsonl"]);
        assert_eq!(
            (code.as_str(), category),
            ("cli_credentials", FailureCategory::Terminal),
            "{message}"
        );
        assert!(message.to_lowercase().contains("api key"), "{message}");
    }
}

#[test]
fn an_overloaded_model_is_tried_again() {
    for preset in [Preset::Codex, Preset::Claude, Preset::Pi] {
        let (code, message, category) = failure(preset, &["overloaded.jsonl"]);
        assert_eq!(
            (code.as_str(), category),
            ("cli_overloaded", FailureCategory::Retryable),
            "{message}"
        );
    }
}

#[test]
fn an_empty_answer_is_a_failure() {
    for preset in ALL {
        let (code, message, category) = failure(preset, &["empty.jsonl"]);
        // Gemini CLI says it itself.
        let expected = if preset == Preset::Gemini {
            "cli_failed"
        } else {
            "cli_empty"
        };
        assert_eq!(
            (code.as_str(), category),
            (expected, FailureCategory::Retryable),
            "{message}"
        );
        assert!(message.contains("empty"), "{message}");
    }
}

#[test]
fn output_that_is_cut_is_a_failure() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    for preset in ALL {
        let text = fs::read_to_string(folder.join(preset.word()).join("success.jsonl")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        // The last event alone ends the work, however many came before; pi repeats it.
        for length in 0..lines.len() {
            let (mut parser, mut transcript) = (parser(preset), Transcript::default());
            let cut = lines[..length].join("\n");
            read(&mut *parser, &mut transcript, OutputStream::Stdout, &cut);
            let error = transcript.answer("x", "help").unwrap_err();
            assert_eq!(
                error.code.as_deref(),
                Some("cli_output"),
                "{preset} {length}: {error}"
            );
        }
    }
}

#[test]
fn lines_that_are_not_known_are_skipped() {
    for preset in ALL {
        let (mut parser, mut transcript) = (parser(preset), Transcript::default());
        let noise = "noise\n{\"type\":\"new.event\",\"x\":[1]}\n{}\n{\"type\":7}\n{\"type\":\"item.completed\"}\n{cut\n\
                     {\"type\":\"user\"}\n{\"type\":\"tool_result\"}\n[]\nnull\n";
        read(&mut *parser, &mut transcript, OutputStream::Stdout, noise);
        assert!(
            transcript.failure("x").is_none() && transcript.session.is_none(),
            "{preset}"
        );
    }
}

#[test]
fn tokens_of_a_continued_session_are_counted_once() {
    for preset in ALL {
        let first = transcript(preset, &["success.jsonl"]);
        let second = transcript(preset, &["resumed.jsonl"]);
        assert_eq!(first.session, second.session, "{preset}");
        let (_, _, counted) = first.usage(TokenUsage::default()).unwrap();
        let (tokens, ..) = second.usage(counted).unwrap();
        // The second program of codex made two calls, those of the others one.
        let expected = match preset {
            Preset::Codex => (200, 40),
            Preset::Claude => (145, 20),
            _ => (100, 20),
        };
        assert_eq!((tokens.input, tokens.output), expected, "{preset}");
    }
}

#[test]
fn a_session_that_is_lost_is_no_work() {
    let lost = transcript(Preset::Claude, &["missing.jsonl"]);
    assert!(!lost.is_active);
    let error = lost.failure("claude").unwrap();
    assert_eq!(error.code.as_deref(), Some("cli_failed"));
    assert!(error.message.contains("No conversation found"), "{error}");
    assert!(transcript(Preset::Claude, &["success.jsonl"]).is_active);
}

#[test]
fn what_a_model_is_called_is_one_argument() {
    let nasty = "x; touch /tmp/y $(id) `id` 'q' \"q\" --yolo";
    for preset in ALL {
        for session in [None, Some("0f-1")] {
            let request = StartRequest {
                model: Some(nasty),
                provider: Some("openai"),
                effort: Some(ReasoningEffort::Low),
                access: Access::Write,
                settings: AgentSettings::None,
                session,
            };
            let arguments = invocation(preset, &request).arguments;
            let with = |part: &str| {
                let found = arguments.iter().filter(|argument| argument.contains(part));
                found.count()
            };
            assert_eq!(with(nasty), 1, "{arguments:?}");
            assert_eq!(with("touch"), 1, "{arguments:?}");
            assert_eq!(with("0f-1"), usize::from(session.is_some()), "{arguments:?}");
        }
    }
}

#[test]
fn access_and_settings_are_arguments() {
    let arguments = |preset, access, settings| {
        let request = StartRequest {
            model: None,
            provider: None,
            effort: None,
            access,
            settings,
            session: None,
        };
        invocation(preset, &request).arguments.join(" ")
    };
    for (preset, read, write, isolated) in [
        (
            Preset::Codex,
            "\"read-only\"",
            "\"workspace-write\"",
            "--ignore-user-config",
        ),
        (
            Preset::Claude,
            "--tools=Read,Grep,Glob",
            "--permission-mode=acceptEdits",
            "--setting-sources=",
        ),
        (Preset::Gemini, "plan", "yolo", "--extensions=none"),
        (Preset::OpenCode, "--agent plan", "--auto", "--pure"),
        (Preset::Pi, "--tools read,grep,find,ls", "", "--no-extensions"),
    ] {
        let reading = arguments(preset, Access::Read, AgentSettings::None);
        let writing = arguments(preset, Access::Write, AgentSettings::User);
        assert!(reading.contains(read) && reading.contains(isolated), "{reading}");
        assert!(
            !writing.contains(read) && !writing.contains(isolated),
            "{writing}"
        );
        assert!(writing.contains(write), "{writing}");
        assert!(write.is_empty() || !reading.contains(write), "{reading}");
    }
}

#[test]
fn another_agent_is_read_by_pointers() {
    let mut parser = LineParser::new(LinePointers {
        last: vec![("type".to_owned(), json!("result"))],
        result: "/text".to_owned(),
        session: Some("/session/id".to_owned()),
        input_tokens: Some("/usage/in".to_owned()),
        output_tokens: Some("/usage/out".to_owned()),
        cost: None,
    });
    let mut transcript = Transcript::default();
    let begin =
        "{\"type\":\"start\",\"session\":{\"id\":\"s1\"}}\n{\"type\":\"progress\",\"text\":\"Half.\"}\n";
    read(&mut parser, &mut transcript, OutputStream::Stdout, begin);
    assert_eq!(transcript.session.as_deref(), Some("s1"));
    let error = transcript.answer("own", "help").unwrap_err();
    assert_eq!(error.code.as_deref(), Some("cli_output"));
    let end = r#"{"type":"result","text":"Done.","usage":{"in":7,"out":3}}"#;
    read(&mut parser, &mut transcript, OutputStream::Stdout, end);
    assert_eq!(transcript.answer("own", "help").unwrap(), "Done.");
    let (tokens, ..) = transcript.usage(TokenUsage::default()).unwrap();
    assert_eq!((tokens.input, tokens.output), (7, 3));
    let failed = r#"{"type":"result","is_error":true,"text":"429 too many"}"#;
    read(&mut parser, &mut transcript, OutputStream::Stdout, failed);
    assert_eq!(
        transcript.failure("own").unwrap().code.as_deref(),
        Some("cli_overloaded")
    );
}
