//! A parser of both notations that takes nothing but what this crate is to write: no empty lines, no
//! comments, no time stamps, families whole and once, samples named and labelled as their family wants it.

use metrics::Notation;
use std::collections::{BTreeMap, BTreeSet};

type Labels = Vec<(String, String)>;

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: Labels,
    pub value: String,
}

impl Sample {
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    pub name: String,
    pub help: String,
    pub kind: String,
    pub unit: Option<String>,
    pub samples: Vec<Sample>,
}

/// Takes a text apart; the error names the line.
pub fn parse(notation: Notation, text: &str) -> Result<Vec<Parsed>, String> {
    let body = match notation {
        Notation::Prometheus => text,
        Notation::OpenMetrics => text.strip_suffix("# EOF\n").ok_or("no end")?,
    };
    let lines: Vec<&str> = match body.strip_suffix('\n') {
        Some(body) => body.split('\n').collect(),
        None if body.is_empty() => Vec::new(),
        None => return Err("the last line does not end".to_owned()),
    };
    let (mut families, mut names) = (Vec::<Parsed>::new(), BTreeSet::new());
    for (n, line) in lines.iter().enumerate() {
        take(notation, line, &mut families, &mut names)
            .map_err(|why| format!("line {}: {why}: {line:?}", n + 1))?;
    }
    for family in &families {
        check(notation, family).map_err(|why| format!("{}: {why}", family.name))?;
    }
    Ok(families)
}

fn take(
    notation: Notation,
    line: &str,
    families: &mut Vec<Parsed>,
    names: &mut BTreeSet<String>,
) -> Result<(), String> {
    let Some(comment) = line.strip_prefix("# ") else {
        let sample = sample(line)?;
        let family = families.last_mut().ok_or("a sample without a family")?;
        if family.kind.is_empty() {
            return Err("a sample before its type".to_owned());
        }
        family.samples.push(sample);
        return Ok(());
    };
    let mut words = comment.splitn(3, ' ');
    let (Some(what), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else {
        return Err("a comment".to_owned());
    };
    match what {
        "HELP" => {
            if !is_name(name) || !names.insert(name.to_owned()) {
                return Err("a bad name, or the second family of this name".to_owned());
            }
            let help = unescape(rest, notation == Notation::OpenMetrics)?;
            families.push(Parsed { name: name.to_owned(), help, ..Parsed::default() });
            return Ok(());
        }
        "TYPE" | "UNIT" => {}
        _ => return Err("a comment".to_owned()),
    }
    let family = families.last_mut().filter(|family| family.name == name && family.samples.is_empty());
    let family = family.ok_or("not of the family that has just begun")?;
    match what {
        "TYPE" if family.kind.is_empty() => family.kind = rest.to_owned(),
        "UNIT" if family.unit.is_none() && notation == Notation::OpenMetrics => {
            if !name.ends_with(&format!("_{rest}")) {
                return Err("the name does not end with the unit".to_owned());
            }
            family.unit = Some(rest.to_owned());
        }
        _ => return Err("twice, or not in this notation".to_owned()),
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let fits = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    bytes.next().is_some_and(fits) && bytes.all(|byte| fits(byte) || byte.is_ascii_digit())
}

fn unescape(text: &str, quotes: bool) -> Result<String, String> {
    let (mut plain, mut chars) = (String::new(), text.chars());
    while let Some(char) = chars.next() {
        plain.push(match char {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('\\') => '\\',
                Some('"') if quotes => '"',
                other => return Err(format!("an escape of {other:?}")),
            },
            '"' if quotes => return Err("a bare quote".to_owned()),
            other => other,
        });
    }
    Ok(plain)
}

fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("neither labels nor a value")?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name) {
        return Err("a bad name".to_owned());
    }
    let mut labels = Vec::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (label, behind) = inside.split_once("=\"").ok_or("a label without a value")?;
            if !is_name(label) || label.starts_with("__") || labels.iter().any(|(name, _)| name == label) {
                return Err(format!("the label {label:?}"));
            }
            let mut escaped = false;
            let end = behind.find(|char| {
                let ends = char == '"' && !escaped;
                escaped = char == '\\' && !escaped;
                ends
            });
            let (value, behind) = behind.split_at(end.ok_or("a value without an end")?);
            labels.push((label.to_owned(), unescape(value, true)?));
            match behind.as_bytes().get(1) {
                Some(b',') => inside = &behind[2..],
                Some(b'}') => {
                    rest = &behind[2..];
                    break;
                }
                _ => return Err("labels without an end".to_owned()),
            }
        }
    }
    let value = rest.strip_prefix(' ').ok_or("no value")?;
    let plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !(plain && value.parse::<f64>().is_ok() || ["NaN", "+Inf", "-Inf"].contains(&value)) {
        return Err(format!("the value {value:?}"));
    }
    Ok(Sample { name: name.to_owned(), labels, value: value.to_owned() })
}

