//! A policy file: a base preset and what differs from it. The text format is the host's (TOML in
//! the servers); this is the shape. Unknown names are errors, so a mistyped site cannot be skipped.

use super::{
    Allocation, Boundary, CleanFsync, ClosePolicy, Exclusion, Flusher, MergeBoundary, OnError,
    OnUnsupported, Policy, Reuse, SitePolicy, Waited, preset,
};
use crate::{FsError, Site};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The parsed file. Every field may be left out; then `base` decides (`default` when that is left
/// out too).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "as in Policy")]
pub struct PolicyFile {
    pub base: Option<String>,
    #[serde(deserialize_with = "name")]
    pub name: Option<String>,
    pub site: BTreeMap<Site, SitePolicy>,
    pub close: Option<ClosePolicy>,
    pub boundary: Option<Boundary>,
    pub reuse: Option<Reuse>,
    pub waited: Option<Waited>,
    pub allocation: Option<Allocation>,
    pub exclusion: Option<Exclusion>,
    pub merge_boundary: Option<MergeBoundary>,
    pub flusher: Option<Flusher>,
    pub on_unsupported: Option<OnUnsupported>,
    pub on_error: Option<OnError>,
    pub clean_fsync: Option<CleanFsync>,
}

/// Reports print the name inside a line, so there has to be one, without ends of lines.
fn name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(from)?;
    if name.trim().is_empty() || name.contains(char::is_control) {
        let what = "name: expected some printable text; leave `name` out to have one made";
        return Err(D::Error::custom(what));
    }
    Ok(Some(name))
}

impl PolicyFile {
    /// The policy that the file describes.
    ///
    /// # Errors
    /// `Unsupported` when `base` names no preset or a field asks for what the engines do not do
    /// yet.
    pub fn resolve(self) -> Result<Policy, FsError> {
        let base = self.base.as_deref().unwrap_or("default");
        let mut p = preset(base)
            .ok_or_else(|| FsError::unsupported(format!("policy base '{base}' is not a preset")))?;
        p.name = self.name.unwrap_or_else(|| format!("{base}+file"));
        p.sites.extend(self.site);
        p.close = self.close.unwrap_or(p.close);
        p.boundary = self.boundary.unwrap_or(p.boundary);
        p.reuse = self.reuse.unwrap_or(p.reuse);
        p.waited = self.waited.unwrap_or(p.waited);
        p.allocation = self.allocation.unwrap_or(p.allocation);
        p.exclusion = self.exclusion.unwrap_or(p.exclusion);
        p.merge_boundary = self.merge_boundary.unwrap_or(p.merge_boundary);
        p.flusher = self.flusher.unwrap_or(p.flusher);
        p.on_unsupported = self.on_unsupported.unwrap_or(p.on_unsupported);
        p.on_error = self.on_error.unwrap_or(p.on_error);
        p.clean_fsync = self.clean_fsync.unwrap_or(p.clean_fsync);
        if p.allocation == Allocation::LogHead {
            return Err(FsError::unsupported("policy allocation = log_head in this engine"));
        }
        if p.flusher.max_request == 0 || p.flusher.limit < p.flusher.background {
            return Err(FsError::unsupported(
                "policy flusher: max_request must be above 0 and limit at least background",
            ));
        }
        Ok(p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Action, When};

    fn parse(text: &str) -> Result<Policy, String> {
        let file: PolicyFile = toml::from_str(text).map_err(|e| format!("{e}"))?;
        file.resolve().map_err(|e| format!("{e}"))
    }

    #[test]
    fn a_file_changes_what_it_names() {
        let p = parse(
            "base = \"hurd-full\"\nname = \"mine\"\nboundary = \"order\"\n\
             exclusion = { global = { min_bytes = 2097152 } }\n\
             [site.dirent]\naction = \"barrier\"\nwhen = \"always\"\n\
             [site.fsync_data]\naction = { defer = { ms = 5, bytes = 65536 } }\n\
             [close]\ndata = \"submit\"\ninode = \"start\"\n",
        )
        .unwrap();
        assert_eq!(p.name, "mine");
        assert_eq!(p.site(Site::Dirent).when, When::Always);
        assert_eq!(p.site(Site::Inode).action, Action::Barrier);
        assert_eq!(p.site(Site::FsyncData).action, Action::Defer { ms: 5, bytes: 65536 });
        assert_eq!(p.close.data, Action::Submit);
        assert_eq!(p.exclusion, Exclusion::Global { min_bytes: 2 << 20 });
    }

    #[test]
    fn what_is_not_known_is_named() {
        for (text, word) in [
            ("base = \"hurd-ful\"", "hurd-ful"),
            ("[site.inodes]\naction = \"wait\"", "inodes"),
            ("bounday = \"sync\"", "bounday"),
            ("boundary = \"sink\"", "sink"),
            ("allocation = \"log_head\"", "log_head"),
            ("name = \" \"", "leave `name` out"),
            ("name = \"a\\nb\"", "printable"),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.contains(word), "{text}: {e}");
        }
    }
}
