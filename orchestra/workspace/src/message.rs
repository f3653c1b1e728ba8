//! Messages of commits.

/// Longest first line, value of a trailer, and body, in characters.
const LINE: usize = 200;
const BODY: usize = 8 * 1024;

/// The message of a commit: a line, a text, and trailers that machines read.
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
    /// The first line; control characters become spaces, and what is longer than 200 characters is cut.
    pub summary: String,
    /// The text below it, which may be empty; cut at 8 Ki characters.
    pub body: String,
    /// Names and values; each becomes one line.
    pub trailers: Vec<(String, String)>,
}

impl Message {
    /// The message as git keeps it.
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
            .take(BODY)
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

/// One line of bounded length.
fn line(text: &str) -> String {
    let flat = text
        .split(|c: char| c.is_control() || c == ' ')
        .filter(|word| !word.is_empty());
    let line = flat.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
