//! Test of the flow without a service.

use std::collections::BTreeMap;

use baton_decider_kit::flow::Flow;
use baton_decider_kit::testing::{TestService, Work, replay};

use crate::flow::{Filled, Screen, order};

fn filled(screen: &str, name: &str, value: &str) -> Filled {
    let fields = BTreeMap::from([(name.to_owned(), value.to_owned())]);
    Filled { screen: screen.to_owned(), fields }
}

#[test]
fn an_order_takes_each_screen_once_in_order() {
    let mut service = TestService::new();
    service.decider("order-page", Flow::new(order));
    service.activity("look-up-address", |call| match call.input::<String>().as_str() {
        "nowhere" => Work::failure("unknown-address", &"There is no such place."),
        street => Work::success(&street),
    });
    service.start("order-page", "o", &());
    service.run_until_idle();
    let mut submit = |screen, name, value| service.update("o", "submit", &filled(screen, name, value));
    assert_eq!(submit("cart", "pieces", "none").rejected(), "incomplete");
    assert_eq!(submit("address", "street", "here").rejected(), "another-screen");
    assert_eq!(submit("cart", "pieces", "2").result::<Screen>(), Screen::Address);
    assert_eq!(submit("cart", "pieces", "3").rejected(), "another-screen");
    submit("address", "street", "nowhere");
    let payment = Screen::Payment { to: "here".to_owned(), cents: 2_500 };
    assert_eq!(submit("address", "street", "here").result::<Screen>(), payment);
    let thanks = Screen::Thanks { to: "here".to_owned(), cents: 2_500 };
    assert_eq!(submit("payment", "card", "4111").result::<Screen>(), thanks);
    assert_eq!(service.finish("o").result::<Screen>(), thanks);
    replay(&Flow::new(order), &serde_json::to_string(service.history("o")).unwrap()).unwrap();
}
