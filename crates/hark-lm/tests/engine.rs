//! The engine with a small model: answers, the prefix cache, cancelling, failing, grammars.

#[allow(dead_code, reason = "the tests of the forward pass use the rest")]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use hark_compute::{Compute, Isa};
use hark_lm::engine::{
    Engine, EngineLimits, EngineStats, Finish, Generation, GenerationEvent, Output, Request, TokenUsage,
};
use hark_lm::grammar::Grammar;
use hark_lm::{BatchRow, KvCache, LmError, Model, Sampler, Sampling, Workspace};
use hark_transcript::Lane;
use hark_weights::WeightsFile;
use serde_json::{Value, json};
use support::{CONTEXT, LLAMA, QWEN2, SmallModel};

/// Longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn model() -> Model {
    Model::from_file(&Compute::new(2, Isa::best()), &SmallModel::new(QWEN2).file()).expect("the small model loads")
}

/// An engine whose cache has so many pages.
fn engine(pages: u64, limits: EngineLimits) -> Engine {
    let model = model();
    let cache_bytes = pages * KvCache::bytes_for(model.config(), 32);
    Engine::start(model, EngineLimits { cache_bytes, ..limits }).expect("it starts")
}

fn prompt(length: usize, start: usize) -> Vec<u32> {
    (start..start + length).map(|index| (index * 61 + 5) as u32 % 256).collect()
}

fn request(prompt: Vec<u32>, max_tokens: usize) -> Request {
    Request { prompt, sampling: Sampling::default(), grammar: None, max_tokens, owner: 1, lane: Lane::Bulk }
}

fn answer(engine: &Engine, request: Request) -> (String, Finish, TokenUsage) {
    engine.submit(request).expect("it is queued").wait().expect("it is answered")
}

/// Waits until the engine has nothing to do.
fn idle(engine: &Engine) -> EngineStats {
    let began = Instant::now();
    loop {
        let stats = engine.stats();
        if stats.running == 0 && stats.waiting == 0 {
            return stats;
        }
        assert!(began.elapsed() < LONG, "{stats:?}");
        std::thread::yield_now();
    }
}

fn assert_no_leak(engine: &Engine) {
    let stats = idle(engine);
    assert_eq!(stats.free_pages + stats.cached_pages, stats.total_pages, "{stats:?}");
}

#[test]
fn an_answer_is_what_the_forward_pass_and_the_sampler_say() {
    let model = model();
    let mut cache = KvCache::new(model.config(), CONTEXT).expect("there is memory");
    let (sequence, mut workspace, mut sampler) =
        (cache.create(), Workspace::default(), Sampler::new(Sampling::default()));
    let (mut expected, mut next) = (Vec::new(), prompt(40, 0));
    for _ in 0..20 {
        let last = next.len() - 1;
        let row = |(index, token): (usize, &u32)| BatchRow { sequence, token: *token, wants_logits: index == last };
        let rows: Vec<BatchRow> = next.iter().enumerate().map(row).collect();
        let logits = model.forward(&mut workspace, &mut cache, &rows, &|| false).expect("a forward pass");
        let token = sampler.sample(logits, &[], None).expect("a token");
        if model.tokenizer().is_end(token) {
            break;
        }
        expected.push(token);
        next = vec![token];
    }
    let (text, _, usage) = answer(&engine(8, EngineLimits::default()), request(prompt(40, 0), 20));
    assert_eq!(text, model.tokenizer().decode(&expected));
    assert_eq!(usage, TokenUsage { prompt: 40, cached: 0, completion: expected.len() as u64 });
}

