//! Functions that get a new image while packets pass.

use super::controller::{Controller, lock};
use super::refusal::{as_host, refused};
use daemon::{ObjectChange, Refusal, TakenOver};
use host::Checked;
use std::sync::Arc;

/// A function with a new image, for the server.
struct Upgraded {
    controller: Arc<Controller>,
    taken: host::TakenOver,
    change: ObjectChange,
}

impl TakenOver for Upgraded {
    fn keep(self: Box<Self>) {
        lock(&self.controller.desired).take_over([as_host(&self.change)]);
    }

    fn roll_back(self: Box<Self>) {
        let Upgraded { controller, taken, .. } = *self;
        if let Err(error) = lock(&controller.host).roll_back(taken) {
            eprintln!("a new image could not be taken back: {error}");
        }
    }
}

impl Controller {
    /// Gives a function the image that a change says.
    pub(super) fn take_image(self: &Arc<Self>, change: &ObjectChange) -> Result<Box<dyn TakenOver>, Refusal> {
        let this = self;
        let host = lock(&this.host);
        let Checked { plan, .. } = this.check(&host, std::slice::from_ref(change))?;
        let instance = match plan.add_instances.get(&change.name) {
            Some(instance) => instance.clone(),
            None => host
                .instance(&change.name)
                .ok_or_else(|| Refusal::NotFound(format!("there is no function `{}`", change.name)))?,
        };
        match this.workshop.has(&this.catalog, &instance.image) {
            Ok(true) => {}
            Ok(false) => return Err(this.work(vec![instance.image])),
            Err(reason) => return Err(Refusal::Broken(reason)),
        }
        let taken = host.take_over(&change.name, &instance, &this.catalog).map_err(refused)?;
        Ok(Box::new(Upgraded { controller: this.clone(), taken, change: change.clone() }))
    }
}
