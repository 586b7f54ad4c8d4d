use super::*;
use crate::base::admission::{
    BURST_MAX, BYTES_PER_SECOND_MIN, ChargedRequest, Limit, OPEN_RUNS_MAX, REQUESTS_PER_SECOND_MAX, RequestOrigin,
    TASK_LISTS_MAX, WATCHERS_MAX, count_waiting,
};

fn limit(domain: &str) -> Limit {
    Limit { domain: Some(domain.to_owned()), ..Limit::default() }
}

fn limits(limits: Vec<Limit>) -> Arc<Quotas> {
    let quotas = Arc::new(Quotas::default());
    quotas.replace(QuotaLimits::read(limits).unwrap());
    quotas
}

fn of(domain: &str) -> RequestOrigin<'_> {
    RequestOrigin { domain: Some(domain), ..RequestOrigin::default() }
}

#[tokio::test(start_paused = true)]
async fn an_entry_of_ones_own_stands_in_the_place_of_the_one_for_each() {
    let quotas = limits(vec![
        Limit { requests_per_second: Some(1), ..limit("*") },
        Limit { requests_per_second: Some(3), ..limit("shop") },
        limit("free"),
    ]);
    let passed = |domain: &str| (0..5).filter(|_| quotas.admit(of(domain)).is_ok()).count();
    assert_eq!((passed("shop"), passed("a"), passed("b"), passed("free")), (3, 1, 1, 5));
}

#[tokio::test(start_paused = true)]
async fn requests_count_for_credential_and_domain_except_task_answers() {
    let credential = Limit { credential: Some("one".to_owned()), requests_per_second: Some(1), ..Limit::default() };
    let quotas = limits(vec![credential, Limit { requests_per_second: Some(2), ..limit("shop") }]);
    let asking = |credential| RequestOrigin { credential: Some(credential), ..of("shop") };
    assert!(quotas.admit(asking("one")).is_ok());
    let refused = quotas.admit(asking("one")).unwrap_err();
    assert_eq!((refused.kind, refused.max, refused.retry_after()), (LimitKind::Requests, 1, 1));
    assert_eq!(refused.to_string(), "credential `one` has reached its limit of 1 requests-per-second");
    assert!(quotas.admit(asking("two")).is_ok(), "the second of the domain");
    assert_eq!(quotas.admit(asking("two")).unwrap_err().whose, QuotaHolder::domain("shop"));
    assert!(quotas.admit(RequestOrigin { is_of_task: true, ..asking("one") }).is_ok());
}

#[tokio::test(start_paused = true)]
async fn so_many_wait_at_once_whatever_the_limits_become_meanwhile() {
    let with = |watchers| QuotaLimits::read(vec![Limit { watchers: Some(watchers), ..limit("shop") }]).unwrap();
    let quotas = Arc::new(Quotas::default());
    quotas.replace(with(2));
    let waiting = |count: usize| (0..count).map(|_| quotas.admit(of("shop")).unwrap().unwrap()).collect::<Vec<_>>();
    let begin = async |under_way: &ChargedRequest| under_way.during(async { (count_waiting(), count_waiting()) }).await;
    let first = waiting(3);
    assert_eq!(begin(&first[0]).await, (Ok(()), Ok(())), "it counts once");
    assert!(begin(&first[1]).await.0.is_ok());
    assert_eq!(begin(&first[2]).await.0.unwrap_err().kind, LimitKind::Watchers);
    quotas.replace(with(3));
    let more = waiting(2);
    assert!(begin(&more[0]).await.0.is_ok());
    assert!(begin(&more[1]).await.0.is_err(), "those from before still wait");
    drop(first);
    assert!(begin(&more[1]).await.0.is_ok());
    assert!(count_waiting().is_ok(), "nobody's");
}