#[test]
fn requests_that_run_together_are_all_answered_and_prompts_come_in_pieces() {
    let limits = EngineLimits { max_sequences: 5, prompt_rows: 16, mixed_prompt_rows: 7, ..EngineLimits::default() };
    let engine = engine(12, limits);
    let all: Vec<Generation> = (0..20)
        .map(|index| {
            let lane = [Lane::Bulk, Lane::Interactive, Lane::Live][index % 3];
            let mut request = Request { owner: index as u64 % 4, lane, ..request(prompt(20 + index, 3 * index), 12) };
            request.sampling = Sampling { temperature: 0.8, seed: index as u64, ..Sampling::default() };
            engine.submit(request).expect("it is queued")
        })
        .collect();
    for (index, generation) in all.into_iter().enumerate() {
        let (text, finish, usage) = generation.wait().expect("it is answered");
        assert_eq!(usage.prompt, 20 + index as u64);
        assert!(usage.completion <= 12 && (finish == Finish::Stop || usage.completion == 12), "{usage:?} {text:?}");
    }
    assert_no_leak(&engine);
}

#[test]
fn answers_are_the_same_with_and_without_drafts() {
    let limits = |drafts: bool| EngineLimits { drafts, ..EngineLimits::default() };
    let engines = [engine(24, limits(false)), engine(24, limits(true))];
    let schema =
        json!({"type": "array", "items": {"enum": ["yes, as before", "no, as before"]}, "minItems": 6, "maxItems": 6});
    let grammar = Arc::new(Grammar::from_schema(&schema).expect("a schema"));
    for round in 0..12 {
        // A text that repeats itself, at temperatures at which the small model mostly does, and one at which it does not.
        let repeated: Vec<u32> = (0..28).map(|index| prompt(7, round)[index % 7]).collect();
        let sampling = Sampling { temperature: [0.0, 0.3, 2.0][round % 3], seed: round as u64, ..Sampling::default() };
        let grammar = (round % 4 == 3).then(|| Arc::clone(&grammar));
        let request = Request { sampling, grammar, ..request(repeated, 50 + round) };
        let [plain, drafted] = [0, 1].map(|engine| answer(&engines[engine], request.clone()));
        assert_eq!((plain.0, plain.1, plain.2.completion), (drafted.0, drafted.1, drafted.2.completion), "{round}");
    }
    let [plain, drafted] = [0, 1].map(|index| idle(&engines[index]));
    assert_eq!((plain.drafted_tokens, plain.generated_tokens), (0, drafted.generated_tokens));
    assert!(drafted.accepted_tokens > 50 && drafted.drafted_tokens > drafted.accepted_tokens, "{drafted:?}");
    assert!(drafted.steps + 50 < plain.steps, "{drafted:?}");
    engines.iter().for_each(assert_no_leak);
}

#[test]
fn an_answer_is_the_same_with_a_cached_prefix() {
    let engine = engine(12, EngineLimits::default());
    let first = answer(&engine, request(prompt(80, 0), 16));
    assert_eq!(first.2.cached, 0);
    let again = answer(&engine, request(prompt(80, 0), 16));
    assert_eq!(again.2.cached, 64, "two full pages of the prompt");
    assert_eq!((again.0, again.1), (first.0, first.1));
    let other = answer(&engine, Request { owner: 2, ..request(prompt(80, 0), 16) });
    assert_eq!(other.2.cached, 0, "texts of others are not found");
    let stats = idle(&engine);
    assert_eq!((stats.prompt_tokens, stats.cached_tokens), (80 + 16 + 80, 64));
    assert_no_leak(&engine);
}

#[test]
fn questions_to_one_text_at_the_same_time_read_it_once() {
    let engine = engine(32, EngineLimits { prompt_rows: 32, mixed_prompt_rows: 32, ..EngineLimits::default() });
    let alone = answer(&engine, Request { owner: 9, ..request(prompt(80, 0), 16) });
    let all: Vec<Generation> =
        (0..5).map(|_| engine.submit(request(prompt(80, 0), 16)).expect("it is queued")).collect();
    let cached: Vec<u64> = all
        .into_iter()
        .map(|generation| {
            let (_, _, usage) = generation.wait().expect("it is answered");
            assert_eq!(usage.prompt, alone.2.prompt);
            usage.cached
        })
        .collect();
    assert_eq!(cached, [0, 64, 64, 64, 64]);
    assert_no_leak(&engine);
}

