//! `POST /v1/embeddings`: the vectors of `/v1/embed` for OpenAI's clients.

use axum::Json as Answer;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hark_api::{
    EmbedRequest, OpenAiEmbedding, OpenAiEmbeddingUsage, OpenAiEmbeddings, OpenAiEmbeddingsRequest, OpenAiEncoding,
    OpenAiVector,
};

use super::{AnyError, Invalid, Limited, Unauthorized, Unavailable};
use crate::app::App;
use crate::embeddings;
use crate::error::Failure;
use crate::extract::Json;
use crate::middleware::Caller;

/// Texts as vectors, as OpenAI's clients ask for them
#[utoipa::path(post, path = "/v1/embeddings", tag = "openai", operation_id = "createEmbeddings",
    request_body = OpenAiEmbeddingsRequest,
    responses((status = 200, body = OpenAiEmbeddings), Invalid, Unauthorized, Limited, Unavailable, AnyError),
    security((), ("bearer" = [])))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<OpenAiEmbeddingsRequest>,
) -> Result<Answer<OpenAiEmbeddings>, Failure> {
    let texts = EmbedRequest { text: Some(request.input), texts: None };
    let texts = texts.check().map_err(|_| Failure::invalid("`input` is empty: there is no text to embed"))?;
    let embedded = embeddings::embed(&app, &caller, texts).await?;
    if let Some(wanted) = request.dimensions.filter(|wanted| *wanted as usize != embedded.dimensions) {
        let message = format!("`dimensions` is {wanted}: the vectors of this server have {}", embedded.dimensions);
        return Err(Failure::invalid(message));
    }
    let vector = |vector: Vec<f32>| match request.encoding_format {
        OpenAiEncoding::Float => OpenAiVector::Float(vector),
        OpenAiEncoding::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            OpenAiVector::Base64(BASE64.encode(bytes))
        }
    };
    let data = embedded.vectors.into_iter().zip(0..).map(|(embedding, index)| OpenAiEmbedding {
        object: "embedding".to_owned(),
        index,
        embedding: vector(embedding),
    });
    Ok(Answer(OpenAiEmbeddings {
        object: "list".to_owned(),
        data: data.collect(),
        model: embedded.model,
        usage: OpenAiEmbeddingUsage { prompt_tokens: embedded.tokens, total_tokens: embedded.tokens },
    }))
}
