//! The names that a configuration can refer to: tools, backends and providers.

use orchestra_graph::Span;

use crate::backend::BackendKind;
use crate::located::Names;
use crate::mcp::McpServer;
use crate::settings::{Configuration, ProviderKind};

/// The names of the built-in tools.
///
/// ```
/// assert!(orchestra_config::BUILT_IN_TOOLS.contains(&"read-file"));
/// ```
pub const BUILT_IN_TOOLS: &[&str] = &[
    "edit-file",
    "glob",
    "grep",
    "read-file",
    "search-code",
    "shell",
    "write-file",
];

/// The built-in tools that change nothing.
///
/// ```
/// assert!(!orchestra_config::READ_ONLY_TOOLS.contains(&"shell"));
/// ```
pub const READ_ONLY_TOOLS: &[&str] = &["glob", "grep", "read-file", "search-code"];

/// Returns the name of a tool as configurations write it, with `-` instead of the `_` that models and Rust use.
///
/// ```
/// assert_eq!(orchestra_config::tool_name("backend:run_tests"), "backend:run-tests");
/// ```
pub fn tool_name(name: &str) -> String {
    name.trim().replace('_', "-")
}

impl Configuration {
    /// Returns the kind of a backend: that of its entry in `backends`, else that of the built-in backend of this name.
    /// Returns `None` for other names.
    pub fn backend_kind(&self, name: &str) -> Option<BackendKind> {
        let defined = self.backends.get(name).and_then(|backend| backend.kind.as_ref());
        let built_in = || BackendKind::from_name(name).filter(|kind| !kind.is_program());
        match (defined, self.backends.contains_key(name)) {
            (Some(kind), _) => Some(kind.value),
            (None, true)
                if self
                    .backends
                    .get(name)
                    .is_some_and(|backend| backend.preset.is_some()) =>
            {
                Some(BackendKind::Cli)
            }
            (None, true) => BackendKind::from_name(name),
            (None, false) => built_in(),
        }
    }