#[test]
fn a_prompt_that_leaves_another_within_a_page_shares_the_page_up_to_there() {
    let engine = engine(12, EngineLimits::default());
    // More than a few rows are left each time: few are rounded otherwise.
    let question = |asked: usize| [prompt(45, 0), prompt(35, asked)].concat();
    let alone = answer(&engine, Request { owner: 2, ..request(question(90), 16) });
    let first = answer(&engine, request(question(200), 16));
    assert_eq!(first.2.cached, 0);
    let second = answer(&engine, request(question(90), 16));
    assert_eq!(second.2.cached, 45);
    assert_eq!((second.0, second.1), (alone.0, alone.1), "what is behind the shared tokens is not seen");
    let first_again = answer(&engine, request(question(200), 16));
    assert_eq!(first_again.2.cached, 64, "the shared page was copied before it was written");
    assert_eq!((first_again.0, first_again.1), (first.0, first.1));
    assert_no_leak(&engine);
}

#[test]
fn an_answer_is_part_of_the_prefix_of_the_next_question() {
    let engine = engine(12, EngineLimits::default());
    let schema = json!({"type": "string", "minLength": 10, "maxLength": 20});
    let grammar = Grammar::from_schema(&schema).expect("it is supported");
    let (text, _, usage) = answer(&engine, Request { grammar: Some(Arc::new(grammar)), ..request(prompt(30, 0), 60) });
    assert!(usage.completion >= 10, "{text}");
    // The first page has the prompt and two tokens of the answer, a quotation mark and one more.
    let answered = engine.model().tokenizer().encode(&text);
    let longer: Vec<u32> = prompt(30, 0).into_iter().chain(answered).collect();
    assert!(answer(&engine, request(longer, 2)).2.cached >= 32);
    assert_no_leak(&engine);
}

#[test]
fn old_prefixes_make_room_for_new_ones() {
    let engine = engine(5, EngineLimits::default());
    for round in 0..30 {
        let (_, _, usage) = answer(&engine, request(prompt(70, round * 7), 20));
        assert_eq!(usage.prompt, 70);
    }
    let stats = idle(&engine);
    assert!(stats.cached_pages > 0 && stats.cached_pages <= 5, "{stats:?}");
    assert_no_leak(&engine);
    let last = answer(&engine, request(prompt(70, 29 * 7), 20));
    assert_eq!(last.2.cached, 64, "the newest prefix is there");
}

#[test]
fn dropping_an_answer_cancels_it_and_its_pages_come_back() {
    let engine = engine(8, EngineLimits::default());
    for _ in 0..10 {
        let generation = engine.submit(request(prompt(40, 1), 50)).expect("it is queued");
        let first = generation.next(LONG).expect("an event");
        assert!(matches!(first, GenerationEvent::Text(_) | GenerationEvent::End(Ok(_))), "{first:?}");
        drop(generation);
        drop(engine.submit(request(prompt(60, 9), 30)).expect("it is queued"));
        assert_no_leak(&engine);
    }
    assert_eq!(answer(&engine, request(prompt(40, 1), 5)).2.prompt, 40);
}

/// Holds the engine's thread at each piece of text until it is told to go on.
struct Held {
    begun: Sender<()>,
    go_on: Receiver<()>,
}

impl Output for Held {
    fn text(&mut self, _: String) {
        let _ = self.begun.send(());
        let _ = self.go_on.recv_timeout(LONG);
    }
    fn end(&mut self, _: Result<(Finish, TokenUsage), LmError>) {}
    fn is_closed(&self) -> bool {
        false
    }
}

