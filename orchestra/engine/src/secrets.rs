//! Detection of environment variables that hold secrets, by their names and the forms of their values.

use std::ffi::OsStr;
use std::path::Path;

use orchestra_graph::table::Constant;
use orchestra_graph::{Known, Pipeline};

/// Endings of the names of variables that hold secrets.
const ENDINGS: [&str; 13] = [
    "KEY",
    "KEYS",
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
];
/// Last words of such names. They are matched as whole words, because other words end in the same letters.
const LAST_WORDS: [&str; 5] = ["PAT", "AUTH", "PASS", "PWD", "COOKIE"];
/// Words that indicate a secret anywhere in a name.
const WORDS: [&str; 5] = ["PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN"];
/// Last words of names that describe a secret but do not hold it.
const ABOUT: [&str; 17] = [
    "DIR", "ENDPOINT", "EXPIRES", "EXPIRY", "FILE", "FOLDER", "HOST", "ID", "LENGTH", "NAME", "PATH", "PORT",
    "TTL", "TYPE", "URI", "URL", "VERSION",
];
/// Fields of connection strings that hold secrets.
const FIELDS: [&str; 7] = [
    "accountkey",
    "passwd",
    "password",
    "pwd",
    "secret",
    "sharedaccesskey",
    "token",
];
/// Variables that hold the keys of model providers, regardless of the configuration.
const PROVIDERS: [&str; 14] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "AZURE_OPENAI_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "COHERE_API_KEY",
    "DEEPSEEK_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
];
/// Minimum length in bytes of a secret that is not listed.
const SHORTEST: usize = 8;
/// Length in bytes from which a value does not count as a word.
const LONG: usize = 16;
/// Minimum length in bytes of a listed secret. Shorter values would be found in unrelated texts.
const SHORTEST_NAMED: usize = 4;

/// The secrets of an environment, detected by the names of its variables and the forms of their values.
///
/// The name of a variable indicates a secret if it ends in `KEY`, `TOKEN`, `SECRET`, `PASSWORD`, `PASSWD`, `PASSPHRASE`
/// or `CREDENTIALS`, if its last word is `PAT`, `AUTH`, `PASS`, `PWD` or `COOKIE`, or if one of its words is
/// `PASSWORD`, `SECRET` or `TOKEN`. Values of fewer than 8 bytes, paths, and short values made of words such as
/// `production` and `us-east-1` are not secrets. In any variable, the password in a URL
/// (`postgres://me:PASSWORD@host/db`) and in a connection string (`Server=host;Password=..`) is a secret.
///
/// If a variable with such a name is listed as secret, any value of at least 4 bytes that is not a path is a secret.
/// The value of a listed variable with another name must have at least 8 bytes and not be made of short words.
///
/// ```
/// use orchestra_engine::EnvironmentSecrets;
/// let variables = [
///     ("GITHUB_PAT", "ghp_0123456789"),
///     ("DATABASE_URL", "postgres://me:pa55-w0rd@localhost/db"),
///     ("SORT_KEY", "created_at"),
///     ("PIN_TOKEN", "4711"),
/// ];
/// let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
/// let secrets = EnvironmentSecrets::find(variables, &["PIN_TOKEN"]);
/// assert_eq!(secrets.values, ["ghp_0123456789", "pa55-w0rd", "4711"]);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvironmentSecrets {
    /// The secret values.
    pub values: Vec<String>,
    /// The listed variables whose values are too short to be distinguished from other texts.
    pub too_short: Vec<String>,
}

