//! Limits of task lists from the configuration.

use std::collections::BTreeMap;

use engine::list_settings::{DomainLists, LISTS_WITH_SETTINGS_MAX, ListPause, ListSettings, ListSide, TaskLimits};
use engine::{Domain, Refusal};

use crate::elsewhere::nodes;
use crate::members::pass;
use crate::{DOMAIN, Service};

fn side(name: &str) -> ListSide {
    ListSide { name: name.to_owned(), is_decider: true }
}

fn running(max: u32) -> ListSettings {
    let limits = TaskLimits { max_running: Some(max), rate: None };
    ListSettings { limits, ..ListSettings::default() }
}

fn lists(names: &[&str], max: u32) -> DomainLists {
    DomainLists { lists: names.iter().map(|name| (side(name), running(max))).collect(), ..DomainLists::default() }
}

fn configure(service: &Service, domain: &str, lists: DomainLists) {
    service.engine.lists().configure(BTreeMap::from([(domain.to_owned(), lists)]));
}

async fn stored(service: &Service, domain: &str) -> DomainLists {
    service.engine.lists().settings(domain).await.unwrap()
}

fn not_stored(service: &Service) -> usize {
    service.engine.lists().not_stored().len()
}

async fn create(service: &Service, domain: &str) {
    let domain = Domain::new(domain, history::Duration::from_secs(60), service.engine.clock().now());
    service.engine.lists().create_domain(domain).await.unwrap();
}

#[tokio::test]
async fn equal_configured_limits_are_not_written_again() {
    let service = Service::open().await;
    let (own, other) = (running(3), running(4));
    service.engine.lists().set_list(DOMAIN, &side("other"), &other).await.unwrap();
    service.engine.lists().pause_list(DOMAIN, &side("orders"), &ListPause::default()).await.unwrap();
    configure(&service, DOMAIN, lists(&["orders"], 3));
    assert_eq!(not_stored(&service), 1);
    service.engine.lists().store_configured(DOMAIN).await.unwrap();
    let settings = stored(&service, DOMAIN).await;
    let paused = ListSettings { paused: Some(ListPause::default()), ..own };
    assert_eq!((&settings.lists[&side("orders")], &settings.lists[&side("other")]), (&paused, &other));
    assert_eq!(not_stored(&service), 0);
    let before = service.store.stats().commits;
    configure(&service, DOMAIN, lists(&["orders"], 3));
    service.engine.lists().store_configured(DOMAIN).await.unwrap();
    assert_eq!(service.store.stats().commits, before);
}

#[tokio::test]
async fn a_domain_that_is_created_again_gets_its_configured_limits() {
    let service = Service::open().await;
    configure(&service, "shop", lists(&["orders"], 3));
    let refused = service.engine.lists().store_configured("shop").await.unwrap_err();
    assert!(matches!(refused, Refusal::UnknownDomain { .. }), "{refused}");
    for _ in 0..2 {
        create(&service, "shop").await;
        assert_eq!((stored(&service, "shop").await, not_stored(&service)), (lists(&["orders"], 3), 0));
        service.engine.registry().deprecate_domain("shop").await.unwrap();
        service.clock.advance(history::Duration::from_secs(60));
        service.engine.lists().delete_domain("shop").await.unwrap();
        assert_eq!(not_stored(&service), 1);
    }
}

#[tokio::test]
async fn too_many_configured_lists_are_refused_as_a_whole() {
    let service = Service::open().await;
    service.engine.lists().set_list(DOMAIN, &side("other"), &running(4)).await.unwrap();
    let names: Vec<String> = (0..LISTS_WITH_SETTINGS_MAX).map(|number| format!("l{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    configure(&service, DOMAIN, lists(&names, 3));
    let refused = service.engine.lists().store_configured(DOMAIN).await.unwrap_err();
    assert!(matches!(refused, Refusal::LimitExceeded { max: LISTS_WITH_SETTINGS_MAX, .. }), "{refused}");
    assert_eq!((stored(&service, DOMAIN).await, not_stored(&service)), (lists(&["other"], 4), 1));
    configure(&service, DOMAIN, lists(names.split_first().unwrap().1, 3));
    service.engine.lists().store_configured(DOMAIN).await.unwrap();
    assert_eq!(stored(&service, DOMAIN).await.lists.len(), LISTS_WITH_SETTINGS_MAX);
}

#[tokio::test(start_paused = true)]
async fn the_last_node_that_stores_its_configuration_wins() {
    let ([one, two], _) = nodes::<2>().await;
    configure(&one, DOMAIN, lists(&["orders"], 1));
    configure(&two, DOMAIN, lists(&["orders"], 2));
    for (node, max) in [(&one, 1), (&two, 2)] {
        node.engine.lists().store_configured(DOMAIN).await.unwrap();
        pass(node, 5).await;
        let line = format!("baton_list_max_running{{domain=\"default\",kind=\"decider\",list=\"orders\"}} {max}\n");
        assert!([&one, &two].iter().any(|node| node.engine.render_metrics().contains(&line)), "{max}");
    }
    // A node that creates a domain without limits in its configuration leaves them to the other nodes.
    configure(&two, "shop", lists(&["orders"], 2));
    create(&one, "shop").await;
    assert_eq!((stored(&two, "shop").await, not_stored(&two)), (DomainLists::default(), 1));
    two.engine.lists().store_configured("shop").await.unwrap();
    assert_eq!((stored(&one, "shop").await, not_stored(&two)), (lists(&["orders"], 2), 0));
}
