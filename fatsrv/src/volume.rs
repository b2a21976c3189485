//! An opened volume: its geometry, its marks as they were found, and how it is shown.

use crate::boot::{Boot, FatType};
use crate::name::Rules;
use crate::time::Zone;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use seawall_diskfs::bytes::array_at;
use seawall_diskfs::{FsError, Ino};

/// The root directory's number. No cluster has it.
pub const ROOT: Ino = Ino(1);

/// How to open a volume, and how to show what FAT has no place for.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Never write.
    pub read_only: bool,
    /// Names: code page, `shortname=`.
    pub rules: Rules,
    /// Offset of the local time that the volume's times are in.
    pub zone: Zone,
    /// Owner of everything.
    pub uid: u32,
    /// Group of everything.
    pub gid: u32,
    /// Permission bits that files do not have.
    pub fmask: u32,
    /// Permission bits that directories do not have.
    pub dmask: u32,
    /// A change of owner or mode that FAT cannot keep succeeds and does nothing.
    pub quiet: bool,
    /// Hidden and system attributes of names that begin with a dot: `dotsOK` of Linux is not kept;
    /// files marked read-only are shown without write permission, directories too with this.
    pub rodir: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            rules: Rules::default(),
            zone: Zone::UTC,
            uid: 0,
            gid: 0,
            fmask: 0o022,
            dmask: 0o022,
            quiet: false,
            rodir: false,
        }
    }
}

/// What the two places say that hold the volume's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// In use, or not taken out of use: by the boot sector or by the FAT.
    pub dirty: bool,
    /// Errors of the medium, by either.
    pub hard_error: bool,
}

/// Bytes at the start of the active FAT that [`Fat::open`] wants.
pub const HEAD_BYTES: usize = 8;

/// A FAT volume: constants read at open, no other state.
#[derive(Clone, Debug)]
pub struct Fat {
    pub(crate) boot: Boot,
    pub(crate) opts: OpenOptions,
    pub(crate) marks: Marks,
    /// Where FSINFO said that free clusters are.
    pub(crate) next_at_open: Option<u32>,
}

impl Fat {
    /// Opens a volume whose boot sector was parsed. `head` are the first bytes of the FAT that is
    /// read ([`Boot::fat_start`] of the active one, or of the first); `fsinfo` are the 512 bytes of
    /// the sector that the boot sector names, when it names one.
    ///
    /// A volume that was not taken out of use opens all the same, as Linux and Windows do it; its
    /// marks then stay.
    ///
    /// # Errors
    /// `Unsupported` names what cannot be written.
    pub fn open(
        boot: Boot,
        head: [u8; HEAD_BYTES],
        fsinfo: Option<&[u8; 512]>,
        opts: OpenOptions,
    ) -> Result<Self, FsError> {
        let marks = marks_of(&boot, &head)?;
        let next_at_open = fsinfo.and_then(crate::fsinfo::next_cluster);
        Ok(Self { boot, opts, marks, next_at_open })
    }

    /// The geometry.
    pub fn boot(&self) -> &Boot {
        &self.boot
    }

    /// The marks as they were found.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// Why the volume is read-only; empty when it is writable.
    pub fn read_only_because(&self) -> Vec<String> {
        match self.opts.read_only {
            true => alloc::vec!["asked for".to_string()],
            false => Vec::new(),
        }
    }

    /// High start words count.
    pub(crate) fn wide(&self) -> bool {
        self.boot.fat_type == FatType::Fat32
    }
}

/// Bits of the FAT's entry 1, whose other bits are set: the volume was taken out of use; the medium
/// had no errors. FAT12 has none.
pub(crate) fn entry_marks(fat_type: FatType) -> (u32, u32) {
    match fat_type {
        FatType::Fat12 => (0, 0),
        FatType::Fat16 => (0x8000, 0x4000),
        FatType::Fat32 => (0x0800_0000, 0x0400_0000),
    }
}

fn marks_of(boot: &Boot, head: &[u8; HEAD_BYTES]) -> Result<Marks, FsError> {
    let entry = match boot.fat_type {
        FatType::Fat12 => 0,
        FatType::Fat16 => u32::from(u16::from_le_bytes(array_at(head, 2)?)),
        FatType::Fat32 => u32::from_le_bytes(array_at(head, 4)?),
    };
    let (clean, sound) = entry_marks(boot.fat_type);
    Ok(Marks {
        dirty: boot.state & crate::boot::STATE_DIRTY != 0 || entry & clean != clean,
        hard_error: boot.state & crate::boot::STATE_ERROR != 0 || entry & sound != sound,
    })
}
