//! The present status of runs, which depends on their owners.

use crate::index::SessionIndex;
use crate::rows::{Session, SessionStatus};
use crate::totals::RunTotals;

impl SessionIndex {
    /// Returns a run with its present status: an open run that no process owns was interrupted. A run that has ended
    /// since it was read is read again.
    pub fn with_present_status(&self, session: Session) -> Session {
        if !session.is_abandoned() {
            return session;
        }
        // The last events were written before the owner left, so they are seen now.
        let again = self.run(&session.run);
        let mut session = again
            .ok()
            .filter(|again| again.run == session.run)
            .unwrap_or(session);
        if session.is_abandoned() {
            session.status = SessionStatus::Interrupted;
        }
        session
    }

    /// Returns totals with the present status of each run; see
    /// [`with_present_status`](SessionIndex::with_present_status).
    pub fn totals_with_present_status(&self, mut totals: RunTotals) -> RunTotals {
        for session in std::mem::take(&mut totals.open) {
            let stored = session.status;
            let present = self.with_present_status(session).status;
            totals.change_status(stored, present);
        }
        totals
    }
}
