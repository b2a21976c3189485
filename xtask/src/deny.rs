//! Reads the parts of `deny.toml` that need no network: one list of rules for cargo-deny and for
//! our own check. Line based; the file says so.

use anyhow::{Result, bail};

/// The rules.
#[derive(Debug, Default)]
pub(crate) struct Deny {
    /// Licences that may be linked.
    pub(crate) licences: Vec<String>,
    /// Crates that may not be.
    pub(crate) bans: Vec<Ban>,
    /// Registries that crates may come from.
    pub(crate) registries: Vec<String>,
}

/// A crate that may not be in the tree.
#[derive(Debug, PartialEq)]
pub(crate) struct Ban {
    /// Its name.
    pub(crate) name: String,
    /// The versions that are meant, all when empty: `>=1.2, <1.3`.
    pub(crate) versions: String,
    /// Who may depend on it all the same.
    pub(crate) wrappers: Vec<String>,
    /// Why.
    pub(crate) reason: String,
}

/// Parses the text of `deny.toml`.
pub(crate) fn parse(text: &str) -> Result<Deny> {
    let mut deny = Deny::default();
    let (mut section, mut key) = ("", "");
    for line in text.lines().map(str::trim).filter(|l| !l.starts_with('#')) {
        let mut items = line;
        if line.starts_with('[') && line.ends_with(']') && !line.contains('"') {
            (section, key) = (line, "");
            continue;
        }
        if let Some((name, rest)) = line.split_once(" = [")
            && !line.starts_with('{')
        {
            (key, items) = (name, rest);
        }
        match (section, key) {
            ("[licenses]", "allow") => deny.licences.extend(quoted(items)),
            ("[sources]", "allow-registry") => deny.registries.extend(quoted(items)),
            ("[bans]", "deny") => deny.bans.extend(ban(items)),
            _ => {}
        }
        if items.ends_with(']') {
            key = "";
        }
    }
    if deny.licences.is_empty() || deny.bans.is_empty() || deny.registries.is_empty() {
        bail!("deny.toml: licenses.allow, bans.deny or sources.allow-registry is empty");
    }
    Ok(deny)
}

fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('"').skip(1).step_by(2).map(str::to_owned)
}

fn ban(line: &str) -> Option<Ban> {
    let after = |key: &str| line.split_once(key).map(|(_, rest)| rest);
    let spec = quoted(after("crate = ")?).next()?;
    let (name, versions) = spec.split_once(':').unwrap_or((&spec, ""));
    let wrappers = after("wrappers = [").and_then(|r| r.split(']').next()).unwrap_or_default();
    let reason = after("reason = ").and_then(|r| quoted(r).next()).unwrap_or_default();
    Some(Ban {
        name: name.to_owned(),
        versions: versions.to_owned(),
        wrappers: quoted(wrappers).collect(),
        reason,
    })
}

impl Ban {
    /// True when the entry is about this version of the crate.
    pub(crate) fn covers(&self, name: &str, version: &str) -> bool {
        let v = numbers(version);
        self.name == name
            && self.versions.split(',').map(str::trim).filter(|r| !r.is_empty()).all(|r| {
                let at = r.find(|c: char| c.is_ascii_digit()).unwrap_or(r.len());
                let (op, bound) = r.split_at(at);
                let bound = numbers(bound);
                match op.trim() {
                    "<" => v < bound,
                    "<=" => v <= bound,
                    ">" => v > bound,
                    ">=" => v >= bound,
                    _ => v == bound,
                }
            })
    }
}

fn numbers(version: &str) -> Vec<u64> {
    let plain = version.split(['-', '+']).next().unwrap_or_default();
    plain.split('.').map(|n| n.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_real_file() {
        let deny = parse(include_str!("../../deny.toml")).unwrap();
        assert!(deny.licences.iter().any(|l| l == "MIT"));
        let bincode = deny.bans.iter().find(|b| b.name == "bincode").unwrap();
        assert_eq!(bincode.wrappers, ["seawall-ipc"]);
        assert_eq!(bincode.versions, "");
        assert_eq!(deny.registries.len(), 1);
        assert!(deny.bans.iter().all(|b| !b.reason.is_empty()));
    }

    #[test]
    fn a_ban_covers_its_versions_only() {
        let banned = ban("{ crate = \"rand:>=0.9.0, <0.9.3\", reason = \"r\" },").unwrap();
        assert!(banned.covers("rand", "0.9.2") && banned.covers("rand", "0.9.0"));
        assert!(!banned.covers("rand", "0.9.3") && !banned.covers("rand", "0.8.5"));
        assert!(!banned.covers("rand_core", "0.9.1"));
        assert!(ban("{ crate = \"atty\" }").unwrap().covers("atty", "0.2.14"));
    }
}
