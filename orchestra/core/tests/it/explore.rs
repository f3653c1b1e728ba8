//! The exploration of pipelines by the machine.

use orchestra_core::{Exploration, ExploreOptions, explore};
use orchestra_graph::{Loaded, Source, load};

fn loaded(body: &str) -> Loaded {
    let text = format!("digraph a {{ start [shape=Mdiamond]; exit [shape=Msquare]\n{body} }}");
    load(Source::new("a.dot", text.as_str()), &Default::default())
}

fn found(body: &str) -> Exploration {
    let found = explore(&loaded(body), &ExploreOptions::default()).unwrap();
    assert_eq!(found.violations, [""; 0], "{body}");
    assert!(found.is_complete, "{body}");
    found
}

/// Returns the ends as `CODE` or `CODE NODE`.
fn ends(found: &Exploration) -> Vec<String> {
    let ends = found.ends.iter();
    ends.map(|end| format!("{} {}", end.code, end.node).trim().to_owned())
        .collect()
}

#[test]
fn every_outcome_answer_and_time_out_is_tried() {
    let work = found("work; start -> work -> exit; work -> done [condition=\"outcome=done\"]; done -> exit");
    assert!(work.taken.iter().all(|taken| *taken));
    let gate = found(
        "ask [shape=hexagon, timeout=5m, \"human.default_choice\"=Yes]; work
        start -> ask; ask -> work [label=Yes]; ask -> exit [label=No]; ask -> exit [label=Text, freeform=true]; work -> exit
        ask -> work [condition=\"outcome=fail\"]",
    );
    assert!(gate.taken.iter().all(|taken| *taken));
    let context = found(
        "work; start -> work; work -> a [condition=\"context.score>=7 && context.mode=fast\"]; work -> exit; a -> exit",
    );
    assert!(context.taken.iter().all(|taken| *taken));
    assert!(context.tried_all_outcomes);
    let block = found(
        "fan [shape=component, timeout=5m, error_policy=fail_fast, max_retries=1]; a; b; join [shape=tripleoctagon]
        start -> fan; fan -> a -> join; fan -> b -> join; join -> exit",
    );
    assert_eq!(block.most[2], [1, 2], "the block is attempted again: {block:?}");
    assert_eq!(ends(&block), ["stage_failed fan", "stage_failed join", "success"]);
}

#[test]
fn lists_have_no_item_one_of_each_kind_and_several() {
    let each = found(
        "work; each [shape=component, foreach=files, foreach_max=2]; all [shape=tripleoctagon]
        start -> work -> each -> look; look [type=look]; look -> all; all -> exit
        look -> lint [condition=\"context.parallel.item=README.md\"]; lint -> all
        look -> build [condition=\"context.parallel.item.kind=rust\"]; build -> all",
    );
    assert!(each.taken.iter().all(|taken| *taken), "{each:?}");
    assert_eq!(each.most[5], [2, 2], "two items: {each:?}");
    assert!(
        ends(&each).contains(&"stage_failed each".to_owned()),
        "no list: {each:?}"
    );
    // An item of a declared list is one of its type.
    let declared = found(
        "inputs=\"files: list<text>\"; each [shape=component, foreach=files, foreach_max=1]; all [shape=tripleoctagon]
        start -> each -> look; look -> all -> exit",
    );
    assert!(declared.taken.iter().all(|taken| *taken));
}

#[test]
fn limits_that_the_file_sets_are_reached() {
    let visits =
        found("work [max_visits=3]; start -> work; work -> work [condition=\"outcome=fail\"]; work -> exit");
    assert_eq!(ends(&visits), ["max_visits work", "success"]);
    assert_eq!(visits.most[2], [3, 3]);
    let restarts = found(
        "graph [max_restarts=2]; work; start -> work; work -> work [condition=\"outcome=fail\", loop_restart=true]; work -> exit",
    );
    assert_eq!(ends(&restarts), ["max_restarts work", "success"]);
    assert_eq!(restarts.most[2], [3, 3]);
    // Neither the default of 1,000 visits nor that of 20 restarts makes further states.
    let endless = found("work; start -> work; work -> work [condition=\"outcome=fail\"]; work -> exit");
    assert_eq!(
        (ends(&endless), endless.states < 10),
        (vec!["success".to_owned()], true)
    );
}

#[test]
fn an_exploration_stops_at_its_limit() {
    let pipeline = loaded(
        "work [max_visits=900]; start -> work; work -> work [condition=\"outcome=fail\"]; work -> exit",
    );
    let options = ExploreOptions {
        max_states: 50,
        ..ExploreOptions::default()
    };
    let found = explore(&pipeline, &options).unwrap();
    assert_eq!((found.states, found.is_complete), (50, false));
    assert_eq!(explore(&loaded("start -> wrok; work -> exit"), &options), None);
}
