//! Random texts as values of commands that the checker accepts, under the shells of this machine: nothing of them runs
//! (rule T7).
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use orchestra_graph::{LoadOptions, Source, load};

/// The file that the texts try to create.
const CANARY: &str = "canary";

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("orchestra-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// Returns whether the canary was created, and removes it.
    fn had_canary(&self) -> bool {
        std::fs::remove_file(self.0.join(CANARY)).is_ok()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap_or_default();
    }
}

fn shells() -> Vec<&'static str> {
    let mut shells = vec!["sh", "dash", "bash"];
    shells.retain(|shell| {
        ["/bin", "/usr/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(shell).exists())
    });
    shells
}

/// Runs a command as the engine does, with a value in the variable `X`. Returns its output.
fn run(shell: &str, command: &str, value: &str, folder: &Folder) -> Vec<u8> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let output = Command::new(shell)
        .args(["-c", "--", command])
        .current_dir(&folder.0)
        .env_clear()
        .env("PATH", path)
        .env("X", value)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    output.stdout
}

/// Returns the codes that the checker reports for a command with a value in `X`.
fn codes(command: &str) -> Vec<&'static str> {
    let command = command.replace('\\', "\\\\").replace('"', "\\\"");
    let text = format!(
        "digraph t {{ start -> a -> exit; a [shape=parallelogram, tool_env_from.X=x, tool_command=\"{command}\"] }}"
    );
    let report = load(Source::new("t.dot", text.as_str()), &LoadOptions::default()).report;
    let codes: Vec<&str> = report.diagnostics.iter().map(|found| found.code).collect();
    let expected = ["shell_injection", "unquoted_value"];
    assert!(
        codes.iter().all(|code| expected.contains(code)),
        "{text}: {codes:?}"
    );
    codes
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % below
    }

    fn pick<'t>(&mut self, among: &[&'t str]) -> &'t str {
        among[self.next(among.len())]
    }
}

/// The pieces of values. Each way to run a command tries to create the canary.
const PIECES: &[&str] = &[
    "$(touch canary)",
    "`touch canary`",
    ";touch canary;",
    "&& touch canary ",
    "|touch canary",
    "\ntouch canary\n",
    "touch canary",
    "a[$(touch canary)]",
    "-v a[$(touch${IFS}canary)]",
    "-va[$(touch canary)]",
    "-e1e touch canary",
    " -exec touch canary ;",
    ">canary ",
    "<(touch canary)",
    "%s",
    "%n",
    "$X",
    "${X}",
    "$(",
    ")",
    "'",
    "\"",
    "\\",
    "`",
    "*",
    "?",
    "[a]",
    "-n",
    "--",
    "-e",
    "-",
    " ",
    "\t",
    "\n",
    "\r",
    "\u{1}",
    "\u{7f}",
    "\u{1b}[0m",
    "ä",
    "x",
    "1",
    "=",
    "#",
    "~",
    "{a,b}",
    "!",
    "&",
    ";",
    "EOF\n",
    "\nEOF\n",
    "}",
    "EXIT",
];

fn value(random: &mut Random) -> String {
    let length = random.next(8);
    (0..=length).map(|_| random.pick(PIECES)).collect()
}

/// The ways to write the value. `'$X'` is left out: a program that a command passes on as text is outside of the check.
const WORDS: &[&str] = &[
    "\"$X\"",
    "\"${X}\"",
    "\"$X\"",
    "$X",
    "\"a$X b\"",
    "\"${X:-d}\"",
    "\"${#X}\"",
    "\"${X%a}\"",
    "\"${X%%[!a-z]*}\"",
    "\"$((${#X} + 1))\"",
    "\"$(printf '%s' \"$X\")\"",
    "\"`printf '%s' \"$X\"`\"",
    "\"${Y:-$X}\"",
    "fixed",
];