impl EnvironmentSecrets {
    /// Finds the secrets of these variables. `listed` are the variables that a user has listed as secrets.
    pub fn find(
        variables: impl IntoIterator<Item = (String, String)>,
        listed: &[impl AsRef<str>],
    ) -> EnvironmentSecrets {
        let mut secrets = EnvironmentSecrets::default();
        for (name, value) in variables {
            secrets.values.extend(parts(&value));
            let trimmed = value.trim();
            let is_listed = listed.iter().any(|listed| listed.as_ref() == name);
            let kind = Kind::from_name(&name);
            if trimmed.is_empty() || is_path(trimmed) || kind.is_none() && !is_listed {
                continue;
            }
            let counts = match kind {
                Some(_) if is_listed => trimmed.len() >= SHORTEST_NAMED,
                Some(kind) => is_secret(kind, trimmed),
                None => is_secret(Kind::Key, trimmed) && !has_parts(trimmed),
            };
            if counts {
                secrets.values.push(trimmed.to_owned());
            } else if is_listed && kind.is_some() {
                secrets.too_short.push(name);
            }
        }
        secrets
    }
}

/// Returns the variables that a pipeline and its child pipelines list in `tool_env`. Lists of nodes or graphs that
/// start with an empty environment are not included, because they also let through variables without secrets.
///
/// ```
/// use orchestra_engine::listed_variables;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { tool_env=GITHUB_PAT; start -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!(listed_variables(&pipeline), ["GITHUB_PAT"]);
/// ```
pub fn listed_variables(pipeline: &Pipeline) -> Vec<&str> {
    let mut listed = Vec::new();
    for pipeline in pipeline.family() {
        let nodes = pipeline.nodes.iter().map(|node| node.attributes);
        for rows in std::iter::once(pipeline.graph_attributes).chain(nodes) {
            let value = |known: Known| pipeline.attribute_in(rows, known.name());
            let empty = matches!(value(Known::ToolEnvInherit), Some(Constant::Boolean(false)));
            if let (Some(Constant::String(names)), false) = (value(Known::ToolEnv), empty) {
                listed.extend(names.split(',').map(str::trim).filter(|name| !name.is_empty()));
            }
        }
    }
    listed.sort_unstable();
    listed.dedup();
    listed
}

impl std::fmt::Debug for EnvironmentSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnvironmentSecrets")
            .field("values", &self.values.len())
            .field("too_short", &self.too_short)
            .finish()
    }
}

/// Returns whether the commands of tool stages only see a variable if they list it, because of its name and the form of
/// its value. This includes short values, which are not redacted because they occur in other texts.
pub(crate) fn withholds(name: &str, value: &str) -> bool {
    if PROVIDERS.contains(&name) {
        return true;
    }
    let value = value.trim();
    if value.is_empty() || is_path(value) {
        return false;
    }
    match Kind::from_name(name) {
        // Keys are also used for sorting and caching.
        Some(Kind::Key) if name.to_ascii_uppercase().ends_with("KEY") => !is_words(value),
        Some(_) => !is_word(value),
        None => !is_proxy(OsStr::new(name)) && has_parts(value),
    }
}

/// Returns whether a variable names a proxy. Commands need it, although its URL may hold a password.
pub(crate) fn is_proxy(name: &OsStr) -> bool {
    name.to_string_lossy().to_ascii_lowercase().ends_with("_proxy")
}

/// Returns whether a key is only a placeholder, as programs use if a key is required but not needed.
///
/// ```
/// use orchestra_engine::is_placeholder_key;
/// assert!(is_placeholder_key("ollama") && is_placeholder_key("x"));
/// assert!(!is_placeholder_key("sk-4711"));
/// ```
pub fn is_placeholder_key(key: &str) -> bool {
    key.len() < SHORTEST_NAMED || is_word(key)
}

/// The content of a variable, according to its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A value that a person may have chosen.
    Password,
    /// A value that a program generated.
    Key,
}

