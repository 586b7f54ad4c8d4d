//! Entry point of libFuzzer for the target that `BATON_FUZZ` names. `.ci/fuzz` builds and runs it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::chosen()(input));
