//! Policies by name or from a file.

use super::Usage;
use anyhow::{Context, Result, bail};
use seawall_diskfs::Policy;
use seawall_diskfs::policy::{PRESETS, PolicyFile, preset};
use std::format;
use std::path::Path;

/// The preset of that name, or what the TOML file describes. Only a name that ends in `.toml` is a
/// file.
///
/// # Errors
/// Lists the presets when the name is unknown; says what in the file is not understood.
pub fn load(name: &str) -> Result<Policy> {
    if let Some(p) = preset(name) {
        return Ok(p);
    }
    if Path::new(name).extension().is_none_or(|e| e != "toml") {
        let known = PRESETS.join(", ");
        let what = format!("no policy '{name}'; there are {known}, or a file that ends in .toml");
        return Err(Usage(what).into());
    }
    let text = std::fs::read_to_string(name).with_context(|| std::format!("policy {name}"))?;
    let file: PolicyFile = match toml::from_str(&text) {
        Ok(file) => file,
        Err(e) => {
            // One line: where, and the message without the excerpt that toml draws.
            let before = e.span().and_then(|at| text.get(..at.start)).unwrap_or_default();
            let line = before.matches('\n').count().saturating_add(1);
            bail!("policy {name}: line {line}: {}", e.message().replace('\n', "; "));
        }
    };
    file.resolve().with_context(|| std::format!("policy {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn names_files_and_mistakes() {
        assert_eq!(load("strict").unwrap().name, "strict");
        let e = load("hurd").unwrap_err().to_string();
        assert!(e.contains("'hurd'") && e.contains("hurd-full"), "{e}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, "base = \"laxx\"\n").unwrap();
        let e = std::format!("{:#}", load(path.to_str().unwrap()).unwrap_err());
        assert!(e.contains("mine.toml") && e.contains("laxx"), "{e}");
        std::fs::write(&path, "base = \"lax\"\nreuse = \"never\"\n").unwrap();
        let e = std::format!("{:#}", load(path.to_str().unwrap()).unwrap_err());
        assert!(e.contains("mine.toml: line 2: ") && !e.contains('\n'), "{e}");
        std::fs::write(&path, "base = \"lax\"\n\nname = \"\"\n").unwrap();
        let e = std::format!("{:#}", load(path.to_str().unwrap()).unwrap_err());
        assert!(e.contains("mine.toml: line 3: name: ") && !e.contains('\n'), "{e}");
        std::fs::write(&path, "base = \"hurd-full\"\nname = \"mine\"\n").unwrap();
        assert_eq!(load(path.to_str().unwrap()).unwrap().name, "mine");
    }
}
