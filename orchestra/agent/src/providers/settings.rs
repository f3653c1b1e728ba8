use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

/// The API of a provider.
///
/// ```
/// use orchestra_agent::ProviderKind;
/// assert_eq!("openai-compatible".parse(), Ok(ProviderKind::OpenAiCompatible));
/// assert_eq!(ProviderKind::of_model("claude-sonnet-4-5"), Some(ProviderKind::Anthropic));
/// assert_eq!(ProviderKind::of_model("my-own-model"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ProviderKind {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions and Responses APIs.
    OpenAi,
    /// Google's Gemini API.
    Gemini,
    /// OpenRouter, which forwards requests to many providers.
    OpenRouter,
    /// Local models, served by Ollama.
    Ollama,
    /// Any other server with a Chat Completions API; it needs an `api_base`.
    OpenAiCompatible,
}

impl ProviderKind {
    /// All kinds.
    pub const ALL: [ProviderKind; 6] = [
        ProviderKind::Anthropic,
        ProviderKind::OpenAi,
        ProviderKind::Gemini,
        ProviderKind::OpenRouter,
        ProviderKind::Ollama,
        ProviderKind::OpenAiCompatible,
    ];

    /// Returns the name of the kind in configurations.
    pub const fn word(self) -> &'static str {
        match self {
            ProviderKind::Anthropic => "anthropic",
            ProviderKind::OpenAi => "openai",
            ProviderKind::Gemini => "gemini",
            ProviderKind::OpenRouter => "openrouter",
            ProviderKind::Ollama => "ollama",
            ProviderKind::OpenAiCompatible => "openai-compatible",
        }
    }

    /// Returns the default base URL, or `None` if the configuration must set one.
    pub const fn default_base(self) -> Option<&'static str> {
        match self {
            ProviderKind::Anthropic => Some("https://api.anthropic.com"),
            ProviderKind::OpenAi => Some("https://api.openai.com/v1"),
            ProviderKind::Gemini => Some("https://generativelanguage.googleapis.com/v1beta"),
            ProviderKind::OpenRouter => Some("https://openrouter.ai/api/v1"),
            ProviderKind::Ollama => Some("http://127.0.0.1:11434/v1"),
            ProviderKind::OpenAiCompatible => None,
        }
    }

    /// Returns the environment variable that contains the key by default, or `None` if no key is needed.
    pub const fn default_key_variable(self) -> Option<&'static str> {
        match self {
            ProviderKind::Anthropic => Some("ANTHROPIC_API_KEY"),
            ProviderKind::OpenAi => Some("OPENAI_API_KEY"),
            ProviderKind::Gemini => Some("GEMINI_API_KEY"),
            ProviderKind::OpenRouter => Some("OPENROUTER_API_KEY"),
            ProviderKind::Ollama | ProviderKind::OpenAiCompatible => None,
        }
    }

    /// Returns the kind of provider that has a model, derived from the model's name; see
    /// [`orchestra_config::ProviderKind::of_model`].
    pub fn of_model(model: &str) -> Option<ProviderKind> {
        orchestra_config::ProviderKind::of_model(model).map(ProviderKind::from)
    }
}

impl From<orchestra_config::ProviderKind> for ProviderKind {
    fn from(kind: orchestra_config::ProviderKind) -> ProviderKind {
        use orchestra_config::ProviderKind as Kind;
        match kind {
            Kind::Anthropic => ProviderKind::Anthropic,
            Kind::OpenAi => ProviderKind::OpenAi,
            Kind::Gemini => ProviderKind::Gemini,
            Kind::OpenRouter => ProviderKind::OpenRouter,
            Kind::Ollama => ProviderKind::Ollama,
            Kind::OpenAiCompatible => ProviderKind::OpenAiCompatible,
        }
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for ProviderKind {
    type Err = String;

    fn from_str(word: &str) -> Result<ProviderKind, String> {
        let words = || ProviderKind::ALL.map(ProviderKind::word);
        if let Some(kind) = ProviderKind::ALL.into_iter().find(|kind| kind.word() == word) {
            return Ok(kind);
        }
        let near = orchestra_graph::did_you_mean(word, words());
        let hint = near.map_or_else(
            || format!("it is one of `{}`", words().join("`, `")),
            |near| format!("did you mean `{near}`?"),
        );
        Err(format!("unknown kind of provider `{word}`; {hint}"))
    }
}

/// The source of a provider's key. A configuration never contains a key itself.
///
/// ```
/// use orchestra_agent::KeySource;
/// let source = KeySource::Environment("TEAM_ANTHROPIC_KEY".into());
/// assert_eq!(source.to_string(), "the environment variable `TEAM_ANTHROPIC_KEY`");
/// assert_eq!(KeySource::Value("sk-secret".into()).to_string(), "a key that the program gave");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KeySource {
    /// An environment variable, by name.
    Environment(String),
    /// A file that contains only the key. Surrounding white space is ignored.
    File(PathBuf),
    /// A key that the program provides.
    Value(SecretString),
    /// The provider needs no key.
    None,
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::Environment(name) => write!(f, "the environment variable `{name}`"),
            KeySource::File(path) => write!(f, "the file `{}`", path.display()),
            KeySource::Value(_) => f.write_str("a key that the program gave"),
            KeySource::None => f.write_str("no key"),
        }
    }
}

