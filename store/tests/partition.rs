//! `part:`: tables made here byte by byte, the right ones and all kinds of damaged ones.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_blockdev::{
    BlockDev, CacheClass, Caps, DevError, PageBuf, ReadRun, Run, Tag, WriteFlags, WriteRun,
};
use seawall_store::backend::{Backend, BackendOp, MemBackend, PartBackend, Submission};
use seawall_store::partition::{
    ChainError, Disk, HeaderError, PartError, PartKind, Problem, Scheme, Table, TableError,
};
use seawall_store::{AnyStore, OpenOptions, open};
use std::fs;
use std::path::Path;

const KIB: u64 = 1024;
/// Linux filesystem data, as on disk.
const LINUX: [u8; 16] = [
    0xAF, 0x3D, 0xC6, 0x0F, 0x83, 0x84, 0x72, 0x47, 0x8E, 0x79, 0x3D, 0x69, 0xD8, 0x47, 0x7D, 0xE4,
];

/// Puts an entry into the boot record at `at` and signs that.
fn entry(disk: &mut [u8], at: usize, slot: usize, kind: u8, start: u32, len: u32) {
    let place = at + 446 + slot * 16;
    disk[place + 4] = kind;
    disk[place + 8..place + 12].copy_from_slice(&start.to_le_bytes());
    disk[place + 12..place + 16].copy_from_slice(&len.to_le_bytes());
    disk[at + 510..at + 512].copy_from_slice(&[0x55, 0xAA]);
}

/// 1 MiB: partitions 1 and 3, an extended partition 2 of sectors 512 to 1535 with 5, 6 and 7.
fn mbr() -> Vec<u8> {
    let mut disk = vec![0; 1 << 20];
    entry(&mut disk, 0, 0, 0x0C, 64, 128);
    entry(&mut disk, 0, 1, 0x0F, 512, 1024);
    entry(&mut disk, 0, 2, 0x83, 1536, 512);
    for (i, next) in [(0u32, Some(256)), (256, Some(512)), (512, None)] {
        let at = (512 + i as usize) * 512;
        entry(&mut disk, at, 0, 0x83, 32, 100);
        if let Some(next) = next {
            entry(&mut disk, at, 1, 0x05, next, 256);
        }
    }
    disk
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, b| {
        (0..8).fold(
            crc ^ u32::from(*b),
            |v, _| if v & 1 != 0 { v >> 1 ^ 0xEDB8_8320 } else { v >> 1 },
        )
    })
}

/// Where a header is and where its array, bytes.
type Half = (usize, usize);

fn halves(unit: usize, len: usize) -> [Half; 2] {
    let array = (128usize * 128).next_multiple_of(unit);
    [(unit, 2 * unit), (len - unit, len - unit - array)]
}

/// Makes the checksums of a header right.
fn seal(disk: &mut [u8], (header, array): Half) {
    let sum = crc32(&disk[array..array + 128 * 128]);
    disk[header + 88..header + 92].copy_from_slice(&sum.to_le_bytes());
    disk[header + 16..header + 20].fill(0);
    let sum = crc32(&disk[header..header + 92]);
    disk[header + 16..header + 20].copy_from_slice(&sum.to_le_bytes());
}

