//! Commands with what the scanner finds in them.

use super::{Problem, scan};

/// Returns the findings of a command whose variables `X` and `PLAN` are given: `!` executed, `=` evaluated, `~` split.
fn found(command: &str, stdin: bool) -> Vec<String> {
    let findings = scan(command, &["X", "PLAN"], stdin).into_iter();
    findings
        .map(|finding| {
            let mark = match finding.problem {
                Problem::Executed(_) => '!',
                Problem::Evaluated(_) => '=',
                Problem::Unquoted => '~',
            };
            format!("{mark}{}", &command[finding.range])
        })
        .collect()
}

#[track_caller]
fn all(stdin: bool, cases: &[(&str, &[&str])]) {
    for (command, expected) in cases {
        assert_eq!(found(command, stdin), *expected, "{command}");
    }
}

#[test]
fn arguments_files_and_texts_are_passed() {
    for command in [
        "printf '%s' \"$X\"",
        "printf '%s\\n' \"${X}\" \"a$X.b\" > out.txt",
        "git commit -m \"$X\"",
        "Y=$X",
        "Y=$X; printf '%s' \"$Y\"",
        "Y=\"$X\" make",
        "make TITLE=\"$X\"",
        "echo '$X' \\$X \"\\$X\"",
        "echo $Y \"$Y\" $((Y + 1)); eval \"$Y\"; sh -c \"$Y\"",
        "case $X in a|\"$X\") echo \"$X\";; *) true;; esac",
        "[[ $X == $Y && -n $X ]]",
        "[ \"$X\" = yes ] && test -n \"$X\"",
        "if [ -n \"$X\" ]; then echo \"$X\"; elif true; then :; else echo no; fi",
        "while read -r line; do echo \"$line\"; done < list; echo \"$X\"",
        "for word in $X; do echo \"$word\"; done",
        "for word in $X; do echo $word; done; $word",
        "for word in a b\ndo\n  echo \"$word $X\"\ndone",
        "echo \"$X\" | sort | uniq > out",
        "printf '%s' \"$X\" | python script.py",
        "printf '%s' \"$X\" | sh script.sh",
        "printf '%s' \"$X\" | sh -c 'cat > out'",
        "printf '%s' \"$X\" | (cd a && cat > out)",
        "echo $((1 + 2)) \"${#X}\" $((${#X} + 1))",
        "cat <<EOF\n$X $(eval \"$X\") ' \"\nEOF\necho done",
        "cat <<-'END'\n\t$X\n\tEND\n",
        "sh -c 'printf %s \"$1\"' sh \"$X\"",
        "sh -c 'printf %s \"$X\"'",
        "bash -ec 'case $1 in a) echo \"$1\";; esac' -- \"$X\"",
        "eval 'echo \"$X\"'",
        "eval \"echo \\\"\\$X\\\"\"",
        "trap 'echo \"$X\"' EXIT; trap - EXIT",
        "python -c 'import os; print(os.environ[\"X\"])'",
        "python -c 'import sys; print(sys.argv)' \"$X\"",
        "python3 -m http.server \"$X\"",
        "perl -e 'print $ENV{X}' \"$X\"",
        "node -e 'console.log(process.env.X)' -- \"$X\"",
        "awk -v x=\"$X\" '{ print x }' file",
        "awk -F\"$X\" '{ print $1 }' file",
        "awk '{ print }' \"$X\"",
        "sed -n p \"$X\"",
        "sed -n 's/a/b/p' -- \"$X\"; sed -n p \"./$X\"",
        "sed -e 's/a/b/' -- \"$X\"",
        "find . -name \"$X\" -exec grep -l x {} \\;",
        "find . -exec sh -c 'echo \"$1\"' sh {} \\;",
        "ssh host uptime; ssh -p 22 host 'echo $X'",
        "xargs -n1 echo \"$X\" < list",
        "env A=\"$X\" make; sudo -u ci make \"$X\"",
        "timeout 5 sh -c 'echo \"$X\"'",
        "command -v \"$X\"",
        "X=safe; eval \"$X\"; $X",
        "read -r X < file; eval \"$X\"",
        "unset X; eval \"$X\"",
        "for X in a b; do $X; done",
        "if true; then Y=$X; else Y=ls; fi; $Y",
        "PLAN=$(printf '%s' \"$PLAN\" | tr -cd a-z); eval \"$PLAN\"",
        "eval \"${X@Q}\"; eval \"echo $(printf %q \"$X\")\"",
        "eval \"${X%%[!a-z]*} ${X//[!a-z]/}\"",
        "sh -c \"${X:+yes}\"",
        "run() { \"$@\"; eval \"$1\"; }; run echo \"$X\"",
        "f() { X=safe; }; f; eval \"$X\"",
        "f() { (( X = 1 )); }; f; eval \"$X\"",
        "f() { true $((A == 1 && X++)); }; f; eval \"$X\"",
        "export Y=$X; export \"Y=$X\"; readonly Z=\"$X\"",
        "export X; local Y=$X",
        "echo a#$Y # $X \"",
        "echo \"${Y:-\"$X\"}\"",
        "IFS=; echo $X",
        "set -f; echo $X",
        "cat < $X > $X",
        "[ \"$X\" -eq 1 ]; exit \"$X\"; kill \"$X\"",
        "docker run image \"$X\"",
        "echo \"$X\" >&2 2>/dev/null &",
        "! grep -q \"$X\" file || { echo \"$X\"; exit 1; }",
        "cat \"$X\" | sh",
        "sort -k \"$X\" list | sh",
        "echo fixed \"$(cat \"$X\")\" | grep x",
    ] {
        assert_eq!(found(command, false), [""; 0], "{command}");
    }
}