    /// Returns the sorted names of all backends.
    pub fn backend_names(&self) -> Vec<&str> {
        let built_in = [BackendKind::Agent, BackendKind::Direct, BackendKind::Simulation];
        let defined = self.backends.keys().map(String::as_str);
        let mut names: Vec<&str> = defined.collect();
        names.extend(built_in.iter().map(|kind| kind.word()));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the kind of API that a provider speaks: its `kind`, else the kind that its name stands for. A provider
    /// with an `api_base` and neither of them is compatible with OpenAI. Returns `None` if neither the file nor
    /// Orchestra knows the name.
    pub fn provider_kind(&self, name: &str) -> Option<ProviderKind> {
        let by_name = ProviderKind::from_name(name);
        let Some(provider) = self.providers.named.get(name) else {
            return by_name.filter(|kind| *kind != ProviderKind::OpenAiCompatible);
        };
        let kind = provider.kind.as_ref().map(|kind| kind.value).or(by_name);
        kind.or(provider
            .api_base
            .is_some()
            .then_some(ProviderKind::OpenAiCompatible))
    }

    /// Returns the sorted names of all providers.
    pub fn provider_names(&self) -> Vec<&str> {
        let built_in = ProviderKind::WORDS.iter().copied();
        let built_in = built_in.filter(|word| self.provider_kind(word).is_some());
        let mut names: Vec<&str> = self
            .providers
            .named
            .keys()
            .map(String::as_str)
            .chain(built_in)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the sorted names of all tools: the built-in ones, those of the file, those of each repository as
    /// `REPOSITORY:TOOL`, and those of each MCP server as `SERVER:TOOL`.
    pub fn tool_names(&self) -> Vec<String> {
        let built_in = BUILT_IN_TOOLS.iter().map(|name| (*name).to_owned());
        let mut names: Vec<String> = built_in
            .chain(self.tools.keys().map(|name| tool_name(name)))
            .collect();
        for repository in self.workspace.repos.keys() {
            let own = self.workspace.tools.get(repository);
            let own = own.into_iter().flat_map(|tools| tools.keys().map(String::as_str));
            let tools = BUILT_IN_TOOLS.iter().copied().chain(own);
            names.extend(tools.map(|tool| tool_name(&format!("{repository}:{tool}"))));
        }
        for (server, settings) in &self.mcp_servers {
            let tools = settings.tools.iter();
            names.extend(tools.map(|tool| tool_name(&format!("{server}:{}", tool.value))));
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the MCP server and the name of the tool that a name such as `files:read-text-file` stands for, as the
    /// server writes it. Returns `None` for other names.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let text = b"mcp_servers: {files: {command: [files], tools: [read_text_file]}}";
    /// let (configuration, _) = Configuration::parse("orchestra.yaml", text);
    /// let found = configuration.mcp_tool("files:read-text-file").expect("it is configured");
    /// assert_eq!((found.0, found.2), ("files", "read_text_file"));
    /// assert!(configuration.mcp_tool("read-file").is_none());
    /// ```
    pub fn mcp_tool(&self, name: &str) -> Option<(&str, &McpServer, &str)> {
        let name = tool_name(name);
        let (wanted, tool) = name.split_once(':')?;
        let (server, settings) = self
            .mcp_servers
            .iter()
            .find(|(server, _)| tool_name(server) == wanted)?;
        let tool = settings.tools.iter().find(|known| tool_name(known) == tool)?;
        Some((server, &settings.value, tool))
    }

    /// Returns whether a tool is known to change nothing: a read-only built-in tool, a command with `read_only`, or a
    /// tool that an MCP server lists as `read_only`.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let text = b"tools: {count: {command: wc -l *, read_only: true}}\nworkspace: {repos: {api: {path: ../api}}}\n";
    /// let (configuration, _) = Configuration::parse("orchestra.yaml", text);
    /// assert!(configuration.tool_is_read_only("count") && configuration.tool_is_read_only("api:read_file"));
    /// assert!(!configuration.tool_is_read_only("api:shell") && !configuration.tool_is_read_only("deploy"));
    /// ```
    pub fn tool_is_read_only(&self, name: &str) -> bool {
        let name = tool_name(name);
        if let Some((_, server, tool)) = self.mcp_tool(&name) {
            return server.read_only.iter().any(|known| known.value == tool);
        }
        let (repository, tool) = match name.split_once(':') {
            Some((repository, tool)) => (Some(repository), tool),
            None => (None, name.as_str()),
        };
        if READ_ONLY_TOOLS.contains(&tool) {
            return true;
        }
        let named = |known: &str, wanted: &str| tool_name(known) == wanted;
        let tools = match repository {
            None => Some(&self.tools),
            Some(repository) => {
                let mut all = self.workspace.tools.iter();
                all.find(|(known, _)| named(known, repository))
                    .map(|(_, tools)| &tools.value)
            }
        };
        let mut found = tools
            .into_iter()
            .flatten()
            .filter(|(known, _)| named(known, tool));
        found.any(|(_, tool)| tool.read_only.as_ref().is_some_and(|yes| yes.value))
    }
}

/// Returns the span of an entry of a map, for diagnostics.
pub(crate) fn position<T>(entries: &Names<T>, name: &str) -> Span {
    entries.get(name).map_or(Span::default(), |entry| entry.span)
}

/// Returns `true` if a text is a valid name of a layer or a repository: one component of a path that cannot lead out
/// of a folder.
pub(crate) fn is_name(name: &str) -> bool {
    let head = name.chars().next().is_some_and(char::is_alphanumeric);
    head && name.len() <= 128
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn no_name_leads_out_of_a_folder() {
        let long = "a".repeat(129);
        for name in [
            "",
            ".",
            "..",
            ".hidden",
            "../a",
            "a/../b",
            "/etc/passwd",
            "a/b",
            "a\\b",
            "C:\\a",
            "a\0",
            "a b",
            "a\n",
            "-a",
            "a:b",
            "%2e%2e",
            "\u{202e}a",
            "a\u{200b}b",
            &long,
        ] {
            assert!(!is_name(name), "{name:?}");
        }
        for name in ["a", "review-pr", "v1.2_b", "prüfer", "0"] {
            assert!(is_name(name), "{name:?}");
        }
    }
}
