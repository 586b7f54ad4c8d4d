//! Order of waiting requests, as pure logic without clocks, locks or wakers. If all concurrency slots are in use,
//! requests wait in the queue of their domain. Domains take turns: a slot that becomes free is given to the oldest
//! request of the next domain that has waiting requests.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Maximum numbers of waiting requests. If one of them is reached, new requests are refused. Requests that have begun
/// are always queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) of_domain: usize,
    pub(super) in_all: usize,
}

/// Outcome of requesting a concurrency slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Granting {
    Given,
    Waits,
    /// Too many requests are waiting.
    Refused,
}

/// Number of concurrency slots in use, and the queues of requests that wait for a slot.
#[derive(Debug)]
pub(super) struct Round<T> {
    /// Total number of slots, free or in use.
    places: usize,
    bounds: Bounds,
    taken: usize,
    waiting: usize,
    /// Queues of the domains that have waiting requests. No queue is empty.
    queues: HashMap<Arc<str>, VecDeque<T>>,
    /// Domains with waiting requests, each exactly once. The first domain in this order gets the next free slot.
    turns: VecDeque<Arc<str>>,
}

impl<T> Round<T> {
    pub(super) fn new(places: usize, bounds: Bounds) -> Self {
        Self { places, bounds, taken: 0, waiting: 0, queues: HashMap::new(), turns: VecDeque::new() }
    }

    /// Returns the number of waiting requests.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Requests a slot. If no slot is free, the request is queued, or refused if the queue is full. If `must` is true,
    /// the request is queued even if the queue is full.
    pub(super) fn ask(&mut self, domain: &Arc<str>, who: T, must: bool) -> Granting {
        // While requests are waiting, no slot is free.
        if self.taken < self.places {
            self.taken += 1;
            return Granting::Given;
        }
        let queue = self.queues.get_mut(domain);
        let is_full = |queue: &VecDeque<T>| queue.len() >= self.bounds.of_domain;
        if !must && (self.waiting >= self.bounds.in_all || queue.as_deref().is_some_and(is_full)) {
            return Granting::Refused;
        }
        self.waiting += 1;
        match queue {
            Some(queue) => queue.push_back(who),
            None => {
                self.queues.insert(Arc::clone(domain), VecDeque::from([who]));
                self.turns.push_back(Arc::clone(domain));
            }
        }
        Granting::Waits
    }

    /// Releases a slot. Returns the waiting request that gets this slot; `None` if no request is waiting.
    pub(super) fn give_back(&mut self) -> Option<T> {
        let Some((domain, mut queue)) = self.turns.pop_front().and_then(|domain| self.queues.remove_entry(&domain))
        else {
            self.taken = self.taken.saturating_sub(1);
            return None;
        };
        let who = queue.pop_front();
        self.waiting = self.waiting.saturating_sub(usize::from(who.is_some()));
        if !queue.is_empty() {
            self.turns.push_back(Arc::clone(&domain));
            self.queues.insert(domain, queue);
        }
        who
    }

