//! The scan of a command: which variables hold given values, and what happens to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use super::names::changes_programs;
use super::parser::parse;
use super::syntax::{Assignment, Command, Operation, Parameter, Part, Script, Simple, Text, Word};

/// A place in a command at which a given value is executed or split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The bytes of the command.
    pub(crate) range: Range<usize>,
    /// The name of the variable that was given the value; `None` for the standard input.
    pub(crate) variable: Option<String>,
    pub(crate) problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The value is executed. The text says by what.
    Executed(String),
    /// The value is evaluated as a number, in which bash executes commands. The text says by what.
    Evaluated(String),
    /// The value is split into words.
    Unquoted,
}

/// Returns the places at which a command executes or splits the values of some variables, or executes its standard input
/// if that is a given value. The list is sorted by position. A command that cannot be parsed has none.
pub(crate) fn scan(command: &str, variables: &[&str], stdin: bool) -> Vec<Finding> {
    let text = Text::from_start(command);
    let Ok(script) = parse(&text, 0) else {
        return Vec::new();
    };
    let given = variables.iter().map(|name| {
        let given = Given {
            variable: (*name).to_owned(),
            exported: true,
            split: false,
        };
        ((*name).to_owned(), given)
    });
    let mut scanner = Scanner {
        given: given.collect(),
        findings: Vec::new(),
        stdin: stdin.then_some(Source::Stdin),
        depth: 0,
        splits: true,
        command: command.into(),
        integers: BTreeSet::new(),
    };
    scanner.script(&script, false);
    let mut findings = scanner.findings;
    findings.sort_by_key(|finding| (finding.range.start, finding.problem == Problem::Unquoted));
    findings.dedup_by(|later, first| later.range == first.range);
    findings
}

/// A variable that holds a given value.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// The variable that was given the value.
    variable: String,
    exported: bool,
    /// `true` if the shell has split it already.
    split: bool,
}

/// The use of a given value in a word.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) range: Range<usize>,
    pub(super) variable: Option<String>,
}

/// The content of the standard input of a command.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The standard input of the whole command, which is a given value.
    Stdin,
    /// Text that contains a given value.
    Value(Use),
}

#[derive(Clone)]
pub(super) struct Scanner {
    pub(super) given: BTreeMap<String, Given>,
    pub(super) findings: Vec<Finding>,
    /// The unread standard input, if it is a given value.
    stdin: Option<Source>,
    depth: usize,
    /// `false` if unquoted values are not split.
    pub(super) splits: bool,
    /// The text of the outermost command.
    command: Rc<str>,
    /// The variables that bash evaluates as numbers when they are set.
    pub(super) integers: BTreeSet<String>,
}

/// Commands that do not read their standard input.
const NOT_READING: &[&str] = &[
    ":", "[", "cd", "chmod", "cp", "date", "echo", "export", "false", "ls", "mkdir", "mktemp", "mv",
    "printf", "pwd", "rm", "set", "sleep", "test", "touch", "trap", "true", "ulimit", "umask", "unset",
];

impl Scanner {
    pub(super) fn report(&mut self, used: &Use, problem: Problem) {
        self.findings.push(Finding {
            range: used.range.clone(),
            variable: used.variable.clone(),
            problem,
        });
    }

