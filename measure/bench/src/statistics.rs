//! Medians and the like.

/// The median; of an even number of values the lower one of the middle two.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// The value below which this fraction of the values lies.
pub(crate) fn percentile(values: &[f64], fraction: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get(((last as f64) * fraction).floor() as usize).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_and_tail() {
        let values: Vec<f64> = (0..101).rev().map(f64::from).collect();
        assert_eq!(median(&values), 50.0);
        assert_eq!(percentile(&values, 0.99), 99.0);
        assert!(median(&[]).is_nan());
    }
}
