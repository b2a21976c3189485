//! Step `deps`: who may depend on what.
//!
//! The engines are worth embedding only as long as they know nothing of sockets, runtimes and
//! servers, and a licence or a banned crate comes in through one careless line of a manifest. So
//! the arrows of `ARCHITECTURE.md` and the rules of `deny.toml` are checked against what cargo
//! resolves, not against what anybody remembers.

use crate::deny::{self, Deny};
use crate::host::{capture, cargo, command, root};
use crate::json::{self, Json};
use crate::spdx;
use crate::steps::Ctx;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Package, the packages of this workspace it may depend on, and those it may depend on only
/// behind a feature (for its thin binary).
const ARROWS: &[(&str, &[&str], &[&str])] = &[
    ("seawall-blockdev", &[], &[]),
    ("seawall-ipc", &[], &[]),
    ("seawall-diskfs", &["seawall-blockdev"], &[]),
    ("seawall-store", &["seawall-blockdev", "seawall-ipc"], &[]),
    ("seawall-ext2", ENGINE, SERVER),
    ("seawall-fat", ENGINE, SERVER),
    (
        "seawall-translator",
        &["seawall-blockdev", "seawall-diskfs", "seawall-ipc", "seawall-store"],
        &[],
    ),
];
const ENGINE: &[&str] = &["seawall-blockdev", "seawall-diskfs"];
const SERVER: &[&str] = &["seawall-ipc", "seawall-store", "seawall-translator"];

/// What the no_std half of a package may not reach, however indirectly.
const HOSTED: &[&str] =
    &["fuser", "libc", "libmimalloc-sys", "mimalloc", "mio", "nix", "rustix", "tokio"];

/// Packages whose no_std half is checked: engines (true) know no server, server cores (false) do.
const CORES: &[(&str, bool)] = &[
    ("seawall-blockdev", true),
    ("seawall-diskfs", true),
    ("seawall-ext2", true),
    ("seawall-fat", true),
    ("seawall-ipc", false),
    ("seawall-store", false),
    ("seawall-translator", false),
];

pub(crate) fn run(_: &mut Ctx) -> Result<()> {
    let deny = deny::parse(&fs::read_to_string(root().join("deny.toml")).context("deny.toml")?)?;
    let graph = Graph::load()?;
    let mut problems = Vec::new();
    graph.arrows(&mut problems);
    graph.rules(&deny, &mut problems);
    graph.cores(&mut problems)?;
    println!(
        "    {} packages, {} of them ours, {} licences allowed, {} bans",
        graph.packages.len(),
        graph.packages.iter().filter(|p| p.ours).count(),
        deny.licences.len(),
        deny.bans.len()
    );
    for problem in &problems {
        println!("    {problem}");
    }
    if !problems.is_empty() {
        bail!("{} problems with dependencies: {}", problems.len(), problems.join("; "));
    }
    Ok(())
}

struct Package {
    name: String,
    version: String,
    licence: String,
    /// Where it comes from; empty for a path.
    source: String,
    ours: bool,
    /// Packages that it names itself, tests and examples left out: name, optional.
    names: Vec<(String, bool)>,
}

