//! The rows of a table: nodes, edges, conditions and attributes.

use super::declare::row;
use super::policy::{FanOut, Retry};
use super::texts::Text;
use super::values::{Constant, End, Role, Rows};
use crate::model::NodeIndex;
use crate::text::Position;

row! {
    /// A node. The defaults are those of a node that does not exist.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> work -> exit; work [max_visits=3] }";
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let work = pipeline.nodes.iter().find(|node| pipeline.text(node.id) == "work").expect("declared");
    /// assert_eq!((work.max_visits, work.edges.range().len()), (Some(3), 1));
    /// ```
    pub struct NodeRow {
        /// The id.
        pub id: Text as text = Text::EMPTY,
        /// The handler kind, an index into [`Pipeline::kinds`](crate::Pipeline::kinds).
        pub kind: u32 as number = u32::MAX,
        /// The function in the flow.
        pub role: Role as role = Role::Work,
        /// The result of a run that ends at this node.
        pub end: End as end = End::Unstated,
        /// `true` if plain edges are followed after a failure (`on_failure="route"`).
        pub on_failure_route: bool as flag = false,
        /// The outgoing edges, in file order.
        pub edges: Rows as rows = Rows::NONE,
        /// The attributes, rows of [`Pipeline::attributes`](crate::Pipeline::attributes).
        pub attributes: Rows as rows = Rows::NONE,
        /// The node to go to after a failure.
        pub retry_target: Option<NodeIndex> as optional_node = None,
        /// The node to go to after a failure if there is no `retry_target`.
        pub fallback_retry_target: Option<NodeIndex> as optional_node = None,
        /// The maximum number of visits in a run (rule R10); `None` for the limit of the pipeline.
        pub max_visits: Option<u32> as optional_number = None,
        /// `true` if the node must have succeeded before the run may end (rule R7).
        pub goal_gate: bool as flag = false,
        /// The condition that must hold before the run may end, an index into
        /// [`Pipeline::conditions`](crate::Pipeline::conditions); `None` if the goal gate has no condition of its own.
        pub goal_condition: Option<u32> as optional_number = None,
        /// `true` if exhausted retries count as a partial success (rule Y5).
        pub allow_partial: bool as flag = false,
        /// The retry policy.
        pub retry: Retry as retry = Retry::ONCE,
        /// The settings of a fan-out; `None` for any other node.
        pub fan_out: Option<FanOut> as optional_fan_out = None,
        /// The pipeline that the node runs, an index into [`Pipeline::children`](crate::Pipeline::children).
        pub child: Option<u32> as optional_number = None,
        /// The position of the declaration.
        pub position: Position as position = Position { line: 0, column: 0 },
    }
}

row! {
    /// An edge. The defaults are those of an edge that does not exist.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> exit [label=\"[Y] Yes\", weight=2] }";
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let edge = &pipeline.edges[0];
    /// assert_eq!((edge.to, edge.weight), (pipeline.exit, 2));
    /// assert_eq!((pipeline.text(edge.label), pipeline.text(edge.normalized_label)), ("[Y] Yes", "yes"));
    /// ```
    pub struct EdgeRow {
        /// The source node.
        pub from: NodeIndex as node = NodeIndex(u32::MAX),
        /// The target node.
        pub to: NodeIndex as node = NodeIndex(u32::MAX),
        /// The index of the edge among those with the same source and target, in file order.
        pub parallel_index: u32 as number = 0,
        /// The label as written; empty if there is none.
        pub label: Text as text = Text::EMPTY,
        /// The label in the normal form, in which labels are compared.
        pub normalized_label: Text as text = Text::EMPTY,
        /// The condition, an index into [`Pipeline::conditions`](crate::Pipeline::conditions).
        pub condition: Option<u32> as optional_number = None,
        /// The priority; the highest wins.
        pub weight: i64 as signed = 0,
        /// `true` if the edge restarts the run (rule R9).
        pub loop_restart: bool as flag = false,
        /// `true` if the edge may lead back in first-match routing (rule R11).
        pub allow_revisit: bool as flag = false,
        /// The maximum number of times that the edge may lead back.
        pub max_revisits: Option<u32> as optional_number = None,
        /// The attributes, rows of [`Pipeline::attributes`](crate::Pipeline::attributes).
        pub attributes: Rows as rows = Rows::NONE,
        /// The position in the file.
        pub position: Position as position = Position { line: 0, column: 0 },
    }
}

