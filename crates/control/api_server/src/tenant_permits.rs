//! TenantPermits that each tenant has for itself, so that what one does takes none from another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct TenantPermits {
    each: usize,
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// From so many tenants on, semaphores of which no permit is held are dropped.
const MANY: usize = 64;

impl TenantPermits {
    /// So many permits for each tenant.
    pub fn new(each: usize) -> TenantPermits {
        TenantPermits { each: each.clamp(1, Semaphore::MAX_PERMITS), tenants: Mutex::default() }
    }

    /// The semaphore of a tenant.
    pub fn of(&self, tenant: &str) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(permits) = tenants.get(tenant).and_then(Weak::upgrade) {
            return permits;
        }
        if tenants.len() >= MANY {
            tenants.retain(|_, permits| permits.strong_count() > 0);
        }
        let permits = Arc::new(Semaphore::new(self.each));
        tenants.insert(tenant.to_owned(), Arc::downgrade(&permits));
        permits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_tenant_takes_another_does_not_miss() {
        let permits = TenantPermits::new(1);
        let held = permits.of("red").try_acquire_owned().expect("free");
        assert!(permits.of("red").try_acquire_owned().is_err());
        let other = permits.of("blue").try_acquire_owned().expect("free");
        drop(held);
        assert!(permits.of("red").try_acquire_owned().is_ok());
        for n in 0..MANY * 2 {
            let _ = permits.of(&n.to_string());
        }
        let known = permits.tenants.lock().expect("no panic").len();
        assert!(known <= MANY, "{known}");
        assert!(permits.of("blue").try_acquire_owned().is_err(), "what is held stays known");
        drop(other);
    }
}
