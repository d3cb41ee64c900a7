//! The fingerprint of a transcription request, which identifies a repeat: its fields and its recording.

use super::fields::{Form, ParsedForm};
use crate::error::Failure;
use crate::idempotent::{Canonical, Fingerprint};

/// The fingerprint of a form: `requested` as it was sent, `resolved` with the model resolved.
pub(crate) fn fingerprint<F: Form>(
    requested: &ParsedForm<F::Layout>,
    resolved: &ParsedForm<F::Layout>,
    recording: Option<[u8; 32]>,
) -> Result<Fingerprint, Failure> {
    let default = F::default().parsed()?;
    let canonical = Canonical::new(F::OPERATION)
        .with("work", &requested.work, &default.work)?
        .with("layout", &requested.layout, &default.layout)?
        .with("webhook_url", &requested.webhook_url, &default.webhook_url)?
        .with_hash("file", recording);
    Ok(canonical.fingerprint().or(encoding_1::fingerprint(resolved, recording)))
}

/// The first encoding: a hash of the `Debug` output of the request. Idempotency keys expire after a day, so this can be removed in the
/// version after next.
mod encoding_1 {
    use sha2::{Digest, Sha256};

    use super::super::fields;

    /// The request as it was declared then; its `Debug` output must not change.
    #[derive(Debug)]
    #[allow(dead_code, reason = "only printed")]
    struct Wanted<'a, Layout> {
        work: Work<'a>,
        layout: &'a Layout,
        webhook_url: &'a Option<String>,
    }

    #[derive(Debug)]
    #[allow(dead_code, reason = "only printed")]
    struct Work<'a> {
        model: &'a str,
        language: &'a Option<String>,
        diarize: bool,
        speakers: u32,
        identify: bool,
        known: [(); 0],
        translate: bool,
        word_timestamps: bool,
        prompt: &'a Option<String>,
        hotwords: &'a Option<String>,
        temperature: Option<f32>,
    }

    pub(super) fn fingerprint<Layout: std::fmt::Debug>(
        form: &fields::ParsedForm<Layout>,
        recording: Option<[u8; 32]>,
    ) -> Vec<u8> {
        let work = &form.work;
        let print = Wanted {
            work: Work {
                model: &work.model,
                language: &work.language,
                diarize: work.diarize,
                speakers: work.speakers,
                identify: work.identify,
                known: [],
                translate: work.translate,
                word_timestamps: work.word_timestamps,
                prompt: &work.prompt,
                hotwords: &work.hotwords,
                temperature: work.temperature,
            },
            layout: &form.layout,
            webhook_url: &form.webhook_url,
        };
        let mut hash = Sha256::new();
        hash.update(format!("{print:?}"));
        hash.update(recording.unwrap_or_default());
        hash.finalize().to_vec()
    }

    #[cfg(test)]
    mod tests {
        use super::super::super::fields::{Fields, Form as _};
        use super::*;

        #[test]
        fn the_print_of_the_first_encoding_is_what_it_was() {
            let form = Fields::default().parsed().unwrap();
            let print = "Wanted { work: Work { model: \"large-v3-turbo\", language: None, diarize: true, speakers: 0, \
                         identify: false, known: [], translate: false, word_timestamps: true, prompt: None, hotwords: None, \
                         temperature: None }, layout: Json, webhook_url: None }";
            let mut hash = Sha256::new();
            hash.update(print);
            hash.update([7; 32]);
            assert_eq!(fingerprint(&form, Some([7; 32])), hash.finalize().to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Fields;
    use super::*;

    #[test]
    fn a_fingerprint_changes_with_every_field_and_with_the_recording() {
        let form = Fields::default().parsed().unwrap();
        let mut other = form.clone();
        other.work.translate = true;
        let of = |requested: &ParsedForm<_>, hash| fingerprint::<Fields>(requested, &form, hash).unwrap();
        let all = [of(&form, None), of(&other, None), of(&form, Some([1; 32]))];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        assert_eq!(all[0], of(&form.clone(), None));
    }
}
