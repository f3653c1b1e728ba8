//! The texts that earlier stages of a run stored: responses of models, outputs of tools, answers of people (rule F1).

use std::path::PathBuf;

use orchestra_core::EffectId;

use crate::run::hosted_text::HostedText;
use crate::run::stage_files::OwnedStageFolder;
use crate::run::state::Run;
use crate::store::{FileEnds, StageFile};

/// Maximum length of a text that an attempt passes on to another process, in bytes.
const MAX_HOSTED_BYTES: usize = 16 << 20;

/// A text that a stage stored. If it is longer than the caller requested, only its two ends; see
/// [`StageContext::stage_text`](crate::StageContext::stage_text).
///
/// ```
/// use orchestra_engine::StoredText;
/// let mut text = StoredText::from("a log");
/// assert_eq!(text.to_string(), "a log");
/// text.tail = "FAILED".to_owned();
/// text.missing = 2_000;
/// text.file = Some("runs/r/test/tool_output.txt".into());
/// assert_eq!(
///     text.to_string(),
///     "a log\n[2000 bytes are left out here; the whole text is in `runs/r/test/tool_output.txt`]\nFAILED"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredText {
    /// The text, or its beginning.
    pub head: String,
    /// The end of a text that is not complete.
    pub tail: String,
    /// The number of bytes that are missing between `head` and `tail`.
    pub missing: u64,
    /// The file with the complete text; `None` if the run persists no files.
    pub file: Option<PathBuf>,
}

impl StoredText {
    /// Returns the length of the complete text in bytes.
    pub fn len(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64 + self.missing
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn from_ends(ends: &FileEnds, file: Option<PathBuf>) -> StoredText {
        let head = whole_characters(&ends.head, ends.missing > 0);
        if ends.missing == 0 {
            return StoredText {
                head,
                file,
                ..StoredText::default()
            };
        }
        // A character that is cut in two belongs to the missing part.
        let start = ends.tail.iter().position(|byte| byte & 0xC0 != 0x80).unwrap_or(0);
        let tail = String::from_utf8_lossy(ends.tail.get(start..).unwrap_or_default()).into_owned();
        StoredText {
            head,
            tail,
            missing: ends.missing,
            file,
        }
    }
}

impl From<&str> for StoredText {
    fn from(text: &str) -> StoredText {
        StoredText {
            head: text.to_owned(),
            ..StoredText::default()
        }
    }
}

impl std::fmt::Display for StoredText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.head)?;
        if self.missing > 0 {
            write!(f, "\n[{} bytes are left out here", self.missing)?;
            if let Some(file) = &self.file {
                write!(f, "; the whole text is in `{}`", file.display())?;
            }
            write!(f, "]\n{}", self.tail)?;
        }
        Ok(())
    }
}

fn whole_characters(bytes: &[u8], is_cut: bool) -> String {
    let mut bytes = bytes;
    while is_cut && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none()) {
        bytes = bytes.split_last().map_or(&[], |(_, rest)| rest);
    }
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses a record such as `fan#1:left/build#2` into the node, its branches and the visit.
pub(crate) fn parse_record(record: &str) -> Option<(&str, String, u32)> {
    let mut steps: Vec<&str> = record.split('/').collect();
    let (node, visit) = steps.pop()?.split_once('#')?;
    let branches = steps.into_iter().map(|step| Some(step.split_once(':')?.1));
    let branches: Vec<&str> = branches.collect::<Option<_>>()?;
    Some((node, branches.join("."), visit.parse().ok()?))
}

