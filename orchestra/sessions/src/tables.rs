//! Writing a run to the tables of the database, and reading it.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, named_params, params};

use orchestra_engine::{
    AttemptEnd, EventCursor, ReplayedFrom, RunId, RunPhase, RunSummary, StageRef, Timestamp, Usage,
};
use serde::Serialize;

use crate::database::DatabaseError;
use crate::fold::Change;
use crate::folders::FoundRun;
use crate::rows::{Session, StageState};

/// The columns of a run, in the order in which [`session`] reads them.
pub(crate) const SESSION: &str = "run, elsewhere, name, goal, file, status, simulated, started, updated, ended, \
    code, reason, node, fencing_token, checkpoints, checkpoint, replayed_run, replayed_checkpoint, restarts, \
    stages, failures, repeats, transitions, tool_calls, input_tokens, output_tokens, cost_micros, \
    events, skipped_lines, unanswered, snapshot";

/// Converts a number to SQLite's signed integer. Larger numbers saturate.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn time(moment: Timestamp) -> i64 {
    int(moment.as_millis())
}

/// Reads the columns of a row one after the other.
pub(crate) struct Columns<'r, 's> {
    row: &'r Row<'s>,
    at: usize,
}

impl<'r, 's> Columns<'r, 's> {
    pub(crate) fn new(row: &'r Row<'s>) -> Columns<'r, 's> {
        Columns { row, at: 0 }
    }

    pub(crate) fn next<T: rusqlite::types::FromSql>(&mut self) -> rusqlite::Result<T> {
        self.at += 1;
        self.row.get(self.at - 1)
    }

    pub(crate) fn count(&mut self) -> rusqlite::Result<u64> {
        let number: i64 = self.next()?;
        u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(self.at - 1, number))
    }

    pub(crate) fn optional_count(&mut self) -> rusqlite::Result<Option<u64>> {
        let number: Option<i64> = self.next()?;
        let number = number.map(|number| {
            u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(self.at - 1, number))
        });
        number.transpose()
    }

    pub(crate) fn moment(&mut self) -> rusqlite::Result<Option<Timestamp>> {
        Ok(self.optional_count()?.map(Timestamp::from_millis))
    }

    pub(crate) fn usage(&mut self) -> rusqlite::Result<Usage> {
        Ok(Usage {
            input_tokens: self.count()?,
            output_tokens: self.count()?,
            cost_micros: self.count()?,
        })
    }

    /// Reads a text column and converts it with `of`.
    pub(crate) fn word<T>(&mut self, of: impl FnOnce(&str) -> Option<T>) -> rusqlite::Result<T> {
        let word: String = self.next()?;
        of(&word).ok_or_else(|| rusqlite::Error::InvalidColumnName(word))
    }
}

/// Reads a run, and whether its folder is elsewhere. The caller must set the folder.
pub(crate) fn session(row: &Row<'_>) -> rusqlite::Result<(Session, bool)> {
    let mut next = Columns::new(row);
    let run = next.word(|name| RunId::new(name).ok())?;
    let elsewhere = next.next()?;
    let (name, goal, file) = (next.next()?, next.next()?, next.next()?);
    let phase = next.word(RunPhase::parse)?;
    let session = Session {
        run,
        name,
        goal,
        file,
        folder: Default::default(),
        status: phase.into(),
        simulated: next.next()?,
        summary: RunSummary {
            phase,
            started: next.moment()?,
            updated: next.moment()?,
            ended: next.moment()?,
            code: next.next()?,
            reason: next.next()?,
            node: next.next()?,
            fencing_token: next.count()?,
            checkpoints: next.count()?,
            checkpoint: next.next()?,
            replayed_from: match (next.next()?, next.next()?) {
                (Some(run), Some(checkpoint)) => Some(ReplayedFrom { run, checkpoint }),
                _ => None,
            },
            restarts: next.count()?,
            stages: next.count()?,
            failures: next.count()?,
            repeats: next.count()?,
            transitions: next.count()?,
            tool_calls: next.count()?,
            usage: next.usage()?,
            events: next.count()?,
        },
        skipped_lines: next.count()?,
        unanswered: next.word(|json| serde_json::from_str(json).ok())?,
        snapshot: match next.next::<Option<String>>()? {
            Some(json) => serde_json::from_str(&json).ok(),
            None => None,
        },
    };
    Ok((session, elsewhere))
}

