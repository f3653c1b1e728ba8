//! The options of commands that execute other commands, or a program in one of their arguments.

use super::syntax::Word;

/// A command that executes the command after its options.
pub(super) struct Wrapper {
    /// The options with an argument.
    pub(super) with_argument: &'static str,
    /// The number of arguments before the command.
    pub(super) operands: usize,
    /// `true` if assignments may come before the command.
    pub(super) assigns: bool,
}

/// Returns the options of a command that executes the command after them.
pub(super) fn wrapper(name: &str) -> Option<Wrapper> {
    let (with_argument, operands, assigns) = match name {
        "builtin" | "busybox" | "nohup" | "setsid" => ("", 0, false),
        "chroot" | "taskset" => ("", 1, false),
        "chrt" => ("TPD", 1, false),
        "command" => ("", 0, false),
        "doas" => ("uC", 0, false),
        "env" => ("uC", 0, true),
        "exec" => ("a", 0, false),
        "ionice" => ("cnpPu", 0, false),
        "nice" => ("n", 0, false),
        "stdbuf" => ("ioe", 0, false),
        "sudo" => ("ughpCDRrTtU", 0, true),
        "time" => ("fo", 0, false),
        "timeout" => ("ks", 1, false),
        "xargs" => ("aEILnPsd", 0, false),
        _ => return None,
    };
    Some(Wrapper {
        with_argument,
        operands,
        assigns,
    })
}

/// Short options after which a wrapper does something else.
pub(super) fn stops(name: &str, option: char) -> bool {
    match name {
        "command" => matches!(option, 'v' | 'V'),
        "env" => matches!(option, 'S'),
        "sudo" => matches!(option, 's' | 'i' | 'e' | 'l'),
        "ionice" => matches!(option, 'p' | 'P' | 'u'),
        _ => false,
    }
}

/// Long options of wrappers without an argument.
const FLAGS: &[&str] = &[
    "--foreground",
    "--ignore-environment",
    "--no-run-if-empty",
    "--non-interactive",
    "--null",
    "--preserve-env",
    "--preserve-status",
    "--set-home",
    "--verbose",
];

/// An interpreter that executes a program in an argument.
pub(super) struct Interpreter {
    /// The short options whose argument is a program.
    pub(super) code: &'static str,
    /// Their long spellings.
    pub(super) long: &'static [&'static str],
    /// The other short options with an argument.
    pub(super) with_argument: &'static str,
    /// The options that may be joined with one of `code`.
    pub(super) flags: &'static str,
    /// `true` if it reads its program from the standard input without one.
    pub(super) reads: bool,
}

/// Returns the options of an interpreter.
pub(super) fn interpreter(name: &str) -> Option<Interpreter> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let (code, long, with_argument, flags, reads): (_, &[&str], _, _, _) = match base {
        "python" | "pypy" => ("c", &[], "WXmQ", "bBdEhiIOPqsSuvxV", true),
        "perl" => ("eE", &[], "ImM", "acflnpsStTuUwWX0123456789", true),
        "ruby" => ("e", &[], "IrCEKWFx", "aclnpsSvw", true),
        "node" | "nodejs" => ("ep", &["--eval", "--print"], "rC", "ipchv", true),
        "php" => ("rBRE", &["--run"], "cdftzSF", "nqaCilmswvH", false),
        "lua" => ("e", &[], "l", "iEvW", false),
        "Rscript" => ("e", &[], "", "", false),
        "osascript" => ("e", &[], "ls", "", false),
        _ => return None,
    };
    Some(Interpreter {
        code,
        long,
        with_argument,
        flags,
        reads,
    })
}

/// Returns whether a command is a shell.
pub(super) fn is_shell(name: &str) -> bool {
    matches!(
        name,
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "mksh" | "ash" | "rbash" | "ksh93"
    )
}

/// The options at the beginning of some arguments.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// The short options, each with its argument as the index of a word.
    pub(super) short: Vec<(char, Option<usize>)>,
    /// The index of the first operand.
    pub(super) end: usize,
}

/// Reads the options at the beginning of some arguments. Returns `None` if it is not clear where they end.
pub(super) fn options(words: &[Word], with_argument: &str) -> Option<Options> {
    let mut options = Options::default();
    while let Some(word) = words.get(options.end) {
        // The first letters of a word may be known, as in `-F"$X"`.
        let text = match word.plain() {
            Some(text) => text,
            None if word.prefix().starts_with('-') => {
                let option = word.prefix().chars().nth(1)?;
                if option == '-' || !with_argument.contains(option) {
                    return None;
                }
                options.short.push((option, Some(options.end)));
                options.end += 1;
                continue;
            }
            None => break,
        };
        if !text.starts_with('-') || text == "-" {
            break;
        }
        options.end += 1;
        if text == "--" {
            break;
        }
        if text.starts_with("--") {
            if !text.contains('=') && !FLAGS.contains(&text.as_str()) {
                return None;
            }
            continue;
        }
        let mut letters = text.chars().skip(1).peekable();
        while let Some(letter) = letters.next() {
            if !with_argument.contains(letter) {
                options.short.push((letter, None));
                continue;
            }
            // The argument is the rest of the word, or the next word.
            let is_attached = letters.peek().is_some();
            options
                .short
                .push((letter, (!is_attached).then_some(options.end)));
            options.end += usize::from(!is_attached);
            break;
        }
    }
    options.end = options.end.min(words.len());
    Some(options)
}
