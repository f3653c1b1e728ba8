//! MCP servers in the configuration, and the lock file of their tools.

use orchestra_config::{Configuration, FileUse, MCP_LOCK_FILE, Project, Resolution, ResolveOptions};
use orchestra_graph::{ReadError, Source, load, render};

const LOCK: &str = r#"# comment
{
  "schema": "orchestra.mcp.lock/1",
  "servers": {
    "files": [
      {"name": "read_text_file", "description": "Reads.", "input_schema": {"type": "object"}, "sha256": "00"},
      {"name": "write_file", "description": "Writes.", "input_schema": {"type": "object"}, "sha256": "00"}
    ]
  }
}
"#;

const PROVIDERS: &str = "providers: {default: anthropic, anthropic: {models: {smart: claude-opus-4-6}}}\n";

/// Resolves a pipeline with one stage.
fn resolve(configuration: &str, lock: Option<&str>, attributes: &str) -> Resolution {
    let configuration = format!("{PROVIDERS}{configuration}");
    let files = |path: &str, _: u64| match (path, lock) {
        ("orchestra.yaml", _) => Ok(configuration.clone().into_bytes()),
        (MCP_LOCK_FILE, Some(lock)) => Ok(lock.as_bytes().to_vec()),
        _ => Err(ReadError::Missing),
    };
    let text = format!("digraph {{ start -> work -> exit; work [prompt=\"Do it.\", {attributes}] }}");
    let loaded = load(Source::new("a.dot", text), &Default::default());
    let options = ResolveOptions {
        reader: Some(&files),
        ..ResolveOptions::default()
    };
    Project::load("orchestra.yaml", &files).resolve_graph(&loaded.analysis(), &options)
}

fn text(resolution: &Resolution) -> String {
    resolution.reports.iter().map(render::concise).collect()
}

const FILES: &str = "mcp_servers:\n  files: {command: [files, .], tools: [read_text_file, write_file], read_only: [read_text_file]}\n";