    /// Removes a waiting request from the queue of its domain. `is_one` must return true only for the request to
    /// remove.
    pub(super) fn leave(&mut self, domain: &Arc<str>, is_one: impl Fn(&T) -> bool) {
        let Some(queue) = self.queues.get_mut(domain) else { return };
        let Some(at) = queue.iter().position(is_one) else { return };
        queue.remove(at);
        self.waiting = self.waiting.saturating_sub(1);
        if queue.is_empty() {
            self.queues.remove(domain);
            self.turns.retain(|other| other != domain);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { of_domain: 4, in_all: 6 };

    fn domains() -> Vec<Arc<str>> {
        ["a", "b", "c", "d"].map(Arc::from).to_vec()
    }

    #[test]
    fn a_free_place_is_granted_immediately() {
        let (mut order, [a, b, ..]) = (Round::new(2, BOUNDS), &domains()[..]) else { unreachable!() };
        assert_eq!([order.ask(a, 1, false), order.ask(a, 2, false)], [Granting::Given; 2]);
        assert_eq!(order.ask(b, 3, false), Granting::Waits);
        assert_eq!((order.give_back(), order.give_back(), order.give_back()), (Some(3), None, None));
        assert_eq!(order.ask(a, 4, false), Granting::Given);
    }

    #[test]
    fn domains_take_turns_in_order_of_arrival() {
        let (mut order, [a, b, c, _]) = (Round::new(1, BOUNDS), &domains()[..]) else { unreachable!() };
        order.ask(a, 0, false);
        for (domain, who) in [(a, 1), (a, 2), (a, 3), (b, 4), (b, 5), (c, 6)] {
            assert_eq!(order.ask(domain, who, false), Granting::Waits);
        }
        let given: Vec<_> = std::iter::from_fn(|| order.give_back()).collect();
        assert_eq!(given, [1, 4, 6, 2, 5, 3]);
    }

    #[test]
    fn a_full_queue_affects_only_new_requests_of_its_domain() {
        let (mut order, [a, b, c, _]) = (Round::new(1, BOUNDS), &domains()[..]) else { unreachable!() };
        order.ask(a, 0, false);
        let asked: Vec<_> = (1..=5).map(|who| order.ask(a, who, false)).collect();
        assert_eq!(asked, [Granting::Waits, Granting::Waits, Granting::Waits, Granting::Waits, Granting::Refused]);
        assert_eq!((order.ask(b, 6, false), order.ask(b, 7, false)), (Granting::Waits, Granting::Waits));
        assert_eq!(order.ask(c, 8, false), Granting::Refused, "as many wait in all as may");
        assert_eq!(
            (order.ask(a, 9, true), order.ask(c, 10, true), order.waiting()),
            (Granting::Waits, Granting::Waits, 8)
        );
    }

    #[test]
    fn a_request_that_leaves_frees_its_slot() {
        let (mut order, [a, b, ..]) = (Round::new(1, BOUNDS), &domains()[..]) else { unreachable!() };
        order.ask(a, 0, false);
        for (domain, who) in [(a, 1), (b, 2), (a, 3)] {
            order.ask(domain, who, false);
        }
        order.leave(a, |who| *who == 1);
        order.leave(b, |who| *who == 2);
        order.leave(b, |who| *who == 2);
        assert_eq!((order.waiting(), order.give_back(), order.give_back(), order.waiting()), (1, Some(3), None, 0));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Ask {
            domain: usize,
            must: bool,
        },
        GiveBack,
        /// Removes the waiting request at this position.
        Leave(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..4_usize, any::<bool>()).prop_map(|(domain, must)| Step::Ask { domain, must }),
            3 => Just(Step::GiveBack),
            1 => (0..8_usize).prop_map(Step::Leave),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        /// Compares the implementation with a model that keeps all waiting requests in one list, in their order of
        /// arrival.
        #[test]
        fn no_place_is_lost_and_no_domain_is_skipped_twice(
            places in 1..4_usize,
            steps in steps(),
        ) {
            let domains = domains();
            let mut order = Round::new(places, BOUNDS);
            let (mut taken, mut waiting): (usize, Vec<(usize, usize)>) = (0, Vec::new());
            // Contains, for each waiting domain, how many places each of the other domains got since the waiting domain
            // began to wait, or since its last turn.
            let mut passed_over: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
            for (who, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Ask { domain, must } => {
                        let of_domain = waiting.iter().filter(|(other, _)| *other == domain).count();
                        let is_full = of_domain >= BOUNDS.of_domain || waiting.len() >= BOUNDS.in_all;
                        let expected = match () {
                            () if taken < places => Granting::Given,
                            () if !must && is_full => Granting::Refused,
                            () => Granting::Waits,
                        };
                        prop_assert_eq!(order.ask(&domains[domain], who, must), expected);
                        match expected {
                            Granting::Given => taken += 1,
                            Granting::Waits => {
                                waiting.push((domain, who));
                                passed_over.entry(domain).or_default();
                            }
                            Granting::Refused => {}
                        }
                    }
                    Step::GiveBack if taken == 0 => {}
                    Step::GiveBack => match order.give_back() {
                        None => {
                            prop_assert!(waiting.is_empty(), "somebody waits while a place is free");
                            taken -= 1;
                        }
                        Some(who) => {
                            let at = waiting.iter().position(|(_, other)| *other == who);
                            prop_assert!(at.is_some(), "who got it did not wait");
                            let (domain, _) = waiting[at.unwrap()];
                            let first = waiting.iter().find(|(other, _)| *other == domain);
                            prop_assert_eq!(first, Some(&(domain, who)), "of a domain the first is first");
                            waiting.remove(at.unwrap());
                            passed_over.remove(&domain);
                            for (other, by) in &mut passed_over {
                                let times = by.entry(domain).or_default();
                                *times += 1;
                                prop_assert!(*times <= 1, "{other} was passed over twice by {domain}");
                            }
                            if waiting.iter().any(|(other, _)| *other == domain) {
                                passed_over.insert(domain, BTreeMap::new());
                            }
                        }
                    },
                    Step::Leave(nth) => {
                        if nth < waiting.len() {
                            let (domain, who) = waiting.remove(nth);
                            order.leave(&domains[domain], |other| *other == who);
                            if !waiting.iter().any(|(other, _)| *other == domain) {
                                passed_over.remove(&domain);
                            }
                        }
                    }
                }
                prop_assert_eq!((order.taken, order.waiting()), (taken, waiting.len()));
                prop_assert!(order.taken <= places && (order.taken == places || waiting.is_empty()));
                prop_assert_eq!(order.queues.len(), order.turns.len());
            }
        }
    }
}
