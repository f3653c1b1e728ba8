//! Tests of the values that tool stages give to their commands (rule T6).

use orchestra_graph::{LoadOptions, Loaded, Source, load};

/// Loads a pipeline whose tool stage `a` has these attributes.
fn with(graph: &str, attributes: &str) -> Loaded {
    let text = format!(
        "digraph t {{ graph [{graph}]\nstart [shape=Mdiamond]; exit [shape=Msquare]\n\
         plan [type=plan, outputs=\"plan: text, note: text?\"]\n\
         a [shape=parallelogram, tool_command=true, {attributes}]\nstart -> plan -> a -> exit }}"
    );
    load(Source::new("t.dot", text), &LoadOptions::default())
}

/// Returns the diagnostics as `CODE TEXT: MESSAGE`, where `TEXT` is the place in the file.
fn found(loaded: &Loaded) -> Vec<String> {
    let diagnostics = loaded.report.diagnostics.iter();
    diagnostics
        .map(|diagnostic| {
            let place = loaded.source.slice(diagnostic.span);
            format!("{} {place}: {}", diagnostic.code, diagnostic.message)
        })
        .collect()
}

#[track_caller]
fn raises(graph: &str, attributes: &str, expected: &[&str]) {
    assert_eq!(found(&with(graph, attributes)), expected, "{graph} {attributes}");
}

#[test]
fn keys_and_texts_of_stages_are_sources() {
    for source in [
        "other",
        "context.other",
        "human.gate.text",
        "stages.plan.response",
        "stages.a.output",
    ] {
        raises("label=x", &format!("tool_env_from.PLAN=\"{source}\""), &[]);
        raises("label=x", &format!("tool_stdin=\"{source}\""), &[]);
        raises(&format!("tool_env_from.PLAN=\"{source}\""), "timeout=5m", &[]);
    }
}

#[test]
fn what_is_no_source_is_an_error() {
    raises(
        "label=x",
        "tool_env_from.PLAN=\"\"",
        &["tool_value \"\": `tool_env_from.PLAN` is neither a key of the context nor a text of a stage: ``"],
    );
    raises(
        "label=x",
        "tool_stdin=\"two words\"",
        &[
            "tool_value \"two words\": `tool_stdin` is neither a key of the context nor a text of a stage: `two words`",
        ],
    );
    raises(
        "tool_env_from.PLAN=\"stages.plan.notes\"",
        "timeout=5m",
        &[
            "tool_value \"stages.plan.notes\": `tool_env_from.PLAN` is neither a key of the context nor a text of a stage: `stages.plan.notes`",
        ],
    );
    let loaded = with("label=x", "tool_stdin=\"stages.pln.output\"");
    assert_eq!(
        found(&loaded),
        ["tool_value pln: `tool_stdin` names the unknown stage `pln`"]
    );
    let help = loaded.report.diagnostics[0].help.as_deref();
    assert_eq!(help, Some("did you mean `plan`?"));
}

#[test]
fn a_variable_has_one_value() {
    raises(
        "label=x",
        "tool_env.PLAN=fixed, tool_env_from.PLAN=other",
        &["tool_value tool_env_from.PLAN=other: the variable `PLAN` has two values"],
    );
    raises("tool_env.PLAN=fixed", "tool_env_from.PLAN=other", &[]);
    raises("tool_env_from.PLAN=other", "tool_env.PLAN=fixed", &[]);
}

#[test]
fn the_variables_of_the_engine_are_refused() {
    raises(
        "label=x",
        "tool_env_from.ORCHESTRA_RUN_ID=other",
        &[
            "tool_env_name tool_env_from.ORCHESTRA_RUN_ID: `tool_env_from.ORCHESTRA_RUN_ID` sets a variable of the engine",
        ],
    );
}

#[test]
fn a_declared_value_must_be_set() {
    raises(
        "label=x",
        "tool_env_from.PLAN=\"context.plan\", tool_stdin=plan",
        &[],
    );
    raises("label=x", "tool_stdin=\"context.plan\"", &[]);
    let missing = "`note` may not be set when `a` reads it";
    raises(
        "label=x",
        "tool_env_from.NOTE=note",
        &[&format!("maybe_unset note: {missing}")],
    );
    raises(
        "label=x",
        "tool_stdin=\"context.note\"",
        &[&format!("maybe_unset context.note: {missing}")],
    );
    // The value of the node is read, and not that of the graph.
    raises("tool_env_from.NOTE=note", "tool_env.NOTE=none", &[]);
    raises(
        "tool_env_from.NOTE=note",
        "timeout=5m",
        &[&format!("maybe_unset note: {missing}")],
    );
}

