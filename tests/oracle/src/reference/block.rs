//! Parallel blocks (rules P1 to P4).

use serde_json::{Map, Value, json};

use super::attempt::{StageResult, or_unsaid};
use super::list::{give, items};
use super::route::in_words;
use super::{Line, Rules, Stop, attribute, count, number};
use crate::conditions::Seen;
use crate::trace::{Recorded, Step, Values};

/// A branch of a block.
struct Branch {
    /// Its edge among all of the file.
    edge: usize,
    /// Its place among the edges of the fan-out.
    position: usize,
    /// Its place among the branches of the block.
    index: u32,
    /// Its item, where the fan-out has a list.
    item: Option<Value>,
    id: String,
    to: String,
    began: u64,
    /// Its line and how that stops; `None` before it begins.
    line: Option<(Line, Stop)>,
    ended: Option<Ended>,
}

struct Ended {
    status: &'static str,
    reason: Option<String>,
    lasted: u64,
}

/// A block while it runs.
struct Block<'a> {
    at: &'a str,
    name: String,
    /// What the names of its branches begin with.
    prefix: String,
    branches: Vec<Branch>,
    succeeded: u32,
    failed: u32,
}

impl Rules<'_> {
    /// Runs the branches of a fan-out and says what the block amounts to.
    pub(super) fn block(&self, line: &mut Line, at: &str, attempt: u32) -> Result<StageResult, Stop> {
        let began = line.now;
        let attributes = self.graph.attributes_of(at);
        let items = match attribute(attributes, "foreach") {
            "" => None,
            key => match items(
                line.context.get(key),
                key,
                number(attributes, "foreach_max").unwrap(),
            ) {
                Ok(items) => Some(items),
                Err(reason) => return Ok(StageResult::terminal(&reason)),
            },
        };
        let has_list = items.is_some();
        let mut block = self.open(line, at, attempt, items);
        if block.branches.is_empty() && !has_list {
            return Ok(StageResult::fail("the condition of every branch is false"));
        }
        let most = number(attributes, "max_parallel").unwrap_or(4) as usize;
        // Rule Y6: the time that the whole block may take.
        let timeout = attribute(attributes, "timeout");
        let limit = match timeout {
            "" => u64::MAX,
            _ => began + self.script.duration("limit", &block.name),
        };
        let mut timed_out = false;
        let stopped = loop {
            if self.is_decided(&block) {
                break None;
            }
            let running = block.branches.iter().filter(|branch| branch.runs()).count();
            let waiting = block.branches.iter().position(|branch| branch.line.is_none());
            if let Some(next) = waiting.filter(|_| running < most) {
                let now = line.now;
                self.begin(line, &mut block, next, now, line.until);
                if block.branches[next].end() != Some(now) {
                    continue;
                }
            } else if running == 0 {
                break None;
            }
            // The branch that ends first is the next thing that happens.
            let ends = block.branches.iter().enumerate();
            let first = ends
                .filter(|(_, branch)| branch.runs())
                .filter_map(|(at, branch)| branch.end().map(|end| (end, at)))
                .min();
            let next = first.map_or(u64::MAX, |(now, _)| now);
            if limit < next && limit <= line.until {
                line.now = limit;
                timed_out = true;
                break None;
            }
            let Some((now, first)) = first else {
                line.now = line.until;
                break Some(Stop::Cut);
            };
            line.now = now;
            if let Some(stop) = block.close(first, now) {
                break Some(stop);
            }
        };
        self.settle(line, &mut block, stopped.is_none());
        if let Some(stop) = stopped {
            line.cancelled.push(Step::Cancelled(block.name.clone()));
            line.merge(block);
            return Err(stop);
        }
        line.say(Step::Join {
            name: block.name.clone(),
            succeeded: block.succeeded,
            failed: block.failed,
            lasted: line.now - began,
        });
        let mut said = if timed_out {
            StageResult::fail(format!("timed out after {timeout}"))
        } else {
            self.verdict(&block)
        };
        said.updates = self.results(&block);
        line.merge(block);
        Ok(said)
    }

    /// Finds the branches: the edges whose condition is absent or holds; where there is a list, its only edge once for
    /// each item (rule P7).
    fn open<'a>(&self, line: &mut Line, at: &'a str, attempt: u32, items: Option<Vec<Value>>) -> Block<'a> {
        let mut seen = self.seen(line, at);
        let edges = self.graph.out(at);
        // A partial success for which there is no branch is tried as a success (rule R12).
        let none = |seen: &Seen| {
            let mut held = edges
                .iter()
                .map(|(_, row)| self.holds(row, seen, &line.last.output));
            held.all(|held| held == Some(false))
        };
        if seen.outcome == "partial_success" && none(&seen) {
            let full = Seen {
                outcome: "success".to_owned(),
                ..seen.clone()
            };
            if !none(&full) {
                seen = full;
            }
        }
        let mut tested = Vec::new();
        let mut branches: Vec<Branch> = Vec::new();
        for (position, (edge, row)) in edges.iter().enumerate() {
            let held = self.holds(row, &seen, &line.last.output);
            tested.extend(held.map(|held| (position, held)));
            if held == Some(false) {
                continue;
            }
            let same = |(_, earlier): &&(usize, &crate::description::Edge)| earlier.to == row.to;
            let id = match edges[..position].iter().filter(same).count() {
                0 => row.to.clone(),
                earlier => format!("{}~{}", row.to, earlier + 1),
            };
            branches.push(Branch {
                edge: *edge,
                position,
                index: branches.len() as u32,
                item: None,
                id,
                to: row.to.clone(),
                began: 0,
                line: None,
                ended: None,
            });
        }
        if let Some(items) = items
            && let Some(only) = branches.pop()
        {
            branches = (0..)
                .zip(items)
                .map(|(index, item)| only.with_item(index, item))
                .collect();
        }
        let name = self.name(line, at, attempt);
        line.say(Step::Fork {
            name: name.clone(),
            branches: branches.len() as u32,
            tested,
        });
        let visit = line.visits[at];
        let own = match attempt {
            1 => format!("{at}#{visit}"),
            attempt => format!("{at}#{visit}.{attempt}"),
        };
        let prefix = match line.branch.as_str() {
            "" => own,
            outer => format!("{outer}/{own}"),
        };
        Block {
            at,
            name,
            prefix,
            branches,
            succeeded: 0,
            failed: 0,
        }
    }

    /// Walks a branch from when it begins to its end, or until it is cut off.
    fn begin(&self, parent: &Line, block: &mut Block<'_>, at: usize, began: u64, until: u64) {
        let name = block.branch_name(at);
        let fan_out = (block.at.to_owned(), self.graph.joins[block.at].clone());
        let branch = &mut block.branches[at];
        let mut line = parent.clone();
        line.branch = name.clone();
        line.inside.push(fan_out);
        line.positions += branch.position;
        if let Some(item) = &branch.item {
            line.positions += branch.index as usize;
            give(&mut line.context, branch.index, item);
        }
        line.now = began;
        line.until = until;
        line.steps.clear();
        line.cancelled.clear();
        line.own_visits.clear();
        line.around = line.latest_words();
        line.outcomes.clear();
        line.path.clear();
        line.updates.clear();
        line.errors.clear();
        line.retries.clear();
        line.last_failure.clear();
        line.taken.fill(0);
        line.taken[branch.edge] = 1;
        line.say(Step::BranchStart {
            branch: name,
            index: branch.index,
        });
        let stop = self.walk(&mut line, branch.to.clone());
        branch.began = began;
        branch.line = Some((line, stop));
    }

    /// Rule P4: whether the branches that still run can change anything.
    fn is_decided(&self, block: &Block<'_>) -> bool {
        if block.fails_fast(self) {
            return true;
        }
        let possible = block.branches.len() as u32 - block.failed;
        self.needed(block)
            .is_some_and(|needed| block.succeeded >= needed || possible < needed)
    }

    /// How many branches must succeed; `None` where all are waited for.
    fn needed(&self, block: &Block<'_>) -> Option<u32> {
        let attributes = self.graph.attributes_of(block.at);
        match attribute(attributes, "join_policy") {
            "first_success" => Some(1),
            "k_of_n" => {
                let all = self.graph.out(block.at).len() as u32;
                Some(number(attributes, "join_k").unwrap_or(all))
            }
            "quorum" => {
                let fraction = attributes.get("join_quorum").map_or("1", String::as_str);
                Some(part_of(block.branches.len() as u32, fraction))
            }
            _ => None,
        }
    }

    /// Cuts off what still runs, and puts what happened in the branches into one order.
    fn settle(&self, line: &mut Line, block: &mut Block<'_>, decided: bool) {
        for at in 0..block.branches.len() {
            if block.branches[at].runs() {
                let began = block.branches[at].began;
                self.begin(line, block, at, began, line.now);
            }
        }
        let mut steps: Vec<(u64, Step)> = Vec::new();
        let mut cancelled = Vec::new();
        for at in 0..block.branches.len() {
            let branch = block.branch_name(at);
            let row = &mut block.branches[at];
            let mut lasted = 0;
            if let Some((inner, _)) = &mut row.line {
                steps.append(&mut inner.steps);
                cancelled.append(&mut inner.cancelled);
                lasted = line.now - row.began;
            }
            if decided && row.ended.is_none() {
                cancelled.push(Step::BranchEnd {
                    branch,
                    index: row.index,
                    status: "cancelled".to_owned(),
                    reason: None,
                    lasted,
                });
                row.ended = Some(Ended {
                    status: "cancelled",
                    reason: None,
                    lasted,
                });
            }
        }
        // What happens at one moment in several branches is in the order of the branches.
        steps.sort_by_key(|(time, _)| *time);
        line.steps.extend(steps);
        if decided {
            cancelled.into_iter().for_each(|step| line.say(step))
        } else {
            line.cancelled.extend(cancelled)
        }
    }

    /// What a block amounts to (rule P4).
    fn verdict(&self, block: &Block<'_>) -> StageResult {
        let all = block.branches.len();
        if all == 0 {
            let none = "the list has no items";
            return match attribute(self.graph.attributes_of(block.at), "join_policy") {
                "k_of_n" | "first_success" => StageResult::fail(none),
                _ => StageResult {
                    notes: none.to_owned(),
                    ..StageResult::word("success")
                },
            };
        }
        let counted = format!("{} of {all} branches succeeded", block.succeeded);
        let noted = |word: &str| StageResult {
            notes: counted.clone(),
            ..StageResult::word(word)
        };
        if block.fails_fast(self) {
            return StageResult::fail(block.first_failure());
        }
        if let Some(needed) = self.needed(block) {
            return match (block.succeeded >= needed, block.failed) {
                (true, _) => noted("success"),
                (false, 0) => StageResult::fail(format!("{counted}, {needed} must")),
                (false, _) => {
                    StageResult::fail(format!("{counted}, {needed} must; {}", block.first_failure()))
                }
            };
        }
        let ignores = attribute(self.graph.attributes_of(block.at), "error_policy") == "ignore";
        if block.failed == 0 || ignores {
            return noted("success");
        }
        let fan_in = self
            .graph
            .is(&self.graph.joins[block.at], "parallel.fan_in", "tripleoctagon");
        if block.succeeded == 0 && !fan_in {
            return StageResult::fail(format!("all branches failed; {}", block.first_failure()));
        }
        noted("partial_success")
    }

    /// Rule P3: what the context learns of the branches.
    fn results(&self, block: &Block<'_>) -> Values {
        let ignores = attribute(self.graph.attributes_of(block.at), "error_policy") == "ignore";
        let mut updates = Values::new();
        let mut results = Vec::new();
        for branch in &block.branches {
            let ended = branch.ended.as_ref().unwrap();
            let key = format!("parallel.branch.{}.status", branch.id);
            updates.insert(key, ended.status.into());
            if !(ignores && ended.status == "fail") {
                results.push(branch.result(ended));
            }
        }
        updates.insert("parallel.results".to_owned(), Value::Array(results));
        updates.insert("parallel.success_count".to_owned(), block.succeeded.into());
        updates.insert("parallel.fail_count".to_owned(), block.failed.into());
        updates
    }
}

