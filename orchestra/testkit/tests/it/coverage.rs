//! Edge coverage: the edges that count, and their sums.
use orchestra_engine::Outcome;
use orchestra_testkit::{Coverage, Simulation};
use serde_json::json;

fn simulation(graph: &str) -> Simulation {
    Simulation::load(&format!("digraph t {{\n{graph}\n}}")).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the coverage of one run.
fn covered(simulation: &Simulation) -> Coverage {
    let mut coverage = simulation.coverage();
    coverage.add(simulation.run().transitions());
    coverage
}

fn untaken(coverage: &Coverage) -> Vec<String> {
    coverage
        .untaken()
        .map(|edge| format!("{} -> {}", edge.from, edge.to))
        .collect()
}

#[test]
fn jumps_are_no_edges() {
    let graph =
        "start -> test -> exit\n test [prompt=Test, retry_target=mend]\n mend [prompt=Mend]\n mend -> test";
    let jumped = simulation(graph).outcome("test", ["fail", "success"]);
    assert_eq!(jumped.run().path(), &["start", "test", "mend", "test", "exit"]);
    let coverage = covered(&jumped);
    assert_eq!((coverage.counts(), coverage.percent()), ((3, 3), 100));
    assert_eq!(untaken(&covered(&simulation(graph))), ["mend -> test"]);
}

#[test]
fn a_goal_gate_s_way_back_is_no_edge_and_the_edge_to_the_exit_counts() {
    let graph =
        "start -> test -> exit\n test [prompt=Test, goal_gate=true, retry_target=test, on_failure=route]";
    let coverage = covered(&simulation(graph).outcome("test", ["fail", "success"]));
    let counts: Vec<u64> = coverage.edges().map(|edge| edge.count).collect();
    assert_eq!(counts, [1, 2]);
}

#[test]
fn edges_that_only_a_failure_takes_count_like_any_other() {
    let graph = r#"start -> test
        test [prompt=Test]
        test -> verdict
        verdict [shape=diamond]
        verdict -> exit [condition="outcome=success"]
        verdict -> stop [condition="outcome=fail"]
        stop [prompt=Stop, end=fail]"#;
    let mut coverage = covered(&simulation(graph));
    assert_eq!(untaken(&coverage), ["verdict -> stop"]);
    coverage.add(simulation(graph).outcome("test", ["fail"]).run().transitions());
    assert!(coverage.is_complete());
}

#[test]
fn branches_joins_and_restarts_are_counted() {
    let graph = r#"start -> fan
        fan [shape=component]
        fan -> a -> join
        fan -> b -> join
        a [prompt=A]
        b [prompt=B]
        join [shape=tripleoctagon]
        join -> again
        again [prompt=Again]
        again -> fan [condition="outcome=fail", loop_restart=true]
        again -> exit [condition="outcome=success"]"#;
    let coverage = covered(&simulation(graph).outcome("again", ["fail", "success"]));
    assert!(coverage.is_complete(), "{coverage}");
    let of = |from: &str, to: &str| {
        let edge = coverage.edges().find(|edge| (edge.from, edge.to) == (from, to));
        edge.unwrap_or_else(|| panic!("{from} -> {to}")).count
    };
    // Edges of branches into the join count like any other edge.
    assert_eq!((of("fan", "a"), of("a", "join"), of("join", "again")), (2, 2, 2));
    assert_eq!((of("again", "fan"), of("again", "exit")), (1, 1));
}

#[test]
fn a_station_pipeline_is_covered_by_its_data() {
    let graph = r#"routing=first_match
        start -> check
        check [prompt=Check]
        check -> good [condition_type=conditional, condition_value="{\"key\":\"passed\",\"value\":true}"]
        check -> bad  [condition_type=always]
        good [prompt=Good]
        bad  [prompt=Bad]
        good -> exit
        bad -> exit"#;
    let passed =
        |passed: bool| simulation(graph).outcome("check", [Outcome::success().set("passed", passed)]);
    let mut coverage = covered(&passed(true));
    assert_eq!(untaken(&coverage), ["check -> bad", "bad -> exit"]);
    coverage.add(passed(false).run().transitions());
    coverage.assert_complete();
}

#[test]
fn what_is_missing_is_listed_with_its_place() {
    let simulation =
        simulation("start -> test\ntest [prompt=Test]\ntest -> exit [label=\"[D] Done\"]\ntest -> test");
    let mut coverage = simulation.coverage();
    assert_eq!(coverage.percent(), 0);
    coverage.add(
        simulation
            .outcome("test", [Outcome::success().prefer("Done")])
            .run()
            .transitions(),
    );
    assert_eq!(
        coverage.summary(),
        "edges: 2 of 3 taken (67 %), not taken: test -> test"
    );
    assert_eq!(
        coverage.to_string(),
        "edges: 2 of 3 taken (67 %) by 1 run\n  not taken: pipeline.dot:5:9: test -> test"
    );
    let panic = std::panic::catch_unwind(|| coverage.assert_complete()).unwrap_err();
    assert_eq!(
        panic.downcast_ref::<String>().unwrap(),
        &format!("pipeline `t`: {coverage}")
    );
    assert_eq!(
        serde_json::to_value(&coverage).unwrap(),
        json!({
            "schema": "orchestra.coverage/1", "pipeline": "t", "taken": 2, "edges": 3, "percent": 67,
            "transitions": [
                {"from": "start", "to": "test", "label": "", "condition": "", "count": 1,
                 "file": "pipeline.dot", "line": 2, "column": 10},
                {"from": "test", "to": "exit", "label": "[D] Done", "condition": "", "count": 1,
                 "file": "pipeline.dot", "line": 4, "column": 9},
                {"from": "test", "to": "test", "label": "", "condition": "", "count": 0,
                 "file": "pipeline.dot", "line": 5, "column": 9},
            ],
        })
    );
}

#[test]
fn less_than_all_is_never_a_hundred_per_cent() {
    let edges: String = (0..300).map(|at| format!("n{at} -> n{}\n", at + 1)).collect();
    let graph = format!("start -> n0\n{edges}n300 -> exit\nn300 -> n0 [condition=\"outcome=fail\"]");
    let coverage = covered(&simulation(&graph));
    assert_eq!((coverage.counts(), coverage.percent()), ((302, 303), 99));
    let nothing = simulation(&graph).coverage();
    assert!(
        nothing.summary().ends_with("n8 -> n9 and 293 more"),
        "{}",
        nothing.summary()
    );
    assert_eq!(Coverage::new(empty()).percent(), 100);
}

/// Returns a pipeline without edges.
fn empty() -> orchestra_graph::Pipeline {
    let source = orchestra_graph::Source::new("a.dot", "digraph { start -> exit }");
    let mut pipeline = orchestra_graph::load(source, &Default::default())
        .pipeline()
        .unwrap();
    pipeline.edges = Vec::new().into();
    pipeline
}

#[test]
#[should_panic(expected = "the run was of another pipeline than `t`")]
fn runs_of_another_pipeline_do_not_add_up() {
    let mut coverage = simulation("start -> a -> exit").coverage();
    coverage.add(simulation("start -> b -> exit").run().transitions());
}
