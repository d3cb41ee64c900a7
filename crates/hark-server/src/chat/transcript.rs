//! Answers from one transcript: all of a short one, else the passages that say something about the question.

use std::sync::Arc;

use hark_api::{ChatSource, Segment};
use hark_store::TranscriptId;
use hark_text::ask::{AnswerSource, Excerpt, Question, ask, excerpts, fits_whole};
use hark_text::{Context, Source};

use super::{Found, passages};
use crate::app::App;
use crate::error::Failure;
use crate::middleware::Identity;
use crate::text_work::failure;

/// A transcript that is asked.
pub(crate) struct Asked {
    pub(crate) id: TranscriptId,
    pub(crate) segments: Vec<Segment>,
    pub(crate) language: String,
}

impl Asked {
    pub(super) async fn answer(
        self,
        app: &App,
        identity: &Identity,
        context: &Context<'_>,
        question: &Question<'_>,
        on_text: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Found, Failure> {
        let source = Arc::new(Source::from_segments(&self.segments, &self.language));
        let chosen = if fits_whole(context, &source, question).map_err(failure)? {
            vec![Excerpt::whole(&source)]
        } else {
            let query = question.retrieval_query();
            let (retriever, ranking) = passages::rank(app, identity, self.id, &source, query).await?;
            excerpts(context, &source, &retriever, &ranking, question).map_err(failure)?
        };
        let answer = ask(context, &chosen, question, on_text).await.map_err(failure)?;
        // Blank segments are no units of the source.
        let orders: Vec<usize> =
            (0..self.segments.len()).filter(|order| !self.segments[*order].text.trim().is_empty()).collect();
        let sources = answer.sources.iter().filter_map(|found| self.source(found, *orders.get(found.unit)?)).collect();
        Ok(Found { answer, sources })
    }

    fn source(&self, found: &AnswerSource, order: usize) -> Option<ChatSource> {
        let segment = self.segments.get(order)?;
        Some(ChatSource {
            text: segment.text.trim().to_owned(),
            speaker: segment.speaker.clone(),
            start_time: segment.start,
            end_time: segment.end,
            relevance: found.relevance as f32,
            segment_order: order as i64,
            score: found.relevance as f32,
            transcript_id: self.id.0,
        })
    }
}
