//! What is written is read back, whatever it is; what is not whole is refused.

use super::sample_page::page;
use crate::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn some_text() -> impl Strategy<Value = String> {
    ".{0,12}"
}

fn some_reading() -> impl Strategy<Value = Reading> {
    prop_oneof![
        (any::<f64>(), any::<f64>(), any::<f64>())
            .prop_map(|(value, low, high)| Reading::spread(value, low, high)),
        some_text().prop_map(Reading::missing),
    ]
}

fn some_role() -> impl Strategy<Value = Role> {
    prop_oneof![
        (0..4usize).prop_map(|model| Model::ALL[model].role()),
        (0..4usize).prop_map(|model| Role::Second(Model::ALL[model])),
        any::<u8>().prop_map(Role::Other),
        Just(Role::Offered),
    ]
}

fn some_axis() -> impl Strategy<Value = Axis> {
    (some_text(), some_text(), any::<bool>(), vec(any::<f64>(), 0..4)).prop_map(
        |(label, unit, log, ticks)| {
            let axis = if log { Axis::log(&label, &unit) } else { Axis::linear(&label, &unit) };
            axis.ticks(ticks)
        },
    )
}

fn some_lines() -> impl Strategy<Value = Figure> {
    let shape = prop_oneof![Just(Shape::Line), Just(Shape::Steps), Just(Shape::Points)];
    let series = (some_text(), some_role(), shape, vec((any::<f64>(), some_reading()), 0..4)).prop_map(
        |(name, role, shape, points)| {
            points.into_iter().fold(Series::new(name, role).shape(shape), |series, (x, y)| series.point(x, y))
        },
    );
    (some_text(), some_axis(), some_axis(), vec(series, 0..3))
        .prop_map(|(title, x, y, series)| Figure::lines(title, x, y, series))
}

fn some_bars() -> impl Strategy<Value = Figure> {
    let group = (some_text(), some_role(), vec(some_reading(), 0..4));
    (some_text(), some_text(), vec(some_text(), 0..4), some_axis(), vec(group, 0..3)).prop_map(
        |(title, x, categories, y, groups)| {
            let figure = Figure::bars(title, &x, categories, y);
            groups
                .into_iter()
                .fold(figure, |figure, (name, role, readings)| figure.group(name, role, readings))
        },
    )
}

fn some_mark() -> impl Strategy<Value = Mark> {
    let finite = -1e9..1e9;
    let place = prop_oneof![
        finite.clone().prop_map(Place::Level),
        (finite.clone(), finite.clone()).prop_map(|(low, high)| Place::Band(low, high)),
        (finite.clone(), finite).prop_map(|(x, y)| Place::Point(x, y)),
    ];
    (some_text(), place, any::<bool>()).prop_map(|(label, place, paper)| {
        if paper { Mark::paper(label, place) } else { Mark::promise(label, place) }
    })
}

