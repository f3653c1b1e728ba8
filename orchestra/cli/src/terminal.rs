//! The only place that writes to the terminal.

use std::io::{IsTerminal, Write};

use crate::args::Common;

/// Where output goes, and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    /// Whether standard output carries JSON lines.
    pub(crate) json: bool,
    /// Whether only results and errors are written.
    pub(crate) quiet: bool,
    /// Whether standard error takes colours.
    pub(crate) color: bool,
}

impl Terminal {
    pub(crate) fn new(common: &Common) -> Terminal {
        let plain = common.no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let color = !plain && !dumb && std::io::stderr().is_terminal();
        Terminal {
            json: common.json,
            quiet: common.quiet,
            color,
        }
    }

    /// A result, to standard output. A reader that has gone away is no fault of ours.
    pub(crate) fn result(&self, text: &str) {
        let mut output = std::io::stdout().lock();
        let _ = writeln!(output, "{text}").and_then(|()| output.flush());
    }

    /// A result as one line of JSON.
    pub(crate) fn object(&self, value: &serde_json::Value) {
        self.result(&value.to_string());
    }

    /// Progress, to standard error, unless quiet.
    pub(crate) fn progress(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// A diagnostic or an error, to standard error.
    pub(crate) fn say(&self, text: &str) {
        let mut output = std::io::stderr().lock();
        let _ = writeln!(output, "{text}").and_then(|()| output.flush());
    }

    /// Text as it is, to standard error: a prompt, or a line that is written over.
    pub(crate) fn write(&self, text: &str) {
        let mut output = std::io::stderr().lock();
        let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    }

    /// Text in a colour, where standard error takes colours.
    pub(crate) fn paint(&self, style: Paint, text: &str) -> String {
        if self.color {
            format!("\x1b[{}m{text}\x1b[0m", style.code())
        } else {
            text.to_owned()
        }
    }
}

impl Terminal {
    /// Text in a colour, where standard output takes colours.
    pub(crate) fn paint_result(&self, style: Paint, text: &str) -> String {
        let color = self.color && std::io::stdout().is_terminal();
        Terminal { color, ..*self }.paint(style, text)
    }
}

/// How text is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Paint {
    Good,
    Bad,
    Warn,
    Dim,
    Bold,
}

impl Paint {
    const fn code(self) -> &'static str {
        match self {
            Paint::Good => "32",
            Paint::Bad => "1;31",
            Paint::Warn => "33",
            Paint::Dim => "2",
            Paint::Bold => "1",
        }
    }
}
