//! Tests of the changes that diagnostics propose: each one removes its diagnostic, and each "did you mean" has one.

use std::collections::BTreeMap;

use orchestra_config::{Agent, Project, ResolveOptions, rules};
use orchestra_graph::{ChildReader, Diagnostic, LoadOptions, ReadError, Report, Source, load};

const CONFIGURATION: &str =
    "providers: {default: anthropic, anthropic: {models: {smart: claude-opus-4-6}}}\n";
const PIPELINE: &str = "digraph release {\n    write [prompt=Write]\n    start -> write -> exit\n}\n";

/// Files in memory.
#[derive(Clone)]
struct Files(BTreeMap<String, String>);

impl ChildReader for Files {
    fn read(&self, path: &str, _: u64) -> Result<Vec<u8>, ReadError> {
        let text = self.0.get(path).map(|text| text.as_bytes().to_vec());
        text.ok_or(ReadError::Missing)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let prefix = format!("{folder}/");
        let names = self.0.keys().filter_map(|path| path.strip_prefix(&prefix));
        names.map(str::to_owned).collect()
    }
}

/// Returns the default files, with these in addition.
fn files(more: &[(&str, &str)]) -> Files {
    let default = [("orchestra.yaml", CONFIGURATION), ("a.dot", PIPELINE)];
    let all = default.iter().chain(more);
    Files(
        all.map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect(),
    )
}

/// Returns the reports about the files.
fn reports(files: &Files) -> Vec<Report> {
    let project = Project::load("orchestra.yaml", files);
    let loaded = load(Source::new("a.dot", &*files.0["a.dot"]), &LoadOptions::default());
    let own = Agent {
        role: Some("no-such-role".to_owned().into()),
        ..Agent::default()
    };
    let options = ResolveOptions {
        reader: Some(files),
        agents: [("no-such-role".to_owned(), own)].into(),
        ..ResolveOptions::default()
    };
    project.resolve_graph(&loaded.analysis(), &options).reports
}

/// Returns the files after the fix of a diagnostic of one of them.
fn fixed(files: &Files, path: &str, diagnostic: &Diagnostic) -> Option<Files> {
    let fix = diagnostic.fix.as_ref()?;
    let mut files = files.clone();
    let text = files.0.get_mut(path)?;
    text.replace_range(fix.span.start as usize..fix.span.end as usize, &fix.replacement);
    Some(files)
}

/// Returns the diagnostics that suggest something without a fix, or whose fix does not remove them.
fn without_fixes(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for report in reports(files) {
        let path = report.source.name();
        for diagnostic in &report.diagnostics {
            let help = diagnostic.help.as_deref().unwrap_or_default();
            let shown = format!("{path} {} {}", diagnostic.code, diagnostic.message);
            let Some(fixed) = fixed(files, path, diagnostic) else {
                if help.contains("did you mean") {
                    wrong.push(format!("no fix: {shown}"));
                }
                continue;
            };
            let left = reports(&fixed).into_iter().flat_map(|report| report.diagnostics);
            let mut left = left.filter(|left| left.code == diagnostic.code);
            if left.any(|left| left.message == diagnostic.message) {
                wrong.push(format!("not fixed: {shown}"));
            }
        }
    }
    wrong
}