#[test]
fn every_fault_of_a_server_is_reported_with_its_position() {
    let cases = [
        (
            "a: {tools: [x]}",
            "1:15",
            "the server `a` has neither a command nor an address",
        ),
        (
            "a: {command: [x], url: 'https://a', tools: [x]}",
            "1:38",
            "the server `a` has a command and an address",
        ),
        (
            "a: {command: [''], tools: [x]}",
            "1:29",
            "the program has no name",
        ),
        ("a: {command: npx files, tools: [x]}", "1:28", "expected a list"),
        (
            "a: {command: [x], tools: ['*']}",
            "1:41",
            "`*` is a pattern, and each tool is named by itself",
        ),
        (
            "a: {command: [x], tools: ['a b']}",
            "1:41",
            "`a b` is not a name of a tool",
        ),
        (
            "a: {command: [x], tools: [r, r]}",
            "1:44",
            "the tool `r` is named twice",
        ),
        (
            "a: {command: [x], tools: [a_b, a-b]}",
            "1:46",
            "`a_b` and `a-b` differ only in `-` and `_`",
        ),
        (
            "a: {command: [x], tools: [read], read_only: [raed]}",
            "1:60",
            "`raed` is not one of `tools`",
        ),
        (
            "a: {command: [x], tools: [r], environment: [A-B]}",
            "1:59",
            "`A-B` is not a valid environment variable name",
        ),
        (
            "a: {command: [x], tools: [r], start_timeout: soon}",
            "1:60",
            "expected a duration",
        ),
        (
            "a: {command: [x], tools: [r], timeout: 0s}",
            "1:54",
            "no server answers in no time",
        ),
        (
            "a: {command: [x], tools: [r], scope: rnu}",
            "1:52",
            "`rnu` is not known here",
        ),
        (
            "a: {command: [x], tools: [r], headers_env: {A: B}}",
            "1:59",
            "`headers_env` means nothing to a program",
        ),
        (
            "a: {url: ftp://a, tools: [r]}",
            "1:24",
            "`ftp://a` is not a valid address",
        ),
        (
            "a: {url: 'https://a', tools: [r], environment: [A]}",
            "1:63",
            "`environment` means nothing",
        ),
        (
            "a: {url: 'http://a/x', tools: [r], headers_env: {X: Y}}",
            "1:24",
            "the headers would be sent without encryption",
        ),
        (
            "a: {url: 'http://localhost:80@evil.example/', tools: [r], headers_env: {X: Y}}",
            "1:24",
            "the address holds a user name or a password",
        ),
        (
            "a: {url: 'https://user:password@a/x', tools: [r]}",
            "1:24",
            "the address holds a user name or a password",
        ),
        (
            "a: {url: 'https://a\\b/x', tools: [r]}",
            "1:24",
            "the host of the address contains `\\`",
        ),
        (
            "a: {url: 'http://localhost.evil.example', tools: [r], headers_env: {X: Y}}",
            "1:24",
            "the headers would be sent without encryption",
        ),
        (
            "a: {url: 'https://a', tools: [r], headers_env: {'a b': Y}}",
            "1:63",
            "`a b` is not a valid name of a header",
        ),
        (
            "a: {url: 'https://a', tools: [r], headers_env: {Accept: Y}}",
            "1:63",
            "the protocol itself sets the header",
        ),
        (
            "a: {url: 'https://a', tools: [r], headers_env: {X: Y-Z}}",
            "1:63",
            "`Y-Z` is not a valid environment variable name",
        ),
        (
            "'a b': {command: [x], tools: [r]}",
            "1:15",
            "`a b` is not a valid name of a server",
        ),
        (
            "a: {comand: [x], tools: [r], command: [x]}",
            "1:19",
            "unknown key `comand`",
        ),
    ];
    for (server, at, message) in cases {
        let (_, report) =
            Configuration::parse("orchestra.yaml", format!("mcp_servers: {{{server}}}").as_bytes());
        let text = render::concise(&report);
        assert!(
            text.contains(&format!("orchestra.yaml:{at}: error")),
            "{server}\n{text}"
        );
        assert!(text.contains(message), "{server}\n{text}");
    }
    let names = "workspace: {repos: {my-files: {path: ../files}}}\nmcp_servers:\n  my_files: {command: [x], tools: [r]}\n  my-files: {command: [x], tools: [r]}\n";
    let (_, report) = Configuration::parse("orchestra.yaml", names.as_bytes());
    let text = render::concise(&report);
    assert!(
        text.contains("the server `my_files` has the name of the repository `my-files`"),
        "{text}"
    );
    assert!(text.contains("differ only in `-` and `_`"), "{text}");
}

#[test]
fn sound_servers_have_no_faults() {
    let text = "mcp_servers:\n  files:\n    command: [mcp-server-filesystem, .]\n    tools: [read_text_file, write_file]\n    \
                read_only: [read_text_file]\n    environment: [FILES_TOKEN]\n    start_timeout: 20s\n    timeout: 60s\n    scope: run\n  \
                tracker: {url: 'https://tracker.example/mcp', headers_env: {Authorization: TRACKER_AUTH}, tools: [search]}\n  \
                local: {url: 'http://[::1]:8080/mcp', headers_env: {Authorization: TRACKER_AUTH}, tools: [search]}\n";
    let (configuration, report) = Configuration::parse("orchestra.yaml", text.as_bytes());
    assert_eq!(render::concise(&report), "");
    assert_eq!(configuration.mcp_servers["files"].command[1].as_str(), ".");
}

