//! Extended attributes by path, for the tests that are about them.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
// A module of tests: a panic is how one fails.
#![allow(clippy::unwrap_used)]

use crate::common::{Res, Vol};
use seawall_diskfs::XattrHow;
use seawall_diskfs::driver::Host;
use seawall_ext2::Ext2;

/// Attributes of a node by its path.
pub trait Attrs {
    fn set_attr(&mut self, path: &str, name: &str, value: &[u8]) -> Res<()> {
        self.set_attr_how(path, name, value, XattrHow::Any)
    }
    fn set_attr_how(&mut self, path: &str, name: &str, value: &[u8], how: XattrHow) -> Res<()>;
    fn attr(&mut self, path: &str, name: &str) -> Res<Vec<u8>>;
    fn attrs(&mut self, path: &str) -> Res<Vec<String>>;
    fn remove_attr(&mut self, path: &str, name: &str) -> Res<()>;
}

impl<H: Host<Format = Ext2>> Attrs for Vol<H> {
    fn set_attr_how(&mut self, path: &str, name: &str, value: &[u8], how: XattrHow) -> Res<()> {
        let (ino, ctx) = (self.stat(path)?.ino, self.ctx.clone());
        self.run(|fs, t| fs.setxattr(&ctx, ino, (name.as_bytes(), value), how, t))
    }

    fn attr(&mut self, path: &str, name: &str) -> Res<Vec<u8>> {
        let (ino, ctx) = (self.stat(path)?.ino, self.ctx.clone());
        self.run(|fs, t| fs.getxattr(&ctx, ino, name.as_bytes(), t))
    }

    fn attrs(&mut self, path: &str) -> Res<Vec<String>> {
        let (ino, ctx) = (self.stat(path)?.ino, self.ctx.clone());
        let names = self.run(|fs, t| fs.listxattr(&ctx, ino, t))?;
        let mut names: Vec<String> =
            names.into_iter().map(|n| String::from_utf8(n).unwrap()).collect();
        names.sort();
        Ok(names)
    }

    fn remove_attr(&mut self, path: &str, name: &str) -> Res<()> {
        let (ino, ctx) = (self.stat(path)?.ino, self.ctx.clone());
        self.run(|fs, t| fs.removexattr(&ctx, ino, name.as_bytes(), t))
    }
}
