//! What a page must contain, and what it must not.

use super::sample_page::page;
use crate::draw::draw;
use crate::reading::number;
use crate::*;

fn plots() -> Vec<(Figure, String, Vec<String>)> {
    page()
        .experiments
        .into_iter()
        .flat_map(|experiment| experiment.figures)
        .map(|figure| {
            let drawing = draw(&figure);
            (figure, drawing.svg, drawing.left_out)
        })
        .collect()
}

#[test]
fn each_plot_names_its_series_its_axes_and_its_marks() {
    for (figure, svg, _) in plots() {
        let (names, axes): (Vec<&str>, [String; 2]) = match &figure.plot {
            Plot::Lines(plot) => (
                plot.series.iter().map(|series| series.name.as_str()).collect(),
                [plot.x.name(), plot.y.name()],
            ),
            Plot::Bars(plot) => (
                plot.groups().iter().map(|group| group.name.as_str()).collect(),
                [plot.x.clone(), plot.y.name()],
            ),
        };
        for text in names.into_iter().chain(axes.iter().map(String::as_str)) {
            assert!(svg.contains(&format!("\n{text}\n")), "{}: no text {text:?}", figure.title);
        }
        for mark in &figure.marks {
            assert!(svg.contains(&format!("\n{}", mark.label)), "{}: no mark {:?}", figure.title, mark.label);
        }
    }
}

#[test]
fn each_number_of_a_plot_is_in_its_table() {
    let html = page().html();
    for experiment in page().experiments {
        for figure in &experiment.figures {
            let readings: Vec<&Reading> = match &figure.plot {
                Plot::Lines(plot) => plot.series.iter().flat_map(Series::points).map(|(_, y)| y).collect(),
                Plot::Bars(plot) => plot.groups().iter().flat_map(Group::readings).collect(),
            };
            for reading in readings {
                match reading.measured() {
                    Some((value, ..)) => {
                        assert!(html.contains(&format!("<td class=\"number\">{}</td>", number(value))));
                    }
                    None => assert!(html.contains("class=\"missing\">missing: ")),
                }
            }
        }
    }
}

#[test]
fn text_is_never_markup() {
    let evil = "<script>alert('1')</script>&\"\u{0}\u{1b}";
    let figure = Figure::lines(
        evil,
        Axis::linear(evil, evil),
        Axis::linear(evil, evil),
        [Series::new(evil, Role::Hyper).point(1.0, 1.0).point(2.0, Reading::missing(evil))],
    )
    .mark(Mark::paper(evil, Place::Level(1.0)));
    let bars = Figure::bars(evil, evil, [evil], Axis::linear(evil, evil)).group(evil, Role::Mix, [1.0]);
    let experiment = Experiment::new(evil, evil, evil)
        .setup(evil)
        .note(evil)
        .paper([PaperNumber::sentence(evil, evil)])
        .figure(figure)
        .figure(bars)
        .table(Table::new(evil, [evil]).row([evil.into()]).row([Reading::missing(evil).into()]))
        .verdict(Verdict::new(evil, Reading::missing(evil), evil).at_most(f64::NAN).note(evil));
    let page = Page {
        title: evil.to_owned(),
        machine: vec![(evil.to_owned(), evil.to_owned())],
        command: evil.to_owned(),
        took: std::time::Duration::ZERO,
        experiments: vec![experiment],
    };
    let html = page.html();
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;"));
    assert!(!html.chars().any(|letter| letter.is_control() && letter != '\n' && letter != '\t'));
    assert!(!html.contains("alert('"), "quotes would end an attribute");
}

#[test]
fn the_page_loads_nothing() {
    let html = page().html();
    for word in ["<script", "<link", "<img", "<iframe", "src=", "@import", "url("] {
        assert!(!html.contains(word), "{word}");
    }
    let links = html.split("href=\"").skip(1);
    assert!(links.clone().count() > 5);
    assert!(links.into_iter().all(|link| link.starts_with('#') || link.starts_with("data/")));
}

#[test]
fn what_is_missing_is_named_with_its_reason() {
    let all: Vec<String> = plots().into_iter().flat_map(|(.., left_out)| left_out).collect();
    for expected in [
        "split at 256 B: the sender was not faster than the function",
        "hyper at 1: the value is NaN",
        "hyper at 2: the value is inf",
        "merge, <b>escaped</b> & \"quoted\" in a name that is long: 0 has no place on the axis",
        "no number: its place is not on the axes",
    ] {
        assert!(all.iter().any(|found| found == expected), "{expected:?} is not in {all:#?}");
    }
}

#[test]
fn every_link_to_a_result_has_its_anchor() {
    let page = page();
    let html = page.html();
    for experiment in &page.experiments {
        assert!(html.contains(&format!("<section id=\"{}\">", experiment.id())));
        assert!(html.contains(&format!("<a href=\"#{}\">", experiment.id())));
    }
    assert!(html.contains("4 of 6 bounds are met."), "as many as the sample has");
}

#[test]
fn extreme_numbers_are_drawn() {
    let numbers = [0.0, -0.0, 1e-300, 5e-324, 1.0, -1e15, 1e299, 1e308, f64::MAX, f64::MIN, f64::NAN];
    for scale in [Axis::linear, Axis::log] {
        for first in numbers {
            for second in numbers {
                let series = Series::new("curve", Role::Hyper).point(first, second).point(second, first);
                let mark = Mark::paper("mark", Place::Band(first, second));
                let figure =
                    Figure::lines("extremes", scale("x", ""), scale("y", ""), [series]).mark(mark.clone());
                let svg = draw(&figure).svg;
                assert!(svg.ends_with("</svg>\n"), "{first} {second}");
                let figure = Figure::bars("extremes", "x", ["a", "b"], scale("y", ""))
                    .group("bar", Role::Mix, [first, second])
                    .mark(mark);
                assert!(draw(&figure).svg.ends_with("</svg>\n"), "{first} {second}");
            }
        }
    }
}

