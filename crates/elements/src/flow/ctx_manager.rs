use crate::prelude::*;

/// Passes packets to the CTXDispatchers behind it.
///
/// In FastClick it merges the rules of all CTXDispatchers behind it into one classifier. Here each
/// CTXDispatcher classifies, and the optimizer joins CTXDispatchers that follow one another. Elements that
/// keep state for each flow need a FlowIPManager.
///
/// # Arguments
/// - `AGGCACHE`, `CACHESIZE`, `CACHERINGSIZE`, `BUILDER`, `EARLYDROP`, `VERBOSE` and others:
///   accepted and ignored.
///
/// # Example
/// ```click
/// FromDump(in.pcap) -> CTXManager(AGGCACHE false) -> d :: CTXDispatcher(12/0800, 12/0806, -);
/// d[0] -> Discard; d[1] -> Discard; d[2] -> Discard;
/// ```
///
/// # See also
/// CTXDispatcher, FlowIPManager
#[derive(Element)]
#[element(
    name = "CTXManager",
    ports = "1/1",
    segments,
    raw,
    alias("FlowClassifier")
)]
pub struct CtxManager;

/// FastClick's arguments.
const IGNORED: [&str; 15] = [
    "RESERVE",
    "AGGCACHE",
    "CACHESIZE",
    "CACHERINGSIZE",
    "BUILDER",
    "AGGTRUST",
    "VERBOSE",
    "VERBOSE_FCB",
    "RELEASE",
    "CONTEXT",
    "CLEAN_TIMER",
    "EARLYDROP",
    "ORDERED",
    "NOCUT",
    "OPTIMIZE",
];

impl Element for CtxManager {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.ignore(&IGNORED)
    }

    /// It never does anything.
    #[inline]
    fn effects(&self) -> Effects {
        Effects::of_observer()
    }
}
