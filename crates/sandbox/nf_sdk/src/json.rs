//! Writes JSON (RFC 8259) into a string, without the formatting machinery.

use alloc::string::String;

/// A JSON writer. Commas are placed by it; that objects and arrays are closed is up to the caller.
pub struct Json<'a> {
    out: &'a mut String,
    first: bool,
}

impl<'a> Json<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut String) -> Json<'a> {
        Json { out, first: true }
    }

    fn separate(&mut self) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
    }

    /// Begins an object: `{`.
    pub fn object(&mut self) -> &mut Self {
        self.separate();
        self.out.push('{');
        self.first = true;
        self
    }

    /// Ends an object: `}`.
    pub fn end_object(&mut self) -> &mut Self {
        self.out.push('}');
        self.first = false;
        self
    }

    /// Begins an array: `[`.
    pub fn array(&mut self) -> &mut Self {
        self.separate();
        self.out.push('[');
        self.first = true;
        self
    }

    /// Ends an array: `]`.
    pub fn end_array(&mut self) -> &mut Self {
        self.out.push(']');
        self.first = false;
        self
    }

    /// A member's name; its value is what is written next.
    pub fn key(&mut self, name: &str) -> &mut Self {
        self.separate();
        self.quote(name);
        self.out.push(':');
        self.first = true;
        self
    }

    /// A number.
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.separate();
        push_decimal(self.out, number);
        self
    }

    /// A string.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.separate();
        self.quote(text);
        self
    }

    /// True or false.
    pub fn boolean(&mut self, value: bool) -> &mut Self {
        self.separate();
        self.out.push_str(if value { "true" } else { "false" });
        self
    }

    /// Name and number in one.
    pub fn member(&mut self, name: &str, number: u64) -> &mut Self {
        self.key(name).number(number)
    }

    fn quote(&mut self, text: &str) {
        self.out.push('"');
        let mut rest = text;
        // Nearly all texts are written as they are.
        while let Some((at, byte)) = rest.bytes().enumerate().find(|(_, byte)| is_escaped(*byte)) {
            self.out.push_str(&rest[..at]);
            self.escape(byte);
            rest = &rest[at + 1..];
        }
        self.out.push_str(rest);
        self.out.push('"');
    }

    #[cold]
    fn escape(&mut self, byte: u8) {
        self.out.push('\\');
        if matches!(byte, b'"' | b'\\') {
            self.out.push(char::from(byte));
        } else {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            self.out.push_str("u00");
            self.out.push(char::from(HEX[usize::from(byte >> 4)]));
            self.out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Of ASCII alone, so that a text may be parted before and behind it.
fn is_escaped(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// A number in decimal digits, without the formatting machinery.
pub fn decimal(number: u64) -> String {
    let mut digits = String::new();
    push_decimal(&mut digits, number);
    digits
}

fn push_decimal(out: &mut String, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    // They are ASCII.
    out.push_str(core::str::from_utf8(&digits[at..]).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_escapes() {
        let mut out = String::new();
        let mut json = Json::new(&mut out);
        json.object().member("a", 0).key("b").array().number(u64::MAX).text("x\"\\\n").end_array();
        json.key("c").object().end_object().key("d").boolean(true).end_object();
        assert_eq!(out, r#"{"a":0,"b":[18446744073709551615,"x\"\\\u000a"],"c":{},"d":true}"#);
    }

    #[test]
    fn what_is_escaped_stands_anywhere_in_a_text() {
        let mut out = String::new();
        Json::new(&mut out).text("\"a\u{1f}\u{20}\u{7f}é\\\\ü€\0");
        assert_eq!(out, "\"\\\"a\\u001f \u{7f}é\\\\\\\\ü€\\u0000\"");
    }
}
