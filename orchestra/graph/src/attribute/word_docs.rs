//! The meanings of the words that attributes accept.

use super::table::Known;

/// Words, each with its meaning.
type Words = &'static [(&'static str, &'static str)];

/// The attributes whose values are words, with the meaning of each.
const MEANINGS: &[(&[Known], Words)] = &[
    (
        &[Known::OnFailure],
        &[
            (
                "fail",
                "A failed stage follows only edges whose condition holds, else the run continues at its retry target or fails.",
            ),
            ("route", "A failed stage also follows edges without a condition."),
        ],
    ),
    (
        &[Known::Routing],
        &[
            (
                "five_step",
                "Edges are selected by condition, preferred label, suggestion, weight and target id.",
            ),
            (
                "first_match",
                "The first edge in the file whose `condition_type` holds is taken.",
            ),
        ],
    ),
    (
        &[Known::ReasoningEffort],
        &[
            ("low", "Little time for reasoning: fast and cheap."),
            ("medium", "A moderate time for reasoning."),
            ("high", "Much time for reasoning: slow and thorough."),
        ],
    ),
    (
        &[Known::RetryPolicy],
        &[
            ("none", "1 attempt."),
            (
                "standard",
                "5 attempts; 200 ms before the second, then twice as long each time.",
            ),
            (
                "aggressive",
                "5 attempts; 500 ms before the second, then twice as long each time.",
            ),
            ("linear", "3 attempts, each 500 ms after the one before."),
            (
                "patient",
                "3 attempts; 2 s before the second, then three times as long.",
            ),
        ],
    ),
    (
        &[Known::End],
        &[
            ("fail", "A run that ends here fails."),
            ("success", "A run that ends here succeeds."),
        ],
    ),
    (
        &[Known::AgentMode],
        &[
            ("autonomous", "The model works alone."),
            ("interactive", "A person talks with the model during the stage."),
        ],
    ),
    (
        &[Known::JoinPolicy],
        &[
            (
                "wait_all",
                "The block waits for all branches. It succeeds if none failed, else partially.",
            ),
            (
                "k_of_n",
                "The block succeeds as soon as `join_k` branches have succeeded, and fails as soon as this is impossible.",
            ),
            (
                "first_success",
                "The block succeeds as soon as one branch has succeeded.",
            ),
            (
                "quorum",
                "The block succeeds as soon as the fraction `join_quorum` of the branches has succeeded, and fails as soon as this is impossible.",
            ),
        ],
    ),
    (
        &[Known::ErrorPolicy],
        &[
            (
                "fail_fast",
                "A failed branch cancels the others, and the block fails.",
            ),
            (
                "continue",
                "A failed branch counts as failed; the others continue.",
            ),
            (
                "ignore",
                "A failed branch is left out of `parallel.results`; under `wait_all` the block succeeds.",
            ),
        ],
    ),
    (
        &[Known::MergePolicy],
        &[
            ("merge", "The files of all branches that succeeded are merged."),
            (
                "best_only",
                "Only the files of the branch that the fan-in chose are taken.",
            ),
            ("none", "No files are merged."),
        ],
    ),
    (
        &[Known::OnConflict],
        &[
            ("stage", "The next stage resolves the conflicts."),
            ("human", "A person resolves the conflicts."),
            ("fail", "The fan-in fails, and nothing is merged."),
        ],
    ),
    (
        &[Known::ConditionType],
        &[
            ("always", "The edge may be taken after every outcome."),
            ("unconditional", "The same as `always`."),
            ("success", "The edge is taken if the stage has not failed."),
            ("failure", "The edge is taken if the stage has failed."),
            (
                "conditional",
                "The edge is taken if its `condition_value` holds for the output of the stage.",
            ),
        ],
    ),
    (
        &[Known::Fidelity, Known::DefaultFidelity],
        &[
            ("full", "The conversation of the thread continues."),
            (
                "truncate",
                "A new conversation with the goal and the run, in at most 150 tokens.",
            ),
            (
                "compact",
                "A new conversation with what led to the stage and what earlier stages did, in at most 4,000 tokens.",
            ),
            (
                "summary:low",
                "As `compact`, in at most 600 tokens, with the number of stages and of failed attempts.",
            ),
            ("summary:medium", "As `summary:low`, in at most 1,500 tokens."),
            (
                "summary:high",
                "As `summary:low`, in at most 3,000 tokens, with the number of tool calls of each stage.",
            ),
        ],
    ),
    (
        &[Known::ManagerActions],
        &[
            ("observe", "Reads the state of the child."),
            (
                "steer",
                "Sends an instruction to the child if `manager.guard.intervene` holds.",
            ),
            ("wait", "Waits for `manager.poll_interval`."),
        ],
    ),
];

impl Known {
    /// Returns the words that the attribute accepts, each with its meaning. Returns nothing for an attribute whose values
    /// are no words, and for shapes and kinds of handlers.
    ///
    /// ```
    /// use orchestra_graph::Known;
    /// let words = Known::OnConflict.described_words();
    /// assert_eq!(words[1], ("human", "A person resolves the conflicts."));
    /// ```
    pub fn described_words(self) -> &'static [(&'static str, &'static str)] {
        let found = MEANINGS.iter().find(|(attributes, _)| attributes.contains(&self));
        found.map_or(&[], |(_, words)| words)
    }

    /// Returns the meaning of a word that the attribute accepts.
    ///
    /// ```
    /// use orchestra_graph::Known;
    /// assert_eq!(Known::End.word_description("fail"), Some("A run that ends here fails."));
    /// assert_eq!(Known::End.word_description("maybe"), None);
    /// ```
    pub fn word_description(self, word: &str) -> Option<&'static str> {
        let found = self.described_words().iter().find(|(own, _)| *own == word);
        found.map(|(_, meaning)| *meaning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::{ATTRIBUTES, AttributeType};
    use crate::table::Retry;

    #[test]
    fn every_accepted_word_has_a_meaning() {
        for spec in ATTRIBUTES {
            let is_fidelity = matches!(spec.known, Known::Fidelity | Known::DefaultFidelity);
            if !is_fidelity && !matches!(spec.ty, AttributeType::Word(_)) {
                continue;
            }
            let described: Vec<&str> = spec
                .known
                .described_words()
                .iter()
                .map(|(word, _)| *word)
                .collect();
            assert_eq!(described, spec.known.fixed_values(), "{}", spec.name);
        }
    }

    #[test]
    fn the_presets_of_retries_are_described_as_they_are() {
        for (name, meaning) in Known::RetryPolicy.described_words() {
            let retry = Retry::policy(name);
            assert!(
                meaning.starts_with(&format!("{} attempt", retry.attempts)),
                "{name}"
            );
            let delay = match retry.initial_delay.as_millis() {
                0 => continue,
                millis @ 0..1000 => format!(" {millis} ms "),
                millis => format!(" {} s ", millis / 1000),
            };
            assert!(meaning.contains(&delay), "{name}: {delay}");
        }
    }
}
