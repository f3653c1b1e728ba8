//! The sessions of coding agents, by thread, agent and folder.
//!
//! A stage stores the sessions of its thread where other backends store the conversation, so that a later stage of the
//! thread continues them, also after the run was resumed. A note of the stage holds its own session, so that an
//! interrupted stage continues in it.

use orchestra_engine::{StageContext, StageFile, StageHistory};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::TokenUsage;
use crate::threads::keeps_conversations;

/// Maximum size of the sessions that are read, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of sessions of a thread.
const MAX_SESSIONS: usize = 64;

/// A session of a coding agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgentSession {
    /// The preset, or the name of the backend.
    pub(crate) agent: String,
    /// The folder in which the session began. In another folder the agent does not find it, or does not end.
    pub(crate) folder: String,
    /// The id that the agent gave it.
    pub(crate) session: String,
    /// The tokens that were counted so far.
    pub(crate) counted: TokenUsage,
}

impl AgentSession {
    fn is_of(&self, agent: &str, folder: &str) -> bool {
        self.agent == agent && self.folder == folder
    }
}

/// The sessions of a thread, the latest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgentSessions {
    coding_agents: Vec<AgentSession>,
}

impl AgentSessions {
    /// Reads the sessions of the thread of a stage: those of its earlier attempt, else of the latest stage. Returns
    /// whether they are those of an earlier attempt.
    pub(crate) fn read(stage: &StageContext, history: &StageHistory) -> (AgentSessions, bool) {
        let read = |record: &str| {
            let text = stage.stage_text(record, StageFile::Conversation, MAX_BYTES)?;
            serde_json::from_str::<AgentSessions>(&text.head).ok()
        };
        let own = (stage.attempt() > 1).then(|| read(&stage.record())).flatten();
        if let Some(own) = own {
            return (own, true);
        }
        let before = history.thread_stage.as_ref();
        let before = before.and_then(|before| read(before.record.as_deref()?));
        (before.unwrap_or_default(), false)
    }

    /// Returns the session of an agent in a folder, and whether it is the latest of the thread.
    pub(crate) fn find(&self, agent: &str, folder: &str) -> Option<(&AgentSession, bool)> {
        let at = self
            .coding_agents
            .iter()
            .rposition(|known| known.is_of(agent, folder))?;
        Some((self.coding_agents.get(at)?, at + 1 == self.coding_agents.len()))
    }

    /// Adds the latest session, which replaces an earlier one of the same agent in the same folder.
    pub(crate) fn add(&mut self, session: AgentSession) {
        self.coding_agents
            .retain(|known| !known.is_of(&session.agent, &session.folder));
        self.coding_agents.push(session);
        let over = self.coding_agents.len().saturating_sub(MAX_SESSIONS);
        self.coding_agents.drain(..over);
    }

    /// Stores the sessions for later stages of the thread.
    pub(crate) fn keep(&self, stage: &StageContext) {
        // A failed write stops the run elsewhere.
        if let Ok(text) = serde_json::to_string(self) {
            let _ = stage.keep_conversation(&text);
        }
    }
}

/// Stores the session of a stage that runs.
pub(crate) struct SessionKeeper<'a> {
    pub(crate) stage: &'a StageContext,
    pub(crate) agent: &'a str,
    pub(crate) folder: &'a str,
    /// The tokens of the session that were counted before.
    pub(crate) counted: TokenUsage,
    /// The sessions of the thread. `None` if the agent cannot continue one.
    pub(crate) sessions: Option<&'a mut AgentSessions>,
}

impl SessionKeeper<'_> {
    /// Stores a session for the stages that continue it, and in a note of this stage.
    pub(crate) async fn keep(&mut self, session: String) {
        let session = self.session(session, self.counted);
        self.share(session.clone());
        self.stage.note(note(&session)).await;
    }

    /// Stores the tokens of a session for the stages that continue it.
    pub(crate) fn count(&mut self, session: &str, counted: TokenUsage) {
        self.share(self.session(session.to_owned(), counted));
    }

    fn session(&self, session: String, counted: TokenUsage) -> AgentSession {
        AgentSession {
            agent: self.agent.to_owned(),
            folder: self.folder.to_owned(),
            session,
            counted,
        }
    }

    fn share(&mut self, session: AgentSession) {
        if let Some(sessions) = &mut self.sessions
            && keeps_conversations(self.stage)
        {
            sessions.add(session);
            sessions.keep(self.stage);
        }
    }
}

/// Returns the note that holds the session of a stage.
fn note(session: &AgentSession) -> Value {
    json!({"coding_agent": session})
}

/// Returns the session in which an interrupted stage worked, if the agent and the folder are the same.
pub(crate) fn interrupted(notes: &[Value], agent: &str, folder: &str) -> Option<AgentSession> {
    let last = notes.iter().rev().find_map(|note| note.get("coding_agent"))?;
    let session = AgentSession::deserialize(last).ok()?;
    session.is_of(agent, folder).then_some(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(agent: &str, folder: &str, session: &str) -> AgentSession {
        AgentSession {
            agent: agent.to_owned(),
            folder: folder.to_owned(),
            session: session.to_owned(),
            counted: TokenUsage::default(),
        }
    }

    #[test]
    fn sessions_are_found_by_agent_and_folder() {
        let mut sessions = AgentSessions::default();
        for (agent, folder, id) in [("codex", "/a", "1"), ("codex", "/b", "2"), ("claude", "/a", "3")] {
            sessions.add(session(agent, folder, id));
        }
        let found = |sessions: &AgentSessions, agent, folder| {
            let found = sessions.find(agent, folder);
            found.map(|(session, is_latest)| (session.session.clone(), is_latest))
        };
        assert_eq!(found(&sessions, "codex", "/a"), Some(("1".to_owned(), false)));
        assert_eq!(found(&sessions, "claude", "/a"), Some(("3".to_owned(), true)));
        assert_eq!(found(&sessions, "claude", "/b"), None);
        sessions.add(session("codex", "/a", "4"));
        assert_eq!(found(&sessions, "codex", "/a"), Some(("4".to_owned(), true)));
        assert_eq!(sessions.coding_agents.len(), 3);
    }

    #[test]
    fn a_note_is_only_of_its_agent_and_folder() {
        let known = session("pi", "/a", "1");
        let notes = [note(&session("pi", "/a", "0")), note(&known), json!({"other": 1})];
        assert_eq!(interrupted(&notes, "pi", "/a"), Some(known));
        assert_eq!(interrupted(&notes, "pi", "/b"), None);
        assert_eq!(interrupted(&notes, "codex", "/a"), None);
    }
}
