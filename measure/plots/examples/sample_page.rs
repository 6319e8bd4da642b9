//! A page with every kind of plot, of made-up numbers:
//! `cargo run -p experiment --example sample_page -- DIR`.

use plots::{
    Axis, Experiment, Figure, Mark, Model, Page, Place, Reading, Role, Series, Shape, Table, Verdict, paper,
};
use std::path::Path;
use std::time::Duration;

fn main() {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "sample".to_owned());
    match page().write_to(Path::new(&dir)) {
        Ok(path) => println!("{}", path.display()),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

/// The page. Its numbers are those of no machine.
pub fn page() -> Page {
    Page {
        title: "HyperNF's experiments (made-up numbers)".to_owned(),
        machine: vec![
            ("processor".to_owned(), "none, these numbers are made up".to_owned()),
            ("kernel".to_owned(), "<none> & \"none\"".to_owned()),
        ],
        command: "cargo run -p experiment --example sample_page".to_owned(),
        took: Duration::from_millis(1_500),
        experiments: vec![synchronisation(), sizes(), shares(), traffic(), chains(), weights(), nothing()],
    }
}

fn spread(value: f64, part: f64) -> Reading {
    Reading::spread(value, value * (1.0 - part), value * (1.0 + part))
}

fn synchronisation() -> Experiment {
    let batches = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
    let mut hyper = Series::new("hyper", Role::Hyper);
    let mut merge = Series::new("merge", Role::Merge);
    for batch in batches {
        hyper.push(batch, spread(2.2 + 12.0 / batch, 0.1));
        merge.push(batch, spread(40.0 + 900.0 / batch, 0.2));
    }
    let figure = Figure::lines(
        "What handing over costs",
        Axis::log("batch", "packets").ticks(batches),
        Axis::log("synchronisation", "ns/packet"),
        [hyper, merge],
    )
    .mark(Mark::paper("paper: merge, 25.68 to 165.55 ns", Place::Band(25.68, 165.55)))
    .mark(Mark::promise("bound at batch 32: 5 ns", Place::Point(32.0, 5.0)));
    Experiment::new("fig-3", "Fig. 3: synchronisation", "What does it cost to hand a packet to the I/O?")
        .setup("One function that sends, one core.")
        .paper(paper::fig_3())
        .figure(figure)
        .verdict(Verdict::new("models/batch-overhead-ns", spread(2.6, 0.1), "ns").at_most(5.0))
}

fn sizes() -> Experiment {
    let sizes = [64.0, 256.0, 1024.0, 1500.0];
    let curve = |model: Model, full: f64, each: f64| {
        let mut series = Series::new(model.name(), model.role());
        for size in sizes {
            series.push(size, spread(1000.0 / (full + each * size), 0.06));
        }
        series
    };
    let split = Series::new("split", Role::Split)
        .point(64.0, spread(3.1, 0.08))
        .point(256.0, Reading::missing("the sender was not faster than the function"))
        .point(1024.0, spread(2.2, 0.08))
        .point(1500.0, spread(1.9, 0.08));
    let figure = Figure::lines(
        "Throughput of the router",
        Axis::log("packet size", "B").ticks(sizes),
        Axis::linear("throughput", "Mp/s"),
        [curve(Model::Hyper, 180.0, 0.1), split, curve(Model::Merge, 240.0, 0.12)],
    )
    .mark(Mark::paper("paper: HyperNF, 4.2 Mp/s at 64 B", Place::Point(64.0, 4.2)));
    let rules = Figure::lines(
        "Two firewalls under static shares",
        Axis::linear("share of the I/O", "%"),
        Axis::linear("throughput", "Mp/s"),
        [
            Series::new("split, 10 rules", Role::Split).point(25.0, 1.0).point(50.0, 2.0).point(75.0, 1.5),
            Series::new("split, 50 rules", Role::Second(Model::Split))
                .point(25.0, 0.7)
                .point(50.0, 0.6)
                .point(75.0, 0.3),
            Series::new("hyper, 10 rules", Role::Hyper).shape(Shape::Points).point(50.0, 2.6),
            Series::new("hyper, 50 rules", Role::Second(Model::Hyper)).shape(Shape::Points).point(50.0, 0.8),
        ],
    );
    Experiment::new("fig-6d", "Fig. 6d: a router", "Which model forwards most, and by how much?")
        .paper(paper::fig_6d())
        .figure(figure)
        .figure(rules)
        .verdict(Verdict::new("models/worst-ratio", spread(1.18, 0.03), "ratio").at_least(1.0))
}

fn shares() -> Experiment {
    let setups = ["A 50/50", "A 70/30", "A 30/70", "B 50/50", "B 70/30", "B 30/70"];
    let split = [4.0, 60.0, 175.0, 90.0, 33.0].into_iter().map(|error| spread(error, 0.05));
    let figure = Figure::bars(
        "Error of the share, the worse of two functions",
        "setup, shares",
        setups,
        Axis::linear("error", "%"),
    )
    .group("hyper", Role::Hyper, [0.3, 0.2, -0.4, 0.1, 0.9, 0.3])
    .group("split", Role::Split, split.chain([Reading::missing("its baseline was \u{0}nothing\u{0}")]))
    .group("merge", Role::Merge, [-20.0, -47.0, 33.0, 15.0, 22.0, -31.0])
    .mark(Mark::paper("paper: split, worst", Place::Level(175.0)))
    .mark(Mark::paper("paper: merge, worst", Place::Level(47.0)))
    .mark(Mark::paper("paper: HyperNF, worst", Place::Level(2.9)))
    .mark(Mark::promise("bound", Place::Level(1.0)));
    let names =
        ["bridge, 64 B beside firewall, 1,472 B", "<b>escaped</b> & \"quoted\" in a name that is long"];
    let goodput = Figure::bars("Goodput", "setup", names, Axis::log("goodput", "Mp/s"))
        .group("hyper", Role::Hyper, [Reading::spread(4.0, 3.8, 4.1), Reading::spread(0.2, 0.1, 0.3)])
        .group("split", Role::Split, [2.0, 0.1])
        .group("merge", Role::Merge, [3.0, 0.0])
        .group("mix", Role::Mix, [2.5, 0.08])
        .group("promised", Role::Offered, [4.0, 0.2]);
    Experiment::new("fig-8", "Fig. 8: shares", "Do functions get what they were promised?")
        .paper(paper::fig_8())
        .figure(figure)
        .figure(goodput)
        .table(
            Table::new("Baselines", ["function", "packet size (B)", "alone (Mp/s)"])
                .row(["bridge".into(), 64.0.into(), spread(8.0, 0.01).into()])
                .row(["firewall".into(), 1472.0.into(), Reading::missing("no run").into()]),
        )
        .verdict(Verdict::new("shares/a-50-50-error", 0.3, "%").at_most(1.0))
        .verdict(
            Verdict::new("shares/b-30-70-error", Reading::missing("no run"), "%").at_most(1.0).note("why"),
        )
}

fn traffic() -> Experiment {
    let offered =
        |second: u32| 6.0 + 3.0 * (f64::from(second) / 4.0).sin() + if second == 18 { 3.0 } else { 0.0 };
    let mut total = Series::new("offered", Role::Offered).shape(Shape::Steps);
    let mut curves: Vec<Series> =
        Model::ALL.map(|model| Series::new(model.name(), model.role()).shape(Shape::Steps)).into();
    for second in 0..60 {
        total.push(f64::from(second), offered(second));
        for (curve, (most, part)) in
            curves.iter_mut().zip([(9.0, 0.995), (5.5, 0.8), (6.0, 0.9), (7.0, 0.85)])
        {
            curve.push(f64::from(second), spread((offered(second) * part).min(most), 0.03));
        }
    }
    curves.insert(0, total);
    let figure = Figure::lines(
        "Forwarded by 30 functions",
        Axis::linear("time", "s"),
        Axis::linear("cumulative throughput", "Mp/s"),
        curves,
    );
    let mut flows = Series::new("flows at 18 s", Role::Other(0)).shape(Shape::Steps);
    let mut later = Series::new("flows at 24 s", Role::Other(1)).shape(Shape::Steps);
    for flow in 0..30 {
        flows.push(1.5 + f64::from(flow) / 60.0, f64::from(flow + 1) / 30.0);
        later.push(0.05 * 1.14f64.powi(flow), f64::from(flow + 1) / 30.0);
    }
    let distribution = Figure::lines(
        "Rates of the flows",
        Axis::linear("rate", "Mp/s"),
        Axis::linear("part of the flows", ""),
        [flows, later],
    );
    Experiment::new("fig-11", "Fig. 11: cumulative traffic", "Which model follows the load?")
        .paper(paper::fig_11())
        .figure(figure)
        .figure(distribution)
        .verdict(Verdict::new("dynamic/cumulative", 0.995, "ratio").at_least(0.99))
}

fn chains() -> Experiment {
    let lengths = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0];
    let curves = [(Model::Hyper, 0.4), (Model::Split, 3.0), (Model::Merge, 9.0), (Model::Mix, 6.0)];
    let series = curves.map(|(model, each)| {
        let mut series = Series::new(model.name(), model.role());
        for length in lengths {
            series.push(length, spread(each * length, 0.1));
        }
        series
    });
    let figure = Figure::lines(
        "Latency",
        Axis::linear("functions in the chain", ""),
        Axis::linear("round trip", "us"),
        series,
    )
    .mark(Mark::paper("paper: HyperNF, 2,000 us for 50", Place::Point(50.0, 2_000.0)));
    Experiment::new("fig-13b", "Fig. 13b: latency of chains", "How long is a packet on its way?")
        .paper(paper::fig_13b())
        .figure(figure)
        .verdict(Verdict::new("chain-latency/p50-us", 20.0, "us").at_most(5.0))
}

