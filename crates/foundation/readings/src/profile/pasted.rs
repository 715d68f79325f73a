//! Text as it was pasted into a mail, a page or an issue: the line below the paste.
//!
//! Mails quote lines (`> `) and wrap them, pages escape `>`, terminals leave colours and the
//! scroll bar of perf's screen, and newer versions of perf draw trees with line-drawing
//! characters. A line is given back as `perf report --stdio` would have printed it.

use std::borrow::Cow;

/// A line without what quoting, escaping and drawing added to it.
pub(super) fn line(line: &str) -> Cow<'_, str> {
    let line = line.trim_end_matches(['\r', '\u{feff}']);
    let line = line.trim_start_matches('\u{feff}');
    let plain = if line.is_ascii() && !line.contains(['\x1b', '&']) {
        Cow::Borrowed(line)
    } else {
        Cow::Owned(drawn(&unescaped(&uncoloured(line))))
    };
    match quoted(&plain) {
        0 => plain,
        quote => Cow::Owned(plain[quote..].to_owned()),
    }
}

/// How many bytes of a line are quote characters: `> > `, `>>`, `    > `.
fn quoted(line: &str) -> usize {
    let mut end = 0;
    for (at, c) in line.char_indices() {
        match c {
            '>' => end = at + 1,
            ' ' | '\t' => {}
            _ => break,
        }
    }
    // The blank that follows a quote character belongs to it.
    match line[end..].starts_with(' ') && end > 0 {
        true => end + 1,
        false => end,
    }
}

/// A line without the terminal's control sequences.
fn uncoloured(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        if c != '\x1b' {
            plain.push(c);
            continue;
        }
        if characters.next_if_eq(&'[').is_some() {
            // Parameters, then one letter.
            while characters.next_if(|c| !c.is_ascii_alphabetic()).is_some() {}
        }
        let _ = characters.next();
    }
    plain
}

/// A line with HTML's escapes resolved.
fn unescaped(line: &str) -> Cow<'_, str> {
    if !line.contains('&') {
        return Cow::Borrowed(line);
    }
    let mut plain = line.to_owned();
    for (escape, character) in [
        ("&gt;", ">"),
        ("&lt;", "<"),
        ("&nbsp;", " "),
        ("&#160;", " "),
        ("&#62;", ">"),
        ("&#60;", "<"),
        ("&#43;", "+"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ] {
        plain = plain.replace(escape, character);
    }
    Cow::Owned(plain)
}

/// A line with blanks and tree characters of ASCII.
fn drawn(line: &str) -> String {
    let ascii = |c| match c {
        '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{2003}' | '\u{2002}' => ' ',
        '│' | '┃' | '├' | '┣' | '╎' | '┆' => '|',
        // ` --12.05%--` is the last branch.
        '└' | '┗' | '╰' => ' ',
        '─' | '━' | '╴' | '╶' | '‐' | '‑' | '–' | '—' | '−' => '-',
        // The scroll bar of perf's screen.
        '▒' | '◆' | '░' | '█' => ' ',
        c => c,
    };
    line.chars().map(ascii).collect()
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_is_as_perf_printed_it() {
        for (pasted, plain) in [
            ("  32.10%  a  b  [.] f", "  32.10%  a  b  [.] f"),
            ("> +  32.10%  a", "+  32.10%  a"),
            (">>  32.10%  a", " 32.10%  a"),
            ("> >   32.10%  a", "  32.10%  a"),
            ("&gt; 32.10%  a", "32.10%  a"),
            ("32.10%\u{a0}\u{a0}a\r", "32.10%  a"),
            ("\x1b[31m  32.10%\x1b[m  a", "  32.10%  a"),
            ("├──20.05%──PinBuffer", "|--20.05%--PinBuffer"),
            (" └──12.05%──UnpinBuffer", "  --12.05%--UnpinBuffer"),
            ("-   53.40%  a  [.] f    ▒", "-   53.40%  a  [.] f     "),
            ("std::map&lt;int&gt;::find", "std::map<int>::find"),
            ("", ""),
        ] {
            assert_eq!(line(pasted), plain, "{pasted}");
        }
    }
}