/// Commands in which `@` is the value and `SHELL` a shell. Many of them execute the value, and must be refused.
const COMMANDS: &[&str] = &[
    "printf '%s' @",
    "printf @",
    "echo @",
    "true @ && echo @",
    "! true @ || echo @",
    ": @; ( echo @ ); { echo @; }",
    "Y=@; printf '%s' \"$Y\"",
    "Y=@; eval \"$Y\"",
    "Y=@; SHELL -c \"echo $Y\"",
    "Y=@; export Y; SHELL -c 'printf %s \"$Y\"'",
    "SHELL -c 'printf %s \"$1\"' sh @",
    "SHELL -c 'eval \"$1\"' sh @",
    "SHELL -c '$1' sh @",
    "SHELL -c '\"$@\"' sh @",
    "SHELL -c 'for a; do printf %s \"$a\"; done' sh @ @",
    "SHELL -c 'printf %s \"$X\"'",
    "SHELL -c 'eval \"echo $X\"'",
    "SHELL -c @",
    "SHELL -c 'echo '@",
    "SHELL -c \"echo \"@",
    "eval @",
    "eval echo @",
    "eval 'printf %s \"$X\"'",
    "eval \"printf %s \\\"\\$X\\\"\"",
    "case @ in a) echo b;; *) printf '%s' @;; esac",
    "case a in @) echo b;; *) echo @;; esac",
    "for w in @; do printf '%s' \"$w\"; done",
    "for w in @; do $w; done",
    "if [ @ = b ]; then true; else printf '%s' @; fi",
    "test -n @ && echo @",
    "[ @ ]",
    "printf @ @",
    "read -r -p @ l < /dev/null",
    "find . -name @",
    "sed -n p -- @ < /dev/null",
    "timeout @ true",
    "printf '%s' @ | cat",
    "printf '%s' @ | SHELL",
    "echo @ | SHELL -s",
    "printf '%s' @ | SHELL -c 'cat'",
    "printf '%s' @ | while read -r l; do printf '%s' \"$l\"; done",
    "printf '%s' @ | xargs -I% SHELL -c 'echo %'",
    "cat <<EOF\n$X @\nEOF\n",
    "cat <<'EOF'\n$X @\nEOF\n",
    "env Z=@ printf '%s' @",
    "env @",
    "env SHELL -c @",
    "nice timeout 5 printf '%s' @",
    "nice timeout 5 SHELL -c @",
    "command echo @",
    "command @",
    "exec printf '%s' @",
    "trap 'echo \"$X\"' EXIT",
    "trap @ EXIT",
    "awk -v x=@ 'BEGIN { print x }'",
    "awk \"BEGIN { print 1 }\"@",
    "awk 'BEGIN { exit }' @",
    "sed -n p @ < /dev/null",
    "echo b | sed s/b/@/",
    "find . -maxdepth 0 -exec printf '%s' @ \\;",
    "find . -maxdepth 0 -exec SHELL -c @ \\;",
    "set -- @; printf '%s' \"$@\"",
    "f() { printf '%s' \"$1\"; }; f @",
    "f() { eval @; }; f",
    "export Z=@; printf '%s' \"$Z\"",
    "export @",
    "unset @",
    "read -r @ < /dev/null",
    "readonly @",
    "echo $((@))",
    "echo $((X + 1))",
    "[[ @ == b ]]",
    "[[ @ -eq 1 ]]",
    "(( X ))",
    "let n=@",
    "echo \"${A[$X]}\"",
    "echo \"${Y:X}\"",
    "echo \"${!X}\"",
    "echo \"${X@P}\"",
    "test -v @",
    "printf -v @ a",
    "declare @",
    "declare -i n=@",
    "declare -i n; n=@",
    "mapfile -C @ -c 1 lines < /dev/null",
    "compgen -W @",
    ". @",
    "SHELL @",
    "@",
    "a=$(@)",
    "echo \"$(eval @)\"",
    "alias a=@\na",
    "PS4=@; set -x; true",
    "BASH_ENV=@ bash -c true",
    "cat <<< @",
    "SHELL <<< @",
    "cat <(echo @)",
    "cat <(eval @)",
    "printf '%s' $(echo @)",
    "while eval @; do break; done",
    "git -c alias.a=@ --version",
    "echo @ # $(eval \"$X\")",
    "perl -e @",
    "perl -e 'print 1' @",
    "perl -ne 'print' @",
    "python3 -c @",
    "python3 -c 'import sys' @",
];

