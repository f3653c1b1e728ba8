//! Quick fixes: pressing one removes its diagnostic.

use serde_json::{Value, json};

use crate::client::{Client, applied, uri};

const CONFIGURATION: &str = "providers: {default: anthropic, anthropic: {models: {smart: claude-opus-4-6}}}\n\
                             agents: {writer: {}}\n";

/// Returns the diagnostics of a file with a code.
fn with_code(client: &Client, name: &str, code: &str) -> Vec<Value> {
    let list = client.diagnostics.get(&uri(name)).cloned().unwrap_or_default();
    list.into_iter().filter(|found| found["code"] == code).collect()
}

/// Requests the actions for the range of a diagnostic.
fn actions(client: &mut Client, name: &str, range: &Value, only: &[&str]) -> Vec<Value> {
    let mut context = json!({"diagnostics": []});
    if !only.is_empty() {
        context["only"] = json!(only);
    }
    let params = json!({"textDocument": {"uri": uri(name)}, "range": range, "context": context});
    let list = client.request("textDocument/codeAction", params);
    list.as_array().cloned().unwrap_or_default()
}

/// Applies an action to its document.
fn apply(client: &mut Client, name: &str, action: &Value) {
    let edits = action["edit"]["changes"][uri(name)].as_array().unwrap().clone();
    let text = applied(&client.texts[name], &edits);
    client.replace(name, &text);
}

