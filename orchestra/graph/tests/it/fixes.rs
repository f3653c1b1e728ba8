//! Tests of the changes that diagnostics propose: each one removes its diagnostic, and each "did you mean" has one.

use orchestra_graph::{ChildReader, Diagnostic, LoadOptions, Loaded, ReadError, Source, load, rules};

/// Returns the fenced blocks of a page whose words begin like these: the rest of their words, and their texts.
fn blocks<'p>(page: &'p str, words: &str) -> Vec<(&'p str, &'p str)> {
    let mut parts = page.split("```").skip(1).step_by(2);
    let found = parts.by_ref().filter_map(|part| {
        let (head, text) = part.split_once('\n')?;
        Some((head.strip_prefix(words)?.trim(), text))
    });
    found.collect()
}

/// Files in memory.
struct Files<'f>(Vec<(&'f str, &'f str)>);

impl ChildReader for Files<'_> {
    fn read(&self, path: &str, _: u64) -> Result<Vec<u8>, ReadError> {
        let found = self.0.iter().find(|(own, _)| *own == path);
        found.map(|(_, text)| (*text).into()).ok_or(ReadError::Missing)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        assert_eq!(folder, "", "all files are in one folder");
        self.0.iter().map(|(path, _)| (*path).to_owned()).collect()
    }
}

fn checked(text: &str, files: &Files<'_>) -> Loaded {
    let options = LoadOptions {
        children: Some(files),
        ..LoadOptions::default()
    };
    load(Source::new("a.dot", text), &options)
}

fn applied(text: &str, diagnostic: &Diagnostic) -> Option<String> {
    let fix = diagnostic.fix.as_ref()?;
    let mut text = text.to_owned();
    text.replace_range(fix.span.start as usize..fix.span.end as usize, &fix.replacement);
    Some(text)
}

/// Returns the diagnostics that suggest something without a fix, or whose fix does not remove them.
fn without_fixes(text: &str, files: &Files<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for diagnostic in checked(text, files).report.diagnostics {
        let suggests = diagnostic
            .help
            .as_ref()
            .is_some_and(|help| help.contains("did you mean"));
        let shown = format!("{} {}: {text}", diagnostic.code, diagnostic.message);
        let Some(fixed) = applied(text, &diagnostic) else {
            if suggests {
                wrong.push(format!("no fix: {shown}"));
            }
            continue;
        };
        let is_same = |left: &Diagnostic| {
            let place = |diagnostic: &Diagnostic| (diagnostic.code, diagnostic.span.start);
            place(left) == place(&diagnostic) && left.message == diagnostic.message
        };
        if checked(&fixed, files).report.diagnostics.iter().any(is_same) {
            wrong.push(format!("not fixed: {shown}"));
        }
    }
    wrong
}