#[test]
fn a_full_queue_refuses_requests_and_takes_them_again_later() {
    let engine = engine(8, EngineLimits { max_sequences: 1, max_waiting: 3, ..EngineLimits::default() });
    let ((begun, has_begun), (release, go_on)) = (channel(), channel());
    engine.submit_to(request(prompt(10, 0), 50), Box::new(Held { begun, go_on })).expect("it is queued");
    has_begun.recv_timeout(LONG).expect("it has begun");
    let waiting: Vec<Generation> =
        (0..3).map(|index| engine.submit(request(prompt(10, index), 3)).expect("there is room")).collect();
    assert!(matches!(engine.submit(request(prompt(10, 0), 3)), Err(LmError::Busy)));
    drop(release);
    waiting.into_iter().for_each(|generation| _ = generation.wait().expect("it is answered"));
    assert_eq!(answer(&engine, request(prompt(10, 0), 3)).2.prompt, 10);
}

#[test]
fn impossible_requests_are_refused_at_once() {
    let engine = engine(8, EngineLimits { context: 50, ..EngineLimits::default() });
    assert_eq!(engine.context(), 50);
    assert_eq!(engine.bytes(), engine.model().bytes() + KvCache::bytes_for(engine.model().config(), 8 * 32));
    let refused = |request: Request| engine.submit(request).err();
    let too_long = refused(request(prompt(40, 0), 11));
    assert!(matches!(too_long, Some(LmError::ContextFull { length: 51, limit: 50 })), "{too_long:?}");
    assert!(matches!(refused(request(Vec::new(), 5)), Some(LmError::Invalid(_))));
    assert!(matches!(refused(request(vec![1], 0)), Some(LmError::Invalid(_))));
    assert!(matches!(refused(request(vec![9999], 1)), Some(LmError::Invalid(_))));
    assert!(matches!(refused(request(vec![1], usize::MAX)), Some(LmError::ContextFull { .. })));
    assert_eq!(answer(&engine, request(prompt(40, 0), 10)).2.prompt, 40);
}

#[test]
fn a_forward_pass_that_fails_ends_its_requests_and_the_engine_goes_on() {
    let mut bytes = SmallModel::new(LLAMA).gguf();
    // The scale of the last block of the file, which belongs to the last layer's down projection.
    let scale = bytes.len() - 34;
    bytes[scale..scale + 2].copy_from_slice(&0x7c00u16.to_le_bytes());
    let file = WeightsFile::from_bytes("infinite.gguf", bytes);
    let model = Model::from_file(&Compute::new(1, Isa::best()), &file).expect("it loads");
    let engine = Engine::start(model, EngineLimits::default()).expect("it starts");
    for _ in 0..3 {
        let all: Vec<_> = (0..3).map(|_| engine.submit(request(prompt(40, 0), 5)).expect("it is queued")).collect();
        for generation in all {
            let outcome = generation.wait();
            assert!(matches!(outcome, Err(LmError::NotFinite)), "{outcome:?}");
        }
        assert_no_leak(&engine);
        assert!(engine.is_alive());
    }
}

/// Panics when it is asked the second time whether it is closed: the first time is in the queue, the second between two layers.
struct PanicsBetweenLayers {
    asked: AtomicUsize,
    ended: Sender<Result<(Finish, TokenUsage), LmError>>,
}

impl Output for PanicsBetweenLayers {
    fn text(&mut self, _: String) {}
    fn end(&mut self, outcome: Result<(Finish, TokenUsage), LmError>) {
        let _ = self.ended.send(outcome);
    }
    fn is_closed(&self) -> bool {
        assert_ne!(self.asked.fetch_add(1, Ordering::SeqCst), 1, "asked between layers");
        false
    }
}

#[test]
fn a_forward_pass_that_panics_ends_its_requests_and_the_engine_goes_on() {
    let engine = engine(8, EngineLimits::default());
    for _ in 0..2 {
        let (ended, end) = channel();
        let output = PanicsBetweenLayers { asked: AtomicUsize::new(0), ended };
        engine.submit_to(request(prompt(40, 0), 5), Box::new(output)).expect("it is queued");
        let outcome = end.recv_timeout(LONG).expect("an end");
        assert!(
            matches!(&outcome, Err(LmError::Panicked(message)) if message.contains("between layers")),
            "{outcome:?}"
        );
        assert_no_leak(&engine);
        assert_eq!(answer(&engine, request(prompt(40, 0), 5)).2.prompt, 40);
    }
    assert!(engine.is_alive());
}