#[test]
fn what_is_executed_is_found() {
    all(
        false,
        &[
            ("eval \"$X\"", &["!$X"]),
            ("eval $X", &["!$X"]),
            ("eval -- \"echo ${X}\"", &["!${X}"]),
            ("cd a && eval \"echo\" \"$X\"", &["!$X"]),
            ("eval 'eval \"$X\"'", &["!$X"]),
            ("eval \"eval \\\"\\$X\\\"\"", &["!$X"]),
            ("eval \"$(printf '%s' \"$X\")\"", &["!$X"]),
            ("eval \"`echo $X`\"", &["!$X"]),
            ("eval \"${Y:-$X}\"", &["!$X"]),
            ("eval \"${X:-true}\"", &["!${X:-true}"]),
            ("$X", &["!$X"]),
            ("\"$X\" --flag", &["!$X"]),
            ("\"./scripts/$X.sh\"", &["!$X"]),
            ("A=1 $X", &["!$X"]),
            ("true; if \"$X\"; then true; fi", &["!$X"]),
            ("a=$($X)", &["!$X"]),
            ("echo \"$(eval \"$X\")\" `$X`", &["!$X", "!$X"]),
            (". \"$X\"", &["!$X"]),
            ("source -- $X", &["!$X"]),
            ("trap \"$X\" EXIT", &["!$X"]),
            ("trap 'eval $X' EXIT", &["!$X"]),
            ("alias ll=\"$X\"", &["!$X"]),
            ("alias ll='$X'; alias l='ls \"$X\"'", &["!$X"]),
            ("exec \"$X\"", &["!$X"]),
            ("exec -a name \"$X\"", &["!$X"]),
            ("command $X", &["!$X"]),
            ("nohup nice -n 5 \"$X\" &", &["!$X"]),
            ("sh -c \"$X\"", &["!$X"]),
            ("sh -c \"echo $X\"", &["!$X"]),
            ("sh -c \"echo '$X'\"", &["!$X"]),
            ("sh -c 'echo '\"$X\"", &["!$X"]),
            ("/bin/bash -euc \"echo $X\" name", &["!$X"]),
            ("bash --norc -c \"$X\"", &["!$X"]),
            ("bash -o pipefail -c \"$X\"", &["!$X"]),
            ("dash -c -- \"$X\"", &["!$X"]),
            ("zsh -c \"$X\"", &["!$X"]),
            ("sh -c 'eval \"$1\"' sh \"$X\"", &["!$1"]),
            ("sh -c '\"$@\"' sh \"$X\"", &["!$@"]),
            ("sh -c 'eval \"$X\"'", &["!$X"]),
            ("sh -c 'sh -c \"echo $X\"'", &["!$X"]),
            ("sh -c \"sh -c 'eval \\\"\\$X\\\"'\"", &["!$X"]),
            ("sh \"$X\"", &["!$X"]),
            ("env sh -c \"$X\"", &["!$X"]),
            ("env -i A=1 sh -c \"$X\"", &["!$X"]),
            ("env PATH=\"$X\" make", &["!$X"]),
            ("sudo -u root sh -c \"$X\"", &["!$X"]),
            ("sudo FOO=1 env BAR=2 timeout -s KILL 5 sh -c \"$X\"", &["!$X"]),
            ("xargs -n 1 sh -c \"echo $X\"", &["!$X"]),
            ("find . -exec sh -c \"echo $X\" \\;", &["!$X"]),
            ("find . -name a -execdir \"$X\" {} +", &["!$X"]),
            ("su -c \"$X\" user", &["!$X"]),
            ("watch -n 5 \"ls $X\"", &["!$X"]),
            ("ssh host \"ls $X\"", &["!$X"]),
            ("ssh -p 22 -v host ls \"$X\"", &["!$X"]),
            ("python -c \"print('$X')\"", &["!$X"]),
            ("python3.12 -Bc \"$X\"", &["!$X"]),
            ("python3 \"$X\"", &["!$X"]),
            ("perl -e \"$X\"", &["!$X"]),
            ("perl -lne \"print '$X'\" file", &["!$X"]),
            ("perl -ne 'print' \"$X\"", &["!$X"]),
            ("ruby -e \"$X\"", &["!$X"]),
            ("node -e \"$X\"", &["!$X"]),
            ("node --eval \"$X\"", &["!$X"]),
            ("php -r \"$X\"", &["!$X"]),
            ("awk \"/$X/ { print }\" file", &["!$X"]),
            ("awk -F: \"{ print $X }\"", &["!$X"]),
            ("sed \"s/@/$X/\" file", &["!$X"]),
            ("sed -n -e p -e \"s/@/$X/\" file", &["!$X"]),
            ("printf '%s' \"$X\" | sh", &["!$X"]),
            ("printf '%s\\n' \"$X\" | sudo bash -s -- arg", &["!$X"]),
            ("echo $X | bash", &["!$X"]),
            ("echo \"$X\" | tee log | sh -x", &["!$X"]),
            ("echo \"$X\" | python3 -", &["!$X"]),
            ("echo \"$X\" | perl", &["!$X"]),
            ("bash <<< \"$X\"", &["!$X"]),
            ("cat <<< \"$X\" | sh", &["!$X"]),
            ("printf '%s' \"$X\" | xargs -I{} sh -c 'echo {}'", &["!$X"]),
            ("printf '%s' \"$X\" | . /dev/stdin", &["!$X"]),
            ("Y=$X; eval \"$Y\"", &["!$Y"]),
            ("Y=\"a $X\"\nZ=$Y\nsh -c \"$Z\"", &["!$Z"]),
            ("PATH=\"$X:$PATH\" make", &["!$X"]),
            ("export BASH_ENV=\"$X\"", &["!$X"]),
            ("GIT_SSH_COMMAND=$X git fetch", &["!$X"]),
            ("export \"$X\"", &["!$X"]),
            ("declare \"$X=1\"", &["!$X"]),
            ("unset \"$X\"", &["!$X"]),
            ("read -r \"$X\" < file", &["!$X"]),
            ("printf -v \"$X\" a", &["!$X"]),
            ("mapfile -C \"$X\" -c 1 lines < file", &["!$X"]),
            ("compgen -W \"$X\"", &["!$X"]),
            ("env A=$X make", &["!$X"]),
            ("timeout -k $X 5 make", &["!$X"]),
            ("find . -name $X", &["!$X"]),
            ("test -n $X", &["!$X"]),
            ("[ $X = a ]", &["!$X"]),
            ("printf $X", &["!$X"]),
            ("printf \"$X\" a", &["!$X"]),
            ("read -p $X line", &["!$X"]),
            ("sed -e p \"$X\"", &["!$X"]),
            ("sed -n p \"$X\" file", &["!$X"]),
            ("sh -c \"${X%.txt}\"; eval \"${X^^}\"", &["!${X%.txt}", "!${X^^}"]),
            ("echo \"${!X}\" \"${X@P}\"", &["!${!X}", "!${X@P}"]),
            ("f() { eval \"$X\"; }; f", &["!$X"]),
            ("f() { eval \"$X\"; }; f\n(( X ))", &["!$X", "=X"]),
            ("f() { eval \"$X\"; }; f\necho \"${Y:X}\"", &["!$X", "=X"]),
            (
                "f() { eval \"$X\"; }; [[ X -eq 1 || A == b ]]; f; echo $((X <= 1))",
                &["!$X", "=X"],
            ),
            ("f() { eval \"$X\"; }; f; echo \"${#X}\"", &["!$X"]),
            ("for a in b; do true; done; f() { eval \"$X\"; }; f", &["!$X"]),
            ("f() { eval \"$X\"; }; PLAN=a; f; eval \"$PLAN\"", &["!$X"]),
            ("( cd a; eval \"$X\" ) > log", &["!$X"]),
            ("case a in a) eval \"$X\" ;; esac", &["!$X"]),
            ("for f in *; do eval \"$X\"; done", &["!$X"]),
            ("for f in \"$X\" a; do $f; done", &["!$f"]),
            ("for f in $X; do sh -c \"$f\"; done", &["!$f"]),
            ("while true; do sh -c \"$X\"; done", &["!$X"]),
            ("cat <<EOF\ntext\nEOF\neval \"$X\"", &["!$X"]),
            ("eval \"$PLAN\"; eval \"$X\"", &["!$PLAN", "!$X"]),
            ("diff <(eval \"$X\") file", &["!$X"]),
            ("eval \\\n  \"$X\"", &["!$X"]),
        ],
    );
}

