//! JSON.

use serde_json::{Map, Value};

use super::{below, word};
use crate::Random;

/// Signs and words of JSON.
pub const WORDS: &[&str] = &[
    "{", "}", "[", "]", ":", ",", "\"", "null", "true", "false", "0", "-1", "1e999", "\\u0000", "\\ud800",
    "\"\"", "\"a\":1", "\\n", "{}", "[]",
];

/// A value of any kind.
pub fn value(random: &mut Random, depth: usize) -> Value {
    let kinds = if below(random, depth) { 9 } else { 6 };
    match random.below(kinds) {
        0 => Value::Null,
        1 => Value::Bool(random.chance(50)),
        2 => Value::from(random.between(-3, 100)),
        3 => Value::from(random.number()),
        4 => Value::from(0.5 * random.between(-5, 5) as f64),
        5 => Value::String(word(random)),
        6 => (0..random.below(4)).map(|_| value(random, depth + 1)).collect(),
        _ => Value::Object(object(random, depth + 1)),
    }
}

/// An object.
pub fn object(random: &mut Random, depth: usize) -> Map<String, Value> {
    (0..random.below(5))
        .map(|_| (word(random), value(random, depth)))
        .collect()
}

/// Changes an object at random: a field less, another value, one more.
pub fn vary(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let names: Vec<String> = fields.keys().cloned().collect();
            let name = random.pick(&names).clone();
            match random.below(8) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(name, self::value(random, 1))),
                2 => drop(fields.insert(word(random), self::value(random, 2))),
                _ => fields.values_mut().for_each(|value| {
                    if random.chance(50) {
                        vary(value, random);
                    }
                }),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = random.below(items.len());
            match random.below(6) {
                0 => drop(items.remove(at)),
                1 => {
                    let copy = items[at].clone();
                    items.push(copy);
                }
                _ => vary(&mut items[at], random),
            }
        }
        other if random.chance(30) => *other = self::value(random, 2),
        _ => {}
    }
}
