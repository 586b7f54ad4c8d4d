//! Lists and maps in request bodies, bounded while they are parsed.
//!
//! A body of 8 MiB can have more than a million entries, and a parsed entry takes many times as much memory as its
//! text. [`list`] and [`map`] therefore keep at most one entry more than their limit and skip the rest. The one entry
//! too many makes the later check of the number of entries refuse the request. [`metered`] bounds the memory of all
//! lists and maps of a body together.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Estimated heap memory of the strings of one entry, in bytes. Chosen: one or two of the smallest allocations.
const ENTRY_TEXTS_BYTES: usize = 32;

/// Initial capacity of a list. Source: the capacity with which `Vec` starts.
const FIRST_ENTRIES: usize = 4;

/// Function that reserves a number of bytes for entries before they are parsed. Returns `false` if not enough memory is
/// left.
pub type Meter = Box<dyn FnMut(usize) -> bool>;

thread_local! {
    /// Meter of the body that this thread is parsing. It is a thread-local variable because derived deserializers
    /// cannot pass it as a parameter.
    static METER: RefCell<Option<Meter>> = const { RefCell::new(None) };
}

/// Restores the previous meter when dropped, also after a panic.
struct OuterMeter(Option<Meter>);

impl Drop for OuterMeter {
    fn drop(&mut self) {
        METER.set(self.0.take());
    }
}

/// Calls `read`, which parses a body on this thread. The lists and maps of the body reserve their memory from `meter`.
/// If `meter` returns `false`, `read` fails.
pub fn metered<R>(meter: Meter, read: impl FnOnce() -> R) -> R {
    let _outer = OuterMeter(METER.replace(Some(meter)));
    read()
}

/// Reserves memory from the meter of the body that this thread is parsing. Succeeds if the thread has no meter.
///
/// # Errors
///
/// If the meter refuses.
pub fn take<E: Error>(bytes: usize) -> Result<(), E> {
    let has_room = METER.with_borrow_mut(|meter| meter.as_mut().is_none_or(|meter| meter(bytes)));
    if has_room { Ok(()) } else { Err(E::custom("its lists need more memory than is available")) }
}

/// Parses a list of at most `MAX` entries. For a longer list it returns `MAX + 1` entries, so that the caller can see
/// the excess and refuse the request.
///
/// # Errors
///
/// If the input is not a list of `T`, or the meter refuses the memory.
pub fn list<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    weighed::<MAX, 0, T, D>(deserializer)
}

/// Parses a list like [`list`], but reserves `MORE` additional bytes for each entry, for data that is later derived
/// from the entry.
///
/// # Errors
///
/// The same errors as [`list`].
pub fn weighed<'de, const MAX: usize, const MORE: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(ListVisitor::<MAX, MORE, T>(PhantomData))
}

/// Parses a list like [`list`], for an optional field. `null` yields `None`.
///
/// # Errors
///
/// The same errors as [`list`].
pub fn optional_list<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let list = Option::<BoundedList<MAX, T>>::deserialize(deserializer)?;
    Ok(list.map(|BoundedList(list)| list))
}

/// List that is parsed with [`list`].
struct BoundedList<const MAX: usize, T>(Vec<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Deserialize<'de> for BoundedList<MAX, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list::<MAX, T, D>(deserializer).map(Self)
    }
}

struct ListVisitor<const MAX: usize, const MORE: usize, T>(PhantomData<T>);

impl<'de, const MAX: usize, const MORE: usize, T: Deserialize<'de>> Visitor<'de> for ListVisitor<MAX, MORE, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // serde uses the same text for lists.
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while list.len() <= MAX {
            let Some(entry) = entries.next_element()? else {
                list.shrink_to_fit();
                return Ok(list);
            };
            if list.len() == list.capacity() {
                let more = list.len().max(FIRST_ENTRIES).min(MAX + 1 - list.len());
                take(more * (size_of::<T>() + ENTRY_TEXTS_BYTES + MORE))?;
                list.reserve_exact(more);
            }
            list.push(entry);
        }
        while entries.next_element::<IgnoredAny>()?.is_some() {}
        Ok(list)
    }
}

/// Parses a map of at most `MAX` entries. For a larger map it returns `MAX + 1` entries, so that the caller can see the
/// excess and refuse the request.
///
/// # Errors
///
/// If the input is not a map of strings, or the meter refuses the memory.
pub fn map<'de, const MAX: usize, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    deserializer.deserialize_map(MapVisitor::<MAX>)
}

struct MapVisitor<const MAX: usize>;

impl<'de, const MAX: usize> Visitor<'de> for MapVisitor<MAX> {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // serde uses the same text for maps.
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while map.len() <= MAX {
            let Some((key, value)) = entries.next_entry()? else { return Ok(map) };
            take(2 * (size_of::<String>() + ENTRY_TEXTS_BYTES))?;
            map.insert(key, value);
        }
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Lists {
        #[serde(default, deserialize_with = "list::<3, _, _>")]
        names: Vec<String>,
        #[serde(default, deserialize_with = "optional_list::<3, _, _>")]
        tags: Option<Vec<String>>,
        #[serde(default, deserialize_with = "map::<3, _>")]
        labels: BTreeMap<String, String>,
    }

    fn read(text: &str) -> Lists {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_list_keeps_one_entry_more_than_its_limit() {
        for (found, kept) in [(0, 0), (1, 1), (3, 3), (4, 4), (5, 4), (1_000, 4)] {
            let entries = vec![r#""x""#; found].join(",");
            let it = read(&format!(r#"{{"names":[{entries}],"tags":[{entries}]}}"#));
            assert_eq!((it.names.len(), it.tags.unwrap().len()), (kept, kept));
            let entries: Vec<_> = (0..found).map(|at| format!(r#""{at}":"x""#)).collect();
            assert_eq!(read(&format!(r#"{{"labels":{{{}}}}}"#, entries.join(","))).labels.len(), kept);
        }
        assert_eq!(read(r#"{"tags":null}"#).tags, None);
        assert!(serde_json::from_str::<Lists>(r#"{"names":null}"#).is_err());
        assert!(
            serde_json::from_str::<Lists>(r#"{"names":["a","b","c","d",]}"#).is_err(),
            "the rest must be JSON, too"
        );
    }

    #[test]
    fn a_list_takes_memory_before_it_grows() {
        let taken = Rc::new(Cell::new(0));
        let meter = |max: usize| -> Meter {
            let taken = Rc::clone(&taken);
            taken.set(0);
            Box::new(move |bytes| {
                let all = taken.get() + bytes;
                let has_room = all <= max;
                taken.set(if has_room { all } else { taken.get() });
                has_room
            })
        };
        let text = r#"{"names":["a"],"labels":{"a":"b"}}"#;
        let entry = size_of::<String>() + ENTRY_TEXTS_BYTES;
        // Memory for the list's first entries, and for the key and the value of one entry of the map.
        let needed = FIRST_ENTRIES.min(3 + 1) * entry + 2 * entry;
        let read = || serde_json::from_str::<Lists>(text);
        assert!(metered(meter(needed), read).is_ok());
        assert_eq!(taken.get(), needed);
        assert!(metered(meter(needed - 1), read).is_err());
        assert!(metered(meter(4 * entry - 1), read).is_err());
        assert_eq!(taken.get(), 0);
        assert!(read().is_ok(), "without a meter there is room");
    }
}