/// What must hold of a family as a whole.
fn check(notation: Notation, family: &Parsed) -> Result<(), String> {
    let name = &family.name;
    let fits = |suffix: &str| family.samples.iter().all(|sample| sample.name == format!("{name}{suffix}"));
    let named = match (family.kind.as_str(), notation) {
        ("counter", Notation::OpenMetrics) => fits("_total"),
        ("counter", Notation::Prometheus) => name.ends_with("_total") && fits(""),
        ("info", Notation::OpenMetrics) => fits("_info") && family.samples.iter().all(|s| s.value == "1"),
        ("gauge", _) => fits(""),
        ("histogram", _) => return histogram(family),
        (kind, _) => return Err(format!("the type {kind:?}")),
    };
    if !named {
        return Err("a sample's name is not the family's".to_owned());
    }
    let mut seen = BTreeSet::new();
    for sample in &family.samples {
        if !seen.insert(sample.labels.iter().collect::<BTreeSet<_>>()) {
            return Err(format!("twice: {sample:?}"));
        }
        if family.kind == "counter" && sample.value.parse::<f64>().is_ok_and(f64::is_nan) {
            return Err("a counter of NaN".to_owned());
        }
    }
    Ok(())
}

fn histogram(family: &Parsed) -> Result<(), String> {
    let mut buckets: BTreeMap<Labels, Vec<(f64, u64)>> = BTreeMap::new();
    let (mut counts, mut sums) = (BTreeMap::new(), BTreeSet::new());
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let number = |text: &str| text.parse::<f64>().map_err(|_| format!("{sample:?}"));
        let count = || sample.value.parse::<u64>().map_err(|_| format!("{sample:?}"));
        match sample.name.strip_prefix(&family.name) {
            Some("_bucket") => {
                let (label, bound) = labels.pop().ok_or("a bucket without a bound")?;
                if label != "le" {
                    return Err("a bucket whose last label is no bound".to_owned());
                }
                buckets.entry(labels).or_default().push((number(&bound.replace("+Inf", "inf"))?, count()?));
            }
            Some("_count") if counts.insert(labels, count()?).is_none() => {}
            Some("_sum") if sums.insert(sample.labels.clone()) => {}
            _ => return Err(format!("not of a histogram, or twice: {sample:?}")),
        }
    }
    for (labels, buckets) in &buckets {
        let grows = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let last = buckets.last().copied().unwrap_or_default();
        if !grows || last.0 != f64::INFINITY || counts.get(labels) != Some(&last.1) || !sums.contains(labels)
        {
            return Err(format!("the histogram of {labels:?}"));
        }
    }
    if counts.len() == buckets.len() && sums.len() == buckets.len() {
        Ok(())
    } else {
        Err("without buckets".to_owned())
    }
}

#[test]
fn it_lets_nothing_else_pass() {
    let good = "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v\\\\\\\"\\n\"} 1\n";
    let families = parse(Notation::Prometheus, good).expect("good");
    assert_eq!(families[0].samples[0].label("l"), Some("v\\\"\n"));
    for bad in [
        "# HELP a_total x\n# TYPE a_total counter\na_total 1",
        "# HELP a_total x\n# TYPE a_total counter\n\na_total 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v\\t\"} 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v\"\"} 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v\n\"} 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v\"} 1\na_total{l=\"v\"} 2\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v\",l=\"w\"} 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total inf\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total 1 \n",
        "# HELP a_total x\n# TYPE a_total counter\n# UNIT a_total total\na_total 1\n",
        "# HELP a x\n# TYPE a counter\na 1\n",
        "# HELP a x\n# TYPE a gauge\n# HELP b x\n# TYPE b gauge\na 1\n",
        "# HELP a x\n# TYPE a gauge\n# HELP a x\n# TYPE a gauge\na 1\n",
        "# TYPE a gauge\na 1\n",
        "# HELP a x\n# TYPE a gauge\n# TYPE a gauge\na 1\n",
        "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_count 1\nh_sum 1\n",
        "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_count 1\nh_sum 1\n",
    ] {
        assert!(parse(Notation::Prometheus, bad).is_err(), "{bad}");
    }
    let good =
        "# HELP a_seconds x\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total 1\n# EOF\n";
    assert_eq!(parse(Notation::OpenMetrics, good).expect("good")[0].unit.as_deref(), Some("seconds"));
    for bad in [
        "# HELP a x\n# TYPE a gauge\na 1\n",
        "# EOF\n# EOF\n",
        "# HELP a x\"y\n# TYPE a gauge\na 1\n# EOF\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total 1\n# EOF\n",
        "# HELP a_seconds x\n# TYPE a_seconds gauge\n# UNIT a_seconds bytes\na_seconds 1\n# EOF\n",
        "# HELP a x\n# TYPE a info\na_info 2\n# EOF\n",
    ] {
        assert!(parse(Notation::OpenMetrics, bad).is_err(), "{bad}");
    }
}
