//! Checks that each column of the table is compared, or is ignored on purpose.

use std::time::Duration;

use orchestra_graph::table::{
    AttributeRow, ConditionRow, Constant, EdgeRow, End, ErrorPolicy, FanOut, JoinPolicy, NodeRow, Retry,
    Role, Routing, Settings, Text,
};
use orchestra_graph::{Difference, NodeIndex, Pipeline};

use super::{FLOW, of_text};

/// Returns a pipeline whose rows a test can change one by one.
fn owned() -> Pipeline {
    of_text(FLOW)
}

fn node<'p>(pipeline: &'p mut Pipeline, id: &str) -> &'p mut NodeRow {
    let at = pipeline.find(id).expect("declared");
    &mut pipeline.nodes.to_mut()[at.at()]
}

type Edit = fn(&mut Pipeline);

fn text(pipeline: &mut Pipeline, text: &str) -> Text {
    pipeline.texts.add(text)
}

fn fan_out(pipeline: &mut Pipeline) -> &mut FanOut {
    node(pipeline, "fan").fan_out.as_mut().expect("it fans out")
}

#[test]
fn every_column_of_the_table_counts_by_itself() {
    // A new column of the table breaks the build of this test: decide whether the column is compared.
    let pipeline = owned();
    let NodeRow {
        id: _,
        kind: _,
        role: _,
        end: _,
        on_failure_route: _,
        edges: _,
        attributes: _,
        retry_target: _,
        fallback_retry_target: _,
        max_visits: _,
        goal_gate: _,
        goal_condition: _,
        allow_partial: _,
        retry:
            Retry {
                attempts: _,
                initial_delay: _,
                backoff_factor: _,
                max_delay: _,
                jitter: _,
            },
        fan_out: _,
        child: _,
        position: _,
    } = &pipeline.nodes[0];
    let EdgeRow {
        from: _,
        to: _,
        parallel_index: _,
        label: _,
        normalized_label: _,
        condition: _,
        weight: _,
        loop_restart: _,
        allow_revisit: _,
        max_revisits: _,
        attributes: _,
        position: _,
    } = &pipeline.edges[0];
    let ConditionRow {
        text: _,
        keys: _,
        needs_failure: _,
    } = &pipeline.conditions[0];
    let AttributeRow { key: _, value: _ } = &pipeline.attributes[0];
    let Settings {
        routing: _,
        max_node_visits: _,
        failure_breaker: _,
        max_goal_gate_reroutes: _,
        max_restarts: _,
        retry_target: _,
        fallback_retry_target: _,
    } = &pipeline.settings;
    let FanOut {
        join: _,
        join_policy: _,
        error_policy: _,
        max_parallel: _,
        foreach_max: _,
    } = owned().nodes[pipeline.find("fan").expect("declared").at()]
        .fan_out
        .expect("it fans out");

    let edits: &[Edit] = &[
        |p| p.name = "other".into(),
        |p| p.start = NodeIndex(2),
        |p| p.exit = NodeIndex(2),
        |p| p.kinds.to_mut()[0] = p.texts.add("other"),
        |p| p.settings.routing = Routing::FirstMatch,
        |p| p.settings.max_node_visits = 7,
        |p| p.settings.failure_breaker = 7,
        |p| p.settings.max_goal_gate_reroutes = 7,
        |p| p.settings.max_restarts = 7,
        |p| p.settings.retry_target = Some(NodeIndex(2)),
        |p| p.settings.fallback_retry_target = Some(NodeIndex(2)),
        |p| node(p, "build").id = text(p, "construct"),
        |p| node(p, "build").kind = 0,
        |p| node(p, "build").role = Role::Routing,
        |p| node(p, "build").end = End::Fail,
        |p| node(p, "build").on_failure_route = true,
        |p| node(p, "build").attributes = Default::default(),
        |p| node(p, "build").retry_target = Some(NodeIndex(0)),
        |p| node(p, "build").fallback_retry_target = Some(NodeIndex(0)),
        |p| node(p, "build").max_visits = Some(7),
        |p| node(p, "build").goal_gate = false,
        |p| node(p, "build").goal_condition = Some(0),
        |p| node(p, "build").allow_partial = true,
        |p| node(p, "build").retry.attempts = 7,
        |p| node(p, "build").retry.initial_delay = Duration::from_nanos(7),
        |p| node(p, "build").retry.backoff_factor = 7.5,
        |p| node(p, "build").retry.max_delay = Duration::from_millis(7),
        |p| node(p, "build").retry.jitter = false,
        |p| node(p, "fan").fan_out = None,
        |p| fan_out(p).join = NodeIndex(0),
        |p| fan_out(p).join_policy = JoinPolicy::Quorum(0.5),
        |p| fan_out(p).join_policy = JoinPolicy::KOfN(1),
        |p| fan_out(p).error_policy = ErrorPolicy::Ignore,
        |p| fan_out(p).max_parallel = 7,
        |p| fan_out(p).foreach_max = Some(7),
        |p| p.edges.to_mut()[0].to = NodeIndex(0),
        |p| p.edges.to_mut()[0].label = p.texts.add("L"),
        |p| p.edges.to_mut()[0].condition = Some(0),
        |p| p.edges.to_mut()[0].weight = 7,
        |p| p.edges.to_mut()[0].loop_restart = true,
        |p| p.edges.to_mut()[0].allow_revisit = true,
        |p| p.edges.to_mut()[0].max_revisits = Some(7),
        |p| p.conditions.to_mut()[0].text = p.texts.add("outcome=other"),
        |p| p.attributes.to_mut()[0].value = Constant::Integer(7),
        |p| p.attributes.to_mut()[0].key = p.texts.add("another"),
    ];
    for (at, edit) in edits.iter().enumerate() {
        let mut pipeline = owned();
        edit(&mut pipeline);
        assert_ne!(pipeline.canonical(), owned().canonical(), "edit {at}");
        for (old, new) in [(&owned(), &pipeline), (&pipeline, &owned())] {
            assert!(!Difference::between(old, new).is_empty(), "edit {at}");
        }
    }
    let none: &[Edit] = &[
        |p| p.file = "other.dot".into(),
        |p| p.source = "".into(),
        |p| p.nodes.to_mut().iter_mut().for_each(|row| row.position.line += 1),
        |p| {
            p.edges
                .to_mut()
                .iter_mut()
                .for_each(|row| row.position.column += 1)
        },
    ];
    for (at, edit) in none.iter().enumerate() {
        let mut pipeline = owned();
        edit(&mut pipeline);
        assert_eq!(pipeline.canonical(), owned().canonical(), "edit {at}");
        assert!(Difference::between(&owned(), &pipeline).is_empty(), "edit {at}");
    }
}