fn command(random: &mut Random) -> String {
    let fill = |text: &str, random: &mut Random| {
        let mut filled = String::new();
        for piece in text.split_inclusive('@') {
            match piece.strip_suffix('@') {
                // `"$@"` is not a place for the value.
                Some(start) if start.ends_with('$') || start.ends_with("${X") => filled.push_str(piece),
                Some(start) => {
                    filled.push_str(start);
                    filled.push_str(random.pick(WORDS));
                }
                None => filled.push_str(piece),
            }
        }
        filled.replace("SHELL", random.pick(&["sh", "bash", "dash"]))
    };
    let first = fill(random.pick(COMMANDS), random);
    match random.next(4) {
        0 => format!("{first}\n{}", fill(random.pick(COMMANDS), random)),
        _ => first,
    }
}

#[test]
fn no_part_of_a_value_runs_in_a_command_that_is_accepted() {
    let number = |name: &str, default: u64| {
        let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
        given.unwrap_or(default)
    };
    let cases = number("INJECTION_CASES", 400);
    let mut random = Random(number("INJECTION_SEED", 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let folder = Folder::new("injections");
    let shells = shells();
    assert!(!shells.is_empty());
    assert_eq!(codes("printf '%s' \"$X\""), [""; 0]);
    let (mut ran, mut refused) = (0, 0);
    while ran < cases {
        let value = value(&mut random);
        let command = command(&mut random);
        if codes(&command).contains(&"shell_injection") {
            refused += 1;
            continue;
        }
        ran += 1;
        for shell in &shells {
            run(shell, &command, &value, &folder);
            assert!(
                !folder.had_canary(),
                "{shell} -c {command:?} ran a part of {value:?}"
            );
        }
        let shell = shells[random.next(shells.len())];
        let output = run(shell, "printf '%s' \"$X\"", &value, &folder);
        assert_eq!(String::from_utf8_lossy(&output), value, "{shell}");
    }
    assert!(
        refused > cases / 4,
        "{refused} of {} commands were refused",
        refused + ran
    );
}

/// Each command is refused, and runs a part of the value under at least one shell.
#[test]
fn what_is_refused_does_run() {
    let folder = Folder::new("refused");
    let touch = "touch canary";
    let index = "a[$(touch canary)]";
    for (command, value) in [
        ("eval \"$X\"", touch),
        ("eval $X", touch),
        ("eval \"$(printf '%s' \"$X\")\"", touch),
        ("eval \"${Y:-$X}\"", touch),
        ("$X", touch),
        ("\"$X\"", "./program"),
        ("./\"$X\"", "program"),
        (". \"$X\"", "./program"),
        ("trap \"$X\" EXIT", touch),
        ("trap 'eval \"$X\"' EXIT", touch),
        ("alias a=\"$X\"\na", touch),
        ("exec $X", touch),
        ("command $X", touch),
        ("nice timeout 5 $X", touch),
        ("sh -c \"$X\"", touch),
        ("sh -c \"echo '$X'\"", "'; touch canary; '"),
        ("sh -ec 'echo '\"$X\"", "a; touch canary"),
        ("sh -c 'eval \"$1\"' sh \"$X\"", touch),
        ("sh -c '\"$@\"' sh \"$X\"", "./program"),
        ("sh -c 'eval \"$X\"'", touch),
        ("sh -c \"sh -c 'eval \\\"\\$X\\\"'\"", touch),
        ("sh \"$X\"", "program"),
        ("env A=1 sh -c \"$X\"", touch),
        ("env PATH=\"$X:$PATH\" program", "."),
        ("PATH=\"$X:$PATH\"; program", "."),
        ("BASH_ENV=\"$X\" bash -c true", "./program"),
        ("find . -maxdepth 0 -exec sh -c \"$X\" \\;", touch),
        ("printf '%s' \"$X\" | sh", touch),
        ("echo \"$X\" | tee /dev/null | bash -s", touch),
        ("bash <<< \"$X\"", touch),
        (
            "printf '%s' \"$X\" | xargs -I{} sh -c 'echo {}'",
            "$(touch canary)",
        ),
        ("Y=$X; eval \"$Y\"", touch),
        ("export \"$X\"; program", "PATH=."),
        ("declare \"$X=1\"", index),
        ("read -r \"$X\" <<< a", index),
        ("unset \"$X\"", "PATH[$(touch canary)]"),
        ("printf -v \"$X\" a", index),
        ("echo \"${!X}\"", index),
        ("echo \"${X@P}\"", "$(touch canary)"),
        ("echo $((X + 1))", index),
        ("echo \"$(($X))\"", index),
        ("(( X > 1 ))", index),
        ("let \"n = $X\"", index),
        ("[[ $X -eq 1 ]]", index),
        ("echo \"${A[$X]}\"", index),
        ("A=abc; echo \"${A:X}\"", index),
        ("test -v \"$X\"", index),
        ("declare -i n=\"$X\"", index),
        ("declare -i n; n=\"$X\"", index),
        ("compgen -W \"$X\"", "$(touch canary)"),
        ("mapfile -C \"$X\" -c 1 lines <<< a", "touch canary #"),
        ("sh -c \"${X%.txt}\"", touch),
        ("env A=$X true", "a touch canary"),
        ("timeout -k $X 5 true", "1 5 touch canary"),
        ("find . -name $X", "tests -o -exec touch canary ;"),
        ("[ $X = a ]", "-v a[$(touch${IFS}canary)] -o a"),
        ("test -n $X", "a -a -v a[$(touch${IFS}canary)]"),
        ("printf $X", "-v a[$(touch${IFS}canary)] a"),
        ("printf \"$X\" a", "-va[$(touch canary)]"),
        ("read -p $X <<< a", "prompt a[$(touch${IFS}canary)]"),
        ("echo a | sed -e p \"$X\"", "-e1e touch canary"),
        ("sed -n p \"$X\" /etc/passwd", "-e1e touch canary"),
        ("awk \"BEGIN { $X }\"", "system(\"touch canary\")"),
        ("echo a | sed \"s/a/$X/\"", "touch canary/e;#"),
        ("perl -e \"$X\"", "system('touch canary')"),
        ("perl -ne 'print' \"$X\"", "touch canary|"),
        ("diff <(eval \"$X\") /dev/null", touch),
        ("f() { eval \"$X\"; }; f", touch),
    ] {
        assert!(codes(command).contains(&"shell_injection"), "{command}");
        let path = folder.0.join("program");
        std::fs::write(&path, "#!/bin/sh\n: > canary\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let runs = shells().into_iter().any(|shell| {
            run(shell, command, value, &folder);
            folder.had_canary()
        });
        // Not every machine has these programs.
        let needs =
            |part: &str, test: &str| command.contains(part) && run("sh", test, "", &folder).is_empty();
        let lacks_program = needs("perl", "perl -e 'print 1'") || needs("sed", "sed --version | grep GNU");
        let lacks_bash = value.contains("a[")
            || ["bash", "<(", "<<<", "${X@P}", "compgen"]
                .iter()
                .any(|part| command.contains(part));
        let is_excused = lacks_program || lacks_bash && !shells().contains(&"bash");
        assert!(runs || is_excused, "{command} with {value:?}");
    }
}
