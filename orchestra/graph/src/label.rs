//! Labels of edges: their comparison, and their accelerator keys (Attractor 3.3, 4.6, rule H1).

/// Returns the form in which labels are compared: lower case, trimmed, without an accelerator prefix.
///
/// ```
/// use orchestra_graph::normalize_label;
/// assert_eq!(normalize_label("[Y] Yes, deploy"), "yes, deploy");
/// assert_eq!(normalize_label("Y) Yes"), normalize_label("y - yes"));
/// ```
pub fn normalize_label(label: &str) -> String {
    label_text(label).to_lowercase()
}

/// Returns a label without its accelerator prefix.
///
/// ```
/// use orchestra_graph::label_text;
/// assert_eq!(label_text("[Y] Yes, deploy"), "Yes, deploy");
/// assert_eq!(label_text("Reject"), "Reject");
/// ```
pub fn label_text(label: &str) -> &str {
    split(label).1
}

/// Returns the accelerator key of a label, or `None` if it has none.
///
/// ```
/// use orchestra_graph::accelerator_key;
/// assert_eq!(accelerator_key("[A] Approve"), Some("A"));
/// assert_eq!(accelerator_key("Reject"), None);
/// ```
pub fn accelerator_key(label: &str) -> Option<&str> {
    split(label).0
}

/// Splits a label into its accelerator key and the rest. The forms `[K] x`, `K) x` and `K - x` have a key.
fn split(label: &str) -> (Option<&str>, &str) {
    let label = label.trim();
    let prefixed = label
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .or_else(|| {
            let short = |(key, _): &(&str, &str)| key.chars().count() == 1;
            label
                .split_once(')')
                .filter(short)
                .or_else(|| label.split_once(" - ").filter(short))
        });
    match prefixed {
        Some((key, rest)) if is_key(key.trim()) && !rest.trim().is_empty() => (Some(key.trim()), rest.trim()),
        _ => (None, label),
    }
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().count() <= 3 && key.chars().all(char::is_alphanumeric)
}
