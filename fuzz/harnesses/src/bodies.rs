//! A body comes out of its encodings as what it was put into them as: files of gzip with several members,
//! zlib, and bare deflate, with blocks of every kind, whole or cut, in chunks. Any bytes are inflated as a
//! plain decoder does, which takes one bit after the other (RFC 1951), as far as they can be.

use dpi::message::body::{Inflater, without_chunks};

/// Most bytes that a body is decoded to.
const LIMIT: usize = 1 << 12;

/// Bits, the lowest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    fn bit(&mut self) -> Option<usize> {
        let bit = *self.bytes.get(self.at / 8)? >> (self.at % 8) & 1;
        self.at += 1;
        Some(usize::from(bit))
    }

    /// A number, the lowest bit first.
    fn number(&mut self, bits: usize) -> Option<usize> {
        (0..bits).try_fold(0, |number, place| Some(number | self.bit()? << place))
    }

    /// What begins with the next whole byte.
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at.div_ceil(8)..).unwrap_or_default()
    }
}

/// A code: the symbols of each length of words, in their order.
struct Code([Vec<usize>; 16]);

impl Code {
    /// Of the length of each symbol's word; 0 for none.
    fn new(lengths: &[usize]) -> Code {
        let of = |length| (0..lengths.len()).filter(|symbol| lengths[*symbol] == length).collect();
        Code(std::array::from_fn(of))
    }

    /// Takes a word, bit by bit: words of a length follow one another, behind those that shorter ones begin.
    fn symbol(&self, bits: &mut Bits<'_>) -> Option<usize> {
        let (mut word, mut first) = (0, 0);
        for symbols in &self.0[1..] {
            word = word * 2 + bits.bit()?;
            first *= 2;
            if let Some(symbol) = symbols.get(word - first) {
                return Some(*symbol);
            }
            first += symbols.len();
        }
        None
    }

    /// Whether it has one word for every sequence of bits.
    fn is_whole(&self) -> bool {
        let share = |length: usize| self.0[length].len() << (15 - length);
        (1..16).map(share).sum::<usize>() == 1 << 15
    }

    /// Or no word, or one of one bit.
    fn is_whole_or_short(&self) -> bool {
        let count = |lengths: std::ops::Range<usize>| self.0[lengths].iter().map(Vec::len).sum::<usize>();
        self.is_whole() || count(1..2) <= 1 && count(2..16) == 0
    }

    fn fixed() -> [Code; 2] {
        let literals = std::array::from_fn::<_, 288, _>(|symbol| match symbol {
            144..256 => 9,
            256..280 => 7,
            _ => 8,
        });
        [Code::new(&literals), Code::new(&[5; 32])]
    }

    /// RFC 1951 section 3.2.7.
    fn dynamic(bits: &mut Bits<'_>) -> Option<[Code; 2]> {
        const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
        let counts = [257 + bits.number(5)?, 1 + bits.number(5)?];
        let mut lengths = vec![0; 19];
        for place in ORDER.into_iter().take(4 + bits.number(4)?) {
            lengths[place] = bits.number(3)?;
        }
        let code = Code::new(&lengths);
        let mut lengths: Vec<usize> = vec![];
        if counts[0] > 286 || counts[1] > 30 || !code.is_whole() {
            return None;
        }
        while lengths.len() < counts[0] + counts[1] {
            let (length, times) = match code.symbol(bits)? {
                16 => (*lengths.last()?, 3 + bits.number(2)?),
                17 => (0, 3 + bits.number(3)?),
                18 => (0, 11 + bits.number(7)?),
                length => (length, 1),
            };
            lengths.extend(vec![length; times]);
        }
        let distances = lengths.split_off(counts[0]);
        let codes = [Code::new(&lengths), Code::new(&distances)];
        (distances.len() == counts[1] && codes.iter().all(Code::is_whole_or_short)).then_some(codes)
    }
}

