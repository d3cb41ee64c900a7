//! JSON bodies: whatever is read makes sense, and reads the same after it is written.

use hark_api::{
    AccountUpdate, AnalyzeRequest, ChatRequest, DateTime, EmbedRequest, GenerateRequest, NewKey, PasswordChange,
    SignIn, SignUp, SummarizeRequest, SummarizeTranscriptRequest, TranscriptAnalyzeRequest, TranscriptChange,
    TranscriptGenerateRequest, TranslateRequest,
};

/// Reads bytes as every body that the service takes.
pub fn requests(data: &[u8]) {
    macro_rules! read {
        ($($body:ty),*) => {
            $(
                if let Ok(body) = serde_json::from_slice::<$body>(data) {
                    let written = serde_json::to_vec(&body).expect("what was read can be written");
                    let again = serde_json::from_slice::<$body>(&written).expect("what was written can be read");
                    assert!(body == again, "{} reads differently after it was written", stringify!($body));
                }
            )*
        };
    }
    read!(
        AccountUpdate,
        AnalyzeRequest,
        ChatRequest,
        EmbedRequest,
        GenerateRequest,
        NewKey,
        PasswordChange,
        SignIn,
        SignUp,
        SummarizeRequest,
        SummarizeTranscriptRequest,
        TranscriptAnalyzeRequest,
        TranscriptChange,
        TranscriptGenerateRequest,
        TranslateRequest
    );
    if let Ok(request) = serde_json::from_slice::<TranslateRequest>(data)
        && let Ok(translation) = request.check()
    {
        assert!(!translation.texts.is_empty() && !translation.target.trim().is_empty());
        assert!(translation.texts.iter().all(|text| !text.trim().is_empty()));
    }
    if let Ok(request) = serde_json::from_slice::<EmbedRequest>(data)
        && let Ok(texts) = request.check()
    {
        assert!(!texts.is_empty() && texts.iter().all(|text| !text.trim().is_empty()));
    }
    if let Some(moment) = std::str::from_utf8(data).ok().and_then(DateTime::parse) {
        assert_eq!(DateTime::parse(&moment.to_string()), Some(moment), "a moment reads back: {moment}");
    }
}
