//! The start: all that the store says, at once.

use super::change::Making;
use super::controller::{Controller, lock};
use super::refusal::{faults_of, is_about};
use api::{Fault, Kind, ObjectName};
use api_server::{Notices, ObjectChange};
use std::sync::Arc;

impl Controller {
    /// Starts all objects that can be; what was left out, and why.
    pub(super) fn begin(
        self: &Arc<Self>,
        objects: Vec<ObjectChange>,
        notices: Notices,
    ) -> Vec<(ObjectName, Fault)> {
        // It is called once.
        let _ = self.told.sink.notices.set(notices);
        let functions = objects.iter().filter(|object| object.kind == Kind::Function);
        lock(&self.told.sink.kept).retain(&functions.map(|object| object.name.as_str()).collect());
        let mut faults = Vec::new();
        let mut wanted = objects;
        // Each time round, whatever is told to be wrong is left out.
        loop {
            let refusal = match self.make(&wanted, Making::Waiting) {
                Ok(ready) => {
                    self.carry_out(ready, wanted);
                    break;
                }
                Err(refusal) => refusal,
            };
            let told = faults_of(refusal);
            let before = wanted.len();
            for fault in told {
                let culprit = wanted.iter().position(|object| is_about(&fault, object));
                // A fault of the whole belongs to no object in particular: the last kinds go first.
                let culprit = culprit.or_else(|| wanted.len().checked_sub(1));
                if let Some(at) = culprit {
                    let object = wanted.remove(at);
                    faults.push((ObjectName::new(object.kind, object.name), fault));
                }
            }
            if wanted.len() == before {
                break;
            }
        }
        let told = faults.iter().map(|(object, fault)| (object.clone(), fault.to_string()));
        lock(&self.left_out).extend(told);
        if let Err(error) = self.host.start() {
            let workers = ObjectName::new(Kind::Workers, "workers");
            let message = format!("the workers' threads: {error}");
            faults.push((workers, Fault::new("workers", message)));
        }
        if let Err(reason) = self.pin_needed() {
            console::error().line(&format!("the folder of images: {reason}"));
        }
        if let Err(reason) = self.shelf.retain_containers(&self.desired()) {
            console::error().line(&format!("the folder of containers' images: {reason}"));
        }
        if let Err(error) = self.keep_containers() {
            console::error().line(&format!("containers: {error}"));
        }
        self.look_after();
        faults
    }
}
