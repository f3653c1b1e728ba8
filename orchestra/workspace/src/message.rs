//! Commit messages.

/// Maximum length in characters of the first line and of a trailer value, and of the body.
const MAX_LINE_CHARS: usize = 200;
const MAX_BODY_CHARS: usize = 8 * 1024;

/// The message of a commit: a summary line, a body, and machine-readable trailers.
///
/// ```
/// use orchestra_workspace::Message;
/// let message = Message {
///     summary: "build: compiled\nand linked".into(),
///     body: String::new(),
///     trailers: vec![("Orchestra-Node".into(), "build".into())],
/// };
/// assert_eq!(message.to_text(), "build: compiled and linked\n\nOrchestra-Node: build\n");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The first line. Control characters become spaces, and lines longer than 200 characters are truncated.
    pub summary: String,
    /// The text below it, which may be empty. Truncated after 8 Ki characters.
    pub body: String,
    /// The names and values of the trailers; each becomes one line.
    pub trailers: Vec<(String, String)>,
}

impl Message {
    /// Returns the message as stored by git.
    pub fn to_text(&self) -> String {
        let mut text = line(&self.summary);
        if text.is_empty() {
            text.push_str("changes");
        }
        text.push('\n');
        let body: String = self
            .body
            .chars()
            .filter(|c| *c == '\n' || !c.is_control())
            .take(MAX_BODY_CHARS)
            .collect();
        if !body.trim().is_empty() {
            text = format!("{text}\n{}\n", body.trim_end());
        }
        if !self.trailers.is_empty() {
            text.push('\n');
        }
        for (name, value) in &self.trailers {
            let name: String = name
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
                .collect();
            text.push_str(&format!("{name}: {}\n", line(value)));
        }
        text
    }
}

/// Returns the text as one line of bounded length.
fn line(text: &str) -> String {
    let flat = text
        .split(|c: char| c.is_control() || c == ' ')
        .filter(|word| !word.is_empty());
    let line = flat.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
