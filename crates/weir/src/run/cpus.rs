//! `--cpus` and `--pin`: how many CPUs a guest has, and where they run.

use std::str::FromStr;

use abi::CPUS_MAX;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::foreground::RunError;

/// How many CPUs a guest has, from 1 to [`CPUS_MAX`].
pub fn count(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count) if (1..=CPUS_MAX).contains(&count) => Ok(count),
        Err(_) if CpuList::from_str(text).is_ok() => Err(format!(
            "‘{text}’ is a list of CPUs, not a number of vCPUs: to run vCPUs on them, write --pin {text}"
        )),
        _ => Err(format!("a guest has 1 to {CPUS_MAX} vCPUs, not ‘{text}’")),
    }
}

/// CPUs of this machine, as taskset and cpusets write them: `0,1` or `0-3,6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// Their numbers.
    pub fn into_cpus(self) -> Vec<usize> {
        self.0
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuList, String> {
        let wrong = || {
            format!("‘{text}’ is not a list of CPUs: write numbers and ranges, as in 0,1 or 2-5")
        };
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last || last >= CpuSet::MAX_CPU {
                return Err(match first > last {
                    true => wrong(),
                    false => format!("there is no CPU {last}"),
                });
            }
            cpus.extend(first..=last);
        }
        Ok(CpuList(cpus))
    }
}

/// The number of a guest's CPUs, and the machine's CPUs that they are pinned to, by the options.
pub fn choose(
    count: Option<usize>,
    pins: Option<&CpuList>,
) -> Result<(usize, Vec<usize>), RunError> {
    let pins = pins.map_or(Vec::new(), |list| list.0.clone());
    let count = match count {
        Some(count) => count,
        None => pins.len().max(1),
    };
    if count > CPUS_MAX || pins.len() > count {
        return Err(RunError::Pins(pins.len(), count.min(CPUS_MAX)));
    }
    let allowed = sched_getaffinity(None);
    let is_one = |cpu: usize| allowed.as_ref().is_ok_and(|set| set.is_set(cpu));
    match pins.iter().find(|cpu| !is_one(**cpu)) {
        Some(missing) => Err(RunError::Cpu(*missing)),
        None => Ok((count, pins)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<Vec<usize>, String> {
        text.parse::<CpuList>().map(|list| list.0)
    }

    #[test]
    fn lists_are_as_tasksets() {
        assert_eq!(list("0,1"), Ok(vec![0, 1]));
        assert_eq!(list("3"), Ok(vec![3]));
        assert_eq!(list("2-4, 0"), Ok(vec![2, 3, 4, 0]));
        for wrong in ["", "a", "1,", "4-2", "1-", "-1", "0-99999999999"] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_are_bounded_and_lists_are_told_apart() {
        assert_eq!(count("2"), Ok(2));
        for wrong in ["0", "9", "x"] {
            assert!(
                count(wrong).unwrap_err().contains("1 to 8 vCPUs"),
                "{wrong}"
            );
        }
        assert!(count("0,1").unwrap_err().contains("--pin 0,1"));
    }

    #[test]
    fn a_list_says_how_many_unless_that_is_given() {
        let zero = CpuList(vec![0]);
        assert_eq!(choose(None, None).unwrap(), (1, vec![]));
        assert_eq!(choose(Some(3), None).unwrap(), (3, vec![]));
        assert_eq!(choose(None, Some(&zero)).unwrap(), (1, vec![0]));
        assert_eq!(choose(Some(2), Some(&zero)).unwrap(), (2, vec![0]));
        assert_eq!(choose(None, Some(&CpuList(vec![0, 0]))).unwrap().0, 2);
        let error = choose(Some(1), Some(&CpuList(vec![0, 0]))).unwrap_err();
        assert!(error.to_string().contains("--pin names 2 CPUs"), "{error}");
        assert!(choose(None, Some(&CpuList(vec![0; 9]))).is_err());
    }
}
