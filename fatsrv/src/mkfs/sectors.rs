//! The bytes of a new volume's own sectors.

use super::MkfsOptions;
use super::layout::Layout;
use crate::boot::{BOOT_BYTES, FatType};
use crate::entry::{ATTR_VOLUME, FREE, KANJI_E5, RawEntry};
use crate::label::NO_NAME;
use seawall_blockdev::PageBuf;
use seawall_diskfs::FsError;
use seawall_diskfs::bytes::put;

/// Sector of FSINFO; its copy is as far behind the copy of the boot sector.
pub(super) const INFO: u64 = 1;
/// `BS_BootCode`: stop for good. (cli; hlt; jmp back to it.)
const BOOT_CODE: &[u8; 4] = &[0xFA, 0xF4, 0xEB, 0xFD];

/// The boot sector.
pub(super) fn boot(opts: &MkfsOptions, l: &Layout) -> Result<[u8; BOOT_BYTES], FsError> {
    let mut b = [0; BOOT_BYTES];
    let fat32 = l.fat == FatType::Fat32;
    // The extended part: drive number, state, signature, serial number, label, name of the type.
    let tail = if fat32 { 64 } else { 36 };
    put(&mut b, 0, &[0xEB, tail as u8 + 26 - 2, 0x90])?;
    put(&mut b, 3, b"SEAWALL ")?;
    let mut w16 = |at: usize, v: u32| put(&mut b, at, &(v as u16).to_le_bytes());
    w16(11, opts.sector)?;
    w16(14, l.reserved)?;
    w16(17, l.root_entries)?;
    w16(24, l.sectors_per_track)?;
    w16(26, l.heads)?;
    if fat32 {
        w16(48, INFO as u32)?;
        w16(50, l.backup.unwrap_or(0))?;
    } else {
        w16(22, l.fat_sectors as u32)?;
        // The specification wants the small field wherever the number fits it, but on FAT32.
        w16(19, if l.total < 1 << 16 { l.total } else { 0 })?;
    }
    let mut w32 = |at: usize, v: u32| put(&mut b, at, &v.to_le_bytes());
    w32(28, opts.hidden)?;
    if fat32 || l.total >= 1 << 16 {
        w32(32, l.total)?;
    }
    if fat32 {
        w32(36, l.fat_sectors as u32)?;
        w32(44, 2)?;
    }
    w32(tail + 3, opts.serial)?;
    put(&mut b, 13, &[l.per_cluster as u8])?;
    put(&mut b, 16, &[opts.fats as u8])?;
    put(&mut b, 21, &[l.media])?;
    put(&mut b, tail, &[if l.media == 0xF8 { 0x80 } else { 0 }, 0, 0x29])?;
    put(&mut b, tail + 7, &first_byte(opts.label.unwrap_or(NO_NAME), FREE))?;
    put(&mut b, tail + 18, l.fat.name().as_bytes())?;
    put(&mut b, tail + 23, b"   ")?;
    put(&mut b, tail + 26, BOOT_CODE)?;
    put(&mut b, 510, &[0x55, 0xAA])?;
    Ok(b)
}

/// The first sector of a FAT: the media byte, the end mark whose high bits say "clean", and on
/// FAT32 the root directory's only cluster.
pub(super) fn first_of_fat(l: &Layout, sector: u32) -> Result<PageBuf, FsError> {
    let mut b = PageBuf::zeroed(sector as usize);
    let marks: &[u8] = match l.fat {
        FatType::Fat12 => &[l.media, 0xFF, 0xFF],
        FatType::Fat16 => &[l.media, 0xFF, 0xFF, 0xFF],
        FatType::Fat32 => {
            &[l.media, 0xFF, 0xFF, 0x0F, 0xFF, 0xFF, 0xFF, 0x0F, 0xFF, 0xFF, 0xFF, 0x0F]
        }
    };
    put(&mut b, 0, marks)?;
    Ok(b)
}

/// FSINFO.
pub(super) fn info(sector: u32, l: &Layout) -> Result<PageBuf, FsError> {
    let mut b = PageBuf::zeroed(sector as usize);
    put(&mut b, 0, b"RRaA")?;
    put(&mut b, 484, b"rrAa")?;
    put(&mut b, 488, &(l.clusters - 1).to_le_bytes())?;
    // The root directory has the only cluster in use.
    put(&mut b, 492, &2u32.to_le_bytes())?;
    put(&mut b, 510, &[0x55, 0xAA])?;
    Ok(b)
}

/// A label whose first character is that of code 0xE5, which marks free slots in a directory but
/// nothing in the boot sector, as `code`.
fn first_byte(mut label: [u8; 11], code: u8) -> [u8; 11] {
    if let Some(first) = label.first_mut().filter(|b| [FREE, KANJI_E5].contains(*b)) {
        *first = code;
    }
    label
}

/// The first sector of a root directory with a label.
pub(super) fn label(opts: &MkfsOptions, label: [u8; 11]) -> Result<PageBuf, FsError> {
    let (date, time, _) = opts.zone.to_dos(opts.time);
    let entry = RawEntry {
        name: first_byte(label, KANJI_E5),
        attr: ATTR_VOLUME,
        crt_time: time,
        crt_date: date,
        acc_date: date,
        mod_time: time,
        mod_date: date,
        ..RawEntry::default()
    };
    let mut b = PageBuf::zeroed(opts.sector as usize);
    put(&mut b, 0, &entry.to_bytes())?;
    Ok(b)
}
