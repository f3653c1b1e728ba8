//! The screen that questions and progress share.

/// The screen that shows questions. While a question is open, nothing else is shown.
pub(crate) trait Screen: Send + Sync {
    /// Prepares for a question.
    fn open(&self);
    /// Shows text unchanged.
    fn write(&self, text: &str);
    /// Returns whether the last answer of a stage's model is on the screen already.
    fn shows_answer(&self, node: &str, text: &str) -> bool;
    /// Ends the current line if there is one.
    fn end_line(&self);
    /// Resumes other output after the question was answered or withdrawn.
    fn close(&self);
}
