//! The settings of backends in `orchestra.yaml`.

use crate::decode::{section, words};
use crate::located::{Located, Names};
use crate::program_command::ProgramCommand;
use crate::timespan::Timespan;

words! {
    /// How a backend does a model stage.
    ///
    /// ```
    /// use orchestra_config::BackendKind;
    /// assert!(BackendKind::Agent.has_tools() && !BackendKind::Direct.has_tools());
    /// ```
    pub enum BackendKind {
        /// One call of a model, without tools.
        Direct = "direct",
        /// A model with tools, until it is done.
        Agent = "agent",
        /// A program that is an agent itself.
        Cli = "cli",
        /// A program that is an agent itself and speaks the Agent Client Protocol.
        Acp = "acp",
        /// No model at all; the stage succeeds.
        Simulation = "simulation",
    }
}

impl BackendKind {
    /// Returns whether the backend lets a model use the tools of the configuration.
    pub const fn has_tools(self) -> bool {
        matches!(self, BackendKind::Agent | BackendKind::Simulation)
    }

    /// Returns whether the backend is a program that has its own loop of model and tool calls.
    pub const fn is_program(self) -> bool {
        matches!(self, BackendKind::Cli | BackendKind::Acp)
    }

    /// Returns whether the backend calls a model of a provider.
    pub const fn needs_model(self) -> bool {
        matches!(self, BackendKind::Direct | BackendKind::Agent)
    }
}

words! {
    /// How a program gets its prompt.
    ///
    /// ```
    /// assert_eq!(orchestra_config::PromptInput::Stdin.word(), "stdin");
    /// ```
    pub enum PromptInput {
        /// By its standard input.
        Stdin = "stdin",
        /// In a file, whose path is in `ORCHESTRA_PROMPT_FILE`.
        File = "file",
    }
}

words! {
    /// What a program writes.
    ///
    /// ```
    /// assert_eq!(orchestra_config::OutputFormat::from_name("json"), Some(orchestra_config::OutputFormat::Json));
    /// ```
    pub enum OutputFormat {
        /// The answer itself.
        Text = "text",
        /// One JSON document that holds the answer.
        Json = "json",
        /// An event in each line, one of which holds the answer.
        JsonLines = "json-lines",
    }
}

words! {
    /// A coding agent that Orchestra knows how to start, to read and to resume.
    ///
    /// ```
    /// use orchestra_config::Preset;
    /// assert_eq!(Preset::from_name("claude"), Some(Preset::Claude));
    /// assert_eq!(Preset::OpenCode.program(), "opencode");
    /// ```
    pub enum Preset {
        /// Codex of OpenAI.
        Codex = "codex",
        /// Claude Code of Anthropic.
        Claude = "claude",
        /// Gemini CLI of Google.
        Gemini = "gemini",
        /// opencode.
        OpenCode = "opencode",
        /// pi.
        Pi = "pi",
    }
}

impl Preset {
    /// Returns the name of the program.
    pub const fn program(self) -> &'static str {
        self.word()
    }

    /// Returns the package of npm that contains the program.
    pub const fn package(self) -> &'static str {
        match self {
            Preset::Codex => "@openai/codex",
            Preset::Claude => "@anthropic-ai/claude-code",
            Preset::Gemini => "@google/gemini-cli",
            Preset::OpenCode => "opencode-ai",
            Preset::Pi => "@mariozechner/pi-coding-agent",
        }
    }

    /// Returns whether the agent chooses a hosted model by itself if none is named, so that a stage must name one.
    pub const fn needs_model(self) -> bool {
        matches!(self, Preset::OpenCode)
    }

    /// Returns whether `access: read` keeps the agent from changing any file of its folder. opencode may still write
    /// plans there.
    pub const fn can_be_read_only(self) -> bool {
        !matches!(self, Preset::OpenCode)
    }
}

words! {
    /// What a coding agent may do with the files of its folder.
    ///
    /// ```
    /// assert_eq!(orchestra_config::Access::WORDS, ["write", "read"]);
    /// ```
    pub enum Access {
        /// It reads and changes files, and runs commands.
        Write = "write",
        /// It reads files.
        Read = "read",
    }
}

words! {
    /// Whose settings a coding agent loads.
    ///
    /// ```
    /// assert_eq!(orchestra_config::AgentSettings::WORDS, ["none", "user"]);
    /// ```
    pub enum AgentSettings {
        /// As few as the agent allows, so that a run does not depend on the settings of a user.
        None = "none",
        /// Those of the user and of the project.
        User = "user",
    }
}

words! {
    /// Who decides on what a coding agent asks permission for.
    ///
    /// ```
    /// assert_eq!(orchestra_config::Permissions::WORDS, ["ask", "allow", "deny"]);
    /// ```
    pub enum Permissions {
        /// A person, whose answer the stage waits for.
        Ask = "ask",
        /// Everything is allowed.
        Allow = "allow",
        /// Everything is denied.
        Deny = "deny",
    }
}