impl Block<'_> {
    fn branch_name(&self, at: usize) -> String {
        format!("{}:{}", self.prefix, self.branches[at].id)
    }

    /// What the first failed branch says, in the order of the edges.
    fn first_failure(&self) -> String {
        for branch in &self.branches {
            if let Some(Ended {
                status: "fail",
                reason,
                ..
            }) = &branch.ended
            {
                let reported = or_unsaid(reason.as_deref().unwrap_or_default());
                return format!("branch `{}`: {reported}", branch.id);
            }
        }
        String::new()
    }

    fn fails_fast(&self, rules: &Rules<'_>) -> bool {
        let policy = attribute(rules.graph.attributes_of(self.at), "error_policy");
        policy == "fail_fast" && self.failed > 0
    }

    /// Takes the end of a branch; gives it back if it is the end of more than the branch.
    fn close(&mut self, at: usize, now: u64) -> Option<Stop> {
        let name = self.branch_name(at);
        let branch = &mut self.branches[at];
        let lasted = now - branch.began;
        let (line, stop) = branch.line.as_mut().unwrap();
        let last = line.own_last();
        let (status, reason) = match stop {
            Stop::Failed(end) => ("fail", Some(in_words(end))),
            Stop::Joined | Stop::End => match last {
                "fail" => ("fail", Some(line.last.reason.clone())),
                "partial_success" => ("partial_success", None),
                _ => ("success", None),
            },
            // The line is at its end in any case.
            _ => return Some(std::mem::replace(stop, Stop::Joined)).inspect(|_| branch.stopped(now)),
        };
        line.say(Step::BranchEnd {
            branch: name,
            index: branch.index,
            status: status.to_owned(),
            reason: reason.clone(),
            lasted,
        });
        match status {
            "fail" => self.failed += 1,
            _ => self.succeeded += 1,
        }
        branch.ended = Some(Ended {
            status,
            reason,
            lasted,
        });
        None
    }
}

