//! Tests `baton-bench` without a `baton` in its directory.

use std::process::Command;

#[test]
fn without_the_service_it_explains_how_to_build_it() {
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("baton-bench");
    std::fs::copy(env!("CARGO_BIN_EXE_baton-bench"), &alone).unwrap();
    for args in [&[][..], &["turns"], &["open"], &["queries"], &["idle"], &["swf"], &["children"], &["fair"]] {
        let output = Command::new(&alone).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let says_how = said.contains("baton does not exist") && said.contains("-p baton-service --bin baton");
        assert!(says_how && output.status.code() == Some(1), "{args:?}: {said}");
    }
}
