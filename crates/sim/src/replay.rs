//! One pass over a trace.