impl Branch {
    /// The branch of an item, before it begins.
    fn with_item(&self, index: u32, item: Value) -> Branch {
        Branch {
            edge: self.edge,
            position: self.position,
            index,
            item: Some(item),
            id: format!("{}~{index}", self.id),
            to: self.to.clone(),
            began: 0,
            line: None,
            ended: None,
        }
    }

    fn runs(&self) -> bool {
        self.line.is_some() && self.ended.is_none()
    }

    /// When it comes to its end; `None` where it does not in its time.
    fn end(&self) -> Option<u64> {
        match self.line.as_ref()? {
            (_, Stop::Cut) => None,
            (line, _) => Some(line.now),
        }
    }

    /// It does not run any more, and did not end as a branch does.
    fn stopped(&mut self, now: u64) {
        self.ended = Some(Ended {
            status: "stopped",
            reason: None,
            lasted: now - self.began,
        });
    }

    /// The branch as an entry of `parallel.results`.
    fn result(&self, ended: &Ended) -> Value {
        let mut fields = Map::new();
        let mut set = |key: &str, value: Value| fields.insert(key.to_owned(), value);
        set("id", self.id.as_str().into());
        if let Some(item) = &self.item {
            set("item", item.clone());
        }
        set("status", ended.status.into());
        set("duration_ms", (ended.lasted / 1_000_000).into());
        let line = self.line.as_ref().map(|(line, _)| line);
        let last = line.map_or("", Line::own_last);
        let outcome = match ended.status {
            "success" if !last.is_empty() => last,
            status => status,
        };
        set("outcome", outcome.into());
        if let Some(reason) = &ended.reason {
            set("failure_reason", reason.as_str().into());
        }
        if let Some(line) = line {
            let recorded = line.outcomes.get(&line.last.stage);
            let notes = recorded.map_or("", |recorded| recorded.notes.as_str());
            if !notes.is_empty() {
                set("notes", notes.into());
            }
            let mut stages: Vec<Value> = Vec::new();
            for (at, node) in line.path.iter().enumerate() {
                // Each stage once, where it ended last; routing nodes and skipped stages leave no outcome.
                if line.path[at + 1..].contains(node) {
                    continue;
                }
                if let Some(recorded) = line.outcomes.get(node) {
                    stages.push(json!({"id": node, "outcome": recorded.word, "record": recorded.record}));
                }
            }
            if !stages.is_empty() {
                set("stages", stages.into());
            }
            if let Some(score @ Value::Number(_)) = line.updates.get("score") {
                set("score", score.clone());
            }
            if !line.updates.is_empty() {
                let updates: Map<String, Value> = line.updates.clone().into_iter().collect();
                set("context_updates", updates.into());
            }
        }
        Value::Object(fields)
    }
}