struct Graph {
    packages: Vec<Package>,
    /// Package id's name and version -> names of the packages that depend on it directly.
    users: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Graph {
    fn load() -> Result<Self> {
        let host = capture(command("rustc").arg("-vV"))?;
        let host = host.lines().find_map(|l| l.strip_prefix("host: ")).context("rustc -vV")?;
        let text = capture(&mut cargo(&[
            "metadata",
            "--format-version=1",
            "--locked",
            "--all-features",
            "--filter-platform",
            host,
        ]))?;
        let metadata = json::parse(&text).context("cargo metadata")?;
        let members = metadata.strings("workspace_members");
        let mut ids = BTreeMap::new();
        let mut packages = Vec::new();
        for p in metadata.list("packages") {
            let package = Package::from_json(p, &members);
            ids.insert(p.text("id"), (package.name.clone(), package.version.clone()));
            packages.push(package);
        }
        let mut users: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        let nodes = metadata.get("resolve").map(|r| r.list("nodes")).unwrap_or_default();
        for node in nodes {
            let Some((user, _)) = ids.get(node.text("id")) else { continue };
            for dep in node.list("deps") {
                let Some(used) = ids.get(dep.text("pkg")) else { continue };
                users.entry(used.clone()).or_default().insert(user.clone());
            }
        }
        if users.is_empty() {
            bail!("cargo metadata shows no dependency at all");
        }
        Ok(Self { packages, users })
    }

    fn ours(&self, name: &str) -> bool {
        self.packages.iter().any(|p| p.ours && p.name == name)
    }

    fn arrows(&self, problems: &mut Vec<String>) {
        for (name, always, optional) in ARROWS {
            let Some(package) = self.packages.iter().find(|p| p.ours && p.name == *name) else {
                continue;
            };
            for (dep, is_optional) in &package.names {
                let dep = dep.as_str();
                let ok = always.contains(&dep) || (*is_optional && optional.contains(&dep));
                if self.ours(dep) && !ok {
                    problems.push(format!("{name} may not depend on {dep}"));
                }
            }
        }
    }

    fn rules(&self, deny: &Deny, problems: &mut Vec<String>) {
        let none = BTreeSet::new();
        for p in &self.packages {
            let users = self.users.get(&(p.name.clone(), p.version.clone())).unwrap_or(&none);
            let by = users.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            for ban in deny.bans.iter().filter(|b| b.covers(&p.name, &p.version)) {
                let (name, version, reason) = (&p.name, &p.version, &ban.reason);
                if !users.iter().all(|u| ban.wrappers.contains(u)) || users.is_empty() {
                    problems.push(format!("{name} {version} is banned ({reason}); used by {by}"));
                }
            }
            if !spdx::allowed(&p.licence, &deny.licences) {
                let (name, version, licence) = (&p.name, &p.version, &p.licence);
                problems.push(format!("{name} {version}: licence `{licence}` is not allowed"));
            }
            let registry = p.source.strip_prefix("registry+").unwrap_or_default();
            let known = if p.ours { p.source.is_empty() } else { !registry.is_empty() };
            if !known || !(p.ours || deny.registries.iter().any(|r| r == registry)) {
                problems.push(format!("{} comes from `{}`, not a registry", p.name, p.source));
            }
        }
    }

    /// The tree of each no_std half, as cargo resolves it without default features.
    fn cores(&self, problems: &mut Vec<String>) -> Result<()> {
        for (name, engine) in CORES.iter().filter(|(name, _)| self.ours(name)) {
            let text = capture(&mut cargo(&[
                "tree",
                "--locked",
                "--package",
                name,
                "--no-default-features",
                "--edges=normal,no-proc-macro",
                "--prefix=none",
                "--format={p}",
            ]))?;
            let reached: BTreeSet<&str> =
                text.lines().filter_map(|l| l.split_whitespace().next()).collect();
            let banned = HOSTED.iter().chain(if *engine { SERVER } else { &[] });
            for dep in banned.filter(|d| reached.contains(*d)) {
                problems.push(format!("{name} without default features reaches {dep}"));
            }
        }
        Ok(())
    }
}

impl Package {
    fn from_json(p: &Json, members: &[&str]) -> Self {
        let names = p.list("dependencies").iter().filter(|d| d.text("kind") != "dev");
        Self {
            name: p.text("name").to_owned(),
            version: p.text("version").to_owned(),
            licence: p.text("license").to_owned(),
            source: p.text("source").to_owned(),
            ours: members.contains(&p.text("id")),
            names: names.map(|d| (d.text("name").to_owned(), d.flag("optional"))).collect(),
        }
    }
}
