use super::*;
use crate::check::Rule;
use crate::{Command, Start, Transition};

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

/// Returns the history of a terminated run that has received this number of signals.
fn closed(signals: usize, input: Option<&Payload>) -> Vec<Event> {
    let mut events = open(signals, input);
    let mut transition = Transition::of(Run::replay(&events).unwrap());
    let terminate = Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None };
    transition.admit(&terminate, now()).unwrap();
    events.extend_from_slice(transition.events());
    events
}

fn open(signals: usize, input: Option<&Payload>) -> Vec<Event> {
    let mut transition = Transition::start(&Start::new("w", "t", "l"), Uuid::from_u128(7), now()).unwrap();
    for _ in 0..signals {
        let (name, input) = ("s".to_owned(), input.cloned());
        transition.admit(&Command::Signal { name, input, identity: None, key: None, if_version: None }, now()).unwrap();
    }
    transition.into_parts().1
}

/// Changes a valid history, and returns the fault with which its import is refused.
fn refused(change: impl FnOnce(&mut Vec<Event>)) -> ImportFault {
    let mut events = closed(2, None);
    change(&mut events);
    ImportedRun::read(events, now()).unwrap_err()
}

fn broken(change: impl FnOnce(&mut Vec<Event>)) -> (EventId, Rule) {
    match refused(change) {
        ImportFault::Broken(Violation { event_id, rule, .. }) => (event_id, rule),
        other => panic!("{other}"),
    }
}

#[test]
fn an_imported_run_equals_the_fold_of_its_history() {
    let events = closed(2, None);
    let imported = ImportedRun::read(events.clone(), now()).unwrap();
    assert_eq!((imported.workflow_id(), imported.run_id()), ("w", Uuid::from_u128(7)));
    assert_eq!((imported.run().closed_at, imported.events()), (Some(now()), &events[..]));
}

#[test]
fn an_import_that_breaks_a_rule_names_event_and_rule() {
    assert_eq!(refused(Vec::clear), ImportFault::Empty);
    assert_eq!(broken(|events| drop(events.remove(3))), (5, Rule::Ids));
    assert_eq!(broken(|events| drop(events.remove(0))), (2, Rule::Ids));
    assert_eq!(broken(|events| events.swap(2, 3)), (4, Rule::Ids));
    assert_eq!(
        broken(|events| {
            events.remove(0);
            for (event, id) in events.iter_mut().zip(1..) {
                event.id = id;
            }
        }),
        (1, Rule::Beginning)
    );
    assert_eq!(broken(|events| events[2].timestamp = Timestamp::from_millis(1)), (3, Rule::Time));
    assert_eq!(
        broken(|events| {
            let more = Event { id: 6, ..events[3].clone() };
            events.push(more);
        }),
        (6, Rule::NothingAfterClose)
    );
}

