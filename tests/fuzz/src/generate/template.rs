//! Templates of tasks.

use super::made_of;
use crate::Random;

/// Words and signs of templates.
pub const WORDS: &[&str] = &[
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "{%-",
    "-%}",
    "{% raw %}",
    "{% endraw %}",
    "{% for x in plan.steps %}",
    "{% endfor %}",
    "{% if a %}",
    "{% elif b %}",
    "{% else %}",
    "{% endif %}",
    "{% set n = 1 %}",
    "{% set s = s ~ s %}",
    "{{ goal }}",
    "{{ prompt | upper }}",
    "{{ human.gate['text'] }}",
    "| replace('a', 'bb')",
    "| join(',')",
    "| indent(2)",
    "| repeat",
    "|",
    ".",
    "[",
    "]",
    "(",
    ")",
    "'",
    "\"",
    " is defined",
    " if ",
    "for",
    "in",
    "endfor",
    "\\",
    "~",
    "*",
    "**",
    "9999999999",
    "range(10)",
    "range(9999999)",
    "loop.index",
    "é",
    "\u{200b}",
    "-",
    "set",
    "None",
    ":",
    "{% filter upper %}",
    "{% endfilter %}",
    "{% macro m(a) %}",
    "{% endmacro %}",
    "{% include 'x' %}",
    "x",
    "'a' * 100000",
    "[1]*9",
    "//",
    "%",
];

/// A template.
pub fn text(random: &mut Random) -> String {
    if random.chance(20) {
        return made_of(WORDS, random);
    }
    let mut text = String::new();
    block(random, 0, &mut text);
    text
}

fn block(random: &mut Random, depth: usize, text: &mut String) {
    for _ in 0..random.below(5) {
        match random.below(if depth < 4 { 9 } else { 4 }) {
            0 | 1 => text.push_str(random.pick::<&str>(&["Review ", "it.\n", "- a\n", "é ", "{ } %"])),
            2 | 3 => {
                text.push_str("{{ ");
                expression(random, 0, text);
                text.push_str(" }}");
            }
            4 => {
                text.push_str("{% set v = ");
                expression(random, 0, text);
                text.push_str(" %}");
            }
            5 | 6 => {
                text.push_str("{% if ");
                expression(random, 0, text);
                text.push_str(" %}");
                block(random, depth + 1, text);
                if random.chance(40) {
                    text.push_str("{% else %}");
                    block(random, depth + 1, text);
                }
                text.push_str("{% endif %}");
            }
            7 => {
                text.push_str("{% for v in ");
                expression(random, 0, text);
                text.push_str(" %}");
                block(random, depth + 1, text);
                text.push_str("{% endfor %}");
            }
            _ => {
                text.push_str("{# ");
                text.push_str(random.pick::<&str>(&["a comment", "{{ braces }}", "%}"]));
                text.push_str(" #}");
            }
        }
    }
}

fn expression(random: &mut Random, depth: usize, text: &mut String) {
    match random.below(if depth < 4 { 10 } else { 3 }) {
        0..3 => text.push_str(random.pick::<&str>(&[
            "goal",
            "prompt",
            "plan",
            "plan.steps",
            "outcome",
            "v",
            "loop.index",
            "1",
            "2.5",
            "'text'",
            "true",
            "none",
            "human.gate['text']",
            "range(4)",
            "unknown.key",
        ])),
        3 => {
            expression(random, depth + 1, text);
            text.push_str(random.pick::<&str>(&[
                " | upper",
                " | length",
                " | join(', ')",
                " | replace('a', 'b')",
                " | indent(2)",
                " | first",
                " | sort",
                " | default('x')",
                " | tojson",
                " | list",
                " | unique",
                " | batch(2)",
                " | items",
                " | string",
                " | lines",
                " | groupby('a')",
                " | map('upper')",
                " | select",
                " | round",
                " | abs",
                " | int",
                " | dictsort",
            ]));
        }
        4 => {
            text.push('[');
            for _ in 0..random.below(4) {
                expression(random, depth + 1, text);
                text.push(',');
            }
            text.push(']');
        }
        5 => {
            text.push_str("{'k': ");
            expression(random, depth + 1, text);
            text.push('}');
        }
        6 => {
            text.push('(');
            expression(random, depth + 1, text);
            text.push(')');
            text.push_str(random.pick::<&str>(&[
                "[0]",
                "[1:]",
                "['k']",
                ".k",
                "[::-1]",
                " is defined",
                " is none",
                " not in [1]",
            ]));
        }
        _ => {
            expression(random, depth + 1, text);
            text.push_str(random.pick::<&str>(&[
                " ~ ", " + ", " * ", " - ", " / ", " // ", " % ", " ** ", " == ", " < ", " and ", " or ",
                " in ",
            ]));
            expression(random, depth + 1, text);
        }
    }
}
