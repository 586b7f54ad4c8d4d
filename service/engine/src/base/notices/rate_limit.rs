//! Rate limit of notices: a limit per kind, and a limit per task list within a kind. The callers pass the current time
//! and write the log lines. The memory of this module is bounded.

use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use super::kinds::{NoticeKind, NoticeList};

/// Maximum number of pairs (kind of notice, task list) for which the last log line is remembered. If more lists have
/// notices within a period, the oldest pair is forgotten, and its suppressed events are counted for the kind. Our
/// choice: at about 200 bytes each, the pairs take at most 200 kB.
pub(super) const LISTS_MAX: usize = 1_000;

/// Permission to write a log line now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineAllowed {
    /// Number of events that the line reports: those of its task list; if the notice names no list, those of its kind.
    pub(super) count: u64,
    /// Number of suppressed events of the same kind since the last line.
    pub(super) left_out: u64,
}

/// Suppressed events that can be reported now, because the period of the last line has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overdue {
    pub(super) kind: NoticeKind,
    /// The task list of the events; `None` if the events concern runs, or several lists.
    pub(super) list: Option<NoticeList>,
    pub(super) count: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct KindWindow {
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl KindWindow {
    /// Starts a new period if the last one has ended.
    fn turn(&mut self, span: Duration, at: Instant) {
        if self.began.is_none_or(|began| at.duration_since(began) >= span) {
            (self.began, self.lines) = (Some(at), 0);
        }
    }

    fn has_line(&mut self, kind: NoticeKind, at: Instant) -> bool {
        self.turn(kind.span(), at);
        if self.lines >= kind.lines_max() {
            return false;
        }
        self.lines += 1;
        true
    }
}

#[derive(Debug, Clone, Copy)]
struct ListWindow {
    told_at: Instant,
    left_out: u64,
}

/// Counts log lines and suppressed events.
#[derive(Debug)]
pub(super) struct RateLimit {
    kinds: [KindWindow; NoticeKind::ALL.len()],
    lists: LruCache<(NoticeKind, NoticeList), ListWindow>,
}

impl Default for RateLimit {
    fn default() -> Self {
        // Created unbounded and then resized, because `LruCache::new` would allocate memory for all entries at once.
        let mut lists = LruCache::unbounded();
        lists.resize(NonZeroUsize::new(LISTS_MAX).unwrap_or(NonZeroUsize::MIN));
        Self { kinds: Default::default(), lists }
    }
}

impl RateLimit {
    fn of(&mut self, kind: NoticeKind) -> &mut KindWindow {
        self.kinds.get_mut(kind.place()).expect("every kind has a place")
    }

    /// Counts an event. If a log line may be written now, returns the number of events that the line reports.
    pub(super) fn admit(
        &mut self,
        kind: NoticeKind,
        list: Option<&NoticeList>,
        count: u64,
        at: Instant,
    ) -> Option<LineAllowed> {
        let known = list.and_then(|list| self.lists.get_mut(&(kind, list.clone())));
        if let Some(window) = known
            && at.duration_since(window.told_at) < kind.span()
        {
            window.left_out = window.left_out.saturating_add(count);
            return None;
        }
        let of_kind = self.of(kind);
        if !of_kind.has_line(kind, at) {
            of_kind.left_out = of_kind.left_out.saturating_add(count);
            return None;
        }
        let left_out = std::mem::take(&mut of_kind.left_out);
        let before = list.map_or(0, |list| self.note_line(kind, list, at));
        Some(LineAllowed { count: count.saturating_add(before), left_out })
    }

    /// Records that a line about a list is written now. Returns the number of events that were suppressed before this
    /// line.
    fn note_line(&mut self, kind: NoticeKind, list: &NoticeList, at: Instant) -> u64 {
        let key = (kind, list.clone());
        let before = self.lists.peek(&key).map_or(0, |window| window.left_out);
        if let Some((forgotten, window)) = self.lists.push(key.clone(), ListWindow { told_at: at, left_out: 0 })
            && forgotten != key
        {
            let of_kind = self.of(forgotten.0);
            of_kind.left_out = of_kind.left_out.saturating_add(window.left_out);
        }
        before
    }

    /// Removes and returns the suppressed events that may be reported now. Forgets lists without suppressed events.
    pub(super) fn take_overdue(&mut self, at: Instant) -> Vec<Overdue> {
        let mut overdue = Vec::new();
        let is_over = |kind: NoticeKind, window: &ListWindow| at.duration_since(window.told_at) >= kind.span();
        let over = self.lists.iter().filter(|((kind, _), window)| is_over(*kind, window)).map(|(key, _)| key.clone());
        let over: Vec<_> = over.collect();
        for key in over {
            let Some(window) = self.lists.pop(&key) else { continue };
            let (kind, list) = key;
            if window.left_out == 0 {
                continue;
            }
            if self.of(kind).has_line(kind, at) {
                self.note_line(kind, &list, at);
                overdue.push(Overdue { kind, list: Some(list), count: window.left_out });
            } else {
                let of_kind = self.of(kind);
                of_kind.left_out = of_kind.left_out.saturating_add(window.left_out);
            }
        }
        for kind in NoticeKind::ALL {
            let of_kind = self.of(kind);
            if of_kind.left_out > 0 && of_kind.has_line(kind, at) {
                overdue.push(Overdue { kind, list: None, count: std::mem::take(&mut of_kind.left_out) });
            }
        }
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::super::kinds::KIND_LINES_MAX;
    use super::*;

    const KIND: NoticeKind = NoticeKind::DeliveryFailed;

    fn list(name: &str) -> NoticeList {
        NoticeList { domain: "d".into(), side: "decider", name: name.into() }
    }

    fn allowed(count: u64, left_out: u64) -> LineAllowed {
        LineAllowed { count, left_out }
    }

    #[test]
    fn a_kind_has_so_many_lines_a_span_and_the_rest_is_counted() {
        let (mut limit, start) = (RateLimit::default(), Instant::now());
        for kind in [NoticeKind::Failing, NoticeKind::Blocked, NoticeKind::Stuck] {
            for line in 0..KIND_LINES_MAX {
                assert_eq!(limit.admit(kind, None, 1, start), Some(allowed(1, 0)), "{line}");
            }
            assert_eq!(limit.admit(kind, None, 1, start), None, "kinds do not share their lines");
            assert_eq!(limit.admit(kind, None, 1, start + kind.span() - Duration::from_millis(1)), None);
            assert_eq!(limit.admit(kind, None, 1, start + kind.span()), Some(allowed(1, 2)));
            assert_eq!(limit.admit(kind, None, 1, start + kind.span()), Some(allowed(1, 0)), "told once");
        }
    }

    #[test]
    fn a_list_has_one_line_per_span_with_the_count_since_then() {
        let (mut limit, start) = (RateLimit::default(), Instant::now());
        assert_eq!(limit.admit(KIND, Some(&list("a")), 1, start), Some(allowed(1, 0)));
        for _ in 0..3 {
            assert_eq!(limit.admit(KIND, Some(&list("a")), 1, start), None);
        }
        assert_eq!(limit.admit(KIND, Some(&list("b")), 1, start), Some(allowed(1, 0)), "another list");
        let runners = NoticeList { side: "activity", ..list("a") };
        assert_eq!(limit.admit(KIND, Some(&runners), 1, start), Some(allowed(1, 0)), "another side of the same name");
        assert_eq!(limit.admit(NoticeKind::Unpolled, Some(&list("a")), 1, start), Some(allowed(1, 0)), "another kind");
        assert_eq!(limit.admit(KIND, Some(&list("a")), 1, start + KIND.span()), Some(allowed(4, 0)));
    }

    #[test]
    fn omitted_events_have_a_line_after_the_span() {
        let (mut limit, start) = (RateLimit::default(), Instant::now());
        for _ in 0..8 {
            limit.admit(KIND, Some(&list("a")), 1, start);
        }
        for _ in 0..KIND_LINES_MAX + 5 {
            limit.admit(NoticeKind::Stuck, None, 1, start);
        }
        assert_eq!(limit.take_overdue(start + KIND.span() - Duration::from_millis(1)), []);
        let over = start + KIND.span();
        let of_list = Overdue { kind: KIND, list: Some(list("a")), count: 7 };
        let of_kind = Overdue { kind: NoticeKind::Stuck, list: None, count: 5 };
        assert_eq!(limit.take_overdue(over), [of_list, of_kind]);
        assert_eq!(limit.take_overdue(over + KIND.span()), [], "told once");
        assert_eq!(limit.lists.len(), 0, "and nothing is remembered of it any more");
    }

    #[test]
    fn many_lists_have_bounded_memory_and_all_events_counted() {
        let (mut limit, start) = (RateLimit::default(), Instant::now());
        let (mut told, mut lines) = (0, 0);
        let spans = 3 * LISTS_MAX as u64;
        for number in 0..spans {
            let at = start + Duration::from_millis(number * 200);
            for _ in 0..2 {
                if let Some(LineAllowed { count, left_out }) =
                    limit.admit(KIND, Some(&list(&number.to_string())), 1, at)
                {
                    (told, lines) = (told + count + left_out, lines + 1);
                }
            }
            assert!(limit.lists.len() <= LISTS_MAX);
        }
        let end = start + Duration::from_millis(spans * 200) + 2 * KIND.span();
        for step in 0..40 {
            told += limit.take_overdue(end + step * KIND.span()).iter().map(|it| it.count).sum::<u64>();
        }
        assert_eq!(told, 2 * spans);
        assert!(lines <= 11 * u64::from(KIND_LINES_MAX), "{lines} lines in ten minutes");
    }

    #[test]
    fn the_clock_has_one_line_an_hour() {
        let (mut limit, start) = (RateLimit::default(), Instant::now());
        let kind = NoticeKind::ClockSuspect;
        assert_eq!(limit.admit(kind, None, 0, start), Some(allowed(0, 0)));
        assert_eq!(limit.admit(kind, None, 0, start + Duration::from_secs(3_599)), None);
        assert_eq!(limit.admit(kind, None, 0, start + Duration::from_secs(3_600)), Some(allowed(0, 0)));
    }
}