impl Line {
    /// The outcome word of the last stage of a branch; empty where it had none.
    fn own_last(&self) -> &str {
        if self.own_visits.contains_key(&self.last.stage) {
            &self.last.word
        } else {
            ""
        }
    }

    /// Keeps what branches did, in the order of their edges.
    fn merge(&mut self, block: Block<'_>) {
        let mut outcomes: std::collections::BTreeMap<String, Recorded> = Default::default();
        let revisits = self.revisits.clone();
        let lines = block.branches.into_iter().filter_map(|branch| branch.line);
        for (line, _) in lines {
            self.path.extend(line.path);
            for (node, recorded) in line.outcomes {
                // A failure wins over a success.
                let fails = outcomes.get(&node).is_some_and(|known| known.word == "fail");
                if !fails {
                    outcomes.insert(node, recorded);
                }
            }
            for (node, visits) in line.own_visits {
                count(&mut self.visits, node.clone(), visits);
                count(&mut self.own_visits, node.clone(), visits);
                match line.streaks.get(&node) {
                    Some(streak) => self.streaks.insert(node, streak.clone()),
                    None => self.streaks.remove(&node),
                };
            }
            for (node, _, _, reason) in &line.errors {
                self.append_error(node, reason);
            }
            self.errors.extend(line.errors);
            for (node, retries) in line.retries {
                count(&mut self.retries, node, retries);
            }
            for (edge, taken) in line.revisits {
                let before = revisits.get(&edge).copied().unwrap_or(0);
                count(&mut self.revisits, edge, taken - before);
            }
            for (sum, taken) in self.taken.iter_mut().zip(line.taken) {
                *sum += taken;
            }
            if !line.last_failure.is_empty() {
                self.last_failure = line.last_failure;
            }
        }
        self.outcomes.extend(outcomes);
    }
}

/// A fraction of some branches, in whole branches: a part of a branch is a branch. The fraction is the number that is
/// written, not the binary one next to it.
fn part_of(branches: u32, fraction: &str) -> u32 {
    let (whole, digits) = fraction.split_once('.').unwrap_or((fraction, ""));
    let scale = 10u64.pow(digits.len() as u32);
    let parts = whole.parse::<u64>().unwrap() * scale + format!("0{digits}").parse::<u64>().unwrap();
    (parts * u64::from(branches)).div_ceil(scale) as u32
}
