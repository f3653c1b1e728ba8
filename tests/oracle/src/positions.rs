//! Which call of its stage an attempt is, from its name.

use std::collections::BTreeMap;

use orchestra_graph::{EdgeIndex, Pipeline, branch_id};

use crate::description::{Call, Node};

/// The places of branches among the edges of their fan-outs.
#[derive(Clone, Debug, Default)]
pub struct Positions(BTreeMap<(String, String), usize>);

impl Positions {
    /// Returns the places of the branches of a pipeline.
    pub fn of(pipeline: &Pipeline) -> Positions {
        let edges = (0..pipeline.edges.len()).map(|at| EdgeIndex(at as u32));
        let mut positions = BTreeMap::new();
        for edge in edges {
            let from = pipeline.stage(pipeline.edge(edge).from);
            let position = from.edges().position(|(at, _)| at == edge).unwrap_or_default();
            positions.insert((from.id().to_owned(), branch_id(pipeline, edge)), position);
        }
        Positions(positions)
    }

    /// Returns the call of an attempt key, such as `restart-1/fan#1:left/build#2/1`.
    pub fn call(&self, key: &str) -> Call {
        let number = |text: &str| text.parse().unwrap_or(1);
        let (key, restart) = match key.strip_prefix("restart-").and_then(|rest| rest.split_once('/')) {
            Some((restart, key)) => (key, number(restart)),
            None => (key, 0),
        };
        let (key, attempt) = key.rsplit_once('/').unwrap_or((key, "1"));
        let (branches, last) = key.rsplit_once('/').unwrap_or(("", key));
        let visit = last.rsplit_once('#').map_or(1, |(_, visit)| number(visit));
        let steps = branches.split('/').filter_map(|step| step.split_once(':'));
        let positions = steps.map(|(block, branch)| {
            let block = block.split('#').next().unwrap_or(block);
            let place = |branch: &str| self.0.get(&(block.to_owned(), branch.to_owned())).copied();
            // The branch of an item is named by the place of the item.
            let item = || {
                let (branch, item) = branch.rsplit_once('~')?;
                Some(place(branch)? + item.parse::<usize>().ok()?)
            };
            place(branch).or_else(item).unwrap_or_default()
        });
        Call {
            visit,
            attempt: number(attempt),
            restart,
            positions: positions.sum(),
        }
    }
}

impl Node {
    fn says(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }

    /// Returns whether the node is a fan-in.
    pub fn is_fan_in(&self) -> bool {
        self.says("type") == "parallel.fan_in"
            || self.says("type").is_empty() && self.says("shape") == "tripleoctagon"
    }

    /// Returns whether a handler does the work of the node.
    pub fn is_work(&self) -> bool {
        let by_shape = [
            "Mdiamond",
            "circle",
            "Msquare",
            "doublecircle",
            "component",
            "tripleoctagon",
            "hexagon",
            "diamond",
        ];
        let shape = self.says("shape");
        match self.says("type") {
            "" => {
                let named = matches!(&*self.id, "start" | "Start" | "exit" | "end") && shape.is_empty();
                !named && !by_shape.contains(&shape)
            }
            "conditional" | "parallel" | "parallel.fan_in" | "wait.human" => false,
            _ => true,
        }
    }
}