fn weights() -> Experiment {
    let weights = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
    let mut promised = Series::new("promised", Role::Offered);
    let mut got = Series::new("hyper", Role::Hyper).shape(Shape::Points);
    for weight in weights {
        promised.push(weight, weight / 2.55);
        got.push(weight, spread(weight / 2.55, 0.1));
    }
    let figure = Figure::lines(
        "Eight functions of weights 1 to 128",
        Axis::log("weight", "").ticks(weights),
        Axis::log("processor time", "%"),
        [promised, got],
    );
    Experiment::new("weights", "Weights from 1 to 128", "Do shares hold over two decades?").figure(figure)
}

fn nothing() -> Experiment {
    let missing = Series::new("hyper", Role::Hyper).point(1.0, f64::NAN).point(2.0, f64::INFINITY);
    let lines = Figure::lines(
        "Nothing was measured",
        Axis::log("functions", ""),
        Axis::linear("CPU", "%"),
        [missing],
    );
    let none: [&str; 0] = [];
    let bars = Figure::bars("Nothing to measure", "setup", none, Axis::linear("CPU", "%"))
        .mark(Mark::promise("no number", Place::Level(f64::NAN)));
    Experiment::new("nothing", "Nothing", "What becomes of missing values?").figure(lines).figure(bars)
}
