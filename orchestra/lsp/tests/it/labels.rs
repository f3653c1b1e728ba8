//! Labels of edges as names: the answers of human gates.

use crate::names::{definition, opened, references, renamed};

const FLOW: &str = r#"digraph flow {
    assert="requires(exit, ask='Ship it')"
    start -> ask
    ask [shape=hexagon, human.default_choice="ship IT"]
    ask -> route [label="[S] Ship it"]
    ask -> drop [label="[D] Drop"]
    route [shape=diamond]
    route -> exit [condition="human.gate.label='[S] Ship it'"]
    route -> drop
    drop [end=fail]
    other [shape=hexagon]
    drop -> other
    other -> exit [label="Drop"]
}
"#;

const SCRIPT: &str =
    "ask: [S, Ship it, \"[S] Ship it\", D, Drop]\nother: Drop\ndrop: {preferred_label: Ship it}\n";

#[test]
fn an_answer_is_renamed_wherever_it_is_named() {
    let files = &[("a.dot", FLOW), ("simulations/a.yaml", SCRIPT)];
    let mut client = opened(files, "a.dot");
    // A condition compares it, so it is one name for the whole pipeline.
    let changed = renamed(&mut client, files, "a.dot", ("Ship it\"]", 0), "Publish: now").unwrap();
    let flow = FLOW
        .replace("Ship it", "Publish: now")
        .replace("ship IT", "Publish: now");
    assert_eq!(changed["a.dot"], flow);
    let script = "ask: [S, \"Publish: now\", \"[S] Publish: now\", D, Drop]\nother: Drop\ndrop: {preferred_label: \"Publish: now\"}\n";
    assert_eq!(changed["simulations/a.yaml"], script);
    let found = references(&mut client, files, "a.dot", "Ship it'\"", 0);
    assert_eq!(
        found,
        [
            "a.dot:1:Ship it",
            "a.dot:3:ship IT",
            "a.dot:4:Ship it",
            "a.dot:7:Ship it",
            "simulations/a.yaml:0:Ship it",
            "simulations/a.yaml:0:Ship it",
            "simulations/a.yaml:2:Ship it",
        ]
    );
    let found = definition(&mut client, files, "a.dot", "Ship it'\"", 0);
    assert_eq!(found, ["a.dot:4:Ship it"], "the edge that has it");
    // Nothing compares this one, so each gate has its own.
    let changed = renamed(&mut client, files, "a.dot", ("Drop\"]", 0), "Discard").unwrap();
    assert_eq!(changed["a.dot"], FLOW.replace("[D] Drop", "[D] Discard"));
    assert_eq!(
        changed["simulations/a.yaml"],
        SCRIPT.replacen("D, Drop]", "D, Discard]", 1)
    );
}

#[test]
fn a_label_that_would_change_the_answers_is_refused() {
    let files = &[("a.dot", FLOW)];
    let mut client = opened(files, "a.dot");
    for (new, reason) in [
        ("drop", "the label `drop` is used already"),
        ("[X] Go", "`[X] Go` begins with the key of an answer"),
        ("say \"x\"", "is not a label"),
    ] {
        let refused = renamed(&mut client, files, "a.dot", ("Ship it\"]", 0), new).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
    let keyed = FLOW
        .replace("[S] Ship it\"]", "Ship it\"]")
        .replace("human.default_choice=\"ship IT\"", "human.default_choice=s");
    client.replace("a.dot", &keyed);
    let refused = renamed(&mut client, files, "a.dot", ("Ship it\"]", 0), "Publish").unwrap_err();
    assert!(
        refused.contains("write the key into the label first"),
        "{refused}"
    );
}
