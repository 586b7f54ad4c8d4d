//! Tests of a feed with many items, which many runs read one after the other.

use std::cell::RefCell;
use std::rc::Rc;

use baton_decider_kit::Duration;
use baton_decider_kit::flow::Flow;
use baton_decider_kit::testing::{TestService, Work};

use crate::flow::{Feed, Found, LOOKS, poller};

/// Number of polls until the feed ends. A third of the polls finds no items.
const LOOKS_IN_ALL: usize = 1_000;

#[test]
fn short_runs_read_a_feed_in_order_to_its_end() {
    let mut service = TestService::new();
    service.decider("poller", Flow::new(poller));
    let looks = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&looks);
    service.activity("look", move |call| {
        let feed: Feed = call.input();
        let mut looks = seen.borrow_mut();
        looks.push(call.nth);
        let items = if looks.len() % 3 == 0 { Vec::new() } else { vec![feed.next.to_string()] };
        Work::success(&Found { items, is_last: looks.len() == LOOKS_IN_ALL })
    });
    let taken = Rc::new(RefCell::new(Vec::new()));
    let takes = Rc::clone(&taken);
    service.activity("take", move |call| {
        takes.borrow_mut().push(call.input::<String>());
        Work::success(&())
    });
    let feed = Feed { name: "feed".to_owned(), next: 0, every: Duration::from_secs(3_600) };
    service.start("poller", "1", &feed);
    let read: u64 = service.finish("1").result();
    let expected: Vec<String> = (0..read).map(|number| number.to_string()).collect();
    assert_eq!((read, &*taken.borrow()), (667, &expected), "each item once, in order");
    let looks = looks.borrow();
    assert_eq!(looks.iter().max(), Some(&LOOKS));
    assert_eq!(looks.iter().filter(|nth| **nth == 1).count(), LOOKS_IN_ALL / LOOKS, "runs");
    assert!(service.history("1").len() < 400, "a poll and an item take about twenty events with their turns");
}
