//! The commands that execute their arguments.

use super::interpreters::{Interpreter, interpreter, is_shell, options, stops, wrapper};
use super::scan::{Problem, Scanner, Source, Use, range_of_word};
use super::syntax::{Text, Word};

/// Maximum number of wrappers, such as `sudo env nice`, before a command.
const MAX_WRAPPERS: usize = 16;

impl Scanner {
    /// Reports the given values that a command executes. `source` is what it reads from its standard input.
    pub(super) fn execute(&mut self, words: &[Word], source: Option<&Source>, conditional: bool) {
        self.execute_inside(words, source, conditional, 0);
    }

    fn execute_inside(&mut self, words: &[Word], source: Option<&Source>, conditional: bool, depth: usize) {
        let Some((first, arguments)) = words.split_first() else {
            return;
        };
        if let Some(used) = self.uses(first) {
            let by = "it decides which program runs".to_owned();
            return self.report(&used, Problem::Executed(by));
        }
        let Some(path) = first.plain() else {
            return;
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        if let Some(found) = wrapper(name) {
            if depth < MAX_WRAPPERS {
                let Some(command) = self.wrapped(name, &found, arguments, source) else {
                    return;
                };
                self.execute_inside(command, source, conditional, depth + 1);
            }
            return;
        }
        match name {
            "eval" => self.eval(arguments),
            "." | "source" => self.sourced(name, first, arguments, source),
            "trap" => self.trap(arguments),
            "alias" => self.alias(arguments),
            "let" => {
                if let Some(used) = arguments.iter().find_map(|word| self.uses(word)) {
                    self.report(&used, Problem::Evaluated("`let`".to_owned()));
                }
            }
            "export" | "readonly" | "local" | "declare" | "typeset" => {
                self.declared(name, arguments, conditional);
            }
            "compgen" => self.any(arguments, "bash executes commands in it"),
            "mapfile" | "readarray" => {
                let callback = arguments
                    .windows(2)
                    .find(|pair| pair.first().and_then(Word::plain).as_deref() == Some("-C"));
                self.executes(
                    callback.and_then(|pair| pair.get(1)),
                    format!("`{name} -C` executes it as a command"),
                );
            }
            "unset" => self.names(name, arguments),
            "read" => self.read(arguments),
            "set" | "shift" => self.positional(arguments),
            "printf" => self.printf_variable(arguments),
            "test" | "[" => self.test_variable(arguments),
            "ssh" => self.ssh(arguments),
            "su" | "runuser" | "script" => self.option_c(name, arguments),
            "watch" => self.watch(arguments),
            "find" => self.find(arguments, conditional),
            "awk" | "gawk" | "mawk" | "nawk" => {
                self.program(
                    name,
                    arguments,
                    "Fvf",
                    "e",
                    "executes it as a part of its program",
                );
            }
            "sed" | "gsed" => {
                let by = "executes it as a part of its script, in which GNU sed runs commands (`e`)";
                self.program(name, arguments, "efl", "e", by);
            }
            _ if is_shell(name) => self.shell(name, first, arguments, source),
            _ => {
                if let Some(found) = interpreter(name) {
                    self.interpret(name, &found, first, arguments, source);
                }
            }
        }
    }

    /// Reports the first use in any of some words.
    fn any(&mut self, words: &[Word], by: &str) {
        if let Some(used) = words.iter().find_map(|word| self.uses(word)) {
            self.report(&used, Problem::Executed(by.to_owned()));
        }
    }

    fn executes(&mut self, word: Option<&Word>, by: String) {
        if let Some(used) = word.and_then(|word| self.uses(word)) {
            self.report(&used, Problem::Executed(by));
        }
    }

    /// Reports a given value that a command reads as its program. `first` is the name of the command.
    fn reads_program(&mut self, name: &str, first: &Word, source: Option<&Source>) {
        let used = match source {
            None => return,
            Some(Source::Value(used)) => used.clone(),
            Some(Source::Stdin) => match range_of_word(first) {
                Some(range) => Use {
                    range,
                    variable: None,
                },
                None => return,
            },
        };
        let by = format!("`{name}` reads its program from the standard input");
        self.report(&used, Problem::Executed(by));
    }

    /// Returns the command that a wrapper executes.
    fn wrapped<'w>(
        &mut self,
        name: &str,
        found: &super::interpreters::Wrapper,
        arguments: &'w [Word],
        source: Option<&Source>,
    ) -> Option<&'w [Word]> {
        let options = options(arguments, found.with_argument)?;
        if options.short.iter().any(|(option, _)| stops(name, *option)) {
            return None;
        }
        let mut rest = arguments.get(options.end..)?;
        while found.assigns
            && let Some((word, after)) = rest.split_first()
            && word.has('=')
        {
            let text = word.prefix();
            if let Some((variable, _)) = text.split_once('=') {
                self.program_variable(variable, word);
            }
            rest = after;
        }
        let rest = rest.get(found.operands..)?;
        let before = arguments.get(..arguments.len() - rest.len()).unwrap_or_default();
        let by = format!("the shell splits it, and `{name}` executes a word of it as a command");
        self.executes_words(before, &by);
        if name == "xargs"
            && let Some((_, index)) = options.short.iter().find(|(option, _)| *option == 'I')
        {
            let mark = match index {
                Some(index) => arguments.get(*index)?.plain()?,
                None => {
                    let mut words = arguments.iter().filter_map(Word::plain);
                    words.find_map(|word| word.strip_prefix("-I").map(str::to_owned))?
                }
            };
            self.replaced(&mark, rest, source);
        }
        Some(rest)
    }

    /// Reports a given value that `xargs` puts into a program in place of a mark.
    fn replaced(&mut self, mark: &str, command: &[Word], source: Option<&Source>) {
        let name = command.first().and_then(Word::plain).unwrap_or_default();
        let shell = name.rsplit('/').next().unwrap_or_default();
        let script = command
            .get(1)
            .and_then(Word::plain)
            .filter(|option| option == "-c")
            .and_then(|_| command.get(2)?.literal());
        let (Some(script), Some(source), true) = (script, source, is_shell(shell) && !mark.is_empty()) else {
            return;
        };
        let Some(start) = script.text.find(mark) else {
            return;
        };
        let used = match source {
            Source::Value(used) => used.clone(),
            Source::Stdin => Use {
                range: script.position(start)..script.position(start + mark.len() - 1) + 1,
                variable: None,
            },
        };
        let by = format!("`xargs` puts it into the text that `{shell} -c` executes");
        self.report(&used, Problem::Executed(by));
    }

    fn eval(&mut self, arguments: &[Word]) {
        let arguments = without_dashes(arguments);
        if let Some(used) = arguments.iter().find_map(|word| self.uses(word)) {
            let by = "`eval` executes it as a command".to_owned();
            return self.report(&used, Problem::Executed(by));
        }
        let mut text = Text::default();
        for word in arguments {
            let Some(literal) = word.literal() else {
                return;
            };
            if let Some(first) = literal.at.first()
                && !text.text.is_empty()
            {
                text.push(' ', first.saturating_sub(1));
            }
            text.text.push_str(&literal.text);
            text.at.extend_from_slice(&literal.at);
        }
        self.evaluated(&text);
    }

    fn sourced(&mut self, name: &str, first: &Word, arguments: &[Word], source: Option<&Source>) {
        let file = without_dashes(arguments).first();
        if file.and_then(Word::plain).is_some_and(|file| is_stdin(&file)) {
            return self.reads_program(name, first, source);
        }
        self.executes(file, format!("`{name}` executes the file that it names"));
    }

    fn alias(&mut self, arguments: &[Word]) {
        self.any(arguments, "the shell executes the text of an alias");
        for text in arguments.iter().filter_map(Word::literal) {
            if let Some((name, command)) = text.text.split_once('=') {
                self.evaluated(&Text {
                    text: command.to_owned(),
                    at: text.at.get(name.len() + 1..).unwrap_or_default().to_vec(),
                });
            }
        }
    }

    fn trap(&mut self, arguments: &[Word]) {
        let Some(action) = without_dashes(arguments).first() else {
            return;
        };
        self.executes(Some(action), "`trap` executes it as a command".to_owned());
        if let Some(text) = action.literal().filter(|text| !text.text.starts_with('-')) {
            self.evaluated(&text);
        }
    }

    /// Reports given values in the names of variables, and forgets variables that are set.
    fn declared(&mut self, name: &str, arguments: &[Word], conditional: bool) {
        let is_integer = arguments
            .iter()
            .map_while(Word::plain)
            .any(|word| word.starts_with('-') && word.contains('i') && name != "export");
        for word in arguments {
            let prefix = word.prefix();
            if is_integer {
                let variable = prefix.split('=').next().unwrap_or_default();
                self.integers.insert(variable.to_owned());
                if let Some(used) = self.uses(word).filter(|_| prefix.contains('=')) {
                    self.report(&used, Problem::Evaluated("`declare -i`".to_owned()));
                }
            }
            match prefix.split_once('=') {
                Some((variable, _)) => {
                    self.program_variable(variable, word);
                    let copies = self.uses(word).is_some() && !conditional && !variable.contains(['[', '+']);
                    // A variable that is set to the given value again still holds it.
                    if !(copies && self.given.contains_key(variable)) {
                        self.forget(variable);
                    }
                }
                None => {
                    if let Some(variable) = word.plain() {
                        if name == "local" {
                            self.forget(&variable);
                        }
                        continue;
                    }
                    self.name(name, word);
                }
            }
        }
    }

    fn names(&mut self, name: &str, arguments: &[Word]) {
        for word in arguments {
            match word.plain() {
                Some(variable) => self.forget(&variable),
                None => self.name(name, word),
            }
        }
    }

    fn name(&mut self, command: &str, word: &Word) {
        let by = format!(
            "`{command}` takes it as the name of a variable, such as `PATH`, or as an index, in which bash executes commands"
        );
        self.executes(Some(word), by);
    }

    fn read(&mut self, arguments: &[Word]) {
        let Some(options) = options(arguments, "pdntNuia") else {
            return;
        };
        let by = "the shell splits it, and bash executes commands in the index of a name";
        self.executes_words(arguments, by);
        let array = options.short.iter().filter(|(option, _)| *option == 'a');
        let array = array.filter_map(|(_, index)| arguments.get((*index)?));
        let names = arguments.get(options.end..).unwrap_or_default();
        for word in array.chain(names) {
            self.names("read", std::slice::from_ref(word));
        }
    }

    fn positional(&mut self, arguments: &[Word]) {
        let turns_off = |word: &Word| {
            word.plain()
                .is_some_and(|word| word == "noglob" || word.starts_with('-') && word.contains('f'))
        };
        if arguments.iter().any(turns_off) {
            self.splits = false;
        }
        self.forget_positional();
    }

    fn printf_variable(&mut self, arguments: &[Word]) {
        let Some((format, rest)) = arguments.split_first() else {
            return;
        };
        // With one argument, `-v` is an error.
        if format.prefix().is_empty() && (!rest.is_empty() || !self.split_uses(format).is_empty()) {
            let by = "a value such as `-va[$(command)]` is an option, in which bash executes the command";
            self.executes(Some(format), by.to_owned());
        }
        if arguments.first().and_then(Word::plain).as_deref() == Some("-v")
            && let Some(word) = arguments.get(1)
        {
            self.names("printf -v", std::slice::from_ref(word));
        }
    }

    fn test_variable(&mut self, arguments: &[Word]) {
        let by = "the shell splits it, and bash executes commands in the word after `-v`";
        self.executes_words(arguments, by);
        for pair in arguments.windows(2) {
            if let [option, operand] = pair
                && option.plain().as_deref() == Some("-v")
                && let Some(used) = self.uses(operand)
            {
                self.report(&used, Problem::Evaluated("`test -v`".to_owned()));
            }
        }
    }

    fn ssh(&mut self, arguments: &[Word]) {
        let Some(options) = options(arguments, "bcDEeFIiJLlmOopQRSWwB") else {
            return;
        };
        let remote = arguments.get(options.end + 1..).unwrap_or_default();
        self.any(
            remote,
            "`ssh` passes it to a shell on the other machine, which executes it",
        );
    }

    fn option_c(&mut self, name: &str, arguments: &[Word]) {
        let script = arguments
            .iter()
            .position(|word| matches!(word.plain().as_deref(), Some("-c" | "-qc" | "-lc" | "--command")));
        let script = script.and_then(|at| arguments.get(at + 1));
        self.executes(script, format!("`{name} -c` executes it as a command"));
    }

    fn watch(&mut self, arguments: &[Word]) {
        let Some(options) = options(arguments, "nq") else {
            return;
        };
        // With `-x`, it starts a program without a shell.
        if !options.short.iter().any(|(option, _)| *option == 'x') {
            let command = arguments.get(options.end..).unwrap_or_default();
            self.any(command, "`watch` passes it to a shell, which executes it");
        }
    }

    fn find(&mut self, arguments: &[Word], conditional: bool) {
        let by = "the shell splits it, and `find` executes the words after `-exec` in it";
        self.executes_words(arguments, by);
        for (at, word) in arguments.iter().enumerate() {
            if !matches!(
                word.plain().as_deref(),
                Some("-exec" | "-execdir" | "-ok" | "-okdir")
            ) {
                continue;
            }
            let command = arguments.get(at + 1..).unwrap_or_default();
            let is_end = |word: &Word| matches!(word.plain().as_deref(), Some(";" | "+"));
            let end = command.iter().position(is_end).unwrap_or(command.len());
            self.execute(command.get(..end).unwrap_or_default(), None, conditional);
        }
    }

    /// Reports a given value in the program of `awk` or `sed`: the argument of some options, else the first operand.
    fn program(&mut self, name: &str, arguments: &[Word], with_argument: &str, code: &str, by: &str) {
        let with_argument = format!("{with_argument}{code}");
        let Some(options) = options(arguments, &with_argument) else {
            return;
        };
        let by = format!("`{name}` {by}");
        let mut has_program = false;
        for (option, index) in &options.short {
            if code.contains(*option) {
                has_program = true;
                let program = index.and_then(|index| arguments.get(index));
                self.executes(program, by.clone());
            }
            has_program |= *option == 'f';
        }
        if !has_program {
            self.executes(arguments.get(options.end), by);
        }
        if name.ends_with("sed") {
            self.sed_operands(arguments, options.end + usize::from(!has_program));
        }
    }

    /// Reports given values among the files of `sed`. GNU sed takes options there too, unless `--` comes before them. A
    /// value that is such an option makes the script a file, so another file must be read.
    fn sed_operands(&mut self, arguments: &[Word], first: usize) {
        let dashes = arguments
            .iter()
            .position(|word| word.plain().as_deref() == Some("--"));
        let end = dashes.unwrap_or(arguments.len());
        let files = arguments.get(first.min(end)..end).unwrap_or_default();
        let may_be_option = |word: &&Word| word.prefix().is_empty() && self.uses(word).is_some();
        let operand = files.iter().find(may_be_option);
        let is_alone = |word: &&Word| files.len() == 1 && self.split_uses(word).is_empty();
        let is_script_an_operand = !arguments.iter().any(|word| word.prefix().starts_with("-e"));
        let operand = operand.filter(|word| !(is_script_an_operand && is_alone(word)));
        let by = "GNU sed executes a value such as `-e1e command`, unless `--` comes before it";
        self.executes(operand, by.to_owned());
    }

    fn shell(&mut self, name: &str, first: &Word, arguments: &[Word], source: Option<&Source>) {
        let (mut at, mut has_script, mut reads) = (0, false, false);
        while let Some(text) = arguments.get(at).and_then(Word::plain) {
            if !text.starts_with(['-', '+']) {
                break;
            }
            at += 1;
            if text == "--" || text == "-" {
                break;
            }
            if text.starts_with("--") {
                at += usize::from(matches!(text.as_str(), "--rcfile" | "--init-file"));
                continue;
            }
            has_script |= text.starts_with('-') && text.contains('c');
            reads |= text.contains('s');
            at += usize::from(text.ends_with(['o', 'O']));
        }
        let operand = arguments.get(at);
        if has_script {
            let Some(script) = operand else {
                return;
            };
            if self.uses(script).is_some() {
                return self.executes(operand, format!("`{name} -c` executes it as a command"));
            }
            if let Some(text) = script.literal() {
                let inner = arguments.get(at + 1..).unwrap_or_default();
                self.other_shell(&text, inner, !matches!(name, "zsh"));
            }
            return;
        }
        let from_stdin = operand.is_none_or(|word| word.plain().is_some_and(|file| is_stdin(&file)));
        if reads || from_stdin {
            self.reads_program(name, first, source);
        } else {
            self.executes(operand, format!("`{name}` executes the file that it names"));
        }
    }

    fn interpret(
        &mut self,
        name: &str,
        found: &Interpreter,
        first: &Word,
        arguments: &[Word],
        source: Option<&Source>,
    ) {
        let mut at = 0;
        let mut has_code = false;
        let mut reads_files = false;
        while let Some(word) = arguments.get(at) {
            let by = || format!("`{name}` executes it as a part of its program");
            let Some(text) = word.plain() else {
                break;
            };
            if !text.starts_with('-') || text == "-" {
                break;
            }
            at += 1;
            if text == "--" {
                break;
            }
            if text.starts_with("--") {
                let is_code = found.long.contains(&text.as_str());
                if !is_code && !text.contains('=') {
                    return;
                }
                if is_code {
                    has_code = true;
                    self.executes(arguments.get(at), by());
                    at += 1;
                }
                continue;
            }
            let letters = text.trim_start_matches('-');
            let Some(last) = letters.chars().next_back() else {
                return;
            };
            let before = letters.get(..letters.len() - last.len_utf8()).unwrap_or_default();
            reads_files |= name == "perl" && before.contains(['n', 'p']) || matches!(letters, "n" | "p");
            if found.code.contains(last) && before.chars().all(|c| found.flags.contains(c)) {
                has_code = true;
                self.executes(arguments.get(at), by());
                at += 1;
            } else if letters.chars().all(|c| found.flags.contains(c)) {
                // Options without an argument.
            } else if letters.starts_with(|c| found.with_argument.contains(c)) {
                // The argument of an option such as `-m` is a program of its own.
                if letters.len() == 1 {
                    at += 1;
                }
                if letters.starts_with('m') {
                    return;
                }
            } else {
                return;
            }
        }
        let operands = arguments.get(at..).unwrap_or_default();
        if has_code {
            if name == "perl" && reads_files {
                self.any(
                    operands,
                    "`perl -n` and `perl -p` execute the name of a file that ends with `|`",
                );
            }
            return;
        }
        let from_stdin = match operands.first() {
            None => true,
            Some(word) => word.plain().is_some_and(|file| file == "-" || is_stdin(&file)),
        };
        if from_stdin && found.reads {
            self.reads_program(name, first, source);
        } else if !from_stdin {
            self.executes(
                operands.first(),
                format!("`{name}` executes the file that it names"),
            );
        }
    }
}

fn without_dashes(arguments: &[Word]) -> &[Word] {
    match arguments.split_first() {
        Some((first, rest)) if first.plain().as_deref() == Some("--") => rest,
        _ => arguments,
    }
}

fn is_stdin(file: &str) -> bool {
    matches!(file, "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}
