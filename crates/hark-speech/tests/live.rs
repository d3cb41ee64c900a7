//! Live sessions with a real model and a spoken text. Needs whisper-base, silero-vad, the models that tell voices apart, a
//! recorded conversation, and espeak-ng for a voice.

use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use hark_speech::live::{LiveEvent, LiveOptions, LiveSession, LiveText};
use hark_speech::{Compute, LoadOptions, Transcriber, Voices};

/// What is said: two utterances with a pause between them.
const FIRST: &str = "The quick brown fox jumps over the lazy dog, and the dog does not wake up.";
const SECOND: &str = "Tomorrow the weather will be cold and rainy in the north of the country.";
const RATE: usize = 16_000;

fn transcriber() -> &'static Transcriber {
    static LOADED: OnceLock<Transcriber> = OnceLock::new();
    LOADED.get_or_init(|| {
        let models = models();
        let mut options = LoadOptions::new(models.join("whisper-base"), models.join("silero-vad"));
        let (turns, voices) = (models.join("pyannote-segmentation-3"), models.join("campplus-zh-en"));
        let compute = Compute::from_options(None, None);
        let voices = Voices::load(&turns, &voices, &compute);
        options.voices = Some(voices.expect("`./hark test` installs the models that tests need"));
        options.compute = Some(compute);
        Transcriber::load(&options).expect("`./hark test` installs the models that tests need")
    })
}

fn models() -> std::path::PathBuf {
    std::env::var_os("HARK_MODELS").map_or_else(
        || {
            let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
                || std::path::PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache"),
                Into::into,
            );
            cache.join("hark/models")
        },
        std::path::PathBuf::from,
    )
}

/// The text in espeak's voice, at 16 kHz.
fn spoken(text: &str) -> Vec<f32> {
    let folder = tempfile::tempdir().expect("a folder");
    let (raw, wav) = (folder.path().join("raw.wav"), folder.path().join("speech.wav"));
    let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
        let status = Command::new(program).args(arguments).status();
        let status =
            status.unwrap_or_else(|_| panic!("{program} is not there: `./hark test` installs what tests need"));
        assert!(status.success(), "{program} fails");
    };
    run("espeak-ng", &["-s".as_ref(), "140".as_ref(), "-w".as_ref(), raw.as_os_str(), text.as_ref()]);
    let input = [&["-v".as_ref(), "error".as_ref(), "-i".as_ref(), raw.as_os_str()][..]].concat();
    let output = ["-ar", "16000", "-ac", "1", "-f", "s16le"].map(AsRef::as_ref);
    run("ffmpeg", &[&input[..], &output[..], &[wav.as_os_str()]].concat());
    let bytes = std::fs::read(&wav).expect("the sound was written");
    bytes.chunks_exact(2).map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32_768.0).collect()
}

/// Both utterances with silence around them, and where the pause begins and ends.
fn two_utterances() -> &'static (Vec<f32>, f64, f64) {
    static SOUND: OnceLock<(Vec<f32>, f64, f64)> = OnceLock::new();
    SOUND.get_or_init(|| {
        let mut sound = vec![0.0; RATE];
        sound.extend(spoken(FIRST));
        let pause = sound.len();
        sound.extend(vec![0.0; 2 * RATE]);
        let goes_on = sound.len();
        sound.extend(spoken(SECOND));
        sound.extend(vec![0.0; RATE / 2]);
        let seconds = |samples: usize| samples as f64 / RATE as f64;
        (sound, seconds(pause), seconds(goes_on))
    })
}

struct Session {
    live: LiveSession,
    woken: Receiver<()>,
    events: Vec<(f64, LiveEvent)>,
}

impl Session {
    fn new(options: &LiveOptions) -> Self {
        let (wake, woken) = channel();
        let wake = Mutex::new(wake);
        let live = LiveSession::new(transcriber(), options, move || {
            // A test that is over does not listen any more.
            let _ = wake.lock().expect("unpoisoned").send(());
        });
        Session { live: live.expect("a session"), woken, events: Vec::new() }
    }

    fn poll(&mut self) {
        let now = self.live.seconds_received();
        let events = self.live.poll().expect("the engine runs");
        self.events.extend(events.into_iter().map(|event| (now, event)));
    }

    /// Waits for the look at the sound that is going on.
    fn settle(&mut self) {
        while self.live.is_busy() {
            self.woken.recv_timeout(Duration::from_secs(120)).expect("the engine answers");
            self.poll();
        }
    }

    /// Sends sound in frames of 2730 bytes, as if computing took no time.
    fn send(&mut self, sound: &[f32]) {
        for frame in sound.chunks(1365) {
            self.live.push(frame);
            self.poll();
            self.settle();
        }
    }

    fn finish(&mut self) {
        self.live.finish();
        self.poll();
        self.settle();
        assert!(self.live.is_finished(), "a session that was told to finish does");
    }

