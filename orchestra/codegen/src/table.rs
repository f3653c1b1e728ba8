//! The table of a pipeline as constant data: flat rows, which short `const fn`s convert.

use std::collections::HashMap;

use orchestra_graph::NodeIndex;
use orchestra_graph::condition::{Comparison, Expression};
use orchestra_graph::table::{
    Constant, End, ErrorPolicy, JoinPolicy, NodeRow, Pipeline, Retry, Role, Routing, Test, Text,
};

use crate::code::{Code, float, millis};

/// Conditions with more parts are evaluated as a tree, because code for them would slow down the build.
const MAX_PARTS: usize = 64;

/// Writes the rows of a list as a static of plain data, and a second static that is built from it.
fn list(code: &mut Code, name: &str, row: &str, plain: &str, count: usize, rows: &str, more: &str) {
    // A separate static is cheaper to check than a list that is borrowed in a call.
    code.push("static P")
        .push(name)
        .push(":[")
        .push(plain)
        .push(";")
        .show(count)
        .push("]=[")
        .push(rows);
    code.push("];static ")
        .push(name)
        .push(":[")
        .push(row)
        .push(";")
        .show(count)
        .push("]=");
    code.push(&name.to_lowercase())
        .push("(&P")
        .push(name)
        .push(more)
        .push(");");
}

/// Writes the module that holds the table. `tables` are the paths of the child tables, relative to that module.
pub(crate) fn write(code: &mut Code, pipeline: &Pipeline, tables: &[String]) {
    code.push("mod __table{use super::__orchestra::__private::*;");
    texts(code, "KINDS", &pipeline.kinds);
    nodes(code, pipeline);
    edges(code, pipeline);
    attributes(code, pipeline);
    conditions(code, pipeline);
    children(code, pipeline, tables);
    code.push("pub static TABLE:Pipeline=pipeline(");
    code.string(&pipeline.name).push(",").string(&pipeline.file);
    let settings = &pipeline.settings;
    code.push(",super::SOURCE,settings(")
        .show(settings.routing == Routing::FirstMatch)
        .push(",[");
    code.numbers(&[
        settings.max_node_visits,
        settings.failure_breaker,
        settings.max_goal_gate_reroutes,
        settings.max_restarts,
        or_none(settings.retry_target.map(|node| node.0)),
        or_none(settings.fallback_retry_target.map(|node| node.0)),
    ])
    .push("]),");
    code.numbers(&[pipeline.start.0, pipeline.exit.0]);
    code.push("&KINDS,&NODES,&EDGES,&CONDITIONS,&ATTRIBUTES,");
    code.numbers(&[pipeline.graph_attributes.start, pipeline.graph_attributes.end])
        .push("&CHILDREN);}");
}

fn children(code: &mut Code, pipeline: &Pipeline, tables: &[String]) {
    let count = pipeline.children.len();
    code.push("static CHILDREN:[Child;").show(count).push("]=[");
    for (row, table) in pipeline.children.iter().zip(tables) {
        code.push("child(")
            .string(&row.file)
            .push(",&")
            .push(table)
            .push("),");
    }
    code.push("];");
}

fn texts(code: &mut Code, name: &str, texts: &[Text]) {
    code.push("static ")
        .push(name)
        .push(":[Text;")
        .show(texts.len())
        .push("]=texts(&[");
    code.strings(texts.iter().map(|text| &**text)).push("]);");
}

fn nodes(code: &mut Code, pipeline: &Pipeline) {
    let [mut rows, mut more, mut retries, mut fan_outs] = std::array::from_fn(|_| Code::default());
    for (at, row) in pipeline.nodes.iter().enumerate() {
        rows.push("(")
            .string(&row.id)
            .push(",[")
            .show(row.kind)
            .push(match row.role {
                Role::Start => ",0,",
                Role::Exit => ",1,",
                Role::Routing => ",2,",
                Role::Work => ",3,",
            });
        rows.numbers(&[
            row.edges.start,
            row.edges.end,
            row.attributes.start,
            row.attributes.end,
        ]);
        rows.numbers(&[row.position.line, row.position.column])
            .push("]),");
        write_retry(&mut retries, at, row);
        write_fan_out(&mut fan_outs, at, row);
        let target = |target: Option<NodeIndex>| target.map(|node| node.0);
        let numbers = [
            target(row.retry_target),
            target(row.fallback_retry_target),
            row.max_visits,
            row.child,
            row.goal_condition,
        ];
        let flags =
            u8::from(row.on_failure_route) | u8::from(row.goal_gate) << 1 | u8::from(row.allow_partial) << 2;
        if row.end == End::Unstated && flags == 0 && numbers == [None; 5] {
            continue;
        }
        more.push("(").show(at).push(match row.end {
            End::Unstated => ",0,",
            End::Fail => ",1,",
            End::Success => ",2,",
        });
        more.show(flags)
            .push(",[")
            .numbers(&numbers.map(or_none))
            .push("]),");
    }
    let more = format!(",&[{}],&[{}],&[{}]", more.text, retries.text, fan_outs.text);
    list(
        code,
        "NODES",
        "NodeRow",
        "Node",
        pipeline.nodes.len(),
        &rows.text,
        &more,
    );
}

