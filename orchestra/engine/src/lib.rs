//! Room in preparation.
