//! Everything above devices, on the device that is the CPU, against the plain float32 network and the CPU's backend.

use hark_cuda::plain::PlainDevice;
use hark_cuda::{GpuBackend, GpuOptions, Precision};

mod network;

fn load(truth: &network::Truth, rows: usize, limit: u64) -> Result<GpuBackend<PlainDevice>, hark_cuda::LoadError> {
    load_with(truth, rows, limit, Precision::Bf16)
}

fn load_with(
    truth: &network::Truth,
    rows: usize,
    limit: u64,
    precision: Precision,
) -> Result<GpuBackend<PlainDevice>, hark_cuda::LoadError> {
    let device = PlainDevice::with_limit(limit);
    let options = GpuOptions { slots: Some(4), rows, encode_at_once: 2, precision };
    GpuBackend::load(device, &truth.checkpoint, truth.tokens.clone(), options)
}

#[test]
fn numbers_in_e4m3_take_less_memory_and_change_the_logits_little() {
    use hark_whisper::backend::Backend;
    let truth = network::Truth::small();
    let most = |backend: &GpuBackend<PlainDevice>| backend.memory().most - backend.memory().fixed;
    let exact = load(&truth, 3, 0).expect("a small network");
    for (precision, limit) in [(Precision::Fp8Windows, 0.2), (Precision::Fp8, 0.4)] {
        let mut backend = load_with(&truth, 3, 0, precision).expect("a small network");
        assert!(most(&backend) < most(&exact));
        network::check_steps(&truth, &mut backend, limit);
        network::check_alignment(&truth, &mut backend, 0.3);
    }
}

#[test]
fn prompts_single_tokens_and_beams_give_the_logits_of_the_plain_network() {
    let truth = network::Truth::small();
    let mut backend = load(&truth, 3, 0).expect("a small network");
    network::check_steps(&truth, &mut backend, 0.08);
}

#[test]
fn answers_follow_the_rules_as_those_of_the_cpu_do() {
    let truth = network::Truth::small();
    let mut backend = load(&truth, 3, 0).expect("a small network");
    network::check_answers(&truth, &mut backend);
}

#[test]
fn alignment_scores_are_those_of_the_plain_network() {
    let truth = network::Truth::small();
    let mut backend = load(&truth, 3, 0).expect("a small network");
    network::check_alignment(&truth, &mut backend, 0.05);
    network::check_agreement(&truth, &mut backend, 1e-3);
}

#[test]
fn what_does_not_fit_is_refused_and_memory_is_given_back() {
    use hark_whisper::backend::Backend;
    let truth = network::Truth::small();
    let needed = load(&truth, 3, 0).expect("a small network").memory();
    assert!(load(&truth, 3, needed.fixed).is_err(), "no slot fits beside the workspace");
    let mut backend = load(&truth, 3, needed.most * 2).expect("twice as much as is needed");
    assert!(backend.slots() == 4 && backend.capacity() == 4);
    network::encode(&truth, &mut backend, &[(0, 0), (3, 1)]);
    backend.trim().expect("it trims");
    assert!(backend.step(&[network::entry(0, 0, 0, truth.start)]).is_err(), "the window is gone");
}

#[test]
fn without_alignment_heads_or_with_too_many_their_agreement_is_left_to_the_cpu() {
    use hark_whisper::backend::{AlignmentRequest, Backend};
    for heads in [0, 200] {
        let mut truth = network::Truth::small();
        truth.checkpoint.alignment_heads = vec![(0, 0); heads];
        let mut backend = load(&truth, 3, 0).expect("a small network");
        network::encode(&truth, &mut backend, &[(0, 0)]);
        let tokens = [truth.start, 300, 400];
        let requests = [AlignmentRequest { slot: 0, tokens: &tokens, first: 0, frames: 9 }];
        assert!(backend.agree(&requests, &[1]).expect("no failure").is_none());
        assert_eq!(backend.align(&requests).expect("it aligns")[0].heads, heads);
    }
}

#[test]
fn precisions_are_named() {
    let parse = |text: &str| text.parse::<Precision>();
    assert_eq!((parse("bf16"), parse("fp8")), (Ok(Precision::Bf16), Ok(Precision::Fp8)));
    assert_eq!(parse("fp8-windows"), Ok(Precision::default()));
    assert!(parse("FP8").is_err() && parse("").is_err());
}