#[test]
fn arithmetic_evaluates_values() {
    all(
        false,
        &[
            ("echo $((X + 1))", &["=X"]),
            ("echo $(('$X'))", &["=$X"]),
            ("echo $((\\$X))", &[]),
            ("echo \"$(($X + 1))\"", &["=$X"]),
            ("(( X > 1 ))", &["=X"]),
            ("let \"n = $X\"", &["=$X"]),
            ("[[ $X -eq 1 ]]", &["=$X"]),
            ("[[ 1 -lt \"$X\" ]]", &["=$X"]),
            ("echo \"${A[$X]}\"", &["=$X"]),
            ("echo \"${A:X}\" \"${A:1:$X}\"", &["=X", "=$X"]),
            ("test -v \"$X\"", &["=$X"]),
            ("declare -i n=\"$X\"; n=$X", &["=$X", "=$X"]),
            ("echo $((0xX + 16#X + Y))", &[]),
        ],
    );
}

#[test]
fn unquoted_values_are_split() {
    all(
        false,
        &[
            ("echo $X", &["~$X"]),
            ("rm -- ${X} \"$X\" a$X", &["~${X}", "~$X"]),
            ("git commit -m $X && echo \"$X\"", &["~$X"]),
            ("echo ${X:-a} ${Y:-$X}", &["~${X:-a}", "~$X"]),
            ("echo \"a\"$X'b'", &["~$X"]),
            ("Y=1 echo $X", &["~$X"]),
            ("sh -c 'echo $1' sh \"$X\"", &["~$1"]),
            ("sh -c 'echo $X'", &["~$X"]),
            ("echo $(echo $X)", &["~$X"]),
            ("zsh -c 'echo $X'", &[]),
        ],
    );
}

