//! A value that is looked at as it is at one moment, without being copied or locked meanwhile; it is copied
//! when it is changed while that goes on.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct CopyOnWrite<T>(Arc<T>);

impl<T> CopyOnWrite<T> {
    /// As it is now.
    pub(crate) fn now(&self) -> Arc<T> {
        self.0.clone()
    }
}

impl<T> From<T> for CopyOnWrite<T> {
    fn from(value: T) -> CopyOnWrite<T> {
        CopyOnWrite(Arc::new(value))
    }
}

impl<T> Deref for CopyOnWrite<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for CopyOnWrite<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_copied_only_while_it_is_looked_at() {
        let mut value = CopyOnWrite(Arc::new(vec![1]));
        let place = Arc::as_ptr(&value.0);
        value.push(2);
        assert_eq!(Arc::as_ptr(&value.0), place, "nothing looks at it");
        let before = value.now();
        value.push(3);
        assert_eq!((&**before, value.len()), (&[1, 2][..], 3));
        drop(before);
        let place = Arc::as_ptr(&value.0);
        value.push(4);
        assert_eq!((Arc::as_ptr(&value.0), value.len()), (place, 4));
    }
}