section! {
    /// A backend with settings of its own.
    ///
    /// ```
    /// use orchestra_config::{BackendKind, Configuration};
    /// let text = b"backends:\n  coder: {kind: cli, command: my-agent --print, output: json, result_pointer: /result}\n";
    /// let (configuration, report) = Configuration::parse("orchestra.yaml", text);
    /// assert!(!report.has_errors());
    /// assert_eq!(configuration.backend_kind("coder"), Some(BackendKind::Cli));
    /// ```
    pub struct Backend {
        /// What it is; by default what its name says.
        pub kind: Option<Located<BackendKind>>,
        /// `agent`: how often the model may be asked in one stage.
        pub max_turns: Option<Located<u64>>,
        /// `agent`: how many tools may work at a time.
        pub max_parallel_tools: Option<Located<u64>>,
        /// `cli`: a coding agent that is known by this name, instead of a `command`.
        pub preset: Option<Located<Preset>>,
        /// With `preset`: what it may do with files; `write` if nothing is said.
        pub access: Option<Located<Access>>,
        /// With `preset`: whose settings it loads; `none` if nothing is said.
        pub settings: Option<Located<AgentSettings>>,
        /// `cli`: the shell command. The model is in `ORCHESTRA_MODEL`. `acp`: the list of the program and its arguments.
        pub command: Option<Located<ProgramCommand>>,
        /// `acp`: who decides on what the agent asks permission for; `ask` if nothing is said.
        pub permissions: Option<Located<Permissions>>,
        /// `cli`: how the prompt comes to it.
        pub input: Option<Located<PromptInput>>,
        /// `cli`: what it writes.
        pub output: Option<Located<OutputFormat>>,
        /// `output: json-lines`: the fields of the event that ends the work and holds the answer, such as
        /// `{type: result}`.
        pub r#final: Names<serde_json::Value>,
        /// `cli`: the JSON pointer to the answer.
        pub result_pointer: Option<Located<String>>,
        /// `output: json-lines`: the JSON pointer to the id of the session, in any event. A later stage that continues
        /// the session gets it in `ORCHESTRA_SESSION_ID`.
        pub session_pointer: Option<Located<String>>,
        /// `cli`: the JSON pointer to the number of tokens that were sent.
        pub input_tokens_pointer: Option<Located<String>>,
        /// `cli`: the JSON pointer to the number of tokens that were answered.
        pub output_tokens_pointer: Option<Located<String>>,
        /// `cli`: the JSON pointer to what the call cost, in US dollars.
        pub cost_pointer: Option<Located<String>>,
        /// `cli`, `acp`: how long it may take.
        pub timeout: Option<Located<Timespan>>,
        /// `cli`, `acp`: names of environment variables that it may see besides the usual ones.
        pub environment: Vec<Located<String>>,
    }
}

impl Backend {
    /// Returns the JSON pointers of the backend, with their names in the configuration.
    pub(crate) fn pointers(&self) -> impl Iterator<Item = (&'static str, &Located<String>)> {
        let all = [
            ("result_pointer", &self.result_pointer),
            ("session_pointer", &self.session_pointer),
            ("input_tokens_pointer", &self.input_tokens_pointer),
            ("output_tokens_pointer", &self.output_tokens_pointer),
            ("cost_pointer", &self.cost_pointer),
        ];
        all.into_iter()
            .filter_map(|(name, pointer)| pointer.as_ref().map(|pointer| (name, pointer)))
    }

    /// Returns whether a later stage can continue the work of an earlier one in the same session.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let text = b"backends: {a: {preset: codex}, b: {kind: cli, command: my-agent}}";
    /// let (configuration, _) = Configuration::parse("orchestra.yaml", text);
    /// let has_sessions = |name: &str| {
    ///     let kind = configuration.backend_kind(name).expect("a kind");
    ///     configuration.backends[name].has_sessions(kind)
    /// };
    /// assert!(has_sessions("a") && !has_sessions("b"));
    /// ```
    pub fn has_sessions(&self, kind: BackendKind) -> bool {
        self.preset.is_some() || self.session_pointer.is_some() || kind == BackendKind::Acp
    }

    /// Returns what a coding agent may do with files.
    pub fn file_access(&self) -> Access {
        self.access.as_ref().map_or(Access::Write, |access| access.value)
    }

    /// Returns who decides on what the agent asks permission for. Returns `None` if it asks for none.
    pub fn asked_permissions(&self, kind: BackendKind) -> Option<Permissions> {
        let said = self.permissions.as_ref().map(|permissions| permissions.value);
        (kind == BackendKind::Acp).then(|| said.unwrap_or(Permissions::Ask))
    }

    /// Returns whose settings a coding agent loads.
    pub fn settings_source(&self) -> AgentSettings {
        self.settings
            .as_ref()
            .map_or(AgentSettings::None, |settings| settings.value)
    }

    /// Returns whether a program of this backend cannot change files.
    pub(crate) fn is_read_only(&self) -> bool {
        self.file_access() == Access::Read
            && self
                .preset
                .as_ref()
                .is_some_and(|preset| preset.value.can_be_read_only())
    }
}
