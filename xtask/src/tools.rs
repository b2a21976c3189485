//! Step `tools`: everything the tests call is there before the first test runs.
//!
//! What is missing gets installed where that is possible (root and apt-get, or rustup for parts of
//! the Rust toolchain). Otherwise the step fails and names each missing thing and the command that
//! brings it. A test never has to decide what to do without its judge.

use crate::host::{capture, check, command, find};
use crate::steps::Ctx;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Program, and the Debian package that brings it.
const PROGRAMS: &[(&str, &str)] = &[
    ("blkid", "util-linux"),
    ("chattr", "e2fsprogs"),
    ("debugfs", "e2fsprogs"),
    ("dumpe2fs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("file", "file"),
    ("fsck.fat", "dosfstools"),
    ("git", "git"),
    ("losetup", "mount"),
    ("lsattr", "e2fsprogs"),
    ("mcopy", "mtools"),
    ("mdir", "mtools"),
    ("mke2fs", "e2fsprogs"),
    ("mkfs.fat", "dosfstools"),
    ("mount", "mount"),
    ("setfattr", "attr"),
    ("setpriv", "util-linux"),
    ("sfdisk", "fdisk"),
    ("sgdisk", "gdisk"),
    ("tune2fs", "e2fsprogs"),
    ("umount", "mount"),
];

/// Parts of the Rust toolchain: cargo subcommand, rustup component.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

pub(crate) fn run(_: &mut Ctx) -> Result<()> {
    let root = fs::metadata("/proc/self").context("/proc/self")?.uid() == 0;
    if missing().next().is_some() {
        install(root)?;
    }
    for (program, _) in PROGRAMS {
        if let Some(path) = find(program) {
            println!("    {program:9} {}", path.display());
        }
    }
    for (sub, component) in COMPONENTS {
        component_there(sub, component)?;
    }
    if !root {
        bail!(
            "loop mounts need root, and some tests compare with the kernel's own ext2: run \
             `sudo -E env PATH=\"$PATH\" cargo xtask test`, or `cargo xtask test --quick` for the \
             part that needs no root"
        );
    }
    loop_mount()
}

fn missing() -> impl Iterator<Item = (&'static str, &'static str)> {
    PROGRAMS.iter().copied().filter(|(program, _)| find(program).is_none())
}

fn install(root: bool) -> Result<()> {
    let names: Vec<&str> = missing().map(|(program, _)| program).collect();
    let packages: BTreeSet<&str> = missing().map(|(_, package)| package).collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    let how = format!("apt-get install -y {}", packages.join(" "));
    println!("    missing: {}", names.join(", "));
    if !root || find("apt-get").is_none() {
        bail!("missing: {}; install them with `{how}` as root", names.join(", "));
    }
    if apt(&packages).is_err() {
        check(command("apt-get").arg("update"))?;
        apt(&packages)?;
    }
    let still: Vec<&str> = missing().map(|(program, _)| program).collect();
    if !still.is_empty() {
        bail!("still missing after `{how}`: {}", still.join(", "));
    }
    Ok(())
}

fn apt(packages: &[&str]) -> Result<()> {
    let mut cmd = command("apt-get");
    cmd.args(["install", "-y", "--no-install-recommends"]).args(packages);
    check(cmd.env("DEBIAN_FRONTEND", "noninteractive"))
}

fn component_there(sub: &str, component: &str) -> Result<()> {
    let version = || capture(&mut crate::host::cargo(&[sub, "--version"]));
    if version().is_err() && find("rustup").is_some() {
        check(command("rustup").args(["component", "add", component]))?;
    }
    let found = version().with_context(|| {
        format!("missing: {component}; install it with `rustup component add {component}`")
    })?;
    println!("    {component:9} {}", found.trim());
    Ok(())
}

/// Makes a 1 MiB ext2 image and mounts it once, so that a container without the right to do so is
/// told here, in one line, rather than in every test.
fn loop_mount() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("seawall-xtask-{}", std::process::id()));
    let (image, at) = (dir.join("image"), dir.join("at"));
    fs::create_dir_all(&at).with_context(|| format!("{}", at.display()))?;
    let result = try_mount(&image, &at);
    fs::remove_file(&image).and(fs::remove_dir(&at)).and(fs::remove_dir(&dir)).ok();
    result.context(
        "cannot loop-mount an ext2 image, which the tests do to compare with the kernel; run \
         where that is allowed (a container needs --privileged and /dev/loop-control)",
    )?;
    println!("    loop mount of an ext2 image works");
    Ok(())
}

fn try_mount(image: &Path, at: &Path) -> Result<()> {
    fs::File::create(image)?.set_len(1 << 20)?;
    capture(command("mke2fs").args(["-q", "-F", "-t", "ext2"]).arg(image))?;
    capture(command("mount").args(["-t", "ext2", "-o", "loop"]).args([image, at]))?;
    capture(command("umount").arg(at)).map(drop)
}
