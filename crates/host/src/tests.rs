//! Hosts that carry out plans, with ports that need no kernel.
