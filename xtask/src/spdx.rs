//! Licence expressions: may this be linked, given the licences that we allow?

/// Evaluates an SPDX expression (`MIT OR Apache-2.0`, `(MIT OR X) AND Unicode-3.0`, the old
/// `MIT/X`). An expression that cannot be read is not allowed.
pub(crate) fn allowed(expression: &str, allow: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    either(&mut rest, allow) == Some(true) && rest.is_empty()
}

fn either(rest: &mut &[&str], allow: &[String]) -> Option<bool> {
    let mut ok = both(rest, allow)?;
    while eat(rest, "OR") {
        ok |= both(rest, allow)?;
    }
    Some(ok)
}

fn both(rest: &mut &[&str], allow: &[String]) -> Option<bool> {
    let mut ok = one(rest, allow)?;
    while eat(rest, "AND") {
        ok &= one(rest, allow)?;
    }
    Some(ok)
}

fn one(rest: &mut &[&str], allow: &[String]) -> Option<bool> {
    if eat(rest, "(") {
        let inner = either(rest, allow)?;
        return eat(rest, ")").then_some(inner);
    }
    let mut name = next(rest)?.to_owned();
    if eat(rest, "WITH") {
        name = format!("{name} WITH {}", next(rest)?);
    }
    Some(allow.contains(&name))
}

fn next<'a>(rest: &mut &[&'a str]) -> Option<&'a str> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    Some(first)
}

fn eat(rest: &mut &[&str], word: &str) -> bool {
    let found = rest.first() == Some(&word);
    if found {
        *rest = rest.get(1..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn or_and_with_and_brackets() {
        let allow = ["MIT".to_owned(), "Unicode-3.0".to_owned(), "Z WITH E".to_owned()];
        let ok = |e: &str| allowed(e, &allow);
        assert!(ok("MIT") && ok("GPL-3.0 OR MIT") && ok("GPL-3.0/MIT") && ok("Z WITH E"));
        assert!(ok("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!ok("MIT AND GPL-3.0") && !ok("Z") && !ok("MIT WITH E") && !ok(""));
        assert!(!ok("MIT OR") && !ok("(MIT") && !ok("MIT MIT"));
    }
}
