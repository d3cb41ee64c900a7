//! What every kind of speech model can do.

use hark_media::CancelToken;

use crate::error::VoiceError;
use crate::script::{Script, SpeechRequest};
use crate::voices::PresetVoice;

/// The sounds of a script, sentence by sentence with the pauses between them; each is made when it is asked for.
pub(crate) type Sounds<'a> = Box<dyn Iterator<Item = Result<Vec<f32>, VoiceError>> + 'a>;

/// A speech model with what it needs to read text and to find voices. What a voice is (preset, matched or cloned) is said by the script that the model prepares, so that nothing
/// else can call a voice what it is not.
pub(crate) trait VoiceModel: Send + Sync {
    /// Bytes that it takes.
    fn memory(&self) -> u64;

    /// Samples of a second.
    fn sample_rate(&self) -> u32;

    /// The voices that come with it.
    fn presets(&self) -> Vec<PresetVoice>;

    /// The codes of the languages that it can speak on this machine.
    fn languages(&self) -> Vec<&'static str>;

    /// Finds the voice and the words of a text; blocks meanwhile.
    fn prepare(&self, request: &SpeechRequest<'_>, cancel: &CancelToken) -> Result<Script, VoiceError>;

    /// The sounds of a script that this model prepared.
    fn sounds<'a>(&'a self, script: &'a Script, is_cancelled: &'a (dyn Fn() -> bool + Sync)) -> Sounds<'a>;
}