    fn texts(&self) -> Vec<&LiveText> {
        let texts = self.events.iter().map(|(_, event)| event);
        texts.filter_map(|event| if let LiveEvent::Text(text) = event { Some(text) } else { None }).collect()
    }
}

fn words(text: &str) -> Vec<String> {
    let bare = |word: &str| word.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    text.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect()
}

/// Words of `said` that do not come in `heard`, in order.
fn missing(said: &str, heard: &str) -> usize {
    let (said, heard) = (words(said), words(heard));
    let mut longest = vec![0; heard.len() + 1];
    for a in &said {
        let mut before = 0;
        for (index, b) in heard.iter().enumerate() {
            let here = longest[index + 1];
            longest[index + 1] = if a == b { before + 1 } else { here.max(longest[index]) };
            before = here;
        }
    }
    said.len() - longest[heard.len()]
}

fn english() -> LiveOptions {
    LiveOptions { language: Some("en".to_owned()), ..LiveOptions::default() }
}

#[test]
#[ignore = "needs models"]
fn words_come_while_they_are_spoken_and_the_whole_comes_last_and_once() {
    let (sound, pause, goes_on) = two_utterances();
    let mut session = Session::new(&english());
    session.send(sound);
    session.finish();
    let Some((_, LiveEvent::Final(result))) = session.events.last() else { panic!("the last event is the whole") };
    let finals = session.events.iter().filter(|(_, event)| matches!(event, LiveEvent::Final(_))).count();
    assert_eq!(finals, 1);
    assert!(missing(&format!("{FIRST} {SECOND}"), &result.text) <= 3, "{}", result.text);
    assert!((result.duration - sound.len() as f64 / RATE as f64).abs() < 0.01);
    assert_eq!(result.language, "en");

    let texts = session.texts();
    let joined = texts.iter().map(|text| text.text.as_str()).collect::<Vec<_>>().join(" ");
    assert_eq!(words(&joined), words(&result.text), "the texts are the whole");
    let mut latest = 0.0;
    for word in texts.iter().flat_map(|text| &text.words) {
        assert!(word.start >= latest - 0.05 && word.end >= word.start, "times run backwards at {word:?}");
        latest = word.end;
    }
    assert!(texts.iter().any(|text| text.ends_utterance && text.end < *goes_on), "the pause ends an utterance");
    // The first words are told long before the first utterance is over.
    let first = session.events.iter().find(|(_, event)| matches!(event, LiveEvent::Partial { .. }));
    assert!(first.is_some_and(|(when, _)| *when < pause - 1.5), "a partial text comes early");
    let told = session.events.iter().find(|(_, event)| matches!(event, LiveEvent::Text(_)));
    assert!(told.is_some_and(|(when, _)| *when < pause - 0.5), "settled words are told while somebody speaks");
    for segment in &result.segments {
        assert!(segment.start < segment.end && !segment.words.is_empty());
    }
}

#[test]
#[ignore = "needs models"]
fn a_session_that_begins_with_speech_hears_it_at_its_true_time() {
    let (sound, pause, _) = two_utterances();
    let first = &sound[..(pause * RATE as f64) as usize];
    let silent = first.iter().take_while(|sample| sample.abs() < 0.01).count();
    let heard = |sound: &[f32]| {
        let mut session = Session::new(&english());
        session.send(sound);
        session.finish();
        let Some((_, LiveEvent::Final(result))) = session.events.pop() else { panic!("the last event is the whole") };
        result
    };
    let (late, at_once) = (heard(first), heard(&first[silent..]));
    assert!(missing(FIRST, &at_once.text) <= 2, "{}", at_once.text);
    let ends = |result: &hark_transcript::TranscriptionResult| -> Vec<f64> {
        result.segments.iter().flat_map(|segment| &segment.words).map(|word| word.end).collect()
    };
    let (late, at_once) = (ends(&late), ends(&at_once));
    let before = silent as f64 / RATE as f64;
    for (late, at_once) in late.iter().zip(&at_once).take(6) {
        assert!((late - before - at_once).abs() < 0.15, "{late} and {at_once}, {before} s apart");
    }
}

#[test]
#[ignore = "needs models"]
fn silence_and_noise_say_nothing() {
    let mut session = Session::new(&english());
    session.send(&vec![0.0; 5 * RATE]);
    let mut state = 1u32;
    let noise: Vec<f32> = (0..5 * RATE)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 16_777_216.0 * 0.1 - 0.05
        })
        .collect();
    session.send(&noise);
    session.finish();
    assert_eq!(session.events.len(), 1, "{:?}", session.events);
    let Some((_, LiveEvent::Final(result))) = session.events.last() else { panic!("the last event is the whole") };
    assert_eq!(result.text, "");
    assert!(result.segments.is_empty());
}

