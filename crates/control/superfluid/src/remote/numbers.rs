//! Numbers as people read them.

/// A count with three digits and a prefix: 1.50M.
pub(crate) fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P"])
}

/// Bytes with three digits and a unit: 1.50MiB.
pub(crate) fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// A part of a whole in percent.
pub(crate) fn percent(value: f64) -> String {
    format!("{:.1}%", value * 100.0)
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // What would be rounded to a whole step is the next unit's.
    while value >= step * 0.9995 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 && value.fract() == 0.0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let counts = [(0.0, "0"), (0.5, "0.50"), (999.0, "999"), (999.6, "1.00k"), (1500.0, "1.50k")];
        for (value, wanted) in counts {
            assert_eq!(count(value), wanted);
        }
        assert_eq!((count(12_345_678.0), count(9.41e9)), ("12.3M".into(), "9.41G".into()));
        assert_eq!(
            (bytes(0.0), bytes(1023.0), bytes(65_536.0)),
            ("0B".into(), "1023B".into(), "64.0KiB".into())
        );
        assert_eq!(bytes(1e30), format!("{:.0}PiB", 1e30 / 1024f64.powi(5)));
        assert_eq!((percent(0.256), percent(1.0)), ("25.6%".into(), "100.0%".into()));
    }
}
