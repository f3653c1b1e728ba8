//! A line of the event file of a run.

use std::borrow::Cow;

use crate::event::RunEvent;

/// A serialized event in `events.jsonl`; see [`RunFolder::each_event`](crate::RunFolder::each_event) and
/// [`EventReader`](crate::EventReader).
///
/// ```
/// use orchestra_engine::{Engine, RunFolder};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let text = "digraph hello { start -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let folder = directory.path().join("run");
/// let engine = Engine::builder().build()?;
/// engine.start(pipeline, ()).run_dir(&folder).await?.wait().await?;
/// let mut completed = 0;
/// RunFolder::open(&folder)?.each_event(|line| {
///     if line.name() == Some("StageCompleted") {
///         completed += usize::from(line.event().is_some());
///     }
/// })?;
/// assert_eq!(completed, 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EventLine<'l> {
    line: &'l [u8],
}

impl<'l> EventLine<'l> {
    /// Creates a line from its bytes without the line feed.
    pub(super) fn new(line: &'l [u8]) -> EventLine<'l> {
        EventLine { line }
    }
}

impl EventLine<'_> {
    /// Returns the name of the event, such as `StageStarted`.
    pub fn name(&self) -> Option<&str> {
        // The field comes before any free text, in which quotes are escaped.
        const KEY: &[u8] = b"\"event\":\"";
        let begin = self.line.windows(KEY.len()).position(|part| part == KEY)? + KEY.len();
        let rest = self.line.get(begin..)?;
        let end = rest.iter().position(|byte| *byte == b'"')?;
        std::str::from_utf8(rest.get(..end)?).ok()
    }

    /// Parses the event. Returns `None` if it is invalid or only a newer version knows it.
    pub fn event(&self) -> Option<RunEvent> {
        RunEvent::from_json(self.line).ok()
    }

    /// Returns the text of the line without its line feed. Replaces bytes that are not UTF-8.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.line)
    }
}
