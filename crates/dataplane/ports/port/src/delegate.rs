//! What stands before a port says of itself what the port says.

/// The methods of [`Port`](crate::Port) by which a port says what it is, and is told what the worker does, of
/// what has the port as `inner`.
macro_rules! delegate_to_inner {
    () => {
        fn mtu(&self) -> Option<u32> {
            self.inner.mtu()
        }

        fn needs_maintenance(&self) -> bool {
            self.inner.needs_maintenance()
        }

        fn reads_flow_hash(&self) -> bool {
            self.inner.reads_flow_hash()
        }

        fn backlog(&self) -> usize {
            self.inner.backlog()
        }

        fn waits_outside(&self) -> bool {
            self.inner.waits_outside()
        }

        fn capacity(&self) -> Option<usize> {
            self.inner.capacity()
        }

        fn room(&self) -> usize {
            self.inner.room()
        }

        fn want_room(&self) {
            self.inner.want_room();
        }

        fn signal(&mut self) {
            self.inner.signal();
        }
    };
}
