//! Every input of the corpus does no harm, without libFuzzer. What fuzzing found is in it.

use std::path::Path;

#[test]
fn every_input_of_the_corpus_does_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in fuzz::TARGETS {
        let mut inputs: Vec<_> =
            std::fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{name} begins with something");
        for input in inputs {
            println!("{}", input.display());
            target(&std::fs::read(input).unwrap());
        }
    }
}
