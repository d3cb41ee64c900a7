//! What makes a transcription the same request as an earlier one: its fields and its recording.

use super::fields::{Form, Wanted};
use crate::error::Failure;
use crate::idempotent::{Canonical, Fingerprint};

/// The fingerprint of a form: `asked` is what it says, `wanted` what it means here, with the model resolved.
pub(crate) fn fingerprint<F: Form>(
    asked: &Wanted<F::Layout>,
    wanted: &Wanted<F::Layout>,
    recording: Option<[u8; 32]>,
) -> Result<Fingerprint, Failure> {
    let default = F::default().wanted()?;
    let canonical = Canonical::new(F::OPERATION)
        .with("work", &asked.work, &default.work)?
        .with("layout", &asked.layout, &default.layout)?
        .with("webhook_url", &asked.webhook_url, &default.webhook_url)?
        .with_hash("file", recording);
    Ok(canonical.fingerprint().or(encoding_1::fingerprint(wanted, recording)))
}

/// The first encoding: a hash of the `Debug` print of the request. Names are remembered for a day, so this can go in the
/// version after next.
mod encoding_1 {
    use sha2::{Digest, Sha256};

    use super::super::fields;

    /// The request as it was declared then; its print must not change.
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
        wanted: &fields::Wanted<Layout>,
        recording: Option<[u8; 32]>,
    ) -> Vec<u8> {
        let work = &wanted.work;
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
            layout: &wanted.layout,
            webhook_url: &wanted.webhook_url,
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
            let wanted = Fields::default().wanted().unwrap();
            let print = "Wanted { work: Work { model: \"large-v3-turbo\", language: None, diarize: true, speakers: 0, \
                         identify: false, known: [], translate: false, word_timestamps: true, prompt: None, hotwords: None, \
                         temperature: None }, layout: Json, webhook_url: None }";
            let mut hash = Sha256::new();
            hash.update(print);
            hash.update([7; 32]);
            assert_eq!(fingerprint(&wanted, Some([7; 32])), hash.finalize().to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Fields;
    use super::*;

    #[test]
    fn a_fingerprint_changes_with_every_field_and_with_the_recording() {
        let wanted = Fields::default().wanted().unwrap();
        let mut other = wanted.clone();
        other.work.translate = true;
        let of = |asked: &Wanted<_>, hash| fingerprint::<Fields>(asked, &wanted, hash).unwrap();
        let all = [of(&wanted, None), of(&other, None), of(&wanted, Some([1; 32]))];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        assert_eq!(all[0], of(&wanted.clone(), None));
    }
}
