use uuid::Uuid;

use super::*;
use crate::event::Origin;
use crate::limits;
use crate::time::{Duration, Timestamp};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn signal(event_id: u64, to: &str) -> Effect {
    Effect::new(event_id, EffectKind::Signal, to)
}

fn owing(effects: &[Effect]) -> Outbox {
    let mut outbox = Outbox::default();
    for effect in effects {
        outbox.add(*effect, at(0));
    }
    outbox
}

#[test]
fn effects_on_one_run_are_sequential_and_others_parallel() {
    let (first, second, other) = (signal(5, "a"), signal(6, "a"), signal(7, "b"));
    let mut outbox = owing(&[first, second, other]);
    assert_eq!(outbox.ready().collect::<Vec<_>>(), [first, other]);
    let before = outbox.clone();
    assert!(outbox.remove(None, 5, EffectKind::Signal));
    assert_eq!(outbox.newly_ready(&before), [second]);
    assert!(!outbox.owes(&first) && outbox.owes(&second));
    assert!(outbox.start_round(at(1)));
    assert!(!outbox.owes_in(0, &second) && outbox.owes_in(1, &second), "only the newest round delivers");
    assert!(!outbox.remove(None, 5, EffectKind::Signal), "removed before");
}

#[test]
fn delivery_rounds_back_off_until_a_new_effect() {
    let mut outbox = owing(&[signal(5, "a")]);
    let first = limits::EFFECT_WAIT_FIRST;
    assert_eq!(outbox.next_at(), Some(at(0).plus(first)));
    assert!(outbox.start_round(Timestamp::from_millis(first.as_millis() - 1)));
    assert_eq!(
        (outbox.next_at(), outbox.round()),
        (Some(at(0).plus(first)), 1),
        "another round, but no wait has ended"
    );
    let mut waits = Vec::new();
    for _ in 0..6 {
        let now = outbox.next_at().unwrap();
        assert!(outbox.start_round(now));
        waits.push(outbox.next_at().unwrap().since(now));
    }
    let seconds = |waits: &[u64]| waits.iter().map(|seconds| Duration::from_secs(*seconds)).collect::<Vec<_>>();
    assert_eq!(waits, seconds(&[30, 120, 480, 1_920, 3_600, 3_600]));
    let now = outbox.next_at().unwrap();
    outbox.add(signal(9, "b"), now.plus(Duration::from_secs(0)));
    assert!(outbox.start_round(now));
    assert_eq!(outbox.next_at(), Some(now.plus(first)), "restarted");
    outbox.remove(None, 5, EffectKind::Signal);
    outbox.remove(None, 9, EffectKind::Signal);
    assert!(!outbox.start_round(now), "no effect is pending");
    assert_eq!((outbox.next_at(), outbox), (None, Outbox::default()));
}

#[test]
fn empty_links_take_no_space_and_parts_can_be_decoded() {
    #[derive(Debug, Default, PartialEq, Encode, Decode)]
    struct Body {
        #[n(0)]
        first: u8,
        #[cbor(n(1), skip_if = "Links::is_empty")]
        links: Links,
    }
    #[derive(Encode)]
    struct Before {
        #[n(0)]
        first: u8,
    }
    let bytes = minicbor::to_vec(Body { first: 1, links: Links::default() }).unwrap();
    assert_eq!(bytes, minicbor::to_vec(Before { first: 1 }).unwrap());
    assert_eq!(minicbor::decode::<Body>(&bytes).unwrap().links, Links::default());
    let mut seen = TakenEffects::default();
    let origin = Origin { workflow_id: "a".to_owned(), run_id: Uuid::from_u128(3), event_id: 9 };
    seen.add(SeenOrigin { origin: origin.clone(), event_id: 4, run_id: Uuid::from_u128(5) });
    for (outbox, seen) in [
        (owing(&[signal(5, "a")]), TakenEffects::default()),
        (Outbox::default(), seen.clone()),
        (owing(&[signal(5, "a")]), seen.clone()),
    ] {
        let body = Body { first: 1, links: Links { outbox, seen, ..Links::default() } };
        assert_eq!(minicbor::decode::<Body>(&minicbor::to_vec(&body).unwrap()).unwrap(), body);
    }
    assert_eq!(seen.find(&origin).map(|seen| seen.event_id), Some(4));
    assert_eq!(seen.find(&Origin { event_id: 10, ..origin }), None);
}
