//! The search for a run that breaks an assertion.
//!
//! A run is followed from node to node, together with one fact: whether the required stage last ended as required, and
//! nothing has made that stale since. Every combination of node and fact is visited once, nearest first, so the search
//! is linear in the steps, and the path that it finds is a shortest one.
//!
//! The branches of a block are followed one by one, each from the fact before the block. If another branch can change the
//! fact meanwhile, it does not hold in the branch at all. After the block, the fact holds only if the branches cannot have
//! changed it, or if all of them have succeeded, and a branch that always runs has established it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use super::steps::{End, Step, Steps};
use crate::model::NodeIndex;
use crate::table::{ErrorPolicy, FanOut, JoinPolicy, Role};

/// The nodes that a run passes, each with the way in which it was left.
pub(crate) type Path = Vec<(NodeIndex, Option<String>)>;

/// A required stage.
pub(crate) struct Requirement {
    /// The node that a run may enter only if the requirement is met.
    pub(crate) target: NodeIndex,
    /// The stage that must have ended.
    pub(crate) stage: NodeIndex,
    pub(crate) result: Required,
    /// The nodes whose start makes an earlier end stale.
    pub(crate) since: Vec<NodeIndex>,
}

/// The required result of a stage.
pub(crate) enum Required {
    /// Any outcome but a failure.
    Passed,
    /// The answer of a human gate, as the index of its choice.
    Answer(usize),
    /// An outcome.
    Outcome(String),
}

/// Returns a shortest path to the target on which the requirement is not met. Returns `None` if there is none.
pub(crate) fn violation(steps: &mut Steps, requirement: &Requirement) -> Option<Path> {
    let start = steps.pipeline().start;
    let mut search = Search {
        steps,
        requirement,
        blocks: HashMap::new(),
        open: Vec::new(),
        restarts: Vec::new(),
        restarted: HashSet::new(),
    };
    let mut seen = Level::default();
    let mut entries = vec![(Point::enter(start, false), Path::new())];
    while let Some((entry, path)) = entries.pop() {
        if let Err(path) = search.follow(&mut seen, entry, &|| path.clone(), Place::MAIN) {
            return Some(path);
        }
        entries.append(&mut search.restarts);
    }
    None
}

/// Returns a path on which the failure of a stage leads nowhere: to the end of the run, or to a routing node that does
/// not decide. Returns `None` if every failure leads to another node.
pub(crate) fn unhandled(steps: &mut Steps, stage: NodeIndex) -> Option<Path> {
    let failure = steps.end("fail")?;
    if steps.stage(stage).row().role != Role::Routing && !steps.ends(stage).contains(&failure) {
        return None;
    }
    let mut before = HashMap::from([(stage, None)]);
    let mut queue = VecDeque::from([stage]);
    while let Some(at) = queue.pop_front() {
        for step in steps.after(at, failure).iter() {
            match *step {
                Step::To { node, .. } if steps.stage(node).row().role == Role::Routing => {
                    if let Entry::Vacant(entry) = before.entry(node) {
                        entry.insert(Some(at));
                        queue.push_back(node);
                    }
                }
                Step::To { .. } | Step::Success => {}
                Step::Failure => {
                    let mut path: Path = std::iter::successors(Some(at), |at| *before.get(at)?)
                        .map(|at| (at, None))
                        .collect();
                    path.reverse();
                    if let Some(first) = path.first_mut() {
                        first.1 = Some("fail".to_owned());
                    }
                    return Some(path);
                }
            }
        }
    }
    None
}

/// A node that a run has entered, and the fact.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Point {
    node: NodeIndex,
    /// The end of the stage before a routing node.
    before: Option<End>,
    met: bool,
}

impl Point {
    fn enter(node: NodeIndex, met: bool) -> Point {
        Point {
            node,
            before: None,
            met,
        }
    }
}

/// Where runs are followed.
#[derive(Clone, Copy)]
struct Place {
    /// The join at which a branch ends.
    join: Option<NodeIndex>,
    /// `true` if another branch may run the required stage, or make its end stale, at the same time.
    disturbed: bool,
}