#[test]
#[ignore = "needs models"]
fn a_flush_tells_what_was_heard_and_the_session_goes_on() {
    let (sound, pause, _) = two_utterances();
    let middle = (pause / 2.0 * RATE as f64) as usize;
    let mut session = Session::new(&english());
    session.send(&sound[..middle]);
    session.live.flush();
    session.poll();
    session.settle();
    session.poll();
    let told = session.texts().len();
    assert!(told > 0 && session.texts()[told - 1].ends_utterance);
    session.send(&sound[middle..]);
    session.finish();
    assert!(session.texts().len() > told, "more comes after a flush");
    let Some((_, LiveEvent::Final(result))) = session.events.last() else { panic!("the last event is the whole") };
    assert!(missing(SECOND, &result.text) <= 3, "{}", result.text);
}

#[test]
#[ignore = "needs models"]
fn sound_that_comes_all_at_once_loses_nothing() {
    let said = [
        SECOND,
        "My brother has two children, and both of them go to school in the city.",
        "We drove to the station early in the morning because the train leaves at eight.",
        "She opened the window and looked at the garden behind the old house.",
        "Please put the letters on the table and close the door when you leave.",
        "In the summer they swim in the lake every day before they have breakfast.",
        "The doctor told him to drink more water and to sleep for eight hours.",
        "After the meeting we will send the report to everybody who was there.",
    ];
    // More than one look can hold, sent faster than anybody speaks.
    let sound: Vec<f32> = said.iter().flat_map(|sentence| [spoken(sentence), vec![0.0; RATE / 2]].concat()).collect();
    assert!(sound.len() > 32 * RATE);
    let mut session = Session::new(&english());
    session.live.push(&sound);
    session.poll();
    session.settle();
    session.finish();
    let Some((_, LiveEvent::Final(result))) = session.events.last() else { panic!("the last event is the whole") };
    for sentence in said {
        // A synthetic voice is misheard in places; a sentence that was lost would miss nearly every word.
        assert!(missing(sentence, &result.text) * 2 <= words(sentence).len(), "{sentence}\n{}", result.text);
    }
}

#[test]
#[ignore = "needs models"]
fn the_language_is_found_out_where_none_is_given() {
    let (sound, ..) = two_utterances();
    let mut session = Session::new(&LiveOptions::default());
    session.send(sound);
    session.finish();
    let Some((_, LiveEvent::Final(result))) = session.events.last() else { panic!("the last event is the whole") };
    assert_eq!(result.language, "en");
    let unknown = LiveOptions { language: Some("klingon".to_owned()), ..LiveOptions::default() };
    assert!(LiveSession::new(transcriber(), &unknown, || {}).is_err());
}

#[test]
#[ignore = "needs models"]
fn a_session_that_is_dropped_leaves_the_engine_to_the_others() {
    let (sound, ..) = two_utterances();
    for _ in 0..20 {
        let mut gone = Session::new(&english());
        gone.live.push(&sound[..4 * RATE]);
        gone.poll();
        assert!(gone.live.is_busy());
    }
    let mut session = Session::new(&english());
    session.send(sound);
    session.finish();
    let Some((_, LiveEvent::Final(result))) = session.events.last() else { panic!("the last event is the whole") };
    assert!(missing(&format!("{FIRST} {SECOND}"), &result.text) <= 3, "{}", result.text);
}

#[test]
#[ignore = "needs models"]
fn each_text_of_a_telephone_call_says_who_speaks_and_the_end_knows_better() {
    let path = models().join("test-sounds-meetings/sample.wav");
    let source = hark_media::Source::Path(path);
    let call = hark_media::decode_all(source, &hark_media::Options::default());
    let (call, ..) = call.expect("`./hark test` installs the sounds that tests need");
    let mut session = Session::new(&LiveOptions { speakers: true, ..english() });
    session.send(&call);
    session.finish();
    let texts = session.texts();
    assert!(texts.iter().all(|text| text.speaker.is_some()), "every text has a speaker");
    let live = |phrase: &str| {
        let of = texts.iter().find(|text| text.text.contains(phrase));
        of.unwrap_or_else(|| panic!("{phrase:?} was not told")).speaker.clone()
    };
    assert_ne!(live("Diane"), live("Sheila"), "two people are told apart while they speak");
    let Some((_, LiveEvent::Final(result))) = session.events.last() else { panic!("the last event is the whole") };
    assert_eq!(result.speakers.len(), 2, "{:?}", result.speakers);
    let said = |phrase: &str| {
        let of = result.segments.iter().find(|segment| segment.text.contains(phrase));
        of.unwrap_or_else(|| panic!("{phrase:?} is not in {:?}", result.text)).speaker.clone()
    };
    assert_ne!(said("Diane"), said("Texas"));
    assert_eq!(
        (said("Diane"), said("Texas")),
        (live("Diane"), live("Texas")),
        "labels that were told stay with their voices"
    );
    let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let told = texts.iter().map(|text| letters(&text.text)).collect::<String>();
    assert_eq!(letters(&result.text), told, "the texts are the whole");
}