#[test]
fn the_fixes_of_every_page_remove_their_diagnostics() {
    let mut wrong = Vec::new();
    for page in rules() {
        let blocks: Vec<(Vec<&str>, &str)> = page
            .text
            .split("```")
            .skip(1)
            .step_by(2)
            .filter_map(|block| block.split_once('\n'))
            .map(|(head, text)| (head.split_whitespace().collect(), text))
            .collect();
        let beside: Vec<(&str, &str)> = blocks
            .iter()
            .filter_map(|(words, text)| match words.as_slice() {
                [_, "file", path] => Some((*path, *text)),
                _ => None,
            })
            .collect();
        for (words, text) in &blocks {
            let path = match words.as_slice() {
                ["dot", "bad", _] => "a.dot",
                [_, "bad", _] => "orchestra.yaml",
                [_, "bad", path, _] => path,
                _ => continue,
            };
            let mut files = files(&beside);
            files.0.insert(path.to_owned(), (*text).to_owned());
            let found = without_fixes(&files).into_iter();
            wrong.extend(found.map(|wrong| format!("{}: {wrong}", page.code)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Asserts that the only diagnostic of a code is in this file, underlines this text, and is fixed by this replacement.
#[track_caller]
fn fixes(files: &Files, path: &str, code: &str, underlined: &str, replacement: &str) {
    let reports = reports(files);
    let all = reports.iter().flat_map(|report| {
        report
            .diagnostics
            .iter()
            .map(move |diagnostic| (report, diagnostic))
    });
    let found: Vec<_> = all.filter(|(_, diagnostic)| diagnostic.code == code).collect();
    let [(report, diagnostic)] = found.as_slice() else {
        panic!("{reports:#?}");
    };
    let fix = diagnostic
        .fix
        .as_ref()
        .unwrap_or_else(|| panic!("{diagnostic:#?}"));
    let slice = |span| report.source.slice(span);
    assert_eq!(
        (
            report.source.name(),
            slice(diagnostic.span),
            slice(fix.span),
            &*fix.replacement
        ),
        (path, underlined, underlined, replacement)
    );
    assert_eq!(without_fixes(files), Vec::<String>::new());
}

#[test]
fn names_in_pipelines_are_fixed() {
    let configuration = "providers: {default: anthropic, anthropic: {models: {smart: claude-opus-4-6}}}\n\
                         backends: {other: {kind: agent}}\n\
                         agents: {writer: {}, the critic: {}}\n\
                         workspace: {repos: {api: {path: ../api}}}\n";
    let own_role = ("prompts/roles/house-writer.yaml", "role: {system: Write.}");
    let work = |attributes: &str, code: &str, underlined: &str, replacement: &str| {
        let text = format!("digraph {{ start -> a -> exit; a [prompt=x, {attributes}] }}");
        let files = files(&[("orchestra.yaml", configuration), ("a.dot", &text), own_role]);
        fixes(&files, "a.dot", code, underlined, replacement);
    };
    work("agent=\"wirter\"", "unknown_agent", "wirter", "writer");
    work("agent=wirter", "unknown_agent", "wirter", "writer");
    work("agent=\" wirter \"", "unknown_agent", "wirter", "writer");
    work("agent=thecritic", "unknown_agent", "thecritic", "\"the critic\"");
    work(
        "agent.role=\"tecnical-writer\"",
        "prompt_layer_missing",
        "tecnical-writer",
        "technical-writer",
    );
    work(
        "agent.role=\"house-wirter\"",
        "prompt_layer_missing",
        "house-wirter",
        "house-writer",
    );
    work(
        "agent.tools=\"grep, raed-file,shell\"",
        "unknown_tool",
        "raed-file",
        "read-file",
    );
    work("agent.tools=grpe", "unknown_tool", "grpe", "grep");
    work("agent.tools=\"\\tgrpe\"", "unknown_tool", "grpe", "grep");
    work(
        "agent.tools=\"read_fil\"",
        "unknown_tool",
        "read_fil",
        "read-file",
    );
    work("backend=\"othr\"", "unknown_backend", "othr", "other");
    work(
        "llm_provider=antropic",
        "unknown_provider",
        "antropic",
        "anthropic",
    );
    work(
        "llm_provider=\"antropic\"",
        "unknown_provider",
        "antropic",
        "anthropic",
    );
    work("repo=\"apii\"", "unknown_repository", "apii", "api");
    let sheet =
        "digraph { model_stylesheet=\"* { llm_provider: antropic; }\"; start -> a -> exit; a [prompt=x] }";
    let files = files(&[("orchestra.yaml", configuration), ("a.dot", sheet)]);
    fixes(&files, "a.dot", "unknown_provider", "antropic", "anthropic");
}

#[test]
fn a_name_that_is_not_written_where_it_is_reported_has_no_fix() {
    // The agent of the program has the same name as its role, which the pipeline cannot change.
    let text = "digraph { start -> a -> exit; a [prompt=x, agent=\"no-such-role\"] }";
    let role = ("prompts/roles/no-such-rule.yaml", "role: {system: Write.}");
    let reports = reports(&files(&[("a.dot", text), role]));
    let diagnostics: Vec<&Diagnostic> = reports.iter().flat_map(|report| &report.diagnostics).collect();
    assert_eq!(diagnostics.len(), 1, "{diagnostics:#?}");
    assert_eq!(
        diagnostics[0].help.as_deref(),
        Some("did you mean `no-such-rule`?")
    );
    assert_eq!(diagnostics[0].fix, None);
}

#[test]
fn a_run_proposes_no_changes_of_its_text() {
    let text = "digraph { start -> grpe -> exit; grpe [prompt=x, agent.tools=grpe] }";
    let files = files(&[("a.dot", text)]);
    let loaded = load(Source::new("a.dot", text), &LoadOptions::default());
    let pipeline = loaded.pipeline().expect("it is sound");
    let options = ResolveOptions {
        reader: Some(&files),
        ..ResolveOptions::default()
    };
    let reports = Project::load("orchestra.yaml", &files)
        .resolve(&pipeline, &options)
        .reports;
    let mut diagnostics = reports.iter().flat_map(|report| &report.diagnostics);
    let tool = diagnostics
        .find(|diagnostic| diagnostic.code == "unknown_tool")
        .expect("it is unknown");
    assert_eq!(tool.fix, None);
}

#[test]
fn names_in_yaml_are_fixed() {
    let yaml = |more: &str, code: &str, underlined: &str, replacement: &str| {
        let text = format!("{CONFIGURATION}{more}\n");
        fixes(
            &files(&[("orchestra.yaml", &text)]),
            "orchestra.yaml",
            code,
            underlined,
            replacement,
        );
    };
    yaml("backend: drect", "unknown_backend", "drect", "direct");
    yaml("backend: \"drect\"", "unknown_backend", "drect", "direct");
    yaml("backend: 'drect'", "unknown_backend", "drect", "direct");
    yaml("agnets: {}", "config_unknown_key", "agnets", "agents");
    yaml("\"agnets\": {}", "config_unknown_key", "agnets", "agents");
    yaml(
        "agents:\n  critic:\n    personna: strict\n",
        "config_unknown_key",
        "personna",
        "persona",
    );
    yaml(
        "agents: {critic: {tools: [grep, 'raed-file']}}",
        "unknown_tool",
        "raed-file",
        "read-file",
    );
    yaml(
        "agents: {critic: {tools: [read_fil]}}",
        "unknown_tool",
        "read_fil",
        "read-file",
    );
    yaml(
        "agents: {critic: {mode: interactiv}}",
        "config_value",
        "interactiv",
        "interactive",
    );
    yaml(
        "agents: {critic: {provider: antropic}}",
        "unknown_provider",
        "antropic",
        "anthropic",
    );
    yaml(
        "workspace: {repos: {api: {path: ../api}}, tools: {apii: {lint: {command: make}}}}",
        "config_value",
        "apii",
        "api",
    );
}

#[test]
fn names_in_prompt_layers_and_templates_are_fixed() {
    let role = "role:\n  extends: \"tecnical-writer\"\n  system: Write.\n";
    let text = "digraph { start -> a -> exit; a [prompt=x, agent.role=own] }";
    let with_role = files(&[("a.dot", text), ("prompts/roles/own.yaml", role)]);
    let path = "prompts/roles/own.yaml";
    fixes(
        &with_role,
        path,
        "prompt_layer_missing",
        "tecnical-writer",
        "technical-writer",
    );
    let with_key = files(&[
        ("a.dot", text),
        (path, "role:\n  sytem: Write.\n  system: Write.\n"),
    ]);
    fixes(&with_key, path, "prompt_layer_invalid", "sytem", "system");
    let task = |body: &str, code: &str, underlined: &str, replacement: &str| {
        let text = "digraph { inputs=\"version\"; start -> a -> exit; a [agent.task=own] }";
        let layer = format!("task:\n  template: {body}\n");
        let files = files(&[("a.dot", text), ("prompts/tasks/own.yaml", &layer)]);
        fixes(&files, "prompts/tasks/own.yaml", code, underlined, replacement);
    };
    task(
        "|\n    One\n    two {{ verison }}",
        "template_variable",
        "verison",
        "version",
    );
    task("\"One {{ verison }}\"", "template_variable", "verison", "version");
    task(
        "'{{ context.version }}'",
        "template_variable",
        "context.version",
        "version",
    );
    task(
        "'{{ human[\"gaet\"].text }}'",
        "template_variable",
        "human[\"gaet\"].text",
        "human.gate.text",
    );
    task(
        "'{{ stages.aa.response }}'",
        "template_variable",
        "stages.aa.response",
        "stages.a.response",
    );
    task(
        "'{{ stages.a.respnse }}'",
        "template_variable",
        "stages.a.respnse",
        "stages.a.response",
    );
    task("'{{ version | uper }}'", "template_syntax", "uper", "upper");
    // Of a folded or escaped line, the place is not known.
    let escaped = files(&[
        (
            "a.dot",
            "digraph { inputs=version; start -> a -> exit; a [agent.task=own] }",
        ),
        (
            "prompts/tasks/own.yaml",
            "task:\n  template: \"\\x41 {{ verison }}\"\n",
        ),
    ]);
    let found = reports(&escaped)
        .into_iter()
        .flat_map(|report| report.diagnostics)
        .next();
    assert_eq!(found.expect("it is unknown").fix, None);
}

#[test]
fn names_in_prompts_are_fixed() {
    let prompt = |prompt: &str, underlined: &str, replacement: &str| {
        let text = format!(
            "digraph {{ goal=\"a long goal\"; prompt_templates=true; inputs=\"version\"\n\
             start -> a -> exit; a [prompt=\"{prompt}\"] }}"
        );
        fixes(
            &files(&[("a.dot", &text)]),
            "a.dot",
            "template_variable",
            underlined,
            replacement,
        );
    };
    prompt("Write {{ verison }}.", "verison", "version");
    prompt("Say \\\"it\\\"\\n{{ verison }}.", "verison", "version");
    prompt("Of $goal, and $goal: {{ verison }}", "verison", "version");
    prompt("{{ verison }} of $goal", "verison", "version");
    prompt("$goal{{ context.version }}$goal", "context.version", "version");
}
