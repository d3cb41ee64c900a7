//! Questions about transcripts: what is retrieved for them, what is answered, and what is refused.

use hark_embed::Embedder;
use hark_text::Source;
use hark_text::retrieve::Retriever;
use serde::Serialize;
use serde_json::{Value, json};

use super::corpus::{Document, Question};
use super::http::Client;
use super::{Share, failed};
use crate::error::BenchError;

/// Passages of a question that are looked at.
const RETRIEVED: usize = 5;

/// What questions to one transcript gave.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    pub(super) transcript: String,
    /// Questions for which one of the first five passages has the answer, by words and meaning together.
    pub(super) recall: Share,
    /// The same by words alone (BM25).
    pub(super) recall_by_words: Share,
    pub(super) answered: Share,
    /// Answers with a source at or beside the place that the reference names.
    pub(super) sourced: Share,
    /// Questions without an answer that were refused.
    pub(super) refused: Share,
    pub(super) seconds: f64,
    pub(super) misses: Vec<String>,
}

/// Asks all questions about a transcript.
pub(super) fn run(client: &Client, id: i64, document: &Document, embedder: &Embedder) -> Result<Figures, BenchError> {
    let mut figures = Figures { transcript: document.name.clone(), ..Figures::default() };
    retrieve(&mut figures, document, embedder)?;
    let start = std::time::Instant::now();
    for question in &document.reference.questions {
        let reply = client.post(&format!("/v1/transcripts/{id}/chat"), &json!({ "question": question.ask }));
        match reply {
            Ok(reply) => judge(&mut figures, document, question, &reply),
            Err(error) => {
                // No answer is neither right nor refused.
                figures.misses.push(format!("failed: {}: {error}", question.ask));
                if question.answer.is_some() { figures.answered.count(false) } else { figures.refused.count(false) }
            }
        }
    }
    figures.seconds = start.elapsed().as_secs_f64();
    eprintln!(
        "  {}: {} right, {} refused rightly, {} retrieved, {:.0} s",
        figures.transcript, figures.answered, figures.refused, figures.recall, figures.seconds
    );
    Ok(figures)
}

fn judge(figures: &mut Figures, document: &Document, question: &Question, reply: &Value) {
    let answer = reply["answer"].as_str().unwrap_or_default();
    let sources = reply["sources"].as_array().map_or(&[][..], Vec::as_slice);
    let is_refusal = reply["found"] == false;
    let english = document.reference.language == "en";
    let Some(expected) = &question.answer else {
        figures.refused.count(is_refusal);
        if !is_refusal {
            figures.misses.push(format!("answered, but not in the transcript: {} -> {answer}", question.ask));
        }
        return;
    };
    let is_right = !is_refusal && expected.matches(answer, english);
    figures.answered.count(is_right);
    if !is_right {
        figures.misses.push(format!("answer: {} -> {answer} (expected {expected})", question.ask));
    }
    if !is_refusal {
        let is_near = |source: &Value| {
            let at = source["segment_order"].as_u64().unwrap_or(u64::MAX) as usize;
            let places = question.at.iter().filter_map(|quote| document.segments_of(quote));
            places.into_iter().any(|place| (place.start.saturating_sub(1)..place.end + 1).contains(&at))
        };
        figures.sourced.count(sources.iter().any(is_near));
    }
}

/// Retrieval as the server does it: passages by their words and by their embeddings.
fn retrieve(figures: &mut Figures, document: &Document, embedder: &Embedder) -> Result<(), BenchError> {
    let source = Source::from_transcript(&document.transcript);
    let retriever = Retriever::new(&source);
    let embed = |texts: &[&str]| -> Result<Vec<Vec<f32>>, BenchError> {
        let embeddings = embedder.embed(texts, &|| false).map_err(failed)?;
        Ok(embeddings.into_iter().map(|embedding| embedding.vector).collect())
    };
    let texts = retriever.texts(&source);
    let vectors = embed(&texts.iter().map(String::as_str).collect::<Vec<_>>())?;
    let retriever = retriever.with_vectors(vectors);
    for question in document.reference.questions.iter().filter(|question| question.answer.is_some()) {
        let places: Vec<_> = question.at.iter().filter_map(|quote| document.segments_of(quote)).collect();
        let is_found = |vector: Option<&[f32]>| {
            let ranked = retriever.rank(&question.ask, vector);
            ranked.iter().take(RETRIEVED).any(|passage| {
                let units = &retriever.passages()[passage.index].units;
                places.iter().any(|place| units.start < place.end && place.start < units.end)
            })
        };
        let vectors = embed(&[&question.ask])?;
        let fused = is_found(vectors.first().map(Vec::as_slice));
        figures.recall.count(fused);
        figures.recall_by_words.count(is_found(None));
        if !fused {
            figures.misses.push(format!("not retrieved: {}", question.ask));
        }
    }
    Ok(())
}
