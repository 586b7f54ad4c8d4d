//! An order as a flow, screen by screen. Each submitted screen is an update, and the answer to the update is the next
//! screen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use baton_decider_kit::Rejection;
use baton_decider_kit::flow::{AcceptedUpdate, Context, Failure, Updates};
use serde::{Deserialize, Serialize};

/// Price of one piece in cents.
const CENTS: u32 = 1_250;

/// Screen shown to the customer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "screen", rename_all = "kebab-case")]
pub(crate) enum Screen {
    /// Asks for the number of pieces.
    Cart,
    /// Asks for the address.
    Address,
    /// Asks for the card.
    Payment { to: String, cents: u32 },
    /// Confirms the order.
    Thanks { to: String, cents: u32 },
}

impl Screen {
    /// Returns the name of the screen that forms use.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Cart => "cart",
            Self::Address => "address",
            Self::Payment { .. } => "payment",
            Self::Thanks { .. } => "thanks",
        }
    }
}

/// A submitted screen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Filled {
    /// Name of the submitted screen.
    pub(crate) screen: String,
    /// Values of the form's fields.
    pub(crate) fields: BTreeMap<String, String>,
}

impl Filled {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |value| value.trim())
    }

    fn pieces(&self) -> Option<u32> {
        self.field("pieces").parse().ok().filter(|pieces| (1..=10).contains(pieces))
    }

    /// Checks that the submitted screen is the expected one, and that its fields are valid.
    fn check(&self, expected: &str) -> Result<(), Rejection> {
        let complaint = match self.screen.as_str() {
            screen if screen != expected => return Err(Rejection::of("another-screen", expected)),
            "cart" if self.pieces().is_none() => "Between 1 and 10 pieces, please.",
            "address" if self.field("street").is_empty() => "Please enter an address.",
            "payment" if self.field("card").len() < 4 => "A card number has at least four digits.",
            _ => return Ok(()),
        };
        Err(Rejection::of("incomplete", complaint))
    }
}

/// Submitted screens of an order, and the name of the screen that the flow expects next.
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

    /// Answers a submitted screen with the next screen.
    fn answer(&self, asked: AcceptedUpdate<Filled>, next: &Screen) {
        self.expect(next);
        asked.done(next);
    }
}

/// Runs an order from the first screen to the last. The last screen is the result of the run.
pub(crate) async fn order(ctx: Context, (): ()) -> Result<Screen, Failure> {
    let mut screens = Screens::new(&ctx);
    let cart = screens.updates.next().await?;
    let cents = cart.input.pieces().unwrap_or(1) * CENTS;
    screens.answer(cart, &Screen::Address);

    let payment = loop {
        let address = screens.updates.next().await?;
        // While a runner looks up the address, the caller of the update waits. It receives the next page in the same
        // call.
        match ctx.activity::<String>("look-up-address", address.input.field("street")).await {
            Ok(to) => {
                let payment = Screen::Payment { to, cents };
                screens.answer(address, &payment);
                break payment;
            }
            // The same screen is shown again, with the reason.
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
