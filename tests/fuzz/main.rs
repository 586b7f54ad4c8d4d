//! One fuzz target, which `BATON_FUZZ` names, under libFuzzer. `.ci/fuzz` builds and runs it.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::chosen()(input));

#[cfg(not(fuzzing))]
fn main() {
    eprintln!("this is built without what chooses inputs; run .ci/fuzz");
    std::process::exit(2);
}
