//! OEM code pages by name.
