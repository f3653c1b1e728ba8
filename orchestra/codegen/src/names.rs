//! Rust names for the names of a pipeline: deterministic, valid and unique in their scope.

use std::collections::HashSet;

/// Words that are not valid as the name of a module, even as raw identifiers, or that would be confusing.
const KEYWORDS: &[&str] = &[
    "_", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do",
    "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "Self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// The names that a scope already has.
#[derive(Default)]
pub(crate) struct NameScope {
    names: HashSet<String>,
}

impl NameScope {
    /// Returns the name itself, or the name with a number appended if it is taken.
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

/// Returns the parts of a text that are valid in a Rust name, split at other characters and at camel-case humps.
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

/// Returns the name of a type or variant: `run_tests` becomes `RunTests`.
pub(crate) fn pascal(text: &str) -> String {
    let mut name = String::new();
    for part in parts(text) {
        // Two adjacent numbers would read as one; keep `a_1_2` and `a_12` distinct.
        if name.ends_with(|c: char| c.is_ascii_digit()) && part.starts_with(|c: char| c.is_ascii_digit()) {
            name.push('_');
        }
        let mut characters = part.chars();
        name.extend(characters.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(characters.as_str());
    }
    legal(name, "N")
}

/// Returns the name of a constant: `human.default_choice` becomes `HUMAN_DEFAULT_CHOICE`.
pub(crate) fn screaming(text: &str) -> String {
    legal(parts(text).join("_").to_uppercase(), "N")
}

/// Returns the name of a module or an outcome: `ReleaseCheck` becomes `release_check`.
pub(crate) fn snake(text: &str) -> String {
    legal(parts(text).join("_").to_lowercase(), "n")
}

/// Makes a name valid: not empty, no leading digit, not a keyword.
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
    fn names_that_meet_are_distinguished_by_their_order() {
        let mut scope = NameScope::default();
        let names: Vec<String> = ["run_tests", "runTests", "RunTests_2"]
            .iter()
            .map(|id| scope.claim(pascal(id)))
            .collect();
        assert_eq!(names, ["RunTests", "RunTests_2", "RunTests2"]);
    }
}
