//! The output of models, which is passed to callbacks while it is generated.

use std::sync::Arc;

use orchestra_core::EffectId;

use crate::redact::RedactedStream;
use crate::run::stage_text::StageText;
use crate::run::state::Run;

/// A receiver of one answer of a model, piece by piece; see [`StageContext::text`](crate::StageContext::text). Text
/// that may be the beginning of a secret is held back until it is known not to be one, or until the stream is dropped.
///
/// ```
/// use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest};
/// struct Poet;
/// impl CodergenBackend for Poet {
///     async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
///         let mut text = request.stage.text();
///         text.push("Autumn leaves");
///         Ok("Autumn leaves".into())
///     }
/// }
/// ```
pub struct TextStream {
    run: Arc<Run>,
    id: EffectId,
    redacted: Option<RedactedStream>,
    /// The number of bytes that were passed on.
    passed: u64,
}

impl TextStream {
    pub(crate) fn new(run: &Arc<Run>, id: &EffectId) -> TextStream {
        TextStream {
            run: run.clone(),
            id: id.clone(),
            redacted: run.settings.redactor.as_ref().map(|redactor| redactor.stream()),
            passed: 0,
        }
    }

    /// Passes a piece on.
    pub fn push(&mut self, piece: &str) {
        if self.run.settings.on_text.is_empty() {
            return;
        }
        match &mut self.redacted {
            Some(redacted) => {
                let text = redacted.push(piece);
                self.emit(text);
            }
            None => self.emit(piece.to_owned()),
        }
    }

    fn emit(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        let branch = &self.id.branch;
        let offset = self.passed;
        self.passed += text.len() as u64;
        let piece = StageText {
            run: self.run.id.clone(),
            node: self.run.name(self.id.node),
            branch: (!branch.is_empty()).then(|| branch.name(&self.run.pipeline)),
            visit: self.id.visit,
            attempt: self.id.attempt,
            offset,
            text,
        };
        for callback in &*self.run.settings.on_text {
            callback(&piece);
        }
    }
}

impl Drop for TextStream {
    fn drop(&mut self) {
        // Do not call a callback again after it has panicked.
        if std::thread::panicking() {
            return;
        }
        if let Some(redacted) = &mut self.redacted {
            let rest = redacted.finish();
            self.emit(rest);
        }
    }
}

impl std::fmt::Debug for TextStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextStream").finish_non_exhaustive()
    }
}