#[test]
fn the_fixes_of_every_page_remove_their_diagnostics() {
    let mut wrong = Vec::new();
    for page in rules() {
        let files = Files(blocks(page.text, "dot file"));
        for (_, text) in blocks(page.text, "dot bad") {
            wrong.extend(without_fixes(text, &files));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A pipeline with a gate, for the parts of values.
fn pipeline(graph: &str, edge: &str) -> String {
    format!(
        "digraph {{ {graph} start -> build -> ok; ok [shape=hexagon, label=\"Ship?\"]\n\
         build [shape=parallelogram, tool_command=make, outcomes=\"skipped\"]\n\
         ok -> exit [label=\"[S] Ship it, now\"]; ok -> build [label=Stop]; build -> exit [{edge}] }}"
    )
}

/// Asserts that the only error of a text is of this code, underlines this text, and is fixed by this replacement.
#[track_caller]
fn fixes(text: &str, code: &str, underlined: &str, replaced: &str, replacement: &str) {
    let files = Files(vec![
        ("lint.dot", "digraph { start -> exit }"),
        ("plan.md", "Plan."),
    ]);
    let loaded = checked(text, &files);
    let found: Vec<&Diagnostic> = loaded
        .report
        .diagnostics
        .iter()
        .filter(|found| found.code == code)
        .collect();
    let [diagnostic] = found.as_slice() else {
        panic!("{text}: {:#?}", loaded.report.diagnostics);
    };
    let fix = diagnostic
        .fix
        .as_ref()
        .unwrap_or_else(|| panic!("{text}: {diagnostic:#?}"));
    let slice = |span| loaded.source.slice(span);
    assert_eq!(
        (slice(diagnostic.span), slice(fix.span), fix.replacement.as_str()),
        (underlined, replaced, replacement),
        "{text}"
    );
    let left = checked(&applied(text, diagnostic).unwrap(), &files)
        .report
        .diagnostics;
    assert!(left.iter().all(|left| left.code != code), "{text}: {left:#?}");
}

#[test]
fn parts_of_assertions_are_fixed() {
    let unknown = |assert: &str, wrong: &str, replaced: &str, replacement: &str| {
        let text = pipeline(&format!("assert=\"{assert}\";"), "");
        fixes(&text, "assertion_unknown_name", wrong, replaced, replacement);
    };
    unknown("handled(biuld)", "biuld", "biuld", "build");
    unknown("at_most(buidl, 5)", "buidl", "buidl", "build");
    unknown("requires(exit, buildd, since=ok)", "buildd", "buildd", "build");
    unknown("requires(exit, ok, since=bild)", "bild", "bild", "build");
    unknown("requires(exit, ok=Stp)", "Stp", "Stp", "Stop");
    unknown("requires(exit, ok=exti)", "exti", "exti", "exit");
    unknown("requires(exit, ok='Stp')", "'Stp'", "'Stp'", "'Stop'");
    unknown(
        "requires(exit, ok = 'Shp it, now')",
        "'Shp it, now'",
        "'Shp it, now'",
        "'Ship it, now'",
    );
    unknown(
        r#"requires(exit, ok=\"Shp it, now\")"#,
        r#"\"Shp it, now\""#,
        r#"\"Shp it, now\""#,
        r#"\"Ship it, now\""#,
    );
    unknown("requires(exit, build=sucess)", "sucess", "sucess", "success");
    unknown("requires(exit, build=skiped)", "skiped", "skiped", "skipped");
    let syntax = |assert: &str, wrong: &str, replacement: &str| {
        let text = pipeline(&format!("assert=\"{assert}\";"), "");
        fixes(&text, "assertion_syntax", wrong, wrong, replacement);
    };
    syntax("require(exit, build)", "require", "requires");
    syntax("handled(build); at_mots(build, 5)", "at_mots", "at_most");
    syntax("total(visit) <= 5", "visit", "visits");
    syntax("requires(exit, build, snice=ok)", "snice", "since");
}

#[test]
fn parts_of_conditions_are_fixed() {
    let condition = |condition: &str, code: &str, wrong: &str, replacement: &str| {
        let text = pipeline("", &format!("condition={condition}"));
        fixes(&text, code, wrong, wrong, replacement);
    };
    condition("\"outcme=fail\"", "condition_syntax", "outcme", "outcome");
    condition(
        "\"x=\\\"a\\\" && outcome=fail\"",
        "condition_syntax",
        "x",
        "context.x",
    );
    condition(
        "\"visits.build < 3 && visits.buildd < 3\"",
        "condition_syntax",
        "visits.buildd",
        "visits.build",
    );
    condition(
        "\"stages.biuld.outcome=fail\"",
        "condition_syntax",
        "stages.biuld.outcome",
        "stages.build.outcome",
    );
    condition(
        "\"stages.build.outcme=fail\"",
        "condition_syntax",
        "stages.build.outcme",
        "stages.build.outcome",
    );
    condition("\"outcome=skiped\"", "unknown_outcome", "skiped", "skipped");
    condition("approved", "condition_syntax", "approved", "context.approved");
}

#[test]
fn other_parts_of_values_are_fixed() {
    let sheet = "model_stylesheet=\"* { llm_modle: x; }\";";
    fixes(
        &pipeline(sheet, ""),
        "stylesheet_syntax",
        "llm_modle",
        "llm_modle",
        "llm_model",
    );
    let sheet = "model_stylesheet=\"#biuld { llm_model: x; }\";";
    fixes(
        &pipeline(sheet, ""),
        "stylesheet_syntax",
        "#biuld",
        "#biuld",
        "#build",
    );
    let outputs = "digraph { start -> a -> exit; a [outputs.fial=\"x: int\", prompt=x] }";
    fixes(
        outputs,
        "contract_syntax",
        "outputs.fial",
        "outputs.fial",
        "outputs.fail",
    );
    let choice = |written: &str, replacement: &str| {
        let text = pipeline("", "").replace("label=\"Ship?\"", &format!("human.default_choice={written}"));
        fixes(&text, "unknown_default_choice", written, written, replacement);
    };
    choice("Stp", "\"Stop\"");
    choice("\"Shp it, now\"", "\"Ship it, now\"");
    let quotes = r#"digraph { start -> ok; ok [shape=hexagon, human.default_choice="say 'hi"]; ok -> exit [label="say \"hi\""]; ok -> ok [label=no] }"#;
    fixes(
        quotes,
        "unknown_default_choice",
        "\"say 'hi\"",
        "\"say 'hi\"",
        r#""say \"hi\"""#,
    );
}

#[test]
fn file_names_are_fixed() {
    let named = |attributes: &str, code: &str, wrong: &str, replacement: &str| {
        let text = format!("digraph {{ start -> a -> exit; a [{attributes}] }}");
        fixes(&text, code, wrong, wrong, replacement);
    };
    named(
        "shape=folder, subpipeline.file=\"lnit.dot\"",
        "child_not_found",
        "lnit.dot",
        "lint.dot",
    );
    named(
        "shape=folder, subpipeline.file=\"./lnit.dot\"",
        "child_not_found",
        "./lnit.dot",
        "./lint.dot",
    );
    named("prompt=\"@pln.md\"", "prompt_file", "pln.md", "plan.md");
    named("prompt_file=pln.md", "prompt_file", "pln.md", "plan.md");
    let far = "digraph { start -> a -> exit; a [prompt_file=\"other.md\"] }";
    let loaded = checked(far, &Files(vec![("plan.md", "Plan.")]));
    assert_eq!(loaded.report.diagnostics[0].fix, None);
}

#[test]
fn a_misspelt_first_word_is_a_graph_all_the_same() {
    for word in ["diagraph", "digrpah", "Digrap"] {
        let text = format!("{word} x {{ start -> work -> exit; work [lable=Work] }}");
        fixes(&text, "syntax_error", word, word, "digraph");
        assert_eq!(checked(&text, &Files(Vec::new())).graph.name, "x");
    }
    let text = "flowchart x { start -> exit }";
    let loaded = checked(text, &Files(Vec::new()));
    assert_eq!(loaded.report.diagnostics[0].fix, None);
}

#[test]
fn values_of_several_words_are_quoted() {
    let list = |written: &str, value: &str, replacement: &str| {
        let text = format!("digraph {{\n start -> a -> exit\n a [{written}]\n}}");
        fixes(&text, "syntax_error", value, value, replacement);
        let loaded = checked(&text, &Files(Vec::new()));
        assert_eq!(loaded.report.errors().count(), 1, "{text}");
    };
    list("label=Ship it?", "Ship it?", "\"Ship it?\"");
    list("label=Ship it, prompt=x", "Ship it", "\"Ship it\"");
    list("label=Ship it; prompt=x", "Ship it", "\"Ship it\"");
    list("label=Ship it? prompt=x", "Ship it?", "\"Ship it?\"");
    list("label=Ship?, prompt=x", "Ship?", "\"Ship?\"");
    list(
        "label=Build: all of it",
        "Build: all of it",
        "\"Build: all of it\"",
    );
    list("label=Don't ship\n  prompt=x", "Don't ship", "\"Don't ship\"");
    list("label=100% of it\n ", "100% of it", "\"100% of it\"");
    list(
        "prompt=Do this, then that",
        "Do this, then that",
        "\"Do this, then that\"",
    );
    list("prompt=Do this, label=x", "Do this", "\"Do this\"");
    list("label='Ship, now'", "'Ship, now'", "\"Ship, now\"");
    list(
        "label=\u{201c}Ship, now\u{201d}, prompt=x",
        "\u{201c}Ship, now\u{201d}",
        "\"Ship, now\"",
    );
    list("prompt=$goal", "$goal", "\"$goal\"");
    list("label=C:\\now, prompt=x", "C:\\now", "\"C:\\\\now\"");
    let edge = |written: &str, value: &str, replacement: &str| {
        let text = format!("digraph {{ start -> a; a [prompt=x]; a -> exit [{written}]; a -> a }}");
        fixes(&text, "syntax_error", value, value, replacement);
    };
    edge(
        "condition=outcome=success",
        "outcome=success",
        "\"outcome=success\"",
    );
    edge(
        "condition=outcome=success, weight=2",
        "outcome=success",
        "\"outcome=success\"",
    );
    edge(
        "condition=outcome=success weight=2",
        "outcome=success",
        "\"outcome=success\"",
    );
    edge("condition=!outcome", "!outcome", "\"!outcome\"");
    fixes(
        "digraph {\n goal=Ship it?\n start -> exit }",
        "syntax_error",
        "Ship it?",
        "Ship it?",
        "\"Ship it?\"",
    );
    fixes(
        "digraph { goal=Ship it?; start -> exit }",
        "syntax_error",
        "Ship it?",
        "Ship it?",
        "\"Ship it?\"",
    );
}

#[test]
fn words_that_may_belong_to_something_else_are_not_quoted() {
    for (text, code) in [
        // A flag without its value.
        ("a [shape=box goal_gate]", "syntax_error"),
        // The value may continue in the next line.
        ("a [label=Ship it\n now]", "syntax_error"),
        ("a [label=Ship \"it\"]", "syntax_error"),
        ("a [condition=outcome=success && context.x=y]", "syntax_error"),
        ("a [label=Ship it // now\n]", "syntax_error"),
        ("a [label=Ship it", "syntax_error"),
    ] {
        let loaded = checked(
            &format!("digraph {{ start -> a -> exit; {text} }}"),
            &Files(Vec::new()),
        );
        let mut errors = loaded.report.errors();
        let error = errors
            .find(|error| error.code == code)
            .unwrap_or_else(|| panic!("{text}"));
        assert_eq!(error.fix, None, "{text}");
    }
    // These are statements.
    for text in [
        "goal=Ship start -> exit",
        "goal=Ship it; start -> it -> exit",
        "goal=Ship work [prompt=x]",
    ] {
        let loaded = checked(&format!("digraph {{ {text} }}"), &Files(Vec::new()));
        assert!(
            loaded
                .report
                .diagnostics
                .iter()
                .all(|found| found.code != "syntax_error"),
            "{text}"
        );
    }
}

#[test]
fn a_forgotten_quote_is_reported_where_it_is_missing() {
    for (text, opening, fixed) in [
        (
            "a [label=\"Build]\nb [label=\"[X] Test\"]",
            0,
            "a [label=\"Build\"]",
        ),
        (
            "a [label=\"Build,\n shape=box,\n prompt=\" x\"]",
            0,
            "a [label=\"Build\",",
        ),
        (
            "a [\n label=\"Build\n shape=box\n]\nb [prompt=\"x\"]",
            0,
            "label=\"Build\"\n",
        ),
        (
            "a [label=\"Build, prompt=\"@x\"]",
            0,
            "a [label=\"Build\", prompt",
        ),
        (
            "a [label=\"One\", prompt=\"Do it\n in two lines;\n shape=box]\nb [label=\"Two\"]",
            2,
            "two lines\";",
        ),
        ("a [label=\"Build\n]", 0, "a [label=\"Build\"\n]"),
        ("a [label=\"Build]\n", 0, "a [label=\"Build\"]"),
        (
            "a [label=\"One\"]\ngoal=\"Ship\nb -> a [label=\" Two\"]",
            2,
            "goal=\"Ship\"\n",
        ),
        // Two quotes are missing, so the last string of the file is closed.
        (
            "a [label=\"Build]\nb [label=\"Test]\nc [prompt=\"x\", label=\"y\"]",
            0,
            "a [label=\"Build\"]",
        ),
        (
            "a [label=\"Build,\n prompt=\"@x\n]\nb [label=\"y\"]",
            0,
            "a [label=\"Build\",",
        ),
    ] {
        let text = format!("digraph {{\nstart -> a -> b -> exit\n{text}\n}}");
        let loaded = checked(&text, &Files(Vec::new()));
        let found: Vec<&Diagnostic> = loaded.report.errors().collect();
        let [diagnostic] = found.as_slice() else {
            panic!("{text}\n{found:#?}");
        };
        let (quote, _) = text.match_indices('"').nth(opening).unwrap();
        assert_eq!(
            (diagnostic.code, diagnostic.span.start as usize),
            ("unterminated_string", quote),
            "{text}"
        );
        let after = applied(&text, diagnostic).unwrap_or_else(|| panic!("{text}"));
        assert!(after.contains(fixed), "{after}");
        let is_same = |left: &Diagnostic| left.code == diagnostic.code && left.span == diagnostic.span;
        assert!(
            !checked(&after, &Files(Vec::new()))
                .report
                .diagnostics
                .iter()
                .any(is_same),
            "{after}"
        );
    }
}

#[test]
fn an_arrow_of_another_language_is_replaced_as_a_whole() {
    for (text, arrow) in [("=>", "=>"), (">", ">")] {
        let text = format!("digraph {{ start {text} a -> exit; a [prompt=x] }}");
        fixes(&text, "invalid_character", arrow, arrow, "->");
    }
}

#[test]
fn a_comma_behind_a_mistake_is_no_missing_one() {
    for attribute in ["agent==critic", "agent:critic", "agent="] {
        let text = format!("digraph {{ start -> a -> exit; a [prompt=x, {attribute}, llm_model=y] }}");
        let found = checked(&text, &Files(Vec::new())).report.diagnostics;
        assert!(
            found.iter().all(|found| found.code != "attr_separator"),
            "{text}: {found:#?}"
        );
    }
    // Quotes inside of a string end it: a comma would not help.
    let text = "digraph { graph [assert=\"requires(a, a=\"Ship\")\"]; start -> a -> exit; a [prompt=x] }";
    let found = checked(text, &Files(Vec::new())).report.diagnostics;
    let separator = found.iter().find(|found| found.code == "attr_separator");
    assert_eq!(separator.expect("it is reported").fix, None);
}
