//! What belongs to the host of a measuring session, not to a drive or a policy.

/// A drive as one session had it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    /// Profile.
    pub(crate) drive: &'static str,
    /// Rate at which cp dirtied memory, MiB/s.
    pub(crate) fill: u64,
    /// What 5 % of memory was, in tenths of a GiB. The thread says 3.4 to 4; picked inside that
    /// range with request counts in view.
    pub(crate) five_percent: u64,
    /// Bytes of the large file. A FAT file cannot have 4 GiB: 64 KiB less.
    pub(crate) bytes: u64,
    /// It hangs on USB.
    pub(crate) usb: bool,
}

const FOUR: u64 = (4 << 30) - (64 << 10);

/// The sessions of the FAT thread.
pub(crate) const SESSIONS: [Session; 4] = [
    Session { drive: "pny32", fill: 1230, five_percent: 39, bytes: 3 << 30, usb: true },
    Session { drive: "samsung64", fill: 2000, five_percent: 40, bytes: FOUR, usb: true },
    Session { drive: "wdblue", fill: 2050, five_percent: 35, bytes: FOUR, usb: false },
    Session { drive: "evo870", fill: 2730, five_percent: 39, bytes: FOUR, usb: false },
];

/// Two more drives of its first survey, measured at the default threshold only.
pub(crate) const SURVEY: [Session; 2] = [
    Session { drive: "pny250_uas", fill: 2730, five_percent: 39, bytes: FOUR, usb: true },
    Session { drive: "evo870_uas", fill: 2730, five_percent: 39, bytes: FOUR, usb: true },
];

impl Session {
    /// A host like that of the first session.
    pub(crate) const PLAIN: Self =
        Self { drive: "pny32", fill: 1230, five_percent: 39, bytes: 3 << 30, usb: true };

    /// Of that drive.
    pub(crate) fn of(drive: &str) -> Option<Session> {
        SESSIONS.iter().find(|s| s.drive == drive).copied()
    }

    /// Dirty bytes that start the flusher in the columns of this name.
    pub(crate) fn threshold(&self, column: &str) -> u64 {
        let five = self.five_percent * (1 << 30) / 10;
        match column {
            "256M" => 256 << 20,
            "default" => 2 * five,
            _ => five,
        }
    }

    /// Period of the flusher's look at ages, ms.
    pub(crate) fn period_ms(column: &str) -> u64 {
        if column == "256M" { 1000 } else { 5000 }
    }
}
