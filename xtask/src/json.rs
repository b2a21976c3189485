//! A reader for what `cargo metadata` prints, so that this tool builds in seconds and needs no
//! crate to check the crates. Input is trusted: it is cargo's own output.

use anyhow::{Context, Result, bail};

/// A JSON value. Numbers are not kept: nothing here needs one.
#[derive(Debug, PartialEq)]
pub(crate) enum Json {
    /// `null`, or any number.
    Other,
    /// `true` or `false`.
    Bool(bool),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object, in order.
    Map(Vec<(String, Json)>),
}

impl Json {
    /// A field of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Map(fields) => fields.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(s) => Some(s),
            _ => None,
        }
    }

    /// A field that is a string, or the empty string.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).and_then(Json::as_text).unwrap_or_default()
    }

    /// A field that is an array, or an empty slice.
    pub(crate) fn list(&self, key: &str) -> &[Json] {
        match self.get(key) {
            Some(Json::List(items)) => items,
            _ => &[],
        }
    }

    /// The strings of a field that is an array.
    pub(crate) fn strings(&self, key: &str) -> Vec<&str> {
        self.list(key).iter().filter_map(Json::as_text).collect()
    }

    /// True when the field is `true`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key) == Some(&Json::Bool(true))
    }
}

/// Parses one document.
pub(crate) fn parse(text: &str) -> Result<Json> {
    let mut p = Parser { rest: text };
    p.value()
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn peek(&mut self) -> Result<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next().context("JSON ends too early")
    }

    fn eat(&mut self, c: char) -> Result<bool> {
        let found = self.peek()? == c;
        if found {
            self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        }
        Ok(found)
    }

    fn need(&mut self, c: char) -> Result<()> {
        if !self.eat(c)? {
            bail!("JSON: `{c}` expected before `{:.20}`", self.rest);
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Json> {
        match self.peek()? {
            '{' => self.map(),
            '[' => self.list(),
            '"' => self.string().map(Json::Text),
            _ => {
                let end = self.rest.find([',', ']', '}']).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                Ok(match word.trim() {
                    "true" => Json::Bool(true),
                    "false" => Json::Bool(false),
                    _ => Json::Other,
                })
            }
        }
    }

    fn map(&mut self) -> Result<Json> {
        let mut fields = Vec::new();
        self.need('{')?;
        while !self.eat('}')? {
            let key = self.string()?;
            self.need(':')?;
            fields.push((key, self.value()?));
            if self.peek()? != '}' {
                self.need(',')?;
            }
        }
        Ok(Json::Map(fields))
    }

    fn list(&mut self) -> Result<Json> {
        let mut items = Vec::new();
        self.need('[')?;
        while !self.eat(']')? {
            items.push(self.value()?);
            if self.peek()? != ']' {
                self.need(',')?;
            }
        }
        Ok(Json::List(items))
    }

    fn string(&mut self) -> Result<String> {
        self.need('"')?;
        let mut out = String::new();
        let mut chars = self.rest.chars();
        loop {
            match chars.next().context("JSON: string does not end")? {
                '"' => break,
                '\\' => match chars.next().context("JSON: string does not end")? {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    'r' => out.push('\r'),
                    'b' | 'f' => out.push(' '),
                    'u' => {
                        let hex: String = chars.by_ref().take(4).collect();
                        let code = u32::from_str_radix(&hex, 16).context("JSON: \\u escape")?;
                        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    c => out.push(c),
                },
                c => out.push(c),
            }
        }
        self.rest = chars.as_str();
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_cargo_writes() {
        let j =
            parse(r#"{"a":[1,{"b":"x\"\n\u0041"}],"n":null,"t":true, "e":[], "m":{}}"#).unwrap();
        assert_eq!(j.list("a")[1].text("b"), "x\"\nA");
        assert!(j.flag("t") && !j.flag("n"));
        assert_eq!(j.get("m"), Some(&Json::Map(vec![])));
        assert!(parse("{\"a\":").is_err());
        assert!(parse("[1 2").is_err());
    }
}