impl KeySource {
    /// Reads the key. Returns `Ok(None)` if no key is needed. The error describes the problem and its fix.
    pub(super) fn read(&self) -> Result<Option<SecretString>, String> {
        let text = match self {
            KeySource::None => return Ok(None),
            KeySource::Value(key) => key.expose_secret().to_owned(),
            KeySource::Environment(name) => match std::env::var(name) {
                Ok(text) if text.trim().is_empty() => {
                    return Err(format!(
                        "the environment variable `{name}` is empty: set it to the key"
                    ));
                }
                Ok(text) => text,
                Err(std::env::VarError::NotPresent) => {
                    return Err(format!("set the environment variable `{name}` to the key"));
                }
                Err(std::env::VarError::NotUnicode(_)) => {
                    return Err(format!("the environment variable `{name}` is not UTF-8"));
                }
            },
            KeySource::File(path) => {
                let shown = path.display();
                read_file(path).map_err(|error| format!("the key file `{shown}` cannot be read: {error}"))?
            }
        };
        let key = text.trim();
        if key.is_empty() {
            return Err(format!("{self} holds no key"));
        }
        // Other bytes are invalid in a header, and unlikely in a key.
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "{self} holds more than a key: white space or letters that are not ASCII"
            ));
        }
        Ok(Some(SecretString::from(key)))
    }
}

/// Reads a key file, up to the maximum length of a key.
fn read_file(path: &std::path::Path) -> std::io::Result<String> {
    const LONGEST: u64 = 16 * 1024;
    let mut text = String::new();
    orchestra_engine::Disk::open(path)?
        .take(LONGEST)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// The settings of a provider.
///
/// ```
/// use std::time::Duration;
/// use orchestra_agent::{KeySource, ProviderKind, ProviderSettings};
/// let mut settings = ProviderSettings::new("house", ProviderKind::OpenAiCompatible);
/// settings.api_base = Some("https://models.example.org/v1".into());
/// settings.key = KeySource::Environment("HOUSE_MODELS_KEY".into());
/// settings.timeout = Duration::from_secs(120);
/// assert!(settings.headers.is_empty());
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ProviderSettings {
    /// The name by which requests refer to the provider.
    pub name: String,
    /// The API of the provider.
    pub kind: ProviderKind,
    /// The base URL; if `None`, the default of the kind. Anthropic's ends before `/v1`, the others end with their
    /// version.
    pub api_base: Option<String>,
    /// The source of the key. It is read when it is first needed.
    pub key: KeySource,
    /// The maximum number of output tokens for requests that set none. If `None`, the provider decides, except for
    /// Anthropic, which requires a limit: there it is [`DEFAULT_MAX_OUTPUT_TOKENS`](crate::DEFAULT_MAX_OUTPUT_TOKENS).
    pub max_output_tokens: Option<u32>,
    /// Maximum duration of a call.
    pub timeout: Duration,
    /// Maximum time without receiving a byte. An answer that is not streamed arrives only when it is complete, so this
    /// also limits the time that a model takes to produce it.
    pub idle_timeout: Duration,
    /// Additional headers, which override those of the kind. Their values are not shown anywhere.
    pub headers: BTreeMap<String, String>,
}

impl ProviderSettings {
    /// Creates the default settings of a kind: its base URL, its key variable, 15 minutes per call, 5 minutes without a
    /// byte.
    pub fn new(name: impl Into<String>, kind: ProviderKind) -> ProviderSettings {
        let key = kind.default_key_variable();
        ProviderSettings {
            name: name.into(),
            kind,
            api_base: None,
            key: key.map_or(KeySource::None, |name| KeySource::Environment(name.to_owned())),
            max_output_tokens: None,
            timeout: Duration::from_secs(15 * 60),
            idle_timeout: Duration::from_secs(5 * 60),
            headers: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for ProviderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSettings")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("api_base", &self.api_base)
            .field("key", &self.key)
            .field("max_output_tokens", &self.max_output_tokens)
            .field("timeout", &self.timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .finish()
    }
}
