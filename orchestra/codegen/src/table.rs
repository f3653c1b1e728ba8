//! The table of a pipeline as constant data: its rows as byte strings, its texts as one string.

use orchestra_graph::NodeIndex;
use orchestra_graph::condition::{Comparison, Expression};
use orchestra_graph::table::{
    AttributeRow, ConditionRow, EdgeRow, NodeRow, Pipeline, Predicates, Settings, Text,
};

use crate::code::Code;

/// Conditions with more parts are evaluated as a tree, because code for them would slow down the build.
const MAX_PARTS: usize = 64;

/// Writes the module that holds the table. `tables` are the paths of the child tables, relative to that module.
pub(crate) fn write(code: &mut Code, pipeline: &Pipeline, tables: &[String]) {
    code.push("mod __table{use super::__orchestra::__private::*;");
    let lengths = pipeline.texts.write_lengths();
    let count = pipeline.texts.count();
    list(code, "ENDS", "u32", count, "Texts::read_ends", &lengths);
    texts(code, "KINDS", &pipeline.kinds);
    let settings = Settings::write(&[pipeline.settings]);
    rows(code, "SETTINGS", "Settings", 1, &settings);
    let nodes = NodeRow::write(&pipeline.nodes);
    rows(code, "NODES", "NodeRow", pipeline.nodes.len(), &nodes);
    let edges = EdgeRow::write(&pipeline.edges);
    rows(code, "EDGES", "EdgeRow", pipeline.edges.len(), &edges);
    let (count, attributes) = (
        pipeline.attributes.len(),
        AttributeRow::write(&pipeline.attributes),
    );
    rows(code, "ATTRIBUTES", "AttributeRow", count, &attributes);
    let (count, conditions) = (
        pipeline.conditions.len(),
        ConditionRow::write(&pipeline.conditions),
    );
    rows(code, "CONDITIONS", "ConditionRow", count, &conditions);
    texts(code, "KEYS", &pipeline.keys);
    predicates(code, pipeline);
    children(code, pipeline, tables);
    code.push("pub static TABLE:Pipeline=Pipeline{name:Borrowed(")
        .string(&pipeline.name);
    code.push("),file:Borrowed(").string(&pipeline.file);
    code.push("),source:Borrowed(super::SOURCE),texts:Texts::new(")
        .string(pipeline.texts.joined());
    code.push(",&ENDS),settings:SETTINGS[0],");
    node(code, "start", pipeline.start);
    node(code, "exit", pipeline.exit);
    code.push("kinds:Borrowed(&KINDS),nodes:Borrowed(&NODES),edges:Borrowed(&EDGES),");
    code.push("conditions:Borrowed(&CONDITIONS),keys:Borrowed(&KEYS),predicates:Predicates::Functions(&PREDICATES),");
    code.push("attributes:Borrowed(&ATTRIBUTES),graph_attributes:Rows{start:")
        .show(pipeline.graph_attributes.start)
        .push(",end:")
        .show(pipeline.graph_attributes.end);
    code.push("},children:Borrowed(&CHILDREN)};}");
}

fn node(code: &mut Code, field: &str, node: NodeIndex) {
    code.push(field).push(":NodeIndex(").show(node.0).push("),");
}

/// Writes rows as a static that is read from bytes.
fn rows(code: &mut Code, name: &str, row: &str, count: usize, bytes: &[u8]) {
    list(code, name, row, count, &format!("{row}::read"), bytes);
}

fn list(code: &mut Code, name: &str, item: &str, count: usize, read: &str, bytes: &[u8]) {
    code.push("static ").push(name).push(":[").push(item);
    code.push(";").show(count).push("]=").push(read);
    code.push("(").raw_bytes(bytes).push(");");
}

fn texts(code: &mut Code, name: &str, texts: &[Text]) {
    code.push("static ").push(name).push(":[Text;");
    code.show(texts.len()).push("]=[");
    for text in texts {
        code.push("Text(").show(text.0).push("),");
    }
    code.push("];");
}

fn children(code: &mut Code, pipeline: &Pipeline, tables: &[String]) {
    let count = pipeline.children.len();
    code.push("static CHILDREN:[Child;").show(count).push("]=[");
    for (row, table) in pipeline.children.iter().zip(tables) {
        code.push("Child{file:Borrowed(").string(&row.file);
        code.push("),pipeline:SharedPipeline::Static(&")
            .push(table)
            .push(")},");
    }
    code.push("];");
}

/// Writes the conditions, each as a function that calls the primitives of the evaluator. rustc would check closures
/// together with the list that holds them, at a cost quadratic in their number.
fn predicates(code: &mut Code, pipeline: &Pipeline) {
    // A table to be written was made from a graph, whose conditions are trees.
    let expressions = match &pipeline.predicates {
        Predicates::Expressions(expressions) => expressions.as_slice(),
        Predicates::Functions(_) => &[],
    };
    let mut statics = Statics::default();
    let mut list = Code::default();
    for (at, (expression, row)) in expressions.iter().zip(pipeline.conditions.iter()).enumerate() {
        list.push("c").show(at).push(",");
        code.push("fn c").show(at).push("(x:&Facts<'_>)->bool{");
        if parts(expression) > MAX_PARTS {
            let name = statics.add("LazyCondition", pipeline.text(row.text));
            code.push(&name).push(".holds(x)");
        } else {
            test(code, expression, &mut statics);
        }
        code.push("}");
    }
    code.push(&statics.code.text);
    code.push("static PREDICATES:[Predicate;")
        .show(expressions.len())
        .push("]=[");
    code.push(&list.text).push("];");
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
