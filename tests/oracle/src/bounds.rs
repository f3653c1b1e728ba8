//! The bounds of a run, counted from what happened and held to what the graph says (rules R7, R9, R10, Y1, P4).

use std::collections::{BTreeMap, BTreeSet};

use crate::description::Graph;
use crate::trace::{Step, Trace, node_of};

/// Counts what a run did.
///
/// # Panics
/// If it did more of anything than its graph allows.
pub fn hold(graph: &Graph, trace: &Trace) {
    let common = |key: &str, default: u32| bound(graph, None, key).unwrap_or(default);
    let mut begun: BTreeSet<&str> = BTreeSet::new();
    let mut visits: BTreeMap<&str, u32> = BTreeMap::new();
    let mut attempts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut running: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut reroutes, mut restarts) = (0, 0);
    for step in &trace.steps {
        match step {
            Step::Start(name) => {
                assert!(begun.insert(name), "{name} begins once");
                let node = node_of(name);
                let own = bound(graph, Some(node), "max_visits");
                let limit = own.unwrap_or(common("max_node_visits", 1000));
                // Of one line of the run: its name up to the number of the visit.
                let (line, numbers) = name.rsplit_once('#').expect("a visit has a number");
                let (visit, attempt) = numbers.split_once('/').expect("an attempt has a number");
                assert!(visit.parse::<u32>().expect("a number") <= limit, "{name}");
                if attempt == "1" {
                    let visits = visits.entry(line).or_default();
                    *visits += 1;
                    assert!(*visits <= limit, "{name}");
                }
                let visit = &name[..name.len() - attempt.len() - 1];
                let made = attempts.entry(visit).or_default();
                *made += 1;
                assert_eq!(attempt, made.to_string(), "attempts follow one another");
            }
            Step::Wait { name, attempts, .. } => {
                let (_, attempt) = name.rsplit_once('/').expect("an attempt has a number");
                assert!(attempt.parse::<u32>().expect("a number") <= *attempts, "{name}");
            }
            Step::BranchStart { branch, .. } => {
                let (block, _) = branch.rsplit_once(':').expect("a branch has an id");
                let running = running.entry(block).or_default();
                *running += 1;
                // A branch of a block's further attempt bears its number.
                let (fan_out, _) = block.rsplit_once('#').expect("a visit has a number");
                let fan_out = fan_out.rsplit('/').next().unwrap_or_default();
                let limit = bound(graph, Some(fan_out), "max_parallel").unwrap_or(4);
                assert!(*running <= limit, "{branch}");
            }
            Step::BranchEnd { branch, status, .. } if status != "cancelled" => {
                let (block, _) = branch.rsplit_once(':').expect("a branch has an id");
                *running.entry(block).or_default() -= 1;
            }
            Step::Reroute { count, .. } => {
                reroutes += 1;
                assert_eq!(*count, reroutes);
                assert!(reroutes <= common("max_goal_gate_reroutes", 50));
            }
            Step::Restart { count, .. } => {
                restarts += 1;
                assert_eq!(*count, restarts);
                assert!(restarts <= common("max_restarts", 20));
                reroutes = 0;
                visits.clear();
                running.clear();
            }
            _ => {}
        }
    }
}

/// A bound that a node or, without one, the graph sets.
fn bound(graph: &Graph, node: Option<&str>, key: &str) -> Option<u32> {
    let attributes = match node {
        Some(id) => &graph.nodes.iter().find(|node| node.id == id)?.attributes,
        None => &graph.attributes,
    };
    attributes.get(key)?.parse().ok()
}
