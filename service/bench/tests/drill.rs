//! A short fault drill for every change: real nodes over a real engine under load, which are killed, paused and cut
//! off.
//!
//! It is not part of the default tests: `cargo test -p baton-bench --features dynamodb --test drill`, with
//! `BATON_TEST_DYNAMODB` as for `--test dynamodb`. `BATON_DRILL_SEED` repeats an order of failures.

use std::process::{Command, Stdio};

/// Duration of the failures. Our choice: enough for a short and a long absence of a node, and for a pause.
const SECONDS: &str = "26";

/// Maximum time that a run may stand still after a node's death. Source: docs/dynamodb.md, "Drill".
const STANDSTILL_MAX_MS: u64 = 8_000;

#[test]
fn nothing_is_lost_or_repeated_while_nodes_fail() {
    let endpoint = std::env::var("BATON_TEST_DYNAMODB").expect(
        "BATON_TEST_DYNAMODB names no engine; `.ci/dynamodb-local 8000` runs Amazon's (it needs Java 17 and Maven), \
            then \
         BATON_TEST_DYNAMODB=http://127.0.0.1:8000",
    );
    let seed = std::env::var("BATON_DRILL_SEED").unwrap_or_else(|_| "1".to_owned());
    let mut drill = Command::new(env!("CARGO_BIN_EXE_baton-bench"));
    drill.args(["drill", "--json", "--region", "local", "--endpoint-url", &endpoint]);
    drill.args(["--seconds", SECONDS, "--seed", &seed]);
    drill.env("AWS_ACCESS_KEY_ID", "local").env("AWS_SECRET_ACCESS_KEY", "local");
    let output = drill.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    println!("{report}");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let bounds = ["a run continues within 8 s of a node's death", "and within 6 s, except for one in a thousand"];
    assert!(checks.len() == 9 && bounds.iter().all(|bound| checks.iter().any(|check| check["what"] == *bound)));
    for check in checks {
        assert!(check["examined"].as_u64() > Some(0), "seed {seed}: {check}");
        assert_eq!(check["failed"], 0, "seed {seed}: {check}");
    }
    assert!(report["standstillAfterKillMs"].as_u64() <= Some(STANDSTILL_MAX_MS), "seed {seed}: {report}");
    // The drill must have had enough failures and runs.
    for (what, least) in [("kills", 2), ("pauses", 1), ("runs", 10)] {
        assert!(report[what].as_u64() >= Some(least), "{what}: {}", report[what]);
    }
    for trouble in ["throttled", "broken", "stalled", "answersStalled", "answersLost"] {
        assert!(report["troubles"][trouble].as_u64() > Some(0), "{trouble}: {}", report["troubles"]);
    }
}
