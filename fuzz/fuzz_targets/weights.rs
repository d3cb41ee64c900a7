#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hark_fuzz::weights(data));
