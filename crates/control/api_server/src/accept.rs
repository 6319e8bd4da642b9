//! `Accept` (RFC 9110, section 12.5.1): which representation a client takes.

/// The first of `offered` that a header's value takes best; `None` when it takes none. What cannot be read in
/// the header takes nothing.
pub fn accepted(value: &str, offered: &[&'static str]) -> Option<&'static str> {
    let mut best: Option<(&'static str, u16)> = None;
    for offer in offered {
        let quality = quality_of(value, offer);
        if quality > 0 && best.is_none_or(|(_, other)| quality > other) {
            best = Some((offer, quality));
        }
    }
    best.map(|(offer, _)| offer)
}

/// In thousandths: what the most specific range that `offer` is in says.
fn quality_of(value: &str, offer: &str) -> u16 {
    let offer = offer.split(';').next().unwrap_or(offer);
    let offered_type = offer.split('/').next().unwrap_or(offer);
    let mut found: Option<(u8, u16)> = None;
    for range in value.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let specific = match name.split_once('/') {
            Some(("*", "*")) => 0,
            Some((kind, "*")) if kind.eq_ignore_ascii_case(offered_type) => 1,
            Some(_) if name.eq_ignore_ascii_case(offer) => 2,
            _ => continue,
        };
        let quality = parts
            .find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")))
            .map_or(1000, |q| q.parse::<f32>().map_or(0, |q| (q.clamp(0.0, 1.0) * 1000.0) as u16));
        if found.is_none_or(|(earlier, _)| specific > earlier) {
            found = Some((specific, quality));
        }
    }
    found.map_or(0, |(_, quality)| quality)
}
