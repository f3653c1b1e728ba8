//! Retries: the delay before the next attempt, and the context key that counts them (rule Y4).

use std::time::Duration;

use orchestra_graph::Stage;
use orchestra_graph::table::Retry;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::id::EffectId;

/// The maximum delay that a server may request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Returns the delay after a failed attempt, in whole milliseconds. The same seed and attempt always produce the same
/// delay.
pub(crate) fn delay(retry: &Retry, seed: u64, failed: &EffectId, retry_after: Option<Duration>) -> Duration {
    if let Some(requested) = retry_after {
        return requested.min(MAX_RETRY_AFTER);
    }
    let delay = retry.delay(failed.attempt);
    let factor = if retry.jitter { jitter(seed, failed) } else { 1.0 };
    // The float-to-integer cast saturates.
    Duration::from_millis((delay.as_secs_f64() * factor * 1_000.0).round() as u64)
}

/// Returns the context key of a stage's retry count (Attractor 5.1).
pub(crate) fn count_key(stage: Stage<'_>) -> String {
    ["internal.retry_count.", stage.id()].concat()
}

/// Returns a factor from 0.5 up to 1.5. It is a function of the attempt's position in the run, not the next number of a
/// sequence, so that neither a resume nor the order in which branches fail can change it.
fn jitter(seed: u64, id: &EffectId) -> f64 {
    let steps = id.branch.steps().iter().flat_map(|step| {
        let numbers = [step.fan_out.0, step.visit, step.attempt, step.edge.0];
        numbers.into_iter().chain(step.item).map(u64::from)
    });
    let attempt = [id.restart, id.node.0, id.visit, id.attempt].map(u64::from);
    let mix = |word| SplitMix64::seed_from_u64(word).next_u64();
    let mixed = attempt
        .into_iter()
        .chain(steps)
        .fold(mix(seed), |hash, word| mix(hash ^ word));
    // A float holds 53 bits, so use the upper 53.
    0.5 + (mixed >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use orchestra_graph::NodeIndex;

    use super::*;
    use crate::id::BranchPath;

    fn attempt(node: u32, attempt: u32) -> EffectId {
        EffectId {
            restart: 0,
            branch: BranchPath::default(),
            node: NodeIndex(node),
            visit: 1,
            attempt,
        }
    }

    fn exact(name: &str) -> Vec<u128> {
        let policy = Retry {
            jitter: false,
            ..Retry::policy(name)
        };
        let millis = |nth| delay(&policy, 0, &attempt(0, nth), None).as_millis();
        (1..=5).map(millis).collect()
    }

    #[test]
    fn the_presets_have_the_figures_of_the_specification() {
        assert_eq!(exact("standard"), [200, 400, 800, 1_600, 3_200]);
        assert_eq!(exact("aggressive"), [500, 1_000, 2_000, 4_000, 8_000]);
        assert_eq!(exact("linear"), [500; 5]);
        assert_eq!(exact("patient"), [2_000, 6_000, 18_000, 54_000, 60_000]);
        assert_eq!(exact("none"), [0; 5]);
        let attempts =
            ["none", "standard", "aggressive", "linear", "patient"].map(|name| Retry::policy(name).attempts);
        assert_eq!(attempts, [1, 5, 5, 3, 3]);
    }

    #[test]
    fn jitter_stays_within_half_and_uses_all_of_it() {
        let delays: Vec<u128> = (0..2_000)
            .map(|node| delay(&Retry::ONCE, 7, &attempt(node, 1), None).as_millis())
            .collect();
        assert!(delays.iter().all(|delay| (100..=300).contains(delay)));
        assert!(delays.iter().any(|delay| *delay < 105) && delays.iter().any(|delay| *delay > 295));
        let mean = delays.iter().sum::<u128>() / 2_000;
        assert!((195..=205).contains(&mean), "{mean}");
    }

    #[test]
    fn the_same_attempt_of_the_same_seed_waits_as_long() {
        let of = |seed, nth| delay(&Retry::ONCE, seed, &attempt(3, nth), None);
        assert_eq!(of(1, 2), of(1, 2));
        assert_ne!(of(1, 2), of(2, 2));
    }

    #[test]
    fn the_delay_of_an_attempt_is_the_same_in_every_version() {
        let delays =
            [0, 1, 2, 3, 4, 5].map(|node| delay(&Retry::ONCE, 7, &attempt(node, 1), None).as_millis());
        assert_eq!(delays, [289, 125, 284, 149, 255, 218]);
    }

    #[test]
    fn a_server_decides_the_delay_up_to_a_minute() {
        let after = |seconds| {
            let wanted = Some(Duration::from_secs(seconds));
            delay(&Retry::ONCE, 0, &attempt(0, 1), wanted).as_secs()
        };
        assert_eq!((after(0), after(7), after(86_400)), (0, 7, 60));
    }
}
