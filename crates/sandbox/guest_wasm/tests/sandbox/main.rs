//! What a guest may do and may not: real modules, run in the sandbox of the product, each followed by the
//! proof that the host goes on, that the packets are as they were, and that another instance works.

mod access;
mod answers;
mod bulk;
mod cache;
mod clones;
mod contract;
mod deadlines;
mod growth;
mod host_calls;
mod host_faults;
mod preemption;
mod proposals;
mod random;
mod release;
mod resident;
mod saving;
mod shells;
mod straight;
mod succession;
mod support;
mod traps;
mod whole_modules;
