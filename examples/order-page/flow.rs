//! An order, screen by screen, as a flow: each screen that is posted is an update, and its answer is the next screen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use baton_decider_kit::Rejection;
use baton_decider_kit::flow::{AcceptedUpdate, Context, Failure, Updates};
use serde::{Deserialize, Serialize};

/// What one piece costs.
const CENTS: u32 = 1_250;

/// What a page shows, and asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "screen", rename_all = "kebab-case")]
pub(crate) enum Screen {
    /// How many pieces?
    Cart,
    /// Where to?
    Address,
    /// Which card?
    Payment { to: String, cents: u32 },
    /// That was all.
    Thanks { to: String, cents: u32 },
}

impl Screen {
    /// As forms call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Cart => "cart",
            Self::Address => "address",
            Self::Payment { .. } => "payment",
            Self::Thanks { .. } => "thanks",
        }
    }
}

/// A screen that was filled in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Filled {
    /// Which.
    pub(crate) screen: String,
    /// Its fields.
    pub(crate) fields: BTreeMap<String, String>,
}

impl Filled {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |value| value.trim())
    }

    fn pieces(&self) -> Option<u32> {
        self.field("pieces").parse().ok().filter(|pieces| (1..=10).contains(pieces))
    }

    /// Whether it is acceptable as the screen that is expected.
    fn check(&self, expected: &str) -> Result<(), Rejection> {
        let complaint = match self.screen.as_str() {
            screen if screen != expected => return Err(Rejection::of("another-screen", expected)),
            "cart" if self.pieces().is_none() => "Between 1 and 10 pieces, please.",
            "address" if self.field("street").is_empty() => "Please say where to.",
            "payment" if self.field("card").len() < 4 => "A card has more digits.",
            _ => return Ok(()),
        };
        Err(Rejection::of("incomplete", complaint))
    }
}

/// The screens of an order, and which of them is expected.
struct Screens {
    updates: Updates<Filled>,
    expected: Arc<Mutex<&'static str>>,
}

impl Screens {
    fn new(ctx: &Context) -> Self {
        let expected = Arc::new(Mutex::new(Screen::Cart.name()));
        let shared = Arc::clone(&expected);
        let updates = ctx.updates("submit").validate(move |filled: &Filled| {
            let expected = shared.lock().map_or("", |expected| *expected);
            filled.check(expected)
        });
        Self { updates, expected }
    }

    fn expect(&self, screen: &Screen) {
        if let Ok(mut expected) = self.expected.lock() {
            *expected = screen.name();
        }
    }

    /// Answers a screen with the next.
    fn answer(&self, asked: AcceptedUpdate<Filled>, next: &Screen) {
        self.expect(next);
        asked.done(next);
    }
}

/// An order from its first screen to its last. What it comes to is what was sold.
pub(crate) async fn order(ctx: Context, (): ()) -> Result<Screen, Failure> {
    let mut screens = Screens::new(&ctx);
    let cart = screens.updates.next().await?;
    let cents = cart.input.pieces().unwrap_or(1) * CENTS;
    screens.answer(cart, &Screen::Address);

    let payment = loop {
        let address = screens.updates.next().await?;
        // Whoever sent the page waits while a runner looks the address up, and gets the next page in the same call.
        match ctx.activity::<String>("look-up-address", address.input.field("street")).await {
            Ok(to) => {
                let payment = Screen::Payment { to, cents };
                screens.answer(address, &payment);
                break payment;
            }
            // The screen stays as it is, and says why.
            Err(failure) if !failure.is_canceled() => address.failed(&failure),
            Err(canceled) => return Err(canceled),
        }
    };
    let Screen::Payment { to, cents } = payment else { return Ok(Screen::Cart) };
    let card = screens.updates.next().await?;
    let thanks = Screen::Thanks { to, cents };
    screens.answer(card, &thanks);
    Ok(thanks)
}
