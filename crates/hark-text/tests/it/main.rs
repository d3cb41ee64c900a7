//! Work on text as callers use it.

mod pii;
