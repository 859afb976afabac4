//! The machine behind the numbers, in one value with a fingerprint.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::sys::cgroup;
use crate::sys::cpu::Cpus;

/// The machine, as far as it matters for a measurement. `null`: not to be learnt here.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Machine {
    /// Equal on machines whose figures may be compared: CPU model, counts, memory, kernel and virtualisation, hashed.
    pub fingerprint: String,
    /// The CPU's own name.
    pub cpu_model: Option<String>,
    /// CPUs that run.
    pub online_cpus: usize,
    /// Numbers of the CPUs that we may run on.
    pub allowed_cpus: Vec<usize>,
    /// CPUs' worth of time that our control groups grant; `null` where they grant all.
    pub quota_cpus: Option<f64>,
    /// Lanes that can compute side by side: the tightest of the three numbers above.
    pub usable_cpus: usize,
    /// CPUs' worth of time that one busy thread for each usable CPU obtained when the run began: below `usable_cpus`
    /// where others are busy or a weight holds us back. `null` where nothing that computes was measured.
    pub obtained_cpus: Option<f64>,
    /// Those of the CPU's features that the workloads may use.
    pub cpu_features: Vec<String>,
    /// Whether several allowed CPUs share one core.
    pub smt: Option<bool>,
    /// The maker of the machine if it is a guest.
    pub virt: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// What the kernel takes the time from; reading any but `tsc` or `arch_sys_counter` is a system call.
    pub clocksource: Option<String>,
    /// Bytes of a page.
    pub page_size: usize,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub thp: Option<String>,
    /// Whether the kernel merges equal pages.
    pub ksm: Option<u64>,
    /// How late a timer may be, in nanoseconds.
    pub timer_slack_ns: Option<u64>,
    /// Control groups: `v1`, `v2`, `hybrid` or `none`.
    pub cgroup_version: String,
    /// Our control group, in the tree that holds the CPU controller.
    pub cgroup_path: Option<String>,
    /// Whether the kernel keeps pressure counters.
    pub psi: bool,
    /// The frequency governor; guests have none.
    pub governor: Option<String>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Swap of the machine, in bytes.
    pub swap_bytes: Option<u64>,
    /// The allocator behind `malloc`.
    pub allocator: String,
    /// MALLOC_ARENA_MAX, if set.
    pub malloc_arena_max: Option<String>,
    /// One, five and fifteen minute load averages.
    pub load_average: Option<[f64; 3]>,
}

impl Machine {
    /// Looks around.
    pub fn read() -> Machine {
        let kinds = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram().with_swap());
        let system = System::new_with_specifics(kinds);
        let cpus = Cpus::read();
        let system = system.ok();
        let cpu_model =
            system.as_ref().and_then(|system| system.cpus().first()).map(|cpu| cpu.brand().trim().to_owned());
        let mut machine = Machine {
            fingerprint: String::new(),
            cpu_model: cpu_model.filter(|name| !name.is_empty()),
            online_cpus: cpus.online,
            usable_cpus: cpus.usable(),
            obtained_cpus: None,
            cpu_features: features(),
            smt: shares_cores(&cpus.allowed),
            allowed_cpus: cpus.allowed,
            quota_cpus: cpus.quota,
            virt: guest_of(),
            kernel: System::kernel_version().ok(),
            clocksource: word("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            page_size: rustix::param::page_size(),
            thp: word("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|text| chosen(&text)),
            ksm: word("/sys/kernel/mm/ksm/run").and_then(|text| text.parse().ok()),
            timer_slack_ns: word("/proc/self/timerslack_ns").and_then(|text| text.parse().ok()),
            cgroup_version: cgroup::version(Path::new("/")).name().to_owned(),
            cgroup_path: cgroup::own_path(Path::new("/")),
            psi: Path::new("/proc/pressure/cpu").exists(),
            governor: word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            memory_bytes: system.as_ref().map(System::total_memory),
            swap_bytes: system.as_ref().map(System::total_swap),
            allocator: "system".to_owned(),
            malloc_arena_max: std::env::var("MALLOC_ARENA_MAX").ok(),
            load_average: word("/proc/loadavg").and_then(|text| loads(&text)),
        };
        machine.fingerprint = machine.hash();
        machine
    }

    fn hash(&self) -> String {
        let facts = format!(
            "{:?} {} {:?} {:?} {:?} {:?} {:?}",
            self.cpu_model,
            self.online_cpus,
            self.allowed_cpus,
            self.quota_cpus,
            self.memory_bytes,
            self.kernel,
            self.virt
        );
        Sha256::digest(facts.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn word(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// `[madvise]` of `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn loads(text: &str) -> Option<[f64; 3]> {
    let mut words = text.split(' ').map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

/// The first CPU's flags, in the kernel's words.
fn flags() -> Vec<String> {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    line.unwrap_or_default().split_ascii_whitespace().skip(2).map(str::to_owned).collect()
}

fn features() -> Vec<String> {
    let ours = ["sha_ni", "avx2", "avx512f", "sha2", "sse4_1", "ssse3"];
    flags().into_iter().filter(|flag| ours.contains(&flag.as_str())).collect()
}

fn guest_of() -> Option<String> {
    let is_guest = flags().iter().any(|flag| flag == "hypervisor");
    is_guest.then(|| word("/sys/class/dmi/id/sys_vendor").unwrap_or_else(|| "unknown".to_owned()))
}

fn shares_cores(allowed: &[usize]) -> Option<bool> {
    let siblings =
        |cpu: &usize| word(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
    let lists: Option<Vec<String>> = allowed.iter().map(siblings).collect();
    let mut lists = lists?;
    lists.sort();
    Some(lists.windows(2).any(|pair| pair[0] == pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described_and_its_fingerprint_holds_still() {
        let machine = Machine::read();
        assert_eq!(machine.fingerprint.len(), 16);
        assert_eq!(machine.fingerprint, Machine::read().fingerprint);
        assert!(machine.memory_bytes > Some(0) && machine.page_size >= 4096 && machine.usable_cpus >= 1);
    }

    #[test]
    fn the_kernels_spelling_of_a_choice_is_understood() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(loads("0.18 0.06 0.02 2/79 2122"), Some([0.18, 0.06, 0.02]));
    }
}