#[test]
fn an_import_with_unknown_members_is_refused() {
    let texts: Vec<_> = closed(1, None).iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    let read = |texts: &[String]| ImportedRun::from_json(texts.iter().map(String::as_str), now());
    assert_eq!(read(&texts).unwrap().events(), closed(1, None));
    let mut spaced = texts.clone();
    spaced[2] = spaced[2].replace(',', " ,\t").replace("\":", "\" : ");
    assert!(read(&spaced).is_ok(), "{}", spaced[2]);
    let mut newer = texts.clone();
    newer[2] = newer[2].replace('}', r#","later":1}"#);
    assert_eq!(read(&newer).unwrap_err(), ImportFault::Unknown { position: 3, member: "later".to_owned() });
    let mut cut = texts;
    cut[3].pop();
    assert!(matches!(read(&cut).unwrap_err(), ImportFault::Unreadable { position: 4, .. }));
}

/// Returns the same JSON with additional white space inside and around payloads.
fn spaced(text: &str) -> String {
    text.replace("\":", "\" :\n\t").replace(',', "\r\n, ").replace('{', "{ ")
}

#[test]
fn payloads_are_imported_byte_for_byte() {
    for text in [
        r#"{"a":1,"a":2}"#,
        r#"["\ud800","\udc00\ud800","\u00e9\/"]"#,
        r#"{"\ud800":"\ud800","n":-0}"#,
        "[1.0,-0,9007199254740993,1e2,123456789012345678901234567890]",
        "{\r\n\t\"a\" : [ 1.50,\n2 ] }",
    ] {
        let payload = Payload::from_json(text).unwrap();
        let events = closed(1, Some(&payload));
        let texts: Vec<_> = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        let around = |text: &String| text.replacen(r#""name":"#, "\"name\" :\n ", 1);
        for texts in [texts.clone(), texts.iter().map(around).collect()] {
            let imported = ImportedRun::from_json(texts.iter().map(String::as_str), now()).unwrap();
            assert_eq!(imported.events()[2].kind.payload().and_then(Payload::text), Some(text));
        }
        let respaced: Vec<_> = texts.iter().map(|text| spaced(text)).collect();
        let imported = ImportedRun::from_json(respaced.iter().map(String::as_str), now()).unwrap();
        assert!(imported.has_events_at(0, &events), "{text}");
        assert!(imported.has_events_at(2, &events[2..3]) && !imported.has_events_at(1, &events[2..3]), "{text}");
        assert!(!imported.has_events_at(1, &events), "the run has fewer events");
    }
}

#[test]
fn different_content_is_a_different_history() {
    let with = |text: &str| closed(1, Some(&Payload::from_json(text).unwrap()));
    for (one, other) in [
        ("1", "1.0"),
        ("0", "-0"),
        ("9007199254740992", "9007199254740993"),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#""\ud800""#, r#""\ud801""#),
        (r#""\ud800""#, "\"\u{fffd}\""),
        (r#"" ""#, r#""""#),
    ] {
        let imported = ImportedRun::read(with(one), now()).unwrap();
        assert!(imported.has_events_at(0, &with(one)) && !imported.has_events_at(0, &with(other)), "{one}, {other}");
    }
}

#[test]
fn an_open_run_is_refused() {
    assert_eq!(refused(|events| drop(events.pop())), ImportFault::Open { event_id: 4 });
}

#[test]
fn an_import_from_the_future_is_refused() {
    let ahead = |by: Duration| refused_at(Timestamp::from_millis(now().as_millis() - by.as_millis()));
    assert_eq!(ahead(limits::IMPORTED_AHEAD_MAX), None);
    let more = Duration::from_millis(limits::IMPORTED_AHEAD_MAX.as_millis() + 1);
    assert!(matches!(ahead(more), Some(ImportFault::Future { event_id: 5, .. })));
}

fn refused_at(now: Timestamp) -> Option<ImportFault> {
    ImportedRun::read(closed(2, None), now).err()
}

#[test]
fn imported_names_and_payloads_are_limited() {
    let started = |change: fn(&mut WorkflowStarted)| {
        move |events: &mut Vec<Event>| match &mut events[0].kind {
            EventKind::WorkflowStarted(it) => change(it),
            other => panic!("{}", other.name()),
        }
    };
    let field = |fault: ImportFault| match fault {
        ImportFault::Field { event_id, fault: Fault::Invalid { field, .. } | Fault::TooLarge { field, .. } } => {
            (event_id, field)
        }
        other => panic!("{other}"),
    };
    let fault = |change| field(refused(started(change)));
    assert_eq!(fault(|it| it.workflow_id = String::new()), (1, "workflowId".to_owned()));
    assert_eq!(fault(|it| it.workflow_type = "x".repeat(limits::TYPE_CHARS_MAX + 1)), (1, "workflowType".to_owned()));
    assert_eq!(fault(|it| it.task_list = String::new()), (1, "taskList".to_owned()));
    assert_eq!(fault(|it| it.tags = vec!["x".to_owned(); limits::TAGS_MAX + 1]), (1, "tags".to_owned()));
    let text = |bytes: usize| Payload::of(&"x".repeat(bytes - 2)).unwrap();
    assert!(ImportedRun::read(closed(1, Some(&text(limits::PAYLOAD_BYTES_MAX))), now()).is_ok());
    let mut events = closed(1, None);
    if let EventKind::Signal(signal) = &mut events[2].kind {
        signal.input = Some(text(limits::PAYLOAD_BYTES_MAX + 1));
    }
    assert_eq!(field(ImportedRun::read(events, now()).unwrap_err()), (3, "payload".to_owned()));
}

#[test]
fn an_import_above_the_size_limit_is_refused() {
    let large = Payload::of(&"x".repeat(limits::PAYLOAD_BYTES_MAX - 2)).unwrap();
    let signals = limits::IMPORTED_BYTES_MAX / limits::PAYLOAD_BYTES_MAX - 1;
    let events = closed(signals, Some(&large));
    let so_far: usize = events.iter().map(|event| EVENT_BYTES + event.kind.payload().map_or(0, Payload::len)).sum();
    let rest = limits::IMPORTED_BYTES_MAX - so_far;
    let with = |bytes: usize| {
        let mut events = events.clone();
        if let Some(EventKind::WorkflowTerminated(it)) = events.last_mut().map(|event| &mut event.kind) {
            it.details = Some(Payload::of(&"x".repeat(bytes - 2)).unwrap());
        }
        ImportedRun::read(events, now())
    };
    assert!(with(rest).is_ok());
    let (found, max) = (limits::IMPORTED_BYTES_MAX + 1, limits::IMPORTED_BYTES_MAX);
    assert_eq!(with(rest + 1).unwrap_err(), ImportFault::TooLarge { found, max });
}

#[test]
fn an_imported_event_above_the_length_limit_is_refused() {
    let started = serde_json::to_string(&closed(0, None)[0]).unwrap();
    let long = |bytes: usize| format!("{}{}", " ".repeat(bytes - started.len()), started);
    let max = limits::IMPORTED_EVENT_BYTES_MAX;
    assert!(read_event(&long(max), 0).is_ok());
    let problem = format!("it has {} bytes, at most {max} are allowed", max + 1);
    assert_eq!(read_event(&long(max + 1), 0).unwrap_err(), ImportFault::Unreadable { position: 0, problem });
}

#[test]
fn an_imported_run_is_kept_for_at_least_a_week() {
    let imported = ImportedRun::read(closed(0, None), now()).unwrap();
    let own = now().plus(imported.run().started.retention);
    assert_eq!(imported.kept_until(now()), own);
    let late = own.plus(Duration::from_days(1_000));
    assert_eq!(imported.kept_until(late), late.plus(limits::IMPORTED_KEPT_MIN));
}

#[test]
fn imported_activity_names_are_checked_and_not_stored() {
    use crate::event::{activity_names, name_activities};
    use crate::scene::{scene, schedule, terminate};
    let stored = scene().decide([schedule("a")]).takes("a").succeeds("a").then(&terminate()).events;
    let mut named = stored.clone();
    name_activities(&mut named, &activity_names(&stored));
    assert_ne!(named, stored);
    let texts: Vec<String> = named.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    let imported = ImportedRun::from_json(texts.iter().map(String::as_str), now()).unwrap();
    assert_eq!(imported.events(), stored);
    let wrong: Vec<String> =
        texts.iter().map(|text| text.replace("\"activityId\":\"a\"", "\"activityId\":\"b\"")).collect();
    let mixed =
        texts.iter().zip(&wrong).map(|(text, wrong)| if text.contains("ActivitySuccess") { wrong } else { text });
    match ImportedRun::from_json(mixed.map(String::as_str), now()).unwrap_err() {
        ImportFault::Field { fault: Fault::Invalid { field, problem }, .. } => {
            assert_eq!(field, "activityId");
            assert!(problem.contains("is `b`") && problem.contains("has `a`"), "{problem}");
        }
        other => panic!("{other}"),
    }
}