/// Panics in the engine's thread.
struct Panics;

impl Output for Panics {
    fn text(&mut self, _: String) {
        panic!("this output fails");
    }
    fn end(&mut self, _: Result<(Finish, TokenUsage), LmError>) {}
    fn is_closed(&self) -> bool {
        false
    }
}

#[test]
fn an_engine_whose_thread_fails_says_so_to_everybody() {
    let engine = engine(8, EngineLimits { max_sequences: 1, ..EngineLimits::default() });
    engine.submit_to(request(prompt(10, 0), 50), Box::new(Panics)).expect("it is queued");
    if let Ok(waiting) = engine.submit(request(prompt(10, 0), 50)) {
        assert!(matches!(waiting.wait(), Err(LmError::Stopped)));
    }
    let began = Instant::now();
    while engine.is_alive() {
        assert!(began.elapsed() < LONG, "the engine lives on");
        std::thread::yield_now();
    }
    assert!(matches!(engine.submit(request(prompt(10, 0), 3)), Err(LmError::Stopped)));
}

/// Takes its time for each piece of text.
struct Slow(Sender<Result<(Finish, TokenUsage), LmError>>);

impl Output for Slow {
    fn text(&mut self, _: String) {
        std::thread::sleep(Duration::from_millis(100));
    }
    fn end(&mut self, outcome: Result<(Finish, TokenUsage), LmError>) {
        let _ = self.0.send(outcome);
    }
    fn is_closed(&self) -> bool {
        false
    }
}

/// Holds the engine's thread between two steps whenever it is told to.
struct Gate {
    is_shut: Arc<AtomicBool>,
    reached: Sender<()>,
    go_on: Receiver<()>,
}

impl Output for Gate {
    fn text(&mut self, _: String) {}
    fn end(&mut self, _: Result<(Finish, TokenUsage), LmError>) {}
    fn is_closed(&self) -> bool {
        if self.is_shut.swap(false, Ordering::SeqCst) {
            let _ = self.reached.send(());
            let _ = self.go_on.recv_timeout(LONG);
        }
        false
    }
}

/// Says when its text begins.
struct Begun(Sender<()>);

impl Output for Begun {
    fn text(&mut self, _: String) {
        let _ = self.0.send(());
    }
    fn end(&mut self, _: Result<(Finish, TokenUsage), LmError>) {}
    fn is_closed(&self) -> bool {
        false
    }
}

#[test]
fn a_short_question_is_not_behind_the_long_prompts_that_were_admitted_before_it() {
    let engine = engine(64, EngineLimits { prompt_rows: 40, mixed_prompt_rows: 40, ..EngineLimits::default() });
    let (is_shut, (reached, has_reached), (release, go_on)) = (Arc::new(AtomicBool::new(true)), channel(), channel());
    // Eight prompts take sixteen steps.
    let long = |index: usize| Request { lane: Lane::Interactive, ..request(prompt(80, 100 * index), 10) };
    let gate = Gate { is_shut: Arc::clone(&is_shut), reached, go_on };
    engine.submit_to(long(0), Box::new(gate)).expect("it is queued");
    let _others: Vec<Generation> = (1..8).map(|index| engine.submit(long(index)).expect("it is queued")).collect();
    // Step by step until all of them are admitted and the first was computed in part.
    let step = |is_first: bool| {
        if !is_first {
            is_shut.store(true, Ordering::SeqCst);
            release.send(()).expect("the engine waits");
        }
        has_reached.recv_timeout(LONG).expect("the engine goes on");
        engine.stats()
    };
    let mut stats = step(true);
    while stats.running < 8 || stats.prompt_tokens == 0 {
        stats = step(false);
    }
    assert!(stats.prompt_tokens <= 80, "{stats:?}");
    let (begun, has_begun) = channel();
    // Text begins with a quotation mark as its first token.
    let text = Grammar::from_schema(&json!({"type": "string", "minLength": 3})).expect("it is supported");
    let short = Request { owner: 2, grammar: Some(Arc::new(text)), ..long(9) };
    // No shorter, or it would count as an answer.
    let short = Request { prompt: prompt(40, 7), ..short };
    engine.submit_to(short, Box::new(Begun(begun))).expect("it is queued");
    let before = stats.steps;
    while has_begun.try_recv().is_err() {
        stats = step(false);
        // Two steps from when it is received; it may miss the one that comes first, and what the engine says is a step old.
        assert!(stats.steps <= before + 4, "{} steps without an answer", stats.steps - before);
    }
    drop(release);
}

