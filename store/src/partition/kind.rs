//! What a table says a partition holds. Nothing depends on it but what people read, and that an
//! extended partition is none to be opened.

use core::fmt;

/// A partition's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// The byte of an MBR.
    Mbr(u8),
    /// The GUID of a GPT, as on disk.
    Gpt([u8; 16]),
}

/// Names of common bytes.
const MBR: &[(u8, &str)] = &[
    (0x01, "FAT12"),
    (0x04, "FAT16 (less than 32 MiB)"),
    (0x05, "extended"),
    (0x06, "FAT16"),
    (0x07, "NTFS, exFAT"),
    (0x0B, "FAT32"),
    (0x0C, "FAT32 (LBA)"),
    (0x0E, "FAT16 (LBA)"),
    (0x0F, "extended (LBA)"),
    (0x82, "Linux swap"),
    (0x83, "Linux"),
    (0x85, "Linux extended"),
    (0x8E, "Linux LVM"),
    (0xA5, "FreeBSD"),
    (0xEF, "EFI system"),
    (0xFD, "Linux RAID"),
];

/// Names of common GUIDs, as they are written.
const GPT: &[(&str, &str)] = &[
    ("C12A7328-F81F-11D2-BA4B-00A0C93EC93B", "EFI system"),
    ("21686148-6449-6E6F-744E-656564454649", "BIOS boot"),
    ("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7", "Microsoft basic data"),
    ("E3C9E316-0B5C-4DB8-817D-F92DF00215AE", "Microsoft reserved"),
    ("0FC63DAF-8483-4772-8E79-3D69D8477DE4", "Linux filesystem"),
    ("0657FD6D-A4AB-43C4-84E5-0933C84B4F4F", "Linux swap"),
    ("E6D6D379-F507-44C2-A23C-238F2A3DF928", "Linux LVM"),
    ("A19D880F-05FC-4D3B-A006-743F0F84911E", "Linux RAID"),
    ("4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709", "Linux root (x86-64)"),
    ("933AC7E1-2EB4-4F13-B844-0E14E2AEF915", "Linux home"),
];

impl PartKind {
    /// True for an MBR entry that holds further tables.
    pub fn is_extended(self) -> bool {
        matches!(self, Self::Mbr(0x05 | 0x0F | 0x85))
    }

    /// What it is called, where that is known.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Mbr(byte) => MBR.iter().find(|(b, _)| *b == byte).map(|(_, name)| *name),
            Self::Gpt(_) => {
                let text = alloc::format!("{self}");
                GPT.iter().find(|(guid, _)| *guid == text).map(|(_, name)| *name)
            }
        }
    }
}

/// `0x83`, or a GUID in capitals.
impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mbr(byte) => write!(f, "0x{byte:02x}"),
            Self::Gpt(b) => {
                let [b0, b1, b2, b3, b4, b5, b6, b7, rest @ ..] = *b;
                let first = u32::from_le_bytes([b0, b1, b2, b3]);
                let (second, third) = (u16::from_le_bytes([b4, b5]), u16::from_le_bytes([b6, b7]));
                let [r0, r1, node @ ..] = rest;
                write!(f, "{first:08X}-{second:04X}-{third:04X}-{r0:02X}{r1:02X}-")?;
                node.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
            }
        }
    }
}