#[tokio::test(start_paused = true)]
async fn the_use_of_an_unchanged_limit_is_kept() {
    let with = |shop, other| {
        QuotaLimits::read(vec![
            Limit { requests_per_second: Some(shop), ..limit("shop") },
            Limit { requests_per_second: Some(other), ..limit("other") },
        ])
        .unwrap()
    };
    let quotas = Arc::new(Quotas::default());
    quotas.replace(with(1, 1));
    assert!(quotas.admit(of("shop")).is_ok() && quotas.admit(of("other")).is_ok());
    quotas.replace(with(1, 2));
    assert!(quotas.admit(of("shop")).is_err() && quotas.admit(of("other")).is_ok());
    quotas.replace(QuotaLimits::default());
    assert!(quotas.admit(of("shop")).unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn names_beyond_the_maximum_are_counted_together() {
    let quotas = limits(vec![Limit { requests_per_second: Some(1), ..limit("*") }]);
    for number in 0..QUOTAS_KEPT_MAX + 7 {
        let domain = format!("d{number}");
        assert!(quotas.admit(of(&domain)).is_ok() && quotas.admit(of(&domain)).is_err());
    }
    assert!(quotas.in_force.read().unwrap().uses.len() <= QUOTAS_KEPT_MAX);
    let count = |name: &str| {
        let labels = [("limit", "requests-per-second".into()), ("scope", "domain".into()), ("name", name.into())];
        quotas.counts().get_or_create(&labels).get()
    };
    assert_eq!((count("d0"), count("d99"), count("d100")), (1, 1, 0));
    assert!(count("*") >= u64::try_from(QUOTAS_KEPT_MAX - NAMES_COUNTED_MAX).unwrap());
}

#[test]
fn invalid_limits_are_refused_with_the_reason() {
    let credential = |name: &str| Limit { credential: Some(name.to_owned()), ..Limit::default() };
    let rate = |limit: Limit| Limit { requests_per_second: Some(1), ..limit };
    for (entries, says) in [
        (vec![rate(Limit::default())], "[[limits]] must name a `domain` or a `credential`"),
        (vec![rate(Limit { domain: Some("d".to_owned()), ..credential("c") })], "write two entries"),
        (vec![rate(limit(""))], "has an empty name"),
        (vec![limit("d")], "the limits of domain `d` are empty; give at least one of: requests-per-second"),
        (vec![limit("*")], "the limits of domain `*` are empty"),
        (vec![rate(limit("d")), rate(limit("d"))], "there are two [[limits]] of domain `d`"),
        (vec![rate(credential("*")), rate(credential("*"))], "there are two [[limits]] of credential `*`"),
        (
            vec![Limit { requests_per_second: Some(0), ..limit("d") }],
            "`requests-per-second` is 0, expected 1 to 1000000",
        ),
        (vec![Limit { bytes_per_second: Some(65_535), ..limit("d") }], "`bytes-per-second` is 65535"),
        (vec![Limit { open_runs: Some(1), ..credential("c") }], "`open-runs` is only for domains"),
        (vec![Limit { task_lists: Some(1), ..credential("c") }], "`task-lists` is only for domains"),
        (vec![Limit { burst: Some(1), ..limit("d") }], "`burst` requires `requests-per-second`"),
        (vec![Limit { watchers: Some(1_000_001), ..limit("d") }], "`watchers` is 1000001"),
    ] {
        let said = QuotaLimits::read(entries).unwrap_err();
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn limits_at_the_ends_of_their_ranges_are_accepted() {
    type Set = fn(&mut Limit, u64);
    let ranges: [(&str, Set, u64, u64); 6] = [
        ("requests-per-second", |it, value| it.requests_per_second = Some(value), 1, REQUESTS_PER_SECOND_MAX),
        ("burst", |it, value| it.burst = Some(value), 1, BURST_MAX),
        ("bytes-per-second", |it, value| it.bytes_per_second = Some(value), BYTES_PER_SECOND_MIN, 10 << 30),
        ("open-runs", |it, value| it.open_runs = Some(value), 1, OPEN_RUNS_MAX),
        ("task-lists", |it, value| it.task_lists = Some(value), 1, TASK_LISTS_MAX),
        ("watchers", |it, value| it.watchers = Some(value), 1, WATCHERS_MAX),
    ];
    for (name, set, least, most) in ranges {
        let read = |value| {
            let mut it = Limit { requests_per_second: Some(1), ..limit("d") };
            set(&mut it, value);
            QuotaLimits::read(vec![it]).map(drop)
        };
        assert_eq!((read(least), read(most)), (Ok(()), Ok(())), "{name}");
        for value in [least - 1, most + 1] {
            let said = read(value).unwrap_err();
            assert!(said.contains(&format!("`{name}` is {value}")), "{said}");
        }
    }
}