    /// Returns the first use of a given value in the result of a word.
    pub(super) fn uses(&self, word: &Word) -> Option<Use> {
        word.parts.iter().find_map(|part| match part {
            Part::Parameter(parameter) => match &parameter.operation {
                Operation::Value => self.used(parameter),
                Operation::Or(word) => self.used(parameter).or_else(|| self.uses(word)),
                Operation::Instead(word) => self.uses(word),
                Operation::Other | Operation::Executed | Operation::Index(_) => None,
            },
            Part::Command(script) => match &*script.pipelines {
                [pipeline] => match &*pipeline.commands {
                    [command] => match self.printed(command, self.stdin.as_ref())? {
                        Source::Value(used) => Some(used),
                        Source::Stdin => Some(Use {
                            range: range_of(command)?,
                            variable: None,
                        }),
                    },
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
    }

    fn used(&self, parameter: &Parameter) -> Option<Use> {
        Some(Use {
            range: parameter.range.clone(),
            variable: Some(self.given.get(&parameter.name)?.variable.clone()),
        })
    }

    /// Returns the given value that a command certainly writes to its standard output as it is.
    fn printed(&self, command: &Command, stdin: Option<&Source>) -> Option<Source> {
        let Command::Simple(simple) = command else {
            return None;
        };
        let (name, arguments) = simple.words.split_first()?;
        let used = match name.plain()?.as_str() {
            "echo" => arguments.iter().find_map(|word| self.uses(word))?,
            "printf" => {
                let (format, arguments) = arguments.split_first()?;
                match self.uses(format) {
                    Some(used) => used,
                    None if is_plain_format(&format.plain()?) => {
                        arguments.iter().find_map(|word| self.uses(word))?
                    }
                    None => return None,
                }
            }
            "cat" | "tee" => {
                let reads = |word: &Word| matches!(word.plain().as_deref(), Some("-" | "/dev/stdin"));
                let is_tee = name.plain()? == "tee";
                if !is_tee && !arguments.iter().all(reads) {
                    return None;
                }
                return self.input(simple, stdin);
            }
            _ => return None,
        };
        Some(Source::Value(used))
    }

    /// Returns what a command reads from its standard input, if that is a given value.
    fn input(&self, simple: &Simple, stdin: Option<&Source>) -> Option<Source> {
        match simple.redirects.iter().rev().find(|redirect| redirect.is_input()) {
            Some(redirect) if redirect.operator == "<<<" => self.uses(&redirect.target).map(Source::Value),
            Some(_) => None,
            None => stdin.cloned(),
        }
    }

    fn script(&mut self, script: &Script, conditional: bool) {
        for pipeline in &script.pipelines {
            let conditional = conditional || !pipeline.certain || pipeline.commands.len() > 1;
            let mut stdin = self.stdin.clone();
            for (at, command) in pipeline.commands.iter().enumerate() {
                let output = self.printed(command, stdin.as_ref());
                self.command(command, stdin.as_ref(), conditional);
                if at == 0 && !leaves_input(command) {
                    self.stdin = None;
                }
                stdin = output;
            }
        }
    }

    fn command(&mut self, command: &Command, stdin: Option<&Source>, conditional: bool) {
        match command {
            Command::Simple(simple) => self.simple(simple, stdin, conditional),
            Command::Group(scripts) => {
                for script in scripts {
                    self.nested_script(script, stdin);
                }
            }
            Command::For { name, words, body } => {
                words.iter().for_each(|word| self.expansions(word));
                let used = words.iter().find_map(|word| Some((word, self.uses(word)?)));
                let copy = used.and_then(|(word, used)| {
                    Some(Given {
                        variable: used.variable?,
                        exported: self.given.get(name).is_some_and(|given| given.exported),
                        split: !self.split_uses(word).is_empty(),
                    })
                });
                self.forget(name);
                self.given.extend(copy.map(|copy| (name.clone(), copy)));
                self.nested_script(body, stdin);
                self.forget(name);
            }
            Command::Case {
                subject,
                patterns,
                bodies,
            } => {
                self.expansions(subject);
                patterns.iter().for_each(|word| self.expansions(word));
                for body in bodies {
                    self.nested_script(body, stdin);
                }
            }
            Command::Test(words) => {
                words.iter().for_each(|word| self.expansions(word));
                self.test(words);
            }
            Command::Arithmetic(parts) => self.arithmetic(parts, "`(( .. ))`"),
            Command::Function(body) => {
                // A function runs later than it is written, and may set any variable that is named without `$`.
                let command = self.command.clone();
                self.given.retain(|name, _| !may_set(&command, name));
                let before = self.given.clone();
                self.forget_positional();
                self.nested_script(body, None);
                self.given = before;
            }
        }
    }

    /// Scans a list that does not certainly run.
    fn nested_script(&mut self, script: &Script, stdin: Option<&Source>) {
        let outer = std::mem::replace(&mut self.stdin, stdin.cloned());
        self.script(script, true);
        self.stdin = outer.filter(|_| self.stdin.is_some());
    }

    fn simple(&mut self, simple: &Simple, stdin: Option<&Source>, conditional: bool) {
        // The substitutions of the command may read the input, but the command is looked at as a whole.
        let before = self.stdin.clone();
        for assignment in &simple.assignments {
            self.expansions(&assignment.value);
            self.program_variable(&assignment.name, &assignment.value);
        }
        for word in &simple.words {
            self.expansions(word);
        }
        for redirect in &simple.redirects {
            self.expansions(&redirect.target);
        }
        if simple.words.is_empty() {
            for assignment in &simple.assignments {
                self.assign(assignment, conditional);
            }
            return;
        }
        let after = std::mem::replace(&mut self.stdin, before);
        let input = self.input(simple, stdin);
        self.execute(&simple.words, input.as_ref(), conditional);
        self.stdin = after;
        // With another `IFS`, the shell may not split.
        if !simple
            .assignments
            .iter()
            .any(|assignment| assignment.name == "IFS")
        {
            self.unquoted_words(&simple.words);
        }
    }

    /// Reports a given value that becomes the value of a variable which decides what programs run.
    pub(super) fn program_variable(&mut self, name: &str, value: &Word) {
        if changes_programs(name)
            && let Some(used) = self.uses(value)
        {
            let by = format!("the variable `{name}` decides which programs run, or which code they load");
            self.report(&used, Problem::Executed(by));
        }
    }

    fn assign(&mut self, assignment: &Assignment, conditional: bool) {
        if assignment.name == "IFS" {
            self.splits = false;
        }
        if self.integers.contains(&assignment.name)
            && let Some(used) = self.uses(&assignment.value)
        {
            self.report(&used, Problem::Evaluated("`declare -i`".to_owned()));
        }
        let copied = self.uses(&assignment.value).filter(|_| !conditional);
        let exported = self
            .given
            .get(&assignment.name)
            .is_some_and(|given| given.exported);
        match copied.and_then(|used| used.variable) {
            Some(variable) => {
                let given = Given {
                    variable,
                    exported,
                    split: false,
                };
                self.given.insert(assignment.name.clone(), given);
            }
            None => self.forget(&assignment.name),
        }
    }

    /// Removes a variable that is set to something else.
    pub(super) fn forget(&mut self, name: &str) {
        self.given.remove(name);
    }

    /// Removes the positional parameters.
    pub(super) fn forget_positional(&mut self) {
        self.given.retain(|name, _| !is_positional(name));
    }

    /// Scans the substitutions, arithmetic and indirect expansions of a word.
    fn expansions(&mut self, word: &Word) {
        for part in &word.parts {
            match part {
                Part::Command(script) => {
                    let given = self.given.clone();
                    let stdin = self.stdin.clone();
                    self.nested_script(script, stdin.as_ref());
                    self.given = given;
                }
                Part::Arithmetic(parts) => self.arithmetic(parts, "`$(( .. ))`"),
                Part::Parameter(parameter) => match &parameter.operation {
                    Operation::Or(word) | Operation::Instead(word) => self.expansions(word),
                    Operation::Index(parts) => self.arithmetic(parts, "the index of an expansion"),
                    Operation::Executed => {
                        if let Some(used) = self.used(parameter) {
                            let by = "bash executes commands in the value of such an expansion".to_owned();
                            self.report(&used, Problem::Executed(by));
                        }
                    }
                    Operation::Value | Operation::Other => {}
                },
                Part::Literal(_) | Part::Unknown => {}
            }
        }
    }

    fn arithmetic(&mut self, parts: &[Part], by: &str) {
        let word = Word {
            parts: parts.to_vec(),
        };
        self.expansions(&word);
        if let Some(used) = self.uses(&word) {
            self.report(&used, Problem::Evaluated(by.to_owned()));
        }
    }

    /// Reports given values that are compared as numbers in `[[ .. ]]`.
    fn test(&mut self, words: &[Word]) {
        let is_number = |word: &Word| {
            let word = word.plain();
            matches!(
                word.as_deref(),
                Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge")
            )
        };
        for (at, word) in words.iter().enumerate() {
            let Some(used) = self.uses(word) else {
                continue;
            };
            let before = at.checked_sub(1).and_then(|at| words.get(at));
            let after = words.get(at + 1);
            if before.is_some_and(is_number) || after.is_some_and(is_number) {
                self.report(&used, Problem::Evaluated("a comparison in `[[ .. ]]`".to_owned()));
            } else if before.is_some_and(|word| word.plain().as_deref() == Some("-v")) {
                self.report(&used, Problem::Evaluated("`-v`".to_owned()));
            }
        }
    }

    /// Reports unquoted given values in arguments.
    fn unquoted_words(&mut self, words: &[Word]) {
        let declares = words.first().and_then(Word::plain).is_some_and(|name| {
            matches!(
                name.as_str(),
                "export" | "readonly" | "local" | "declare" | "typeset"
            )
        });
        for word in words {
            if !(declares && word.prefix().contains('=')) {
                self.unquoted(word);
            }
        }
    }

    fn unquoted(&mut self, word: &Word) {
        for used in self.split_uses(word) {
            self.report(&used, Problem::Unquoted);
        }
    }

    /// Returns the given values in a word that the shell splits.
    pub(super) fn split_uses(&self, word: &Word) -> Vec<Use> {
        let mut found = Vec::new();
        for part in word.parts.iter().filter(|_| self.splits) {
            let Part::Parameter(parameter) = part else {
                continue;
            };
            match (&parameter.operation, self.used(parameter)) {
                _ if parameter.quoted => {}
                _ if self.given.get(&parameter.name).is_some_and(|given| given.split) => {}
                (Operation::Value | Operation::Or(_), Some(used)) => found.push(used),
                (Operation::Or(word) | Operation::Instead(word), _) => found.extend(self.split_uses(word)),
                _ => {}
            }
        }
        found
    }

    /// Reports given values that the shell splits, if the words of the value are executed.
    pub(super) fn executes_words(&mut self, words: &[Word], by: &str) {
        for used in words
            .iter()
            .flat_map(|word| self.split_uses(word))
            .collect::<Vec<_>>()
        {
            self.report(&used, Problem::Executed(by.to_owned()));
        }
    }

    /// Scans a text that the same shell executes, with the same variables.
    pub(super) fn evaluated(&mut self, text: &Text) {
        self.inner(text, self.given.clone(), self.splits);
    }

    /// Scans a text that another shell executes, with these arguments.
    pub(super) fn other_shell(&mut self, text: &Text, arguments: &[Word], splits: bool) {
        let mut given = self.given.clone();
        given.retain(|name, given| given.exported && !is_positional(name));
        // The first argument is the name of the command, `$0`.
        for (at, argument) in arguments.iter().enumerate() {
            let Some(variable) = self.uses(argument).and_then(|used| used.variable) else {
                continue;
            };
            let mut names = vec![at.to_string()];
            if at > 0 {
                names.extend(["@".to_owned(), "*".to_owned()]);
            }
            for name in names {
                let copy = Given {
                    variable: variable.clone(),
                    exported: false,
                    split: false,
                };
                given.insert(name, copy);
            }
        }
        self.inner(text, given, splits);
    }

    fn inner(&mut self, text: &Text, given: BTreeMap<String, Given>, splits: bool) {
        let Ok(script) = parse(text, self.depth + 1) else {
            return;
        };
        let mut inner = Scanner {
            given,
            findings: Vec::new(),
            stdin: None,
            depth: self.depth + 1,
            splits,
            command: self.command.clone(),
            integers: BTreeSet::new(),
        };
        inner.script(&script, true);
        self.findings.append(&mut inner.findings);
    }
}

/// Returns whether a command may set a variable: it names the variable without expanding it, and not only to read it in
/// arithmetic, in `[[ .. ]]` or inside of an expansion.
fn may_set(command: &str, name: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    command.match_indices(name).any(|(at, _)| {
        let before = command.get(..at).unwrap_or_default();
        let after = command.get(at + name.len()..).unwrap_or_default();
        let is_expanded = ["$", "{", "{#", "{!"].iter().any(|mark| before.ends_with(mark));
        let is_named = !is_expanded && !before.ends_with(is_name) && !after.starts_with(is_name);
        is_named && (!only_reads(before) || assigns(before, after))
    })
}

/// Returns whether a text ends inside of arithmetic, of `[[ .. ]]` or of an expansion.
fn only_reads(before: &str) -> bool {
    let is_inside = |open: &str, close: &str| {
        let opened = before.rfind(open);
        opened.is_some_and(|opened| before.rfind(close).is_none_or(|closed| closed < opened))
    };
    is_inside("((", "))") || is_inside("[[", "]]") || is_inside("${", "}")
}

/// Returns whether an operator of arithmetic before or after a name sets it.
fn assigns(before: &str, after: &str) -> bool {
    const SETTING: &[&str] = &[
        "++", "--", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|=",
    ];
    let (before, after) = (before.trim_end(), after.trim_start());
    let is_set = SETTING.iter().any(|operator| after.starts_with(operator));
    let is_equal = after.starts_with('=') && !after.starts_with("==");
    is_set || is_equal || before.ends_with("++") || before.ends_with("--")
}

fn is_positional(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_digit() || c == '@' || c == '*')
}

/// Returns whether a format of `printf` only copies its arguments.
fn is_plain_format(format: &str) -> bool {
    let mut copies = false;
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            continue;
        }
        match characters.next() {
            Some('s') => copies = true,
            Some('%') => {}
            _ => return false,
        }
    }
    copies
}

/// Returns whether a command certainly leaves its standard input to the commands after it.
fn leaves_input(command: &Command) -> bool {
    let Command::Simple(simple) = command else {
        return false;
    };
    match simple.words.first() {
        None => true,
        Some(name) => name
            .plain()
            .is_some_and(|name| NOT_READING.contains(&name.as_str())),
    }
}

/// Returns the bytes of the name of a command.
pub(super) fn range_of(command: &Command) -> Option<Range<usize>> {
    let Command::Simple(simple) = command else {
        return None;
    };
    range_of_word(simple.words.first()?)
}

/// Returns the bytes of a word without expansions.
pub(super) fn range_of_word(word: &Word) -> Option<Range<usize>> {
    let text = word.literal()?;
    Some(*text.at.first()?..*text.at.last()? + 1)
}