/// Returns the cursor of a run and the stamp of its manifest.
pub(crate) fn cursor(
    connection: &Connection,
    run: &RunId,
) -> Result<Option<(EventCursor, i64)>, DatabaseError> {
    let sql = "SELECT position, tail_length, tail, stamp FROM runs WHERE run = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([&**run], |row| {
        let mut next = Columns::new(row);
        let cursor = EventCursor {
            offset: next.count()?,
            tail_length: next.count()?,
            tail_hash: next.next::<i64>()?.cast_unsigned(),
        };
        Ok((cursor, next.next()?))
    });
    Ok(found.optional()?)
}

/// Loads the stored state of a run.
pub(crate) fn load(connection: &Connection, run: &RunId) -> Result<Session, DatabaseError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {SESSION} FROM runs WHERE run = ?1"))?;
    Ok(statement.query_row([&**run], session)?.0)
}

/// Removes all rows of a run.
pub(crate) fn remove(connection: &Connection, run: &RunId) -> Result<(), DatabaseError> {
    for table in [
        "runs",
        "stages",
        "transitions",
        "tool_calls",
        "model_usage",
        "warnings",
        "edge_counts",
    ] {
        connection
            .prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?
            .execute([&**run])?;
    }
    Ok(())
}

/// Stores the state of a run and its cursor.
pub(crate) fn save(
    connection: &Connection,
    session: &Session,
    found: &FoundRun,
    cursor: EventCursor,
) -> Result<(), DatabaseError> {
    let run = &*session.run;
    let summary = &session.summary;
    let replayed = summary.replayed_from.as_ref();
    connection
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO runs ({SESSION}, stamp, position, tail_length, tail) VALUES (:run, :elsewhere, :name, :goal, :file, :status, :simulated, \
             :started, :updated, :ended, :code, :reason, :node, :fencing_token, :checkpoints, :checkpoint, \
             :replayed_run, :replayed_checkpoint, :restarts, :stages, :failures, :repeats, :transitions, :tool_calls, \
             :input_tokens, :output_tokens, :cost_micros, :events, :skipped_lines, :unanswered, :snapshot, \
             :stamp, :position, :tail_length, :tail)"
        ))?
        .execute(named_params! {
            ":run": run,
            ":elsewhere": found.elsewhere,
            ":name": session.name,
            ":goal": session.goal,
            ":file": session.file,
            ":status": session.status.word(),
            ":simulated": session.simulated,
            ":started": summary.started.map(time),
            ":updated": summary.updated.map(time),
            ":ended": summary.ended.map(time),
            ":code": summary.code,
            ":reason": summary.reason,
            ":node": summary.node,
            ":fencing_token": int(summary.fencing_token),
            ":checkpoints": int(summary.checkpoints),
            ":checkpoint": summary.checkpoint,
            ":replayed_run": replayed.map(|from| &from.run),
            ":replayed_checkpoint": replayed.map(|from| &from.checkpoint),
            ":restarts": int(summary.restarts),
            ":stages": int(summary.stages),
            ":failures": int(summary.failures),
            ":repeats": int(summary.repeats),
            ":transitions": int(summary.transitions),
            ":tool_calls": int(summary.tool_calls),
            ":input_tokens": int(summary.usage.input_tokens),
            ":output_tokens": int(summary.usage.output_tokens),
            ":cost_micros": int(summary.usage.cost_micros),
            ":events": int(summary.events),
            ":skipped_lines": int(session.skipped_lines),
            ":unanswered": json_text(&session.unanswered)?,
            ":snapshot": session.snapshot.as_ref().map(json_text).transpose()?,
            ":stamp": found.stamp,
            ":position": int(cursor.offset),
            ":tail_length": int(cursor.tail_length),
            ":tail": cursor.tail_hash.cast_signed(),
        })?;
    Ok(())
}

/// Writes the changes of the events of one run. The statements force the index `open_stages`: SQLite cannot know that
/// few stages are open, and would scan the whole run.
pub(crate) struct Writer<'c> {
    run: RunId,
    insert_stage: CachedStatement<'c>,
    replay_stage: CachedStatement<'c>,
    end_stage: CachedStatement<'c>,
    insert_ended_stage: CachedStatement<'c>,
    interrupt_stages: CachedStatement<'c>,
    insert_transition: CachedStatement<'c>,
    insert_tool_call: CachedStatement<'c>,
    add_model_usage: CachedStatement<'c>,
    insert_warning: CachedStatement<'c>,
    count_edge: CachedStatement<'c>,
}

