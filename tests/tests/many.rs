//! Requests of many nodes to their table and to each other; the source of the numbers in docs/scale.md.
//!
//! `BATON_NODES=50,100,200 cargo test --profile profiling -p baton-tests --test many -- --nocapture`

use simulation::many::{Many, Pace, many};

fn line(what: &str, pace: &Pace) -> String {
    let Pace { reads, writes, lost, read_units, write_units, calls } = pace;
    format!("  {what:<18} {reads:>8.2} {writes:>8.2} {lost:>8.2} {read_units:>11.2} {write_units:>12.2} {calls:>8.2}")
}

#[test]
fn nodes_ask_for_little() {
    let sizes = std::env::var("BATON_NODES").unwrap_or_else(|_| "2,8,24".to_owned());
    println!(
        "  {:<18} {:>8} {:>8} {:>8} {:>11} {:>12} {:>8}",
        "", "reads", "writes", "lost", "read units", "write units", "calls"
    );
    for nodes in sizes.split(',').map(|size| size.parse().expect("a number of nodes")) {
        let Many { idle, missed_alive, working, missed_after, .. } = many(nodes, 7);
        println!(
            "{nodes} nodes: one that died was missed after {missed_after:?}, one that had not {missed_alive} times"
        );
        println!("{}", line("a node and second", &idle));
        println!("{}", line("a workflow", &working));
        // Limits as in docs/scale.md. A node writes one unit per heartbeat. It reads the due index, and one unit for
        // each eight nodes. No live node is considered dead.
        let records = f64::from(u32::try_from(nodes.div_ceil(8)).unwrap_or(u32::MAX));
        assert!(idle.write_units < 1.5 && idle.lost < 0.5, "{nodes} nodes: {idle:?}");
        assert!(idle.read_units < 2.5 + records, "{nodes} nodes: {idle:?}");
        assert!(working.calls < 1.5, "{nodes} nodes: {working:?}");
        assert_eq!(missed_alive, 0, "{nodes} nodes");
        assert!(missed_after.is_some_and(|after| after < std::time::Duration::from_secs(5)), "{nodes} nodes");
    }
}
