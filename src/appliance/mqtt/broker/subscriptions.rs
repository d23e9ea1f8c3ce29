// SPDX-License-Identifier: Apache-2.0
//! Which clients a message is for.

use std::collections::HashMap;
use std::sync::Arc;

use crate::topic;
use crate::{QoS, SubscribeOptions};

/// Subscribers by their filters. Those without wildcards are found by the topic; the others are tried one by one.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    exact: Filters,
    wild: Filters,
}

type Filters = HashMap<Arc<str>, HashMap<Arc<str>, SubscribeOptions>>;

/// A client that gets a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub client: Arc<str>,
    /// Highest of its subscriptions that match.
    pub qos: QoS,
    /// Of the same subscriptions: one wants the retain flag as it was published.
    pub retain_as_published: bool,
}

impl Subscriptions {
    /// Returns whether it is a new one; else its options are replaced.
    pub fn insert(
        &mut self,
        filter: &Arc<str>,
        client: &Arc<str>,
        options: SubscribeOptions,
    ) -> bool {
        let clients = self.filters(filter).entry(Arc::clone(filter)).or_default();
        clients.insert(Arc::clone(client), options).is_none()
    }

    pub fn remove(&mut self, filter: &str, client: &str) {
        let filters = self.filters(filter);
        if let Some(clients) = filters.get_mut(filter) {
            clients.remove(client);
            if clients.is_empty() {
                filters.remove(filter);
            }
        }
    }

    /// Adds the clients that get a message of `publisher` on `topic` to `targets`, each once.
    pub fn find(&self, topic: &str, publisher: Option<&str>, targets: &mut Vec<Target>) {
        let wild = self.wild.iter();
        let wild = wild.filter(|(filter, _)| topic::matches(filter, topic));
        let exact = self.exact.get(topic).into_iter();
        for clients in exact.chain(wild.map(|(_, clients)| clients)) {
            for (client, options) in clients {
                if options.no_local && publisher == Some(&**client) {
                    continue;
                }
                // There are few, as a rule.
                match targets.iter_mut().find(|target| target.client == *client) {
                    Some(target) => {
                        target.qos = target.qos.max(options.qos);
                        target.retain_as_published |= options.retain_as_published;
                    }
                    None => targets.push(Target {
                        client: Arc::clone(client),
                        qos: options.qos,
                        retain_as_published: options.retain_as_published,
                    }),
                }
            }
        }
    }

    fn filters(&mut self, filter: &str) -> &mut Filters {
        match topic::has_wildcard(filter) {
            true => &mut self.wild,
            false => &mut self.exact,
        }
    }
}
