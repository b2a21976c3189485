//! The tables of the three threads, reproduced in virtual time and compared value by value.

mod copy;
