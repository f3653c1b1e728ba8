//! Lists, pipelines and commands.

use super::lexer::{Cursor, MAX_DEPTH, Parsed, Unsure};
use super::syntax::{Assignment, Command, Pipeline, Redirect, Script, Simple, Text};

/// Words that end a list where a command could begin.
const CLOSING: &[&str] = &["then", "else", "elif", "fi", "do", "done", "esac", "}"];

/// Parses a command.
pub(super) fn parse(text: &Text, depth: usize) -> Parsed<Script> {
    let mut cursor = Cursor::new(text, depth)?;
    let script = cursor.script(&[])?;
    if cursor.at < text.text.len() {
        return Err(Unsure);
    }
    Ok(script)
}

impl Cursor<'_> {
    /// Parses a list to the end of the text, to a closing parenthesis, or to one of these words.
    pub(super) fn script(&mut self, until: &[&str]) -> Parsed<Script> {
        let mut script = Script::default();
        let mut certain = true;
        loop {
            self.skip_lines()?;
            let ends = self.rest().starts_with(')') || self.rest().starts_with(";;");
            if self.rest().is_empty() || ends || until.iter().any(|word| self.is_word(word)) {
                return Ok(script);
            }
            if CLOSING.iter().any(|word| self.is_word(word)) {
                return Err(Unsure);
            }
            let mut pipeline = Pipeline {
                certain,
                commands: Vec::new(),
            };
            loop {
                self.skip_lines()?;
                while self.is_word("!") || self.is_word("time") && !self.rest().starts_with("time -") {
                    self.eat("!");
                    self.eat("time");
                    self.skip_blanks();
                }
                pipeline.commands.push(self.command()?);
                self.skip_blanks();
                let is_or = self.rest().starts_with("||");
                if is_or || !(self.eat("|&") || self.eat("|")) {
                    break;
                }
            }
            certain = true;
            if self.eat("&&") || self.eat("||") {
                certain = false;
            } else if self.rest().starts_with(";;") {
                // The end of a `case` branch.
            } else if self.eat("&") {
                pipeline.certain = false;
            } else if !self.eat(";") && !self.rest().is_empty() && !self.rest().starts_with(['\n', ')']) {
                return Err(Unsure);
            }
            script.pipelines.push(pipeline);
        }
    }

    /// Skips blanks and line breaks, with the here-documents after them.
    fn skip_lines(&mut self) -> Parsed<()> {
        loop {
            self.skip_blanks();
            if !self.eat("\n") {
                return Ok(());
            }
            for (delimiter, tabs) in std::mem::take(&mut self.heredocs) {
                loop {
                    let rest = self.rest();
                    if rest.is_empty() {
                        return Err(Unsure);
                    }
                    let line = rest.split('\n').next().unwrap_or_default();
                    self.at += (line.len() + 1).min(rest.len());
                    let line = if tabs { line.trim_start_matches('\t') } else { line };
                    if line == delimiter {
                        break;
                    }
                }
            }
        }
    }

    /// Returns whether a word comes next.
    fn is_word(&self, word: &str) -> bool {
        self.rest().strip_prefix(word).is_some_and(|rest| {
            rest.chars()
                .next()
                .is_none_or(|next| next.is_whitespace() || ";&|()<>".contains(next))
        })
    }

    fn eat_word(&mut self, word: &str) -> Parsed<()> {
        self.skip_lines()?;
        if !self.is_word(word) {
            return Err(Unsure);
        }
        self.at += word.len();
        Ok(())
    }

    fn command(&mut self) -> Parsed<Command> {
        if self.depth > MAX_DEPTH {
            return Err(Unsure);
        }
        self.depth += 1;
        let command = self.command_inside();
        self.depth -= 1;
        command
    }

    fn command_inside(&mut self) -> Parsed<Command> {
        if self.rest().starts_with("((") {
            let parts = self.arithmetic("((", "))")?;
            self.redirects()?;
            return Ok(Command::Arithmetic(parts));
        }
        let command = if self.eat("(") {
            let script = self.script(&[])?;
            if !self.eat(")") {
                return Err(Unsure);
            }
            Command::Group(vec![script])
        } else if self.is_word("{") {
            self.at += 1;
            let script = self.script(&["}"])?;
            self.eat_word("}")?;
            Command::Group(vec![script])
        } else if self.is_word("if") {
            self.conditional()?
        } else if self.is_word("while") || self.is_word("until") {
            self.at += 5;
            let condition = self.script(&["do"])?;
            self.eat_word("do")?;
            let body = self.script(&["done"])?;
            self.eat_word("done")?;
            Command::Group(vec![condition, body])
        } else if self.is_word("for") {
            self.loop_over_words()?
        } else if self.is_word("case") {
            self.case()?
        } else if self.is_word("[[") {
            self.test()?
        } else if self.is_word("function") || self.is_word("select") || self.is_word("coproc") {
            return Err(Unsure);
        } else {
            return self.simple();
        };
        self.redirects()?;
        Ok(command)
    }

    fn conditional(&mut self) -> Parsed<Command> {
        self.at += "if".len();
        let mut lists = vec![self.script(&["then"])?];
        self.eat_word("then")?;
        loop {
            lists.push(self.script(&["elif", "else", "fi"])?);
            self.skip_lines()?;
            if self.is_word("elif") {
                self.at += "elif".len();
                lists.push(self.script(&["then"])?);
                self.eat_word("then")?;
            } else if self.is_word("else") {
                self.at += "else".len();
            } else {
                self.eat_word("fi")?;
                return Ok(Command::Group(lists));
            }
        }
    }

    fn loop_over_words(&mut self) -> Parsed<Command> {
        self.at += "for".len();
        self.skip_blanks();
        let name = self.name().to_owned();
        if name.is_empty() {
            return Err(Unsure);
        }
        self.skip_lines()?;
        let mut words = Vec::new();
        if self.is_word("in") {
            self.at += "in".len();
            loop {
                self.skip_blanks();
                match self.word()? {
                    Some(word) => words.push(word),
                    None => break,
                }
            }
        }
        self.skip_blanks();
        self.eat(";");
        self.eat_word("do")?;
        let body = self.script(&["done"])?;
        self.eat_word("done")?;
        Ok(Command::For { name, words, body })
    }

    fn case(&mut self) -> Parsed<Command> {
        self.at += "case".len();
        self.skip_blanks();
        let subject = self.word()?.ok_or(Unsure)?;
        self.eat_word("in")?;
        let (mut patterns, mut bodies) = (Vec::new(), Vec::new());
        loop {
            self.skip_lines()?;
            if self.is_word("esac") {
                self.at += "esac".len();
                return Ok(Command::Case {
                    subject,
                    patterns,
                    bodies,
                });
            }
            self.eat("(");
            loop {
                self.skip_blanks();
                patterns.push(self.word()?.ok_or(Unsure)?);
                self.skip_blanks();
                if !self.eat("|") {
                    break;
                }
            }
            if !self.eat(")") {
                return Err(Unsure);
            }
            bodies.push(self.script(&["esac"])?);
            self.skip_lines()?;
            if !(self.is_word("esac") || self.eat(";;&") || self.eat(";;")) {
                return Err(Unsure);
            }
        }
    }

    fn test(&mut self) -> Parsed<Command> {
        self.at += "[[".len();
        let mut words = Vec::new();
        loop {
            self.skip_lines()?;
            if self.is_word("]]") {
                self.at += "]]".len();
                return Ok(Command::Test(words));
            }
            match self.word()? {
                Some(word) => words.push(word),
                None => {
                    self.next().ok_or(Unsure)?;
                }
            }
        }
    }

    fn simple(&mut self) -> Parsed<Command> {
        let mut simple = Simple::default();
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            if simple.words.is_empty()
                && let Some(assignment) = self.assignment()?
            {
                simple.assignments.push(assignment);
                continue;
            }
            match self.word()? {
                Some(word) => simple.words.push(word),
                None => break,
            }
            if simple.words.len() == 1 && self.rest().trim_start_matches([' ', '\t']).starts_with("()") {
                self.skip_blanks();
                self.at += "()".len();
                self.skip_lines()?;
                return match self.command()? {
                    Command::Group(lists) => {
                        let pipelines = lists.into_iter().flat_map(|list| list.pipelines).collect();
                        Ok(Command::Function(Script { pipelines }))
                    }
                    _ => Err(Unsure),
                };
            }
        }
        let is_empty = simple.words.is_empty() && simple.assignments.is_empty();
        if is_empty && simple.redirects.is_empty() || self.rest().starts_with('(') {
            return Err(Unsure);
        }
        Ok(Command::Simple(simple))
    }

    /// Parses `NAME=word`.
    fn assignment(&mut self) -> Parsed<Option<Assignment>> {
        let begin = self.at;
        let name = self.name().to_owned();
        if name.is_empty() || !(self.eat("+=") || self.eat("=")) {
            // An assignment to an element of an array is arithmetic too.
            let is_element = !name.is_empty() && self.rest().starts_with('[');
            self.at = begin;
            return if is_element { Err(Unsure) } else { Ok(None) };
        }
        if self.rest().starts_with('(') {
            return Err(Unsure);
        }
        let value = self.word()?.unwrap_or_default();
        Ok(Some(Assignment { name, value }))
    }

    fn redirects(&mut self) -> Parsed<()> {
        loop {
            self.skip_blanks();
            if self.redirect()?.is_none() {
                return Ok(());
            }
        }
    }

    fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let after = rest.get(digits..).unwrap_or_default();
        let operators = [
            "<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|", "&>>", "&>", "<", ">",
        ];
        let operator = operators.into_iter().find(|operator| after.starts_with(operator));
        let is_substitution = after.starts_with("<(") || after.starts_with(">(");
        let Some(operator) = operator.filter(|_| !is_substitution) else {
            return Ok(None);
        };
        if operator.starts_with('&') && digits > 0 {
            return Ok(None);
        }
        self.at += digits + operator.len();
        self.skip_blanks();
        let target = self.word()?.ok_or(Unsure)?;
        if matches!(operator, "<<" | "<<-") {
            let delimiter = target.plain().ok_or(Unsure)?;
            self.heredocs.push((delimiter, operator == "<<-"));
        }
        Ok(Some(Redirect {
            operator: rest.get(..digits + operator.len()).unwrap_or_default().to_owned(),
            target,
        }))
    }
}