/// Appends what is in a block.
fn block(bits: &mut Bits<'_>, [literals, distances]: &[Code; 2], out: &mut Vec<u8>) -> Option<()> {
    while out.len() < LIMIT {
        let length = match literals.symbol(bits)? {
            literal @ 0..256 => {
                out.push(literal as u8);
                continue;
            }
            256 => return Some(()),
            symbol @ 257..265 => symbol - 254,
            // Each four symbols have a bit more to say.
            symbol @ 265..285 => {
                let more = (symbol - 261) / 4;
                3 + ((4 + (symbol - 265) % 4) << more) + bits.number(more)?
            }
            285 => 258,
            _ => return None,
        };
        let distance = match distances.symbol(bits)? {
            symbol @ 0..4 => 1 + symbol,
            symbol @ 4..30 => {
                let more = symbol / 2 - 1;
                1 + ((2 + symbol % 2) << more) + bits.number(more)?
            }
            _ => return None,
        };
        for _ in 0..length {
            out.push(*out.get(out.len().checked_sub(distance)?)?);
        }
    }
    None
}

/// What deflated data have in them, as far as they can be read, and what is behind them.
fn inflated(data: &[u8]) -> (Vec<u8>, Option<&[u8]>) {
    let (mut out, mut bits) = (vec![], Bits { bytes: data, at: 0 });
    let mut all = || loop {
        let is_last = bits.bit()? == 1;
        match bits.number(2)? {
            0 => {
                let head = bits.rest();
                let (length, inverse) = (head.first_chunk::<2>()?, head.get(2..)?.first_chunk::<2>()?);
                let [length, inverse] = [length, inverse].map(|two| u16::from_le_bytes(*two));
                if length != !inverse {
                    return None;
                }
                let count = usize::from(length).min(head.len() - 4).min(LIMIT - out.len());
                out.extend(&head[4..4 + count]);
                bits = Bits { bytes: head.get(4 + usize::from(length)..)?, at: 0 };
            }
            1 => block(&mut bits, &Code::fixed(), &mut out)?,
            2 => {
                let codes = Code::dynamic(&mut bits)?;
                block(&mut bits, &codes, &mut out)?;
            }
            _ => return None,
        }
        if is_last {
            return Some(bits.rest());
        }
    };
    let rest = all();
    out.truncate(LIMIT);
    (out, rest)
}

/// Writes bits, the lowest of each byte first.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    bits: usize,
}

impl Writer {
    fn number(&mut self, value: usize, bits: usize) {
        for place in 0..bits {
            if self.bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= ((value >> place & 1) as u8) << (self.bits % 8);
            }
            self.bits += 1;
        }
    }

    /// A word of a code, the highest bit first.
    fn word(&mut self, word: usize, bits: usize) {
        (0..bits).rev().for_each(|place| self.number(word >> place, 1));
    }
}

/// Says what to write next; zero for ever behind the end.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    fn below(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        self.0.split_off(..count.min(self.0.len())).unwrap_or_default()
    }
}

/// A symbol of the fixed code.
fn fixed(writer: &mut Writer, symbol: usize) {
    match symbol {
        0..144 => writer.word(0x30 + symbol, 8),
        144..256 => writer.word(0x190 + symbol - 144, 9),
        256..280 => writer.word(symbol - 256, 7),
        _ => writer.word(0xc0 + symbol - 280, 8),
    }
}

/// Deflated data, what is in them added to `text`.
fn deflated(choices: &mut Choices<'_>, text: &mut Vec<u8>) -> Vec<u8> {
    let (mut writer, start) = (Writer::default(), text.len());
    for left in (0..=choices.below(4)).rev() {
        writer.number(usize::from(left == 0), 1);
        if choices.below(2) == 0 {
            writer.number(0, 2);
            let count = choices.below(20);
            let stored = choices.bytes(count);
            writer.bits = writer.bits.next_multiple_of(8);
            let length = stored.len() as u16;
            for part in [&length.to_le_bytes()[..], &(!length).to_le_bytes(), stored] {
                writer.bytes.extend(part);
            }
            writer.bits = writer.bytes.len() * 8;
            text.extend(stored);
            continue;
        }
        writer.number(1, 2);
        for _ in 0..choices.below(12) {
            let before = text.len() - start;
            if before > 0 && choices.below(3) == 0 {
                // Three to ten bytes, from at most four bytes before.
                let (length, distance) = (3 + choices.below(8), 1 + choices.below(before.min(4)));
                fixed(&mut writer, 254 + length);
                writer.word(distance - 1, 5);
                (0..length).for_each(|_| text.push(text[text.len() - distance]));
            } else {
                let literal = choices.byte();
                fixed(&mut writer, literal.into());
                text.push(literal);
            }
        }
        fixed(&mut writer, 256);
    }
    writer.bytes
}

