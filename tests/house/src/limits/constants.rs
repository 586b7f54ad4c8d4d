//! Reads the constants in the product's sources and evaluates them.

use std::collections::BTreeMap;
use std::fmt;

use syn::visit::Visit;

use crate::arrows::Scopes;
use crate::sources::{File, Module, Sources};

/// Maximum number of references to follow when a constant refers to another constant. Our choice: far more than any
/// limit needs.
const REFERENCES_MAX: usize = 16;

/// Value of a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A number of bytes, elements, characters or levels.
    Number(u128),
    /// A time in microseconds.
    Micros(u128),
}

/// Location of a constant, written as `path/to/file.rs NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Path of the file, relative to the root of the repository.
    pub file: String,
    /// Name of the constant.
    pub name: String,
}

impl Place {
    /// Parses the form `path/to/file.rs NAME`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (file, name) = text.split_once(' ')?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        (file.strip_suffix(".rs").is_some() && is_name && !name.is_empty())
            .then(|| Self { file: file.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.file, self.name)
    }
}

/// Declaration of a constant.
#[derive(Debug)]
struct Declaration {
    module: Module,
    value: syn::Expr,
}

/// All constants of the product except those of tests.
#[derive(Debug)]
pub struct Constants {
    declared: BTreeMap<Place, Declaration>,
    scopes: Scopes,
}

impl Constants {
    /// Collects the constants of the sources.
    #[must_use]
    pub fn of(sources: &Sources) -> Self {
        let mut declared = BTreeMap::new();
        for file in sources.files.values() {
            let mut found = Found { file, module: file.module.clone(), declared: &mut declared };
            file.items.iter().for_each(|item| found.visit_item(item));
        }
        Self { declared, scopes: Scopes::of(sources) }
    }

    /// Returns the constants whose names end with `_MAX`.
    pub fn maxima(&self) -> impl Iterator<Item = &Place> {
        self.declared.keys().filter(|place| place.name.ends_with("_MAX"))
    }

    /// Returns true if the sources contain this constant.
    #[must_use]
    pub fn has(&self, place: &Place) -> bool {
        self.declared.contains_key(place)
    }

    /// Evaluates a constant.
    ///
    /// # Errors
    ///
    /// If the constant is missing, or its expression is not supported.
    pub fn value(&self, place: &Place) -> Result<Value, String> {
        self.value_within(place, REFERENCES_MAX)
    }

    fn value_within(&self, place: &Place, references: usize) -> Result<Value, String> {
        let Some(declaration) = self.declared.get(place) else {
            return Err(format!("{place}: no such constant; if it was moved or renamed, change the row"));
        };
        let Some(references) = references.checked_sub(1) else {
            return Err(format!("{place}: refers to itself, or through more than {REFERENCES_MAX} constants"));
        };
        let at = At { constants: self, place, module: &declaration.module, references };
        at.evaluate(&declaration.value)
    }
}

struct Found<'a> {
    file: &'a File,
    module: Module,
    declared: &'a mut BTreeMap<Place, Declaration>,
}

impl Visit<'_> for Found<'_> {
    fn visit_item_mod(&mut self, item: &syn::ItemMod) {
        self.module.push(item.ident.to_string());
        syn::visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_const(&mut self, item: &syn::ItemConst) {
        self.add(&item.ident, &item.expr);
    }

    fn visit_impl_item_const(&mut self, item: &syn::ImplItemConst) {
        self.add(&item.ident, &item.expr);
    }
}

impl Found<'_> {
    fn add(&mut self, name: &syn::Ident, value: &syn::Expr) {
        let place = Place { file: self.file.path.clone(), name: name.to_string() };
        let declaration = Declaration { module: self.module.clone(), value: value.clone() };
        self.declared.entry(place).or_insert(declaration);
    }
}

/// State of the evaluation of one declaration.
struct At<'a> {
    constants: &'a Constants,
    place: &'a Place,
    module: &'a Module,
    references: usize,
}

impl At<'_> {
    fn evaluate(&self, value: &syn::Expr) -> Result<Value, String> {
        match value {
            syn::Expr::Lit(literal) => match &literal.lit {
                syn::Lit::Int(number) => number.base10_parse().map(Value::Number).map_err(|_| self.not_understood()),
                _ => Err(self.not_understood()),
            },
            syn::Expr::Paren(inner) => self.evaluate(&inner.expr),
            syn::Expr::Group(inner) => self.evaluate(&inner.expr),
            syn::Expr::Cast(cast) => self.evaluate(&cast.expr),
            syn::Expr::Binary(binary) => self.binary(binary),
            syn::Expr::Path(path) => self.reference(&names(&path.path)),
            syn::Expr::Call(call) => self.call(call),
            // A call such as `NonZeroUsize::new(10).expect("…")`.
            syn::Expr::MethodCall(call) if call.method == "expect" => self.evaluate(&call.receiver),
            _ => Err(self.not_understood()),
        }
    }

    fn binary(&self, binary: &syn::ExprBinary) -> Result<Value, String> {
        let (Value::Number(left), Value::Number(right)) = (self.evaluate(&binary.left)?, self.evaluate(&binary.right)?)
        else {
            return Err(self.not_understood());
        };
        let value = match binary.op {
            syn::BinOp::Add(_) => left.checked_add(right),
            syn::BinOp::Sub(_) => left.checked_sub(right),
            syn::BinOp::Mul(_) => left.checked_mul(right),
            syn::BinOp::Div(_) => left.checked_div(right),
            syn::BinOp::Shl(_) => {
                u32::try_from(right).ok().and_then(|bits| 1_u128.checked_shl(bits)?.checked_mul(left))
            }
            _ => None,
        };
        value.map(Value::Number).ok_or_else(|| self.not_understood())
    }

    fn reference(&self, path: &[String]) -> Result<Value, String> {
        let Some((file, name)) = self.constants.scopes.definition(self.module, path) else {
            return Err(format!("{}: refers to `{}`, which was not found", self.place, path.join("::")));
        };
        self.constants.value_within(&Place { file, name }, self.references)
    }

    /// Evaluates a call such as `Duration::from_secs(30)` or `NonZeroUsize::new(10)`.
    fn call(&self, call: &syn::ExprCall) -> Result<Value, String> {
        let (syn::Expr::Path(function), Some(argument), 1) = (&*call.func, call.args.first(), call.args.len()) else {
            return Err(self.not_understood());
        };
        let path = names(&function.path);
        let [.., of, function] = path.as_slice() else { return Err(self.not_understood()) };
        let Value::Number(number) = self.evaluate(argument)? else { return Err(self.not_understood()) };
        if of.starts_with("NonZero") && function == "new" {
            return Ok(Value::Number(number));
        }
        let micros = match (of.as_str(), function.as_str()) {
            ("Duration", "from_micros") => 1,
            ("Duration", "from_millis") => 1_000,
            ("Duration", "from_secs") => 1_000_000,
            ("Duration", "from_mins") => 60 * 1_000_000,
            ("Duration", "from_hours") => 3_600 * 1_000_000,
            ("Duration", "from_days") => 24 * 3_600 * 1_000_000,
            _ => return Err(self.not_understood()),
        };
        number.checked_mul(micros).map(Value::Micros).ok_or_else(|| self.not_understood())
    }

    fn not_understood(&self) -> String {
        format!(
            "{}: its value is not understood; expected integers, `+`, `-`, `*`, `/`, `<<`, casts, other constants or \
             `Duration::from_…`",
            self.place
        )
    }
}

fn names(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}
