//! The syntax tree of a command: lists of pipelines of commands, which consist of words.

use std::ops::Range;

/// A list of pipelines.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) pipelines: Vec<Pipeline>,
}

/// Commands that are connected by pipes.
#[derive(Debug)]
pub(super) struct Pipeline {
    /// `true` if it certainly runs when the list does: it does not come after `&&` or `||`, and not in the background.
    pub(super) certain: bool,
    pub(super) commands: Vec<Command>,
}

#[derive(Debug)]
pub(super) enum Command {
    Simple(Simple),
    /// `{ .. }`, `( .. )`, `if`, `while` and `until`, with their lists.
    Group(Vec<Script>),
    /// `for NAME in WORDS; do .. done`.
    For {
        name: String,
        words: Vec<Word>,
        body: Script,
    },
    /// `case WORD in .. esac`.
    Case {
        subject: Word,
        patterns: Vec<Word>,
        bodies: Vec<Script>,
    },
    /// `[[ .. ]]`.
    Test(Vec<Word>),
    /// `(( .. ))`.
    Arithmetic(Vec<Part>),
    /// The definition of a function.
    Function(Script),
}

/// A command with its arguments.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) assignments: Vec<Assignment>,
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
}

#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) value: Word,
}

#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) operator: String,
    pub(super) target: Word,
}

impl Redirect {
    /// Returns whether it replaces the standard input.
    pub(super) fn is_input(&self) -> bool {
        self.operator.trim_start_matches('0').starts_with('<')
    }
}

/// A word before its expansion.
#[derive(Clone, Debug, Default)]
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
}

/// A part of a word. `quoted` is `true` inside of double quotes.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// Text that stands for itself.
    Literal(Text),
    /// A parameter expansion.
    Parameter(Parameter),
    /// A command substitution.
    Command(std::rc::Rc<Script>),
    /// An arithmetic expansion.
    Arithmetic(Vec<Part>),
    /// Something whose value is not known, such as `$'..'`.
    Unknown,
}

#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) range: Range<usize>,
    pub(super) quoted: bool,
    pub(super) operation: Operation,
}

/// The operation of a parameter expansion.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// The value itself, or most of it: `$X`, `${X}`, `${X:?message}`, `${X%.txt}`.
    Value,
    /// The value, or a word in its place: `${X:-word}`.
    Or(Word),
    /// A word instead of the value: `${X:+word}`.
    Instead(Word),
    /// A part of the value, something about it, or a form of it that is quoted: `${X%%[!a-z]*}`, `${#X}`, `${X@Q}`.
    Other,
    /// The value of the variable that the value names: `${!X}`, or the value as a prompt: `${X@P}`.
    Executed,
    /// An index or a substring, which are arithmetic: `${A[X]}`, `${A:X}`.
    Index(Vec<Part>),
}

/// Text with the position of each of its bytes in the command.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) at: Vec<usize>,
}

impl Text {
    /// Returns a text that stands at the beginning of the command.
    pub(super) fn from_start(text: &str) -> Text {
        Text {
            text: text.to_owned(),
            at: (0..text.len()).collect(),
        }
    }

    pub(super) fn push(&mut self, character: char, at: usize) {
        self.text.push(character);
        self.at.extend((0..character.len_utf8()).map(|byte| at + byte));
    }

    fn append(&mut self, other: &Text) {
        self.text.push_str(&other.text);
        self.at.extend_from_slice(&other.at);
    }

    /// Returns the position in the command of a byte, or of the end of the text.
    pub(super) fn position(&self, byte: usize) -> usize {
        match self.at.get(byte) {
            Some(at) => *at,
            None => self.at.last().map_or(0, |at| at + 1),
        }
    }
}

impl Word {
    /// Returns the text of a word without expansions.
    pub(super) fn literal(&self) -> Option<Text> {
        let mut text = Text::default();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.append(literal),
                _ => return None,
            }
        }
        Some(text)
    }

    /// Returns the text of a word without expansions, as a string.
    pub(super) fn plain(&self) -> Option<String> {
        self.literal().map(|text| text.text)
    }

    /// Returns the literal text at the beginning of the word.
    pub(super) fn prefix(&self) -> String {
        let texts = self.parts.iter().map_while(|part| match part {
            Part::Literal(literal) => Some(literal.text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Returns whether any part of the word is literally this character.
    pub(super) fn has(&self, character: char) -> bool {
        let has = |part: &Part| matches!(part, Part::Literal(literal) if literal.text.contains(character));
        self.parts.iter().any(has)
    }
}
