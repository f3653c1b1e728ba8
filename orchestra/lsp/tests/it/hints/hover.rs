//! Hover.

use crate::client::Client;
use crate::hints::{CONFIGURATION, TEXT, opened};

/// Returns the text of the hover at the beginning of a text.
fn hover(client: &mut Client, name: &str, needle: &str) -> String {
    let params = client.at(name, needle);
    let found = client.request("textDocument/hover", params);
    found["contents"]["value"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn hover_explains_nodes() {
    let mut client = opened(&[], TEXT);
    let build = hover(&mut client, "a.dot", "build [agent");
    for expected in [
        "**model stage** `build`",
        "- agent: `critic` [node, a.dot:6:18]",
        "- model: `claude-opus-4-1` [agent, orchestra.yaml",
        "named `smart`",
        "- tools: ",
        "`grep`",
        "role `adversarial-critic`",
        "Build it.",
        "`fail` → `build`",
        "`success`",
        "`later`",
        "→ `approve`",
        "at most 3 visits and at most 6 attempts: `max_visits=3` of `build`; up to 2 attempts each",
        "- sets with each success: `score: int`",
        "- set when it starts: `mode: fast|slow`, `pr: text`",
        "- perhaps set when it starts: `dry_run: bool`, `score: int`",
    ] {
        assert!(build.contains(expected), "{expected} in\n{build}");
    }
    let approve = hover(&mut client, "a.dot", "approve [shape");
    assert!(approve.contains("**human gate** `approve`"), "{approve}");
    assert!(approve.contains("answer `[S] Ship` → `ship`"), "{approve}");
    let ship = hover(&mut client, "a.dot", "ship [shape");
    assert!(
        ship.contains("**tool stage** `ship`") && ship.contains("make ship"),
        "{ship}"
    );
    assert!(
        ship.contains("- set when it starts: `mode: fast|slow`, `pr: text`, `score: int`"),
        "{ship}"
    );
}

#[test]
fn hover_explains_attributes_edges_and_agents() {
    let mut client = opened(&[], TEXT);
    let key = hover(&mut client, "a.dot", "max_visits=3");
    assert!(
        key.starts_with("**max_visits**: a whole number of at least 1"),
        "{key}"
    );
    let family = hover(&mut client, "a.dot", "tool_env_from.SCORE");
    assert!(family.starts_with("**tool_env_from.NAME**"), "{family}");
    let goal = hover(&mut client, "a.dot", "goal=");
    assert!(goal.starts_with("**goal**: text"), "{goal}");
    let agent = hover(&mut client, "a.dot", "critic");
    assert!(agent.contains("- model: `smart = claude-opus-4-1`"), "{agent}");
    assert!(
        agent.contains("- role: `adversarial-critic`") && agent.contains("- further tools: `grep`"),
        "{agent}"
    );
    let shape = hover(&mut client, "a.dot", "hexagon");
    assert!(shape.contains("human gate"), "{shape}");
    let edge = hover(
        &mut client,
        "a.dot",
        "-> build [condition=\"outcome=fail\", weight",
    );
    for expected in [
        "**edge** `ship` → `build`",
        "- taken if `outcome` is `fail`",
        "one of 2 edges with a condition, which come first; weight 2",
    ] {
        assert!(edge.contains(expected), "{expected} in\n{edge}");
    }
    let condition = hover(&mut client, "a.dot", "outcome=fail && visits");
    assert!(
        condition.contains("`outcome` is `fail`, and `visits.build` is less than 3"),
        "{condition}"
    );
    assert_eq!(hover(&mut client, "a.dot", "digraph"), "");
}

#[test]
fn hover_explains_the_names_inside_of_values() {
    let mut client = opened(&[], TEXT);
    let required = hover(&mut client, "a.dot", "ship, approve");
    assert!(required.starts_with("**tool stage** `ship`"), "{required}");
    assert!(
        required.contains("**assert**"),
        "the attribute comes after it: {required}"
    );
    let visits = hover(&mut client, "a.dot", "build<3");
    assert!(visits.starts_with("**model stage** `build`"), "{visits}");
    let score = hover(&mut client, "a.dot", "score]");
    assert!(score.starts_with("**context value** `context.score`"), "{score}");
}

#[test]
fn a_person_decides_between_the_edges_of_a_gate() {
    let text = TEXT.replace(
        "approve -> build [label",
        "approve -> build [condition=\"context.score > 3\", label",
    );
    let mut client = opened(&[], &text);
    let edge = hover(&mut client, "a.dot", "-> build [condition=\"context");
    assert!(
        edge.contains("- taken if a person chooses it; offered if"),
        "{edge}"
    );
    assert!(!edge.contains("priority"), "{edge}");
}

#[test]
fn hover_explains_the_configuration() {
    let mut client = opened(&[], TEXT);
    client.open("orchestra.yaml", CONFIGURATION);
    let key = hover(&mut client, "orchestra.yaml", "backend: agent");
    assert!(key.contains("The backend that runs it."), "{key}");
    let agent = hover(&mut client, "orchestra.yaml", "critic");
    assert!(agent.contains("- model: `smart = claude-opus-4-1`"), "{agent}");
    let tool = hover(&mut client, "orchestra.yaml", "run-tests");
    assert!(
        tool.contains("Runs all tests.") && tool.contains("`cargo test`"),
        "{tool}"
    );
    let value = hover(&mut client, "orchestra.yaml", "anthropic\n");
    assert!(
        value.contains("The provider of stages that name none."),
        "{value}"
    );
    let layer = hover(&mut client, "orchestra.yaml", "adversarial-critic");
    assert!(
        layer.contains("**role** `adversarial-critic` (ships with Orchestra)"),
        "{layer}"
    );
    let named = CONFIGURATION.replace("tools: [grep]", "tools: [grep, run-tests]");
    client.replace("orchestra.yaml", &named);
    let tool = hover(&mut client, "orchestra.yaml", "run-tests]");
    assert!(
        tool.contains("**tool** `run-tests`") && tool.contains("`cargo test`"),
        "{tool}"
    );
    let name = hover(&mut client, "orchestra.yaml", "cheap: claude-haiku");
    assert_eq!(name, "", "a name that the project chose has no description");
}

#[test]
fn hover_explains_words_models_layers_and_answers() {
    let text = r#"digraph { start -> f; f [shape=component, join_policy=wait_all]; f -> a -> j; f -> b -> j
        j [shape=tripleoctagon] j -> ask; ask [shape=hexagon, human.default_choice=s]
        ask -> exit [label="[S] Ship it"]; ask -> m [label="Redo"]; m -> ask
        m [shape=house, stack.child_dotfile="child.dot", manager.actions="observe, wait"]
        a [llm_model=smart, agent.role=own, fidelity="summary:low", prompt="{{ stages.b.notes }}"]
        b [llm_provider=anthropic, prompt_file="go.md"] }"#;
    let child = r#"digraph child { goal="Twelve digits"; inputs="level: int"; start -> x -> exit; x -> give_up [condition="outcome=fail"]
        x [prompt="Go."]; give_up [end=fail, prompt="Say so."] }"#;
    let files = [
        ("child.dot", child),
        ("go.md", "Go on.\n"),
        (
            "prompts/roles/own.yaml",
            "role:\n  description: Mine.\n  extends: planner\n  system: You are mine.\n",
        ),
    ];
    let mut client = opened(&files, text);
    for (needle, expected) in [
        ("wait_all", "`wait_all`: The block waits for all branches."),
        ("summary:low", "`summary:low`: As `compact`"),
        ("observe,", "`observe`: Reads the state of the child."),
        ("wait\"]", "`wait`: Waits for"),
        (
            "smart",
            "- of `anthropic`: `claude-opus-4-1`\n- `a` runs on `claude-opus-4-1` [node, a.dot:",
        ),
        ("anthropic", "**provider** `anthropic` (kind `anthropic`)"),
        (
            "own,",
            "**role** `own` (prompts/roles/own.yaml)\n\nMine.\n\nExtends `planner`.",
        ),
        (
            "child.dot",
            "**pipeline** `child` (child.dot)\n\nTwelve digits\n\nInputs: `level: int`",
        ),
        ("child.dot", "Succeeds at `exit`.\n\nFails at `give_up`."),
        ("go.md", "Go on."),
        ("notes }}", "Of the latest visit of `b` (model stage)."),
        ("s]", "**answer** `Ship it` with the key `S`, leads to `exit`"),
        ("-> exit [label", "- answer `Ship it` with the key `S`"),
        ("[S] Ship", "- answer `Ship it` with the key `S`"),
        ("-> m [label", "- answer `Redo` with the key `R`"),
    ] {
        let found = hover(&mut client, "a.dot", needle);
        assert!(found.contains(expected), "{needle}: {expected} in\n{found}");
    }
    client.open("orchestra.yaml", CONFIGURATION);
    let model = hover(&mut client, "orchestra.yaml", "cheap\n");
    assert!(model.contains("- of `anthropic`: `claude-haiku`"), "{model}");
}
