//! The settings of providers.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use orchestra_config::ProviderKind;
use secrecy::{ExposeSecret, SecretString};

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
    const MAX_BYTES: u64 = 16 * 1024;
    let mut text = String::new();
    orchestra_engine::Disk::open(path)?
        .take(MAX_BYTES)
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
        let key = kind.api_key_env();
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