row! {
    /// A condition; edges with the same condition share it. Its executable form is one of
    /// [`Pipeline::predicates`](crate::Pipeline::predicates).
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let text = r#"digraph { start -> exit [condition="outcome=success"] }"#;
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let row = pipeline.conditions[0];
    /// assert_eq!((pipeline.text(row.text), row.needs_failure), ("outcome=success", false));
    /// ```
    pub struct ConditionRow {
        /// The text as written.
        pub text: Text as text = Text::EMPTY,
        /// The keys that the condition reads, rows of [`Pipeline::keys`](crate::Pipeline::keys).
        pub keys: Rows as rows = Rows::NONE,
        /// `true` if the condition can hold only after a failure.
        pub needs_failure: bool as flag = false,
    }
}

row! {
    /// One attribute of a node, an edge or the graph.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> ship -> exit; ship [type=deploy, target=production] }";
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let ship = pipeline.stage(pipeline.find("ship").expect("declared"));
    /// let rows = &pipeline.attributes[ship.row().attributes.range()];
    /// let keys: Vec<&str> = rows.iter().map(|row| pipeline.text(row.key)).collect();
    /// assert_eq!(keys, ["type", "target"]);
    /// ```
    pub struct AttributeRow {
        /// The canonical name.
        pub key: Text as text = Text::EMPTY,
        /// The value.
        pub value: Constant<Text> as constant = Constant::String(Text::EMPTY),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::policy::{ErrorPolicy, JoinPolicy};
    use super::*;

    const AT: Option<NodeIndex> = Some(NodeIndex(3));

    const NODE: NodeRow = NodeRow {
        id: Text(1),
        kind: 2,
        role: Role::Routing,
        end: End::Success,
        on_failure_route: true,
        edges: Rows { start: 3, end: 4 },
        attributes: Rows { start: 5, end: 6 },
        retry_target: AT,
        fallback_retry_target: AT,
        max_visits: Some(u32::MAX),
        goal_gate: true,
        goal_condition: Some(0),
        allow_partial: true,
        retry: Retry {
            attempts: 7,
            initial_delay: Duration::from_millis(1),
            backoff_factor: 0.1,
            max_delay: Duration::from_millis(1 << 40),
            jitter: false,
        },
        fan_out: Some(FanOut {
            join: NodeIndex(8),
            join_policy: JoinPolicy::Quorum(0.25),
            error_policy: ErrorPolicy::Ignore,
            max_parallel: 9,
            foreach_max: Some(10),
        }),
        child: Some(0),
        position: Position { line: 1, column: 2 },
    };

    #[test]
    fn nodes_are_read_as_they_were_written() {
        let policies = [
            (JoinPolicy::WaitAll, ErrorPolicy::FailFast),
            (JoinPolicy::KOfN(2), ErrorPolicy::Continue),
            (JoinPolicy::FirstSuccess, ErrorPolicy::Ignore),
        ];
        let [one, two, three] = policies.map(|(join_policy, error_policy)| NodeRow {
            role: Role::Start,
            end: End::Fail,
            fan_out: Some(FanOut {
                join: NodeIndex(0),
                join_policy,
                error_policy,
                max_parallel: 1,
                foreach_max: None,
            }),
            ..NodeRow::DEFAULT
        });
        let exit = NodeRow {
            role: Role::Exit,
            ..NODE
        };
        let nodes = [NODE, NodeRow::DEFAULT, one, two, three, exit];
        assert_eq!(NodeRow::read::<6>(&NodeRow::write(&nodes)), nodes);
    }

    #[test]
    fn edges_conditions_and_attributes_are_read_as_they_were_written() {
        let edge = EdgeRow {
            from: NodeIndex(1),
            to: NodeIndex(0),
            parallel_index: 1,
            label: Text(2),
            normalized_label: Text(3),
            condition: Some(0),
            weight: -4,
            loop_restart: true,
            allow_revisit: true,
            max_revisits: Some(5),
            attributes: Rows { start: 6, end: 7 },
            position: Position { line: 8, column: 9 },
        };
        let edges = [edge, EdgeRow::DEFAULT, edge];
        assert_eq!(EdgeRow::read::<3>(&EdgeRow::write(&edges)), edges);
        let condition = ConditionRow {
            text: Text(1),
            keys: Rows { start: 2, end: 3 },
            needs_failure: true,
        };
        let conditions = [condition, ConditionRow::DEFAULT];
        assert_eq!(
            ConditionRow::read::<2>(&ConditionRow::write(&conditions)),
            conditions
        );
        let values = [
            Constant::String(Text(1)),
            Constant::Integer(i64::MIN),
            Constant::Float(-0.5),
            Constant::Boolean(true),
            Constant::Duration(Duration::from_millis(1)),
        ];
        let attributes = values.map(|value| AttributeRow { key: Text(2), value });
        assert_eq!(
            AttributeRow::read::<5>(&AttributeRow::write(&attributes)),
            attributes
        );
    }
}
