//! Numbers as people read them: three significant digits, and a unit, which stays with its number: the blank between
//! them is one at which no line is broken ([`NO_BREAK`]), and which the page turns into a plain one.

/// The blank between a number and its unit.
pub const NO_BREAK: char = '\u{a0}';

/// Nanoseconds as `198 ms`.
pub fn span(nanos: f64) -> String {
    let (scaled, unit) = match nanos.abs() {
        size if size < 1e3 => (nanos, "ns"),
        size if size < 1e6 => (nanos / 1e3, "µs"),
        size if size < 1e9 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    format!("{}{NO_BREAK}{unit}", three_digits(scaled))
}

/// Bytes as `3.4 MiB`.
pub fn bytes(amount: f64) -> String {
    let (scaled, unit) = match amount.abs() {
        size if size < 1024.0 => (amount, "B"),
        size if size < 1024.0 * 1024.0 => (amount / 1024.0, "KiB"),
        size if size < 1024.0 * 1024.0 * 1024.0 => (amount / 1024.0 / 1024.0, "MiB"),
        _ => (amount / 1024.0 / 1024.0 / 1024.0, "GiB"),
    };
    format!("{}{NO_BREAK}{unit}", three_digits(scaled))
}

/// A ratio as `1.93×`.
pub fn ratio(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}×") } else { format!("{value:.2}×") }
}

/// A share as `0.6 %`.
pub fn percent(share: f64) -> String {
    let hundred = share * 100.0;
    let is_whole = (hundred - hundred.round()).abs() < 0.05;
    if is_whole || hundred.abs() >= 10.0 {
        format!("{hundred:.0}{NO_BREAK}%")
    } else {
        format!("{hundred:.1}{NO_BREAK}%")
    }
}

/// A count as `12 345`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(NO_BREAK);
        }
        text.push(digit);
    }
    text
}

/// `1 worker`, `2 workers`.
pub fn counted(number: usize, one: &str) -> String {
    if number == 1 { format!("1{NO_BREAK}{one}") } else { format!("{number}{NO_BREAK}{one}s") }
}

/// Nanoseconds of a column, all in one unit: `—` where there is none.
pub fn span_column(values: &[Option<f64>]) -> Vec<String> {
    column(values, &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")])
}

/// Bytes of a column, all in one unit: `—` where there is none.
pub fn byte_column(values: &[Option<f64>]) -> Vec<String> {
    let (kib, mib, gib) = (1024.0, 1024.0 * 1024.0, 1024.0 * 1024.0 * 1024.0);
    column(values, &[(gib, "GiB"), (mib, "MiB"), (kib, "KiB"), (1.0, "B")])
}

/// The unit is the largest that leaves a typical value above 1; the decimals give that value three digits.
fn column(values: &[Option<f64>], units: &[(f64, &str)]) -> Vec<String> {
    let mut known: Vec<f64> =
        values.iter().flatten().map(|value| value.abs()).filter(|size| *size > 0.0).collect();
    known.sort_unstable_by(f64::total_cmp);
    let typical = known.get(known.len() / 2).copied().unwrap_or(0.0);
    let finest = units.last().copied().unwrap_or((1.0, ""));
    let (scale, unit) = units.iter().find(|(scale, _)| typical >= *scale).copied().unwrap_or(finest);
    let typical = typical / scale;
    let decimals = match typical {
        size if scale == 1.0 || size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let show = |value: &Option<f64>| match value {
        None => "—".to_owned(),
        Some(value) => {
            let number = format!("{:.decimals$}", value / scale);
            // What rounds to nothing has no sign.
            let is_nothing = number.chars().all(|digit| matches!(digit, '-' | '0' | '.'));
            let number = if is_nothing { number.trim_start_matches('-') } else { &number };
            format!("{number}{NO_BREAK}{unit}")
        }
    };
    values.iter().map(show).collect()
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: impl AsRef<str>) -> String {
        text.as_ref().replace(NO_BREAK, " ")
    }

    #[test]
    fn numbers_keep_three_digits_and_a_fitting_unit() {
        assert_eq!(
            [0.0, 850.0, 22_100.0, 1.98e8, 2.5e9].map(span).map(plain),
            ["0 ns", "850 ns", "22.1 µs", "198 ms", "2.50 s"]
        );
        assert_eq!([512.0, 3_565_158.0, 1e12].map(bytes).map(plain), ["512 B", "3.40 MiB", "931 GiB"]);
        assert_eq!([1.0, 1.934, 250.4].map(ratio).map(plain), ["1.00×", "1.93×", "250×"]);
        assert_eq!(
            [0.006, 0.99, 0.05, 0.0, 1.0].map(percent).map(plain),
            ["0.6 %", "99 %", "5 %", "0 %", "100 %"]
        );
        assert_eq!([7, 1_234, 1_234_567].map(count).map(plain), ["7", "1 234", "1 234 567"]);
        assert_eq!(
            span_column(&[Some(3.8e8), None, Some(1.98e8)]).into_iter().map(plain).collect::<Vec<_>>(),
            ["380 ms", "—", "198 ms"]
        );
        assert_eq!(
            span_column(&[Some(800.0), Some(11_000.0)]).into_iter().map(plain).collect::<Vec<_>>(),
            ["0.8 µs", "11.0 µs"]
        );
        assert_eq!(
            byte_column(&[Some(3_565_158.0), Some(104_858.0)]).into_iter().map(plain).collect::<Vec<_>>(),
            ["3.40 MiB", "0.10 MiB"]
        );
        assert_eq!([1, 3].map(|n| plain(counted(n, "worker"))), ["1 worker", "3 workers"]);
    }
}