impl Run {
    /// Reads a text that a visit stored. Returns `None` if it stored no such text.
    pub(crate) fn stage_text(&self, record: &str, file: StageFile, most: usize) -> Option<StoredText> {
        let (node, branch, visit) = parse_record(record)?;
        let index = self.pipeline.find(node)?;
        let stage_folder = self.stage_folder_in(index, branch);
        match &self.store {
            Some(store) => {
                let ends = store.recall(stage_folder.as_ref(), visit, file, most)?;
                let path = std::path::absolute(&ends.path).unwrap_or_else(|_| ends.path.clone());
                Some(StoredText::from_ends(&ends, Some(path)))
            }
            None => {
                if let Some((of, text)) = self.models().texts().get(&key(&stage_folder, file))
                    && *of == visit
                {
                    let ends = FileEnds::of_bytes(text.as_bytes(), most);
                    return Some(StoredText::from_ends(&ends, None));
                }
                self.temporary_text(record, file, most)
            }
        }
    }

    /// Reads a text that a visit stored in the temporary folder of a run without a run folder. Returns `None` if it stored no
    /// such text there.
    fn temporary_text(&self, record: &str, file: StageFile, most: usize) -> Option<StoredText> {
        let (node, branch, visit) = parse_record(record)?;
        let stage_folder = self.stage_folder_in(self.pipeline.find(node)?, branch);
        let folder = self.stage_files.present_temporary()?;
        let ends = folder.recall(stage_folder.as_ref(), visit, file, most)?;
        // The folder is removed when the run ends, so its path is not returned.
        Some(StoredText::from_ends(&ends, None))
    }

    /// Stores a text of an earlier stage, which another process keeps.
    pub(crate) fn receive(&self, given: HostedText) {
        let HostedText { record, file, text } = given;
        if let Some((node, branch, visit)) = parse_record(&record)
            && let Some(node) = self.pipeline.find(node)
        {
            let key = key(&self.stage_folder_in(node, branch), file);
            self.models().texts().insert(key, (visit, text));
        }
    }

    /// Returns the texts that an attempt has stored.
    pub(crate) fn texts_of(&self, id: &EffectId) -> Vec<HostedText> {
        let record = id.record(&self.pipeline);
        let files = [
            StageFile::Prompt,
            StageFile::Response,
            StageFile::ToolOutput,
            StageFile::ToolError,
            StageFile::Conversation,
        ];
        let texts = files.into_iter().filter_map(|file| {
            // A text in memory may be one that an earlier attempt stored, and this attempt replaced by a file.
            let text = self
                .temporary_text(&record, file, MAX_HOSTED_BYTES)
                .or_else(|| self.stage_text(&record, file, MAX_HOSTED_BYTES))?;
            Some(HostedText::new(record.clone(), file, text.to_string()))
        });
        texts.collect()
    }

    /// Stores a text of a stage in memory, if the run persists no files.
    pub(crate) fn remember(&self, id: &EffectId, file: StageFile, text: &str) {
        if self.store.is_none() {
            let text = self.redacted(text).into_owned();
            let key = key(&self.stage_folder(id), file);
            self.models().texts().insert(key, (id.visit, text));
        }
    }
}

fn key(stage_folder: &OwnedStageFolder<'_>, file: StageFile) -> (String, String, StageFile) {
    let stage_folder = stage_folder.as_ref();
    (stage_folder.node.to_owned(), stage_folder.branch.to_owned(), file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_are_written() {
        assert_eq!(parse_record("build#2"), Some(("build", String::new(), 2)));
        let nested = "fan#1:left/inner#1.2:a~2/review#3";
        assert_eq!(parse_record(nested), Some(("review", "left.a~2".to_owned(), 3)));
        for odd in ["", "build", "build#", "build#x", "fan/build#1", "/build#1"] {
            assert_eq!(parse_record(odd), None, "{odd}");
        }
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let text = "äöü".repeat(10);
        let ends = FileEnds::of_bytes(text.as_bytes(), 11);
        let cut = StoredText::from_ends(&ends, None);
        assert!(
            !cut.head.contains('\u{fffd}') && !cut.tail.contains('\u{fffd}'),
            "{cut:?}"
        );
        assert!(
            text.starts_with(&cut.head) && text.ends_with(&cut.tail),
            "{cut:?}"
        );
        assert_eq!(
            StoredText::from_ends(&FileEnds::of_bytes(b"whole", 5), None),
            "whole".into()
        );
    }
}
