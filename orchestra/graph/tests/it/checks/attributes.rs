//! Tests of the checks of attributes that have no effect.

use super::{clean, raises};

#[test]
fn attributes_that_nothing_reads_are_found() {
    let nothing = ["attribute_without_effect"];
    let way =
        "start -> a -> d; d -> exit [condition=\"outcome=success\"]; d -> a [condition=\"outcome!=success\"]";
    clean(way);
    for attribute in [
        "max_retries=2",
        "retry_policy=standard",
        "timeout=5m",
        "allow_partial=true",
    ] {
        raises(&format!("d [shape=diamond, {attribute}]; {way}"), &nothing);
        raises(&format!("start [{attribute}]; {way}"), &nothing);
        raises(&format!("exit [{attribute}]; {way}"), &nothing);
        clean(&format!("a [label=A, {attribute}]; {way}"));
        // Defaults are meant for other nodes, and the handler of another kind may read any attribute.
        clean(&format!("node [{attribute}]; {way}"));
        clean(&format!("d [type=\"acme.choose\", label=D, {attribute}]; {way}"));
    }
    raises(
        &format!("graph [retry_target=a]; d [shape=diamond, goal_gate=true]; {way}"),
        &nothing,
    );
    // These values are neutral.
    clean(&format!(
        "d [shape=diamond, max_retries=0, retry_policy=none, goal_gate=false, allow_partial=false]; {way}"
    ));
    for attribute in [
        "join_policy=first_success",
        "join_k=1",
        "join_quorum=0.5",
        "error_policy=ignore",
        "max_parallel=2",
    ] {
        raises(&format!("a [label=A, {attribute}]; start -> a -> exit"), &nothing);
        clean(&format!("node [{attribute}]; start -> a -> exit"));
        clean(&format!("a [type=\"acme.fan\", {attribute}]; start -> a -> exit"));
    }
    for attribute in ["merge_policy=best_only", "on_conflict=human"] {
        raises(&format!("a [label=A, {attribute}]; start -> a -> exit"), &nothing);
        clean(&format!("node [{attribute}]; start -> a -> exit"));
        clean(&format!(
            "a [type=\"acme.merge\", {attribute}]; start -> a -> exit"
        ));
        clean(&format!(
            "f [shape=component]; j [shape=tripleoctagon, {attribute}]; a [label=A]; b [label=B]\nstart -> f; f -> a -> j; f -> b -> j -> exit"
        ));
    }
    for shape in [
        "diamond",
        "hexagon",
        "house, stack.child_dotfile=\"x.dot\"",
        "folder, subpipeline.name=lint",
    ] {
        raises(
            &format!("d [shape={shape}, label=D, repo=api]; start -> d -> exit"),
            &nothing,
        );
    }
    for shape in [
        "box",
        "parallelogram, tool_command=ls",
        "box, type=\"acme.build\"",
    ] {
        clean(&format!(
            "a [shape={shape}, label=A, repo=api]; start -> a -> exit"
        ));
    }
    for attribute in [
        "manager.poll_interval=5s",
        "manager.max_cycles=3",
        "manager.stop_condition=\"context.done\"",
        "manager.actions=wait",
        "manager.guard.intervene=\"context.stuck\"",
        "manager.guard.escalate=\"context.lost\"",
        "manager.steer_message=Hurry",
        "manager.steer_cooldown=5s",
    ] {
        raises(&format!("a [label=A, {attribute}]; start -> a -> exit"), &nothing);
        clean(&format!(
            "a [shape=house, label=A, stack.child_dotfile=\"a.dot\", {attribute}]; start -> a -> exit"
        ));
    }
    for attribute in [
        "subpipeline.file=\"a.dot\"",
        "subpipeline.name=lint",
        "subpipeline.inputs=a",
        "subpipeline.outputs=a",
    ] {
        raises(&format!("a [label=A, {attribute}]; start -> a -> exit"), &nothing);
        clean(&format!(
            "node [subpipeline.name=lint]; a [shape=folder, label=A, {attribute}]; start -> a -> exit"
        ));
    }
    raises(
        "a [label=A, human.default_choice=exit]; start -> a -> exit",
        &nothing,
    );
    raises(
        "a [label=A, human.default_choice=none]; start -> a -> exit",
        &nothing,
    );
    // Only the misspelt shape is a mistake.
    raises(
        "a [shape=hexagn, label=A, human.default_choice=exit]; start -> a -> exit",
        &["type_known"],
    );
    raises("start -> a; a -> exit [freeform=true]", &nothing);
    clean("start -> a; a -> exit [freeform=false]");
    clean("edge [freeform=true]; start -> a -> exit");
    clean("start -> h; h -> exit [freeform=true, label=Say]");
    // A chain sets it on each of its edges.
    clean("start -> h -> a -> exit [freeform=true]");
    clean("a [type=\"acme.ask\"]; start -> a; a -> exit [freeform=true]");
}

#[test]
fn attributes_of_the_other_way_of_routing_are_reported() {
    let other = ["routing_dialect"];
    let first = "routing=first_match; start -> a; a -> b [condition_type=failure];";
    clean(&format!("{first} a -> exit; b -> exit"));
    raises(&format!("{first} a -> exit [weight=2]; b -> exit"), &other);
    raises(&format!("edge [weight=2]; {first} a -> exit; b -> exit"), &other);
    clean(&format!("{first} a -> exit [weight=0]; b -> exit"));
    raises(
        &format!("{first} a -> exit; b -> a [condition=\"outcome=fail\", max_revisits=2]; b -> exit"),
        &other,
    );
    clean(&format!(
        "{first} a -> exit; b -> a [condition=\"outcome=fail\", allow_revisit=true, max_revisits=2]; b -> exit"
    ));
    let five = "start -> a; a -> exit;";
    for attribute in [
        "allow_revisit=true",
        "max_revisits=2",
        "allow_revisit=true, max_revisits=2",
    ] {
        raises(
            &format!("{five} a -> a [condition=\"outcome=fail\", {attribute}]"),
            &other,
        );
    }
    clean(&format!(
        "{five} a -> a [condition=\"outcome=fail\", allow_revisit=false]"
    ));
    // One graph attribute is missing, so there is one diagnostic.
    raises(
        "start -> a; a -> exit [condition_type=success]; a -> b [condition_type=failure]; b -> exit [condition_type=always]",
        &other,
    );
}

#[test]
fn a_pool_is_a_name_on_a_stage_that_a_worker_executes() {
    for pool in ["gpu", "gpu_2", "007", "\"\""] {
        clean(&format!(
            "pool={pool}; start -> a -> exit; a [label=A, pool={pool}]"
        ));
    }
    for pool in ["\"gpu-2\"", "\"two words\"", "\"größe\"", "1.5", "-1"] {
        raises(
            &format!("start -> a -> exit; a [label=A, pool={pool}]"),
            &["attribute_type"],
        );
        raises(
            &format!("pool={pool}; start -> a -> exit; a [label=A]"),
            &["attribute_type"],
        );
    }
    raises(
        "start -> a -> exit; a [label=A]; start [pool=gpu]",
        &["attribute_without_effect"],
    );
    let text = "digraph { pool=007; start -> a -> exit; a [prompt=A] }";
    let loaded = orchestra_graph::load(orchestra_graph::Source::new("a.dot", text), &Default::default());
    let pipeline = loaded.pipeline().expect("sound");
    let stage = pipeline.stage(pipeline.find("a").expect("declared"));
    assert_eq!(stage.pool(), Some("007"));
}