impl<'c> Writer<'c> {
    pub(crate) fn new(connection: &'c Connection, run: RunId) -> Result<Writer<'c>, DatabaseError> {
        Ok(Writer {
            run,
            // A stage that was due while nobody executed the run repeats nothing.
            insert_stage: connection.prepare_cached(
                "INSERT INTO stages (run, seq, changed, node, branch, position, visit, attempt, repeat, state, will_retry, \
                 started, input_tokens, output_tokens, cost_micros) \
                 VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, \
                 CASE WHEN ?8 THEN EXISTS (SELECT 1 FROM stages WHERE run = ?1 AND node = ?3 AND branch IS ?4 \
                 AND visit = ?6 AND attempt = ?7) ELSE 0 END, 'running', 0, ?9, 0, 0, 0)",
            )?,
            // The resumption before it has marked the copied attempts as interrupted.
            replay_stage: connection.prepare_cached(
                "UPDATE stages SET changed = ?2, state = 'running', started = ?3, ended = NULL \
                 WHERE run = ?1 AND seq = (SELECT seq FROM stages WHERE run = ?1 AND node = ?4 AND branch IS ?5 \
                 AND visit = ?6 AND attempt = ?7 ORDER BY seq DESC LIMIT 1)",
            )?,
            // Between an interruption and the restart of a run, the same attempt may have two rows. The latest one is
            // meant.
            end_stage: connection.prepare_cached(
                "UPDATE stages SET changed = :seq, state = :state, outcome = :outcome, preferred_label = :preferred_label, error = :error, \
                 will_retry = :will_retry, notes = :notes, ended = :ended, duration = :duration, \
                 input_tokens = :input_tokens, output_tokens = :output_tokens, cost_micros = :cost_micros \
                 WHERE run = :run AND seq = (SELECT max(seq) FROM stages INDEXED BY open_stages WHERE run = :run AND node = :node \
                 AND state = 'running' AND branch IS :branch AND visit = :visit AND attempt = :attempt)",
            )?,
            insert_ended_stage: connection.prepare_cached(
                "INSERT INTO stages (run, seq, changed, node, branch, position, visit, attempt, repeat, state, outcome, \
                 preferred_label, error, will_retry, notes, ended, duration, input_tokens, output_tokens, cost_micros) \
                 VALUES (:run, :seq, :seq, :node, :branch, :position, :visit, :attempt, 0, :state, :outcome, \
                 :preferred_label, :error, :will_retry, :notes, :ended, :duration, \
                 :input_tokens, :output_tokens, :cost_micros)",
            )?,
            interrupt_stages: connection.prepare_cached(
                "UPDATE stages INDEXED BY open_stages SET changed = ?3, state = 'interrupted', ended = ?2 \
                 WHERE run = ?1 AND state = 'running'",
            )?,
            insert_transition: connection.prepare_cached(
                "INSERT INTO transitions (run, seq, time, branch, origin, target, edge, rule, branches, tested) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?,
            insert_tool_call: connection.prepare_cached(
                "INSERT INTO tool_calls (run, seq, time, node, branch, tool, duration, error) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?,
            add_model_usage: connection.prepare_cached(
                "INSERT INTO model_usage (run, provider, model, input_tokens, output_tokens, cost_micros) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                 ON CONFLICT (run, provider, model) DO UPDATE SET input_tokens = input_tokens + excluded.input_tokens, \
                 output_tokens = output_tokens + excluded.output_tokens, cost_micros = cost_micros + excluded.cost_micros",
            )?,
            insert_warning: connection.prepare_cached(
                "INSERT INTO warnings (run, seq, time, node, branch, code, message, keys) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?,
            count_edge: connection.prepare_cached(
                "INSERT INTO edge_counts (run, origin, edge, tested, held, taken) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                 ON CONFLICT (run, origin, edge) DO UPDATE SET tested = tested + excluded.tested, \
                 held = held + excluded.held, taken = taken + excluded.taken",
            )?,
        })
    }

    /// Writes the change of one event.
    pub(crate) fn write(&mut self, seq: u64, at: Timestamp, change: Change<'_>) -> Result<(), DatabaseError> {
        let run = &*self.run;
        let seq = int(seq);
        match change {
            Change::StageStarted { stage, repeat } => {
                let StageRef {
                    node,
                    branch,
                    index,
                    visit,
                    attempt,
                } = stage;
                let index = int(*index);
                let row = params![run, seq, &**node, branch, index, visit, attempt, repeat, time(at)];
                self.insert_stage.execute(row)?;
            }
            Change::StageReplayed(stage) => {
                let StageRef {
                    node,
                    branch,
                    visit,
                    attempt,
                    ..
                } = stage;
                let row = params![run, seq, time(at), &**node, branch, visit, attempt];
                self.replay_stage.execute(row)?;
            }
            Change::StageEnded(ended) => self.write_end(seq, at, &ended)?,
            Change::StagesInterrupted => {
                self.interrupt_stages.execute(params![run, time(at), seq])?;
            }
            Change::Transition {
                branch,
                from,
                to,
                edge,
                rule,
                branches,
                tested,
            } => {
                let to = to.map(|to| &**to);
                let json = json_text(tested)?;
                let row = params![
                    run,
                    seq,
                    time(at),
                    branch,
                    &**from,
                    to,
                    edge,
                    rule,
                    branches,
                    json
                ];
                self.insert_transition.execute(row)?;
                for tested in tested {
                    let row = params![run, &**from, tested.edge, 1, tested.held, 0];
                    if tested.edge.is_some() {
                        self.count_edge.execute(row)?;
                    }
                }
                if let Some(edge) = edge {
                    self.count_edge.execute(params![run, &**from, edge, 0, 0, 1])?;
                }
            }
            Change::BranchStarted { branch, edge } => {
                if let Some(fan_out) = fan_out_of(branch) {
                    self.count_edge.execute(params![run, fan_out, edge, 0, 0, 1])?;
                }
            }
            Change::Warning {
                node,
                branch,
                code,
                message,
                keys,
            } => {
                let node = node.map(|node| &**node);
                let keys = json_text(keys)?;
                let row = params![run, seq, time(at), node, branch, code, message, keys];
                self.insert_warning.execute(row)?;
            }
            Change::ToolCall {
                node,
                branch,
                tool,
                duration,
                error,
            } => {
                let duration = micros(duration);
                let row = params![run, seq, time(at), &**node, branch, tool, duration, error];
                self.insert_tool_call.execute(row)?;
            }
            Change::ModelCall(call) => {
                self.add_model_usage.execute(params![
                    run,
                    call.provider,
                    call.model_name(),
                    int(call.usage.input_tokens),
                    int(call.usage.output_tokens),
                    int(call.usage.cost_micros),
                ])?;
            }
        }
        Ok(())
    }

    fn write_end(&mut self, seq: i64, at: Timestamp, ended: &AttemptEnd<'_>) -> Result<(), DatabaseError> {
        let run = &*self.run;
        let changed = self.end_stage.execute(named_params! {
            ":run": run,
            ":seq": seq,
            ":node": &*ended.stage.node,
            ":branch": ended.stage.branch,
            ":visit": ended.stage.visit,
            ":attempt": ended.stage.attempt,
            ":state": StageState::from_result(ended.result).word(),
            ":outcome": ended.outcome,
            ":preferred_label": ended.preferred_label,
            ":error": ended.error,
            ":will_retry": ended.will_retry,
            ":notes": ended.notes,
            ":ended": time(at),
            ":duration": micros(ended.duration),
            ":input_tokens": int(ended.usage.input_tokens),
            ":output_tokens": int(ended.usage.output_tokens),
            ":cost_micros": int(ended.usage.cost_micros),
        })?;
        if changed > 0 {
            return Ok(());
        }
        // The event of its beginning is lost or could not be read.
        self.insert_ended_stage.execute(named_params! {
            ":run": run,
            ":seq": seq,
            ":node": &*ended.stage.node,
            ":branch": ended.stage.branch,
            ":position": int(ended.stage.index),
            ":visit": ended.stage.visit,
            ":attempt": ended.stage.attempt,
            ":state": StageState::from_result(ended.result).word(),
            ":outcome": ended.outcome,
            ":preferred_label": ended.preferred_label,
            ":error": ended.error,
            ":will_retry": ended.will_retry,
            ":notes": ended.notes,
            ":ended": time(at),
            ":duration": micros(ended.duration),
            ":input_tokens": int(ended.usage.input_tokens),
            ":output_tokens": int(ended.usage.output_tokens),
            ":cost_micros": int(ended.usage.cost_micros),
        })?;
        Ok(())
    }
}

/// Returns the fan-out of a branch such as `outer#1:left/fan#2:a`.
fn fan_out_of(branch: &str) -> Option<&str> {
    let step = branch.rsplit('/').next()?;
    step.split_once('#').map(|(fan_out, _)| fan_out)
}

fn micros(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn json_text<T: Serialize + ?Sized>(value: &T) -> Result<String, DatabaseError> {
    let json = serde_json::to_string(value);
    Ok(json.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?)
}

/// Parses the name of a stage state.
pub(crate) fn stage_state(word: &str) -> Option<StageState> {
    StageState::ALL.into_iter().find(|state| state.word() == word)
}