/// A GPT of 128 entries: number, first and last LBA.
fn gpt(size: usize, unit: usize, partitions: &[(usize, u64, u64)]) -> Vec<u8> {
    let mut disk = vec![0; size];
    entry(&mut disk, 0, 0, 0xEE, 1, u32::MAX);
    let lba = |at: usize| (at / unit) as u64;
    let [first, last] = halves(unit, size);
    let usable = (lba(first.1 + (128usize * 128).next_multiple_of(unit)), lba(last.1) - 1);
    for ((header, array), other) in [(first, last), (last, first)] {
        disk[header..header + 8].copy_from_slice(b"EFI PART");
        disk[header + 8..header + 16].copy_from_slice(&[0, 0, 1, 0, 92, 0, 0, 0]);
        let words = [lba(header), lba(other.0), usable.0, usable.1];
        for (i, word) in words.into_iter().enumerate() {
            disk[header + 24 + i * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        disk[header + 72..header + 80].copy_from_slice(&lba(array).to_le_bytes());
        disk[header + 80..header + 88].copy_from_slice(&[128, 0, 0, 0, 128, 0, 0, 0]);
        for (number, from, to) in partitions {
            let e = &mut disk[array + (number - 1) * 128..][..128];
            e[..16].copy_from_slice(&LINUX);
            e[32..40].copy_from_slice(&from.to_le_bytes());
            e[40..48].copy_from_slice(&to.to_le_bytes());
            for (i, unit) in format!("p{number}").encode_utf16().enumerate() {
                e[56 + 2 * i..][..2].copy_from_slice(&unit.to_le_bytes());
            }
        }
        seal(&mut disk, (header, array));
    }
    disk
}

/// What a reader makes of these bytes. Fails when it reads outside of them or across blocks.
fn look<T>(bytes: &[u8], logical: u32, then: impl FnOnce(&mut Disk<'_>) -> T) -> T {
    let size = bytes.len() as u64 / u64::from(logical) * u64::from(logical);
    let caps = Caps { logical, ..Caps::disk(size, CacheClass::Flushable) };
    let mut read = |start: u64, buf: &mut [u8]| {
        assert!(start.is_multiple_of(logical.into()) && buf.len() <= 1 << 20);
        assert!(buf.len().is_multiple_of(logical as usize));
        buf.copy_from_slice(&bytes[start as usize..start as usize + buf.len()]);
        Ok(())
    };
    then(&mut Disk::new(&caps, Some(512), &mut read))
}

fn table(bytes: &[u8]) -> Result<Table, TableError> {
    look(bytes, 512, Table::read)
}

fn select(bytes: &[u8], number: u32) -> Result<Run, PartError> {
    look(bytes, 512, |disk| Table::read(disk)?.select(disk, number))
}

fn bad(bytes: &[u8], number: u32) -> Problem {
    match select(bytes, number) {
        Err(PartError::Bad { number: n, problem }) if n == number => problem,
        other => panic!("partition {number}: {other:?}"),
    }
}

#[test]
fn an_mbr_counts_as_linux_does() {
    let disk = mbr();
    let table = table(&disk).unwrap();
    assert_eq!((table.scheme, table.unit, table.chain), (Scheme::Mbr, 512, None));
    let runs: Vec<_> = table.partitions.iter().map(|p| (p.number, p.run.start / 512)).collect();
    assert_eq!(runs, [(1, 64), (2, 512), (3, 1536), (5, 544), (6, 800), (7, 1056)]);
    assert_eq!(select(&disk, 5), Ok(Run::new(544 * 512, 100 * 512)));
    assert_eq!(select(&disk, 2), Err(PartError::Extended { number: 2 }));
    let text = |n| select(&disk, n).unwrap_err().to_string();
    assert_eq!(text(4), "no partition 4; the MBR has 1, 2, 3, 5, 6, 7");
    assert_eq!(text(8), "no partition 8; the MBR has 1, 2, 3, 5, 6, 7");
}

#[test]
fn a_damaged_chain_is_an_error_for_all_that_hang_on_it_and_for_nothing_else() {
    let second = (512 + 256) * 512;
    let mut cases: Vec<(Vec<u8>, ChainError)> = Vec::new();
    let mut disk = mbr();
    entry(&mut disk, second, 1, 0x05, 0, 256);
    cases.push((disk, ChainError::Loop(512 * 512)));
    let mut disk = mbr();
    entry(&mut disk, second, 1, 0x05, 1024, 256);
    cases.push((disk, ChainError::Outside { extended: 2, to: 1536 * 512 }));
    let mut disk = mbr();
    entry(&mut disk, second, 1, 0x05, u32::MAX, u32::MAX);
    let to = (512 + u64::from(u32::MAX)) * 512;
    cases.push((disk, ChainError::Outside { extended: 2, to }));
    let mut disk = mbr();
    disk[second + 511] = 0;
    cases.push((disk, ChainError::Signature(second as u64)));
    // One record behind the other, and never a partition.
    let mut disk = mbr();
    for i in 0..1023 {
        let at = (512 + i) * 512;
        disk[at + 446..at + 510].fill(0);
        entry(&mut disk, at, 0, 0x05, i as u32 + 1, 1);
    }
    cases.push((disk, ChainError::Long));
    for (disk, chain) in cases {
        assert_eq!(table(&disk).unwrap().chain, Some(chain));
        for number in [5, 6, 7, 100] {
            assert_eq!(select(&disk, number), Err(PartError::Chain { number, chain }));
        }
        assert_eq!(select(&disk, 1), Ok(Run::new(64 * 512, 128 * 512)));
        assert_eq!(select(&disk, 3), Ok(Run::new(1536 * 512, 512 * 512)));
    }
}

#[test]
fn partitions_that_share_bytes_or_leave_the_device_are_refused_by_name() {
    let mut disk = mbr();
    entry(&mut disk, 0, 0, 0x83, 64, 449);
    assert_eq!((bad(&disk, 1), select(&disk, 5).is_ok()), (Problem::OnTable, true));
    let mut disk = mbr();
    entry(&mut disk, 0, 3, 0x83, 650, 10);
    assert_eq!((bad(&disk, 4), select(&disk, 5).is_ok()), (Problem::Overlap(2), true));
    let mut disk = mbr();
    entry(&mut disk, 0, 3, 0x83, 100, 20);
    assert_eq!((bad(&disk, 1), bad(&disk, 4)), (Problem::Overlap(4), Problem::Overlap(1)));
    assert!(select(&disk, 3).is_ok());
    let mut disk = mbr();
    entry(&mut disk, 0, 2, 0x83, 1536, 513);
    assert_eq!(bad(&disk, 3), Problem::OutOfDevice { end: 2049 * 512, size: 1 << 20 });
    let mut disk = mbr();
    entry(&mut disk, 0, 0, 0x17, 0, 128);
    assert_eq!(bad(&disk, 1), Problem::OnTable);
    // A logical partition over the record of the next, over the next, and out of the extended one.
    let mut disk = mbr();
    entry(&mut disk, 512 * 512, 0, 0x83, 32, 225);
    assert_eq!((bad(&disk, 5), select(&disk, 6).is_ok()), (Problem::OnTable, true));
    entry(&mut disk, 512 * 512, 0, 0x83, 300, 1);
    assert_eq!((bad(&disk, 5), bad(&disk, 6)), (Problem::Overlap(6), Problem::Overlap(5)));
    entry(&mut disk, 512 * 512, 0, 0x83, 1000, 100);
    assert_eq!(bad(&disk, 5), Problem::OutsideExtended(2));
    let line = select(&disk, 5).unwrap_err().to_string();
    assert_eq!(line, "partition 5 is a logical partition outside of extended partition 2");
    // Blocks of 4096 over sectors of 512.
    let disk = mbr();
    let of_4096 = |n| look(&disk, 4096, |disk| Table::read(disk)?.select(disk, n));
    assert_eq!(of_4096(1), Ok(Run::new(64 * 512, 128 * 512)));
    assert_eq!(of_4096(5), Ok(Run::new(544 * 512, 96 * 512)));
    let mut disk = mbr();
    entry(&mut disk, 0, 0, 0x83, 63, 128);
    let problem = Problem::Misaligned { start: 63 * 512, block: 4096 };
    let seen = look(&disk, 4096, |disk| Table::read(disk)?.select(disk, 1));
    assert_eq!(seen, Err(PartError::Bad { number: 1, problem }));
}

#[test]
fn no_table_is_said_so() {
    let absent = |disk: &[u8]| match table(disk) {
        Err(e @ (TableError::Absent(_) | TableError::Stray(_))) => e.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(absent(&vec![0; 1 << 20]).starts_with("no MBR or GPT (the first sector does not end"));
    let mut fat = vec![0; 1 << 20];
    fat[..3].copy_from_slice(&[0xEB, 0x3C, 0x90]);
    fat[11..13].copy_from_slice(&512u16.to_le_bytes());
    fat[510..512].copy_from_slice(&[0x55, 0xAA]);
    assert!(absent(&fat).contains("that of a volume without partitions"));
    fat[446] = b'E';
    assert!(absent(&fat).contains("boot sector without a table"));
    let mut lost = gpt(1 << 20, 512, &[(1, 64, 127)]);
    lost[510] = 0;
    assert!(absent(&lost).contains("byte 512 has a GPT header"));
    let empty = {
        let mut disk = vec![0; 1 << 20];
        entry(&mut disk, 0, 0, 0, 0, 0);
        disk
    };
    assert_eq!(select(&empty, 1).unwrap_err().to_string(), "no partition 1; the MBR has none");
}

#[test]
fn a_gpt_is_found_with_either_block_and_beside_other_entries() {
    for unit in [512usize, 4096] {
        for logical in [512, 4096] {
            let at = |lba: u64| lba * unit as u64;
            let mut disk = gpt(1 << 20, unit, &[(1, 64, 127), (5, 128, 135), (128, 136, 151)]);
            // Hybrid: an entry for old systems that names other bytes than the GPT does.
            entry(&mut disk, 0, 1, 0x0C, 64, 8);
            let read = |n| look(&disk, logical, |disk| Table::read(disk)?.select(disk, n));
            assert_eq!(read(1), Ok(Run::new(at(64), at(64))));
            assert_eq!(read(128), Ok(Run::new(at(136), at(16))));
            let missing = read(2).unwrap_err().to_string();
            assert_eq!(missing, "no partition 2; the GPT has 1, 5, 128");
            let table = look(&disk, logical, Table::read).unwrap();
            assert_eq!((table.unit as usize, table.backup), (unit, None));
            let p = &table.partitions[1];
            assert_eq!((p.name.as_str(), p.kind.name()), ("p5", Some("Linux filesystem")));
            assert_eq!(p.kind.to_string(), "0FC63DAF-8483-4772-8E79-3D69D8477DE4");
            assert_eq!(p.kind, PartKind::Gpt(LINUX));
        }
    }
}

#[test]
fn the_backup_replaces_a_damaged_primary_and_both_damaged_are_one_error() {
    let size = 1 << 20;
    for unit in [512usize, 4096] {
        let good = gpt(size, unit, &[(1, 64, 127)]);
        let [first, last] = halves(unit, size);
        let flip = |at: usize| {
            let mut disk = good.clone();
            disk[at] ^= 0x40;
            disk
        };
        for (at, why) in [
            (first.0, HeaderError::Signature),
            (first.0 + 56, HeaderError::Checksum),
            (first.1 + 33, HeaderError::ArrayChecksum),
        ] {
            let mut disk = flip(at);
            let found = table(&disk).unwrap();
            let backup = found.backup.unwrap();
            let told = (backup.primary, backup.backup, backup.why);
            assert_eq!(told, (unit as u64, last.0 as u64, why));
            assert!(select(&disk, 1).is_ok());
            disk[last.0 + 60] ^= 1;
            let Err(TableError::Gpt { primary_why, backup_why, .. }) = table(&disk) else {
                panic!("{:?}", table(&disk));
            };
            assert_eq!((primary_why, backup_why), (why, HeaderError::Checksum));
        }
        // A damaged backup alone is nobody's problem.
        assert_eq!(table(&flip(last.0 + 56)).unwrap().backup, None);
        // The disk grew, and the primary still knows where its backup is.
        let mut grown = flip(first.1 + 33);
        grown.resize(size * 2, 0);
        assert_eq!(table(&grown).unwrap().backup.unwrap().backup, last.0 as u64);
        // It shrank: what the header says is not there.
        let shrunk = &good[..size / 2];
        let Err(TableError::Gpt { primary_why: HeaderError::Usable { .. }, .. }) = table(shrunk)
        else {
            panic!("{:?}", table(shrunk));
        };
    }
}

#[test]
fn entries_of_a_gpt_are_hostile_too() {
    let entries = [(1, 64, 127), (2, 127, 200), (3, 300, 299), (4, 1, 40), (5, 2000, 2047)];
    let disk = gpt(1 << 20, 512, &entries);
    assert_eq!((bad(&disk, 1), bad(&disk, 2)), (Problem::Overlap(2), Problem::Overlap(1)));
    assert_eq!((bad(&disk, 3), bad(&disk, 4)), (Problem::Backwards, Problem::OnTable));
    assert_eq!(bad(&disk, 5), Problem::OnTable);
    let disk = gpt(1 << 20, 512, &[(1, 64, 127), (2, 400, 1 << 60), (3, 500, 501)]);
    assert!(matches!(bad(&disk, 2), Problem::OutOfDevice { .. }));
    assert_eq!((bad(&disk, 3), select(&disk, 1).is_ok()), (Problem::Overlap(2), true));
    let [first, last] = halves(512, 1 << 20);
    let edit = |at: usize, bytes: &[u8]| {
        let mut disk = gpt(1 << 20, 512, &[(1, 64, 127)]);
        for half in [first, last] {
            disk[half.0 + at..][..bytes.len()].copy_from_slice(bytes);
            disk[half.0 + 16..half.0 + 20].fill(0);
            let sum = crc32(&disk[half.0..half.0 + 92]);
            disk[half.0 + 16..half.0 + 20].copy_from_slice(&sum.to_le_bytes());
        }
        match table(&disk) {
            Err(TableError::Gpt { primary_why, .. }) => primary_why,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(edit(12, &[255, 255, 255, 255]), HeaderError::Size(u32::MAX));
    assert_eq!(edit(12, &[91, 0, 0, 0]), HeaderError::Size(91));
    assert_eq!(edit(24, &[9]), HeaderError::Place(9));
    assert!(matches!(edit(48, &[255; 8]), HeaderError::Usable { .. }));
    for (at, bytes) in [(72, [255; 8]), (80, [255, 255, 255, 255, 128, 0, 0, 0]), (80, [0; 8])] {
        assert!(matches!(edit(at, &bytes), HeaderError::Array { .. }));
    }
}

/// xorshift64*: the same numbers every time.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % n as u64) as usize
    }
}

#[test]
fn whatever_a_table_says_a_partition_is_inside_and_alone() {
    let size = 1 << 20;
    let bases = [
        (mbr(), vec![0..512, 512 * 512..512 * 513, 768 * 512..769 * 512], None),
        (gpt(size, 512, &[(1, 64, 127), (2, 128, 255)]), vec![446..512, 512..1536], Some(512)),
        (gpt(size, 4096, &[(1, 16, 31), (2, 32, 63)]), vec![4096..4190, 8192..8448], Some(4096)),
    ];
    let mut rng = Rng(0x5EA_5EA1);
    let mut opened = 0;
    for round in 0..3000 {
        let (base, places, unit) = &bases[round % bases.len()];
        let mut disk = base.clone();
        for _ in 0..1 + rng.below(4) {
            let place = &places[rng.below(places.len())];
            let at = place.start + rng.below(place.len());
            disk[at] = match rng.below(3) {
                0 => rng.below(256) as u8,
                1 => disk[at] ^ 1 << rng.below(8),
                _ => [0, 1, 5, 15, 0x7F, 0xFF][rng.below(6)],
            };
        }
        if let Some(unit) = unit.filter(|_| rng.below(4) > 0) {
            seal(&mut disk, halves(unit, size)[0]);
        }
        let logical = [512, 4096][rng.below(2)];
        let mut runs = look(&disk, logical, |disk| {
            let Ok(table) = Table::read(disk) else { return Vec::new() };
            let numbers = table.partitions.iter().map(|p| p.number);
            numbers.filter_map(|n| table.select(disk, n).ok()).collect()
        });
        opened += runs.len();
        runs.sort_unstable();
        assert!(runs.windows(2).all(|w| w[0].end().unwrap() <= w[1].start), "{round}: {runs:?}");
        for run in runs {
            let block = u64::from(logical);
            assert!(run.start >= 512 && run.len > 0 && run.end().unwrap() <= size as u64);
            assert!(run.start.is_multiple_of(block) && run.len.is_multiple_of(block), "{round}");
        }
    }
    assert!(opened > 1500, "{opened} partitions opened");
}

#[test]
fn what_leaves_a_partition_is_refused_and_its_neighbours_in_the_batch_are_not() {
    let disk = MemBackend::new(1 << 20).unwrap();
    let table = mbr();
    block_on(&disk, BackendOp::Write { start: 0, buf: &table, fua: false }).unwrap();
    let part = PartBackend::open(1, Box::new(disk)).unwrap();
    assert_eq!((part.run(), part.caps().size), (Run::new(64 * 512, 64 * KIB), 64 * KIB));
    let bytes = [7u8; 1024];
    let write = |start| Submission::new(BackendOp::Write { start, buf: &bytes, fua: true });
    let outside = [63 * KIB + 512, 64 * KIB, u64::MAX - 511, u64::MAX - 32 * KIB];
    let mut batch: Vec<_> = [0].into_iter().chain(outside).chain([63 * KIB]).map(write).collect();
    block_on_all(&part, &mut batch);
    let results: Vec<_> = batch.iter().map(|s| s.result).collect();
    let no = Err(DevError::OutOfRange);
    assert_eq!(results, [Ok(()), no, no, no, no, Ok(())]);
    for run in [Run::new(0, 65 * KIB), Run::new(u64::MAX, 512), Run::new(512, u64::MAX)] {
        assert_eq!(block_on(&part, BackendOp::Zero { run, keep: false }), no);
        assert_eq!(block_on(&part, BackendOp::Discard { run }), no);
    }
    let mut back = vec![0; 64 * 1024];
    block_on(&part, BackendOp::Read { start: 0, buf: &mut back }).unwrap();
    assert!(back[..1024] == bytes && back[63 * 1024..] == bytes);
    assert!(back[1024..63 * 1024].iter().all(|b| *b == 0));
}

fn block_on(backend: &dyn Backend, op: BackendOp<'_>) -> Result<(), DevError> {
    let mut batch = [Submission::new(op)];
    block_on_all(backend, &mut batch);
    let [done] = batch;
    done.result
}

fn block_on_all(backend: &dyn Backend, batch: &mut [Submission<'_>]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(backend.submit(batch));
}

fn write(store: &mut AnyStore, start: u64, byte: u8, fua: bool) -> Result<(), DevError> {
    let buf = PageBuf::from_slice(&[byte; 4096]);
    let flags = WriteFlags { fua, ..WriteFlags::default() };
    store.write(&[WriteRun { start, buf: &buf, tag: Tag(1) }], flags).map(|_| ())
}

fn opened(name: &str) -> AnyStore {
    open(name, &OpenOptions::default()).unwrap()
}

fn refused(name: &str) -> String {
    match open(name, &OpenOptions::default()) {
        Ok(_) => panic!("{name} opens"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_partition_is_a_store_of_its_own_in_any_chain() {
    // Beside the build: temporary folders may lie where there is no direct I/O.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("disk").display().to_string();
    fs::write(&path, mbr()).unwrap();
    let disk = opened(&path).caps();
    for name in [
        format!("part:3:{path}"),
        format!("part:3:fault:read=1000:file:{path}"),
        format!("part:3:sim:qemu-ssd:{path}"),
        format!("fault:write=1000:part:3:{path}"),
        format!("part:3:file:{path}?direct"),
    ] {
        fs::write(&path, mbr()).unwrap();
        let mut store = opened(&name);
        let caps = store.caps();
        assert_eq!((caps.size, caps.cache), (256 * KIB, disk.cache), "{name}");
        write(&mut store, 8192, 3, caps.fua).unwrap();
        write(&mut store, 252 * KIB, 4, false).unwrap();
        assert_eq!(write(&mut store, 256 * KIB, 5, false), Err(DevError::OutOfRange));
        assert_eq!(store.seqs().acked, store.sync(Tag(0)).unwrap());
        store.write_zeroes(Run::new(252 * KIB, 4096), Tag(0)).unwrap();
        assert!(store.discard(Run::new(256 * KIB - 4096, 8192), Tag(0)).is_err());
        store.discard(Run::new(128 * KIB, 4096), Tag(0)).unwrap();
        let mut back = PageBuf::zeroed(4096);
        store.read(&mut [ReadRun { start: 8192, buf: &mut back }], Tag(0)).unwrap();
        assert!(back.iter().all(|b| *b == 3));
        store.sync(Tag(0)).unwrap();
        drop(store);
        let mut expected = mbr();
        expected[1536 * 512 + 8192..][..4096].fill(3);
        assert!(fs::read(&path).unwrap() == expected, "{name}");
    }
    // A fault below is a fault of the partition, counted as the disk sees it.
    let mut store = opened(&format!("part:3:fault:flush=1:{path}"));
    write(&mut store, 0, 1, false).unwrap();
    assert_eq!(store.sync(Tag(0)), Err(DevError::Io));
    assert_eq!(store.sync(Tag(0)), Err(DevError::Io));
    drop(store);
    let unflushable = opened(&format!("part:1:fault:unflushable:{path}")).caps();
    assert_eq!((unflushable.cache, unflushable.fua), (CacheClass::Unflushable, false));
    assert!(opened(&format!("part:1:file:{path}?ro")).caps().read_only);
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    assert!(open(&format!("part:1:{path}"), &options).unwrap().caps().read_only);
    // The size of a new file is not the size of the disk around a partition.
    let options = OpenOptions { create_size: Some(512), ..OpenOptions::default() };
    open(&format!("part:1:{path}"), &options).unwrap();
    assert_eq!(Path::new(&path).metadata().unwrap().len(), 1 << 20);
}

#[test]
fn names_that_mean_no_partition_get_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk").display().to_string();
    fs::write(&path, mbr()).unwrap();
    for (name, part) in [
        (format!("part:0:{path}"), "partitions are counted from 1"),
        (format!("part:x:{path}"), "expected part:N:STORE"),
        (format!("part::{path}"), "expected part:N:STORE"),
        (format!("part:+1:{path}"), "expected part:N:STORE"),
        ("part:1".into(), "expected part:N:STORE"),
        ("part:1:".into(), "accepted are PATH"),
        (format!("part:99999999999:{path}"), "no table has 99999999999 partitions"),
        (format!("part:9:{path}"), "no partition 9; the MBR has 1, 2, 3, 5, 6, 7"),
        (format!("part:2:{path}"), "partition 2 is an extended partition"),
        (format!("part:1:part:1:{path}"), "no MBR or GPT"),
        ("part:1:mem:1M".into(), "part:1:mem:1M: no MBR or GPT"),
        (format!("part:1:fault:read=1:{path}"), "reading the partition table at byte 0: input"),
    ] {
        let line = refused(&name);
        assert!(line.contains(part) && line.lines().count() == 1, "{name}: {line}");
    }
    let _held = opened(&format!("part:1:{path}"));
    let line = refused(&format!("part:3:{path}"));
    assert!(line.contains("one writer for all of its partitions, is in use"), "{line}");
    opened(&format!("part:3:file:{path}?ro"));
}
