//! A person's turn in a conversation with a model: text, or a command that ends the conversation.

use orchestra_graph::did_you_mean;

/// The commands with their arguments.
const COMMANDS: [(&str, &str); 3] = [("/done", ""), ("/approve", ""), ("/reject", " REASON")];

/// A turn of a person in a conversation with a model (rule F13).
///
/// ```
/// use orchestra_core::ChatTurn;
/// assert_eq!(ChatTurn::parse("/approve"), Ok(ChatTurn::Approve));
/// assert_eq!(ChatTurn::parse("/reject too short"), Ok(ChatTurn::Reject("too short")));
/// assert_eq!(ChatTurn::parse("/etc/motd is empty"), Ok(ChatTurn::Say("/etc/motd is empty")));
/// assert_eq!(ChatTurn::parse("//approve is a command"), Ok(ChatTurn::Say("/approve is a command")));
/// let unknown = ChatTurn::parse("/aprove").unwrap_err();
/// assert_eq!(unknown, "unknown command `/aprove`; did you mean `/approve`? (`//aprove` sends it as text)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatTurn<'t> {
    /// Text for the model.
    Say(&'t str),
    /// Ends the conversation.
    Done,
    /// Ends the conversation and approves the result.
    Approve,
    /// Ends the conversation and rejects the result for this reason, which may be empty.
    Reject(&'t str),
}

impl<'t> ChatTurn<'t> {
    /// Parses the input of a person. A first word of `/` followed by only letters, `-` and `_` is a command; `//`
    /// starts a text that begins with `/`.
    ///
    /// # Errors
    /// Returns an error if the command is unknown or takes no text. The message names the valid input.
    pub fn parse(text: &'t str) -> Result<ChatTurn<'t>, String> {
        let text = text.trim();
        if let Some(literal) = text.strip_prefix('/').filter(|rest| rest.starts_with('/')) {
            return Ok(ChatTurn::Say(literal));
        }
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let name = word.strip_prefix('/').unwrap_or_default();
        if name.is_empty()
            || !name
                .chars()
                .all(|c| c.is_ascii_alphabetic() || matches!(c, '-' | '_'))
        {
            return Ok(ChatTurn::Say(text));
        }
        let rest = rest.trim();
        let command = word.to_ascii_lowercase();
        match (command.as_str(), rest) {
            ("/done", "") => Ok(ChatTurn::Done),
            ("/approve", "") => Ok(ChatTurn::Approve),
            ("/reject", reason) => Ok(ChatTurn::Reject(reason)),
            ("/done" | "/approve", _) => Err(format!(
                "`{command}` takes no text; send the text first, then `{command}` alone"
            )),
            _ => {
                let meant = match did_you_mean(&command, COMMANDS.map(|(name, _)| name)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        let all = COMMANDS.map(|(name, text)| format!("`{name}{text}`"));
                        format!("the commands are {}", all.join(", "))
                    }
                };
                Err(format!(
                    "unknown command `{word}`; {meant} (`/{word}` sends it as text)"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_words_of_letters_behind_a_slash() {
        for (text, turn) in [
            (" /DONE ", ChatTurn::Done),
            ("/Reject", ChatTurn::Reject("")),
            ("/reject\tno, not yet", ChatTurn::Reject("no, not yet")),
            ("/", ChatTurn::Say("/")),
            ("/2 of it", ChatTurn::Say("/2 of it")),
            ("/usr/bin is full", ChatTurn::Say("/usr/bin is full")),
            ("//", ChatTurn::Say("/")),
            ("///x", ChatTurn::Say("//x")),
            ("say /done", ChatTurn::Say("say /done")),
        ] {
            assert_eq!(ChatTurn::parse(text), Ok(turn), "{text}");
        }
        for (text, part) in [
            ("/approve but shorter", "`/approve` takes no text"),
            ("/done now", "`/done` takes no text"),
            ("/rejet it", "did you mean `/reject`?"),
            ("/quit", "the commands are `/done`, `/approve`, `/reject REASON`"),
        ] {
            let refused = ChatTurn::parse(text).unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }
}
