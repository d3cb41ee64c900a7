//! Chat sessions about a transcript or about all transcripts of an account, and the daily quota of questions.

use crate::Store;
use crate::clock::{Micros, day_of};
use crate::db::args;
use crate::error::{Error, Limit, Result};
use crate::ids::{AccountId, TranscriptId};
use crate::random;
use crate::sealing::columns::{self, AssociatedData};
use crate::transcripts::derived::check_owner;

/// Chat sessions about transcripts.
#[derive(Debug, Clone, Copy)]
pub struct Chats<'a> {
    pub(crate) store: &'a Store,
}

/// Who wrote a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatRole {
    /// The user who asks.
    User,
    /// The model that answers.
    Assistant,
}

impl ChatRole {
    /// The name as stored and as sent to models.
    pub fn name(self) -> &'static str {
        match self {
            ChatRole::User => "user",
            ChatRole::Assistant => "assistant",
        }
    }
}

/// A turn of a chat session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatTurn {
    /// Who wrote it.
    pub role: ChatRole,
    /// Its text.
    pub text: String,
    /// When it was added.
    pub at: Micros,
}

/// A question that was counted against the daily quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedQuestion {
    /// How many were asked that day, this one included.
    pub asked: i64,
    day: i64,
}

fn aad(session: &str, position: i64) -> AssociatedData {
    columns::CHAT_TURN.associated_data(&[&session, &position])
}

/// The condition that a session is about this transcript, or about all of them: `$3` is the transcript or null.
const IS_ABOUT: &str = "(transcript_id = $3 OR (transcript_id IS NULL AND $3 IS NULL))";

impl Chats<'_> {
    /// Creates a chat session about a transcript, or about all of the account's; returns its random id.
    pub async fn begin(self, account: AccountId, about: impl Into<Option<TranscriptId>>) -> Result<String> {
        let about: Option<TranscriptId> = about.into();
        let session = random::token::<16>()?;
        let mut tx = self.store.db().begin().await?;
        if let Some(id) = about {
            check_owner(&mut tx, account, id).await?;
        }
        tx.execute(
            "INSERT INTO chat_sessions (id, account_id, transcript_id, created_at) VALUES ($1, $2, $3, $4)",
            args![&session, account, about.map(|id| id.0), self.store.now()],
        )
        .await?;
        tx.commit().await?;
        Ok(session)
    }

    /// The last turns of a chat session about this transcript, or about all, in order.
    pub async fn last_turns(
        self,
        account: AccountId,
        about: impl Into<Option<TranscriptId>>,
        session: &str,
        limit: i64,
    ) -> Result<Vec<ChatTurn>> {
        let about: Option<TranscriptId> = about.into();
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().snapshot().await?;
        let sql = format!("SELECT id FROM chat_sessions WHERE id = $1 AND account_id = $2 AND {IS_ABOUT}");
        let found = tx.optional(&sql, args![session, account, about.map(|id| id.0)]).await?;
        found.ok_or(Error::NotFound("chat session"))?;
        let sql = "SELECT position, role, body, created_at FROM chat_turns WHERE session_id = $1 ORDER BY position DESC LIMIT 0 + $2";
        let rows = tx.all(sql, args![session, limit]).await?;
        rows.iter()
            .rev()
            .map(|row| {
                let role: String = row.get("role")?;
                Ok(ChatTurn {
                    role: if role == ChatRole::User.name() { ChatRole::User } else { ChatRole::Assistant },
                    text: sealer.open_text(&aad(session, row.get("position")?), &row.get::<Vec<u8>>("body")?)?,
                    at: row.get("created_at")?,
                })
            })
            .collect()
    }

    /// The sessions about a transcript in which something was answered, each with the time of its last answer: the newest hundred.
    pub async fn conversations(self, account: AccountId, about: TranscriptId) -> Result<Vec<(String, Micros)>> {
        let sql = "SELECT s.id AS id, max(t.created_at) AS answered_at FROM chat_sessions s JOIN chat_turns t ON t.session_id = s.id
                   WHERE s.account_id = $1 AND s.transcript_id = $2 GROUP BY s.id ORDER BY answered_at DESC, id LIMIT 100";
        let rows = self.store.db().all(sql, args![account, about]).await?;
        rows.iter().map(|row| Ok((row.get("id")?, row.get("answered_at")?))).collect()
    }

    /// Appends a question and its answer to a chat session.
    pub async fn add(
        self,
        account: AccountId,
        about: impl Into<Option<TranscriptId>>,
        session: &str,
        question: &str,
        answer: &str,
    ) -> Result<()> {
        let about: Option<TranscriptId> = about.into();
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().begin().await?;
        let lock =
            format!("SELECT id FROM chat_sessions WHERE id = $1 AND account_id = $2 AND {IS_ABOUT}{}", tx.for_update());
        tx.optional(&lock, args![session, account, about.map(|id| id.0)])
            .await?
            .ok_or(Error::NotFound("chat session"))?;
        let row = tx.one("SELECT count(*) AS turns FROM chat_turns WHERE session_id = $1", args![session]).await?;
        let turns: i64 = row.get("turns")?;
        for (position, role, text) in [(turns, ChatRole::User, question), (turns + 1, ChatRole::Assistant, answer)] {
            let sealed = sealer.seal(&aad(session, position), text.as_bytes())?;
            tx.execute(
                "INSERT INTO chat_turns (session_id, position, role, body, created_at) VALUES ($1, $2, $3, $4, $5)",
                args![session, position, role.name(), &sealed, self.store.now()],
            )
            .await?;
        }
        tx.commit().await
    }

    /// Counts a question against the daily quota.
    pub async fn count_question(self, account: AccountId, limit: Option<i64>) -> Result<CountedQuestion> {
        let day = day_of(self.store.now());
        let mut tx = self.store.db().begin().await?;
        let row = tx
            .one(
                "INSERT INTO chat_days (account_id, day, questions) VALUES ($1, $2, 1)
                 ON CONFLICT (account_id, day) DO UPDATE SET questions = chat_days.questions + 1 RETURNING questions",
                args![account, day],
            )
            .await?;
        let asked: i64 = row.get("questions")?;
        match limit {
            Some(limit) if asked > limit => Err(Error::Limit { what: Limit::DailyQuestions, limit, used: asked - 1 }),
            _ => {
                tx.commit().await?;
                Ok(CountedQuestion { asked, day })
            }
        }
    }

    /// Uncounts a question that got no answer, on the day that it was counted.
    pub async fn uncount_question(self, account: AccountId, counted: CountedQuestion) -> Result<()> {
        let sql = "UPDATE chat_days SET questions = questions - 1 WHERE account_id = $1 AND day = $2 AND questions > 0";
        self.store.db().execute(sql, args![account, counted.day]).await.map(drop)
    }

    /// Questions asked today.
    pub async fn questions_today(self, account: AccountId) -> Result<i64> {
        let sql = "SELECT questions FROM chat_days WHERE account_id = $1 AND day = $2";
        let row = self.store.db().optional(sql, args![account, day_of(self.store.now())]).await?;
        row.map_or(Ok(0), |row| row.get("questions"))
    }
}
