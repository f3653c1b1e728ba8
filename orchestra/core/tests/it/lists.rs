//! Branches for the items of a list (rule P7).
use crate::support;

use orchestra_core::{Outcome, Status};
use serde_json::{Value, json};
use support::Run;

const EACH: &str =
    "start -> work -> each; each [shape=component, foreach=files, foreach_max=3, max_parallel=2]
    each -> look -> fix -> all; all [shape=tripleoctagon]; all -> exit";

/// Returns a run whose fan-out has a list.
fn each(statements: &str, list: Value) -> Run {
    let mut run = Run::from_statements(statements);
    run.ends("work#1/1", Outcome::success().set("files", list));
    run
}

fn look(index: u32) -> String {
    format!("each#1:look~{index}/look#1/1")
}

#[test]
fn a_branch_runs_for_each_item_of_a_list() {
    let mut run = each(EACH, json!(["a.rs", {"path": "b.rs"}, 7]));
    assert_eq!(run.pending(), [look(0), look(1)], "two at a time");
    let paths = run.machine.paths_to(&run.id(&look(1)));
    let context = &paths.last().unwrap().context;
    assert_eq!(context.get("parallel.item"), Some(&json!({"path": "b.rs"})));
    assert_eq!(context.get("parallel.item.path"), Some(&json!("b.rs")));
    assert_eq!(context.get("parallel.item_index"), Some(&json!(1)));
    run.succeeds(&look(1)).fails("each#1:look~1/fix#1/1");
    assert_eq!(run.pending(), [look(0), look(2)]);
    run.succeeds(&look(0)).succeeds("each#1:look~0/fix#1/1");
    run.succeeds(&look(2)).succeeds("each#1:look~2/fix#1/1");
    assert_eq!(run.word("each"), "partial_success");
    let results = run.value("parallel.results");
    let items: Vec<&Value> = results
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["item"])
        .collect();
    assert_eq!(items, [&json!("a.rs"), &json!({"path": "b.rs"}), &json!(7)]);
    let ids: Vec<&Value> = results
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["id"])
        .collect();
    assert_eq!(ids, ["look~0", "look~1", "look~2"]);
    assert_eq!(run.value("parallel.branch.look~1.status"), json!("fail"));
    assert_eq!(
        run.value("parallel.item"),
        Value::Null,
        "the item stays in its branch"
    );
}

#[test]
fn a_list_without_items_succeeds_unless_branches_must_succeed() {
    let run = each(EACH, json!([]));
    assert_eq!(
        (run.word("each").as_str(), run.pending()),
        ("success", vec!["all#1/1".to_owned()])
    );
    let context = &run.main().context;
    assert_eq!(orchestra_core::fan_in(context).status, Status::Success);
    let first = EACH.replace("max_parallel=2", "join_policy=first_success");
    assert_eq!(each(&first, json!([])).word("each"), "fail");
}

#[test]
fn what_is_no_list_fails_the_fan_out_and_nothing_is_dropped() {
    for (list, reason) in [
        (Value::Null, "the context has no list `files`"),
        (json!("a.rs b.rs"), "`files` is no list, but the text `a.rs b.rs`"),
        (json!({"a": 1}), "`files` is no list, but `{\"a\":1}`"),
        (
            json!([1, 2, 3, 4]),
            "the list `files` has 4 items, but `foreach_max` allows 3",
        ),
    ] {
        let run = each(EACH, list);
        assert!(run.failure().contains(reason), "{}", run.failure());
    }
    let run = each(EACH, json!("[\"a.rs\"]"));
    assert_eq!(run.pending(), [look(0)], "the text of a list is the list");
}

#[test]
fn an_inner_list_replaces_the_item_of_the_outer_one() {
    let nested = "start -> work -> each; each [shape=component, foreach=files, foreach_max=3]
        each -> inner; inner [shape=component, foreach=\"parallel.item.parts\", foreach_max=3]
        inner -> look -> some; some [shape=tripleoctagon]; some -> all; all [shape=tripleoctagon]; all -> exit";
    let mut run = each(
        nested,
        json!([{"name": "a", "parts": ["x", "y"]}, {"name": "b", "parts": []}]),
    );
    let second = "each#1:inner~0/inner#1:look~1/look#1/1";
    let other = "each#1:inner~1/some#1/1";
    assert_eq!(run.pending().len(), 3, "{:?}", run.pending());
    let paths = run.machine.paths_to(&run.id(second));
    let context = &paths.last().unwrap().context;
    assert_eq!(context.get("parallel.item"), Some(&json!("y")));
    assert_eq!(context.get("parallel.item.name"), None);
    // The state is the same after it was saved and restored.
    let saved = run.machine.saved();
    let text = serde_json::to_string(&saved).unwrap();
    let again: orchestra_core::SavedState = serde_json::from_str(&text).unwrap();
    let restored = again.clone().restore(run.machine.pipeline()).unwrap();
    assert_eq!(&restored, run.machine.state());
    // A limit that was lowered since then does not concern an open block.
    let lower = each(&nested.replacen("foreach_max=3", "foreach_max=1", 1), json!([]));
    again.restore(lower.machine.pipeline()).unwrap();
    run.succeeds("each#1:inner~0/inner#1:look~0/look#1/1")
        .succeeds(second);
    run.succeeds(other)
        .succeeds("each#1:inner~0/some#1/1")
        .succeeds("all#1/1");
    assert_eq!(run.end(), None);
}
