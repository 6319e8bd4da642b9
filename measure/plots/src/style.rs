//! The look of each curve and bar: the same in every figure.
//!
//! The colours are those of Okabe and Ito, which people with colour blindness can tell apart; dashes and
//! markers tell the same again, for readers who see no colours and for paper.

use plotters::style::RGBColor;

/// What a curve or a group of bars stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// I/O in the function's own context: HyperNF's model, and this project's.
    Hyper,
    /// I/O threads on cores of their own.
    Split,
    /// The I/O thread on its function's core.
    Merge,
    /// The scheduler places I/O threads.
    Mix,
    /// What others are measured against: offered load, the promised share.
    Offered,
    /// A curve of a model, told apart from another one of the same model: its colour with other dashes and a
    /// hollow marker.
    Second(Model),
    /// Anything else: 0 to 3 differ, then they come again.
    Other(u8),
}

/// One of the paper's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Model {
    /// See [`Role::Hyper`].
    Hyper,
    /// See [`Role::Split`].
    Split,
    /// See [`Role::Merge`].
    Merge,
    /// See [`Role::Mix`].
    Mix,
}

impl Model {
    /// All of them, in the order of the paper's legends turned around: ours first.
    pub const ALL: [Model; 4] = [Model::Hyper, Model::Split, Model::Merge, Model::Mix];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Hyper => "hyper",
            Model::Split => "split",
            Model::Merge => "merge",
            Model::Mix => "mix",
        }
    }

    /// How it looks.
    pub const fn role(self) -> Role {
        match self {
            Model::Hyper => Role::Hyper,
            Model::Split => Role::Split,
            Model::Merge => Role::Merge,
            Model::Mix => Role::Mix,
        }
    }
}

/// What stands at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    None,
}

/// What tells bars apart without their colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Full,
    Rising,
    Level,
    Falling,
    Hollow,
}

/// How something looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) colour: RGBColor,
    /// Lengths of stroke and gap in turn; empty for a whole line.
    pub(crate) dashes: &'static [i32],
    pub(crate) marker: Marker,
    pub(crate) hollow: bool,
}

/// What the plot stands on.
pub(crate) const GROUND: RGBColor = RGBColor(0xff, 0xff, 0xff);
/// Text, axes, offered load.
pub(crate) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Lines of the grid.
pub(crate) const GRID: RGBColor = RGBColor(0xe2, 0xe2, 0xe2);
/// The paper's numbers.
pub(crate) const PAPER: RGBColor = RGBColor(0x6b, 0x6b, 0x6b);
/// What was promised.
pub(crate) const PROMISE: RGBColor = RGBColor(0xb0, 0x3a, 0x2e);

/// Colours on a light ground, and what they become on a dark one.
pub(crate) const DARK: [(RGBColor, RGBColor); 12] = [
    (GROUND, RGBColor(0x16, 0x19, 0x1d)),
    (INK, RGBColor(0xe6, 0xe6, 0xe6)),
    (GRID, RGBColor(0x3a, 0x3f, 0x47)),
    (PAPER, RGBColor(0xa9, 0xa9, 0xa9)),
    (PROMISE, RGBColor(0xff, 0x8a, 0x7a)),
    (BLUE, RGBColor(0x4c, 0xa8, 0xe8)),
    (VERMILION, RGBColor(0xf0, 0x7a, 0x2f)),
    (GREEN, RGBColor(0x2f, 0xc0, 0x95)),
    (PURPLE, RGBColor(0xdd, 0x95, 0xbd)),
    (SKY, RGBColor(0x7c, 0xc6, 0xf0)),
    (ORANGE, RGBColor(0xf0, 0xb0, 0x30)),
    (BROWN, RGBColor(0xc4, 0xa0, 0x8a)),
];

const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const VERMILION: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
const GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);
const PURPLE: RGBColor = RGBColor(0xcc, 0x79, 0xa7);
const SKY: RGBColor = RGBColor(0x56, 0xb4, 0xe9);
const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);
const BROWN: RGBColor = RGBColor(0x8a, 0x62, 0x4a);

impl Role {
    pub(crate) fn look(self) -> Look {
        let look = |colour, dashes, marker| Look { colour, dashes, marker, hollow: false };
        match self {
            Role::Hyper => look(BLUE, &[], Marker::Circle),
            Role::Split => look(VERMILION, &[9, 4], Marker::Triangle),
            Role::Merge => look(GREEN, &[3, 3], Marker::Square),
            Role::Mix => look(PURPLE, &[10, 3, 2, 3], Marker::Diamond),
            Role::Offered => look(INK, &[], Marker::None),
            Role::Second(model) => {
                let dashes = match model {
                    Model::Hyper => &[14, 4][..],
                    Model::Split => &[4, 6],
                    Model::Merge => &[1, 4],
                    Model::Mix => &[5, 2, 1, 2, 1, 2],
                };
                Look { dashes, hollow: true, ..model.role().look() }
            }
            Role::Other(number) => match number % 4 {
                0 => look(SKY, &[], Marker::Square),
                1 => look(ORANGE, &[7, 4], Marker::Diamond),
                2 => look(BROWN, &[3, 4], Marker::Triangle),
                _ => look(PAPER, &[10, 3, 2, 3], Marker::Circle),
            },
        }
    }

    pub(crate) fn pattern(self) -> Pattern {
        match self {
            Role::Hyper | Role::Second(Model::Hyper) | Role::Other(_) => Pattern::Full,
            Role::Split | Role::Second(Model::Split) => Pattern::Rising,
            Role::Merge | Role::Second(Model::Merge) => Pattern::Level,
            Role::Mix | Role::Second(Model::Mix) => Pattern::Falling,
            Role::Offered => Pattern::Hollow,
        }
    }

    /// Its name in data files.
    pub(crate) fn name(self) -> String {
        match self {
            Role::Hyper => "hyper".to_owned(),
            Role::Split => "split".to_owned(),
            Role::Merge => "merge".to_owned(),
            Role::Mix => "mix".to_owned(),
            Role::Offered => "offered".to_owned(),
            Role::Second(model) => format!("second-{}", model.name()),
            Role::Other(number) => format!("other-{number}"),
        }
    }

    /// The role of a name in a data file.
    pub(crate) fn from_name(name: &str) -> Option<Role> {
        let model = |name: &str| Model::ALL.into_iter().find(|model| model.name() == name);
        if let Some(second) = name.strip_prefix("second-") {
            return model(second).map(Role::Second);
        }
        if let Some(number) = name.strip_prefix("other-") {
            return number.parse().ok().map(Role::Other);
        }
        if name == "offered" { Some(Role::Offered) } else { model(name).map(Model::role) }
    }
}