fn write_retry(code: &mut Code, at: usize, row: &NodeRow) {
    let retry = &row.retry;
    if *retry == Retry::ONCE {
        return;
    }
    code.push("(").show(at).push(",").show(retry.attempts);
    code.push(",").show(millis(retry.initial_delay));
    code.push(",").push(&float(retry.backoff_factor));
    code.push(",").show(millis(retry.max_delay));
    code.push(",").show(retry.jitter).push("),");
}

fn write_fan_out(code: &mut Code, at: usize, row: &NodeRow) {
    let Some(fan_out) = &row.fan_out else {
        return;
    };
    let (policy, needed) = match fan_out.join_policy {
        JoinPolicy::WaitAll => (0, 0.0),
        JoinPolicy::KOfN(count) => (1, f64::from(count)),
        JoinPolicy::FirstSuccess => (2, 0.0),
        JoinPolicy::Quorum(fraction) => (3, fraction),
    };
    code.push("(").show(at).push(",").show(fan_out.join.0);
    code.push(",")
        .show(policy)
        .push(",")
        .push(&float(needed))
        .push(",");
    code.show(match fan_out.error_policy {
        ErrorPolicy::Continue => 0,
        ErrorPolicy::FailFast => 1,
        ErrorPolicy::Ignore => 2,
    });
    code.push(",").show(fan_out.max_parallel).push("),");
}

/// Returns a number, or the sentinel for `None`.
fn or_none(number: Option<u32>) -> u32 {
    number.unwrap_or(u32::MAX)
}

fn edges(code: &mut Code, pipeline: &Pipeline) {
    let (mut labels, mut more) = (Code::default(), Code::default());
    let mut rows = Code::default();
    for (at, row) in pipeline.edges.iter().enumerate() {
        rows.push("[")
            .numbers(&[row.from.0, row.to.0, or_none(row.condition)]);
        rows.numbers(&[row.position.line, row.position.column]).push("],");
        if !row.label.is_empty() {
            labels.push("(").show(at).push(",").string(&row.label).push(",");
            labels.string(&row.normalized_label).push("),");
        }
        let unusual = row.weight != 0
            || row.loop_restart
            || row.allow_revisit
            || row.max_revisits.is_some()
            || row.attributes.start != row.attributes.end;
        if unusual {
            more.push("(")
                .show(at)
                .push(",")
                .show(row.weight)
                .push(",")
                .show(row.loop_restart);
            more.push(",").show(row.allow_revisit).push(",");
            more.numbers(&[
                or_none(row.max_revisits),
                row.attributes.start,
                row.attributes.end,
            ])
            .push("),");
        }
    }
    let more = format!(",&[{}],&[{}]", labels.text, more.text);
    list(
        code,
        "EDGES",
        "EdgeRow",
        "Edge",
        pipeline.edges.len(),
        &rows.text,
        &more,
    );
}

fn attributes(code: &mut Code, pipeline: &Pipeline) {
    let mut rows = Code::default();
    for row in pipeline.attributes.iter() {
        rows.push("(").string(&row.key);
        match &row.value {
            Constant::String(text) => rows.push(",S(").string(text),
            Constant::Integer(number) => rows.push(",I(").show(number),
            Constant::Float(number) => rows.push(",F(").push(&float(*number)),
            Constant::Boolean(value) => rows.push(",B(").show(value),
            Constant::Duration(duration) => rows.push(",D(").show(millis(*duration)),
        };
        rows.push(")),");
    }
    let count = pipeline.attributes.len();
    list(
        code,
        "ATTRIBUTES",
        "AttributeRow",
        "Attribute",
        count,
        &rows.text,
        "",
    );
}

