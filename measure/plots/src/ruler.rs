//! Places on an axis: its range, its labels, where a number lies.

use crate::reading::number;
use crate::{Axis, Scale};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// Most labels on an axis that was given none.
const LABELS: f64 = 7.0;
/// So many different places to the right, or fewer, are the labels themselves.
const FEW: usize = 10;
/// How much of an axis may be spent on marks that lie outside of the data.
const BESIDE: f64 = 2.0;

/// An axis with its range.
#[derive(Clone, Debug)]
pub(crate) struct Ruler {
    scale: Scale,
    /// Both as places: logarithms on a logarithmic scale.
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Places with their labels.
    pub(crate) ticks: Vec<(f64, String)>,
}

/// What an axis is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Its ends are those of the data.
    Across,
    /// There is room beyond the data, and zero is there unless all data are far from it.
    Upwards,
    /// Zero is there always.
    Bars,
}

impl Ruler {
    /// An axis for these data, and for what lies beside them as far as that does not squeeze them.
    pub(crate) fn new(axis: &Axis, data: &[f64], beside: &[f64], purpose: Use) -> Ruler {
        let place = |value: &f64| place(axis.scale, *value);
        let places: Vec<f64> = data.iter().filter_map(place).collect();
        let beside: Vec<f64> = beside.iter().filter_map(place).collect();
        let (mut from, mut to) = span(&places).or_else(|| span(&beside)).unwrap_or((0.0, 1.0));
        let linear = axis.scale == Scale::Linear;
        if linear
            && (purpose == Use::Bars
                || (purpose == Use::Upwards && from.abs().min(to.abs()) < 0.75 * from.abs().max(to.abs())))
        {
            (from, to) = (from.min(0.0), to.max(0.0));
        }
        // A logarithmic scale has room for three more decades each way.
        let room = if linear { (to - from) * (BESIDE - 1.0) } else { 3.0 };
        let (lowest, highest) = (from - room, to + room);
        for value in beside.into_iter().filter(|value| (lowest..=highest).contains(value)) {
            (from, to) = (from.min(value), to.max(value));
        }
        if to - from < 1e-9 * from.abs().max(to.abs()).max(1e-12) {
            let half = if linear { (from.abs() * 0.1).max(0.5) } else { 0.3 };
            (from, to) = (from - half, to + half);
        }
        let mut ruler = Ruler { scale: axis.scale, from, to, ticks: Vec::new() };
        match purpose {
            Use::Across => {
                let margin = (to - from) * 0.02;
                (ruler.from, ruler.to) = (from - margin, to + margin);
            }
            Use::Upwards | Use::Bars => ruler.widen(purpose),
        }
        let mut values = data.to_vec();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let few = purpose == Use::Across && axis.ticks.is_empty() && values.len() <= FEW;
        ruler.ticks = ruler.find_ticks(if few { &values } else { &axis.ticks });
        ruler
    }

    /// Where a value lies, if this scale has a place for it.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        place(self.scale, value)
    }

    /// Whether a place lies on the axis.
    pub(crate) fn contains(&self, place: f64) -> bool {
        (self.from..=self.to).contains(&place)
    }

    /// The label of a place where there is one.
    fn label(&self, place: f64) -> String {
        let close = (self.to - self.from).abs() * 1e-6;
        self.ticks
            .iter()
            .find(|(tick, _)| (tick - place).abs() <= close)
            .map_or(String::new(), |(_, label)| label.clone())
    }

    fn widen(&mut self, purpose: Use) {
        match self.scale {
            // Something beyond the last whisker, unless bars stand on that end. Markers at zero have room.
            Scale::Linear => {
                let margin = (self.to - self.from) * 0.04;
                let beyond = |end: f64| match purpose {
                    Use::Bars if end == 0.0 => 0.0,
                    _ if end == 0.0 => margin / 2.0,
                    _ => margin,
                };
                (self.from, self.to) = (self.from - beyond(self.from), self.to + beyond(self.to));
            }
            Scale::Log => {
                (self.from, self.to) = (self.from - 0.1, self.to + 0.1);
            }
        }
    }

    fn find_ticks(&self, given: &[f64]) -> Vec<(f64, String)> {
        let values: Vec<f64> = if given.is_empty() {
            match self.scale {
                Scale::Linear => self.linear_ticks(),
                Scale::Log => self.log_ticks(),
            }
        } else {
            given.to_vec()
        };
        let mut ticks: Vec<(f64, String)> = values
            .into_iter()
            .filter_map(|value| Some((self.place(value)?, number(value))))
            .filter(|(place, _)| self.contains(*place))
            .collect();
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        ticks
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let step = round_step((self.to - self.from) / LABELS);
        let first = (self.from / step - 1e-9).ceil();
        (0..=2 * LABELS as u32)
            .map(|count| (first + f64::from(count)) * step)
            .filter(|value| *value <= self.to + step * 1e-9)
            .collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = self.to - self.from;
        let (every, within): (usize, &[f64]) = match decades {
            decades if decades < 0.7 => (1, &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0]),
            decades if decades < 3.0 => (1, &[1.0, 2.0, 5.0]),
            decades => (((decades / LABELS).ceil() as usize).max(1), &[1.0]),
        };
        // Numbers have 617 decades.
        let (first, last) = (self.from.floor().max(-308.0) as i32, self.to.ceil().min(308.0) as i32);
        (first..=last)
            .step_by(every)
            .flat_map(|decade| within.iter().map(move |digit| digit * 10f64.powi(decade)))
            .filter(|value| place(Scale::Log, *value).is_some_and(|place| self.contains(place)))
            .collect()
    }
}

impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (first, last): (i32, i32)) -> i32 {
        first + (f64::from(last - first) * (place - self.from) / (self.to - self.from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(place, _)| *place).collect()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format_ext(&self, place: &f64) -> String {
        self.label(*place)
    }
}

fn place(scale: Scale, value: f64) -> Option<f64> {
    match scale {
        _ if !value.is_finite() => None,
        // Beyond this, differences overflow.
        Scale::Linear => (value.abs() < 1e300).then_some(value),
        Scale::Log => (value > 0.0).then(|| value.log10()),
    }
}

fn span(places: &[f64]) -> Option<(f64, f64)> {
    let low = places.iter().copied().reduce(f64::min)?;
    let high = places.iter().copied().reduce(f64::max)?;
    Some((low, high))
}

/// The smallest of 1, 2, 5, 10, 20, ... that is this or more.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * decade)
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(least)
}