#[test]
fn a_stage_has_the_tools_that_its_agent_names() {
    let agent = format!("{FILES}agents: {{critic: {{only_tools: [read-file, \"files:read_text_file\"]}}}}\n");
    let resolution = resolve(&agent, Some(LOCK), "agent=critic");
    assert_eq!(text(&resolution), "");
    let stage = resolution.stage("work").expect("a model stage");
    assert_eq!(stage.tools, ["files:read-text-file", "read-file"]);
    let (configuration, _) = Configuration::parse("orchestra.yaml", agent.as_bytes());
    assert!(!stage.may_write(|tool| configuration.tool_is_read_only(tool)));
    assert!(!configuration.tool_is_read_only("files:write_file"));
    let found = FileUse {
        path: MCP_LOCK_FILE.to_owned(),
        found: true,
    };
    assert!(
        resolution.files.contains(&found),
        "a program is built anew when the lock file changes"
    );
}

#[test]
fn without_a_lock_file_the_message_names_the_command() {
    let resolution = resolve(FILES, None, "backend=simulation");
    let text = text(&resolution);
    assert!(
        text.contains(
            "orchestra.yaml:3:3: error[mcp_not_locked]: the tools of the server `files` are not locked"
        ),
        "{text}"
    );
    let help = resolution.reports[0].diagnostics[0].help.as_deref();
    assert!(help.is_some_and(|help| help.contains("orchestra mcp lock")));
    let missing = FileUse {
        path: MCP_LOCK_FILE.to_owned(),
        found: false,
    };
    assert!(resolution.files.contains(&missing));
}

#[test]
fn a_server_without_tools_is_told_which_there_are() {
    let resolution = resolve(
        "mcp_servers: {files: {command: [files]}}\n",
        Some(LOCK),
        "backend=simulation",
    );
    let diagnostic = &resolution.reports[0].diagnostics[0];
    assert_eq!(diagnostic.message, "the server `files` names no tools");
    let help = diagnostic.help.as_deref().expect("a help");
    assert!(
        help.ends_with("write one of `read_text_file`, `write_file`"),
        "{help}"
    );
}

#[test]
fn misspelt_tools_are_found_offline() {
    let misspelt = FILES.replace(
        "tools: [read_text_file,",
        "tools: [read_txt_file, read_text_file,",
    );
    let resolution = resolve(&misspelt, Some(LOCK), "backend=simulation");
    let listed = text(&resolution);
    assert!(
        listed.contains(
            "orchestra.yaml:3:40: error[mcp_unknown_tool]: the server `files` has no tool `read_txt_file`"
        ),
        "{listed}"
    );
    assert!(format!("{:?}", resolution.reports).contains("did you mean `read_text_file`?"));

    let agent = format!("{FILES}agents: {{critic: {{only_tools: [\"files:read_txt_file\"]}}}}\n");
    let resolution = resolve(&agent, Some(LOCK), "agent=critic");
    let listed = text(&resolution);
    assert!(
        listed.contains("orchestra.yaml:4:33: error[unknown_tool]: unknown tool `files:read_txt_file`"),
        "{listed}"
    );
    assert!(
        format!("{:?}", resolution.reports).contains("did you mean `files:read_text_file`?"),
        "{:?}",
        resolution.reports
    );

    let resolution = resolve(FILES, Some(LOCK), "agent.tools=\"files:write_fil\"");
    assert!(
        text(&resolution).contains("a.dot:1:70: error[unknown_tool]"),
        "{}",
        text(&resolution)
    );
}

#[test]
fn a_lock_file_that_cannot_be_read_is_reported_at_its_position() {
    for (lock, at) in [
        (
            "# a\n{\"schema\": \"orchestra.mcp.lock/2\", \"servers\": {}}",
            "2:1",
        ),
        ("{\n  \"servers\": <<<<", "2:14"),
        ("", "1:1"),
    ] {
        let resolution = resolve(FILES, Some(lock), "backend=simulation");
        let text = text(&resolution);
        assert!(
            text.contains(&format!("orchestra.mcp.lock:{at}: error[mcp_lock_invalid]")),
            "{lock}\n{text}"
        );
        assert!(!text.contains("mcp_not_locked"), "{text}");
    }
}
