//! A measured value with its spread, or the reason why there is none.

/// What was measured at one place.
///
/// A reading is finite and lies within its spread, or it is missing and says why: numbers that are not finite
/// never get as far as a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading(Inner);

#[derive(Clone, Debug, PartialEq)]
enum Inner {
    Measured { value: f64, low: f64, high: f64 },
    Missing(String),
}

impl Reading {
    /// A value without a spread: a count, a setting, one run.
    pub fn exact(value: f64) -> Reading {
        Reading::spread(value, value, value)
    }

    /// A value between the lowest and the highest one seen. The spread is widened where the value lies
    /// outside.
    pub fn spread(value: f64, low: f64, high: f64) -> Reading {
        for (name, number) in [("value", value), ("lowest value", low), ("highest value", high)] {
            if !number.is_finite() {
                return Reading::missing(format!("the {name} is {number}"));
            }
        }
        Reading(Inner::Measured { value, low: low.min(high).min(value), high: high.max(low).max(value) })
    }

    /// The median of the runs (of an even number the lower one of the middle two) between the lowest and the
    /// highest.
    pub fn median(runs: &[f64]) -> Reading {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        match (sorted.first(), sorted.get(sorted.len().saturating_sub(1) / 2), sorted.last()) {
            (Some(&low), Some(&value), Some(&high)) => Reading::spread(value, low, high),
            _ => Reading::missing("there was no run"),
        }
    }

    /// No value, for a reason.
    pub fn missing(why: impl Into<String>) -> Reading {
        Reading(Inner::Missing(why.into()))
    }

    /// The value, unless it is missing.
    pub fn value(&self) -> Option<f64> {
        self.measured().map(|(value, ..)| value)
    }

    /// Value, lowest and highest, unless it is missing.
    pub fn measured(&self) -> Option<(f64, f64, f64)> {
        match self.0 {
            Inner::Measured { value, low, high } => Some((value, low, high)),
            Inner::Missing(_) => None,
        }
    }

    /// Why there is no value, if there is none.
    pub fn why_missing(&self) -> Option<&str> {
        match &self.0 {
            Inner::Measured { .. } => None,
            Inner::Missing(why) => Some(why),
        }
    }
}

impl From<f64> for Reading {
    fn from(value: f64) -> Reading {
        Reading::exact(value)
    }
}

/// A number as people read it: four significant digits, no more than its unit needs.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e9).contains(&size) {
        return format!("{value:.3e}");
    }
    let decimals = match size {
        size if size >= 1_000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        size if size >= 0.1 => 4,
        _ => 6,
    };
    let text = format!("{value:.decimals$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text.as_str() };
    // Digits in threes, as far as the point.
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, rest) = digits
        .find('.')
        .map_or((digits, ""), |at| (digits.get(..at).unwrap_or(""), digits.get(at..).unwrap_or("")));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if grouped == "0" && rest.is_empty() { "0".to_owned() } else { format!("{sign}{grouped}{rest}") }
}