impl Kind {
    fn from_name(name: &str) -> Option<Kind> {
        let name = name.to_ascii_uppercase();
        let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '_');
        let words: Vec<&str> = name
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .collect();
        let last = words.last().copied().unwrap_or_default();
        let alone = words.len() == 1;
        let ends = ENDINGS.iter().any(|ending| name.ends_with(ending));
        // `PWD` alone is the working directory, and `AUTH` is a switch.
        let ends = ends || LAST_WORDS.contains(&last) && !(alone && last != "PAT");
        let within = words.iter().any(|word| WORDS.contains(word)) && !ABOUT.contains(&last);
        let chosen = ["PASS", "PWD", "SECRET"].iter().any(|word| name.contains(word));
        (ends || within).then_some(if chosen { Kind::Password } else { Kind::Key })
    }
}

fn is_secret(kind: Kind, value: &str) -> bool {
    let ordinary = match kind {
        Kind::Password => is_word(value),
        Kind::Key => is_words(value),
    };
    value.len() >= SHORTEST && !ordinary && !is_path(value)
}

/// Returns whether a value is one short word whose letters have the same case.
fn is_word(value: &str) -> bool {
    let rest = value.get(1..).unwrap_or_default();
    let letters = value.bytes().all(|byte| byte.is_ascii_alphabetic());
    let lower = rest.bytes().all(|byte| byte.is_ascii_lowercase());
    let upper = value.bytes().all(|byte| byte.is_ascii_uppercase());
    value.len() < LONG && letters && (lower || upper)
}

/// Returns whether a short value consists of words and small numbers: `us-east-1`, `created_at`, `utf8`.
fn is_words(value: &str) -> bool {
    let parts = value.split(|letter: char| "-_./:, ".contains(letter));
    let ordinary = |part: &str| {
        let number = part.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
        let word = part.strip_suffix(number).unwrap_or_default();
        let most = if word.is_empty() { 4 } else { 2 };
        number.len() <= most
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && (word.is_empty() || is_word(word))
    };
    value.len() < LONG && parts.into_iter().all(ordinary)
}

/// Returns whether a value is the path of a file. A name without a folder is not a path: otherwise, whoever can create
/// a file could make a secret look like a path.
fn is_path(value: &str) -> bool {
    let relative = ["./", "../", "~/", "file:", ".\\", "..\\"];
    relative.iter().any(|begin| value.starts_with(begin))
        || Path::new(value).is_absolute() && Path::new(value).exists()
}

fn has_parts(value: &str) -> bool {
    !parts(value).is_empty()
}