#[test]
fn bounds_hold_or_do_not() {
    let holds = |verdict: Verdict| verdict.holds();
    assert_eq!(holds(Verdict::new("r", 1.0, "")), None);
    assert_eq!(holds(Verdict::new("r", 1.0, "").at_most(1.0)), Some(true));
    assert_eq!(holds(Verdict::new("r", 1.1, "").at_most(1.0)), Some(false));
    assert_eq!(holds(Verdict::new("r", 0.9, "").at_least(1.0)), Some(false));
    assert_eq!(
        holds(Verdict::new("r", f64::NAN, "").at_least(1.0)),
        Some(false),
        "what is missing keeps nothing"
    );
}

#[test]
fn a_report_is_written_whole() {
    let dir = tempfile::tempdir().unwrap();
    let page = page();
    let path = page.write_to(dir.path()).unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), page.html());
    for experiment in &page.experiments {
        let path = dir.path().join("data").join(format!("{}.jsonl", experiment.id()));
        let found = read(&std::fs::read_to_string(path).unwrap()).unwrap();
        // A mark that is not a number equals nothing, so the lines are compared.
        assert_eq!(text(&found), text(experiment));
    }
    let files = std::fs::read_dir(dir.path().join("data")).unwrap().count();
    assert_eq!(files, page.experiments.len(), "nothing unfinished is left");
    let mut twice = page.clone();
    twice.experiments.extend(page.experiments.first().cloned());
    assert!(matches!(twice.write_to(dir.path()), Err(WriteError::Twice(id)) if id == "fig-3"));
}

#[test]
fn readings_are_finite_and_in_order() {
    assert_eq!(Reading::median(&[3.0, 1.0, 2.0, 9.0]).measured(), Some((2.0, 1.0, 9.0)));
    assert_eq!(Reading::spread(5.0, 7.0, 6.0).measured(), Some((5.0, 5.0, 7.0)));
    assert_eq!(Reading::median(&[]).why_missing(), Some("there was no run"));
    assert_eq!(Reading::median(&[1.0, f64::NAN]).value(), None);
}

#[test]
fn numbers_are_short() {
    for (value, expected) in [
        (0.0, "0"),
        (-0.0, "0"),
        (1234567.0, "1,234,567"),
        (-1234.6, "-1,235"),
        (165.55, "165.6"),
        (25.68, "25.68"),
        (0.30000000000000004, "0.3"),
        (0.995, "0.995"),
        (1e-7, "1.000e-7"),
        (2.5e12, "2.500e12"),
        (100.0, "100"),
    ] {
        assert_eq!(number(value), expected);
    }
}

#[test]
fn no_line_leads_across_what_is_missing() {
    let drawn = |middle: Reading| {
        let series = Series::new("curve", Role::Hyper).point(1.0, 1.0).point(2.0, 2.0).point(3.0, middle);
        let series = series.point(4.0, 4.0).point(5.0, 5.0);
        let svg = draw(&Figure::lines("t", Axis::linear("x", ""), Axis::linear("y", ""), [series])).svg;
        let lines = svg.matches("<polyline fill=\"none\" opacity=\"1\" stroke=\"#0072B2\"").count();
        (lines, svg.matches("<circle").count() / 2)
    };
    // The legend has one of each; a cross is two lines.
    assert_eq!(drawn(Reading::exact(3.0)), (1 + 1, 1 + 5));
    assert_eq!(drawn(Reading::missing("no run")), (1 + 2 + 2, 1 + 4));
}

#[test]
fn each_mark_has_its_letter_in_the_legend_and_in_the_plot() {
    let places = [
        Place::Level(1.0),
        Place::Band(1.0, 2.0),
        Place::Point(1.5, 1.5),
        Place::Level(1e6),
        Place::Point(1.5, -1e6),
    ];
    let series = Series::new("curve", Role::Hyper).point(1.0, 1.0).point(2.0, 2.0);
    let plot = Figure::lines("t", Axis::linear("x", ""), Axis::linear("y", ""), [series]);
    let bars =
        Figure::bars("t", "x", ["one", "two"], Axis::linear("y", "")).group("bar", Role::Mix, [1.0, 2.0]);
    for figure in [plot, bars] {
        let figure = places.iter().fold(figure, |figure, place| figure.mark(Mark::paper("mark", *place)));
        let svg = draw(&figure).svg;
        for letter in ["a", "b", "c", "d", "e"] {
            assert_eq!(svg.matches(&format!(">\n{letter}\n</text>")).count(), 2, "{letter}");
        }
        let beyond = |way: &str| svg.matches(&format!("mark ({way} the plot)")).count();
        assert_eq!((beyond("above"), beyond("below")), (1, 1));
    }
    let many = (0..30).fold(Figure::bars("t", "x", ["one"], Axis::linear("y", "")), |figure, level| {
        figure.mark(Mark::promise(format!("mark {level}"), Place::Level(f64::from(level))))
    });
    assert_eq!(draw(&many).left_out, [26, 27, 28, 29].map(|mark| format!("mark {mark}: more than 26 marks")));
}