impl Place {
    const MAIN: Place = Place {
        join: None,
        disturbed: false,
    };
}

/// The points that were visited on one level, each with the point before it.
type Level = HashMap<Point, Option<(Point, Option<String>)>>;

/// The result of following a branch.
#[derive(Clone, Copy, Default)]
struct Branch {
    /// `true` if the branch may end without the fact.
    ends_unmet: bool,
    /// `true` if the branch may run the required stage.
    runs_stage: bool,
    /// `true` if the branch may run a node that makes an end of the required stage stale.
    runs_since: bool,
}

struct Search<'s> {
    steps: &'s mut Steps,
    requirement: &'s Requirement,
    /// The branches of the blocks that were followed, by their fan-out, the fact before it, and whether the block is
    /// disturbed.
    blocks: HashMap<(NodeIndex, bool, bool), Vec<Branch>>,
    /// The fan-outs whose branches are being followed.
    open: Vec<NodeIndex>,
    /// The entries of restarted runs that have yet to be followed.
    restarts: Vec<(Point, Path)>,
    /// All entries of restarted runs.
    restarted: HashSet<Point>,
}

impl Search<'_> {
    /// Follows all runs from an entry. Those in a branch stop at its join. Returns the path to a violation as an error.
    ///
    /// `prefix` returns the path to the entry, which is as long as the run so far and rarely needed.
    fn follow(
        &mut self,
        seen: &mut Level,
        entry: Point,
        prefix: &dyn Fn() -> Path,
        place: Place,
    ) -> Result<Branch, Path> {
        let Place { join, disturbed } = place;
        let mut branch = Branch::default();
        if seen.contains_key(&entry) {
            return Ok(branch);
        }
        seen.insert(entry, None);
        let mut queue = VecDeque::from([entry]);
        while let Some(point) = queue.pop_front() {
            let Point { node, before, met } = point;
            if node == self.requirement.target && !met {
                return Err(path_to(seen, &prefix(), point));
            }
            branch.runs_stage |= node == self.requirement.stage;
            let from_exit = self.steps.stage(node).row().role == Role::Exit;
            let stale = self.requirement.since.contains(&node);
            branch.runs_since |= stale;
            let met = met && !stale;
            let path = || path_to(seen, &prefix(), point);
            let ends = self.ends(point, met, disturbed, &path, &mut branch)?;
            if !self.steps.may_work(ends.len()) {
                break;
            }
            for (end, met) in ends {
                let met = met && !disturbed;
                let left = match before {
                    Some(_) => None,
                    None => self.steps.describe(node, end),
                };
                for step in self.steps.after(node, end).iter() {
                    match *step {
                        // A branch whose last stage failed has failed, so it does not count for a block that succeeds.
                        Step::To { node: to, restarts } if Some(to) == join && !restarts => {
                            if !self.steps.is_failure(end) {
                                branch.end(met);
                            }
                        }
                        Step::To { node: to, restarts } => {
                            let routes = self.steps.stage(to).row().role == Role::Routing;
                            // A run that restarts has no stage before it, and one that a goal gate sends back from the
                            // exit has that before the exit.
                            let knows_before = routes && !restarts && !from_exit;
                            let next = Point {
                                node: to,
                                before: knows_before.then_some(end),
                                met: met && !restarts,
                            };
                            if restarts && !self.restarted.insert(next) {
                                continue;
                            }
                            if restarts {
                                let mut path = path_to(seen, &prefix(), point);
                                if let Some(last) = path.last_mut() {
                                    let left = left.as_deref().map(|left| format!("{left}, "));
                                    last.1 = Some(format!("{}restart", left.unwrap_or_default()));
                                }
                                self.restarts.push((next, path));
                            } else if let Entry::Vacant(entry) = seen.entry(next) {
                                entry.insert(Some((point, left.clone())));
                                queue.push_back(next);
                            }
                        }
                        Step::Success => {
                            branch.end(met);
                            let ends_run =
                                join.is_none() && self.requirement.target == self.steps.pipeline().exit;
                            if ends_run && !met {
                                return Err(path_to(seen, &prefix(), point));
                            }
                        }
                        Step::Failure => {}
                    }
                }
            }
        }
        Ok(branch)
    }

    /// Returns the ways in which the node of a point may end, each with the fact after it.
    fn ends(
        &mut self,
        point: Point,
        met: bool,
        disturbed: bool,
        path: &dyn Fn() -> Path,
        branch: &mut Branch,
    ) -> Result<Vec<(End, bool)>, Path> {
        let node = point.node;
        let of_stage = node == self.requirement.stage;
        let row = *self.steps.stage(node).row();
        if row.role == Role::Routing {
            // A routing node itself always succeeds, but passes on the end of the stage before it. Without one, as at the
            // start of a branch, that may be any.
            let success = self.steps.end("success");
            let met = if of_stage {
                success.is_some_and(|success| self.satisfies(success))
            } else {
                met
            };
            let before = match point.before {
                Some(before) => vec![before],
                None => self.steps.any_end(),
            };
            return Ok(before.into_iter().map(|end| (end, met)).collect());
        }
        let ends = self.steps.ends(node);
        if let Some(fan_out) = row.fan_out {
            let branches = self.block(node, met, disturbed, path)?;
            for inner in &branches {
                branch.runs_stage |= inner.runs_stage;
                branch.runs_since |= inner.runs_since;
            }
            let after = |end: End| {
                let met = if of_stage {
                    self.satisfies(end)
                } else {
                    self.after_block(node, end, met, &fan_out, &branches)
                };
                (end, met)
            };
            return Ok(ends.into_iter().map(after).collect());
        }
        // A run that goes on from the exit, because a goal gate sends it back, has not ended there.
        let goes_on = row.role == Role::Exit;
        let after = |end: End| {
            let met = if of_stage {
                self.satisfies(end) && !goes_on
            } else {
                met
            };
            (end, met)
        };
        Ok(ends.into_iter().map(after).collect())
    }

    /// Returns whether an end of the required stage is the required one.
    fn satisfies(&self, end: End) -> bool {
        match &self.requirement.result {
            Required::Passed => !self.steps.is_failure(end),
            Required::Answer(answer) => end.answer == Some(*answer as u32),
            Required::Outcome(word) => self.steps.word(end) == word,
        }
    }

    /// Follows the branches of a block, in the order of the file.
    fn block(
        &mut self,
        fan_out: NodeIndex,
        met: bool,
        disturbed: bool,
        path: &dyn Fn() -> Path,
    ) -> Result<Vec<Branch>, Path> {
        if let Some(known) = self.blocks.get(&(fan_out, met, disturbed)) {
            return Ok(known.clone());
        }
        let row = *self.steps.stage(fan_out).row();
        // A branch that leads back into its own block is an error of another rule.
        let join = match row.fan_out {
            Some(settings) if !self.open.contains(&fan_out) => settings.join,
            _ => return Ok(Vec::new()),
        };
        self.open.push(fan_out);
        let entries: Vec<NodeIndex> = self
            .steps
            .stage(fan_out)
            .edges()
            .map(|(_, edge)| edge.to)
            .collect();
        // Another branch may run the stage, or make its end stale, at any time.
        let disturbs: Vec<bool> = entries.iter().map(|entry| self.disturbs(*entry, join)).collect();
        let disturbing = disturbs.iter().filter(|disturbs| **disturbs).count();
        let is_foreach = row.fan_out.is_some_and(|settings| settings.foreach_max.is_some());
        let mut branches = Vec::with_capacity(entries.len());
        for (entry, disturbs) in entries.into_iter().zip(disturbs) {
            // Beside the branch of one item, the branches of others take the same steps.
            let others = disturbing - usize::from(disturbs && !is_foreach);
            let place = Place {
                join: Some(join),
                disturbed: disturbed || others > 0,
            };
            let mut branch = Branch::default();
            let met = met && !place.disturbed;
            // A second attempt begins with what the first one left behind.
            let facts: &[bool] = if met && row.retry.attempts > 1 {
                &[true, false]
            } else {
                &[met]
            };
            for met in facts {
                if entry == join {
                    branch.end(*met);
                } else {
                    let entry = Point::enter(entry, *met);
                    branch.add(self.follow(&mut Level::default(), entry, path, place)?);
                }
            }
            branches.push(branch);
        }
        self.open.pop();
        self.blocks.insert((fan_out, met, disturbed), branches.clone());
        Ok(branches)
    }

    /// Returns whether a branch may run the required stage, or a node that makes its end stale.
    fn disturbs(&mut self, entry: NodeIndex, join: NodeIndex) -> bool {
        let mut seen = HashSet::from([entry]);
        let mut queue = vec![entry];
        while let Some(at) = queue.pop() {
            if at == join {
                continue;
            }
            if at == self.requirement.stage || self.requirement.since.contains(&at) {
                return true;
            }
            let ends = match self.steps.stage(at).row().role {
                Role::Routing => self.steps.any_end(),
                _ => self.steps.ends(at),
            };
            if !self.steps.may_work(ends.len()) {
                return true;
            }
            let mut next: Vec<NodeIndex> = Vec::new();
            if self.steps.stage(at).row().fan_out.is_some() {
                next.extend(self.steps.stage(at).edges().map(|(_, edge)| edge.to));
            }
            for end in ends {
                next.extend(self.steps.after(at, end).iter().filter_map(|step| match step {
                    Step::To {
                        node,
                        restarts: false,
                    } => Some(*node),
                    _ => None,
                }));
            }
            queue.extend(next.into_iter().filter(|node| seen.insert(*node)));
        }
        false
    }

    /// Returns the fact after a block that ended in this way.
    fn after_block(
        &self,
        fan_out: NodeIndex,
        end: End,
        met: bool,
        settings: &FanOut,
        branches: &[Branch],
    ) -> bool {
        if branches.iter().any(|branch| branch.runs_since) {
            // The branches run at the same time, so the stage may have succeeded before.
            return false;
        }
        if !branches.iter().any(|branch| branch.runs_stage) {
            return met;
        }
        let most = settings.foreach_max.map_or(branches.len(), |most| most as usize);
        let needs_all = match settings.join_policy {
            JoinPolicy::WaitAll => true,
            JoinPolicy::KOfN(count) => count as usize >= most,
            JoinPolicy::Quorum(fraction) => fraction >= 1.0,
            JoinPolicy::FirstSuccess => most == 1,
        };
        let all_succeeded =
            self.steps.word(end) == "success" && needs_all && settings.error_policy != ErrorPolicy::Ignore;
        let edges = self.steps.stage(fan_out).edges();
        // A list without items has no branches.
        let may_be_empty = settings.foreach_max.is_some();
        let always = edges.map(|(_, edge)| edge.condition.is_none() && !may_be_empty);
        let mut established = false;
        for (branch, always) in branches.iter().zip(always) {
            if branch.runs_stage && branch.ends_unmet {
                return false;
            }
            established |= branch.runs_stage && always;
        }
        all_succeeded && established
    }
}

impl Branch {
    fn end(&mut self, met: bool) {
        self.ends_unmet |= !met;
    }

    fn add(&mut self, other: Branch) {
        self.ends_unmet |= other.ends_unmet;
        self.runs_stage |= other.runs_stage;
        self.runs_since |= other.runs_since;
    }
}

/// Returns the path to a point.
fn path_to(seen: &Level, prefix: &Path, point: Point) -> Path {
    let mut path = vec![(point.node, None)];
    let mut at = point;
    while let Some(Some((before, left))) = seen.get(&at) {
        path.push((before.node, left.clone()));
        at = *before;
    }
    path.extend(prefix.iter().rev().cloned());
    path.reverse();
    path
}
