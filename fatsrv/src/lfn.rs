//! Long names: slots to a name and back.
