//! The object of an attempt: its notes, and the fencing token of the execution that may add to them.

use orchestra_core::Snapshot;
use restate_sdk::context::RequestTarget;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::message::Reply;
use crate::names::Names;
use crate::packing::Packed;
use crate::wire::{NoteReply, NoteRequest, OpenRequest, RUN};

/// The head of the notes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Head {
    token: u64,
    notes: u64,
}

const HEAD: &str = "head";
/// The key of the state of the files at the last note that changed it.
const SNAPSHOT: &str = "snapshot";

/// Returns the key of a note.
fn note_key(number: u64) -> &'static str {
    static NAMES: Names = Names::new("note-");
    NAMES.get(number)
}

#[derive(Clone)]
pub(crate) struct AttemptObject;

#[restate_sdk::object(name = "OrchestraAttempt", lazy_state, client_visibility = "pub(crate)")]
impl AttemptObject {
    /// Begins a later execution of the attempt: refuses those before it, and returns the notes.
    #[handler]
    async fn open(
        &self,
        ctx: ObjectContext<'_>,
        request: Json<OpenRequest>,
    ) -> HandlerResult<Json<NoteReply>> {
        let Json(OpenRequest { token }) = request;
        let mut head = head(&ctx).await?;
        if token < head.token {
            return Ok(Json(NoteReply::OldToken));
        }
        head.token = token;
        ctx.set(HEAD, Json(head));
        let mut notes = Vec::new();
        for number in 0..head.notes {
            let note = ctx.get::<Json<Packed>>(note_key(number)).await?;
            notes.extend(note.map(|Json(note)| note));
        }
        let snapshot = ctx.get::<Json<Snapshot>>(SNAPSHOT).await?;
        Ok(Json(match snapshot {
            Some(Json(snapshot)) => NoteReply::NotesOnFiles(notes, snapshot),
            None => NoteReply::Notes(notes),
        }))
    }

    /// Stores a note. One that arrives twice is stored once.
    #[handler]
    async fn note(
        &self,
        ctx: ObjectContext<'_>,
        request: Json<NoteRequest>,
    ) -> HandlerResult<Json<NoteReply>> {
        let Json(request) = request;
        let mut head = head(&ctx).await?;
        if request.token < head.token {
            return Ok(Json(NoteReply::OldToken));
        }
        if request.number >= head.notes {
            ctx.set(note_key(request.number), Json(request.note));
            head.token = request.token;
            head.notes = request.number + 1;
            ctx.set(HEAD, Json(head));
            if let Some(snapshot) = request.snapshot {
                ctx.set(SNAPSHOT, Json(snapshot));
            }
            if let Some(used) = request.used {
                let target = RequestTarget::object(RUN, request.run, "report");
                ctx.request::<_, Json<Reply>>(target, Json(used)).send();
            }
        }
        Ok(Json(NoteReply::Accepted))
    }

    /// Removes all notes.
    #[handler]
    async fn forget(&self, ctx: ObjectContext<'_>) -> HandlerResult<()> {
        ctx.clear_all();
        Ok(())
    }
}

async fn head(ctx: &ObjectContext<'_>) -> Result<Head, TerminalError> {
    let head = ctx.get::<Json<Head>>(HEAD).await?;
    Ok(head.map_or(Head { token: 1, notes: 0 }, |Json(head)| head))
}