#[test]
fn the_standard_input_may_be_a_program() {
    all(
        true,
        &[
            ("sh", &["!sh"]),
            ("bash -s", &["!bash"]),
            ("/bin/sh -eu", &["!/bin/sh"]),
            ("python3 -", &["!python3"]),
            ("python", &["!python"]),
            ("node", &["!node"]),
            ("cd a && sudo bash", &["!bash"]),
            ("cat | sh", &["!sh"]),
            ("tee log | bash", &["!bash"]),
            ("eval \"$(cat)\"", &["!cat"]),
            ("sh -c \"$(cat -)\"", &["!cat"]),
            (". /dev/stdin", &["!."]),
            ("xargs -I% sh -c 'echo %'", &["!%"]),
            ("if true; then sh; fi", &["!sh"]),
            ("cat > out", &[]),
            ("sh script.sh", &[]),
            ("python script.py", &[]),
            ("sh < script.sh", &[]),
            ("sh <<EOF\ntrue\nEOF\n", &[]),
            ("cat > out; sh", &[]),
            ("sh -c 'cat > out'", &[]),
            ("read -r line; sh", &[]),
            ("ls | sh", &[]),
            ("jq . | grep x", &[]),
            ("echo \"$(cat)\"", &[]),
        ],
    );
    assert_eq!(found("sh", false), [""; 0]);
}