#[test]
fn other_nodes_have_no_command() {
    let text = "digraph { start -> a -> b -> exit; a [prompt=x, tool_stdin=k, tool_env_from.K=k]
        b [type=own, tool_stdin=k, tool_env_from.K=k] }";
    let loaded = load(Source::new("t.dot", text), &LoadOptions::default());
    assert_eq!(
        found(&loaded),
        [
            "attribute_without_effect tool_stdin=k: `tool_stdin` has no effect on `a`, which is not a tool stage",
            "attribute_without_effect tool_env_from.K=k: `tool_env_from.K` has no effect on `a`, which is not a tool stage",
        ]
    );
    let text = "digraph { node [tool_env_from.K=k]; start -> a -> exit; a [prompt=x] }";
    let loaded = load(Source::new("t.dot", text), &LoadOptions::default());
    assert_eq!(found(&loaded), [""; 0]);
}

/// Returns the diagnostics of a command whose variable `X` holds the value `x`, with further attributes.
fn commanded(command: &str, graph: &str, attributes: &str) -> Vec<String> {
    let command = command.replace('\\', "\\\\").replace('"', "\\\"");
    let text = format!(
        "digraph t {{ graph [{graph}]\nstart [shape=Mdiamond]; exit [shape=Msquare]\n\
         a [shape=parallelogram, tool_command=\"{command}\", {attributes}]\nstart -> a -> exit }}"
    );
    found(&load(Source::new("t.dot", text), &LoadOptions::default()))
}

const FROM: &str = "tool_env_from.X=x";

#[test]
fn a_value_that_is_executed_is_found_in_the_text_of_the_attribute() {
    let command = "printf '%s' \"done\"\ncd a && sh -c \"echo ${X}\"";
    assert_eq!(
        commanded(command, "label=x", FROM),
        ["shell_injection ${X}: the command executes the value of `$X`"]
    );
    assert_eq!(
        commanded(command, FROM, "timeout=5m"),
        ["shell_injection ${X}: the command executes the value of `$X`"]
    );
    assert_eq!(
        commanded("cd a; sh -e", "label=x", "tool_stdin=x"),
        ["shell_injection sh: the command executes the standard input"]
    );
    assert_eq!(
        commanded("echo $((X + 1)) $X", "label=x", FROM),
        [
            "shell_injection X: the command evaluates the value of `$X` as a number",
            "unquoted_value $X: the shell splits the value of `$X` into words",
        ]
    );
}

#[test]
fn only_values_of_the_run_are_looked_at() {
    let command = "eval \"$X\"; sh";
    assert_eq!(commanded(command, "label=x", "tool_env.X=x"), [""; 0]);
    assert_eq!(commanded(command, FROM, "tool_env.X=x"), [""; 0]);
    assert_eq!(commanded(command, "label=x", "tool_env_from.Y=x"), [""; 0]);
}

#[test]
fn a_type_that_the_engine_enforces_makes_a_value_harmless() {
    for (declared, is_harmless) in [
        ("x: int", true),
        ("x: number", true),
        ("x: bool?", true),
        ("x: approve|revise", true),
        ("x: text", false),
        ("x: any", false),
        ("x: list<int>", false),
        ("x", false),
    ] {
        let source = if declared.ends_with('?') {
            "tool_stdin=y, tool_env_from.X=\"context.x\""
        } else {
            FROM
        };
        let found = commanded(
            "sh -c \"echo $X\" $((X))",
            &format!("inputs=\"{declared}\""),
            source,
        );
        let errors = found
            .iter()
            .filter(|text| text.starts_with("shell_injection"))
            .count();
        assert_eq!(errors == 0, is_harmless, "{declared}: {found:?}");
    }
}

#[test]
fn variables_that_decide_what_runs_are_refused() {
    for name in ["PATH", "LD_PRELOAD", "BASH_ENV", "GIT_SSH_COMMAND", "PYTHONPATH"] {
        let attribute = format!("tool_env_from.{name}=x");
        let expected = format!(
            "shell_injection tool_env_from.{name}: `tool_env_from.{name}` decides which programs the command runs"
        );
        assert_eq!(
            commanded("make", "label=x", &attribute),
            std::slice::from_ref(&expected)
        );
        assert_eq!(commanded("make", &attribute, "timeout=5m"), [expected]);
    }
    assert_eq!(commanded("make", "label=x", "tool_env_from.PLAN_PATH=x"), [""; 0]);
    assert_eq!(
        commanded("make", "inputs=\"x: vi|nano\"", "tool_env_from.EDITOR=x"),
        [""; 0]
    );
}

#[test]
fn misspelt_names_and_keys_are_reported() {
    let found = |attributes: &str| commanded("cat", "inputs=\"who: text\"", attributes);
    assert_eq!(
        found("tool_env_form.WHO=who"),
        ["unknown_attribute tool_env_form.WHO: unknown node attribute `tool_env_form.WHO`"]
    );
    assert_eq!(
        found("tool_stdin=whom"),
        ["unset_key whom: nothing declares `whom`"]
    );
    assert_eq!(
        found("tool_env_from.WHO=whom"),
        ["unset_key whom: nothing declares `whom`"]
    );
    assert_eq!(found("tool_stdin=other"), [""; 0]);
}
