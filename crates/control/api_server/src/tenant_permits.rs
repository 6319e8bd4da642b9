//! Places that each tenant has for itself, so that what one does takes none from another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Places {
    each: usize,
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// From so many tenants on those are forgotten that use none.
const MANY: usize = 64;

impl Places {
    /// So many places for each tenant.
    pub fn new(each: usize) -> Places {
        Places { each: each.clamp(1, Semaphore::MAX_PERMITS), tenants: Mutex::default() }
    }

    /// Those of a tenant.
    pub fn of(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = tenants.get(tenant).and_then(Weak::upgrade) {
            return places;
        }
        if tenants.len() >= MANY {
            tenants.retain(|_, places| places.strong_count() > 0);
        }
        let places = Arc::new(Semaphore::new(self.each));
        tenants.insert(tenant.to_owned(), Arc::downgrade(&places));
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_tenant_takes_another_does_not_miss() {
        let places = Places::new(1);
        let held = places.of("red").try_acquire_owned().expect("free");
        assert!(places.of("red").try_acquire_owned().is_err());
        let other = places.of("blue").try_acquire_owned().expect("free");
        drop(held);
        assert!(places.of("red").try_acquire_owned().is_ok());
        for n in 0..MANY * 2 {
            let _ = places.of(&n.to_string());
        }
        let known = places.tenants.lock().expect("no panic").len();
        assert!(known <= MANY, "{known}");
        assert!(places.of("blue").try_acquire_owned().is_err(), "what is held stays known");
        drop(other);
    }
}