#[test]
fn what_cannot_be_parsed_is_left_out() {
    for command in [
        "eval \"$X",
        "eval '$X",
        "eval \"$(echo\" $X",
        "if eval \"$X\"; done",
        "case a in a eval \"$X\" ;; esac",
        "A=(1 2); eval \"$X\"",
        "select a in b; do eval \"$X\"; done",
        "eval \"$X\" )",
        "cat <<EOF\neval \"$X\"",
        "",
        "   # eval \"$X\"",
        "eval",
        "echo ${",
        "\\",
        "$(",
        "`",
    ] {
        assert_eq!(found(command, true), [""; 0], "{command}");
    }
    let deep = format!("{}eval \"$X\"{}", "$(".repeat(2_000), ")".repeat(2_000));
    assert_eq!(found(&deep, false), [""; 0]);
    let deep = format!("{}eval \"$X\"{}", "{ ".repeat(50_000), "; }".repeat(50_000));
    assert_eq!(found(&deep, false), [""; 0]);
    let deep = format!("echo {}", "${a:-".repeat(50_000));
    assert_eq!(found(&deep, false), [""; 0]);
}

#[test]
fn no_text_makes_the_scanner_panic() {
    use proptest::prelude::*;
    let piece = prop::sample::select(vec![
        "$X",
        "${X",
        "}",
        "\"",
        "'",
        "`",
        "$(",
        ")",
        "((",
        "))",
        "eval ",
        "sh -c ",
        "\\",
        "\n",
        ";",
        "|",
        "&",
        "<<EOF\n",
        "EOF\n",
        "<<<",
        "ä",
        " ",
        "-",
        "[[ ",
        " ]]",
        "case ",
        " in ",
        "esac",
        "if ",
        "then ",
        "fi",
        "for ",
        "do ",
        "done",
        "{ ",
        "f()",
        "#",
        "$",
        "${X:-",
        "${!X}",
        "A=",
        "xargs -I",
        "find . -exec ",
        "[",
        "]",
        "env ",
        "sed -",
        "printf -v ",
        "0",
        "*",
        "trap ",
        "'sh -c '",
    ]);
    let text = prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(5_000));
    let ran = runner.run(&text, |text| {
        for finding in scan(&text, &["X"], true) {
            prop_assert!(
                text.get(finding.range.clone())
                    .is_some_and(|text| !text.is_empty()),
                "{finding:?}"
            );
        }
        Ok(())
    });
    assert!(ran.is_ok(), "{ran:?}");
}
