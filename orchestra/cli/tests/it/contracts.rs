//! Contracts through the program: inputs by `--set`, outputs of models, and templates that read values (rules T1 to T4).

#![cfg(unix)]

use crate::agents_support;
use crate::support;

use agents_support::Project;
use orchestra_model_server_tests::Answer;
use serde_json::{Value, json};
use support::Scratch;

const RELEASE: &str = "digraph release {
    graph [inputs=\"version: text, count: int?, plan: object?\"]
    start -> work -> exit
    work [shape=parallelogram, tool_command=\"true\"]
}
";

#[test]
fn inputs_have_their_types_whatever_they_look_like() {
    let scratch = Scratch::new();
    scratch.write("release.dot", RELEASE);
    scratch.write("plan.json", "{\"steps\": 3}\n");
    let set = |pairs: &[&str]| {
        let mut args = vec!["run", "release.dot"];
        args.extend(pairs.iter().flat_map(|pair| ["--set", pair]));
        scratch.call(&args)
    };
    let run = scratch.call(&[
        "run",
        "release.dot",
        "--run-dir",
        "out",
        "--set",
        "version=1.10",
        "--set",
        "count=3",
        "--set",
        "plan=@plan.json",
        "--set",
        "other=1.10",
    ]);
    run.exits(0);
    let checkpoint: Value = serde_json::from_str(&scratch.read("out/checkpoint.json")).unwrap();
    let context = &checkpoint["context"];
    let shown = ["version", "count", "plan", "other"].map(|key| context[key].clone());
    assert_eq!(shown, [json!("1.10"), json!(3), json!({"steps": 3}), json!(1.1)]);

    let before = scratch.runs();
    let refused = set(&["version=1", "count=many"]).exits(2);
    assert!(
        refused
            .stderr
            .contains("`--set count=many`: `count` is declared as `int`"),
        "{}",
        refused.stderr
    );
    let missing = set(&["count=3"]).exits(2);
    assert!(
        missing
            .stderr
            .contains("the input `version` is missing; it is declared as `text`")
            && missing.stderr.contains("give each input with `--set KEY=VALUE`"),
        "{}",
        missing.stderr
    );
    assert_eq!(scratch.runs(), before, "a refused run leaves nothing");
    scratch.call(&["run", "release.dot", "--simulate"]).exits(0);
}

const REVIEW: &str = "digraph review {
    graph [inputs=\"pr: text\", prompt_templates=true]
    start -> review -> publish
    review  [prompt=\"Review {{ pr }}.\", outputs=\"score: int, verdict: approve|revise, notes: text?\"]
    publish [prompt=\"Score {{ score }}: {{ verdict }}. {{ notes | default('No notes.') }}\"]
    publish -> exit
}
";

fn report(updates: Value) -> Answer {
    let fields = json!({"status": "success", "notes": "Done.", "context_updates": updates});
    Answer::call("report_outcome", fields.to_string())
}

#[test]
fn a_model_is_asked_for_its_outputs_and_corrects_its_report() {
    let project = Project::new("");
    project.scratch.write("a.dot", REVIEW);
    project
        .server
        .push(report(json!({"score": "high", "verdict": "approve"})));
    project.server.push(report(json!({"score": 7})));
    project
        .server
        .push(report(json!({"score": 7, "verdict": "approve", "notes": null})));
    project.server.push(Answer::text("Published."));
    project.call(&["run", "a.dot", "--set", "pr=42"]).exits(0);
    let requests = project.server.requests();
    let tools = requests[0].body["tools"].as_array().unwrap();
    let schema = &tools
        .iter()
        .find(|tool| tool["name"] == "report_outcome")
        .unwrap()["input_schema"];
    assert_eq!(
        schema["properties"]["context_updates"]["properties"],
        json!({
            "score": {"type": "integer"},
            "verdict": {"type": "string", "enum": ["approve", "revise"]},
            "notes": {"type": "string"},
        })
    );
    assert_eq!(
        schema["properties"]["context_updates"]["required"],
        json!(["score", "verdict"])
    );
    let asked = project.asked();
    let last = |at: usize| asked[at].last().unwrap().to_string();
    assert!(
        last(1).contains("`score` is declared as `int`, but is the text"),
        "{}",
        last(1)
    );
    assert!(
        last(2).contains("`context_updates` must also hold: verdict."),
        "{}",
        last(2)
    );
    assert!(last(3).contains("Score 7: approve. No notes."), "{}", last(3));
}

#[test]
fn a_template_that_reads_a_missing_value_is_an_error_in_its_file() {
    let project = Project::new("agents:\n  writer: {task: publish}\n");
    let task = "task:\n  name: publish\n  template: |\n    Publish with the score\n    {{ score }} and {{ notes | default('no notes') }}.\n";
    project.scratch.write("prompts/tasks/publish.yaml", task);
    let flow = "digraph review {
    start -> review
    review -> publish [condition=\"outcome=success\"]
    review -> repair [condition=\"outcome=fail\"]
    repair -> publish -> exit
    review  [prompt=\"Review it.\", outputs=\"score: int, notes: text?\"]
    repair  [prompt=\"Repair it.\"]
    publish [agent=writer]
}
";
    project.scratch.write("a.dot", flow);
    let refused = project.call(&["check", "a.dot"]).exits(3);
    let expected = "error[maybe_unset]: `score` may not be set when `publish` reads it
 --> prompts/tasks/publish.yaml:5:8
  |
5 |     {{ score }} and {{ notes | default('no notes') }}.
  |        ^^^^^
  |
  = note: it is missing, for example, on the path `start` -> `review` (fail) -> `repair` -> `publish`
  = note: `review` sets it only if it succeeds (a.dot:6:5)
  = help: lead this path elsewhere after `review` (fail), or write `{{ score | default(..) }}`
";
    let found = refused.stderr.contains(expected) || refused.stdout.contains(expected);
    assert!(found, "{}{}", refused.stdout, refused.stderr);
    project.scratch.write(
        "a.dot",
        flow.replace("repair -> publish -> exit", "repair -> review\npublish -> exit"),
    );
    project.call(&["check", "a.dot"]).exits(0);
}

#[test]
fn a_template_reads_values_by_their_names_and_types() {
    let project = Project::new("agents: {}\n");
    let flow = "digraph review {
    graph [inputs=\"pr: text, plan: object\", prompt_templates=true]
    start -> review -> exit
    review [prompt=\"TEMPLATE\"]
}
";
    let check = |template: &str, code| {
        project.scratch.write("a.dot", flow.replace("TEMPLATE", template));
        project.call(&["check", "a.dot"]).exits(code).stderr
    };
    check("Review {{ pr }} as in {{ plan.steps }}.", 0);
    let found = check("Review {{ pr.title }}.", 3);
    assert!(
        found.contains("error[template_variable]: nothing sets the variable `pr.title`: `pr` is declared as `text`, which has no members")
            && found.contains("= note: in the prompt, at `pr.title`")
            && found.contains("= help: write `pr`, or declare it as `object`"),
        "{found}"
    );
    let found = check("Review {{ context.pr }}.", 3);
    assert!(
        found.contains("= help: write `pr`: only conditions name it with `context.`"),
        "{found}"
    );
}