/// Returns the passwords within a value: those of URLs, and fields of connection strings.
fn parts(value: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = value;
    while let Some((_, after)) = rest.split_once("://") {
        let end = after.find(|letter: char| "/?# \t\n\"',;".contains(letter));
        let authority = after.get(..end.unwrap_or(after.len())).unwrap_or_default();
        rest = after;
        let Some((user, _)) = authority.rsplit_once('@') else {
            continue;
        };
        match user.split_once(':') {
            Some((_, password)) if is_secret(Kind::Password, password) => parts.push(password.to_owned()),
            None if user.len() >= LONG => parts.push(user.to_owned()),
            _ => {}
        }
    }
    let fields = value.split([';', '&', ' ', '\n', '?']);
    for (name, field) in fields.filter_map(|field| field.split_once('=')) {
        let name = name.trim().to_ascii_lowercase().replace([' ', '_'], "");
        let field = field.trim().trim_matches(['"', '\'']);
        if FIELDS.contains(&name.as_str()) && is_secret(Kind::Password, field) {
            parts.push(field.to_owned());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, value: &str) -> Vec<String> {
        EnvironmentSecrets::find([(name.to_owned(), value.to_owned())], &[""; 0]).values
    }

    #[test]
    fn names_tell_secrets_and_words_and_paths_are_none() {
        for (name, value) in [
            ("GITHUB_PAT", "ghp_01ab"),
            ("PGPASSWORD", "hunter22"),
            ("MYSQL_PWD", "Tr0ub4dor&3"),
            ("DB_PASS", "x9-plus-y"),
            ("GITHUB_TOKEN_2", "ghs_abc123def"),
            ("SECRET_KEY_BASE", "0f9e8d7c6b5a"),
            ("NPM_AUTH", "bm9kZTp4eHg="),
            ("AWS_SECRET_ACCESS_KEY", "/abcDEF123+abcDEF123/x"),
            ("MY_KEY", "customer-orders-by-date"),
            ("APP_PASSWORD", "correct horse battery"),
        ] {
            assert_eq!(found(name, value), [value], "{name}");
        }
        for (name, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("PWD", "/home/someone-123456"),
            ("SORT_KEY", "created_at"),
            ("AWS_REGION_KEY", "us-east-1"),
            ("POSTGRES_PASSWORD", "postgres"),
            ("ACCESS_TOKEN", "true"),
            ("SECRET", "production"),
            ("SSH_KEY", "/etc"),
            ("SSH_KEY", "~/.ssh/id_ed25519_of_mine"),
            ("TOKEN_URL", "https://example.com/oauth/token"),
            ("KEYBOARD", "de-latin1-nodeadkeys"),
            ("SSH_AUTH_SOCK", "agent.4711.x.y.z.1234"),
            ("TOKEN_FILE", "tokens-of-2026-by-me.txt"),
            ("PATCH", "0123456789abcdef"),
        ] {
            assert_eq!(found(name, value), [""; 0], "{name}");
        }
    }

    #[test]
    fn passwords_stand_within_urls_and_connection_strings() {
        for (value, password) in [
            ("postgres://me:pa55-w0rd@localhost/db", "pa55-w0rd"),
            ("http://u:p%40ss-12345@proxy:3128", "p%40ss-12345"),
            (
                "https://ghp_0123456789abcdef@github.com/x/y",
                "ghp_0123456789abcdef",
            ),
            ("Server=db;User Id=sa;Password=pa55-w0rd;", "pa55-w0rd"),
            ("AccountName=x;AccountKey=abcDEF123456==;X=y", "abcDEF123456=="),
            ("host=db user=me password=pa55-w0rd", "pa55-w0rd"),
        ] {
            assert_eq!(found("ANY", value), [password], "{value}");
        }
        for value in [
            "https://example.com/a@b",
            "postgres://postgres:postgres@db/x",
            "a://b",
            "x=y",
        ] {
            assert_eq!(found("ANY", value), [""; 0], "{value}");
        }
    }

    #[test]
    fn a_file_named_like_a_secret_changes_nothing() {
        assert!(Path::new("Cargo.toml").exists() && !is_path("Cargo.toml"));
        assert!(is_path("/") && is_path("./not-there"));
    }

    #[test]
    fn what_is_listed_counts_unless_it_is_too_short() {
        let variables = [
            ("A_PIN_KEY", "4711"),
            ("B_KEY", "abc"),
            ("MINE", "x9-47114711"),
            ("LANG", "en_US.UTF-8"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = EnvironmentSecrets::find(variables, &["A_PIN_KEY", "B_KEY", "MINE", "LANG"]);
        assert_eq!(secrets.values, ["4711", "x9-47114711"]);
        assert_eq!(secrets.too_short, ["B_KEY"]);
        assert!(!format!("{secrets:?}").contains("4711"));
    }

    #[test]
    fn tools_do_not_see_variables_of_such_names() {
        for (name, value) in [
            ("GOOGLE_API_KEY", "x"),
            ("GITHUB_TOKEN", "ab1"),
            ("DATABASE_URL", "db://u:pa55-w0rd@h"),
        ] {
            assert!(withholds(name, value), "{name}");
        }
        for (name, value) in [
            ("HTTPS_PROXY", "http://u:pa55-w0rd@proxy"),
            ("SSH_KEY", "~/.ssh/id"),
            ("SORT_KEY", "created_at"),
            ("API_TOKEN", ""),
        ] {
            assert!(!withholds(name, value), "{name}");
        }
    }
}
