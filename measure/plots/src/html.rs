//! A document in which text is text.

/// A document that grows.
pub(crate) struct Html(String);

impl Html {
    pub(crate) fn new(title: &str, styles: &str) -> Html {
        let mut html = Html(String::with_capacity(1 << 16));
        html.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
        html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
        html.raw("<meta name=\"color-scheme\" content=\"light dark\">");
        html.element("title", title).raw("<style>\n").raw(styles).raw("</style></head><body>\n");
        html
    }

    /// What is no text: tags of our own.
    pub(crate) fn raw(&mut self, markup: &str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Html {
        self.0.push_str(&escaped(text));
        self
    }

    pub(crate) fn element(&mut self, tag: &str, text: &str) -> &mut Html {
        self.raw(&format!("<{tag}>")).text(text).raw(&format!("</{tag}>\n"))
    }

    /// An element whose text is a number.
    pub(crate) fn number(&mut self, tag: &str, text: &str) -> &mut Html {
        self.raw(&format!("<{tag} class=\"number\">")).text(text).raw(&format!("</{tag}>"))
    }

    /// A link within the document.
    pub(crate) fn link(&mut self, id: &str, text: &str) -> &mut Html {
        self.raw(&format!("<a href=\"#{}\">", escaped(id))).text(text).raw("</a>")
    }

    pub(crate) fn finish(mut self) -> String {
        self.raw("</body></html>\n");
        self.0
    }
}

/// Text as it stands in a document, between tags and in attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(letter),
            // A document may not contain them.
            control if control.is_control() => escaped.push('\u{fffd}'),
            plain => escaped.push(plain),
        }
    }
    escaped
}