/// RFC 1950 section 8.2.
fn adler(text: &[u8]) -> u32 {
    let sums = text
        .iter()
        .fold([1, 0], |[a, b], byte| [(a + u32::from(*byte)) % 65_521, (b + a + u32::from(*byte)) % 65_521]);
    sums[1] << 16 | sums[0]
}

/// A body that is encoded, what it is, and whether a part of it may look like something else.
fn encoded(choices: &mut Choices<'_>) -> (Vec<u8>, Vec<u8>, bool) {
    let mut text = vec![];
    let kind = choices.below(4);
    let body = match kind {
        0 => deflated(choices, &mut text),
        // RFC 1950 section 2.2.
        1 => {
            let data = deflated(choices, &mut text);
            [&[0x78, 0x9c][..], &data, &adler(&text).to_be_bytes()].concat()
        }
        _ => {
            let mut file = vec![];
            for _ in 0..=choices.below(3) {
                let flags = choices.byte() & 0x1f;
                let (extra, name) = (choices.below(5), choices.below(5));
                file.extend([0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 3]);
                if flags & 4 != 0 {
                    file.extend((extra as u16).to_le_bytes());
                    file.extend(vec![0xee; extra]);
                }
                for bit in [8, 16] {
                    if flags & bit != 0 {
                        file.extend(vec![b'n'; name]);
                        file.push(0);
                    }
                }
                file.extend(vec![0xcc; usize::from(flags & 2)]);
                file.extend(deflated(choices, &mut text));
                file.extend([0xdd; 8]);
            }
            file.extend(vec![b'x'; choices.below(2)]);
            file
        }
    };
    (body, text, kind == 1)
}

/// In chunks.
fn chunked(body: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let (mut out, mut rest) = (vec![], body);
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at((1 + choices.below(40)).min(rest.len()));
        let zeros = "0".repeat(choices.below(4));
        let extension = ["", " ", "\t", ";a", " ; b=\"c\""][choices.below(5)];
        let end = ["\r\n", "\n"][choices.below(2)];
        out.extend(format!("{zeros}{:x}{extension}{end}", chunk.len()).into_bytes());
        out.extend([chunk, end.as_bytes()].concat());
        rest = behind;
    }
    if choices.below(2) == 0 {
        out.extend(b"0\r\nTrailer: yes\r\n\r\n");
    }
    out
}

/// What is in a body without a header of gzip. What begins as zlib may be none: with another sum than it says
/// the longer text counts.
fn plain(body: &[u8]) -> Vec<u8> {
    let bare = || inflated(body).0;
    let [method, flags, data @ ..] = body else { return bare() };
    let number = u16::from_be_bytes([*method, *flags]);
    if method % 16 != 8 || method / 16 > 7 || flags & 0x20 != 0 || !number.is_multiple_of(31) {
        return bare();
    }
    let (text, rest) = inflated(data);
    let is_right = rest.is_some_and(|rest| rest.starts_with(&adler(&text).to_be_bytes()));
    if is_right || text.len() == LIMIT {
        return text;
    }
    Some(bare()).filter(|bare| bare.len() >= text.len()).unwrap_or(text)
}

pub fn run(data: &[u8]) {
    let mut inflater = Inflater::default();
    let mut choices = Choices(data);
    let limit = 1 + 8 * choices.below(20);
    let (body, text, is_zlib) = encoded(&mut choices);
    for limit in [LIMIT, limit] {
        let made = inflater.decode(&body, limit);
        assert_eq!(made, text[..text.len().min(limit)]);
        inflater.take_back(made);
    }
    let cut = &body[..body.len() - choices.below(1 + body.len().min(255))];
    let made = inflater.decode(cut, LIMIT);
    assert!(is_zlib || text.starts_with(&made), "{made:?}");
    inflater.take_back(made);
    assert_eq!(without_chunks(&chunked(&body, &mut choices)), body);

    if !data.starts_with(&[0x1f, 0x8b]) {
        let made = inflater.decode(data, LIMIT);
        assert_eq!(made, plain(data));
    }
}
