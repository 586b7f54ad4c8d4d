//! One fuzz target, which `BATON_FUZZ` names, under libFuzzer. `.ci/fuzz` builds and runs it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::chosen()(input));
