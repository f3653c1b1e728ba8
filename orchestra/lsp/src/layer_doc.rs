//! The documentation of prompt layers.

use orchestra_config::{LayerKind, yaml_words};

use crate::files::Files;
use crate::markdown::{block, code};
use crate::paths::absolute;
use crate::place::MAX_BYTES;

/// Returns the documentation of a layer in some folders, or of a built-in one: its file, its description and the
/// beginning of its text.
pub(crate) fn layer_doc(
    files: &Files<'_>,
    (root, folders): (&str, &[String]),
    kind: LayerKind,
    name: &str,
) -> Option<String> {
    let inside = format!("{}/{name}.yaml", kind.folder());
    let of_project = folders.iter().find_map(|folder| {
        let file = format!("{folder}/{inside}");
        let bytes = files.read(&absolute(root, &file), MAX_BYTES).ok()?;
        Some((file, bytes))
    });
    let built_in = || {
        let text = kind.built_in_file(name)?;
        Some(("ships with Orchestra".to_owned(), text.as_bytes().to_vec()))
    };
    let (file, bytes) = of_project.or_else(built_in)?;
    let words = yaml_words(&bytes);
    let value = |key: &str| {
        let mut values = words.iter().filter(|word| !word.is_key);
        values.find(|word| word.path.len() == 2 && word.path.last().is_some_and(|last| last == key))
    };
    let mut parts = vec![format!("**{kind}** {} ({file})", code(name))];
    parts.extend(value("description").map(|word| word.text.trim().to_owned()));
    parts.extend(value("extends").map(|word| format!("Extends {}.", code(&word.text))));
    let text = ["system", "modifiers", "template"].into_iter().find_map(value);
    parts.extend(text.map(|word| block(&word.text)));
    Some(parts.join("\n\n"))
}