prop_compose! {
    fn some_experiment()(
        id in "[a-z0-9-]{1,8}",
        title in some_text(),
        question in some_text(),
        setup in vec(some_text(), 0..3),
        notes in vec(some_text(), 0..3),
        paper in vec((some_text(), some_text(), -1e9..1e9f64), 0..3),
        figures in vec((prop_oneof![some_lines(), some_bars()], vec(some_mark(), 0..3)), 0..3),
        columns in vec(some_text(), 0..3),
        rows in vec(vec(prop_oneof![some_reading().prop_map(Cell::Number), some_text().prop_map(Cell::Text)], 0..4), 0..3),
        verdicts in vec((some_text(), some_reading(), 0..3u8, -1e9..1e9f64, some_text()), 0..3),
    ) -> Experiment {
        let mut experiment = Experiment::new(&id, title, question);
        experiment.setup = setup;
        experiment.notes = notes;
        experiment.paper = paper.into_iter().map(|(place, says, value)| PaperNumber::new(&place, &says, value, "u")).collect();
        experiment.figures = figures.into_iter().map(|(mut figure, marks)| {
            figure.marks = marks;
            figure
        }).collect();
        experiment.tables = vec![rows.into_iter().fold(Table::new("t", columns), Table::row)];
        experiment.verdicts = verdicts.into_iter().map(|(result, reading, bound, at, note)| {
            let verdict = Verdict::new(result, reading, "u").note(note);
            match bound {
                0 => verdict,
                1 => verdict.at_most(at),
                _ => verdict.at_least(at),
            }
        }).collect();
        experiment
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_written_is_read_back(experiment in some_experiment()) {
        prop_assert_eq!(read(&text(&experiment)), Ok(experiment));
    }

    #[test]
    fn whatever_is_read_can_be_shown(experiment in some_experiment()) {
        for figure in &experiment.figures {
            prop_assert!(crate::draw::draw(figure).svg.ends_with("</svg>\n"));
        }
    }

    #[test]
    fn no_change_of_a_file_makes_the_reader_panic(experiment in some_experiment(), at: prop::sample::Index, byte: u8) {
        let mut bytes = text(&experiment).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = read(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_file_that_is_cut_off_is_refused() {
    let experiment = page().experiments.remove(0);
    let text = text(&experiment);
    for (cut, _) in text.match_indices('\n') {
        let begun = text.get(..cut).unwrap_or_default();
        if begun.lines().count() < text.lines().count() {
            assert!(matches!(read(begun), Err(ReadError::CutOff(lines)) if lines == begun.lines().count()));
        }
    }
    assert_eq!(read(""), Err(ReadError::CutOff(0)));
    assert!(read(&text).is_ok());
}

#[test]
fn each_line_stands_where_it_may() {
    let whole = text(&page().experiments.remove(0));
    let said = |text: &str| read(text).map_err(|error| error.to_string()).err().unwrap_or_default();
    let without = |kind: &str| -> String {
        whole
            .lines()
            .filter(|line| !line.contains(&format!("\"kind\":\"{kind}\"")))
            .map(|line| format!("{line}\n"))
            .collect()
    };
    for (text, expected) in [
        (without("experiment"), "line 1: a file begins with a line of kind \"experiment\""),
        (without("figure"), "figure is 1, expected 0"),
        (without("series"), "no series \"hyper\" stands above"),
        (without("paper"), "stand before it"),
        (
            whole.replace("\"superfluid_experiment\":1", "\"superfluid_experiment\":2"),
            "line 1: superfluid_experiment is 2, this program reads 1",
        ),
        (whole.replace("\"y_unit\"", "\"yunit\""), "unknown field `yunit`"),
        (
            whole.replace("\"holds\":true", "\"holds\":false"),
            "holds is Some(false), but the bound says Some(true)",
        ),
        (
            whole.replace("\"experiment\":\"fig-3\"", "\"experiment\":\"../fig-3\""),
            "line 1: experiment is \"../fig-3\", allowed are",
        ),
        (whole.replace("\"role\":\"merge\"", "\"role\":\"emerge\""), "unknown role \"emerge\""),
        (format!("{whole}{}", whole.lines().last().unwrap_or_default()), "it stands behind the end"),
    ] {
        assert!(said(&text).contains(expected), "{:?} does not say {expected:?}", said(&text));
    }
}

#[test]
fn a_group_has_a_bar_for_each_category() {
    let whole = text(&page().experiments.remove(2));
    let (bar, _) = whole.match_indices("{\"kind\":\"bar\"").nth(5).unwrap();
    let (before, rest) = whole.split_at(bar);
    let (_, after) = rest.split_once('\n').unwrap();
    let error = read(&format!("{before}{after}")).unwrap_err().to_string();
    assert!(error.ends_with("\"hyper\" has 5 bars above, expected 6"), "{error}");
    let error =
        read(&whole.replace("\"category\":\"A 70/30\"", "\"category\":\"C\"")).unwrap_err().to_string();
    assert!(error.ends_with("category is \"C\", expected \"A 70/30\""), "{error}");
}

#[test]
fn lines_say_alone_what_they_are() {
    for line in text(&page().experiments.remove(1)).lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["experiment"], "fig-6d");
        if value["kind"] == "point" {
            assert!(value["y_unit"] == "Mp/s" && value["x"].is_number() && value["series"].is_string());
            assert!(value["y"].is_number() != value["missing"].is_string());
        }
    }
}
