//! Any target of a request is taken apart and normalised as a plain reading has it, which goes from character
//! to character, and from one step of RFC 3986 section 5.2.4 to the next.

use dpi::message::uri::{normalise, split, without_port};

/// Host and rest: `SCHEME://HOST REST`, where the host may come behind a name and a password.
fn parts(target: &str) -> (Option<&str>, &str) {
    let Some((scheme, rest)) = target.split_once("://") else { return (None, target) };
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || c == '+';
    if scheme.is_empty() || !scheme.chars().all(is_scheme) {
        return (None, target);
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    (Some(authority.split('@').next_back().unwrap_or(authority)), path)
}

/// What stands before the colon that is in no brackets, and no dot at its end.
fn name(host: &str) -> &str {
    let (address, rest) = host.split_at(host.find(']').unwrap_or(0));
    let name = &host[..address.len() + rest.find(':').unwrap_or(rest.len())];
    name.strip_suffix('.').unwrap_or(name)
}

/// The number that these digits are.
fn number(digits: &[char]) -> Option<u32> {
    digits.iter().try_fold(0, |all, digit| Some(all * 16 + digit.to_digit(16)?))
}

/// With each escape as what it stands for, once.
fn unescaped(text: &[char], is_path: bool) -> Vec<char> {
    let (first, rest) = match *text {
        [] => return vec![],
        ['%', 'u' | 'U', ref digits @ ..] if is_path && digits.get(..4).and_then(number).is_some() => {
            let value = digits.get(..4).and_then(number).unwrap_or(0);
            let wide = value.checked_sub(0xfee0).filter(|narrow| (0x21..0x7f).contains(narrow));
            let narrow = wide.or(Some(value).filter(|value| *value < 0x100));
            (narrow.and_then(char::from_u32).unwrap_or('?'), &digits[4..])
        }
        ['%', ref digits @ ..] if digits.get(..2).and_then(number).is_some() => {
            (digits.get(..2).and_then(number).and_then(char::from_u32).unwrap_or('%'), &digits[2..])
        }
        [first, ref rest @ ..] => (first, rest),
    };
    let mut all = vec![first];
    all.append(&mut unescaped(rest, is_path));
    all
}

/// Both slashes are one, and many are too.
fn with_single_slashes(path: &[char]) -> String {
    let path: String = path.iter().map(|c| if *c == '\\' { '/' } else { *c }).collect();
    path.chars().fold(String::new(), |before, c| {
        if c == '/' && before.ends_with('/') { before } else { before + c.encode_utf8(&mut [0; 4]) }
    })
}

/// RFC 3986 section 5.2.4, each of its steps.
fn without_dots(mut input: String) -> String {
    let mut output = String::new();
    while !input.is_empty() {
        if let Some(rest) = input.strip_prefix("../").or_else(|| input.strip_prefix("./")) {
            input = rest.to_owned();
        } else if let Some(rest) = input.strip_prefix("/./") {
            input = format!("/{rest}");
        } else if input == "/." {
            input = "/".to_owned();
        } else if input.starts_with("/../") || input == "/.." {
            input = format!("/{}", input.get(4..).unwrap_or(""));
            output.truncate(output.rfind('/').unwrap_or(0));
        } else if input == "." || input == ".." {
            input.clear();
        } else {
            let first = input.chars().next().map_or(0, char::len_utf8);
            let end = input[first..].find('/').map_or(input.len(), |end| first + end);
            output += &input[..end];
            input = input[end..].to_owned();
        }
    }
    output
}

fn normal(target: &str) -> String {
    let (path, query) = target.split_at(target.find(['?', '#']).unwrap_or(target.len()));
    let [path, query] = [(path, true), (query, false)].map(|(text, is_path)| {
        let characters: Vec<char> = text.chars().collect();
        unescaped(&characters, is_path)
    });
    without_dots(with_single_slashes(&path)) + &query.iter().collect::<String>()
}

pub fn run(target: &[u8]) {
    // A byte is the character of its number.
    let text: String = target.iter().copied().map(char::from).collect();
    let bytes = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
    let (host, path) = split(target);
    let (expected_host, expected_path) = parts(&text);
    assert_eq!((host.map(<[u8]>::to_vec), path), (expected_host.map(bytes), &bytes(expected_path)[..]));
    let host = host.unwrap_or(target);
    let expected = name(expected_host.unwrap_or(&text));
    assert_eq!(without_port(host), bytes(expected));
    // What was in the memory before is left alone.
    let mut made = b"/before/..".to_vec();
    normalise(path, &mut made);
    assert_eq!(made.strip_prefix(b"/before/.."), Some(&bytes(&normal(expected_path))[..]));
}