/// Writes the conditions, each as a function that calls the primitives of the evaluator. rustc would check closures
/// together with the list that holds them, at a cost quadratic in their number.
fn conditions(code: &mut Code, pipeline: &Pipeline) {
    let mut keys: Vec<Text> = Vec::new();
    let mut locations: HashMap<&[Text], usize> = HashMap::new();
    let mut statics = Statics::default();
    let mut rows = Code::default();
    for (at, row) in pipeline.conditions.iter().enumerate() {
        let start = *locations.entry(&row.keys).or_insert_with(|| {
            keys.extend(row.keys.iter().cloned());
            keys.len() - row.keys.len()
        });
        rows.push("(")
            .string(&row.text)
            .push(",")
            .show(start)
            .push(",")
            .show(start + row.keys.len())
            .push(",")
            .show(row.needs_failure);
        rows.push(",c").show(at).push("),");
        code.push("fn c").show(at).push("(x:&Facts<'_>)->bool{");
        match &row.test {
            Test::Tree(expression) if parts(expression) > MAX_PARTS => {
                let name = statics.add("LazyCondition", &row.text);
                code.push(&name).push(".holds(x)");
            }
            Test::Tree(expression) => test(code, expression, &mut statics),
            // A table to be written was made from a graph, whose conditions are trees.
            Test::Closure(_) => {
                code.push("false");
            }
        }
        code.push("}");
    }
    code.push(&statics.code.text);
    texts(code, "KEYS", &keys);
    let count = pipeline.conditions.len();
    list(
        code,
        "CONDITIONS",
        "ConditionRow",
        "Condition",
        count,
        &rows.text,
        ",&KEYS",
    );
}

fn parts(expression: &Expression) -> usize {
    let mut count = 0;
    expression.visit(&mut |_| count += 1);
    count
}

/// Statics for patterns and values that are created once, on first use.
#[derive(Default)]
struct Statics {
    code: Code,
    count: usize,
}

impl Statics {
    fn add(&mut self, ty: &str, text: &str) -> String {
        let name = format!("V{}", self.count);
        self.count += 1;
        self.code
            .push("static ")
            .push(&name)
            .push(":")
            .push(ty)
            .push("=")
            .push(ty);
        self.code.push("::new(").string(text).push(");");
        name
    }
}

fn test(code: &mut Code, expression: &Expression, statics: &mut Statics) {
    match expression {
        Expression::All(parts) => joined(code, parts, "&&", "true", statics),
        Expression::Any(parts) => joined(code, parts, "||", "false", statics),
        Expression::Not(part) => {
            code.push("!");
            test(code, part, statics);
        }
        Expression::Truthy(key) => {
            code.push("x.truthy(").string(key).push(")");
        }
        Expression::Compare {
            key,
            comparison,
            literal,
        } => {
            let comparison = match comparison {
                Comparison::Equal => "Equal",
                Comparison::NotEqual => "NotEqual",
                Comparison::Less => "Less",
                Comparison::LessOrEqual => "LessOrEqual",
                Comparison::Greater => "Greater",
                Comparison::GreaterOrEqual => "GreaterOrEqual",
                Comparison::Contains => "Contains",
            };
            code.push("x.compare(")
                .string(key)
                .push(",")
                .push(comparison)
                .push(",");
            code.string(literal).push(")");
        }
        Expression::Matches { key, pattern } => {
            let name = statics.add("LazyPattern", pattern.as_str());
            code.push(&name).push(".matches(x,").string(key).push(")");
        }
        Expression::HasOutput(key) => {
            code.push("x.has_output(").string(key).push(")");
        }
        Expression::OutputIs { key, value } => {
            let name = statics.add("LazyJson", &value.to_string());
            code.push(&name).push(".is(x,").string(key).push(")");
        }
        Expression::Failed(failed) => {
            code.push(if *failed { "x.failed()" } else { "!x.failed()" });
        }
        // The macro and the language have the same version, so there are no other variants.
        _ => {
            code.push("false");
        }
    }
}

/// Writes parts joined by an operator, as a balanced tree, so that no length can exhaust the stack of rustc.
fn joined(code: &mut Code, parts: &[Expression], operator: &str, none: &str, statics: &mut Statics) {
    match parts {
        [] => {
            code.push(none);
        }
        [part] => test(code, part, statics),
        parts => {
            let (left, right) = parts.split_at(parts.len() / 2);
            code.push("(");
            joined(code, left, operator, none, statics);
            code.push(operator);
            joined(code, right, operator, none, statics);
            code.push(")");
        }
    }
}