/// Opens a file of a project, presses the quick fix of its diagnostic of a code, and returns the changed line.
#[track_caller]
fn press(files: &[(&str, &str)], name: &str, code: &str) -> String {
    let mut all = vec![("orchestra.yaml", CONFIGURATION)];
    all.retain(|(own, _)| files.iter().all(|(name, _)| name != own));
    all.extend(files);
    let mut client = Client::new(&all);
    let text = all.iter().find(|(own, _)| *own == name).unwrap().1;
    client.open(name, text);
    client.wait_for_diagnostics(name);
    let found = with_code(&client, name, code);
    let [diagnostic] = found.as_slice() else {
        panic!("{name} {code}: {:#?}", client.diagnostics);
    };
    let range = &diagnostic["range"];
    let list = actions(&mut client, name, range, &["quickfix"]);
    let action = list
        .iter()
        .find(|action| action["diagnostics"][0]["code"] == code);
    let action = action.unwrap_or_else(|| panic!("{name} {code}: {list:#?}"));
    assert_eq!(action["diagnostics"][0], *diagnostic);
    apply(&mut client, name, action);
    client.wait_for_diagnostics(name);
    assert_eq!(
        with_code(&client, name, code),
        Vec::<Value>::new(),
        "{}",
        client.texts[name]
    );
    let line = range["start"]["line"].as_u64().unwrap() as usize;
    client.texts[name]
        .lines()
        .nth(line)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// A pipeline around some attributes of a stage.
fn pipeline(attributes: &str) -> String {
    format!("digraph {{\n// ä\nstart -> work -> exit\nwork [prompt=\"x\", {attributes}]\n}}\n")
}

#[test]
fn a_quick_fix_removes_its_diagnostic() {
    for (attributes, code, fixed) in [
        ("agent=\"wirter\"", "unknown_agent", "agent=\"writer\""),
        ("agent=wirter", "unknown_agent", "agent=writer"),
        (
            "agent.role=\"tecnical-writer\"",
            "prompt_layer_missing",
            "\"technical-writer\"",
        ),
        (
            "label=\"ä\", agent.tools=\"grep, raed-file\"",
            "unknown_tool",
            "\"grep, read-file\"",
        ),
        ("lable=Work", "unknown_attribute", "label=Work"),
        ("label=Ship it?", "syntax_error", "label=\"Ship it?\""),
        (
            "retry_target=wrok",
            "retry_target_exists",
            "retry_target=\"work\"",
        ),
        ("backend=simulaton", "unknown_backend", "backend=simulation"),
        ("repo=\"apii\"", "unknown_repository", "repo=\"api\""),
    ] {
        let files = [
            ("a.dot", &*pipeline(attributes)),
            (
                "orchestra.yaml",
                &*format!("{CONFIGURATION}workspace: {{repos: {{api: {{path: ../api}}}}}}\n"),
            ),
        ];
        let line = press(&files, "a.dot", code);
        assert!(line.contains(fixed), "{code}: {line}");
    }
    for (text, code, fixed) in [
        (
            "diagraph x { start -> work -> exit; work [prompt=x] }",
            "syntax_error",
            "digraph x",
        ),
        (
            "digraph { start -> a; a [prompt=x]; a -> exit [condition=\"visits.aa > 1\"]; a -> a }",
            "condition_syntax",
            "visits.a > 1",
        ),
        (
            "digraph { assert=\"handled(wrok)\"; start -> work -> exit; work [prompt=x] }",
            "assertion_unknown_name",
            "handled(work)",
        ),
        (
            "digraph { assert=\"handlde(work)\"; start -> work -> exit; work [prompt=x] }",
            "assertion_syntax",
            "handled(work)",
        ),
        (
            "digraph { start -> ok; ok [shape=hexagon, human.default_choice=Stp]\n ok -> exit [label=Ship]; ok -> ok [label=Stop] }",
            "unknown_default_choice",
            "human.default_choice=\"Stop\"",
        ),
        (
            "digraph { prompt_templates=true; goal=x; start -> a -> exit; a [prompt=\"say \\\"ä\\\" {{ gaol }}\"] }",
            "template_variable",
            "{{ goal }}",
        ),
        (
            "digraph { start -> a -> exit\na [label=\"Build]\n}",
            "unterminated_string",
            "label=\"Build\"]",
        ),
    ] {
        let line = press(&[("a.dot", text)], "a.dot", code);
        assert!(line.contains(fixed), "{code}: {line}");
    }
}

#[test]
fn names_of_files_have_quick_fixes() {
    let child = ("lint.dot", "digraph { start -> exit }");
    let text = "digraph { start -> a -> exit; a [shape=folder, subpipeline.file=\"lnit.dot\"] }";
    let line = press(&[("a.dot", text), child], "a.dot", "child_not_found");
    assert!(line.contains("\"lint.dot\""), "{line}");
    let text = "digraph { start -> a -> exit; a [prompt=\"@prompts/pln.md\"] }";
    let line = press(
        &[("a.dot", text), ("prompts/plan.md", "Plan.")],
        "a.dot",
        "prompt_file",
    );
    assert!(line.contains("\"@prompts/plan.md\""), "{line}");
}

#[test]
fn yaml_documents_have_quick_fixes() {
    let pipeline = (
        "a.dot",
        "digraph { start -> a -> exit; a [agent.role=own, agent.task=own] }",
    );
    for (more, code, fixed) in [
        ("agnets: {}", "config_unknown_key", "agents: {}"),
        ("backend: \"drect\"", "unknown_backend", "backend: \"direct\""),
        (
            "tools: {run: {command: make}}\npipelines: {a: {provider: antropic}}",
            "unknown_provider",
            "anthropic",
        ),
    ] {
        let text = format!("{CONFIGURATION}{more}\n").replace("agents: {writer: {}}", "# ä");
        let line = press(&[("orchestra.yaml", &text)], "orchestra.yaml", code);
        assert!(line.contains(fixed), "{line}");
    }
    // Only a pipeline tells that a tool of an agent is unknown.
    let text = CONFIGURATION.replace("writer: {}", "writer: {tools: [raed-file]}");
    let line = press(
        &[pipeline, ("orchestra.yaml", &text)],
        "orchestra.yaml",
        "unknown_tool",
    );
    assert!(line.contains("[read-file]"), "{line}");
    let role = "role:\n  extends: tecnical-writer\n  system: Write.\n";
    let task = "task:\n  template: |\n    Write {{ gaol }}.\n";
    let layers = [
        pipeline,
        ("prompts/roles/own.yaml", role),
        ("prompts/tasks/own.yaml", task),
    ];
    let line = press(&layers, "prompts/roles/own.yaml", "prompt_layer_missing");
    assert_eq!(line, "extends: technical-writer");
    let line = press(&layers, "prompts/tasks/own.yaml", "template_variable");
    assert_eq!(line, "Write {{ goal }}.");
    let invalid = [
        pipeline,
        ("prompts/roles/own.yaml", "role:\n  sytem: x\n"),
        layers[2],
    ];
    let line = press(&invalid, "prompts/roles/own.yaml", "prompt_layer_invalid");
    assert_eq!(line, "system: x");
}

#[test]
fn all_certain_fixes_of_a_file_are_one_action() {
    let text = "strict digraph {\nstart -> work -> exit\nwork [lable=Work, agent=wirter, agent.tools=\"grpe, raed-file\" max_retries=1]\n}\n";
    let mut client = Client::new(&[("orchestra.yaml", CONFIGURATION)]);
    assert_eq!(
        client.initialized["capabilities"]["codeActionProvider"]["codeActionKinds"],
        json!(["quickfix", "source.fixAll"])
    );
    client.open("a.dot", text);
    client.wait_for_diagnostics("a.dot");
    let start = json!({"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 0}});
    assert_eq!(actions(&mut client, "a.dot", &start, &[]), Vec::<Value>::new());
    for only in ["source", "source.fixAll"] {
        let list = actions(&mut client, "a.dot", &start, &[only]);
        assert_eq!(list.len(), 1, "{only}: {list:#?}");
        assert_eq!(list[0]["kind"], "source.fixAll");
    }
    assert_eq!(
        actions(
            &mut client,
            "a.dot",
            &start,
            &["quickfix", "source.organizeImports"]
        ),
        Vec::<Value>::new()
    );
    // The first error hides what the configuration says about the pipeline.
    while let [action] = actions(&mut client, "a.dot", &start, &["source.fixAll"]).as_slice() {
        apply(&mut client, "a.dot", action);
        client.wait_for_diagnostics("a.dot");
    }
    // A text that is only inserted is not certain.
    assert_eq!(
        client.texts["a.dot"],
        "digraph {\nstart -> work -> exit\nwork [label=Work, agent=writer, agent.tools=\"grep, read-file\" max_retries=1]\n}\n"
    );
    let first = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}});
    client.replace("a.dot", text);
    let list = actions(&mut client, "a.dot", &first, &[]);
    let kinds: Vec<&Value> = list.iter().map(|action| &action["kind"]).collect();
    assert_eq!(kinds, ["quickfix", "source.fixAll"]);
    client.replace("a.dot", "strict digraph { start -> exit }");
    let list = actions(&mut client, "a.dot", &first, &[]);
    assert_eq!(list.len(), 1, "one fix needs no action for all");
}
