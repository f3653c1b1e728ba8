//! The table of a pipeline as constant data: flat rows, each one call of a short `const fn`.

use std::collections::HashMap;

use orchestra_graph::condition::{Comparison, Expression};
use orchestra_graph::table::{Constant, EdgeRow, End, NodeRow, Pipeline, Role, Routing, Test, Text};

use crate::code::{Code, float, millis};

/// Writes the private module that holds the table.
pub(crate) fn write(code: &mut Code, pipeline: &Pipeline) {
    code.push("mod __table{use super::__orchestra::__private::*;");
    texts(code, "KINDS", &pipeline.kinds);
    code.push("static NODES:[NodeRow;")
        .show(pipeline.nodes.len())
        .push("]=[");
    for row in pipeline.nodes.iter() {
        node(code, row);
    }
    code.push("];static EDGES:[EdgeRow;")
        .show(pipeline.edges.len())
        .push("]=[");
    for row in pipeline.edges.iter() {
        edge(code, row);
    }
    code.push("];static ATTRIBUTES:[AttributeRow;")
        .show(pipeline.attributes.len())
        .push("]=[");
    for row in pipeline.attributes.iter() {
        let (constructor, shown) = match &row.value {
            Constant::String(_) => ("s(", String::new()),
            Constant::Integer(number) => ("i(", number.to_string()),
            Constant::Float(number) => ("f(", float(*number)),
            Constant::Boolean(value) => ("b(", value.to_string()),
            Constant::Duration(duration) => ("d(", millis(*duration).to_string()),
        };
        code.push(constructor).string(&row.key).push(",");
        match &row.value {
            Constant::String(text) => code.string(text),
            _ => code.push(&shown),
        };
        code.push("),");
    }
    code.push("];");
    conditions(code, pipeline);
    code.push("pub(super)static TABLE:Pipeline=pipeline(");
    code.string(&pipeline.name)
        .push(",")
        .string(&pipeline.file)
        .push(",super::SOURCE,Settings{routing:");
    code.push(match pipeline.settings.routing {
        Routing::FiveStep => "FiveStep",
        Routing::FirstMatch => "FirstMatch",
    });
    code.push(",max_node_visits:")
        .show(pipeline.settings.max_node_visits);
    code.push(",failure_breaker:")
        .show(pipeline.settings.failure_breaker)
        .push("},");
    code.show(pipeline.start.0).push(",").show(pipeline.exit.0);
    code.push(",&KINDS,&NODES,&EDGES,&CONDITIONS,&ATTRIBUTES,");
    let graph = pipeline.graph_attributes;
    code.show(graph.start).push(",").show(graph.end).push(");}");
}

fn texts(code: &mut Code, name: &str, texts: &[Text]) {
    code.push("static ")
        .push(name)
        .push(":[Text;")
        .show(texts.len())
        .push("]=[");
    for text in texts {
        code.push("t(").string(text).push("),");
    }
    code.push("];");
}

fn node(code: &mut Code, row: &NodeRow) {
    let unusual = row.end != End::Unstated
        || row.on_failure_route
        || row.retry_target.is_some()
        || row.fallback_retry_target.is_some()
        || row.max_visits.is_some();
    if unusual {
        code.push("nx(");
    }
    code.push("n(")
        .string(&row.id)
        .push(",")
        .show(row.kind)
        .push(match row.role {
            Role::Start => ",Start,",
            Role::Exit => ",Exit,",
            Role::Routing => ",Routing,",
            Role::Work => ",Work,",
        });
    for number in [
        row.edges.start,
        row.edges.end,
        row.attributes.start,
        row.attributes.end,
        row.position.line,
    ] {
        code.show(number).push(",");
    }
    code.show(row.position.column).push(")");
    if unusual {
        code.push(match row.end {
            End::Unstated => ",Unstated,",
            End::Fail => ",End::Fail,",
            End::Success => ",End::Success,",
        });
        code.show(row.on_failure_route);
        let targets = [row.retry_target, row.fallback_retry_target].map(|target| target.map(|node| node.0));
        for number in [targets[0], targets[1], row.max_visits] {
            code.push(",");
            optional(code, number);
        }
        code.push(")");
    }
    code.push(",");
}

/// A number, or the one that stands for none.
fn optional(code: &mut Code, number: Option<u32>) {
    match number {
        Some(number) => code.show(number),
        None => code.push("!0"),
    };
}

fn edge(code: &mut Code, row: &EdgeRow) {
    let unusual = row.weight != 0
        || row.loop_restart
        || row.allow_revisit
        || row.max_revisits.is_some()
        || row.attributes.start != row.attributes.end;
    if unusual {
        code.push("ex(");
    }
    let labelled = !row.label.is_empty();
    code.push(match row.condition {
        _ if labelled => "el(",
        Some(_) => "ec(",
        None => "e(",
    });
    for number in [row.from.0, row.to.0, row.position.line] {
        code.show(number).push(",");
    }
    code.show(row.position.column);
    if labelled || row.condition.is_some() {
        code.push(",");
        optional(code, row.condition);
    }
    if labelled {
        code.push(",")
            .string(&row.label)
            .push(",")
            .string(&row.normalized_label);
    }
    code.push(")");
    if unusual {
        code.push(",")
            .show(row.weight)
            .push(",")
            .show(row.loop_restart)
            .push(",");
        code.show(row.allow_revisit).push(",");
        optional(code, row.max_revisits);
        code.push(",")
            .show(row.attributes.start)
            .push(",")
            .show(row.attributes.end)
            .push(")");
    }
    code.push(",");
}

/// The conditions, each a closure that calls the primitives of the evaluator.
fn conditions(code: &mut Code, pipeline: &Pipeline) {
    let mut keys: HashMap<&[Text], usize> = HashMap::new();
    let mut statics = Statics::default();
    let mut rows = Code::default();
    for row in pipeline.conditions.iter() {
        let next = keys.len();
        let number = *keys.entry(&row.keys).or_insert_with(|| {
            texts(code, &format!("K{next}"), &row.keys);
            next
        });
        rows.push("c(")
            .string(&row.text)
            .push(",&K")
            .show(number)
            .push(",|x|");
        match &row.test {
            Test::Tree(expression) => test(&mut rows, expression, &mut statics),
            // A table that is written out was made from a graph, whose conditions are trees.
            Test::Closure(_) => {
                rows.push("false");
            }
        }
        rows.push("),");
    }
    code.push(&statics.code.text);
    code.push("static CONDITIONS:[ConditionRow;")
        .show(pipeline.conditions.len())
        .push("]=[");
    code.push(&rows.text).push("];");
}

/// Patterns and values that are made once, when they are first used.
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
        // The macro and the language are of one version; a form that is unknown here cannot be met.
        _ => {
            code.push("false");
        }
    }
}

/// Parts joined by an operator, as a balanced tree, so that no length can exhaust the stack of rustc.
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
