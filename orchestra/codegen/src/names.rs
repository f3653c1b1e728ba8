//! Rust names for the names of a pipeline: deterministic, legal, and each once in its place.

use std::collections::HashSet;

/// Words that cannot be the name of a module, raw or not, or that would read badly as one.
const KEYWORDS: &[&str] = &[
    "_", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do",
    "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "Self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// Names that are already taken in one place.
#[derive(Default)]
pub(crate) struct Taken {
    names: HashSet<String>,
}

impl Taken {
    /// The name itself, or with a number behind it where it is taken; the first comer keeps it.
    pub(crate) fn claim(&mut self, name: String) -> String {
        let mut candidate = name.clone();
        let mut number = 2;
        while !self.names.insert(candidate.clone()) {
            candidate = format!("{name}_{number}");
            number += 1;
        }
        candidate
    }
}

/// The parts of a text that can stand in a Rust name: split at other characters and at humps.
fn parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut before = ' ';
    for character in text.chars() {
        let inside = character != '_' && unicode_ident::is_xid_continue(character);
        if inside {
            let hump = character.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit());
            let glued = before != ' ' && !hump;
            match parts.last_mut() {
                Some(part) if glued => part.push(character),
                _ => parts.push(character.to_string()),
            }
        }
        before = if inside { character } else { ' ' };
    }
    parts
}

/// The name of a type or variant: `run_tests` gives `RunTests`.
pub(crate) fn pascal(text: &str) -> String {
    let mut name = String::new();
    for part in parts(text) {
        // Two numbers that met would read as one: `a_1_2` and `a_12` stay apart.
        if name.ends_with(|c: char| c.is_ascii_digit()) && part.starts_with(|c: char| c.is_ascii_digit()) {
            name.push('_');
        }
        let mut characters = part.chars();
        name.extend(characters.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(characters.as_str());
    }
    legal(name, "N")
}

/// The name of a constant: `human.default_choice` gives `HUMAN_DEFAULT_CHOICE`.
pub(crate) fn screaming(text: &str) -> String {
    legal(parts(text).join("_").to_uppercase(), "N")
}

/// The name of a module or an outcome word: `ReleaseCheck` gives `release_check`.
pub(crate) fn snake(text: &str) -> String {
    legal(parts(text).join("_").to_lowercase(), "n")
}

/// A name made legal: not empty, no digit first, no keyword.
fn legal(name: String, prefix: &str) -> String {
    let starts = name.chars().next().is_some_and(unicode_ident::is_xid_start);
    if name.is_empty() || !starts {
        return format!("{prefix}{name}");
    }
    if KEYWORDS.contains(&name.as_str()) {
        return format!("{name}_");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_habits_of_rust() {
        for (id, variant) in [
            ("critic", "Critic"),
            ("run_tests", "RunTests"),
            ("runTests", "RunTests"),
            ("a_1_2", "A1_2"),
            ("self", "Self_"),
            ("_", "N"),
            ("1st", "N1st"),
            ("ÜberPrüfung x", "ÜberPrüfungX"),
        ] {
            assert_eq!(pascal(id), variant, "{id}");
        }
        assert_eq!(screaming("human.default_choice"), "HUMAN_DEFAULT_CHOICE");
        assert_eq!(screaming("dryRun"), "DRY_RUN");
        assert_eq!(snake("ReleaseCheck"), "release_check");
        assert_eq!(snake("type"), "type_");
    }

    #[test]
    fn names_that_meet_are_told_apart_by_their_order() {
        let mut taken = Taken::default();
        let names: Vec<String> = ["run_tests", "runTests", "RunTests_2"]
            .iter()
            .map(|id| taken.claim(pascal(id)))
            .collect();
        assert_eq!(names, ["RunTests", "RunTests_2", "RunTests2"]);
    }
}