#[test]
fn dropping_the_engine_ends_its_requests() {
    let engine = engine(8, EngineLimits { max_sequences: 1, ..EngineLimits::default() });
    let (ended, ends) = channel();
    // All of them would take a minute.
    for index in 0..20 {
        engine.submit_to(request(prompt(30, index), 60), Box::new(Slow(ended.clone()))).expect("it is queued");
    }
    drop((engine, ended));
    let outcomes: Vec<_> = ends.try_iter().collect();
    assert_eq!(outcomes.len(), 20, "each has an end");
    assert!(outcomes.iter().any(|outcome| matches!(outcome, Err(LmError::Stopped))), "{outcomes:?}");
}

#[test]
fn answers_come_beside_foreground_work_that_never_ends() {
    let compute = Compute::new(2, Isa::best());
    let model = Model::from_file(&compute, &SmallModel::new(QWEN2).file()).expect("the small model loads");
    let engine = Engine::start(model, EngineLimits::default()).expect("it starts");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                compute.parallel_for(2, |_, _| std::thread::sleep(Duration::from_micros(100)));
            }
        });
        let outcomes: Vec<_> = [Lane::Bulk, Lane::Interactive]
            .map(|lane| engine.submit(Request { lane, ..request(prompt(40, 0), 20) }).and_then(Generation::wait))
            .into_iter()
            .collect();
        is_done.store(true, Ordering::SeqCst);
        for outcome in outcomes {
            assert_eq!(outcome.expect("it is answered").2.prompt, 40);
        }
    });
}

#[test]
fn answers_with_a_schema_are_valid_for_every_seed() {
    let engine = engine(64, EngineLimits::default());
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 6},
            "kind": {"enum": ["left", "right", null]},
            "n": {"type": "integer", "minimum": 0, "maximum": 99},
        },
        "required": ["name", "kind", "n"],
    });
    let grammar = Arc::new(Grammar::from_schema(&schema).expect("it is supported"));
    let request = |seed: u64, max_tokens: usize| Request {
        sampling: Sampling { temperature: 1.0, seed, ..Sampling::default() },
        grammar: Some(Arc::clone(&grammar)),
        ..request(prompt(10, seed as usize), max_tokens)
    };
    let all: Vec<Generation> = (0..200).map(|seed| engine.submit(request(seed, 80)).expect("it is queued")).collect();
    for generation in all {
        let (text, finish, _) = generation.wait().expect("it is answered");
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(finish, Finish::Stop, "{text}");
        assert!(value["name"].as_str().is_some_and(|name| name.chars().count() <= 6), "{text}");
        assert!([json!("left"), json!("right"), Value::Null].contains(&value["kind"]), "{text}");
        assert!(value["n"].as_i64().is_some_and(|n| (0..100).contains(&n)), "{text}");
        assert_eq!(value.as_object().map(serde_json::Map::len), Some(3), "{text}");
    }
    let (text, finish, usage) = answer(&engine, request(1, 15));
    assert_eq!((finish, usage.completion), (Finish::Length, 15));
    assert!(serde_json::from_str::<Value>(&text).is_err(), "{text} is cut");
    assert_no_leak(&engine);
}
